//! The bundles of a router by the node that each is for: a neighbour is given those before all others of their priority, and finding them takes no
//! pass over what else is held.

use alloc::collections::{BTreeMap, BTreeSet};

use dhow_bundle::NodeId;

use crate::memory::{text_octets, tree_octets};

/// Those that are held for single nodes, by the numbers that the router gave them.
#[derive(Default)]
pub(super) struct DirectBundles {
    destinations: BTreeMap<u64, NodeId>,
    /// Those that may leave for their node, as far as is known.
    waiting: BTreeMap<NodeId, BTreeSet<u64>>,
}

impl DirectBundles {
    /// A bundle for this node is held.
    pub(super) fn add(&mut self, number: u64, destination: &NodeId) {
        self.destinations.insert(number, destination.clone());
        self.wait(number, destination);
    }

    /// Whether a bundle is for this node.
    pub(super) fn is_for(&self, number: u64, node: &NodeId) -> bool {
        self.destinations.get(&number) == Some(node)
    }

    /// Whether it is known whom a bundle is for.
    pub(super) fn has(&self, number: u64) -> bool {
        self.destinations.contains_key(&number)
    }

    /// A bundle may leave for a neighbour: it counts here where the neighbour is its node.
    pub(super) fn wait(&mut self, number: u64, neighbour: &NodeId) {
        if self.destinations.get(&number) == Some(neighbour) {
            let waiting = self.waiting.entry(neighbour.clone()).or_default();
            waiting.insert(number);
        }
    }

    /// A neighbour has a bundle, is being given it, or gets it later or never.
    pub(super) fn finish(&mut self, number: u64, neighbour: &NodeId) {
        if let Some(waiting) = self.waiting.get_mut(neighbour)
            && waiting.remove(&number)
            && waiting.is_empty()
        {
            self.waiting.remove(neighbour);
        }
    }

    /// A bundle is held no more.
    pub(super) fn remove(&mut self, number: u64) {
        if let Some(destination) = self.destinations.remove(&number) {
            self.finish(number, &destination);
        }
    }

    /// Those that may leave for a neighbour, in order.
    pub(super) fn of(&self, neighbour: &NodeId) -> impl Iterator<Item = u64> {
        self.waiting.get(neighbour).into_iter().flatten().copied()
    }

    /// Octets of memory that they take.
    pub(super) fn memory_octets(&self) -> usize {
        let waiting = self.waiting.iter();
        let waiting =
            waiting.map(|(id, all)| text_octets(id.endpoint()) + tree_octets::<u64>(all.len()));
        tree_octets::<(u64, NodeId)>(self.destinations.len())
            .saturating_add(tree_octets::<(NodeId, BTreeSet<u64>)>(self.waiting.len()))
            .saturating_add(waiting.sum())
    }
}
