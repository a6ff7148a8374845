//! Where a stored bundle goes (RFC 9171 5.3), and what the store says of one that is arriving.

use crate::adjacencies::Adjacencies;
use crate::delivery::Delivery;
use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::outbox::Outbox;
use alloc::vec::Vec;
use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{FragmentRange, Instant, Now};

use crate::held::bundles::{Entry, Identity, Removal};
use crate::held::reassembly::UnitId;
use crate::held::removed::Recollection;
use crate::held::retention::{State, Trigger};
use crate::local::Locality;
use crate::node::Node;
use crate::queues::{Place, QueueId};
use crate::routing::Hop;
use crate::sending::must_not_fragment;

impl Forwarding {
    /// Put a bundle into its destination's queue and wake who could take it.
    pub(crate) fn enqueue(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        delivery: &mut Delivery,
        out: &mut Outbox,
        key: BundleKey,
    ) {
        held.release_moved(out, key);
        if !held.advance(out, key, Trigger::Queued) {
            return;
        }
        let Some(entry) = held.bundles.entry(key) else {
            return;
        };
        let (destination, queue, place) = (entry.destination, queue(entry), place(entry));
        let bars = (entry.previous, must_not_fragment(entry.flags));
        let is_own = held.endpoints.locality(destination) != Locality::Remote;
        if !is_own && self.spread(held, adjacencies, key) {
            return;
        }
        let (routes, endpoints) = (&self.routes, &held.endpoints);
        self.queues.push(queue, place, key, || match is_own {
            true => Vec::new(),
            false => routes.hops(endpoints.id(destination)),
        });
        if is_own {
            if !planted(Mutant::ApplicationNotWoken) {
                delivery.to_deliver.insert(destination);
            }
            return;
        }
        let is_barred = adjacencies.may_be_barred(held, self.queues.hops(queue), bars)
            || self.is_sent(held, key);
        let queue = match is_barred {
            true => self.aside(held, adjacencies, key, queue, place),
            false => queue,
        };
        if queue.detour > 0 && planted(Mutant::DetourNotWoken) {
            return;
        }
        for hop in self.queues.hops(queue) {
            match hop {
                Hop::Peer(_) if planted(Mutant::NeighbourNotWoken) => {}
                Hop::Peer(peer) => adjacencies
                    .to_serve
                    .extend(adjacencies.peers.get(peer).into_iter().flatten()),
                Hop::Link(link) => {
                    let link = usize::try_from(link.0)
                        .ok()
                        .and_then(|link| adjacencies.links.get(link));
                    adjacencies
                        .to_serve
                        .extend(link.into_iter().flat_map(|link| &link.streams));
                }
            }
        }
    }

    /// Take a waiting bundle out of its queue.
    pub(crate) fn dequeue(&mut self, held: &mut Held, out: &mut Outbox, key: BundleKey) {
        held.advance(out, key, Trigger::Taken);
        let Some(entry) = held.bundles.entry(key) else {
            return;
        };
        let (queue, place) = (queue(entry), place(entry));
        self.turns.leave(place.arrival);
        self.queues.remove(queue, place, key);
    }

    /// Give a bundle its place among those that wait and its expiry.
    pub(crate) fn keep(&mut self, held: &mut Held, key: BundleKey) {
        if let Some(entry) = held.bundles.entry_mut(key) {
            entry.order = self
                .turns
                .place(entry.source, entry.destination, entry.octets);
        }
        let has_come = (held.bundles.entry(key)).is_some_and(|it| it.previous.is_some());
        if !(has_come && planted(Mutant::ExpiryOfKeptForgotten)) {
            held.expiries.insert(&mut held.bundles, key);
        }
    }
}

impl Node {
    /// RFC 9171 5.3: deliver it here or forward it.
    pub(crate) fn dispatch(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.bundles.entry(key) else {
            return;
        };
        let locality = self.held.endpoints.locality(entry.destination);
        if locality == Locality::Remote {
            if let Some(duration) = return_rest(entry.returns) {
                self.rest(now, key, duration);
            } else {
                self.forwarding.enqueue(
                    &mut self.held,
                    &mut self.adjacencies,
                    &mut self.delivery,
                    &mut self.outbox,
                    key,
                );
            }
            return;
        }
        let Some(entry) = self.held.bundles.entry(key) else {
            return;
        };
        if self.held.other_whole(key).is_some() {
            // Fragments made on different ways overlap, and the bundle comes beside them: one whole is enough.
            self.delete(now, key, Removal::Deleted, None);
            return;
        }
        let Some((unit, range)) = unit_of(entry) else {
            self.arrive(now, key, locality);
            return;
        };
        let whole = Identity {
            fragment: None,
            ..entry.identity()
        };
        // Its deletion may not be durable yet.
        let is_leaving = || {
            let whole = self.held.bundles.find(&whole);
            let whole = whole.and_then(|key| self.held.bundles.entry(key));
            whole
                .is_some_and(|it| it.state() == State::Deleting && it.removal == Removal::Delivered)
        };
        let is_delivered = is_leaving()
            || self.held.removed.recall(&whole, now.monotonic) == Some(Recollection::Delivered);
        if is_delivered && !planted(Mutant::FragmentOfDeliveredTaken) {
            // The whole came another way while this was on its way here.
            self.delete(now, key, Removal::Deleted, None);
            return;
        }
        // RFC 9171 5.9: a fragment waits until the whole is there.
        self.held
            .advance(&mut self.outbox, key, Trigger::PartOfUnit);
        if let Some(head) = self.held.reassembly.add(unit, range, key) {
            self.outbox.counters.reassembled += 1;
            self.unit_whole(now, head, locality);
        }
    }

    /// A fragment stands for its unit, which is whole.
    pub(crate) fn unit_whole(&mut self, now: Now, head: BundleKey, locality: Locality) {
        if self
            .held
            .advance(&mut self.outbox, head, Trigger::UnitWhole)
        {
            self.arrive(now, head, locality);
        }
    }

    /// A whole application data unit is at its destination.
    pub(crate) fn arrive(&mut self, now: Now, key: BundleKey, locality: Locality) {
        match locality {
            Locality::Administrative => self.delivered(now, key),
            Locality::Echo => self.echo(now, key),
            Locality::Perf => self.measure(now, key),
            Locality::Application | Locality::Remote => {
                if self.delivery.abandons(&self.held, key) {
                    self.delete(now, key, Removal::Deleted, None);
                } else {
                    self.forwarding.enqueue(
                        &mut self.held,
                        &mut self.adjacencies,
                        &mut self.delivery,
                        &mut self.outbox,
                        key,
                    );
                }
            }
        }
    }

    /// A bundle has rested, or what it rested for has come.
    pub(crate) fn wake(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.bundles.entry(key) else {
            return;
        };
        let State::Resting { until } = entry.state() else {
            return;
        };
        let locality = self.held.endpoints.locality(entry.destination);
        self.held.rests.remove(&(until, key));
        self.held.verifying.remove(&key);
        self.held.advance(&mut self.outbox, key, Trigger::Woken);
        match locality {
            Locality::Echo | Locality::Perf | Locality::Administrative => {
                self.arrive(now, key, locality)
            }
            Locality::Application | Locality::Remote => self.forwarding.enqueue(
                &mut self.held,
                &mut self.adjacencies,
                &mut self.delivery,
                &mut self.outbox,
                key,
            ),
        }
    }
}

/// How long a bundle rests that left this node before and is back: 5 s the first time, twice as long each
/// time after it, up to 10 min.
fn return_rest(returns: u8) -> Option<Duration> {
    let doublings = u32::from(returns.checked_sub(1)?);
    let seconds = 5_u64.saturating_mul(1_u64.checked_shl(doublings.min(32)).unwrap_or(u64::MAX));
    Some(Duration::from_secs(seconds.min(600)))
}

/// The queue in which a bundle waits.
pub(crate) fn queue(entry: &Entry) -> QueueId {
    QueueId {
        destination: entry.destination,
        detour: entry.detour,
    }
}

/// A bundle's places in its queue.
pub(crate) fn place(entry: &Entry) -> Place {
    Place {
        arrival: entry.order,
        expiry: instant_order(entry.expires),
    }
}

fn instant_order(at: Instant) -> u64 {
    at.as_nanos()
}

pub(crate) fn unit_of(entry: &Entry) -> Option<(UnitId, FragmentRange)> {
    let fragment = entry.fragment.as_ref()?;
    Some((UnitId::of(entry), fragment.range))
}
