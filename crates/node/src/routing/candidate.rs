//! A bundle of which a router that chooses neighbour by neighbour may give copies.

use alloc::vec::Vec;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{NodeId, Priority};

use super::given::Given;

/// A bundle that is held.
pub(super) struct Bundle {
    pub(super) key: BundleKey,
    /// The node that it is for.
    pub(super) destination: Option<NodeId>,
    pub(super) priority: Priority,
    /// Copies of it that there may be, this one included, beside those that are on their way.
    pub(super) permits: u64,
    /// The hops that it has gone.
    pub(super) hops: u64,
    /// Octets of it in the store; 0 before its header is known.
    pub(super) octets: u64,
    /// The nodes that were given it.
    pub(super) given: Given,
    /// Neighbours that have it on their way, and the copies that each may make.
    pub(super) taken: Vec<(NodeId, u64)>,
}

impl Bundle {
    #[cfg(test)]
    pub(super) fn for_test(destination: Option<NodeId>) -> Self {
        Self {
            key: BundleKey(0),
            destination,
            priority: Priority::Normal,
            permits: 1,
            hops: 0,
            octets: 1_000,
            given: Given::default(),
            taken: Vec::new(),
        }
    }

    /// A neighbour's copy is on its way no more; the copies that it was to make.
    pub(super) fn end(&mut self, peer: &NodeId) -> u64 {
        let place = self.taken.iter().position(|(it, _)| it == peer);
        place.map_or(0, |place| self.taken.swap_remove(place).1)
    }
}
