//! Payloads on their way into a folder: files without a place of their own, which a kill leaves to the next start.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use dhow_client::folder::FileHead;
use rustix::fs::{Access, AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::digest::Sha256;
use crate::interrupt;
use crate::tree;

/// Octets copied at a time.
const PIECE_OCTETS: usize = 256 * 1024;

/// The directory of payloads on their way.
#[derive(Debug)]
pub struct Incoming {
    directory: Arc<OwnedFd>,
    made: u64,
}

/// A payload that is written and has no place yet; it goes unless it gets one.
#[derive(Debug)]
pub struct Arrived {
    directory: Arc<OwnedFd>,
    name: String,
    file: File,
    has_place: bool,
}

/// A copy that failed, by the end that did.
#[derive(Debug)]
pub enum CopyError {
    /// The payload did not come whole, or the command is to end.
    Incoming,
    /// The copy could not be written.
    Outgoing(io::Error),
}

impl Incoming {
    /// Takes a directory over, without the files that a command left in it that was killed.
    pub fn new(directory: OwnedFd) -> io::Result<Self> {
        for left in Dir::read_from(&directory)? {
            let left = left?;
            match rustix::fs::unlinkat(&directory, left.file_name(), AtFlags::empty()) {
                // The directory itself and the one above, and what nobody here has made.
                Ok(()) | Err(Errno::ISDIR | Errno::PERM | Errno::BUSY) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self {
            directory: Arc::new(directory),
            made: 0,
        })
    }

    /// Writes the octets of `payload`; its SHA-256 and its length come back.
    pub fn write(
        &mut self,
        payload: &mut impl Read,
    ) -> Result<(Arrived, [u8; 32], u64), CopyError> {
        let mut arrived = self.make().map_err(CopyError::Outgoing)?;
        let mut digest = Sha256::default();
        let mut octets = 0_u64;
        let mut piece = vec![0_u8; PIECE_OCTETS];
        loop {
            if interrupt::is_requested() {
                return Err(CopyError::Incoming);
            }
            let length = match payload.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(CopyError::Incoming),
            };
            let part = piece.get(..length).unwrap_or_default();
            digest.update(part);
            arrived.file.write_all(part).map_err(CopyError::Outgoing)?;
            octets += u64::try_from(length).unwrap_or_default();
        }
        Ok((arrived, digest.octets(), octets))
    }

    fn make(&mut self) -> io::Result<Arrived> {
        let name = self.made.to_string();
        self.made += 1;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let file = rustix::fs::openat(&self.directory, &name, flags, mode)?;
        Ok(Arrived {
            directory: Arc::clone(&self.directory),
            name,
            file: file.into(),
            has_place: false,
        })
    }
}

impl Arrived {
    /// A payload that was written before; `None` where there is none of this name. Its octets cannot be read by it.
    pub fn open(directory: &Arc<OwnedFd>, name: String) -> io::Result<Option<Self>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(directory, &name, flags, Mode::empty()) {
            Ok(file) => Ok(Some(Self {
                directory: Arc::clone(directory),
                name,
                file: file.into(),
                has_place: false,
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Leaves it where it is.
    pub fn leave(mut self) {
        self.has_place = true;
    }

    /// Gives it the time and the permissions of a file, of these those of `bits`.
    pub fn set(&self, file: &FileHead, bits: u16) -> io::Result<()> {
        let mode = Mode::from_raw_mode((file.mode & bits).into());
        match rustix::fs::fchmod(&self.file, mode) {
            // The file is ours: its file system has no such permissions.
            Ok(()) | Err(Errno::PERM | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        self.file.set_modified(file.modified.system())
    }

    /// The file.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Moves it to its place, in the stead of any file that is there.
    pub fn place(&mut self, directory: &OwnedFd, name: &str) -> Result<(), Errno> {
        let moved = rustix::fs::renameat(&self.directory, &self.name, directory.as_fd(), name);
        if moved == Err(Errno::NOENT)
            && rustix::fs::accessat(
                &self.directory,
                &self.name,
                Access::EXISTS,
                AtFlags::empty(),
            )
            .is_ok()
        {
            return Err(tree::of_name(Errno::NOENT, directory.as_fd()));
        }
        moved?;
        self.has_place = true;
        Ok(())
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        if !self.has_place {
            // A file that is left here goes at the next start.
            let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use dhow_client::folder::{FileTime, MODE_BITS};

    use super::*;

    fn directory(path: &Path) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    fn names(path: &Path) -> usize {
        fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn a_payload_has_its_place_or_is_gone() {
        let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::write(from.path().join("17"), "left by a kill").unwrap();
        let mut incoming = Incoming::new(directory(from.path())).unwrap();
        assert_eq!(names(from.path()), 0);
        let (mut arrived, digest, octets) = incoming.write(&mut &b"abc"[..]).unwrap();
        assert_eq!((digest, octets), (Sha256::of_octets(b"abc"), 3));
        let head = FileHead {
            octets,
            modified: FileTime::clamped(1_000_000_000, 7),
            mode: 0o4751,
            sha256: digest,
        };
        arrived.set(&head, MODE_BITS).unwrap();
        arrived.place(&directory(to.path()), "x").unwrap();
        let tree = crate::tree::Tree::open(to.path()).unwrap();
        let path = dhow_client::folder::RelativePath::new("x").unwrap();
        let (_, stamp) = tree.file(&path).unwrap().unwrap();
        assert_eq!(
            (stamp.octets, stamp.modified, stamp.mode),
            (3, head.modified, 0o751)
        );
        let (left, ..) = incoming.write(&mut &b"abc"[..]).unwrap();
        assert_eq!(names(from.path()), 1);
        drop(left);
        assert_eq!(names(from.path()), 0);
    }

    #[test]
    fn nothing_is_left_of_a_payload_that_breaks_off() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
        let from = tempfile::tempdir().unwrap();
        let mut incoming = Incoming::new(directory(from.path())).unwrap();
        let outcome = incoming.write(&mut b"half".chain(Broken));
        assert!(matches!(outcome, Err(CopyError::Incoming)));
        assert_eq!(names(from.path()), 0);
    }
}
