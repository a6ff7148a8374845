//! Sessions that a bundle passes over.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::neighbour::Neighbour;
use crate::attention::Attention;
use crate::forwarding::cut_through::CutThroughTransfer;
use dhow_bundle::{Instant, Now};
use dhow_link::stream::LinkCommand;

impl Adjacencies {
    pub(crate) fn end_early(
        &mut self,
        attention: &mut Attention,
        now: Now,
        under_way: CutThroughTransfer,
    ) {
        let CutThroughTransfer {
            session, transfer, ..
        } = under_way;
        let Some(neighbour) = self.neighbours.get_mut(&session) else {
            return;
        };
        neighbour.stop_cut_through();
        self.disown_transfer(session, transfer);
        self.command(attention, now, session, LinkCommand::Cancel { transfer });
    }
}

impl Neighbour {
    /// Nothing is under way to the peer, or nothing waits to leave where acknowledgments take their time, and it would take something.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        let is_busy = match self.session.is_paced() {
            true => self.cut_through.is_some() || self.session.queued_octets() > 0,
            false => self.in_flight > 0,
        };
        self.has_room(now) && !is_busy && self.splits.is_empty()
    }

    pub(crate) fn stop_cut_through(&mut self) {
        self.cut_through = None;
        self.queueing = None;
    }
}
