//! A bundle of which a router that chooses neighbour by neighbour may give copies.

use alloc::vec::Vec;

use dhow_bundle::cbor::Reader;
use dhow_bundle::storage::{BundleKey, NOTE_OCTETS};
use dhow_bundle::{NodeId, Priority};

/// Octets of the IDs of nodes that were given a bundle, at most: a note's, but for its array and a number.
const GIVEN_OCTETS: usize = NOTE_OCTETS - 12;

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
    /// The IDs of the nodes that were given it, in CBOR one behind the other, in as many octets as a note has for them.
    pub(super) given: Vec<u8>,
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
            given: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Whether a node was given it, as far as is remembered.
    pub(super) fn was_given(&self, id: &[u8]) -> bool {
        let mut reader = Reader::new(&self.given);
        let mut start = 0;
        while reader.skip().is_ok() {
            if self.given.get(start..reader.position()) == Some(id) {
                return true;
            }
            start = reader.position();
        }
        false
    }

    pub(super) fn give(&mut self, id: &[u8]) {
        if self.given.len() + id.len() <= GIVEN_OCTETS && !self.was_given(id) {
            self.given.extend_from_slice(id);
        }
    }

    /// A neighbour's copy is on its way no more; the copies that it was to make.
    pub(super) fn end(&mut self, peer: &NodeId) -> u64 {
        let place = self.taken.iter().position(|(it, _)| it == peer);
        place.map_or(0, |place| self.taken.swap_remove(place).1)
    }
}
