//! Bundles that may not go over the best hop of their destination: another one takes them, or they rest.

use core::time::Duration;

use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;

use crate::door::StreamId;
use crate::node::Node;
use crate::routing::Hop;

/// The rest of a bundle that no hop may take: it came from there, or does not fit.
const OBSTACLE_REST: Duration = Duration::from_secs(5);

impl Node {
    /// Take what may not go over a session out of its way, so that others can; false when there is nothing.
    pub(crate) fn clear_the_way(&mut self, now: Now, stream: StreamId) -> bool {
        let Some(neighbour) = self.neighbours.get(&stream) else {
            return false;
        };
        let best = |hops: &[Hop]| hops.iter().position(|hop| self.is_up(hop));
        let obstacles = self
            .queues
            .obstacles(&neighbour.hops, best, |key| self.may_go(neighbour, key));
        for &key in &obstacles {
            self.dequeue(key);
            let detour = self.detour(key);
            if let Some(entry) = self.bundles.entry_mut(key) {
                entry.detour = detour.unwrap_or(0);
            }
            match detour {
                Some(_) => self.put_back(now, key),
                None => drop(self.rest(now, key, OBSTACLE_REST)),
            }
        }
        !obstacles.is_empty()
    }

    /// The place among its destination's hops of the best that may take a bundle now; none where that is where it waited.
    fn detour(&self, key: BundleKey) -> Option<u8> {
        let entry = self.bundles.entry(key)?;
        let hops = self.routes.hops(self.endpoints.id(entry.destination));
        let takes = |hop: &Hop| self.sessions_over(hop).any(|it| self.may_go(it, key));
        let detour = u8::try_from(hops.iter().position(takes)?).ok()?;
        (detour != entry.detour).then_some(detour)
    }
}
