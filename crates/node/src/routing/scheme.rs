//! The choice of a router that gives copies neighbour by neighbour, for which [`replication`](super::replication) asks it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use dhow_bundle::{Instant, NodeId};

use super::Contact;
use super::candidate::Bundle;

/// The rank of a bundle for the neighbour that it is for: before all others.
pub(super) const DIRECT: u64 = 0;

/// The choice of a router.
pub(super) trait Scheme: Send {
    /// Copies that a bundle has which is made here; none where they are not counted.
    fn copies(&self) -> Option<u64>;

    /// A neighbour has come or gone.
    fn handle_contact(&mut self, now: Instant, peer: &NodeId, contact: Contact);

    /// A bundle is held, and counts for the order of others.
    fn hold(&mut self, _: &Bundle) {}

    /// A bundle is held no more, or is about to be held otherwise.
    fn release(&mut self, _: &Bundle) {}

    /// A neighbour that is there was given, or has brought, so many octets.
    fn carried(&mut self, _: &NodeId, _octets: u64) {}

    /// Changes when the order of bundles for neighbours has, beside what their tables change.
    fn order(&self) -> u64 {
        0
    }

    /// The place of a bundle among those for a neighbour, the smallest first; none where it gets no copy as far as is known.
    fn rank(&self, peer: &NodeId, bundle: &Bundle) -> Option<u64>;

    /// The place of a bundle for any neighbour; none where there is no such order.
    fn place(&self, _bundle: &Bundle) -> Option<u64> {
        None
    }

    /// Whether the scheme has a table.
    fn has_table(&self) -> bool;

    /// The part of an advert that is the scheme's: 32 KiB at most.
    fn table(&mut self, now: Instant) -> Vec<u8>;

    /// The scheme's part of a neighbour's advert: any octets. False where they are none.
    fn handle_table(&mut self, now: Instant, peer: &NodeId, table: &[u8]) -> bool;

    /// [`Router::predictabilities`].
    fn predictabilities(&mut self, _: Instant) -> Option<BTreeMap<NodeId, u64>> {
        None
    }

    /// [`Router::handle_predictabilities`].
    fn handle_predictabilities(&mut self, _: Instant, _: &NodeId, _: &BTreeMap<NodeId, u64>) {}

    /// The number of times that the table has changed so much that others should know.
    fn version(&self) -> u64;

    /// Octets of memory that it takes.
    fn memory_octets(&self) -> usize;
}
