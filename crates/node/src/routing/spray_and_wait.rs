//! Binary spray and wait (Spyropoulos, Psounis, Raghavendra 2005): so many copies of each bundle, and no more.
//!
//! A node that may make several copies hands half of them on with the bundle at each meeting; one that may make a single one gives it to the
//! destination's node alone. The number travels in a block of its own ([`SPRAY_PERMITS`](dhow_bundle::v7::block::BlockType::SPRAY_PERMITS)).

use alloc::vec::Vec;

use dhow_bundle::header::MAX_PERMITS;
use dhow_bundle::{Instant, NodeId};

use super::Contact;
use super::candidate::Bundle;
use super::scheme::{DIRECT, Scheme};

/// The scheme.
pub(super) struct SprayAndWait {
    /// Copies of a bundle that is made here.
    copies: u64,
}

impl SprayAndWait {
    pub(super) fn new(copies: u64) -> Self {
        Self {
            copies: copies.max(1),
        }
    }
}

impl Scheme for SprayAndWait {
    fn copies(&self) -> Option<u64> {
        Some(self.copies)
    }

    fn handle_contact(&mut self, _: Instant, _: &NodeId, _: Contact) {}

    fn rank(&self, peer: &NodeId, bundle: &Bundle) -> Option<u64> {
        if bundle.destination.as_ref() == Some(peer) {
            return Some(DIRECT);
        }
        // Bundles of which the fewest copies have gone come first: the others are at more nodes already.
        (bundle.permits > 1).then(|| DIRECT + 1 + MAX_PERMITS.saturating_sub(bundle.permits))
    }

    fn table(&mut self, _: Instant) -> Vec<u8> {
        Vec::new()
    }

    fn handle_table(&mut self, _: Instant, _: &NodeId, table: &[u8]) -> bool {
        table.is_empty()
    }

    fn has_table(&self) -> bool {
        false
    }

    fn version(&self) -> u64 {
        0
    }

    fn memory_octets(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_with_most_copies_left_come_first_and_with_one_none() {
        let scheme = SprayAndWait::new(8);
        let peer: NodeId = "ipn:2.0".parse().unwrap();
        let rank = |permits, destination: &str| {
            let mut bundle = Bundle::for_test(destination.parse().ok());
            bundle.permits = permits;
            scheme.rank(&peer, &bundle)
        };
        assert_eq!(rank(1, "ipn:2.0"), Some(DIRECT));
        let others = [8, 4, 2].map(|permits| rank(permits, "ipn:3.0").unwrap());
        assert!(others.is_sorted_by(|one, other| one < other) && others[0] > DIRECT);
        assert_eq!(rank(1, "ipn:3.0"), None);
    }
}
