//! Files that are sent: their octets are read when they are to leave, and again when they are to leave again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::{Extent, Piece};
use dhow_link::Batch;
use rustix::fs::{Mode, OFlags};

use super::MAX_FILE_OCTETS;

/// Files that are open, one behind the other in one space of offsets: an extent in it is one of a file.
#[derive(Debug, Default)]
pub(super) struct LeavingFiles {
    open: BTreeMap<u64, Leaving>,
    buffer: BytesMut,
    runs: Vec<Extent>,
}

/// A file that leaves.
#[derive(Debug)]
struct Leaving {
    file: File,
    /// The state in which all of it is sent; `None` where it is being written on purpose.
    state: Option<State>,
}

/// The part of a file's description that changes when its octets do: their number, and the time of the last change, in seconds and nanoseconds.
type State = (u64, i64, i64);

/// The reason for which a file cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The system does not give the file.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The path is a directory, a device or the like.
    #[error("it is not a regular file")]
    NotAFile,
    /// The file has no octets.
    #[error("it is empty, and a block has at least one octet")]
    Empty,
    /// The file is too long.
    #[error("it is longer than a block may be (1 TiB)")]
    TooLong,
    /// The file has become shorter.
    #[error("it has become shorter while it was sent")]
    Cut,
    /// The file has other octets than before.
    #[error("it was changed while it was sent")]
    Changed,
}

impl Unreadable {
    /// A remedy.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::System(error) => match error.kind() {
                io::ErrorKind::NotFound => "look at its name: it is read where the command runs",
                io::ErrorKind::InvalidFilename | io::ErrorKind::NotADirectory => {
                    "look at its name: no file can have it"
                }
                io::ErrorKind::PermissionDenied => {
                    "it must be readable for this user: ls -l shows for whom it is"
                }
                _ => "look at the disk that it lies on",
            },
            Self::NotAFile => "a directory is sent as one file: tar cf files.tar DIRECTORY",
            Self::Empty => "leave it out, or put something into it",
            Self::TooLong => "cut it: split -b 512G FILE",
            Self::Cut | Self::Changed => "send a copy that nothing writes to",
        }
    }
}

/// A file whose octets could not be read, or are not those that it had.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) number: u64,
    pub(super) why: Unreadable,
}

/// The length of a file that can be sent, and the file.
///
/// # Errors
/// It is none.
pub fn open(path: &Path) -> Result<(File, u64), Unreadable> {
    // The opening of a pipe would wait for its other end.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Unreadable::NotAFile);
    }
    match about.len() {
        0 => Err(Unreadable::Empty),
        octets if octets > MAX_FILE_OCTETS => Err(Unreadable::TooLong),
        octets => Ok((file, octets)),
    }
}

fn state(file: &File) -> io::Result<State> {
    let about = file.metadata()?;
    Ok((about.len(), about.mtime(), about.mtime_nsec()))
}

/// The number of the file of which an extent is.
const fn number_of(extent: &Extent) -> u64 {
    extent.offset / MAX_FILE_OCTETS
}

/// Offset of a file in the space of all.
pub(super) const fn base(number: u64) -> u64 {
    number.saturating_mul(MAX_FILE_OCTETS)
}

impl LeavingFiles {
    /// Add a file, numbered from zero below 2^23, with so many octets; the extent of it. It may change meanwhile.
    pub(super) fn add(&mut self, number: u64, file: File, octets: u64) -> Extent {
        self.insert(number, file, octets, None)
    }

    /// Add a file that is sent as it is now: once it has changed, it cannot be read any more.
    pub(super) fn add_as_it_is(&mut self, number: u64, file: File, octets: u64) -> Extent {
        // A file that cannot be described is told of when it is read.
        let state = state(&file).map_or((octets, 0, 0), |(_, s, ns)| (octets, s, ns));
        self.insert(number, file, octets, Some(state))
    }

    fn insert(&mut self, number: u64, file: File, length: u64, state: Option<State>) -> Extent {
        self.open.insert(number, Leaving { file, state });
        Extent {
            offset: base(number),
            length,
        }
    }

    /// Nobody needs a file any more.
    pub(super) fn remove(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// Whether a file is open.
    pub(super) fn has(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// Files that are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// The octets of all pieces of a batch, in order, in `out`. Extents that follow each other are read together. Datagrams with octets of a
    /// file that cannot be read, or has changed, are taken out of the batch: nothing leaves of another state than the first. These files come back.
    pub(super) fn read(&mut self, batch: &mut Batch, out: &mut Vec<Bytes>) -> Vec<Failed> {
        self.find_runs(batch);
        let total = self.runs.iter().map(|run| run.length);
        let total = usize::try_from(total.sum::<u64>()).unwrap_or(usize::MAX);
        // Once nobody has octets of it any more, its room is used again.
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let _ = buffer.try_reclaim(total);
        buffer.resize(total, 0);
        let failed = self.read_runs(&mut buffer);
        let mut octets = buffer.split().freeze();
        self.buffer = buffer;
        let is_failed = |piece: &Piece| match piece {
            Piece::Octets(_) => false,
            Piece::Extent(extent) => failed.iter().any(|it| it.number == number_of(extent)),
        };
        let mut stays = Batch::new();
        for datagram in batch.datagrams() {
            let is_dropped = datagram.iter().any(is_failed);
            for piece in datagram {
                let octets = match piece {
                    Piece::Octets(octets) => octets.clone(),
                    Piece::Extent(extent) => {
                        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
                        octets.split_to(length.min(octets.len()))
                    }
                };
                if is_dropped {
                    continue;
                }
                out.push(octets);
                if !failed.is_empty() {
                    stays.push(piece.clone());
                }
            }
            stays.end_datagram();
        }
        if !failed.is_empty() {
            *batch = stays;
        }
        failed
    }

    /// Read all runs, one behind the other; the files of which one could not be read, or which have changed.
    fn read_runs(&self, mut rest: &mut [u8]) -> Vec<Failed> {
        let mut failed: Vec<Failed> = Vec::new();
        for run in &self.runs {
            let length = usize::try_from(run.length).unwrap_or(usize::MAX);
            let (part, behind) = rest.split_at_mut(length.min(rest.len()));
            rest = behind;
            let number = number_of(run);
            if failed.iter().any(|it| it.number == number) {
                continue;
            }
            let read = match self.open.get(&number) {
                Some(leaving) => leaving
                    .file
                    .read_exact_at(part, run.offset % MAX_FILE_OCTETS),
                None => Err(io::ErrorKind::NotFound.into()),
            };
            if let Err(error) = read {
                let why = match error.kind() {
                    io::ErrorKind::UnexpectedEof => Unreadable::Cut,
                    _ => error.into(),
                };
                failed.push(Failed { number, why });
            }
        }
        // The octets were read before, so they are of the state that is seen now.
        let mut last = None;
        for number in self.runs.iter().map(number_of) {
            let is_known =
                last.replace(number) == Some(number) || failed.iter().any(|it| it.number == number);
            if let Some(Err(why)) = (!is_known).then(|| self.check_state(number)) {
                failed.push(Failed { number, why });
            }
        }
        failed
    }

    /// Compare a file with what it was.
    fn check_state(&self, number: u64) -> Result<(), Unreadable> {
        let leaving = self.open.get(&number);
        match leaving.and_then(|it| Some((it, it.state?))) {
            Some((leaving, was)) if state(&leaving.file)? != was => Err(Unreadable::Changed),
            _ => Ok(()),
        }
    }

    fn find_runs(&mut self, batch: &Batch) {
        self.runs.clear();
        for piece in batch.pieces() {
            let Piece::Extent(extent) = piece else {
                continue;
            };
            let is_of = |run: &&mut Extent| {
                number_of(run) == number_of(extent)
                    && run.offset.checked_add(run.length) == Some(extent.offset)
            };
            match self.runs.last_mut().filter(is_of) {
                Some(run) => run.length = run.length.saturating_add(extent.length),
                None => self.runs.push(*extent),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(octets: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(octets).unwrap();
        file
    }

    fn batch(of: Extent) -> Batch {
        let mut batch = Batch::new();
        batch.push(Piece::Extent(of));
        batch.end_datagram();
        batch
    }

    #[test]
    fn pieces_of_files_are_read_in_order_whatever_is_between_them() {
        let mut files = LeavingFiles::default();
        let first = files.add(0, file(b"abcdefgh"), 8);
        let second = files.add(7, file(b"0123"), 4);
        let mut batch = Batch::new();
        let part = |of: Extent, from, length| {
            Piece::Extent(Extent {
                offset: of.offset + from,
                length,
            })
        };
        let head = Piece::Octets(Bytes::from_static(b"-"));
        for piece in [
            head.clone(),
            part(first, 0, 3),
            head.clone(),
            part(first, 3, 5),
            head.clone(),
            part(second, 1, 2),
            head,
            part(first, 1, 1),
        ] {
            batch.push(piece);
        }
        batch.end_datagram();
        for _ in 0..3 {
            let mut out = Vec::new();
            assert!(files.read(&mut batch, &mut out).is_empty());
            assert_eq!(out.concat(), b"-abc-defgh-12-b");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_takes_no_datagram_of_another_with_it() {
        let mut files = LeavingFiles::default();
        let good = files.add(0, file(b"abcdefgh"), 8);
        let bad = files.add(7, file(b"01"), 4);
        let mut batch = Batch::new();
        for of in [good, bad, good, bad] {
            for (from, length) in [(0, 2), (2, 2)] {
                batch.push(Piece::Octets(Bytes::from_static(b"-")));
                batch.push(Piece::Extent(Extent {
                    offset: of.offset + from,
                    length,
                }));
                batch.end_datagram();
            }
        }
        let mut out = Vec::new();
        let failed = files.read(&mut batch, &mut out);
        let numbers: Vec<_> = failed.iter().map(|it| it.number).collect();
        assert_eq!((numbers, batch.len()), (vec![7], 4));
        assert_eq!(out.concat(), b"-ab-cd-ab-cd");
        assert_eq!(batch.octets(), 12);
        files.remove(0);
        let failed = files.read(&mut batch, &mut Vec::new());
        assert_eq!((failed.len(), batch.len()), (1, 0));
    }

    #[test]
    fn a_file_that_has_become_shorter_is_told() {
        let mut files = LeavingFiles::default();
        let shorter = file(b"ab");
        let extent = files.add(3, shorter, 4);
        let [failed] = &files.read(&mut batch(extent), &mut Vec::new())[..] else {
            panic!("one file fails");
        };
        assert!(matches!(failed.why, Unreadable::Cut) && failed.number == 3);
    }

    #[test]
    fn a_file_that_has_changed_in_place_is_told_before_any_of_it_leaves() {
        let mut files = LeavingFiles::default();
        let mut changing = tempfile::NamedTempFile::new().unwrap();
        changing.write_all(b"before").unwrap();
        let extent = files.add_as_it_is(3, changing.reopen().unwrap(), 6);
        for _ in 0..2 {
            let mut out = Vec::new();
            assert!(files.read(&mut batch(extent), &mut out).is_empty());
            assert_eq!(out.concat(), b"before");
        }
        let other = std::time::SystemTime::UNIX_EPOCH;
        changing.as_file().set_modified(other).unwrap();
        let [failed] = &files.read(&mut batch(extent), &mut Vec::new())[..] else {
            panic!("one file fails");
        };
        assert!(matches!(failed.why, Unreadable::Changed) && failed.number == 3);
        // The file of a block that still comes changes all the time.
        files.add(3, changing.reopen().unwrap(), 6);
        assert!(files.read(&mut batch(extent), &mut Vec::new()).is_empty());
        changing
            .as_file()
            .set_modified(std::time::SystemTime::now())
            .unwrap();
        assert!(files.read(&mut batch(extent), &mut Vec::new()).is_empty());
        files.add_as_it_is(3, changing.reopen().unwrap(), 6);
        changing.write_all(b" and more").unwrap();
        let [failed] = &files.read(&mut batch(extent), &mut Vec::new())[..] else {
            panic!("one file fails");
        };
        assert!(matches!(failed.why, Unreadable::Changed));
    }

    #[test]
    fn what_is_no_file_with_octets_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty");
        std::fs::write(&empty, b"").unwrap();
        assert!(matches!(open(&empty), Err(Unreadable::Empty)));
        assert!(matches!(open(directory.path()), Err(Unreadable::NotAFile)));
        assert!(matches!(
            open(&directory.path().join("none")),
            Err(Unreadable::System(_))
        ));
    }
}
