//! A directory and the files below it, reached without following any symbolic link.
//!
//! Each directory of a path is opened by its name within the one before, so that a path that [`RelativePath`] lets pass stays in the
//! tree, whatever others rename or link there meanwhile. The directory at the root itself may be reached by links.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use dhow_client::folder::{FileTime, MODE_BITS, RelativePath};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Flags of every file that is opened.
const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

/// A directory and what is below it.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
    naming: Naming,
}

/// The entries that names lead to. File systems that do not tell upper from lower case lead from one name to the file of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// Names lead where the file system leads them: they are those of a listing.
    Listed,
    /// A name leads to an entry of exactly this name, or into an obstacle.
    Exact,
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
    /// The file system takes the last name of the path for that of another one, which is given where it is known.
    Named(RelativePath, Option<RelativePath>),
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
        Ok(Self {
            root,
            naming: Naming::Listed,
        })
    }

    /// The same, in which paths lead to entries of exactly their names.
    pub fn exact(self) -> Self {
        Self {
            naming: Naming::Exact,
            ..self
        }
    }

    /// True when a path of the system leads to the directory at the root: neither was moved, nor another file system mounted there, since it was opened.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let [own, there] = [rustix::fs::fstat(&self.root)?, rustix::fs::stat(path)?];
        Ok((own.st_dev, own.st_ino) == (there.st_dev, there.st_ino))
    }

    /// A tree whose root is a directory of this one's root, made where it is missing.
    pub fn within(&self, name: &str) -> Result<Self, Obstacle> {
        make_directory(self.root.as_fd(), name)?;
        let root = open_directory(self.root.as_fd(), name)?;
        Ok(Self {
            root,
            naming: Naming::Listed,
        })
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
                Ok(next) => {
                    self.check_name(directory.as_fd(), &path)?;
                    next
                }
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
            Some(parent) => self.entry_in(parent.as_fd(), path),
            None => Ok(None),
        }
    }

    /// The entry that the last name of a path leads to in its directory.
    pub fn entry_in(
        &self,
        directory: BorrowedFd<'_>,
        path: &RelativePath,
    ) -> Result<Option<Entry>, Obstacle> {
        let entry = entry(directory, path.last())?;
        if entry.is_some() {
            self.check_name(directory, path)?;
        }
        Ok(entry)
    }

    /// Checks that the last name of a path, which leads somewhere in its directory, leads to an entry of this name.
    fn check_name(&self, directory: BorrowedFd<'_>, path: &RelativePath) -> Result<(), Obstacle> {
        if self.naming == Naming::Listed || !may_be_another(directory, path.last())? {
            return Ok(());
        }
        let mut alike = None;
        for name in Dir::read_from(directory)? {
            let name = name?;
            let Ok(name) = name.file_name().to_str() else {
                continue;
            };
            if name == path.last() {
                return Ok(());
            }
            if name.to_lowercase() == path.last().to_lowercase() {
                let directory = path.as_str().strip_suffix(path.last());
                let other = [directory.unwrap_or_default(), name].concat();
                alike = RelativePath::new(&other).ok();
            }
        }
        Err(Obstacle::Named(path.clone(), alike))
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

/// Whether a name that leads somewhere in a directory may lead to an entry of another name: the file system takes upper for lower case there,
/// or may leave out the end of the name.
///
/// One look for the name in the other case tells that nearly always, so that the names of a directory need not be read for each file in it.
fn may_be_another(directory: BorrowedFd<'_>, name: &str) -> Result<bool, Errno> {
    if is_cut_by_some(name) {
        return Ok(true);
    }
    let Some(other) = in_other_case(name) else {
        return Ok(false);
    };
    match entry(directory, &other) {
        Ok(entry) => Ok(entry.is_some()),
        // It is longer in the other case.
        Err(Errno::NAMETOOLONG) => Ok(false),
        Err(error) => Err(error),
    }
}

/// True when some file systems leave out the end of a name.
pub fn is_cut_by_some(name: &str) -> bool {
    name.ends_with(['.', ' '])
}

/// A name with letters of the other case; `None` where it has no letters that have one.
fn in_other_case(name: &str) -> Option<String> {
    let is_ascii = name.contains(|it: char| it.is_ascii_alphabetic());
    let swapped = |it: char| {
        if is_ascii {
            return match it.is_ascii_lowercase() {
                true => it.to_ascii_uppercase(),
                false => it.to_ascii_lowercase(),
            };
        }
        // A letter that becomes several is left, as file systems do.
        let single = |mut letters: Box<dyn Iterator<Item = char>>| {
            let first = letters.next().filter(|letter| *letter != it);
            first.filter(|_| letters.next().is_none())
        };
        let upper = single(Box::new(it.to_uppercase()));
        upper
            .or_else(|| single(Box::new(it.to_lowercase())))
            .unwrap_or(it)
    };
    let other: String = name.chars().map(swapped).collect();
    (other != name).then_some(other)
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
        Err(error) => Err(of_name(error, directory)),
    }
}

/// The meaning of an error about a name that was to be new in a directory: some file systems cannot find names that they do not take.
pub fn of_name(error: Errno, directory: BorrowedFd<'_>) -> Errno {
    let is_removed = || rustix::fs::fstat(directory).is_ok_and(|it| it.st_nlink == 0);
    match error {
        Errno::NOENT if !is_removed() => Errno::INVAL,
        error => error,
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
    fn a_name_leads_to_the_entry_of_this_name_or_nowhere() {
        let (directory, tree) = tree();
        let tree = tree.exact();
        for name in ["README", "readme", "1", "end.", "\u{e9}"] {
            fs::write(directory.path().join(name), "x").unwrap();
            assert!(tree.entry(&path(name)).unwrap().is_some(), "{name}");
        }
        fs::create_dir(directory.path().join("Dir ")).unwrap();
        assert!(tree.directory(&path("Dir "), Missing::Leave).is_ok());
        fs::remove_file(directory.path().join("README")).unwrap();
        // On a file system that does not tell upper from lower case both names would lead to it.
        let root = tree.root();
        let alike = tree.check_name(root, &path("README"));
        assert!(matches!(alike, Err(Obstacle::Named(_, Some(it))) if it == path("readme")));
        let cut = tree.check_name(root, &path("end.."));
        assert!(matches!(cut, Err(Obstacle::Named(_, None))));
        assert!(tree.check_name(root, &path("readme")).is_ok());
    }

    #[test]
    fn the_other_case_of_a_name_is_another_name() {
        for (name, other) in [
            ("readme", Some("README")),
            ("Report.txt", Some("rEPORT.TXT")),
            ("a\u{e9}", Some("A\u{e9}")),
            ("\u{e9}1", Some("\u{c9}1")),
            ("\u{df}", None),
            ("12-3", None),
            ("\u{6f22}", None),
        ] {
            assert_eq!(in_other_case(name).as_deref(), other);
        }
    }

    #[test]
    fn a_tree_knows_whether_it_is_where_it_was() {
        let (directory, _) = tree();
        let at = directory.path().join("at");
        fs::create_dir(&at).unwrap();
        let tree = Tree::open(&at).unwrap();
        assert!(tree.is_at(&at).unwrap());
        fs::rename(&at, directory.path().join("moved")).unwrap();
        assert!(tree.is_at(&at).is_err());
        fs::create_dir(&at).unwrap();
        assert!(!tree.is_at(&at).unwrap());
    }

    #[test]
    fn a_name_that_is_not_found_where_it_was_to_be_new_is_not_taken() {
        let (directory, tree) = tree();
        assert_eq!(of_name(Errno::NOENT, tree.root()), Errno::INVAL);
        assert_eq!(of_name(Errno::NOSPC, tree.root()), Errno::NOSPC);
        fs::remove_dir(directory.path()).unwrap();
        assert_eq!(of_name(Errno::NOENT, tree.root()), Errno::NOENT);
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
