//! The part of what is held that came from each neighbour, and that of each source: counted from the moment at which a limit asks for it.

use alloc::collections::BTreeMap;

use crate::held::endpoints::EndpointIndex;
use crate::held::entry::Entry;
use crate::memory::tree_octets;

/// Bundles and octets that somebody has here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) bundles: u64,
    pub(crate) octets: u64,
}

/// The shares of all neighbours and sources of which anything is held.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    neighbours: BTreeMap<EndpointIndex, Share>,
    sources: BTreeMap<EndpointIndex, Share>,
}

impl Shares {
    /// A bundle is held.
    pub(crate) fn add(&mut self, entry: &Entry) {
        self.change(entry, |share| {
            share.bundles += 1;
            share.octets = share.octets.saturating_add(entry.octets());
        });
    }

    /// A bundle is not held any more.
    pub(crate) fn remove(&mut self, entry: &Entry) {
        self.change(entry, |share| {
            share.bundles = share.bundles.saturating_sub(1);
            share.octets = share.octets.saturating_sub(entry.octets());
        });
    }

    /// A bundle has other octets than before.
    pub(crate) fn resize(&mut self, entry: &Entry, before: u64) {
        self.change(entry, |share| {
            let octets = share.octets.saturating_sub(before);
            share.octets = octets.saturating_add(entry.octets());
        });
    }

    fn change(&mut self, entry: &Entry, change: impl Fn(&mut Share)) {
        // A bundle that was made here came from no neighbour, and no limit is on it.
        let Some(neighbour) = entry.previous() else {
            return;
        };
        for (shares, whose) in [
            (&mut self.neighbours, neighbour),
            (&mut self.sources, entry.source()),
        ] {
            let share = shares.entry(whose).or_default();
            change(share);
            if *share == Share::default() {
                shares.remove(&whose);
            }
        }
    }

    /// Bundles that came from a neighbour.
    pub(crate) fn of_neighbour(&self, neighbour: EndpointIndex) -> Share {
        self.neighbours.get(&neighbour).copied().unwrap_or_default()
    }

    /// Bundles of a source that neighbours brought.
    pub(crate) fn of_source(&self, source: EndpointIndex) -> Share {
        self.sources.get(&source).copied().unwrap_or_default()
    }

    /// Octets of memory.
    pub(crate) fn memory_octets(&self) -> usize {
        tree_octets::<(EndpointIndex, Share)>(self.neighbours.len() + self.sources.len())
    }
}
