//! The room on a medium, and why one takes no more.
//!
//! A medium that is full to the last block could take no acknowledgment, so that its bundles would stay until they expire. A writer
//! leaves some blocks free therefore. They are enough for any number of bundles: an acknowledgment takes one block, and the bundle that
//! is removed then gives back one at least.

use std::io;

use rustix::fs::StatVfs;
use rustix::io::Errno;

/// Blocks, and files where the file system counts them, that bundles leave free: for acknowledgments, one at a time, and for the directories of some other nodes.
pub const SPARE_BLOCKS: u64 = 64;

/// Whether a medium may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writable {
    /// The medium may be written.
    Yes,
    /// It has no room for the directory of this node.
    Full,
    /// The medium is read-only, or the user may not write.
    No,
}

impl Writable {
    /// The state of a medium that refuses to be written; `None` where the error says something else.
    #[must_use]
    pub const fn refusing(error: Errno) -> Option<Self> {
        match error {
            Errno::NOSPC | Errno::DQUOT => Some(Self::Full),
            Errno::ROFS | Errno::ACCESS | Errno::PERM => Some(Self::No),
            _ => None,
        }
    }

    /// The same of an error of the standard library.
    #[must_use]
    pub fn refusing_with(error: &io::Error) -> Option<Self> {
        Self::refusing(Errno::from_io_error(error)?)
    }
}

/// A medium has no room for a bundle, octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no room for {octets} octets: {free} are free, of which {spare} stay free for acknowledgments"
)]
pub struct NoRoom {
    /// Octets of the bundle.
    pub octets: u64,
    /// Octets that are free.
    pub free: u64,
    /// Octets that stay free.
    pub spare: u64,
}

/// Whether a bundle of so many octets fits, so that acknowledgments still do. File systems that do not say how large they are take any.
///
/// # Errors
/// The bundle does not fit.
pub fn fits(room: &StatVfs, octets: u64) -> Result<(), NoRoom> {
    let block = if room.f_frsize > 0 {
        room.f_frsize
    } else {
        room.f_bsize
    };
    if room.f_blocks == 0 || block == 0 {
        return Ok(());
    }
    let needed = octets.div_ceil(block).saturating_add(SPARE_BLOCKS);
    let has_files = room.f_files == 0 || room.f_favail > SPARE_BLOCKS;
    match needed <= room.f_bavail && has_files {
        true => Ok(()),
        false => Err(NoRoom {
            octets,
            free: room.f_bavail.saturating_mul(block),
            spare: SPARE_BLOCKS.saturating_mul(block),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(blocks: u64, files: (u64, u64)) -> StatVfs {
        let folder = rustix::fs::statvfs("/").unwrap();
        StatVfs {
            f_bsize: 4_096,
            f_frsize: 4_096,
            f_blocks: 1_000,
            f_bavail: blocks,
            f_files: files.0,
            f_favail: files.1,
            ..folder
        }
    }

    #[test]
    fn a_bundle_leaves_blocks_and_files_for_acknowledgments() {
        let plenty = (1_000, 1_000);
        for (octets, blocks) in [(1, 1), (4_096, 1), (4_097, 2), (40_960, 10)] {
            assert_eq!(fits(&room(SPARE_BLOCKS + blocks, plenty), octets), Ok(()));
            let refusal = fits(&room(SPARE_BLOCKS + blocks - 1, plenty), octets);
            assert!(refusal.is_err(), "{octets}");
        }
        let refusal = fits(&room(10, plenty), 5).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "no room for 5 octets: 40960 are free, of which 262144 stay free for acknowledgments"
        );
        // FAT does not count files.
        assert_eq!(fits(&room(500, (0, 0)), 1), Ok(()));
        assert_eq!(fits(&room(500, (1_000, SPARE_BLOCKS + 1)), 1), Ok(()));
        assert!(fits(&room(500, (1_000, SPARE_BLOCKS)), 1).is_err());
        assert!(fits(&room(0, plenty), u64::MAX).is_err());
        let unknown = StatVfs {
            f_blocks: 0,
            ..room(0, (0, 0))
        };
        assert_eq!(fits(&unknown, 1), Ok(()));
    }

    #[test]
    fn a_full_medium_is_not_a_read_only_one() {
        for (error, writable) in [
            (Errno::NOSPC, Some(Writable::Full)),
            (Errno::DQUOT, Some(Writable::Full)),
            (Errno::ROFS, Some(Writable::No)),
            (Errno::ACCESS, Some(Writable::No)),
            (Errno::PERM, Some(Writable::No)),
            (Errno::IO, None),
            (Errno::NOENT, None),
        ] {
            assert_eq!(Writable::refusing(error), writable);
            let error = io::Error::from(error);
            assert_eq!(Writable::refusing_with(&error), writable);
        }
        assert_eq!(Writable::refusing_with(&io::Error::other("x")), None);
    }
}
