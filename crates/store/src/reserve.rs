//! Room for the next record: the segments that a store begins, sets aside, and begins again after a failure.
//!
//! `docs/store-format.md` 7 has the argument why deletions, checkpoints and opening always find the room that they need. In short: a
//! *unit* is the smallest segment, a checkpoint takes at most `k` of them, and of the segments to which no bundle refers there are
//! never fewer than `2 k + 2` after a bundle was written; nothing but a checkpoint takes one of the last `k` free ones.

use dhow_bundle::storage::{BundleKey, StoreEvent, StoreRefusal};

use crate::checkpoint::{PARTS_OF_UNIT, Progress};
use crate::disk::DiskError;
use crate::error::Trouble;
use crate::record::Kind;
use crate::segment::Turn;
use crate::store::{Durability, Store, pass_on};
use crate::wire::{index, length};

/// The smallest segment, octets, where the log's are not smaller: what a store sets aside it has in these, so that one with little in it takes little.
pub(crate) const UNIT_OCTETS: u32 = 512 * 1024;

/// Rolls to another segment while one record looks for room: one for itself, and those that a checkpoint and growth take.
const ROLLS: u32 = 8;

/// A log of fewer segments grows rather than wait for a checkpoint.
const RING_MIN: usize = 3;

/// A checkpoint is due after so many segments: recovery walks no more than these.
const CHECKPOINT_SEGMENTS: u32 = 8;

/// A new segment has one part in this many of the octets that the log has already: it grows as it is used.
const GROWTH_SHARE: u64 = 16;

/// The largest segment has one part in this many of the quota at most.
const QUOTA_SHARE: u64 = 16;

/// A change of what the disk has room for is told when it is one of so many of what was told before, or more.
const CAPACITY_STEPS: u64 = 64;

/// And when it has so many octets.
const CAPACITY_STEP_LEAST: u64 = 64 * 1024;

/// The purpose of a record: it decides how deep that may reach into what is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A new bundle.
    Bundle,
    /// A bundle moved to empty a segment.
    Move,
    /// Deletions, reservations and marks.
    Upkeep,
    /// A part of a checkpoint.
    Checkpoint,
}

impl Store {
    /// Octets of the smallest segment.
    pub(crate) fn unit_octets(&self) -> u32 {
        self.log.segments.unit_octets()
    }

    /// Octets of the largest segment that the log may get.
    fn largest_octets(&self) -> u32 {
        let share = self.options.quota_octets / QUOTA_SHARE;
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        let whole = share - share % self.unit_octets();
        whole.clamp(self.unit_octets(), self.log.layout.segment_octets)
    }

    /// Octets of the segment by which the log would grow next.
    pub(crate) fn next_octets(&self) -> u32 {
        let share = self.log.segments.allocated() / GROWTH_SHARE;
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        let whole = share - share % self.unit_octets();
        whole.clamp(self.unit_octets(), self.largest_octets())
    }

    /// Segments that a checkpoint begins at most, each of a unit or more.
    pub(crate) fn checkpoint_segments(&self) -> usize {
        let part = u64::from(self.part_octets());
        let parts = self.checkpoint_most_octets().div_ceil(part);
        index(parts.div_ceil(PARTS_OF_UNIT)).max(1)
    }

    /// Unreferenced segments that bundles and moves leave.
    fn set_aside(&self) -> usize {
        2 * self.checkpoint_segments() + 2
    }

    /// Octets of segments that the log may take for bundles: a quarter more than the quota, what is set aside, and three segments of the largest.
    pub(crate) fn bound_octets(&self) -> u64 {
        let quota = self.options.quota_octets;
        quota
            .saturating_add(quota / 4)
            .saturating_add(length(self.set_aside()) * u64::from(self.unit_octets()))
            .saturating_add(3 * u64::from(self.largest_octets()))
    }

    /// Octets of unreferenced segments beyond those that stay for upkeep, the smallest of all; `None` where these are not complete.
    fn pool_octets(&self) -> Option<u64> {
        let filled = self.log.segments.unreferenced();
        let beyond = filled.get(self.set_aside()..)?;
        Some(beyond.iter().map(|filled| u64::from(*filled)).sum())
    }

    /// Octets of bundles, about, that the log can take as far as the quota and the disk allow it to grow at present; `None` where the disk
    /// does not tell.
    #[must_use]
    pub fn capacity_octets(&self) -> Option<u64> {
        let room = self.room_octets()?;
        Some(self.capacity_of(room))
    }

    /// Octets that the log has on the disk and could have, where the disk tells that.
    fn room_octets(&self) -> Option<u64> {
        let allocated = self.log.segments.allocated();
        Some(allocated.saturating_add(self.log.disk.available()?))
    }

    /// Octets of bundles, about, in a log of so many: what the room that was made is given for, but where the log cannot get longer anyway.
    fn capacity_of(&self, room: u64) -> u64 {
        let quota = self.options.quota_octets;
        if room >= self.bound_octets() {
            return quota;
        }
        // The longer the log, the larger its segments, and what moves need: one that has just been made would tell too much.
        let share = u32::try_from(room / GROWTH_SHARE).unwrap_or(u32::MAX);
        let largest = share.clamp(self.unit_octets(), self.largest_octets());
        let moves = self.pool_for_moves().max(2 * u64::from(largest));
        let set_aside = length(self.set_aside()) * u64::from(self.unit_octets()) + moves;
        (room.saturating_sub(set_aside) / 4 * 3).min(quota)
    }

    /// Looks how much room the disk has, which others may take and give back, and adds a [`StoreEvent::Capacity`] to `out` where that is
    /// notably more or less than was told before. A driver asks as often as it wants to know, without a command between.
    pub fn tell_capacity(&mut self, out: &mut Vec<StoreEvent>) {
        let Some(room) = self.room_octets() else {
            return;
        };
        let octets = self.capacity_of(room);
        // Before anything was told, the node takes the quota.
        let (before, told) = self
            .told_capacity
            .unwrap_or((u64::MAX, self.options.quota_octets));
        let step = (told / CAPACITY_STEPS).max(CAPACITY_STEP_LEAST);
        let is_notable = self.told_capacity.is_none() || room.abs_diff(before) >= step;
        if is_notable && octets != told {
            self.told_capacity = Some((room, octets));
            let medium = self.log.disk.medium();
            out.push(StoreEvent::Capacity { octets, medium });
        }
    }

    /// Octets of the pool that moves may take and bundles leave: the largest segment that there is can be emptied, also after a crash
    /// has left one half emptied and another half filled.
    fn pool_for_moves(&self) -> u64 {
        let filled = self.log.segments.iter().map(|(_, segment)| segment.filled);
        2 * u64::from(filled.max().unwrap_or(0))
    }

    /// Octets of free segments that bundles may begin, as far as the pool is concerned.
    pub(crate) fn octets_for_bundles(&self) -> u64 {
        let pool = self.pool_octets().unwrap_or(0);
        pool.saturating_sub(self.pool_for_moves())
    }

    /// Octets that moves may still write.
    pub(crate) fn octets_for_moves(&self) -> u64 {
        self.pool_octets().unwrap_or(0)
    }

    /// Whether enough is set aside once bundles refer to one more segment, of so many octets.
    fn leaves_enough(&self, purpose: Purpose, filled: u32) -> bool {
        match purpose {
            Purpose::Upkeep | Purpose::Checkpoint => true,
            Purpose::Move => self.pool_octets().is_some_and(|pool| pool > 0),
            Purpose::Bundle => self.octets_for_bundles() >= u64::from(filled),
        }
    }

    /// Whether a record may go where the log ends: bundles and moves may not be the first in a segment that is set aside.
    fn may_write(&self, purpose: Purpose) -> bool {
        let Some(segment) = self.log.segment() else {
            return false;
        };
        let filled = self.log.segments.at(segment).map_or(0, |at| at.filled);
        !self.log.segments.is_unreferenced(segment) || self.leaves_enough(purpose, filled)
    }

    /// Sees to it that a record fits behind those that are there.
    pub(crate) fn make_room(
        &mut self,
        payload: u64,
        body: u64,
        purpose: Purpose,
    ) -> Result<(), Trouble> {
        if self.log.is_sure(payload, body) {
            return Ok(());
        }
        if payload > self.log.largest_payload(body) {
            return Err(Trouble::Full);
        }
        let mut checkpointed = false;
        for _ in 0..ROLLS {
            if self.log.fits(payload, body) {
                if self.may_write(purpose) {
                    if purpose == Purpose::Bundle {
                        self.log.be_sure();
                    }
                    return Ok(());
                }
                self.grow(purpose, self.unit_octets())?;
                continue;
            }
            let wanted = self.log.segment_for(payload, body).max(self.unit_octets());
            if self.roll(purpose, wanted)? {
                continue;
            }
            if !checkpointed && self.frees_by_checkpoint(purpose) {
                checkpointed = true;
                self.checkpoint_now()?;
            } else if self.grow(purpose, wanted).is_err() {
                self.reach_deep(purpose, wanted)?;
            }
        }
        Err(Trouble::Full)
    }

    /// Whether a checkpoint frees something, and is worth it.
    fn frees_by_checkpoint(&self, purpose: Purpose) -> bool {
        let segments = &self.log.segments;
        let is_dead = segments.dead() > 0;
        // The segment in which the log ends may hold nothing but deletions.
        let ends_dead = || {
            self.log
                .segment()
                .is_some_and(|it| segments.is_unreferenced(it))
        };
        match purpose {
            Purpose::Checkpoint => false,
            Purpose::Upkeep => is_dead || ends_dead(),
            Purpose::Bundle | Purpose::Move => is_dead && segments.len() >= RING_MIN,
        }
    }

    /// Begins a free segment of at least so many octets; false where there is none for this purpose.
    fn roll(&mut self, purpose: Purpose, wanted: u32) -> Result<bool, Trouble> {
        let segments = &self.log.segments;
        let kept = match purpose {
            Purpose::Checkpoint => 0,
            _ => self.checkpoint_segments(),
        };
        if segments.free() <= kept {
            return Ok(false);
        }
        let most = self.octets_for_bundles();
        let for_bundles = segments.large(self.next_octets(), wanted, most);
        let chosen = match purpose {
            Purpose::Bundle => for_bundles,
            Purpose::Move => segments
                .large(self.next_octets(), wanted, u64::MAX)
                .filter(|_| self.octets_for_moves() > 0),
            // Of what is set aside the smallest is begun.
            Purpose::Upkeep | Purpose::Checkpoint => for_bundles.or_else(|| segments.small(wanted)),
        };
        let Some(segment) = chosen else {
            return Ok(false);
        };
        if purpose == Purpose::Bundle {
            self.is_wanting = false;
        }
        self.begin(segment)?;
        Ok(true)
    }

    fn begin(&mut self, segment: u32) -> Result<(), Trouble> {
        self.log.seal()?;
        self.begun += 1;
        self.log.begin(segment)
    }

    /// Makes the log longer by a segment of at least so many octets, where it may and the disk has room.
    fn grow(&mut self, purpose: Purpose, wanted: u32) -> Result<(), Trouble> {
        let unit = self.unit_octets();
        let least = wanted
            .checked_next_multiple_of(unit)
            .map_or(u32::MAX, |octets| octets.max(unit))
            .min(self.log.layout.segment_octets);
        let (mut octets, bound) = match purpose {
            Purpose::Bundle | Purpose::Move => {
                self.complete_reserve()?;
                (self.next_octets().max(least), self.bound_octets())
            }
            Purpose::Upkeep | Purpose::Checkpoint => (least, u64::MAX),
        };
        loop {
            let grown = self.log.segments.allocated().saturating_add(octets.into());
            let allocated = match grown <= bound {
                true => self.log.allocate(octets),
                false => Err(Trouble::Full),
            };
            self.cramped = allocated.is_err();
            if !matches!(allocated, Err(Trouble::Full)) || octets <= least {
                return allocated;
            }
            octets = (octets / 2 / unit * unit).max(least);
        }
    }

    /// Sees that what is set aside is there, and in the smallest segments: larger ones are for bundles. It grows with the bundles that are here.
    fn complete_reserve(&mut self) -> Result<(), Trouble> {
        let unit = self.unit_octets();
        let units = self.log.segments.unreferenced();
        let units = units.iter().filter(|filled| **filled == unit).count();
        for _ in units..=self.set_aside() {
            let grown = self.log.segments.allocated().saturating_add(unit.into());
            if grown > self.bound_octets() {
                break;
            }
            let allocated = self.log.allocate(unit);
            self.cramped = allocated.is_err();
            allocated?;
        }
        Ok(())
    }

    /// The disk is full, and something was taken from what is set aside: upkeep begins whatever is free.
    fn reach_deep(&mut self, purpose: Purpose, wanted: u32) -> Result<(), Trouble> {
        let is_upkeep = matches!(purpose, Purpose::Upkeep | Purpose::Checkpoint);
        let segment = self.log.segments.small(wanted).filter(|_| is_upkeep);
        self.begin(segment.ok_or(Trouble::Full)?)
    }

    pub(crate) fn write_upkeep(&mut self, kind: Kind, body: &[u8]) -> Result<(), Trouble> {
        self.make_room(0, length(body.len()), Purpose::Upkeep)?;
        self.log.append(kind, &[], body)?;
        Ok(())
    }

    /// Whether the log may become longer for bundles, as far as is known.
    pub(crate) fn grows(&self) -> bool {
        let grown = self.log.segments.allocated() + u64::from(self.unit_octets());
        !self.cramped && grown <= self.bound_octets()
    }

    /// Whether bundles can begin hardly another segment of those that are free.
    pub(crate) fn is_short(&self) -> bool {
        let free = self.log.segments.free() <= self.checkpoint_segments() + 1;
        free || self.octets_for_bundles() <= u64::from(self.next_octets())
    }

    /// The upkeep that is due after a batch: a checkpoint, and part of a move.
    pub(crate) fn upkeep(&mut self) -> Result<(), Trouble> {
        let (dead, all) = (self.log.segments.dead(), self.log.segments.len());
        let worth = dead > 0 && (dead * 8 >= all || !self.grows()) && all >= RING_MIN;
        if self.progress == Progress::Idle
            && (self.begun >= CHECKPOINT_SEGMENTS
                || (worth && (self.is_short() || self.is_wanting)))
        {
            // While a checkpoint is on its way, what it begins is free for nothing else.
            if self.log.segments.free() >= 2 * self.checkpoint_segments() {
                self.write_checkpoint()?;
            } else {
                self.checkpoint_now()?;
            }
        }
        self.compact()
    }

    /// One sync, and what follows from it.
    pub(crate) fn sync_once(&mut self) -> Result<(), Trouble> {
        self.write_deletions()?;
        self.log.flush()?;
        self.sync_disk()?;
        self.counts.syncs += 1;
        self.durable = self.log.place();
        self.settle_replacing();
        self.unsynced.clear();
        pass_on(&mut self.waiting, &mut self.ready);
        self.is_changed |= !self.releases.is_empty() || self.progress != Progress::Idle;
        for reference in std::mem::take(&mut self.releases) {
            self.log
                .segments
                .release(reference, self.checkpoint.place.generation);
        }
        self.advance_checkpoint()
    }

    /// Begins a segment, writes a checkpoint into it and makes it the log's: after opening, and after a failure.
    fn establish(&mut self) -> Result<(), Trouble> {
        if let Some(checkpoint) = self.naming {
            // The disk may have its name or not: until it has for sure, neither checkpoint may be written over.
            self.name(checkpoint)?;
            self.sync_disk()?;
            self.named(checkpoint);
        }
        self.log.segments.reclaim(self.checkpoint.place.generation);
        let unit = self.unit_octets();
        while self.log.segments.free() < self.checkpoint_segments() && self.allocate(unit)? {}
        let segment = self.log.segments.small(unit).ok_or(Trouble::Full)?;
        self.log.begin(segment)?;
        self.checkpoint_now()?;
        // One more than must be there, since bundles are to follow. Without it the store takes none.
        while self.log.segments.unreferenced().len() <= self.set_aside() && self.allocate(unit)? {}
        Ok(())
    }

    /// Makes the log longer by a segment; false where the disk has no room for it.
    fn allocate(&mut self, octets: u32) -> Result<bool, Trouble> {
        match self.log.allocate(octets) {
            Ok(()) => Ok(true),
            Err(Trouble::Full) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// One sync, where octets are to be durable.
    pub(crate) fn sync_disk(&self) -> Result<(), DiskError> {
        match self.options.durability {
            Durability::Sync => self.log.disk.sync(),
            Durability::Os | Durability::Memory => Ok(()),
        }
    }

    /// Tries to work again.
    pub(crate) fn restart(&mut self) {
        // The checkpoint has the deletions.
        self.deletions.clear();
        // Events that wait are true once the checkpoint is named, not when its records are synced.
        let waiting = std::mem::take(&mut self.waiting);
        let established = self.establish();
        self.waiting = waiting;
        match established {
            Ok(()) => {
                self.failure = None;
                self.ready.append(&mut self.waiting);
            }
            Err(trouble) => {
                self.failure = Some(match trouble {
                    Trouble::Full => self.no_room(),
                    Trouble::Disk(error) => error,
                });
                self.progress = Progress::Idle;
                self.log.cut(self.durable);
            }
        }
    }

    /// The disk lacks what the store needs to work at all.
    pub(crate) fn no_room(&self) -> DiskError {
        let segments = self
            .checkpoint_segments()
            .saturating_sub(self.log.segments.free());
        let octets = length(segments.max(1)) * u64::from(self.unit_octets());
        DiskError::NoRoom { octets }
    }

    /// Gives up what is not durable: new bundles are refused, moves are undone; deletions and reservations stay, for
    /// the checkpoint that a restart begins with.
    pub(crate) fn fail(&mut self, error: DiskError) {
        self.failure = Some(error);
        self.counts.failures += 1;
        self.progress = Progress::Idle;
        self.compaction = None;
        for replacing in std::mem::take(&mut self.replacing).into_iter().rev() {
            self.undo_replacing(replacing);
        }
        let arriving: Vec<BundleKey> = self
            .arriving
            .keys()
            .copied()
            .chain(self.current.as_ref().map(|(key, _)| *key))
            .collect();
        for key in arriving {
            self.refuse(key, StoreRefusal::Disk);
        }
        for event in std::mem::take(&mut self.waiting) {
            match event {
                StoreEvent::Stored { key, .. } => self.undo_commit(key),
                StoreEvent::Deleted { .. } | StoreEvent::Reserved { .. } => {
                    self.waiting.push(event)
                }
                StoreEvent::Noted { key, .. } => self.ready.push(StoreEvent::Noted {
                    key,
                    refusal: Some(StoreRefusal::Disk),
                }),
                StoreEvent::Refused { .. }
                | StoreEvent::Verified { .. }
                | StoreEvent::Corrupt { .. } => {
                    self.ready.push(event);
                }
                StoreEvent::Durable { .. }
                | StoreEvent::DurableParts { .. }
                | StoreEvent::Written { .. }
                | StoreEvent::Relocated { .. }
                | StoreEvent::Capacity { .. } => {}
            }
        }
        for key in std::mem::take(&mut self.unsynced) {
            self.retract(key);
        }
        self.log.cut(self.durable);
    }

    fn undo_commit(&mut self, key: BundleKey) {
        // Without a slot it was deleted in the same batch; that deletion is answered.
        if self.take_back(key) {
            self.refuse(key, StoreRefusal::Disk);
        }
    }

    /// Lets go of a bundle that is not durable; false when it was deleted.
    pub(crate) fn take_back(&mut self, key: BundleKey) -> bool {
        let Some(slot) = self.slots.take(key) else {
            return false;
        };
        if let Some(segment) = self.log.segments.at_mut(slot.segment) {
            segment.turn_commit(slot.offset, Turn::Dead);
        }
        for reference in slot.references(&self.log.layout) {
            self.log
                .segments
                .release(reference, self.checkpoint.place.generation);
        }
        let former = self.moved.remove(&key).unwrap_or_default();
        self.drop_pinned(former);
        true
    }
}
