//! Segments written before they are needed: the first use of a segment costs several times what a later one does.
//!
//! A first use fills fresh pages of the page cache, and each sync of one makes the file system write its journal. A store
//! that has nothing else to do takes that cost ahead.

use crate::checkpoint::Progress;
use crate::disk::Chunk;
use crate::error::Trouble;
use crate::store::{Durability, Store};
use crate::wire::index;

/// Octets of zeros written in one step: commands that come meanwhile wait for no more than this and one sync.
const STEP_OCTETS: u32 = 1024 * 1024;

/// Octets of zeros in one slice.
const ZERO_OCTETS: u32 = 64 * 1024;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// The part of the segment after the log's last that has been written with zeros.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prepared {
    segment: u32,
    octets: u32,
}

impl Store {
    /// Whether [`Store::prepare`] has something to do, and nothing waits for a sync.
    #[must_use]
    pub fn is_preparable(&self) -> bool {
        let quiet = self.failure.is_none() && !self.is_pending() && !self.owes_sync();
        quiet && (self.progress != Progress::Idle || self.unprepared().is_some())
    }

    /// Takes one step of what makes later batches cheaper, for when there is nothing else to do: a checkpoint on its way goes
    /// on, or at most a mebioctet of the segments that come next is written with zeros, durably. A disk that stops it is no failure
    /// of the store, but nothing more is prepared then.
    pub fn prepare(&mut self) {
        if !self.is_preparable() {
            return;
        }
        if self.progress != Progress::Idle {
            return self.run(Self::sync_once);
        }
        if let Some((segment, from)) = self.unprepared() {
            self.run(|store| store.prepare_step(segment, from));
        }
    }

    /// The segment that is to be prepared, and the first octet of it that is not.
    fn unprepared(&self) -> Option<(u32, u32)> {
        // Nothing is to lie on the disk for bundles that never come.
        let wanted = self
            .options
            .prepared_octets
            .min(self.log.segments.most_octets());
        if self.options.durability == Durability::Memory
            || self.options.prepared_octets < u64::from(self.log.layout.segment_octets)
        {
            return None;
        }
        let segments = &self.log.segments;
        let grown = segments
            .allocated()
            .saturating_add(self.next_octets().into());
        if self.octets_for_bundles() >= wanted || grown > self.bound_octets() {
            return None;
        }
        let next = segments.next_place()?;
        let begun = Some(self.prepared).filter(|prepared| prepared.segment == next);
        Some((next, begun.map_or(0, |prepared| prepared.octets)))
    }

    fn prepare_step(&mut self, segment: u32, from: u32) -> Result<(), Trouble> {
        let segment_octets = self.next_octets().max(from);
        let until = from.saturating_add(STEP_OCTETS).min(segment_octets);
        let at = self.log.layout.position(segment, from);
        if self.log.disk.append_at(at, &zeros(until - from)).is_err() {
            self.options.prepared_octets = 0;
            return Ok(());
        }
        // Nobody reads zeros.
        self.log.disk.forget(at, u64::from(until - from));
        if self.options.durability == Durability::Sync {
            self.log.disk.sync()?;
        }
        if until < segment_octets {
            let octets = until;
            self.prepared = Prepared { segment, octets };
        } else {
            self.prepared = Prepared::default();
            self.log.segments.settle(segment, segment_octets);
        }
        Ok(())
    }
}

/// So many octets of zeros.
fn zeros(octets: u32) -> Vec<Chunk<'static>> {
    let mut slices = vec![Chunk::Lent(&ZEROS); index(octets / ZERO_OCTETS)];
    slices.extend(ZEROS.get(..index(octets % ZERO_OCTETS)).map(Chunk::Lent));
    slices
}
