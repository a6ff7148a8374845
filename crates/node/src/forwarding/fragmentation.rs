//! Fragments for the way out: cut at fixed places where the next hop takes no more octets.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::session_id::SessionId;
use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::outbox::Outbox;
use crate::sending::PendingRead;
use crate::sending::must_not_fragment;
use dhow_bundle::FragmentRange;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;

impl Forwarding {
    /// Read the payload of the next fragment of the bundle that a session is cutting.
    pub(crate) fn send_fragment(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        out: &mut Outbox,
        session: SessionId,
    ) {
        let Some(neighbour) = adjacencies.neighbour_mut(session) else {
            return;
        };
        let Some(mut split) = neighbour.splits.pop_front() else {
            return;
        };
        let key = split.key;
        let (Some(state), Some(entry)) = (self.splits.get_mut(&(key, session)), held.entry(key))
        else {
            return;
        };
        let total = state.header.payload_octets();
        let length = split.piece_octets.min(total.saturating_sub(split.next));
        let range = FragmentRange {
            offset: split.next,
            length,
        };
        let start = u64::from(entry.header_octets()).saturating_add(range.offset);
        let extents = entry.extents().part(start, length);
        split.next = split.next.saturating_add(length);
        state.outstanding += 1;
        state.complete = split.next >= total;
        neighbour.in_flight += 1;
        neighbour.in_flight_octets = neighbour.in_flight_octets.saturating_add(length);
        if !state.complete {
            neighbour.splits.push_front(split);
        }
        out.counters.fragments += 1;
        held.read(
            out,
            PendingRead::Fragment {
                session,
                key,
                range,
            },
            extents,
        );
    }

    /// A next hop has so many octets of a bundle's payload behind `start`.
    pub(crate) fn handed_over(
        &mut self,
        held: &Held,
        adjacencies: &Adjacencies,
        session: SessionId,
        key: BundleKey,
        start: u64,
        octets: u64,
    ) {
        let Some(entry) = held.entry(key) else {
            return;
        };
        let may =
            !must_not_fragment(entry.flags()) && !held.endpoints().id(entry.source()).is_null();
        let before = self.acknowledged_by(adjacencies, session, key).unwrap_or(0);
        // A fragment has at least one octet, and the last one tells that all were taken.
        let most = entry.payload_octets().saturating_sub(1);
        let beyond = u64::from(planted(Mutant::HandedTooFar));
        let end = start.saturating_add(octets + beyond).min(most);
        if may && start <= before && end > before {
            self.set_acknowledged(adjacencies, session, key, Some(end));
        }
    }

    /// Payload octets of a bundle that need not go over a session: of a copy those that this neighbour has, else those that any has,
    /// which has them to forward.
    pub(crate) fn acknowledged_by(
        &self,
        adjacencies: &Adjacencies,
        session: SessionId,
        key: BundleKey,
    ) -> Option<u64> {
        if self.copies.router(key).is_none() || planted(Mutant::MarkShared) {
            return self.acknowledged.get(&key).copied();
        }
        self.copies
            .acknowledged(key, adjacencies.neighbour(session)?.peer_id()?)
    }

    /// Note how many that are; none any more.
    pub(crate) fn set_acknowledged(
        &mut self,
        adjacencies: &Adjacencies,
        session: SessionId,
        key: BundleKey,
        octets: Option<u64>,
    ) {
        if self.copies.router(key).is_some() && !planted(Mutant::MarkShared) {
            let peer = adjacencies.neighbour(session).and_then(|it| it.peer_id());
            if let Some(peer) = peer.cloned() {
                self.copies.set_acknowledged(key, peer, octets);
            }
            return;
        }
        match octets {
            Some(octets) => drop(self.acknowledged.insert(key, octets)),
            None => drop(self.acknowledged.remove(&key)),
        }
    }
}
