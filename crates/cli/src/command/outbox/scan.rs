//! A look at a folder: its files, and entries that cannot be sent.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use dhow_client::folder::{RESERVED, RelativePath};
use rustix::fs::Dir;
use rustix::io::Errno;

use crate::file_name::shown;
use crate::tree::{self, Entry, Missing, Obstacle, Stamp, Tree};

/// Files of a folder, and directories, at most; each takes some 200 octets of memory.
const FILES_MAX: usize = 1_000_000;

/// Names that are skipped and told of, at most.
pub const SKIPPED_MAX: usize = 1_000;

/// The findings of a look at a folder.
#[derive(Debug, Default)]
pub struct Scan {
    /// Its files.
    pub files: BTreeMap<RelativePath, Stamp>,
    /// Names that are skipped, as they can be shown, and why.
    pub skipped: Vec<(String, String)>,
    /// Directories that could not be read: files in them may be there.
    unread: Vec<String>,
    /// Whether there are more files than are looked at.
    is_cut: bool,
}

impl Scan {
    /// Looks at all files of a folder.
    ///
    /// Fails where the folder itself cannot be read.
    pub fn of(tree: &Tree) -> io::Result<Self> {
        let mut scan = Self::default();
        let root = Dir::read_from(tree.root())?;
        let mut left = Vec::new();
        scan.read(root, None, tree.root(), &mut left)?;
        let mut directories = 0;
        while let Some(path) = left.pop() {
            directories += 1;
            if directories > FILES_MAX {
                scan.is_cut = true;
                break;
            }
            let read = match tree.directory(&path, Missing::Leave) {
                Ok(Some(directory)) => Dir::read_from(&directory)
                    .map_err(io::Error::from)
                    .and_then(|names| scan.read(names, Some(&path), directory.as_fd(), &mut left)),
                // It is gone, or is none any more.
                Ok(None) | Err(Obstacle::At(..) | Obstacle::Named(..)) => Ok(()),
                Err(Obstacle::System(error)) => Err(error),
            };
            if let Err(error) = read {
                scan.skip(path.to_string(), format!("it cannot be read: {error}"));
                scan.unread.push(path.to_string());
            }
        }
        Ok(scan)
    }

    /// True when a file that was not found is not there.
    pub fn is_gone(&self, path: &RelativePath) -> bool {
        !self.is_cut
            && !self.files.contains_key(path)
            && !(self.unread.iter()).any(|it| path.as_str() == it || path.is_within(it))
    }

    /// True when there are more files than are looked at.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn read(
        &mut self,
        names: Dir,
        within: Option<&RelativePath>,
        directory: BorrowedFd<'_>,
        left: &mut Vec<RelativePath>,
    ) -> io::Result<()> {
        for name in names {
            let name = name?;
            let octets = name.file_name().to_bytes();
            if octets == b"." || octets == b".." {
                continue;
            }
            let Ok(name) = name.file_name().to_str() else {
                let shown = shown(Path::new(OsStr::from_bytes(octets)));
                self.skip(joined(within, &shown), "its name is not UTF-8".into());
                continue;
            };
            // Those of an inbox or outbox of a directory within the folder are as little its files.
            if RESERVED.contains(&name) {
                continue;
            }
            let whole = joined(within, name);
            let path = match RelativePath::new(&whole) {
                Ok(path) => path,
                Err(refusal) => {
                    self.skip(shown(Path::new(&whole)), refusal.to_string());
                    continue;
                }
            };
            match tree::entry(directory, name) {
                Ok(Some(Entry::File(stamp))) if self.files.len() < FILES_MAX => {
                    self.files.insert(path, stamp);
                }
                Ok(Some(Entry::File(_))) => self.is_cut = true,
                Ok(Some(Entry::Directory)) if left.len() < FILES_MAX => left.push(path),
                Ok(Some(Entry::Directory)) => self.is_cut = true,
                Ok(Some(entry)) => self.skip(whole, format!("it is {}", entry.words())),
                Ok(None) => {}
                Err(Errno::ACCESS) => {
                    self.skip(whole.clone(), "it cannot be looked at".into());
                    self.unread.push(whole);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn skip(&mut self, name: String, why: String) {
        if self.skipped.len() < SKIPPED_MAX {
            self.skipped.push((name, why));
        }
    }
}

fn joined(within: Option<&RelativePath>, name: &str) -> String {
    within.map_or_else(|| name.to_owned(), |within| format!("{within}/{name}"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_found_and_what_is_none_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        for name in [".dhow-outbox", "a/.dhow-outbox", "a/b/.dhow-inbox"] {
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join("state.db"), name).unwrap();
        }
        for name in ["x", "a/y", "a/b/z", ".hidden"] {
            fs::write(root.join(name), name).unwrap();
        }
        symlink("/etc/passwd", root.join("link")).unwrap();
        symlink("/etc", root.join("a/link")).unwrap();
        fs::write(root.join(OsStr::from_bytes(b"n\xff")), "").unwrap();
        fs::write(root.join("new\nline"), "").unwrap();
        let scan = Scan::of(&Tree::open(root).unwrap()).unwrap();
        let found: Vec<&str> = scan.files.keys().map(RelativePath::as_str).collect();
        assert_eq!(found, [".hidden", "a/b/z", "a/y", "x"]);
        let mut skipped = scan.skipped.clone();
        skipped.sort();
        let names: Vec<&str> = skipped.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a/link", "link", "n\\xff", "new\\nline"]);
        assert_eq!(skipped[1].1, "it is a symbolic link");
        let path = RelativePath::new("x").unwrap();
        assert!(!scan.is_gone(&path) && !scan.is_cut());
        assert!(scan.is_gone(&RelativePath::new("a/x").unwrap()));
    }

    #[test]
    fn nothing_is_gone_from_a_directory_that_cannot_be_read() {
        let scan = Scan {
            unread: vec!["a/b".into()],
            ..Scan::default()
        };
        let is_gone = |path: &str| scan.is_gone(&RelativePath::new(path).unwrap());
        assert!(!is_gone("a/b/c") && !is_gone("a/b/c/d"));
        assert!(is_gone("a/c") && is_gone("a/bc"));
        let scan = Scan {
            is_cut: true,
            ..Scan::default()
        };
        assert!(!scan.is_gone(&RelativePath::new("a").unwrap()));
    }
}
