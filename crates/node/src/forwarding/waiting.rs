//! Bundles that wait for a next hop: into the queue of their destination, and out of it.

use crate::adjacencies::Adjacencies;
use crate::config::Route;
use crate::delivery::Delivery;
use crate::dispatch::unit_of;
use crate::driver::OperatorRefusal;
use crate::forwarding::Forwarding;
use crate::forwarding::queues::Place;
use crate::forwarding::queues::QueueId;
use crate::forwarding::turns::{expiry_order, priority_of};
use crate::held::Held;
use crate::held::bundles::Entry;
use crate::held::retention::State;
use crate::held::retention::Trigger;
use crate::local::Locality;
use crate::outbox::Outbox;
use crate::routing::Hop;
use crate::sending::{is_record, must_not_fragment};
use alloc::vec::Vec;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::BundleKey;

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
        if held.advance(out, key, Trigger::Queued) {
            self.wait(held, adjacencies, delivery, key);
        }
    }

    /// A bundle that waits is in no queue: put it into one, or leave it to its router, and wake who could take it.
    pub(crate) fn wait(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        delivery: &mut Delivery,
        key: BundleKey,
    ) {
        let Some(entry) = held.entry(key) else {
            return;
        };
        let (destination, queue, place) = (entry.destination(), queue(entry), place(entry));
        let is_barred_somewhere = must_not_fragment(entry.flags())
            || entry.is_untranslatable()
            || adjacencies.has_tunnels() && is_record(entry.flags());
        let bars = (entry.previous(), is_barred_somewhere);
        let is_own = held.endpoints().locality(destination) != Locality::Remote;
        if !is_own && self.spread(held, adjacencies, key) {
            return;
        }
        let routes = &self.routes;
        let (bundles, endpoints) = held.bundles_and_endpoints();
        self.queues
            .push(bundles, queue, place, key, || match is_own {
                true => Vec::new(),
                false => routes.hops(endpoints.id(destination)),
            });
        if is_own {
            if !planted(Mutant::ApplicationNotWoken) {
                delivery.wake(destination);
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
                Hop::Peer(_) | Hop::Link(_) => adjacencies.serve_hop(hop),
            }
        }
    }

    /// Take a waiting bundle out of its queue.
    pub(crate) fn dequeue(&mut self, held: &mut Held, out: &mut Outbox, key: BundleKey) {
        held.advance(out, key, Trigger::Taken);
        let Some(entry) = held.entry(key) else {
            return;
        };
        let (queue, place) = (queue(entry), place(entry));
        self.turns.leave(place.arrival);
        self.queues.remove(held.bundles_mut(), queue, place, key);
    }

    /// Give a bundle its place among those that wait and its expiry.
    pub(crate) fn keep(&mut self, held: &mut Held, key: BundleKey) {
        if let Some(entry) = held.entry_mut(key) {
            let turns = &mut self.turns;
            let flow = (entry.source(), entry.destination());
            entry.set_order(turns.place(flow, entry.priority(), entry.octets()));
        }
        let has_come = (held.entry(key)).is_some_and(|it| it.previous().is_some());
        if !(has_come && planted(Mutant::ExpiryOfKeptForgotten)) {
            held.let_expire(key);
        }
    }

    /// Take a bundle out of everything that waits or counts time for it.
    pub(crate) fn withdraw(&mut self, held: &mut Held, key: BundleKey) {
        held.keep_from_expiry(key);
        let Some(entry) = held.entry(key) else {
            return;
        };
        match entry.state() {
            State::Waiting if self.copies.router(key).is_none() => {
                let (queue, place) = (queue(entry), place(entry));
                self.queues.remove(held.bundles_mut(), queue, place, key);
            }
            State::Reassembling => {
                if let Some((unit, range)) = unit_of(entry) {
                    held.reassembly_mut().remove(&unit, range, key);
                }
            }
            State::AwaitingRetry { until } => {
                held.end_retry(until, key);
            }
            State::Arriving
            | State::Kept
            | State::DispatchPending
            | State::Waiting
            | State::InFlight
            | State::Sent
            | State::Quarantined
            | State::Deleting => {}
        }
    }

    pub(crate) fn wake_all_sent(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        delivery: &mut Delivery,
        out: &mut Outbox,
        keys: Vec<BundleKey>,
    ) {
        for key in keys {
            if held.state(key) == Some(State::Sent) && held.advance(out, key, Trigger::Woken) {
                self.enqueue(held, adjacencies, delivery, out, key);
            }
        }
    }

    pub(crate) fn add_route(
        &mut self,
        adjacencies: &Adjacencies,
        route: Route,
    ) -> Result<(), OperatorRefusal> {
        let hop = adjacencies.hop_named(&route.via)?;
        self.routes.add(route, hop)
    }

    /// Everything that waits asks its way again, and neighbours that are up are served again.
    pub(crate) fn reroute(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        delivery: &mut Delivery,
        out: &mut Outbox,
    ) {
        let (routes, endpoints, local) =
            (&self.routes, held.endpoints(), &held.endpoints().local());
        self.queues.reroute(held.bundles(), |destination| {
            let id = endpoints.id(destination);
            if local.locality(id) == Locality::Remote {
                routes.hops(id)
            } else {
                Vec::new()
            }
        });
        self.reroute_sent(held, adjacencies, delivery, out);
        adjacencies.serve_everybody();
    }
}

/// The queue in which a bundle waits.
pub(crate) fn queue(entry: &Entry) -> QueueId {
    QueueId {
        destination: entry.destination(),
        detour: entry.detour,
    }
}

/// A bundle's places in its queue.
pub(crate) fn place(entry: &Entry) -> Place {
    Place {
        arrival: entry.order(),
        expiry: expiry_order(priority_of(entry.order()), entry.expires()),
    }
}
