//! The bundles that each neighbour brought and took since the node's start, over all its sessions.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use dhow_bundle::NodeId;

use crate::view::TrafficView;

/// Neighbours with counts of their own, at most: the first that had a session. All others share one, so that no count ever falls.
const NEIGHBOURS: usize = 64;

/// Bundles and octets in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) bundles_sent: u64,
    pub(crate) octets_sent: u64,
    pub(crate) bundles_received: u64,
    pub(crate) octets_received: u64,
}

impl Traffic {
    const fn add(&mut self, other: Self) {
        self.bundles_sent = self.bundles_sent.saturating_add(other.bundles_sent);
        self.octets_sent = self.octets_sent.saturating_add(other.octets_sent);
        self.bundles_received = self.bundles_received.saturating_add(other.bundles_received);
        self.octets_received = self.octets_received.saturating_add(other.octets_received);
    }
}

/// The traffic of sessions that are over, by neighbour.
#[derive(Clone, Debug, Default)]
pub(crate) struct PastTraffic {
    by_peer: BTreeMap<NodeId, Traffic>,
    others: Traffic,
    has_others: bool,
}

impl PastTraffic {
    /// A session with a neighbour is established.
    pub(crate) fn admit(&mut self, peer: &NodeId) {
        if self.by_peer.contains_key(peer) {
            return;
        }
        if self.by_peer.len() < NEIGHBOURS {
            self.by_peer.insert(peer.clone(), Traffic::default());
        } else {
            self.has_others = true;
        }
    }

    /// A session carried this.
    pub(crate) fn add(&mut self, peer: &NodeId, traffic: Traffic) {
        self.by_peer
            .get_mut(peer)
            .unwrap_or(&mut self.others)
            .add(traffic);
    }

    /// All of it, neighbours without counts of their own last.
    pub(crate) fn views(&self) -> Vec<TrafficView> {
        let view = |peer: Option<NodeId>, it: &Traffic| TrafficView {
            peer,
            bundles_sent: it.bundles_sent,
            octets_sent: it.octets_sent,
            bundles_received: it.bundles_received,
            octets_received: it.octets_received,
        };
        let named = self.by_peer.iter();
        let named = named.map(|(peer, it)| view(Some(peer.clone()), it));
        let others = self.has_others.then(|| view(None, &self.others));
        named.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn peer(number: usize) -> NodeId {
        format!("ipn:{number}.0").parse().unwrap()
    }

    fn octets(octets_sent: u64) -> Traffic {
        Traffic {
            octets_sent,
            ..Traffic::default()
        }
    }

    #[test]
    fn neighbours_beyond_the_bound_share_counts_that_never_fall() {
        let mut past = PastTraffic::default();
        for number in 1..=NEIGHBOURS {
            past.admit(&peer(number));
        }
        assert_eq!(past.views().len(), NEIGHBOURS);
        past.admit(&peer(1));
        assert_eq!(past.views().len(), NEIGHBOURS);
        past.admit(&peer(NEIGHBOURS + 1));
        past.add(&peer(NEIGHBOURS + 1), octets(5));
        past.add(&peer(NEIGHBOURS + 2), octets(6));
        past.add(&peer(1), octets(7));
        let views = past.views();
        assert_eq!(views.len(), NEIGHBOURS + 1);
        let last = views.last().unwrap();
        assert_eq!((last.peer.clone(), last.octets_sent), (None, 11));
        let sum: u64 = views.iter().map(|it| it.octets_sent).sum();
        assert_eq!(sum, 18);
    }
}
