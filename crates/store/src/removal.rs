//! Bundles that go: deleted, abandoned, or moved and released.

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, StoreEvent};
use dhow_bundle::{BundleId, DtnTime};

use crate::error::Trouble;
use crate::record::{Kind, Place};
use crate::segment::Turn;
use crate::store::Store;
use crate::wire::put_varint;

/// Octets of deletions at which a record is written: it fits the smallest segment with room to spare.
const RECORD_OCTETS: usize = 16 * 1024;

/// Deletions that no record tells of yet.
#[derive(Debug, Default)]
pub(crate) struct Deletions {
    places: Vec<u8>,
    count: u64,
    remembered: Vec<u8>,
    remembered_count: u64,
}

impl Deletions {
    fn add(&mut self, place: Place) {
        put_varint(&mut self.places, place.generation);
        put_varint(&mut self.places, u64::from(place.offset));
        self.count += 1;
    }

    fn octets(&self) -> usize {
        self.places.len() + self.remembered.len()
    }

    /// Forgets them: a checkpoint tells of them.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.remembered.clear();
        self.count = 0;
        self.remembered_count = 0;
    }
}

impl Store {
    pub(crate) fn handle_delete(&mut self, key: BundleKey, remember: Option<(BundleId, DtnTime)>) {
        if self.deletions.octets() >= RECORD_OCTETS {
            self.run(Self::write_deletions);
        }
        if let Some((id, expiry)) = remember {
            if planted(Mutant::RemovalOnlyInMemory) {
                self.removed.remember(&id, expiry, &mut Vec::new());
            } else {
                self.removed
                    .remember(&id, expiry, &mut self.deletions.remembered);
                self.deletions.remembered_count += 1;
            }
        }
        let Some(slot) = self.slots.take(key) else {
            return self.handle_abandon(key);
        };
        let place = Place {
            generation: self
                .log
                .segments
                .at(slot.segment)
                .map_or(0, |segment| segment.generation),
            offset: slot.offset,
        };
        self.deletions.add(place);
        if let Some(segment) = self.log.segments.at_mut(slot.segment) {
            segment.turn_commit(slot.offset, Turn::Dead);
        }
        self.log.segments.touch(slot.segment);
        self.releases.extend(slot.references(&self.log.layout));
        if !self.moved.is_empty() || !self.replacing.is_empty() {
            for reference in self.moved.remove(&key).unwrap_or_default() {
                self.log.segments.unpin(reference);
                self.releases.push(reference);
            }
            self.let_go_replaced(key);
        }
        self.quarantined.remove(&key);
        self.waiting.push(StoreEvent::Deleted { key });
    }

    pub(crate) fn handle_abandon(&mut self, key: BundleKey) {
        if self.slots.has(key) {
            return self.handle_delete(key, None);
        }
        if let Some(arriving) = self.take_arriving(key) {
            self.drop_extents(&arriving);
        }
        self.refused.remove(&key);
        self.waiting.push(StoreEvent::Deleted { key });
    }

    pub(crate) fn handle_released(&mut self, key: BundleKey) {
        self.is_changed = true;
        // The move is durable: it was told of after the sync.
        let former = self.moved.remove(&key).unwrap_or_default();
        self.drop_pinned(former);
    }

    /// Writes the deletions of this batch as one record.
    pub(crate) fn write_deletions(&mut self) -> Result<(), Trouble> {
        if self.deletions.count == 0 && self.deletions.remembered_count == 0 {
            return Ok(());
        }
        let mut body = Vec::with_capacity(self.deletions.octets() + 20);
        put_varint(&mut body, self.deletions.count);
        body.extend_from_slice(&self.deletions.places);
        put_varint(&mut body, self.deletions.remembered_count);
        body.extend_from_slice(&self.deletions.remembered);
        self.deletions.clear();
        self.write_upkeep(Kind::Delete, &body)
    }
}
