//! The folder that a record of sent files is of, so that no other one, and no mount point without its file system, is taken for it.
//!
//! A folder has a mark, 16 octets drawn by the first outbox that ran in it, which stay the same over restarts, mounts and copies; the numbers of devices do not. A
//! folder that cannot be written has none: it is known by its device and its number there, or by any file that it still has.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::OWN;
use super::ledger::Ledger;
use super::scan::Scan;
use crate::digest::hexadecimal;
use crate::tree::{Entry, Obstacle, Tree};

/// The file of the mark in the directory of the outbox's own files, and its name until it is whole.
const NAME: &str = "folder";
const UNFINISHED: &str = "folder.new";

/// The octets of a mark.
pub type Mark = [u8; 16];

/// The identity of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its mark; `None` where it cannot have one.
    pub mark: Option<Mark>,
    /// Its device and its number there.
    pub directory: (u64, u64),
}

/// Whether a folder is the one of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The record is of this folder, or of none so far.
    Same,
    /// The record is of another folder.
    Other,
    /// The record is of a folder without a mark and has files, of which this one has none.
    Empty,
}

impl Place {
    /// The identity of a folder as it is found; nothing is written.
    pub fn of(tree: &Tree) -> io::Result<Self> {
        let stat = rustix::fs::fstat(tree.root())?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mark = match rustix::fs::openat(tree.root(), OWN, flags, Mode::empty()) {
            Ok(own) => read(own.as_fd())?,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            mark,
            directory: (stat.st_dev, stat.st_ino),
        })
    }

    /// Compares a folder with that of a record.
    pub fn judge(&self, tree: &Tree, ledger: &Ledger) -> io::Result<Verdict> {
        if ledger.paths().next().is_none() {
            return Ok(Verdict::Same);
        }
        let is_same = match ledger.place() {
            // The record is of a version that knew no places.
            None if Scan::of(tree)?.files.is_empty() => return Ok(Verdict::Empty),
            None => true,
            Some(known) if known.mark.is_some() => known.mark == self.mark,
            Some(known) => known.directory == self.directory || has_any(tree, ledger)?,
        };
        Ok(match is_same {
            true => Verdict::Same,
            false => Verdict::Other,
        })
    }

    /// Gives the folder a mark, durably, if it has none and can be written.
    pub fn marked(mut self, tree: &Tree, drawn: Mark) -> Self {
        if self.mark.is_none() {
            self.mark = write(tree, drawn).ok();
        }
        self
    }
}

/// Whether a folder has any file of a record as it was sent.
fn has_any(tree: &Tree, ledger: &Ledger) -> io::Result<bool> {
    for path in ledger.paths() {
        let Some(sent) = ledger.sent(path) else {
            continue;
        };
        match tree.entry(path) {
            Ok(Some(Entry::File(stamp)))
                if (stamp.octets, stamp.modified) == (sent.stamp.octets, sent.stamp.modified) =>
            {
                return Ok(true);
            }
            Ok(_) | Err(Obstacle::At(..) | Obstacle::Named(..)) => {}
            Err(Obstacle::System(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// The mark in a directory; `None` where there is none, or not all of it.
fn read(own: BorrowedFd<'_>) -> io::Result<Option<Mark>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(own, NAME, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut text = Vec::new();
    file.take(64).read_to_end(&mut text)?;
    let digits = str::from_utf8(&text).unwrap_or_default().trim_end();
    let mark = u128::from_str_radix(digits, 16).ok();
    Ok(mark.filter(|_| digits.len() == 32).map(u128::to_be_bytes))
}

fn write(tree: &Tree, drawn: Mark) -> io::Result<Mark> {
    let own = tree.within(OWN).map_err(|obstacle| match obstacle {
        Obstacle::System(error) => error,
        Obstacle::At(..) | Obstacle::Named(..) => io::ErrorKind::NotADirectory.into(),
    })?;
    // Outboxes for other destinations may begin at the same time. The lock ends with the descriptor; without locks one of them is refused the next time.
    let _ = rustix::fs::flock(own.root(), FlockOperation::LockExclusive);
    if let Some(mark) = read(own.root())? {
        return Ok(mark);
    }
    let flags =
        OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let mut file = File::from(rustix::fs::openat(own.root(), UNFINISHED, flags, mode)?);
    file.write_all(format!("{}\n", hexadecimal(&drawn)).as_bytes())?;
    file.sync_all()?;
    rustix::fs::renameat(own.root(), UNFINISHED, own.root(), NAME)?;
    rustix::fs::fsync(own.root())?;
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use dhow_client::folder::{FileTime, RelativePath};

    use super::super::ledger::Sent;
    use super::*;
    use crate::tree::Stamp;

    fn folder(files: &[&str]) -> (tempfile::TempDir, Tree) {
        let directory = tempfile::tempdir().unwrap();
        for name in files {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let tree = Tree::open(directory.path()).unwrap();
        (directory, tree)
    }

    fn ledger(directory: &Path, files: &[&str], tree: Option<&Tree>) -> Ledger {
        let mut ledger = Ledger::open(&directory.join("state.db")).unwrap();
        let sent = files.iter().map(|name| {
            let path = RelativePath::new(name).unwrap();
            let stamp = match tree.map(|tree| tree.entry(&path).unwrap()) {
                Some(Some(Entry::File(stamp))) => stamp,
                _ => Stamp {
                    octets: 77,
                    modified: FileTime::EPOCH,
                    mode: 0o644,
                    changed: (0, 0),
                    inode: 1,
                },
            };
            let sha256 = [0; 32];
            (path, Some(Sent { stamp, sha256 }))
        });
        let sent: Vec<_> = sent.collect();
        ledger.record(&sent).unwrap();
        ledger
    }

    fn judge(tree: &Tree, ledger: &Ledger) -> Verdict {
        Place::of(tree).unwrap().judge(tree, ledger).unwrap()
    }

    #[test]
    fn a_record_is_of_the_folder_with_its_mark_and_of_no_other() {
        let state = tempfile::tempdir().unwrap();
        let (directory, tree) = folder(&["a"]);
        let mut ledger = ledger(state.path(), &["a"], Some(&tree));
        let place = Place::of(&tree).unwrap();
        assert_eq!(place.mark, None);
        let place = place.marked(&tree, [7; 16]);
        assert_eq!(place.mark, Some([7; 16]));
        assert_eq!(Place::of(&tree).unwrap(), place);
        assert_eq!(place.marked(&tree, [8; 16]), place, "it stays");
        ledger.set_place(&place).unwrap();
        drop(ledger);
        let ledger = Ledger::open(&state.path().join("state.db")).unwrap();
        assert_eq!(ledger.place(), Some(&place));
        assert_eq!(judge(&tree, &ledger), Verdict::Same);
        // A mount point without its file system, another folder, and a copy.
        let (_bare, bare) = folder(&[]);
        assert_eq!(judge(&bare, &ledger), Verdict::Other);
        assert!(!_bare.path().join(OWN).exists(), "nothing was written");
        let (_other, other) = folder(&["a"]);
        Place::of(&other).unwrap().marked(&other, [9; 16]);
        assert_eq!(judge(&other, &ledger), Verdict::Other);
        fs::copy(
            directory.path().join(OWN).join(NAME),
            _other.path().join(OWN).join(NAME),
        )
        .unwrap();
        assert_eq!(judge(&other, &ledger), Verdict::Same);
        // All files may go from the folder itself.
        fs::remove_file(directory.path().join("a")).unwrap();
        assert_eq!(judge(&tree, &ledger), Verdict::Same);
    }

    #[test]
    fn a_record_of_before_is_of_a_folder_that_has_files() {
        let state = tempfile::tempdir().unwrap();
        let (_full, full) = folder(&["other"]);
        let (_bare, bare) = folder(&[]);
        let none = ledger(state.path(), &[], None);
        assert_eq!(judge(&bare, &none), Verdict::Same);
        drop(none);
        let ledger = ledger(state.path(), &["a"], None);
        assert_eq!(judge(&full, &ledger), Verdict::Same);
        assert_eq!(judge(&bare, &ledger), Verdict::Empty);
    }

    #[test]
    fn a_folder_without_a_mark_is_known_by_its_number_or_a_file() {
        let state = tempfile::tempdir().unwrap();
        let (_directory, tree) = folder(&["a", "b"]);
        let mut ledger = ledger(state.path(), &["a", "b"], Some(&tree));
        let place = Place::of(&tree).unwrap();
        ledger.set_place(&place).unwrap();
        assert_eq!(judge(&tree, &ledger), Verdict::Same);
        let (copy, again) = folder(&["x"]);
        assert_eq!(judge(&again, &ledger), Verdict::Other);
        fs::write(copy.path().join("b"), "b").unwrap();
        let b = RelativePath::new("b").unwrap();
        let modified = ledger.sent(&b).unwrap().stamp.modified.system();
        File::options()
            .write(true)
            .open(copy.path().join("b"))
            .unwrap()
            .set_modified(modified)
            .unwrap();
        assert_eq!(judge(&again, &ledger), Verdict::Same);
    }

    #[test]
    fn half_a_mark_is_none_and_is_written_anew() {
        let (directory, tree) = folder(&[]);
        let own = directory.path().join(OWN);
        fs::create_dir(&own).unwrap();
        for text in ["", "00", "xyz", &"0".repeat(33)] {
            fs::write(own.join(NAME), text).unwrap();
            assert_eq!(Place::of(&tree).unwrap().mark, None, "{text}");
        }
        let place = Place::of(&tree).unwrap().marked(&tree, [3; 16]);
        assert_eq!(Place::of(&tree).unwrap(), place);
    }
}
