//! Checkpoints: the content of the log so far, in one place (docs/store-format.md 5).

use bytes::Bytes;
use dhow_bundle::DtnTime;
use dhow_bundle::mutant::{Mutant, planted};

use crate::error::Trouble;
use crate::record::Kind;
use crate::reserve::Purpose;
use crate::segment::Usage;
use crate::store::Store;
use crate::superblock::{CheckpointPlace, Superblock};
use crate::wire::{Reader, length, put_varint};

/// A part of a checkpoint has one in so many of a unit's octets, at most.
const UNIT_SHARE: u32 = 8;

/// Parts that fit into a unit: with their frames and those of the segment, one less than there would be without any.
pub(crate) const PARTS_OF_UNIT: u64 = 7;

/// Octets of a checkpoint beside its segments and remembered identifiers, at most: varints.
const FIXED_OCTETS: u64 = 70;

/// Octets of a segment in a checkpoint beside its commits, at most: five varints.
const SEGMENT_OCTETS: u64 = 30;

/// Octets of a live commit in a checkpoint, at most.
const COMMIT_OCTETS: u64 = 5;

/// Segments that may be added before this is asked for again.
const SEGMENTS_MORE: u64 = 8;

/// The progress of the newest checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The checkpoint is durable and named by a durable superblock.
    Idle,
    /// The records are written.
    Written(CheckpointPlace),
    /// Its records are durable, and the superblock is written.
    Named(CheckpointPlace),
}

/// One segment in a checkpoint.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) index: u32,
    pub(crate) generation: u64,
    pub(crate) end: u32,
    pub(crate) seal: u32,
    /// Offsets of live commit records, rising.
    pub(crate) live: Vec<u32>,
}

/// The fixed part of a checkpoint and its segments; remembered identifiers follow.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) number: u64,
    pub(crate) next_arrival: u64,
    pub(crate) reserved: (DtnTime, u64),
    pub(crate) dropped: u64,
    pub(crate) segments: Vec<Listed>,
}

impl Contents {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut contents = Self {
            number: reader.varint()?,
            next_arrival: reader.varint()?,
            reserved: (DtnTime::from_millis(reader.varint()?), reader.varint()?),
            dropped: reader.varint()?,
            segments: Vec::new(),
        };
        for _ in 0..reader.varint()? {
            let mut listed = Listed {
                index: reader.varint_u32()?,
                generation: reader.varint()?,
                end: reader.varint_u32()?,
                seal: reader.varint_u32()?,
                live: Vec::new(),
            };
            let mut offset = 0_u32;
            for _ in 0..reader.varint()? {
                offset = offset.checked_add(reader.varint_u32()?.checked_mul(8)?)?;
                listed.live.push(offset);
            }
            contents.segments.push(listed);
        }
        Some(contents)
    }
}

impl Store {
    /// Octets of a checkpoint's part, at most.
    pub(crate) fn part_octets(&self) -> u32 {
        self.unit_octets() / UNIT_SHARE
    }

    /// Octets that a checkpoint takes at most, now and however the bundles that are here go: each that goes may leave an identifier.
    pub(crate) fn checkpoint_most_octets(&self) -> u64 {
        let segments = length(self.log.segments.len()) + SEGMENTS_MORE;
        let leavings = self.slots.identifier_octets();
        FIXED_OCTETS
            + segments * SEGMENT_OCTETS
            + length(self.slots.len()) * COMMIT_OCTETS
            + self.removed.octets_with(leavings)
    }

    fn encode_checkpoint(&self, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for value in [
            number,
            self.next_arrival,
            self.reserved.0.as_millis(),
            if planted(Mutant::CheckpointWithoutReserved) {
                0
            } else {
                self.reserved.1
            },
            self.removed.dropped,
        ] {
            put_varint(&mut out, value);
        }
        let listed = || {
            self.log
                .segments
                .iter()
                .filter(|(_, segment)| segment.usage != Usage::Free && segment.live_commits() > 0)
        };
        put_varint(&mut out, length(listed().count()));
        for (index, segment) in listed() {
            put_varint(&mut out, u64::from(index));
            put_varint(&mut out, segment.generation);
            put_varint(&mut out, u64::from(segment.end));
            put_varint(&mut out, u64::from(segment.seal));
            put_varint(&mut out, u64::from(segment.live_commits()));
            let mut before = 0;
            for offset in segment.live_offsets() {
                put_varint(&mut out, u64::from((offset - before) / 8));
                before = offset;
            }
        }
        match planted(Mutant::CheckpointWithoutRemoved) {
            true => put_varint(&mut out, 0),
            false => self.removed.write(&mut out),
        }
        out
    }

    /// Writes a checkpoint of all that was written before it.
    pub(crate) fn write_checkpoint(&mut self) -> Result<(), Trouble> {
        self.write_deletions()?;
        let part_octets = self.part_octets();
        // The copy of the superblock that is durable must not be written over by the next one.
        let mut number = self.last_number + 1;
        if number % 2 == self.checkpoint.number % 2 && self.checkpoint.number != 0 {
            number += 1;
        }
        self.last_number = number;
        let octets = Bytes::from(self.encode_checkpoint(number));
        self.checkpoint_octets = length(octets.len());
        let parts = length(octets.len()).div_ceil(u64::from(part_octets));
        let mut first = None;
        let mut rest = octets;
        for part in 0..parts {
            let payload = rest.split_to(rest.len().min(crate::wire::index(part_octets)));
            let mut body = Vec::with_capacity(30);
            put_varint(&mut body, number);
            put_varint(&mut body, part);
            put_varint(&mut body, parts);
            self.make_room(
                length(payload.len()),
                length(body.len()),
                Purpose::Checkpoint,
            )?;
            let appended = self
                .log
                .append(Kind::Checkpoint, &[payload.into()], &body)?;
            first.get_or_insert(CheckpointPlace {
                number,
                place: appended.place,
                segment: appended.segment,
            });
        }
        if let Some(first) = first {
            self.progress = Progress::Written(first);
            self.counts.checkpoints += 1;
            self.begun = 0;
        }
        Ok(())
    }

    /// After a sync: names the checkpoint that it made durable, or counts the one whose name it made durable.
    pub(crate) fn advance_checkpoint(&mut self) -> Result<(), Trouble> {
        match self.progress {
            Progress::Idle => {}
            Progress::Written(checkpoint) => {
                self.naming = Some(checkpoint);
                self.name(checkpoint)?;
                self.progress = Progress::Named(checkpoint);
            }
            Progress::Named(checkpoint) => self.named(checkpoint),
        }
        Ok(())
    }

    /// Writes a checkpoint's name into the superblock.
    pub(crate) fn name(&self, checkpoint: CheckpointPlace) -> Result<(), Trouble> {
        let layout = self.log.layout;
        let superblock = Superblock::new(layout, checkpoint);
        Ok(superblock.write(&*self.log.disk)?)
    }

    /// The superblock that names a checkpoint is durable.
    pub(crate) fn named(&mut self, checkpoint: CheckpointPlace) {
        self.checkpoint = checkpoint;
        self.naming = None;
        self.progress = Progress::Idle;
        self.log.segments.reclaim(checkpoint.place.generation);
    }

    /// Has a checkpoint of all so far durable before it returns.
    pub(crate) fn checkpoint_now(&mut self) -> Result<(), Trouble> {
        // A checkpoint on its way may be too old to free anything: it is finished first.
        while self.progress != Progress::Idle {
            self.sync_once()?;
        }
        self.write_checkpoint()?;
        while self.progress != Progress::Idle {
            self.sync_once()?;
        }
        Ok(())
    }
}
