//! Blocks that a driver passes on from hop to hop, while they still come in or later (docs/ltp.md).

use dhow_bundle::Now;

use super::end_to_end::EndToEnd;
use super::engine::Engine;
use super::segment::Reason;
use super::session_out::SessionOut;
use crate::stream::TransferId;

/// A block that leaves for a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onward {
    /// Its part for all hops.
    pub end_to_end: EndToEnd,
    /// Its ends.
    pub ends: Ends,
}

/// Octets of a block's red part and of the whole, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The red part.
    pub red: Option<u64>,
    /// The whole.
    pub length: Option<u64>,
}

/// A block that comes, or that came and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingBlock {
    /// The number of its session, as the peer counts.
    pub session: u64,
    /// Its part for all hops; `None` of a block for this hop alone, or whose start has not come.
    pub end_to_end: Option<EndToEnd>,
    /// Its ends.
    pub ends: Ends,
    /// The smallest offset of a green segment that came: octets before it are red.
    pub green: Option<u64>,
}

impl Engine {
    /// Open an outgoing block whose ends may be unknown yet: [`Engine::end_onward`] tells them. Its octets follow as those of any
    /// transfer do, but the last octet of a part only once the end of that part was told: the segment that holds it says so.
    pub fn pass_on(&mut self, now: Now, transfer: TransferId, onward: &Onward) {
        if !self.is_open() {
            return self.fail_at_once(transfer);
        }
        let (now, local) = (now.monotonic, &mut self.local);
        let whole = onward.ends.length.unwrap_or(local.config.transfer_mru);
        self.outgoing.transmit(now, local, transfer, whole);
        if let Some(session) = self.outgoing.session_of_mut(transfer) {
            session.red = onward.ends.red.unwrap_or(whole).min(whole);
            session.end_to_end = onward.end_to_end.write();
            let id = session.id;
            self.begin_cookie(id);
        }
        self.settle();
    }

    /// The ends of a block that was passed on without them. Ends that are told stay.
    pub fn end_onward(&mut self, now: Now, transfer: TransferId, ends: Ends) {
        self.outgoing
            .end_onward(now.monotonic, &self.local, transfer, ends);
        self.settle();
    }

    /// Give up an outgoing transfer since its block is lost here: the reason is `SYS_CNCLD`.
    pub fn cancel_onward(&mut self, now: Now, transfer: TransferId) {
        let reason = Reason::SystemCancelled;
        let local = &mut self.local;
        self.outgoing.cancel(now.monotonic, local, transfer, reason);
        self.settle();
    }

    /// The block of an incoming transfer: while it comes, and as long as its session is remembered.
    #[must_use]
    pub fn incoming_block(&self, transfer: TransferId) -> Option<IncomingBlock> {
        self.incoming.block_of(transfer)
    }
}

impl SessionOut {
    /// Take the ends of the block, as far as they are told.
    pub(super) fn end_onward(&mut self, ends: Ends) {
        if let Some(length) = ends.length {
            assert!(
                self.supplied() <= length && (self.sent < length || self.length == length),
                "the last octet of a block leaves once its end is known"
            );
            (self.length, self.red) = (length, self.red.min(length));
        }
        if let Some(red) = ends.red {
            assert!(
                self.sent < red || self.red == red,
                "the last red octet leaves once the end of the red part is known"
            );
            self.red = red.min(self.length);
        }
    }

    /// Extensions of a segment at an offset: those for all hops are at the start of the block.
    pub(super) fn extensions_at(&self, offset: u64) -> &[u8] {
        match offset {
            0 => &self.end_to_end,
            _ => &[],
        }
    }
}
