//! What waits, indexed by what it waits for: a queue for each destination, and for each next hop the
//! destinations that it could serve, so that a link that comes up never makes a million bundles be
//! looked at.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use dhow_bundle::storage::BundleKey;

use crate::config::{LinkId, SendOrder};
use crate::endpoints::EndpointIndex;
use crate::routing::Hop;

/// Destinations and bundles that are looked at for one choice: bounds the work when what is first in a
/// queue may not go over the session that asks.
const LOOK_BOUND: usize = 64;

/// Destinations of a hop that are passed by for one choice because another hop of theirs is better: each
/// takes some tens of nanoseconds.
const DESTINATIONS_BOUND: usize = 16_384;

/// A bundle's places in a queue: by arrival and by expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) arrival: u64,
    pub(crate) expiry: u64,
}

/// The bundles of one destination that wait.
#[derive(Default)]
struct Queue {
    by_arrival: BTreeSet<(u64, BundleKey)>,
    /// Kept only where some link sends by expiry.
    by_expiry: BTreeSet<(u64, BundleKey)>,
    hops: Vec<Hop>,
}

impl Queue {
    fn ordered(&self, order: SendOrder) -> &BTreeSet<(u64, BundleKey)> {
        match order {
            SendOrder::Arrival => &self.by_arrival,
            SendOrder::Expiry => &self.by_expiry,
        }
    }

    fn head(&self, order: SendOrder) -> Option<u64> {
        self.ordered(order).first().map(|&(place, _)| place)
    }
}

/// All queues.
#[derive(Default)]
pub(crate) struct Queues {
    queues: BTreeMap<EndpointIndex, Queue>,
    by_hop: BTreeMap<Hop, BTreeSet<(u64, EndpointIndex)>>,
    /// Links that send by expiry.
    expiry_links: BTreeSet<LinkId>,
}

impl Queues {
    pub(crate) fn new(expiry_links: BTreeSet<LinkId>) -> Self {
        Self {
            expiry_links,
            ..Self::default()
        }
    }

    /// Put a bundle into its destination's queue; `hops` are asked for when the queue is new.
    pub(crate) fn push(
        &mut self,
        destination: EndpointIndex,
        place: Place,
        key: BundleKey,
        hops: impl FnOnce() -> Vec<Hop>,
    ) {
        let expiry = !self.expiry_links.is_empty();
        let queue = self.queues.entry(destination).or_insert_with(|| Queue {
            hops: hops(),
            ..Queue::default()
        });
        let before = heads(queue);
        queue.by_arrival.insert((place.arrival, key));
        if expiry {
            queue.by_expiry.insert((place.expiry, key));
        }
        self.reindex(destination, before);
    }

    /// Take a bundle out of its destination's queue.
    pub(crate) fn remove(&mut self, destination: EndpointIndex, place: Place, key: BundleKey) {
        let Some(queue) = self.queues.get_mut(&destination) else {
            return;
        };
        let before = heads(queue);
        queue.by_arrival.remove(&(place.arrival, key));
        queue.by_expiry.remove(&(place.expiry, key));
        self.reindex(destination, before);
        if self
            .queues
            .get(&destination)
            .is_some_and(|queue| queue.by_arrival.is_empty())
        {
            self.queues.remove(&destination);
        }
    }

    /// The first bundle in order that may go over a session reached by `hops`, each with its order.
    /// `best` tells which of a destination's hops is the best that is up; `acceptable` whether a bundle
    /// may go over this session.
    pub(crate) fn next(
        &self,
        hops: &[Hop],
        best: impl Fn(&[Hop]) -> Option<usize>,
        acceptable: impl Fn(BundleKey) -> bool,
    ) -> Option<BundleKey> {
        let mut found: Option<(u64, BundleKey)> = None;
        for hop in hops {
            let order = self.order_of(hop);
            let served = self.by_hop.get(hop).into_iter().flatten();
            let mut looks = 0;
            for &(head, destination) in served.take(DESTINATIONS_BOUND) {
                if looks >= LOOK_BOUND || found.is_some_and(|(place, _)| place <= head) {
                    break;
                }
                let Some(queue) = self.queues.get(&destination) else {
                    continue;
                };
                let ours = best(&queue.hops).and_then(|best| queue.hops.get(best));
                // What has a better hop does not stand in the way of what has none.
                if !ours.is_some_and(|best| hops.contains(best)) {
                    continue;
                }
                looks += 1;
                let first = queue
                    .ordered(order)
                    .iter()
                    .take(LOOK_BOUND)
                    .find(|&&(_, key)| acceptable(key));
                if let Some(&(place, key)) = first
                    && found.is_none_or(|(other, _)| place < other)
                {
                    found = Some((place, key));
                }
            }
        }
        found.map(|(_, key)| key)
    }

    /// Bundles at the heads of queues that this session should serve and that may not go over it: they
    /// stand in the way of others.
    pub(crate) fn obstacles(
        &self,
        hops: &[Hop],
        best: impl Fn(&[Hop]) -> Option<usize>,
        acceptable: impl Fn(BundleKey) -> bool,
    ) -> Vec<BundleKey> {
        let mut found = Vec::new();
        for hop in hops {
            let order = self.order_of(hop);
            let served = self.by_hop.get(hop).into_iter().flatten();
            let queues = served
                .take(DESTINATIONS_BOUND)
                .filter_map(|(_, destination)| self.queues.get(destination));
            let ours = queues.filter(|queue| {
                let best = best(&queue.hops).and_then(|best| queue.hops.get(best));
                best.is_some_and(|best| hops.contains(best))
            });
            for queue in ours.take(LOOK_BOUND) {
                let first = queue.ordered(order).iter().take(LOOK_BOUND);
                found.extend(first.map(|&(_, key)| key).filter(|&key| !acceptable(key)));
            }
        }
        found
    }

    /// The first bundle of one destination that is acceptable.
    pub(crate) fn first_of(
        &self,
        destination: EndpointIndex,
        acceptable: impl Fn(BundleKey) -> bool,
    ) -> Option<BundleKey> {
        let queue = self.queues.get(&destination)?;
        queue
            .by_arrival
            .iter()
            .take(LOOK_BOUND)
            .map(|&(_, key)| key)
            .find(|&key| acceptable(key))
    }

    /// True when a bundle waits in its destination's queue.
    pub(crate) fn holds(&self, destination: EndpointIndex, place: Place, key: BundleKey) -> bool {
        let queue = self.queues.get(&destination);
        queue.is_some_and(|queue| queue.by_arrival.contains(&(place.arrival, key)))
    }

    /// Bundles that wait for one destination.
    pub(crate) fn waiting(&self, destination: EndpointIndex) -> usize {
        self.queues
            .get(&destination)
            .map_or(0, |queue| queue.by_arrival.len())
    }

    /// The hops of a destination that has a queue, best first.
    pub(crate) fn hops(&self, destination: EndpointIndex) -> &[Hop] {
        self.queues
            .get(&destination)
            .map_or(&[], |queue| &queue.hops)
    }

    /// Routes changed: ask for the hops of every destination again.
    pub(crate) fn reroute(&mut self, hops: impl Fn(EndpointIndex) -> Vec<Hop>) {
        self.by_hop.clear();
        let destinations: Vec<EndpointIndex> = self.queues.keys().copied().collect();
        for destination in destinations {
            if let Some(queue) = self.queues.get_mut(&destination) {
                queue.hops = hops(destination);
            }
            self.reindex(destination, (None, None));
        }
    }

    fn order_of(&self, hop: &Hop) -> SendOrder {
        match hop {
            Hop::Link(link) if self.expiry_links.contains(link) => SendOrder::Expiry,
            Hop::Link(_) | Hop::Peer(_) => SendOrder::Arrival,
        }
    }

    fn reindex(&mut self, destination: EndpointIndex, before: (Option<u64>, Option<u64>)) {
        let Some(queue) = self.queues.get(&destination) else {
            return;
        };
        let after = heads(queue);
        if before == after {
            return;
        }
        for hop in &queue.hops {
            let expiry = matches!(hop, Hop::Link(link) if self.expiry_links.contains(link));
            let (old, new) = if expiry {
                (before.1, after.1)
            } else {
                (before.0, after.0)
            };
            if !self.by_hop.contains_key(hop) {
                self.by_hop.insert(hop.clone(), BTreeSet::new());
            }
            let Some(served) = self.by_hop.get_mut(hop) else {
                continue;
            };
            if let Some(old) = old {
                served.remove(&(old, destination));
            }
            if let Some(new) = new {
                served.insert((new, destination));
            }
            if served.is_empty() {
                self.by_hop.remove(hop);
            }
        }
    }
}

fn heads(queue: &Queue) -> (Option<u64>, Option<u64>) {
    (
        queue.head(SendOrder::Arrival),
        queue.head(SendOrder::Expiry),
    )
}

#[cfg(test)]
mod tests {
    use dhow_bundle::EndpointId;

    use super::*;
    use crate::endpoints::Endpoints;

    fn place(arrival: u64, expiry: u64) -> Place {
        Place { arrival, expiry }
    }

    #[test]
    fn the_oldest_bundle_of_all_destinations_goes_first_and_the_best_hop_serves_alone() {
        let mut endpoints = Endpoints::new(1);
        let mut destination = |node| {
            endpoints.acquire(&EndpointId::Ipn {
                allocator: 0,
                node,
                service: 1,
            })
        };
        let (four, five) = (destination(4), destination(5));
        let (beta, gamma) = (Hop::Link(LinkId(0)), Hop::Link(LinkId(1)));
        let mut queues = Queues::new(BTreeSet::new());
        queues.push(four, place(2, 0), BundleKey(20), || {
            Vec::from([beta.clone(), gamma.clone()])
        });
        queues.push(five, place(1, 0), BundleKey(10), || {
            Vec::from([gamma.clone()])
        });
        queues.push(four, place(3, 0), BundleKey(30), || {
            unreachable!("the queue exists")
        });
        let both_up = |hops: &[Hop]| (!hops.is_empty()).then_some(0);
        let over_gamma = queues.next(core::slice::from_ref(&gamma), both_up, |_| true);
        assert_eq!(over_gamma, Some(BundleKey(10)));
        queues.remove(five, place(1, 0), BundleKey(10));
        // Destination four prefers beta, which is up.
        assert_eq!(
            queues.next(core::slice::from_ref(&gamma), both_up, |_| true),
            None
        );
        let beta_down = |hops: &[Hop]| hops.iter().position(|hop| *hop == gamma);
        assert_eq!(
            queues.next(core::slice::from_ref(&gamma), beta_down, |_| true),
            Some(BundleKey(20))
        );
        queues.reroute(|_| Vec::new());
        let anything = queues.next(&[beta, gamma], both_up, |_| true);
        assert_eq!(anything, None, "without routes nothing leaves");
    }

    #[test]
    fn a_link_that_sends_by_expiry_takes_the_most_urgent_first() {
        let mut endpoints = Endpoints::new(1);
        let four = endpoints.acquire(&EndpointId::Ipn {
            allocator: 0,
            node: 4,
            service: 1,
        });
        let link = Hop::Link(LinkId(0));
        let mut queues = Queues::new(BTreeSet::from([LinkId(0)]));
        queues.push(four, place(1, 900), BundleKey(1), || {
            Vec::from([link.clone()])
        });
        queues.push(four, place(2, 100), BundleKey(2), Vec::new);
        let next = queues.next(core::slice::from_ref(&link), |_| Some(0), |_| true);
        assert_eq!(next, Some(BundleKey(2)));
    }
}
