//! Binary spray and wait (Spyropoulos, Psounis, Raghavendra 2005): so many copies of each bundle, and no more.
//!
//! A node that may make several copies hands half of them on with the bundle at each meeting; one that may make a single one gives it to the
//! destination's node alone. The number travels in a block of its own ([`SPRAY_PERMITS`](dhow_bundle::v7::block::BlockType::SPRAY_PERMITS)).

use alloc::vec::Vec;

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
        (bundle.permits > 1).then_some(DIRECT + 1)
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
