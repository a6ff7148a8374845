//! The hops of a destination that a bundle may not go over, and the queue that it waits in instead.

use crate::adjacencies::Adjacencies;
use crate::forwarding::Forwarding;
use crate::forwarding::queues::{Place, QueueId};
use crate::held::Held;
use crate::routing::Hop;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;

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
        if let Some(entry) = held.entry_mut(key) {
            entry.detour = detour;
        }
        self.queues.remove(held.bundles_mut(), queue, place, key);
        let aside = QueueId { detour, ..queue };
        let (bundles, endpoints) = held.bundles_and_endpoints();
        let hops = || self.routes.hops(endpoints.id(queue.destination));
        self.queues.push(bundles, aside, place, key, hops);
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
        let entry = held.entry(key)?;
        let hops = self.routes.hops(held.endpoints().id(entry.destination()));
        let takes = |hop: &Hop| {
            let mut sessions = adjacencies.sessions_over(hop);
            sessions.any(|it| it.transfer_mru() >= octets && self.may_go(held, it, key))
        };
        let detour = u8::try_from(hops.iter().position(takes)?).ok()?;
        let retries = entry.previous().is_some() && planted(Mutant::DetourNotTaken);
        (detour != entry.detour && !retries).then_some(detour)
    }
}
