//! The calls that a store needs of a disk, and their implementations: a file (`file`, past the page cache by `direct`,
//! `recent`, `rooms` and `buffers`), memory, and one for tests that fails.

mod aligned;
mod buffers;
mod direct;
#[cfg(any(test, feature = "testing"))]
mod faulty;
mod file;
mod memory;
mod recent;

use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::storage::Medium;

pub use buffers::{BUFFER_OCTETS, Buffers};
#[cfg(any(test, feature = "testing"))]
pub use faulty::{Failure, FaultyDisk, Operation};
pub use file::{FileDisk, History, LockError};
pub use memory::MemoryDisk;

/// Why a disk did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DiskError {
    /// No space is left.
    #[error("no space is left on the disk")]
    Full,
    /// The store lacks room to work at all.
    #[error("the disk has no room for {octets} octets that the store needs to take anything")]
    NoRoom {
        /// The number that is missing.
        octets: u64,
    },
    /// A read went past the end of the log.
    #[error("the log ends before octet {end}")]
    PastEnd {
        /// End of what was to be read, octets.
        end: u64,
    },
    /// The system refused.
    #[error("{0}")]
    System(Arc<io::Error>),
}

impl From<io::Error> for DiskError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::Full,
            _ => Self::System(Arc::new(error)),
        }
    }
}

/// Octets that are appended.
#[derive(Clone, Copy, Debug)]
pub enum Chunk<'a> {
    /// There as long as the call takes.
    Lent(&'a [u8]),
    /// A disk may keep them.
    Shared(&'a Bytes),
}

impl<'a> Chunk<'a> {
    /// The octets.
    #[must_use]
    pub fn octets(self) -> &'a [u8] {
        match self {
            Self::Lent(octets) => octets,
            Self::Shared(octets) => octets,
        }
    }
}

/// The chunks as slices, for a disk that copies them.
fn slices<'a>(chunks: &[Chunk<'a>]) -> Vec<IoSlice<'a>> {
    let slices = chunks.iter().map(|chunk| IoSlice::new(chunk.octets()));
    slices.collect()
}

/// One log's octets. They may be read by one thread while another writes and syncs.
pub trait Disk: Send + Sync {
    /// Length of the log in octets.
    ///
    /// # Errors
    /// The system refused.
    fn size(&self) -> Result<u64, DiskError>;

    /// Fills `out` with the octets from `offset`.
    ///
    /// # Errors
    /// [`DiskError::PastEnd`] when the log is shorter, or the system refused.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError>;

    /// Writes the slices one after the other from `offset`, and makes the log longer when they reach past its end.
    ///
    /// # Errors
    /// [`DiskError::Full`], or the system refused. Any part of the octets may then have been written.
    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError>;

    /// Cuts the log or lengthens it with zeros.
    ///
    /// # Errors
    /// [`DiskError::Full`], or the system refused.
    fn resize(&self, octets: u64) -> Result<(), DiskError>;

    /// Makes the log reach to `until` at least, and sees that there is room for all octets from `from` on: a later write there
    /// does not find the disk full. Octets that were never written are zeros, and those between the log's former end and `from` take no room.
    /// Nothing in the range is of use to anybody.
    ///
    /// # Errors
    /// [`DiskError::Full`], or the system refused. The log may be longer all the same, and have room for a part.
    fn reserve(&self, from: u64, until: u64) -> Result<(), DiskError>;

    /// The calls that it answers better than by reading and writing, where it does.
    fn caching(&self) -> Option<&dyn CachingDisk> {
        None
    }

    /// The medium that the octets lie in.
    fn medium(&self) -> Medium {
        Medium::Disk
    }

    /// Octets for which the disk would still have room; `None` where nobody can tell.
    fn available(&self) -> Option<u64> {
        None
    }

    /// Returns once everything written is durable.
    ///
    /// # Errors
    /// The system refused: nothing since the last successful sync can be relied on.
    fn sync(&self) -> Result<(), DiskError>;
}

/// A disk that has octets in memory: it may keep the buffers that are written, and lend those that are read.
pub trait CachingDisk: Disk {
    /// As [`Disk::write_at`], at the log's growing end: what lies behind the octets, up to the next multiple of 4096, is of
    /// no use to anybody and may become zeros.
    ///
    /// # Errors
    /// As [`Disk::write_at`].
    fn append_at(&self, offset: u64, octets: &[Chunk<'_>]) -> Result<(), DiskError> {
        self.write_at(offset, &slices(octets))
    }

    /// Whole blocks are written from where they are, without a copy: of so many octets must the place in the log, and the address
    /// in memory, of a large shared chunk be a multiple for that. `None` where that makes no difference.
    fn grain(&self) -> Option<usize> {
        None
    }

    /// Octets from `offset` on, at least one and at most `most`, without a copy; `None` where they are to be read by
    /// [`Disk::read_at`].
    fn share(&self, _offset: u64, _most: u64) -> Option<Bytes> {
        None
    }

    /// Lets go of memory that is only there because it may be of use again.
    fn give_back(&self) {}

    /// Nobody will read these octets before they are written again.
    fn forget(&self, _offset: u64, _octets: u64) {}
}

/// The calls of a [`CachingDisk`] for any disk.
impl dyn Disk + '_ {
    /// As [`CachingDisk::append_at`]; a plain write of any other disk.
    ///
    /// # Errors
    /// As [`Disk::write_at`].
    pub fn append_at(&self, offset: u64, octets: &[Chunk<'_>]) -> Result<(), DiskError> {
        match self.caching() {
            Some(disk) => disk.append_at(offset, octets),
            None => self.write_at(offset, &slices(octets)),
        }
    }

    /// The grain as by [`CachingDisk::grain`]; none of any other disk.
    #[must_use]
    pub fn grain(&self) -> Option<usize> {
        self.caching()?.grain()
    }

    /// The octets as by [`CachingDisk::share`]; none of any other disk.
    #[must_use]
    pub fn share(&self, offset: u64, most: u64) -> Option<Bytes> {
        self.caching()?.share(offset, most)
    }

    /// As [`CachingDisk::give_back`]; nothing for any other disk.
    pub fn give_back(&self) {
        if let Some(disk) = self.caching() {
            disk.give_back();
        }
    }

    /// As [`CachingDisk::forget`]; nothing for any other disk.
    pub fn forget(&self, offset: u64, octets: u64) {
        if let Some(disk) = self.caching() {
            disk.forget(offset, octets);
        }
    }
}
