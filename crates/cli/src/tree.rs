//! A directory and the files below it, reached without following any symbolic link.
//!
//! Each directory of a path is opened by its name within the one before, so that a path that [`RelativePath`] lets pass stays in the
//! tree, whatever others rename or link there meanwhile. The directory at the root itself may be reached by links.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use dhow_client::folder::{FileTime, MODE_BITS, RelativePath};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Flags of every file that is opened.
const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

/// A directory and what is below it.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
}

/// The thing that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A regular file.
    File(Stamp),
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a pipe or a socket.
    Special,
}

/// The properties of a file of which one changes when its octets, its time of modification or its permissions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its size.
    pub octets: u64,
    /// Its time of modification.
    pub modified: FileTime,
    /// Its permissions, of [`MODE_BITS`].
    pub mode: u16,
    /// The time of the last change of any of these, seconds and nanoseconds.
    pub changed: (i64, i64),
    /// The number of the file in its file system.
    pub inode: u64,
}

/// Whether directories that are missing are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Missing directories are made.
    Make,
    /// Missing directories stay missing.
    Leave,
}

/// Why a path leads nowhere.
#[derive(Debug)]
pub enum Obstacle {
    /// The path leads through something that is no directory.
    At(RelativePath, Entry),
    /// The system refuses.
    System(io::Error),
}

impl From<Errno> for Obstacle {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Tree {
    /// Opens the directory at the root.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        Ok(Self { root })
    }

    /// A tree whose root is a directory of this one's root, made where it is missing.
    pub fn within(&self, name: &str) -> Result<Self, Obstacle> {
        make_directory(self.root.as_fd(), name)?;
        let root = open_directory(self.root.as_fd(), name)?;
        Ok(Self { root })
    }

    /// The directory at the root.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Opens a directory; `None` where it or one before it is missing and not to be made.
    pub fn directory(
        &self,
        path: &RelativePath,
        missing: Missing,
    ) -> Result<Option<OwnedFd>, Obstacle> {
        self.enter(path.directories().chain([path.clone()]), missing)
    }

    /// Opens the directory of a path's last name; `None` where it is missing and not to be made.
    pub fn parent(
        &self,
        path: &RelativePath,
        missing: Missing,
    ) -> Result<Option<OwnedFd>, Obstacle> {
        self.enter(path.directories(), missing)
    }

    fn enter(
        &self,
        directories: impl Iterator<Item = RelativePath>,
        missing: Missing,
    ) -> Result<Option<OwnedFd>, Obstacle> {
        let mut directory = self.root.try_clone()?;
        for path in directories {
            let name = path.last();
            let mut next = open_directory(directory.as_fd(), name);
            if matches!(next, Err(Errno::NOENT)) && missing == Missing::Make {
                make_directory(directory.as_fd(), name)?;
                next = open_directory(directory.as_fd(), name);
            }
            directory = match next {
                Ok(next) => next,
                Err(Errno::NOENT) if missing == Missing::Leave => return Ok(None),
                // Systems differ in which of the two a symbolic link gives.
                Err(error @ (Errno::NOTDIR | Errno::LOOP)) => {
                    return Err(match entry(directory.as_fd(), name)? {
                        Some(entry) if entry != Entry::Directory => Obstacle::At(path, entry),
                        _ => error.into(),
                    });
                }
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Some(directory))
    }

    /// The entry that a path leads to; `None` where nothing is.
    pub fn entry(&self, path: &RelativePath) -> Result<Option<Entry>, Obstacle> {
        match self.parent(path, Missing::Leave)? {
            Some(parent) => Ok(entry(parent.as_fd(), path.last())?),
            None => Ok(None),
        }
    }

    /// Opens a regular file for reading; `None` where there is none.
    pub fn file(&self, path: &RelativePath) -> Result<Option<(File, Stamp)>, Obstacle> {
        let Some(parent) = self.parent(path, Missing::Leave)? else {
            return Ok(None);
        };
        // A pipe that has taken the file's place must not be waited for.
        let flags = SAFE | OFlags::RDONLY | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&parent, path.last(), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(stamp(&file)?.map(|stamp| (file, stamp)))
    }
}

/// The entry that a name in a directory leads to.
pub fn entry(directory: BorrowedFd<'_>, name: &str) -> Result<Option<Entry>, Errno> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Entry::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The stamp of an open file; `None` if it is not a regular one.
pub fn stamp(file: &File) -> Result<Option<Stamp>, Errno> {
    Ok(match Entry::of(&rustix::fs::fstat(file)?) {
        Entry::File(stamp) => Some(stamp),
        _ => None,
    })
}

impl Entry {
    fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File(Stamp::of(stat)),
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }

    /// The kind in words, with an article.
    pub const fn words(self) -> &'static str {
        match self {
            Self::File(_) => "a file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Special => "a special file",
        }
    }
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
        let permissions = stat.st_mode & u32::from(MODE_BITS);
        Self {
            octets: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: FileTime::clamped(stat.st_mtime, nanoseconds),
            mode: u16::try_from(permissions).unwrap_or_default(),
            changed: (
                stat.st_ctime,
                i64::try_from(stat.st_ctime_nsec).unwrap_or_default(),
            ),
            inode: stat.st_ino,
        }
    }
}

fn open_directory(directory: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, name, SAFE | OFlags::DIRECTORY, Mode::empty())
}

/// Makes a directory, durably, unless it is there.
fn make_directory(directory: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o777)) {
        Ok(()) => rustix::fs::fsync(directory),
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text).unwrap()
    }

    fn tree() -> (tempfile::TempDir, Tree) {
        let directory = tempfile::tempdir().unwrap();
        let tree = Tree::open(directory.path()).unwrap();
        (directory, tree)
    }

    #[test]
    fn directories_are_made_where_they_are_missing_and_only_then() {
        let (directory, tree) = tree();
        let parent = tree.parent(&path("a/b/c"), Missing::Leave).unwrap();
        assert!(parent.is_none());
        for _ in 0..2 {
            let parent = tree.parent(&path("a/b/c"), Missing::Make).unwrap();
            assert!(parent.is_some());
        }
        assert!(directory.path().join("a/b").is_dir());
        assert_eq!(tree.entry(&path("a/b")).unwrap(), Some(Entry::Directory));
        assert_eq!(tree.entry(&path("a/b/c")).unwrap(), None);
    }

    #[test]
    fn no_path_leads_through_a_link() {
        let (directory, tree) = tree();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        symlink(outside.path(), directory.path().join("link")).unwrap();
        for missing in [Missing::Make, Missing::Leave] {
            for text in ["link/x", "link/deeper/x", "link/secret"] {
                match tree.parent(&path(text), missing) {
                    Err(Obstacle::At(at, Entry::Link)) => assert_eq!(at, path("link")),
                    other => panic!("{text}: {other:?}"),
                }
            }
        }
        assert!(tree.file(&path("link/secret")).is_err());
        symlink("link/secret", directory.path().join("other")).unwrap();
        assert!(tree.file(&path("other")).unwrap().is_none());
        assert_eq!(tree.entry(&path("other")).unwrap(), Some(Entry::Link));
        assert!(matches!(tree.within("link"), Err(Obstacle::System(_))));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_directory_is_named() {
        let (directory, tree) = tree();
        fs::write(directory.path().join("a"), "abc").unwrap();
        match tree.parent(&path("a/b"), Missing::Make) {
            Err(Obstacle::At(at, Entry::File(stamp))) => {
                assert_eq!((at, stamp.octets), (path("a"), 3));
            }
            other => panic!("{other:?}"),
        }
        let (_, stamp) = tree.file(&path("a")).unwrap().unwrap();
        assert_eq!(tree.entry(&path("a")).unwrap(), Some(Entry::File(stamp)));
        assert!(tree.file(&path("b")).unwrap().is_none());
    }
}
