//! Bundles that may not go over the best hop of their destination: another one takes them, or they rest.

use core::time::Duration;

use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;

use crate::adjacencies::session_id::SessionId;
use crate::held::retention::State;
use crate::node::Node;
use crate::routing::Hop;

/// The rest of a bundle that no hop may take: it came from there, or does not fit.
pub(crate) const OBSTACLE_RETRY: Duration = Duration::from_secs(5);

impl Node {
    /// Take what may not go over a session out of its way, so that others can; false when there is nothing.
    pub(crate) fn clear_the_way(&mut self, now: Now, session: SessionId) -> bool {
        let Some(neighbour) = self.adjacencies.neighbour(session) else {
            return false;
        };
        let best = |hops: &[Hop]| hops.iter().position(|hop| self.adjacencies.is_up(hop));
        // A bundle that has left over this session's link may wait for another session with the same neighbour.
        let obstacles =
            self.forwarding
                .queues()
                .obstacles(self.held.bundles(), &neighbour.hops, best, |key| {
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
        if let Some(entry) = self.held.entry_mut(key) {
            entry.detour = detour.unwrap_or(0);
        }
        match detour {
            Some(_) => self.put_back(now, key),
            None if self.forwarding.is_sent(&self.held, key) => self.stay_sent(now, key),
            None => drop(self.retry_after(now, key, OBSTACLE_RETRY)),
        }
    }
}
