//! Bundles that have left over links that promise nothing, and are kept.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::session_id::SessionId;
use crate::config::{LinkConfig, LinkId, OnSent};
use crate::delivery::Delivery;
use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::held::endpoints::EndpointIndex;
use crate::memory::tree_octets;
use crate::outbox::Outbox;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use dhow_bundle::storage::BundleKey;

/// Bundles that have left, by their destinations and links.
#[derive(Default)]
pub(crate) struct Sent {
    groups: BTreeMap<(EndpointIndex, LinkId), BTreeSet<BundleKey>>,
    count: usize,
    /// Whether some link keeps what has left.
    is_kept: bool,
}

impl Sent {
    /// Whether no bundle is kept.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// There is another link.
    pub(crate) fn add_link(&mut self, link: &LinkConfig) {
        self.is_kept |= link.protocol.on_sent() == Some(OnSent::Keep);
    }

    pub(crate) fn add(&mut self, destination: EndpointIndex, link: LinkId, key: BundleKey) {
        let is_new = self
            .groups
            .entry((destination, link))
            .or_default()
            .insert(key);
        self.count += usize::from(is_new);
    }

    /// Whether a bundle has left over a link.
    fn has_left(&self, destination: EndpointIndex, link: LinkId, key: BundleKey) -> bool {
        let group = self.groups.get(&(destination, link));
        group.is_some_and(|keys| keys.contains(&key))
    }

    /// Whether a bundle has left over any such link.
    pub(crate) fn has(&self, destination: EndpointIndex, key: BundleKey) -> bool {
        let all = (destination, LinkId(0))..=(destination, LinkId(u32::MAX));
        let mut groups = self.groups.range(all);
        groups.any(|(_, keys)| keys.contains(&key))
    }

    /// A bundle is not held any more.
    pub(crate) fn remove(&mut self, destination: EndpointIndex, key: BundleKey) {
        if self.count > 0 {
            self.take_out(destination, key);
        }
    }

    fn take_out(&mut self, destination: EndpointIndex, key: BundleKey) {
        let all = (destination, LinkId(0))..=(destination, LinkId(u32::MAX));
        let mut removed = 0;
        let groups = self.groups.range_mut(all);
        let emptied: Vec<_> = groups
            .filter_map(|(id, keys)| {
                removed += usize::from(keys.remove(&key));
                keys.is_empty().then_some(*id)
            })
            .collect();
        self.count -= removed;
        for id in emptied {
            self.groups.remove(&id);
        }
    }

    /// Octets of memory that it takes, about.
    pub(crate) fn memory_octets(&self) -> usize {
        tree_octets::<BundleKey>(self.count)
    }
}

impl Forwarding {
    /// Whether bundles that leave over a session are kept.
    pub(crate) fn keeps_sent(&self, adjacencies: &Adjacencies, session: SessionId) -> bool {
        self.sent.is_kept && adjacencies.session_keeps_sent(session)
    }

    /// Whether a bundle has left over any link that promises nothing, and is kept.
    pub(crate) fn is_sent(&self, held: &Held, key: BundleKey) -> bool {
        self.sent.count > 0 && self.is_among_sent(held, key)
    }

    pub(crate) fn is_among_sent(&self, held: &Held, key: BundleKey) -> bool {
        let entry = held.entry(key);
        entry.is_some_and(|it| self.sent.has(it.destination(), key))
    }

    /// Whether a bundle has left over a session's link already.
    pub(crate) fn has_left(&self, held: &Held, link: Option<LinkId>, key: BundleKey) -> bool {
        self.sent.count > 0 && self.has_left_over(held, link, key)
    }

    pub(crate) fn has_left_over(&self, held: &Held, link: Option<LinkId>, key: BundleKey) -> bool {
        let destination = held.entry(key).map(|it| it.destination());
        let left = link.zip(destination);
        left.is_some_and(|(link, destination)| self.sent.has_left(destination, link, key))
    }

    /// Whether a session that stands may take a bundle.
    pub(crate) fn may_leave(&self, held: &Held, adjacencies: &Adjacencies, key: BundleKey) -> bool {
        let destination = held.entry(key).map(|it| it.destination());
        let hops = destination.map(|it| self.routes.hops(held.endpoints().id(it)));
        let mut hops = hops.into_iter().flatten();
        hops.any(|hop| {
            adjacencies
                .sessions_over(&hop)
                .any(|it| self.may_go(held, it, key))
        })
    }

    /// A session stands: bundles that have left over other links, and may go to its neighbour, wait for it.
    pub(crate) fn wake_sent(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        delivery: &mut Delivery,
        out: &mut Outbox,
        session: SessionId,
    ) {
        let Some(neighbour) = adjacencies.neighbour(session) else {
            return;
        };
        let groups = self.sent.groups.iter();
        let others = groups.filter(|((destination, link), _)| {
            let hops = || self.routes.hops(held.endpoints().id(*destination));
            Some(*link) != neighbour.link && hops().iter().any(|hop| neighbour.hops.contains(hop))
        });
        let keys = others.flat_map(|(_, keys)| keys);
        let keys = keys.filter(|key| self.may_go(held, neighbour, **key));
        let keys: Vec<BundleKey> = keys.copied().collect();
        self.wake_all_sent(held, adjacencies, delivery, out, keys);
    }

    /// Routes have changed: all that has left may have another way.
    pub(crate) fn reroute_sent(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        delivery: &mut Delivery,
        out: &mut Outbox,
    ) {
        let keys = self.sent.groups.values().flatten().copied().collect();
        self.wake_all_sent(held, adjacencies, delivery, out, keys);
    }
}
