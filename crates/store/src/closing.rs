//! The note that a store leaves when it is closed: how far its log reaches (docs/store-format.md 1.1).

use std::io::IoSlice;

use dhow_bundle::crc::crc32c;

use crate::disk::{Disk, DiskError};
use crate::record::{Layout, Place, put, u32_at, u64_at};
use crate::superblock::{COPY_OCTETS, CheckpointPlace};

const MAGIC: [u8; 8] = *b"DHOWEND\n";

/// Octets of the note.
const NOTE_OCTETS: usize = 64;

/// The place of the note in the 4096 octets of a superblock's copy: in a sector of its own.
const NOTE_OFFSET: u64 = 2048;

/// Octets of the note, for comparison with the log's length.
const NOTE_END: u64 = 64;

/// The end of a closed log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClosingNote {
    /// Number of the checkpoint that the log was opened with or has written since.
    pub(crate) checkpoint: u64,
    /// Behind the last record, which is durable.
    pub(crate) end: Place,
    pub(crate) segment: u32,
    /// Committed bundles.
    pub(crate) bundles: u64,
}

impl ClosingNote {
    fn encode(&self, seed: u64) -> [u8; NOTE_OCTETS] {
        let mut octets = [0; NOTE_OCTETS];
        put(&mut octets, 0, &MAGIC);
        put(&mut octets, 8, &seed.to_le_bytes());
        put(&mut octets, 16, &self.checkpoint.to_le_bytes());
        put(&mut octets, 24, &self.end.generation.to_le_bytes());
        put(&mut octets, 32, &self.segment.to_le_bytes());
        put(&mut octets, 36, &self.end.offset.to_le_bytes());
        put(&mut octets, 40, &self.bundles.to_le_bytes());
        let sum = crc32c(octets.get(..60).unwrap_or_default());
        put(&mut octets, 60, &sum.to_le_bytes());
        octets
    }

    fn decode(octets: &[u8], layout: &Layout) -> Option<Self> {
        let offset = u32_at(octets, 36)?;
        let valid = octets.get(..8)? == MAGIC
            && u64_at(octets, 8)? == layout.seed
            && u32_at(octets, 60)? == crc32c(octets.get(..60)?)
            && offset <= layout.segment_octets;
        valid.then_some(Self {
            checkpoint: u64_at(octets, 16)?,
            end: Place {
                generation: u64_at(octets, 24)?,
                offset,
            },
            segment: u32_at(octets, 32)?,
            bundles: u64_at(octets, 40)?,
        })
    }

    /// The copy of the superblock that does not name a checkpoint: a torn write harms nothing there, and
    /// the next checkpoint's superblock writes over the note.
    fn position(checkpoint: u64) -> u64 {
        ((checkpoint + 1) % 2) * COPY_OCTETS + NOTE_OFFSET
    }

    pub(crate) fn write(&self, layout: &Layout, disk: &dyn Disk) -> Result<(), DiskError> {
        let position = Self::position(self.checkpoint);
        disk.write_at(position, &[IoSlice::new(&self.encode(layout.seed))])
    }

    /// The note that was written after this checkpoint's superblock; `None` when the store was not closed since.
    pub(crate) fn read(
        layout: &Layout,
        checkpoint: CheckpointPlace,
        disk: &dyn Disk,
    ) -> Result<Option<Self>, DiskError> {
        let size = disk.size()?;
        // If the newest superblock is damaged, the note stands beside the older one, which is taken.
        for number in 0..2 {
            let position = Self::position(number);
            if position + NOTE_END > size {
                continue;
            }
            let mut octets = [0; NOTE_OCTETS];
            disk.read_at(position, &mut octets)?;
            if let Some(note) = Self::decode(&octets, layout)
                && note.checkpoint >= checkpoint.number
            {
                return Ok(Some(note));
            }
        }
        Ok(None)
    }
}
