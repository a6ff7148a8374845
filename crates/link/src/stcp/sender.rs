//! Bundles to the peer: the side that dialled.

use alloc::vec::Vec;

use dhow_bundle::storage::Piece;
use dhow_bundle::{Instant, SmallBuffer};

use super::Framing;
use super::wire::Head;
use crate::stream::{Gather, LinkEvent, RefuseReason, TransferId};
use crate::tcpcl::event::Events;
use crate::tcpcl::outgoing::{Cancelled, Outcome, Outgoing};
use crate::tcpcl::writer::{HEAD_ROOM, Writer};

/// Outgoing bundles, from `Transmit` until their last octet is written.
#[derive(Debug)]
pub(super) struct Sender {
    framing: Framing,
    queue: Outgoing<()>,
    /// Bundles whose last octet was given out by the last call, in order: no more than there were octets.
    given: Vec<u64>,
    /// Whether a bundle has begun to leave and has more octets, so that nothing else may.
    is_inside: bool,
    /// Room for heads under construction.
    heads: SmallBuffer,
}

/// The octets that a call gave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Nothing,
    Keepalive,
    Bundles,
}

impl Sender {
    pub(super) fn new(framing: Framing) -> Self {
        Self {
            framing,
            queue: Outgoing::unanswered(),
            given: Vec::new(),
            is_inside: false,
            heads: SmallBuffer::new(HEAD_ROOM),
        }
    }

    /// No bundle is queued, being sent, or given out and not known to be written.
    pub(super) const fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Octets of the bundle that has begun to leave which have not been given out.
    pub(super) fn leaving_octets(&self) -> u64 {
        self.queue.leaving_octets()
    }

    /// Octets of bundles that have not begun to leave.
    pub(super) const fn queued_octets(&self) -> u64 {
        self.queue.queued_octets()
    }

    /// Queue a bundle.
    pub(super) fn transmit(&mut self, transfer: TransferId, length: u64, events: &mut Events) {
        if length > self.framing.longest_octets() {
            events.push(LinkEvent::Failed {
                transfer,
                refused: Some(RefuseReason::NoResources),
                acknowledged: 0,
            });
        } else {
            self.queue.push(transfer, length, ());
        }
    }

    /// The next octets of a bundle.
    pub(super) fn supply(&mut self, transfer: TransferId, octets: Piece) {
        self.queue.supply(transfer, octets);
    }

    /// The node gives up a bundle. The length of one that has begun has left: nothing but its octets may follow.
    pub(super) fn cancel(&mut self, transfer: TransferId, events: &mut Events) -> Cancelled {
        self.queue.cancel(transfer, false, events)
    }

    /// The session is ending: no queued bundle will begin.
    pub(super) fn end(&mut self, events: &mut Events) {
        self.queue.end(events);
    }

    /// The session is over: every bundle has failed that is not known to be written.
    pub(super) fn close(&mut self, events: &mut Events) {
        self.given.clear();
        self.queue.close(events);
    }

    /// All octets that were given out are written.
    pub(super) fn written(&mut self, events: &mut Events) {
        for sequence in self.given.drain(..) {
            self.queue.finish(sequence, Outcome::Sent, events);
        }
    }

    /// Give out about `limit` octets; a keep-alive, where one is due, if there are none.
    pub(super) fn write(
        &mut self,
        now: Instant,
        keepalive_due: bool,
        (limit, out): (usize, &mut Gather),
        events: &mut Events,
    ) -> Given {
        let mut heads = core::mem::replace(&mut self.heads, SmallBuffer::new(0));
        let mut writer = Writer::new(&mut heads, out, limit);
        self.write_rest(&mut writer, events);
        while writer.room() > 0
            && let Some((segment, ())) = self.queue.begin_segment(now, |()| false)
        {
            self.is_inside = !segment.is_last;
            if segment.is_first {
                writer.message(&Head {
                    framing: self.framing,
                    octets: segment.total.unwrap_or(segment.octets),
                });
            }
            self.write_rest(&mut writer, events);
        }
        let given = if !writer.is_untouched() {
            Given::Bundles
        } else if keepalive_due && !self.is_inside && !self.queue.is_inside_segment() {
            writer.message(&Head {
                framing: self.framing,
                octets: 0,
            });
            Given::Keepalive
        } else {
            Given::Nothing
        };
        writer.flush();
        self.heads = heads;
        given
    }

    fn write_rest(&mut self, writer: &mut Writer<'_>, events: &mut Events) {
        let left = self.queue.write_segment_rest(writer, events);
        self.given.extend(left);
    }
}
