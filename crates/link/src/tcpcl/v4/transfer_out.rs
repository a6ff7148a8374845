//! Transfers to the peer: RFC 9174 5.2, figure 11.

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::reading::{Deviation, Reading};
use dhow_bundle::storage::Piece;

use super::extension::TransferExtensions;
use super::fault::AnswerFault;
use super::message::{END, Message, START, XferSegment};
use crate::stream::{LinkEvent, RefuseReason, TransferId};
use crate::tcpcl::event::Events;
use crate::tcpcl::outgoing::{Cancelled, Outcome, Outgoing, Phase};
use crate::tcpcl::writer::Writer;

/// Finished transfers that may stay in the queue behind one that the peer never answers. RFC 9174
/// asks for no order of acknowledgments, so this is generous; each takes about 200 octets.
const MAX_FINISHED_BEHIND: usize = 65_536;

/// Outgoing transfers, from `Transmit` to the peer's last acknowledgment or refusal.
#[derive(Debug)]
pub(super) struct TransfersOut {
    queue: Outgoing<Own>,
    /// The transfer refused last: the peer may refuse it again.
    refused_last: Option<TransferId>,
    /// Largest transfer that the peer takes, octets; `None` before it has said so.
    transfer_mru: Option<u64>,
    reactive_fragments: ReactiveFragments,
    reading: Reading,
}

/// The octets that both sides keep of transfers that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReactiveFragments {
    Dropped,
    /// The octets that they acknowledged.
    Kept,
}

/// A transfer, beside what every version has of it.
#[derive(Debug, Default)]
struct Own {
    /// Whether the peer is told that nothing of it is verified.
    unverified: bool,
}

impl TransfersOut {
    /// Segments have so many octets at most.
    pub(super) const fn new(segment_length: u64, reading: Reading) -> Self {
        Self {
            queue: Outgoing::new(segment_length),
            refused_last: None,
            transfer_mru: None,
            reactive_fragments: ReactiveFragments::Dropped,
            reading,
        }
    }

    /// No transfer is queued, being sent or unanswered.
    pub(super) const fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Octets of the transfer that has begun to leave which have not been given out, without the heads of its segments.
    pub(super) fn leaving_octets(&self) -> u64 {
        self.queue.leaving_octets()
    }

    /// Octets of transfers that have not begun to leave.
    pub(super) const fn queued_octets(&self) -> u64 {
        self.queue.queued_octets()
    }

    /// A segment has begun to leave and is not complete.
    pub(super) const fn is_inside_segment(&self) -> bool {
        self.queue.is_inside_segment()
    }

    /// The peer's limits are known (RFC 9174 4.7).
    pub(super) fn negotiated(
        &mut self,
        (segment_mru, transfer_mru): (u64, u64),
        reactive_fragments: ReactiveFragments,
        events: &mut Events,
    ) {
        self.reactive_fragments = reactive_fragments;
        self.queue.limit_segments(segment_mru);
        self.transfer_mru = Some(transfer_mru);
        let reason = Some(RefuseReason::NoResources);
        (self.queue).fail_each(reason, events, |out| out.length > transfer_mru);
    }

    /// Queue a transfer.
    pub(super) fn transmit(&mut self, transfer: TransferId, length: u64, events: &mut Events) {
        // RFC 9174 4.6: no transfer is longer than the peer's Transfer MRU.
        if self.transfer_mru.is_some_and(|mru| length > mru) {
            events.push(LinkEvent::Failed {
                transfer,
                refused: Some(RefuseReason::NoResources),
                acknowledged: 0,
            });
            return;
        }
        self.queue.push(transfer, length, Own::default());
    }

    /// Nothing of a transfer is verified.
    pub(super) fn unverified(&mut self, transfer: TransferId) {
        if let Some(own) = self.queue.own(transfer) {
            own.unverified = self.reactive_fragments == ReactiveFragments::Kept;
        }
    }

    /// The next octets of a transfer.
    pub(super) fn supply(&mut self, transfer: TransferId, octets: Piece) {
        self.queue.supply(transfer, octets);
    }

    /// The node gives up a transfer.
    pub(super) fn cancel(&mut self, transfer: TransferId, events: &mut Events) -> Cancelled {
        self.queue.cancel(transfer, true, events)
    }

    /// The session is ending: no queued transfer will begin (RFC 9174 6.1).
    pub(super) fn end(&mut self, events: &mut Events) {
        self.queue.end(events);
    }

    /// The session is over: every transfer has failed, and nothing of one is given out any more.
    pub(super) fn close(&mut self, events: &mut Events) {
        self.queue.close(events);
    }

    /// The peer acknowledged octets.
    pub(super) fn handle_acknowledgment(
        &mut self,
        now: Instant,
        flags: u8,
        transfer: u64,
        octets: u64,
        events: &mut Events,
    ) -> Result<(), AnswerFault> {
        let Some(sequence) = self.queue.sequence(TransferId(transfer)) else {
            return Err(AnswerFault::NotUnderWay(transfer));
        };
        let Some((_, sent, out)) = self.queue.under_way(sequence) else {
            return Err(AnswerFault::NotUnderWay(transfer));
        };
        if octets > sent {
            return Err(AnswerFault::Overshoot {
                transfer,
                octets,
                sent,
            });
        }
        if out.phase.is_given_up() {
            // The node knows how it ended. A peer that acknowledges the end did not notice.
            if flags & END != 0 && out.phase == Phase::Stopped && octets == out.sent {
                self.queue.finish(sequence, Outcome::Failed(None), events);
            }
            return self.check_order();
        }
        if octets <= out.acknowledged && out.length > 0 {
            return Err(AnswerFault::Repeated { transfer, octets });
        }
        // RFC 9174 5.2.3: the flags repeat the segment's.
        let start = if octets == out.first_segment {
            START
        } else {
            0
        };
        let end = if octets == out.length { END } else { 0 };
        let flags_differ = flags & (START | END) != start | end;
        if flags_differ && !self.reading.accepts(Deviation::AcknowledgmentFlagsDiffer) {
            return Err(AnswerFault::Flags { transfer, flags });
        }
        self.queue.acknowledge(now, sequence, octets, events);
        self.check_order()
    }

    /// The peer refused a transfer.
    pub(super) fn handle_refusal(
        &mut self,
        reason: RefuseReason,
        transfer: u64,
        events: &mut Events,
    ) -> Result<(), AnswerFault> {
        let id = TransferId(transfer);
        let sequence = self.queue.sequence(id);
        let under_way = sequence.filter(|it| self.queue.under_way(*it).is_some());
        let Some(sequence) = under_way else {
            // RFC 9174 5.2.4: segments that crossed the refusal are refused again.
            return if self.refused_last == Some(id) {
                Ok(())
            } else {
                Err(AnswerFault::NotUnderWay(transfer))
            };
        };
        self.refused_last = Some(id);
        self.queue.refuse(sequence, reason, events);
        self.check_order()
    }

    fn check_order(&mut self) -> Result<(), AnswerFault> {
        match self.queue.finished_behind() {
            (finished, Some(transfer)) if finished > MAX_FINISHED_BEHIND => {
                Err(AnswerFault::Exhausted(transfer.0))
            }
            _ => Ok(()),
        }
    }

    /// Write the rest of the segment begun, as far as there is room.
    pub(super) fn write_segment_rest(&mut self, writer: &mut Writer<'_>, events: &mut Events) {
        self.queue.write_segment_rest(writer, events);
    }

    /// Begin the next segment, if there is one to send; false when there is none.
    pub(super) fn write_segment_head(&mut self, now: Instant, writer: &mut Writer<'_>) -> bool {
        let Some((segment, own)) = self.queue.begin_segment(now, |_| false) else {
            return false;
        };
        let short = |length| length - u64::from(planted(Mutant::LengthWithoutTrailer));
        writer.message(&Message::XferSegment(XferSegment {
            flags: if segment.is_first { START } else { 0 } | if segment.is_last { END } else { 0 },
            transfer: segment.transfer.0,
            extensions: TransferExtensions {
                // RFC 9174 5.2.5.1: the length is said unless the only segment says it.
                length: segment.total.map(short),
                unverified: segment.total.is_some() && own.unverified,
                fault: None,
            },
            data_length: segment.octets,
        }));
        true
    }
}
