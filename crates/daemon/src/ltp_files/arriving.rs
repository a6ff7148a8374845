//! A file that comes: without a name until it is whole and durable.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use rustix::io::{Errno, pwritev};

/// Pieces of one write (`IOV_MAX`).
const PIECES_PER_WRITE: usize = 1_024;

/// Octets that are gathered for a write.
const GATHERED_OCTETS: u64 = 1 << 20;

/// Names that are tried, where files have them already.
const NAMES: u32 = 10_000;

/// A file under construction. It is gone when this is dropped, and on most file systems also when the program dies.
#[derive(Debug)]
pub(super) struct UnnamedFile {
    file: Arc<File>,
    directory: PathBuf,
    /// The file's name while it is under construction, where the file system has no files without names.
    partial: Option<PathBuf>,
}

impl UnnamedFile {
    /// A file in a directory; `name` is that which it is to have.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn create(directory: &Path, name: &str) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(directory, flags, Mode::from_bits_truncate(0o666)) {
            Ok(file) => Ok(Self {
                file: Arc::new(file.into()),
                directory: directory.to_owned(),
                partial: None,
            }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                Self::create_partial(directory, name)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn create_partial(directory: &Path, name: &str) -> io::Result<Self> {
        let partial = directory.join(format!(".{name}.{}.part", std::process::id()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&partial)?;
        Ok(Self {
            file: Arc::new(file),
            directory: directory.to_owned(),
            partial: Some(partial),
        })
    }

    /// The file.
    pub(super) const fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Give it its name, or that with a number behind it where there is such a file. To be called once its octets are durable;
    /// the name is when its directory is.
    ///
    /// # Errors
    /// When the system does not, or all names are taken.
    pub(super) fn name(self, name: &str) -> io::Result<PathBuf> {
        for count in 1..=NAMES {
            let path = self.directory.join(match count {
                1 => name.to_owned(),
                _ => format!("{name}-{count}"),
            });
            match self.link(&path) {
                Ok(()) => {
                    // Not every file system logs what it syncs of a file without a name.
                    self.file.sync_all()?;
                    return Ok(path);
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn link(&self, path: &Path) -> Result<(), Errno> {
        let (from, flags) = match &self.partial {
            Some(partial) => (partial.clone(), AtFlags::empty()),
            None => (
                format!("/proc/self/fd/{}", self.file.as_raw_fd()).into(),
                AtFlags::SYMLINK_FOLLOW,
            ),
        };
        linkat(CWD, &from, CWD, path, flags)
    }
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // It may be gone already; no more can be done about it.
            let _ = std::fs::remove_file(partial);
        }
    }
}

/// The octets of a file that have come. Octets that follow each other are written together.
#[derive(Debug)]
pub(super) struct ArrivingFile {
    unnamed: UnnamedFile,
    gathered: Vec<Bytes>,
    /// The offset of the first gathered octet, and the one behind the last.
    range: (u64, u64),
    /// Octets written.
    pub(super) written: u64,
    /// Octets of those written since the file was last given to be synced.
    pub(super) unsynced: u64,
    /// Whether the file is being synced.
    pub(super) is_syncing: bool,
}

impl ArrivingFile {
    pub(super) const fn new(unnamed: UnnamedFile) -> Self {
        Self {
            unnamed,
            gathered: Vec::new(),
            range: (0, 0),
            written: 0,
            unsynced: 0,
            is_syncing: false,
        }
    }

    /// The file.
    pub(super) const fn file(&self) -> &Arc<File> {
        self.unnamed.file()
    }

    /// The file, of which nothing more comes. Octets that were not written are lost.
    pub(super) fn into_unnamed(self) -> UnnamedFile {
        self.unnamed
    }

    /// Nothing waits to be written.
    pub(super) const fn is_written(&self) -> bool {
        self.gathered.is_empty()
    }

    /// Take octets at an offset.
    ///
    /// # Errors
    /// When they, or those before, cannot be written.
    pub(super) fn take(&mut self, offset: u64, octets: Bytes) -> io::Result<()> {
        let length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        let (start, end) = self.range;
        let is_full =
            self.gathered.len() >= PIECES_PER_WRITE || end.saturating_sub(start) >= GATHERED_OCTETS;
        if offset != end || is_full {
            self.write()?;
            self.range = (offset, offset);
        }
        self.range.1 = self.range.1.saturating_add(length);
        self.gathered.push(octets);
        Ok(())
    }

    /// Write what is gathered.
    ///
    /// # Errors
    /// When the system does not, as when there is no room. Gathered octets are gone then.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        let mut slices: Vec<_> = gathered.iter().map(|it| IoSlice::new(it)).collect();
        let mut slices = &mut *slices;
        let (mut at, end) = self.range;
        self.range.0 = end;
        while !slices.is_empty() {
            match pwritev(self.file(), slices, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    let octets = u64::try_from(count).unwrap_or(u64::MAX);
                    at = at.saturating_add(octets);
                    self.written = self.written.saturating_add(octets);
                    self.unsynced = self.unsynced.saturating_add(octets);
                    IoSlice::advance_slices(&mut slices, count);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.gathered = gathered;
        self.gathered.clear();
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::as_conversions, reason = "small numbers")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
        #[test]
        fn pieces_in_any_order_are_the_file(
            lengths in proptest::collection::vec(1_usize..3_000, 1..60),
            order in any::<u64>(),
        ) {
            let whole: Vec<u8> = (0..lengths.iter().sum::<usize>()).map(|at| (at * 7 % 251) as u8).collect();
            let mut pieces: Vec<_> = lengths.iter().scan(0, |at, length| {
                let from = *at;
                *at += length;
                Some(from..*at)
            }).collect();
            for at in 0..pieces.len() {
                let other = (order.rotate_left(at as u32) % pieces.len() as u64) as usize;
                if order.count_ones() % 2 == 0 { pieces.swap(at, other); }
            }
            let directory = tempfile::tempdir().unwrap();
            let unnamed = UnnamedFile::create(directory.path(), "a").unwrap();
            let mut file = ArrivingFile::new(unnamed);
            for piece in pieces {
                file.take(piece.start as u64, Bytes::copy_from_slice(&whole[piece])).unwrap();
            }
            file.write().unwrap();
            prop_assert_eq!(file.written, whole.len() as u64);
            let path = file.into_unnamed().name("a").unwrap();
            prop_assert!(std::fs::read(path).unwrap() == whole);
        }
    }

    #[test]
    fn a_file_has_a_name_only_when_it_is_given_and_replaces_no_other() {
        type Create = fn(&Path, &str) -> io::Result<UnnamedFile>;
        for create in [UnnamedFile::create as Create, UnnamedFile::create_partial] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path();
            drop(create(path, "a").unwrap());
            assert_eq!(
                names(path),
                [""; 0],
                "nothing is left of one that is dropped"
            );
            for (octets, name) in [(b"one", "a"), (b"two", "a-2"), (b"six", "a-3")] {
                let mut file = ArrivingFile::new(create(path, "a").unwrap());
                file.take(0, Bytes::from_static(octets)).unwrap();
                file.write().unwrap();
                let named = file.into_unnamed().name("a").unwrap();
                assert_eq!(named, path.join(name));
                assert_eq!(std::fs::read(named).unwrap(), octets);
            }
            assert_eq!(names(path), ["a", "a-2", "a-3"]);
        }
    }
}
