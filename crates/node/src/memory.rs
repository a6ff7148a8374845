//! Memory that a node's tables take: counted as they change, so that the sum is known without a look at their contents.
//!
//! Only places in use are counted. Tables keep room for what has left them, and fill it again before they grow.

use dhow_bundle::EndpointId;

use crate::node::Node;

/// Entries of a node of a tree of the standard library, and how many are in use of them, about.
const TREE_PLACES: usize = 11;
const TREE_USED: usize = 8;

/// Octets of a tree's node beside its entries, and of the children of an inner one.
const TREE_NODE_OCTETS: usize = 16;
const TREE_CHILDREN_OCTETS: usize = 96;

/// Octets before a shared text: its two counts.
const SHARED_OCTETS: usize = 16;

/// Octets that the store's tables take for a bundle: where it lies, and its place in its segment.
const STORE_OCTETS: usize = 24;

/// The store and the node know where a large bundle lies in portions of so many octets at least, each in so many octets of memory.
const PORTION_OCTETS: u64 = 64 << 10;
const PORTION_MEMORY_OCTETS: u64 = 48;

/// Octets of a neighbour's session, and of an application's, that wait for nothing.
const SESSION_OCTETS: usize = 4 << 10;

/// A count of octets.
pub(crate) fn length(octets: usize) -> u64 {
    u64::try_from(octets).unwrap_or(u64::MAX)
}

/// Octets of a tree of so many entries of type `T`.
pub(crate) const fn tree_octets<T>(entries: usize) -> usize {
    if entries == 0 {
        return 0;
    }
    let leaf = TREE_PLACES * size_of::<T>() + TREE_NODE_OCTETS;
    let inner = leaf + TREE_CHILDREN_OCTETS;
    let all = entries.saturating_mul(leaf + inner / TREE_USED) / TREE_USED;
    if all < leaf { leaf } else { all }
}

/// Octets of a hash table of so many entries of type `T`: it has room for twice as many when it has just grown.
pub(crate) const fn table_octets<T>(entries: usize) -> usize {
    entries.saturating_mul(size_of::<T>() + 1).saturating_mul(3) / 2
}

/// Octets of an endpoint ID's text, beside the value that shares it.
pub(crate) fn text_octets(id: &EndpointId) -> usize {
    match id {
        EndpointId::Dtn(text) => SHARED_OCTETS + text.len().next_multiple_of(8),
        EndpointId::Null | EndpointId::Ipn { .. } => 0,
    }
}

impl Node {
    /// Octets of memory that the index takes: the tables of bundles, endpoint IDs, queues and sessions, responses that applications
    /// have not taken, octets of datagrams that came before others, and what the store's tables take for these bundles. Octets under way between sockets and the disk are not part of it.
    #[must_use]
    pub fn memory_octets(&self) -> u64 {
        let bundles = usize::try_from(self.held.bundles().count()).unwrap_or(usize::MAX);
        let sessions = self
            .adjacencies
            .count()
            .saturating_add(self.delivery.clients().count())
            .saturating_add(self.programs.count());
        let tables = (self.held.memory_octets())
            .saturating_add(bundles.saturating_mul(STORE_OCTETS))
            .saturating_add(self.forwarding.memory_octets())
            .saturating_add(self.config.contacts.memory_octets())
            .saturating_add(self.delivery.memory_octets())
            .saturating_add(self.rates.memory_octets())
            .saturating_add(usize::try_from(self.adjacencies.early_octets()).unwrap_or(usize::MAX))
            .saturating_add(sessions.saturating_mul(SESSION_OCTETS));
        let portions = self.held.bundles().octets() / PORTION_OCTETS;
        length(tables).saturating_add(portions.saturating_mul(PORTION_MEMORY_OCTETS))
    }
}
