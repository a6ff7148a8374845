//! The two superblocks at the log's start (docs/store-format.md 1).

use std::io::IoSlice;

use dhow_bundle::crc::crc32c;

use crate::disk::{Disk, DiskError};
use crate::error::OpenError;
use crate::record::{Layout, Place, SEGMENTS_START, put, u32_at, u64_at};
use crate::wire::length;

/// The format that this program writes, and the newest that it reads.
pub(crate) const FORMAT_VERSION: u32 = 2;

/// The oldest format that this program reads; a store of it is carried over as it is opened.
const OLDEST_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"DHOWLOG\n";

/// Octets of one copy that carry something.
const SUPERBLOCK_OCTETS: usize = 64;

/// Distance between the copies.
pub(crate) const COPY_OCTETS: u64 = 4096;

/// A copy is written whole, so that what else stood there is gone.
static REST: [u8; 4096 - SUPERBLOCK_OCTETS] = [0; 4096 - SUPERBLOCK_OCTETS];

/// Smallest segment, octets: a simulated node's.
pub const SEGMENT_OCTETS_MIN: u32 = 64 * 1024;

/// Largest segment, octets: offsets in a segment stay far from 2^32.
pub const SEGMENT_OCTETS_MAX: u32 = 1024 * 1024 * 1024;

/// Segment sizes are multiples of this, so that segments are whole pages.
const SEGMENT_UNIT: u32 = 4096;

/// A place where a checkpoint begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckpointPlace {
    /// Counts checkpoints; 0 means none.
    pub(crate) number: u64,
    pub(crate) place: Place,
    pub(crate) segment: u32,
}

/// A valid superblock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Superblock {
    pub(crate) layout: Layout,
    pub(crate) checkpoint: CheckpointPlace,
    /// The format of the log that it was read from.
    version: u32,
}

/// The finding at a log's start.
#[derive(Debug)]
pub(crate) enum Found {
    /// A store.
    Store(Superblock),
    /// Nothing yet, or a creation that did not finish.
    Nothing,
}

/// Whether a segment size is one that the format allows.
pub(crate) fn segment_octets_allowed(octets: u32) -> bool {
    (SEGMENT_OCTETS_MIN..=SEGMENT_OCTETS_MAX).contains(&octets)
        && octets.is_multiple_of(SEGMENT_UNIT)
}

impl Superblock {
    fn encode(&self) -> [u8; SUPERBLOCK_OCTETS] {
        let mut octets = [0; SUPERBLOCK_OCTETS];
        put(&mut octets, 0, &MAGIC);
        put(&mut octets, 8, &FORMAT_VERSION.to_le_bytes());
        put(&mut octets, 12, &self.layout.segment_octets.to_le_bytes());
        put(&mut octets, 16, &self.layout.seed.to_le_bytes());
        put(&mut octets, 24, &self.checkpoint.number.to_le_bytes());
        put(
            &mut octets,
            32,
            &self.checkpoint.place.generation.to_le_bytes(),
        );
        put(&mut octets, 40, &self.checkpoint.segment.to_le_bytes());
        put(&mut octets, 44, &self.checkpoint.place.offset.to_le_bytes());
        let sum = crc32c(octets.get(..60).unwrap_or_default());
        put(&mut octets, 60, &sum.to_le_bytes());
        octets
    }

    fn decode(octets: &[u8]) -> Option<Self> {
        let segment_octets = u32_at(octets, 12)?;
        let version = u32_at(octets, 8)?;
        let valid = octets.get(..8)? == MAGIC
            && (OLDEST_VERSION..=FORMAT_VERSION).contains(&version)
            && segment_octets_allowed(segment_octets)
            && u32_at(octets, 60)? == crc32c(octets.get(..60)?);
        valid.then_some(Self {
            layout: Layout {
                segment_octets,
                seed: u64_at(octets, 16)?,
            },
            checkpoint: CheckpointPlace {
                number: u64_at(octets, 24)?,
                place: Place {
                    generation: u64_at(octets, 32)?,
                    offset: u32_at(octets, 44)?,
                },
                segment: u32_at(octets, 40)?,
            },
            version,
        })
    }

    /// A superblock of the newest format.
    pub(crate) fn new(layout: Layout, checkpoint: CheckpointPlace) -> Self {
        Self {
            layout,
            checkpoint,
            version: FORMAT_VERSION,
        }
    }

    /// Writes the copy that is this checkpoint's turn.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        self.write_copy(self.checkpoint.number % 2, disk)
    }

    fn write_copy(&self, copy: u64, disk: &dyn Disk) -> Result<(), DiskError> {
        disk.write_at(
            copy * COPY_OCTETS,
            &[IoSlice::new(&self.encode()), IoSlice::new(&REST)],
        )
    }

    /// Makes both copies of a log that an older program wrote say the newest format, of which the older ones are a part: that program
    /// refuses the store from now on. One copy is whole at any moment.
    pub(crate) fn carry_over(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        if self.version == FORMAT_VERSION {
            return Ok(());
        }
        self.version = FORMAT_VERSION;
        for copy in [self.checkpoint.number + 1, self.checkpoint.number] {
            self.write_copy(copy % 2, disk)?;
            disk.sync()?;
        }
        Ok(())
    }

    /// Makes an empty store of a log that holds nothing.
    pub(crate) fn create(layout: Layout, disk: &dyn Disk) -> Result<Self, DiskError> {
        let superblock = Self::new(layout, CheckpointPlace::default());
        disk.resize(0)?;
        disk.resize(SEGMENTS_START)?;
        superblock.write(disk)?;
        disk.sync()?;
        Ok(superblock)
    }

    /// Reads the newest valid copy.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Found, OpenError> {
        let size = disk.size()?;
        let start_octets = usize::try_from(size.min(SEGMENTS_START)).unwrap_or(0);
        let mut start = vec![0; start_octets];
        disk.read_at(0, &mut start)?;
        let copies = [
            start.get(..SUPERBLOCK_OCTETS),
            start.get(4096..4096 + SUPERBLOCK_OCTETS),
        ];
        let newest = copies
            .iter()
            .flatten()
            .filter_map(|octets| Self::decode(octets));
        if let Some(newest) = newest.max_by_key(|superblock| superblock.checkpoint.number) {
            return Ok(Found::Store(newest));
        }
        let newer = copies
            .iter()
            .flatten()
            .filter(|octets| octets.starts_with(&MAGIC));
        let newer = newer
            .filter_map(|octets| u32_at(octets, 8))
            .filter(|version| *version > FORMAT_VERSION)
            .max();
        // A version alone could be damage; a size beyond the first superblocks says that a store was there.
        if let Some(version) = newer {
            return Err(OpenError::NewerVersion {
                version,
                readable: FORMAT_VERSION,
            });
        }
        let unfinished = size <= SEGMENTS_START
            && (start.iter().all(|octet| *octet == 0) || begins_as_one(&start));
        if unfinished {
            return Ok(Found::Nothing);
        }
        if copies
            .iter()
            .flatten()
            .any(|octets| octets.starts_with(&MAGIC))
        {
            return Err(OpenError::Damaged);
        }
        Err(OpenError::NotAStore)
    }
}

/// Whether the octets could be the torn beginning of a superblock that was never whole: nothing beyond its
/// octets, and its first ones those of the magic as far as they are there.
fn begins_as_one(start: &[u8]) -> bool {
    let (superblock, rest) = start.split_at(start.len().min(SUPERBLOCK_OCTETS));
    let magic = superblock
        .iter()
        .zip(MAGIC)
        .take_while(|(octet, wanted)| *octet == wanted)
        .count();
    let cut = superblock
        .get(magic..)
        .unwrap_or_default()
        .iter()
        .all(|octet| *octet == 0);
    rest.iter().all(|octet| *octet == 0)
        && length(start.len()) <= SEGMENTS_START
        && (magic == MAGIC.len() || cut)
}
