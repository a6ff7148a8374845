//! Bundles that may not go over the best hop of their destination: another one takes them, or they rest.

use crate::adjacencies::Adjacencies;
use crate::forwarding::Forwarding;
use crate::held::Held;
use core::time::Duration;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Instant, Now};

use crate::door::StreamId;
use crate::held::endpoints::EndpointIndex;
use crate::held::retention::State;
use crate::neighbour::Neighbour;
use crate::node::Node;
use crate::queues::{Place, QueueId};
use crate::routing::Hop;

/// The rest of a bundle that no hop may take: it came from there, or does not fit.
const OBSTACLE_REST: Duration = Duration::from_secs(5);

impl Neighbour {
    /// Whether it is time to take what may not go over the session out of the way, whether or not it has room or others to send: what
    /// came while no other hop was up need not wait until the session has nothing else.
    pub(crate) fn is_to_be_cleared(&mut self, now: Instant) -> bool {
        let is_due = self.parameters.is_some() && self.clear_at <= now;
        if is_due {
            self.clear_at = now + OBSTACLE_REST;
        }
        is_due && !planted(Mutant::DetourBehindOthers)
    }
}

impl Adjacencies {
    /// Whether some of these hops may be barred to a bundle that came from a neighbour, and may be one that must not be fragmented.
    pub(crate) fn may_be_barred(
        &self,
        held: &Held,
        hops: &[Hop],
        (previous, is_whole): (Option<EndpointIndex>, bool),
    ) -> bool {
        let Some(previous) = previous else {
            return is_whole;
        };
        let previous = held.endpoints.id(previous);
        let is_it = |hop: &Hop| match hop {
            Hop::Peer(peer) => peer.endpoint() == previous,
            Hop::Link(link) => {
                let peer = self.link(*link).and_then(|link| link.peer.as_ref());
                peer.is_some_and(|peer| peer.endpoint() == previous)
            }
        };
        is_whole || hops.iter().any(is_it)
    }
}

impl Forwarding {
    /// The queue of a bundle that has just come into one: another where the best hop of that may not have it. There it would wait behind
    /// all that may.
    pub(crate) fn aside(
        &mut self,
        held: &mut Held,
        adjacencies: &Adjacencies,
        key: BundleKey,
        queue: QueueId,
        place: Place,
    ) -> QueueId {
        let hops = self.queues.hops(queue);
        let best = hops.iter().find(|hop| adjacencies.is_up(hop));
        if best.is_none_or(|hop| {
            adjacencies
                .sessions_over(hop)
                .any(|it| self.may_go(held, it, key))
        }) {
            return queue;
        }
        let Some(detour) = self.detour(held, adjacencies, key, 0) else {
            return queue;
        };
        if planted(Mutant::DetourBehindOthers) {
            return queue;
        }
        if let Some(entry) = held.bundles.entry_mut(key) {
            entry.detour = detour;
        }
        self.queues.remove(queue, place, key);
        let aside = QueueId { detour, ..queue };
        let (routes, endpoints) = (&self.routes, &held.endpoints);
        let hops = || routes.hops(endpoints.id(queue.destination));
        self.queues.push(aside, place, key, hops);
        aside
    }

    /// The place among its destination's hops of the best that may take a bundle now; none where that is where it waited.
    pub(crate) fn detour(
        &self,
        held: &Held,
        adjacencies: &Adjacencies,
        key: BundleKey,
        octets: u64,
    ) -> Option<u8> {
        let entry = held.bundles.entry(key)?;
        let hops = self.routes.hops(held.endpoints.id(entry.destination));
        let takes = |hop: &Hop| {
            let mut sessions = adjacencies.sessions_over(hop);
            sessions.any(|it| it.transfer_mru() >= octets && self.may_go(held, it, key))
        };
        let detour = u8::try_from(hops.iter().position(takes)?).ok()?;
        let rests = entry.previous.is_some() && planted(Mutant::DetourNotTaken);
        (detour != entry.detour && !rests).then_some(detour)
    }
}

impl Node {
    /// Take what may not go over a session out of its way, so that others can; false when there is nothing.
    pub(crate) fn clear_the_way(&mut self, now: Now, stream: StreamId) -> bool {
        let Some(neighbour) = self.adjacencies.neighbours.get(&stream) else {
            return false;
        };
        let best = |hops: &[Hop]| hops.iter().position(|hop| self.adjacencies.is_up(hop));
        // What has left over this session's link may wait for another session with the same neighbour.
        let obstacles = self
            .forwarding
            .queues
            .obstacles(&neighbour.hops, best, |key| {
                self.forwarding.may_go(&self.held, neighbour, key)
                    || self.forwarding.is_sent(&self.held, key)
                        && self
                            .forwarding
                            .may_leave(&self.held, &self.adjacencies, key)
            });
        for &key in &obstacles {
            // A queue that goes over two of the session's hops is found twice.
            if self.held.state(key) == Some(State::Waiting) {
                self.forwarding
                    .dequeue(&mut self.held, &mut self.outbox, key);
                self.divert(now, key, 0);
            }
        }
        !obstacles.is_empty()
    }

    /// A bundle that is in no queue may not go where it waited: it goes to the best hop that may take it, in one transfer of so many
    /// octets at least.
    pub(crate) fn divert(&mut self, now: Now, key: BundleKey, octets: u64) {
        let detour = self
            .forwarding
            .detour(&self.held, &self.adjacencies, key, octets);
        if let Some(entry) = self.held.bundles.entry_mut(key) {
            entry.detour = detour.unwrap_or(0);
        }
        match detour {
            Some(_) => self.put_back(now, key),
            None if self.forwarding.is_sent(&self.held, key) => self.stay_sent(now, key),
            None => drop(self.rest(now, key, OBSTACLE_REST)),
        }
    }
}
