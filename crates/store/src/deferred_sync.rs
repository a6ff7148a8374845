//! Events given out before the sync that makes them true, for drivers that trade safety for time.

use dhow_bundle::storage::{BundleKey, StoreEvent, StoreRefusal};

use crate::checkpoint::Progress;
use crate::store::Store;

/// Bundles promised between two syncs, at most: each is remembered, in case the sync fails.
const UNSYNCED_BOUND: usize = 1 << 20;

impl Store {
    /// Adds the events of what was written to `out` without a sync: a power failure before the next one takes back what
    /// they say, and nothing that was durable before. Of bundles promised kept that a failing disk then does not
    /// keep, the node is told by `Refused`. False, with nothing added, where only [`Store::commit`] will do.
    #[must_use]
    pub fn defer_sync(&mut self, out: &mut Vec<StoreEvent>) -> bool {
        // Former places of moved bundles, and segments that a checkpoint frees, may be written over once they are told of.
        if self.failure.is_some()
            || !self.replacing.is_empty()
            || self.progress != Progress::Idle
            || self.unsynced.len() >= UNSYNCED_BOUND
        {
            return false;
        }
        let stored = self.waiting.iter().filter_map(|event| match event {
            StoreEvent::Stored { key, .. } => Some(*key),
            _ => None,
        });
        self.unsynced.extend(stored);
        self.settle(out);
        out.append(&mut self.waiting);
        true
    }

    /// Whether something was promised, or written, that no sync has made durable.
    #[must_use]
    pub fn owes_sync(&self) -> bool {
        self.log.place() != self.durable || !self.releases.is_empty()
    }

    /// A bundle was promised kept and is lost.
    pub(crate) fn retract(&mut self, key: BundleKey) {
        if self.take_back(key) {
            self.ready.push(StoreEvent::Refused {
                key,
                refusal: StoreRefusal::Disk,
            });
        }
    }
}
