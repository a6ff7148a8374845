//! Room for the next record: the segments that a store begins, keeps in reserve, and begins again after a failure.

use dhow_bundle::storage::{BundleKey, StoreEvent, StoreRefusal};

use crate::checkpoint::Progress;
use crate::disk::DiskError;
use crate::error::Trouble;
use crate::record::Kind;
use crate::segment::Turn;
use crate::store::{Durability, Store, pass_on};
use crate::wire::{index, length};

/// Rolls to another segment while one record looks for room: one for itself, and what a checkpoint takes.
const ROLLS: u32 = 4;

/// A log of fewer segments grows rather than wait for a checkpoint.
const RING_MIN: usize = 3;

/// Segments beyond the bound that deletions, checkpoints and a restart may take when nothing else is left.
const EMERGENCY_SEGMENTS: usize = 2;

/// A checkpoint is due after so many segments: recovery walks no more than these.
const CHECKPOINT_SEGMENTS: u32 = 8;

/// Octets that bundles leave for deletions where the log may not be able to grow.
const DELETION_OCTETS: u32 = 1024 * 1024;

/// What a record is for: how deep it may reach into the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A new bundle.
    Bundle,
    /// A bundle moved to empty a segment.
    Move,
    /// Deletions, reservations, marks and checkpoints.
    Upkeep,
}

impl Store {
    /// Free segments that stay when a record of this purpose begins one.
    pub(crate) fn reserve(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::Bundle => {
                1 + index(self.checkpoint_octets / u64::from(self.log.layout.segment_octets))
            }
            Purpose::Move => 1,
            Purpose::Upkeep => 0,
        }
    }

    pub(crate) fn bound(&self, purpose: Purpose) -> usize {
        let emergency = if purpose == Purpose::Upkeep {
            EMERGENCY_SEGMENTS
        } else {
            0
        };
        self.segments_bound() + emergency
    }

    pub(crate) fn fits(
        &mut self,
        payload: u64,
        body: u64,
        purpose: Purpose,
    ) -> Result<bool, Trouble> {
        let spare = match purpose {
            Purpose::Bundle => DELETION_OCTETS.min(self.log.layout.segment_octets / 8),
            Purpose::Move | Purpose::Upkeep => 0,
        };
        self.log.fits(payload, body, spare)
    }

    /// Sees to it that a record fits behind what is there.
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
        for _ in 0..ROLLS {
            if self.fits(payload, body, purpose)? {
                return Ok(());
            }
            self.roll(purpose)?;
        }
        Err(Trouble::Full)
    }

    fn roll(&mut self, purpose: Purpose) -> Result<(), Trouble> {
        let reserve = self.reserve(purpose);
        let short = self.log.segments.free() <= reserve;
        if short
            && purpose != Purpose::Upkeep
            && self.log.segments.dead() > 0
            && self.log.segments.len() >= RING_MIN
        {
            return self.checkpoint_now();
        }
        while self.log.segments.free() <= reserve {
            let allocated = self.log.allocate(self.bound(purpose));
            self.cramped = allocated.is_err();
            allocated?;
        }
        self.log.seal()?;
        self.begun += 1;
        self.log.begin()
    }

    pub(crate) fn write_upkeep(&mut self, kind: Kind, body: &[u8]) -> Result<(), Trouble> {
        self.make_room(0, length(body.len()), Purpose::Upkeep)?;
        self.log.append(kind, &[], body)?;
        Ok(())
    }

    /// What is due after a batch: a checkpoint, and part of a move.
    pub(crate) fn upkeep(&mut self) -> Result<(), Trouble> {
        let dead = self.log.segments.dead();
        let short = self.log.segments.free() <= self.reserve(Purpose::Bundle);
        let worth =
            dead > 0 && dead * 8 >= self.log.segments.len() && self.log.segments.len() >= RING_MIN;
        if self.progress == Progress::Idle
            && (self.begun >= CHECKPOINT_SEGMENTS || (short && worth))
        {
            self.write_checkpoint()?;
        }
        self.compact()
    }

    /// One sync, and what follows from it.
    pub(crate) fn sync_once(&mut self) -> Result<(), Trouble> {
        self.write_deletions()?;
        self.log.flush()?;
        if self.options.durability == Durability::Sync {
            self.log.disk.sync()?;
        }
        self.counts.syncs += 1;
        self.durable = self.log.place();
        self.moving.clear();
        self.promised.clear();
        pass_on(&mut self.waiting, &mut self.ready);
        for reference in std::mem::take(&mut self.releases) {
            self.log
                .segments
                .release(reference, self.checkpoint.place.generation);
        }
        self.advance_checkpoint()
    }

    /// Begins a segment, writes a checkpoint into it and makes it the log's: after opening, and after a failure.
    fn establish(&mut self) -> Result<(), Trouble> {
        self.log.segments.reclaim(self.checkpoint.place.generation);
        if self.log.segments.free() == 0 {
            self.log.allocate(self.bound(Purpose::Upkeep))?;
        }
        self.log.begin()?;
        self.checkpoint_now()
    }

    /// Tries to work again.
    pub(crate) fn restart(&mut self) {
        // What was deleted is in the checkpoint.
        self.deletions.clear();
        // What waits is true once the checkpoint is named, not when its records are synced.
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
                    Trouble::Full => DiskError::Full,
                    Trouble::Disk(error) => error,
                });
                self.progress = Progress::Idle;
                self.log.cut(self.durable);
            }
        }
    }

    /// Gives up what is not durable: new bundles are refused, moves are undone; deletions and reservations stay, for
    /// the checkpoint that a restart begins with.
    pub(crate) fn fail(&mut self, error: DiskError) {
        self.failure = Some(error);
        self.counts.failures += 1;
        self.progress = Progress::Idle;
        self.compaction = None;
        for (key, former) in std::mem::take(&mut self.moving).into_iter().rev() {
            self.undo_move(key, former);
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
                StoreEvent::Refused { .. }
                | StoreEvent::Verified { .. }
                | StoreEvent::Corrupt { .. } => {
                    self.ready.push(event);
                }
                StoreEvent::Durable { .. }
                | StoreEvent::Written { .. }
                | StoreEvent::Relocated { .. } => {}
            }
        }
        for key in std::mem::take(&mut self.promised) {
            self.break_promise(key);
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
        true
    }
}
