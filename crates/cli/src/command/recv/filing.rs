//! Payloads into files: whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;

use dhow_bundle::{BundleId, EndpointId};

use crate::digest::Sha256;
use crate::interrupt::UnfinishedFile;

/// Octets copied at a time.
const PIECE_OCTETS: usize = 256 * 1024;

/// Longest readable part of a file name made from a source that is no `ipn` endpoint; file systems take
/// 255 octets.
const READABLE_OCTETS: usize = 100;

/// Copies a payload, which `digest` sees too, and returns its length.
pub fn copy(
    payload: &mut impl Read,
    out: &mut impl Write,
    mut digest: Option<&mut Sha256>,
) -> Result<u64, CopyError> {
    let mut piece = vec![0_u8; PIECE_OCTETS];
    let mut octets = 0_u64;
    loop {
        let length = match payload.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(CopyError::Incoming),
        };
        let part = piece.get(..length).unwrap_or_default();
        if let Some(digest) = &mut digest {
            digest.update(part);
        }
        out.write_all(part).map_err(CopyError::Outgoing)?;
        octets += u64::try_from(length).unwrap_or_default();
    }
    out.flush().map_err(CopyError::Outgoing)?;
    Ok(octets)
}

/// A copy that failed, by the end that did.
#[derive(Debug)]
pub enum CopyError {
    /// The payload did not come whole.
    Incoming,
    /// The copy could not be written.
    Outgoing(io::Error),
}

/// A payload that is written but has not its name yet.
#[derive(Debug)]
pub struct WrittenFile {
    unfinished: UnfinishedFile,
    file: File,
    path: PathBuf,
}

impl WrittenFile {
    /// Writes a payload, which `digest` sees too, beside the place where it will be; returns its length too.
    pub fn write(
        directory: &Path,
        id: &BundleId,
        payload: &mut impl Read,
        digest: Option<&mut Sha256>,
    ) -> Result<(Self, u64), CopyError> {
        let name = file_name(id);
        let partial = directory.join(format!(".{name}.{}.part", std::process::id()));
        let file = File::create(&partial).map_err(CopyError::Outgoing)?;
        let unfinished = UnfinishedFile::new(partial);
        let mut written = Self {
            unfinished,
            file,
            path: directory.join(name),
        };
        let octets = copy(payload, &mut written.file, digest)?;
        Ok((written, octets))
    }

    /// The file, under the name that it has now.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its name. After [`sync_files`], so that a file with its name is whole, whatever happens; the
    /// name itself is durable after [`sync_directory`].
    pub fn name(self) -> io::Result<PathBuf> {
        fs::rename(self.unfinished.path(), &self.path)?;
        self.unfinished.keep();
        Ok(self.path)
    }
}

/// Flushes at a time: those that wait together share the file system's commits, where one after the other
/// each would wait for its own.
const FLUSHES: usize = 32;

/// Makes several files durable, each by `sync`: [`File::sync_data`] for content alone, [`File::sync_all`] for times and permissions too.
pub fn sync_files(files: &[&File], sync: fn(&File) -> io::Result<()>) -> io::Result<()> {
    let sync = |files: &[&File]| files.iter().try_for_each(|file| sync(file));
    thread::scope(|scope| {
        let flushes: Vec<_> = files
            .chunks(files.len().div_ceil(FLUSHES).max(1))
            .map(|part| scope.spawn(move || sync(part)))
            .collect();
        flushes.into_iter().try_for_each(|flush| {
            flush
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a flush failed")))
        })
    })
}

/// Makes the names in a directory durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// A name that tells bundles apart, cannot leave its directory, and is the same each time a bundle comes.
///
/// Names of one source's bundles sort in the order of their creation: the sequence number has 10 digits, as
/// many as 10,000 million bundles of one millisecond need.
pub fn file_name(id: &BundleId) -> String {
    let text = id.to_string();
    let creation = format!(
        "{}-{:010}",
        id.creation.time.as_millis(),
        id.creation.sequence
    );
    let source = id.source.to_string();
    if matches!(id.source, EndpointId::Ipn { .. }) {
        let fragment = text.split_once('@').map_or_else(String::new, |(_, place)| {
            format!("-{}", place.replace('+', "-"))
        });
        return format!("{}-{creation}{fragment}", source.replace(':', "-"));
    }
    // Names of dtn nodes and services are longer and freer: what is not safe in a file name becomes a
    // hyphen, and a digest of the whole identity keeps names apart that would become the same.
    let readable: String = source
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() || "._".contains(character) {
                character
            } else {
                '-'
            }
        })
        .take(READABLE_OCTETS)
        .collect();
    let digest = Sha256::of(text.as_bytes());
    format!(
        "{}-{creation}-{}",
        readable.trim_start_matches('.'),
        digest.get(..16).unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use dhow_bundle::{CreationTimestamp, DtnTime, FragmentRange};

    use super::*;

    fn id(source: &str) -> BundleId {
        BundleId {
            source: source.parse().unwrap(),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(812_345_678_901),
                sequence: 3,
            },
            fragment: None,
        }
    }

    #[test]
    fn names_are_readable_and_stay_in_their_directory() {
        assert_eq!(file_name(&id("ipn:1.5")), "ipn-1.5-812345678901-0000000003");
        let hostile = file_name(&id("dtn://a/../../etc/passwd"));
        assert!(
            !hostile.contains('/') && !hostile.starts_with('.'),
            "{hostile}"
        );
    }

    #[test]
    fn names_of_one_source_sort_in_the_order_of_creation() {
        let long = format!("dtn://{}/a", "x".repeat(200));
        for source in ["ipn:1.5", "dtn://a/b", &long] {
            let names: Vec<String> = [2, 9, 10, 99, 1000]
                .map(|sequence| {
                    let mut id = id(source);
                    id.creation.sequence = sequence;
                    file_name(&id)
                })
                .to_vec();
            assert!(names.is_sorted(), "{names:?}");
        }
    }

    #[test]
    fn fragments_of_one_bundle_get_different_names() {
        let names = [0, 7].map(|offset| {
            let mut id = id("ipn:1.5");
            id.fragment = Some(FragmentRange { offset, length: 7 });
            file_name(&id)
        });
        assert_eq!(names[1], "ipn-1.5-812345678901-0000000003-7-7");
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn sources_that_read_alike_get_different_names() {
        assert_ne!(file_name(&id("dtn://a/b-c")), file_name(&id("dtn://a/b/c")));
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let mut payload = b"half".chain(Broken);
        assert!(matches!(
            WrittenFile::write(directory.path(), &id("ipn:1.5"), &mut payload, None),
            Err(CopyError::Incoming)
        ));
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            0,
            "nothing is left of what came in part"
        );

        let mut digest = Sha256::default();
        let (written, octets) = WrittenFile::write(
            directory.path(),
            &id("ipn:1.5"),
            &mut &b"abc"[..],
            Some(&mut digest),
        )
        .unwrap();
        assert_eq!((octets, digest.hexadecimal()), (3, Sha256::of(b"abc")));
        sync_files(&[written.file()], File::sync_data).unwrap();
        let path = written.name().unwrap();
        assert_eq!(fs::read(path).unwrap(), b"abc");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
