//! Bundles that a neighbour's program keeps for another node, as a file on a medium that is carried there (docs/external.md).
//!
//! Such a bundle stays in flight here, and its session sends others meanwhile: neither the window nor the pace of the session counts it.

use dhow_bundle::Now;
use dhow_link::stream::{RefuseReason, TransferId};

use crate::adjacencies::session_id::SessionId;
use crate::forwarding::cut_through::CutThrough;
use crate::node::Node;

impl Node {
    /// The peer keeps a bundle, and says later whether anybody took it. A bundle that is not durable here yet comes back: nothing that is kept
    /// stands in the way of its arrival.
    pub(crate) fn kept_by_peer(&mut self, now: Now, session: SessionId, transfer: TransferId) {
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return;
        };
        let Some(outgoing) = neighbour.outgoing().get(transfer.0) else {
            return;
        };
        if self.forwarding.cut_through(outgoing.key).is_some() {
            return self.failed(now, session, transfer, (None, 0));
        }
        let Some(mut outgoing) = neighbour.closed(transfer) else {
            return;
        };
        neighbour.probe_over(now.monotonic, transfer, false);
        let octets = core::mem::take(&mut outgoing.octets);
        neighbour
            .window
            .answered(now.monotonic, outgoing.begun, octets);
        neighbour.bundles_sent += 1;
        neighbour.octets_sent += octets;
        let was_tried = neighbour.trial.is_some_and(|trial| trial.bundles == 1);
        neighbour.has_taken(octets);
        neighbour.keep(transfer, outgoing);
        if was_tried {
            self.adjacencies.try_others(session);
        }
        self.adjacencies.discharge(session, octets);
    }

    /// The peer says what became of a bundle that it kept: `None` if a node has taken it. False where it kept none of this number.
    pub(crate) fn settle_kept(
        &mut self,
        now: Now,
        session: SessionId,
        transfer: TransferId,
        outcome: Option<Option<RefuseReason>>,
    ) -> bool {
        let neighbour = self.adjacencies.neighbour_mut(session);
        let Some(outgoing) = neighbour.and_then(|it| it.take_kept(transfer)) else {
            return false;
        };
        let key = outgoing.key;
        if outcome.is_none() {
            self.tell_transfer(now, session, &outgoing);
        }
        if outgoing.fragment {
            self.settle_fragment(now, session, key, outcome);
            return true;
        }
        let ending = outcome.map_or(CutThrough::Taken(session), CutThrough::Failed);
        if !self.end_cut_through(now, session, key, ending) {
            match outcome {
                None => self.forwarded(now, session, key),
                Some(refused) => self.come_back(now, session, key, refused),
            }
            self.forwarding
                .pay(&mut self.adjacencies, &mut self.attention, now, key);
        }
        true
    }
}
