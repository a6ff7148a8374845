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

    /// The octets of all pieces of a batch, in order, in `out`. Extents that follow each other are read together.
    ///
    /// # Errors
    /// The file that cannot be read, or has changed: nothing leaves of another state than the first. `out` is of no use then.
    pub(super) fn read(&mut self, batch: &Batch, out: &mut Vec<Bytes>) -> Result<(), Failed> {
        self.find_runs(batch);
        let total = self.runs.iter().map(|run| run.length);
        let total = usize::try_from(total.sum::<u64>()).unwrap_or(usize::MAX);
        // Once nobody has octets of it any more, its room is used again.
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let _ = buffer.try_reclaim(total);
        buffer.resize(total, 0);
        let mut rest = &mut *buffer;
        for run in &self.runs {
            let length = usize::try_from(run.length).unwrap_or(usize::MAX);
            let (part, behind) = rest.split_at_mut(length.min(rest.len()));
            rest = behind;
            let number = run.offset / MAX_FILE_OCTETS;
            let at = run.offset % MAX_FILE_OCTETS;
            let read = match self.open.get(&number) {
                Some(leaving) => leaving.file.read_exact_at(part, at),
                None => Err(io::ErrorKind::NotFound.into()),
            };
            if let Err(error) = read {
                let why = match error.kind() {
                    io::ErrorKind::UnexpectedEof => Unreadable::Cut,
                    _ => error.into(),
                };
                return Err(Failed { number, why });
            }
        }
        self.check_states()?;
        let mut octets = buffer.split().freeze();
        self.buffer = buffer;
        for piece in batch.pieces() {
            out.push(match piece {
                Piece::Octets(octets) => octets.clone(),
                Piece::Extent(extent) => {
                    let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
                    octets.split_to(length.min(octets.len()))
                }
            });
        }
        Ok(())
    }

    /// Compare the files of all runs with what they were. The octets were read before, so they are of the same state.
    fn check_states(&self) -> Result<(), Failed> {
        let mut last = None;
        for run in &self.runs {
            let number = run.offset / MAX_FILE_OCTETS;
            if last.replace(number) == Some(number) {
                continue;
            }
            let leaving = self.open.get(&number);
            let Some((leaving, was)) = leaving.and_then(|it| Some((it, it.state?))) else {
                continue;
            };
            match state(&leaving.file) {
                Ok(is) if is == was => {}
                Ok(_) => {
                    let why = Unreadable::Changed;
                    return Err(Failed { number, why });
                }
                Err(error) => {
                    let why = error.into();
                    return Err(Failed { number, why });
                }
            }
        }
        Ok(())
    }

    fn find_runs(&mut self, batch: &Batch) {
        self.runs.clear();
        for piece in batch.pieces() {
            let Piece::Extent(extent) = piece else {
                continue;
            };
            let is_of = |run: &&mut Extent| {
                run.offset / MAX_FILE_OCTETS == extent.offset / MAX_FILE_OCTETS
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
            files.read(&batch, &mut out).unwrap();
            assert_eq!(out.concat(), b"-abc-defgh-12-b");
        }
        files.remove(7);
        let failed = files.read(&batch, &mut Vec::new()).unwrap_err();
        assert_eq!((failed.number, files.len()), (7, 1));
    }

    #[test]
    fn a_file_that_has_become_shorter_is_told() {
        let mut files = LeavingFiles::default();
        let shorter = file(b"ab");
        let extent = files.add(3, shorter, 4);
        let mut batch = Batch::new();
        batch.push(Piece::Extent(extent));
        batch.end_datagram();
        let failed = files.read(&batch, &mut Vec::new()).unwrap_err();
        assert!(matches!(failed.why, Unreadable::Cut) && failed.number == 3);
    }

    #[test]
    fn a_file_that_has_changed_in_place_is_told_before_any_of_it_leaves() {
        let mut files = LeavingFiles::default();
        let mut changing = tempfile::NamedTempFile::new().unwrap();
        changing.write_all(b"before").unwrap();
        let extent = files.add_as_it_is(3, changing.reopen().unwrap(), 6);
        let mut batch = Batch::new();
        batch.push(Piece::Extent(extent));
        batch.end_datagram();
        for _ in 0..2 {
            let mut out = Vec::new();
            files.read(&batch, &mut out).unwrap();
            assert_eq!(out.concat(), b"before");
        }
        let other = std::time::SystemTime::UNIX_EPOCH;
        changing.as_file().set_modified(other).unwrap();
        let failed = files.read(&batch, &mut Vec::new()).unwrap_err();
        assert!(matches!(failed.why, Unreadable::Changed) && failed.number == 3);
        // The file of a block that still comes changes all the time.
        files.add(3, changing.reopen().unwrap(), 6);
        files.read(&batch, &mut Vec::new()).unwrap();
        changing
            .as_file()
            .set_modified(std::time::SystemTime::now())
            .unwrap();
        files.read(&batch, &mut Vec::new()).unwrap();
        files.add_as_it_is(3, changing.reopen().unwrap(), 6);
        changing.write_all(b" and more").unwrap();
        let failed = files.read(&batch, &mut Vec::new()).unwrap_err();
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
