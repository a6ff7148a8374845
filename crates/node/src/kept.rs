//! Bundles that a neighbour's program keeps for another node, as a file on a medium that is carried there (docs/external.md).
//!
//! Such a bundle stays in flight here, and its session sends others meanwhile: neither the window nor the pace of the session counts it.

use dhow_bundle::Now;
use dhow_link::stream::{RefuseReason, TransferId};

use crate::adjacencies::session_id::SessionId;
use crate::forwarding::cut_through::CutThrough;
use crate::node::Node;

impl Node {
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
