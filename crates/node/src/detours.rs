//! Bundles that may not go over the best hop of their destination: another one takes them, or they rest.

use core::time::Duration;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Instant, Now};

use crate::door::StreamId;
use crate::endpoints::EndpointIndex;
use crate::neighbour::Neighbour;
use crate::node::Node;
use crate::queues::{Place, QueueId};
use crate::retention::State;
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

impl Node {
    /// Take what may not go over a session out of its way, so that others can; false when there is nothing.
    pub(crate) fn clear_the_way(&mut self, now: Now, stream: StreamId) -> bool {
        let Some(neighbour) = self.adjacencies.neighbours.get(&stream) else {
            return false;
        };
        let best = |hops: &[Hop]| hops.iter().position(|hop| self.is_up(hop));
        // What has left over this session's link may wait for another session with the same neighbour.
        let obstacles = self
            .forwarding
            .queues
            .obstacles(&neighbour.hops, best, |key| {
                self.may_go(neighbour, key) || self.is_sent(key) && self.may_leave(key)
            });
        for &key in &obstacles {
            // A queue that goes over two of the session's hops is found twice.
            if self.held.state(key) == Some(State::Waiting) {
                self.dequeue(key);
                self.divert(now, key, 0);
            }
        }
        !obstacles.is_empty()
    }

    /// Whether some of these hops may be barred to a bundle that came from a neighbour, and may be one that must not be fragmented.
    pub(crate) fn may_be_barred(
        &self,
        hops: &[Hop],
        (previous, is_whole): (Option<EndpointIndex>, bool),
    ) -> bool {
        let Some(previous) = previous else {
            return is_whole;
        };
        let previous = self.held.endpoints.id(previous);
        let is_it = |hop: &Hop| match hop {
            Hop::Peer(peer) => peer.endpoint() == previous,
            Hop::Link(link) => {
                let peer = self.link(*link).and_then(|link| link.peer.as_ref());
                peer.is_some_and(|peer| peer.endpoint() == previous)
            }
        };
        is_whole || hops.iter().any(is_it)
    }

    /// The queue of a bundle that has just come into one: another where the best hop of that may not have it. There it would wait behind
    /// all that may.
    pub(crate) fn aside(&mut self, key: BundleKey, queue: QueueId, place: Place) -> QueueId {
        let hops = self.forwarding.queues.hops(queue);
        let best = hops.iter().find(|hop| self.is_up(hop));
        if best.is_none_or(|hop| self.sessions_over(hop).any(|it| self.may_go(it, key))) {
            return queue;
        }
        let Some(detour) = self.detour(key, 0) else {
            return queue;
        };
        if planted(Mutant::DetourBehindOthers) {
            return queue;
        }
        if let Some(entry) = self.held.bundles.entry_mut(key) {
            entry.detour = detour;
        }
        self.forwarding.queues.remove(queue, place, key);
        let aside = QueueId { detour, ..queue };
        let (routes, endpoints) = (&self.forwarding.routes, &self.held.endpoints);
        let hops = || routes.hops(endpoints.id(queue.destination));
        self.forwarding.queues.push(aside, place, key, hops);
        aside
    }

    /// A bundle that is in no queue may not go where it waited: it goes to the best hop that may take it, in one transfer of so many
    /// octets at least.
    pub(crate) fn divert(&mut self, now: Now, key: BundleKey, octets: u64) {
        let detour = self.detour(key, octets);
        if let Some(entry) = self.held.bundles.entry_mut(key) {
            entry.detour = detour.unwrap_or(0);
        }
        match detour {
            Some(_) => self.put_back(now, key),
            None if self.is_sent(key) => self.stay_sent(now, key),
            None => drop(self.rest(now, key, OBSTACLE_REST)),
        }
    }

    /// The place among its destination's hops of the best that may take a bundle now; none where that is where it waited.
    fn detour(&self, key: BundleKey, octets: u64) -> Option<u8> {
        let entry = self.held.bundles.entry(key)?;
        let hops = self
            .forwarding
            .routes
            .hops(self.held.endpoints.id(entry.destination));
        let takes = |hop: &Hop| {
            let mut sessions = self.sessions_over(hop);
            sessions.any(|it| it.transfer_mru() >= octets && self.may_go(it, key))
        };
        let detour = u8::try_from(hops.iter().position(takes)?).ok()?;
        let rests = entry.previous.is_some() && planted(Mutant::DetourNotTaken);
        (detour != entry.detour && !rests).then_some(detour)
    }
}
