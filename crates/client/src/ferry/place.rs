//! The directory at which a medium is mounted: it may be there although the medium is not.
//!
//! A mount point without its medium looks like an empty medium. Two rules keep them apart. A directory at which, or above which, something
//! was mounted is the place of a medium only while that is mounted. And where the medium is to have the only copy of a bundle, a
//! directory at which nothing is mounted is begun only if it has the directory of ferries already.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use dhow_bundle::NodeId;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxAttributes, StatxFlags};

use super::stick::{DIRECTORY, Stick};

/// Directories between a place and the root, at most: longer paths do not exist (`PATH_MAX`).
const DEPTH_MAX: usize = 4_096;

/// The places that may become a medium by the making of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Any directory.
    Anywhere,
    /// A mount point.
    MountPoint,
}

/// A directory in which a medium is looked for.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    beginning: Beginning,
    /// Directories from the place up to its mount point, 0 for a mount point: the fewest so far.
    fewest: Option<usize>,
}

/// Why there is no medium in a place.
#[derive(Debug, thiserror::Error)]
pub enum Absence {
    /// The medium was mounted, and is no more.
    #[error("nothing is mounted")]
    NotMounted,
    /// Nothing is mounted, and no ferry has been there.
    #[error("nothing is mounted, and there is no directory {DIRECTORY}")]
    NotBegun,
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Place {
    /// The place of a medium.
    #[must_use]
    pub const fn new(path: PathBuf, beginning: Beginning) -> Self {
        Self {
            path,
            beginning,
            fewest: None,
        }
    }

    /// The same, which is the place of a medium only while it is a mount point.
    #[must_use]
    pub const fn mounted(mut self) -> Self {
        self.fewest = Some(0);
        self
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the medium for a node, as [`Stick::open`] does.
    ///
    /// # Errors
    /// There is none, or its directory cannot be opened.
    pub fn open(&mut self, node: &NodeId, random: [u8; 16]) -> Result<Stick, Absence> {
        // Whatever is mounted later at the same path, this descriptor stays where it is.
        let root = rustix::fs::open(
            &self.path,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let root = root.map_err(io::Error::from)?;
        let below = directories_below_mount(root.try_clone()?)?;
        let found = rustix::fs::statat(&root, DIRECTORY, AtFlags::SYMLINK_NOFOLLOW);
        let is_begun =
            found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory);
        self.judge(below, is_begun)?;
        Ok(Stick::open_in(&root, &self.path, node, random)?)
    }

    fn judge(&mut self, below: usize, is_begun: bool) -> Result<(), Absence> {
        if self.fewest.is_some_and(|fewest| below > fewest) {
            return Err(Absence::NotMounted);
        }
        self.fewest = Some(below);
        match self.beginning {
            Beginning::MountPoint if below > 0 && !is_begun => Err(Absence::NotBegun),
            Beginning::Anywhere | Beginning::MountPoint => Ok(()),
        }
    }
}

/// Directories from one up to the mount point that it is on: 0 for a mount point.
fn directories_below_mount(mut directory: OwnedFd) -> io::Result<usize> {
    for below in 0..DEPTH_MAX {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let above = rustix::fs::openat(&directory, "..", flags, Mode::empty())?;
        if is_mount_point(directory.as_fd(), above.as_fd())? {
            return Ok(below);
        }
        directory = above;
    }
    Ok(DEPTH_MAX)
}

fn is_mount_point(
    directory: std::os::fd::BorrowedFd<'_>,
    above: std::os::fd::BorrowedFd<'_>,
) -> io::Result<bool> {
    let stat = |it| rustix::fs::statx(it, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    let (here, above) = (stat(directory)?, stat(above)?);
    let device = |it: &rustix::fs::Statx| (it.stx_dev_major, it.stx_dev_minor);
    let is_root = device(&here) == device(&above) && here.stx_ino == above.stx_ino;
    let mount_root = StatxAttributes::MOUNT_ROOT;
    Ok(is_root
        || match here.stx_attributes_mask.contains(mount_root) {
            true => here.stx_attributes.contains(mount_root),
            // Linux before 5.8 does not say it: another device is another file system.
            false => device(&here) != device(&above),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(beginning: Beginning) -> Place {
        Place::new(PathBuf::from("/x"), beginning)
    }

    /// The mount point stays when the medium goes: it is no new medium, whatever it has.
    #[test]
    fn a_mount_point_is_no_medium_once_nothing_is_mounted_there() {
        for beginning in [Beginning::Anywhere, Beginning::MountPoint] {
            let mut place = place(beginning);
            assert!(place.judge(0, false).is_ok(), "a new medium");
            for is_begun in [false, true] {
                let absence = place.judge(2, is_begun).unwrap_err();
                assert!(matches!(absence, Absence::NotMounted), "{absence}");
            }
            assert!(place.judge(0, false).is_ok(), "a second new medium");
        }
    }

    #[test]
    fn a_directory_on_a_medium_is_one_only_while_that_is_mounted() {
        let mut place = place(Beginning::Anywhere);
        assert!(place.judge(1, true).is_ok());
        assert!(matches!(place.judge(3, true), Err(Absence::NotMounted)));
        assert!(place.judge(1, true).is_ok());
    }

    #[test]
    fn a_place_that_must_be_mounted_is_no_medium_before_it_is() {
        let mut place = place(Beginning::Anywhere).mounted();
        assert!(matches!(place.judge(1, true), Err(Absence::NotMounted)));
        assert!(place.judge(0, false).is_ok());
    }

    #[test]
    fn only_copies_go_to_no_directory_that_nobody_began() {
        let folder = tempfile::tempdir().unwrap();
        let node: NodeId = "ipn:1.0".parse().unwrap();
        let mut place = Place::new(folder.path().to_owned(), Beginning::MountPoint);
        let absence = place.open(&node, [1; 16]).unwrap_err();
        assert!(matches!(absence, Absence::NotBegun), "{absence}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::fs::create_dir(folder.path().join(DIRECTORY)).unwrap();
        drop(place.open(&node, [1; 16]).unwrap());
        // A directory that is carried by itself is a medium as before.
        let mut place = Place::new(folder.path().to_owned(), Beginning::Anywhere);
        let begun = place.open(&node, [1; 16]).unwrap();
        drop(begun);
        let away = folder.path().join("away");
        let mut place = Place::new(folder.path().join("stick"), Beginning::Anywhere);
        for _ in 0..2 {
            std::fs::create_dir(place.path()).unwrap();
            drop(place.open(&node, [1; 16]).unwrap());
            std::fs::rename(place.path(), &away).unwrap();
            let absence = place.open(&node, [1; 16]).unwrap_err();
            assert!(matches!(absence, Absence::System(it) if it.kind() == io::ErrorKind::NotFound));
            std::fs::remove_dir_all(&away).unwrap();
        }
    }

    #[test]
    fn the_root_is_a_mount_point_and_a_new_directory_is_none() {
        let open = |path: &Path| {
            rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
        };
        assert_eq!(directories_below_mount(open(Path::new("/"))).unwrap(), 0);
        assert_eq!(
            directories_below_mount(open(Path::new("/proc"))).unwrap(),
            0
        );
        let folder = tempfile::tempdir().unwrap();
        let above = directories_below_mount(open(folder.path().parent().unwrap())).unwrap();
        assert_eq!(
            directories_below_mount(open(folder.path())).unwrap(),
            above + 1
        );
    }
}
