//! Octets given to the store that are not durable yet: what the bound of its queue is for.

use alloc::collections::BTreeMap;

use dhow_bundle::storage::BundleKey;

/// Octets that wait for the disk.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    octets: u64,
    /// Those of bundles that arrive no longer: the store has them until it answers the abandonment. Each waits with an
    /// octet at least, so there are no more than the queue has octets.
    abandoned: BTreeMap<BundleKey, u64>,
}

impl Backlog {
    /// Octets that wait.
    pub(crate) const fn octets(&self) -> u64 {
        self.octets
    }

    /// Octets of bundles that arrive no longer, and still wait.
    pub(crate) fn abandoned_octets(&self) -> u64 {
        self.abandoned.values().sum()
    }

    /// The store was given octets.
    pub(crate) fn give(&mut self, octets: u64) {
        self.octets = self.octets.saturating_add(octets);
    }

    /// Octets are durable.
    pub(crate) fn settle(&mut self, octets: u64) {
        self.octets = self.octets.saturating_sub(octets);
    }

    /// A bundle with so many octets that wait arrives no longer. They wait all the same.
    pub(crate) fn abandon(&mut self, key: BundleKey, octets: u64) {
        if octets > 0 {
            self.abandoned.insert(key, octets);
        }
    }

    /// The store holds nothing of a bundle that was abandoned.
    pub(crate) fn release(&mut self, key: BundleKey) {
        if let Some(octets) = self.abandoned.remove(&key) {
            self.settle(octets);
        }
    }
}
