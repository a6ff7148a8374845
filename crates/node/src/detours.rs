//! Bundles that may not go over the best hop of their destination: another one takes them, or they rest.

use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;

use crate::adjacencies::session_id::SessionId;
use crate::held::retention::State;
use crate::node::Node;
use crate::routing::Hop;

/// The rest of a bundle that no hop may take: it came from there, or does not fit.
pub(crate) const OBSTACLE_RETRY: Duration = Duration::from_secs(5);

/// Times that the way of a session is cleared at a turn, of some bundles each time: a source that rests may have a million of them.
pub(crate) const CLEARED_BOUND: u32 = 64;

/// The time that others have before it is cleared on.
pub(crate) const CLEARING_PAUSE: Duration = Duration::from_millis(10);

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
        let rest = |key| {
            let entry = self.held.entry(key)?;
            let rest = (neighbour.shortages).rest(entry.source(), entry.octets())?;
            Some(rest.from(now.monotonic))
        };
        let obstacles: Vec<_> = obstacles.into_iter().map(|key| (key, rest(key))).collect();
        for &(key, rest) in &obstacles {
            // A queue that goes over two of the session's hops is found twice.
            if self.held.state(key) == Some(State::Waiting) {
                self.forwarding
                    .dequeue(&mut self.held, &mut self.outbox, key);
                self.divert(now, key, 0, rest);
            }
        }
        !obstacles.is_empty()
    }

    /// A bundle that is in no queue may not go where it waited: it goes to the best hop that may take it, in one transfer of so many
    /// octets at least. If there is none, it rests: for as long as its source does, or until it is tried whether a hop may take it.
    pub(crate) fn divert(&mut self, now: Now, key: BundleKey, octets: u64, rest: Option<Duration>) {
        let detour = self
            .forwarding
            .detour(&self.held, &self.adjacencies, key, octets);
        if let Some(entry) = self.held.entry_mut(key) {
            entry.detour = detour.unwrap_or(0);
        }
        match detour {
            Some(_) => self.put_back(now, key),
            None if rest.is_none() && self.forwarding.is_sent(&self.held, key) => {
                self.stay_sent(now, key);
            }
            None => drop(self.retry_after(now, key, rest.unwrap_or(OBSTACLE_RETRY))),
        }
    }
}
