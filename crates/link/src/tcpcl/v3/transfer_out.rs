//! Bundles to the peer: RFC 7242 5.2 to 5.5.

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::Piece;

use super::fault::AnswerFault;
use super::message::{DataSegment, END, Message, START};
use super::negotiation::Agreed;
use super::transfer_in::Answering;
use crate::stream::{RefuseReason, TransferId};
use crate::tcpcl::event::Events;
use crate::tcpcl::outgoing::{Cancelled, Outcome, Outgoing, Phase};
use crate::tcpcl::writer::Writer;

/// Octets of a segment, at most: ION reads 64 KiB of a segment at a time and acknowledges each of them, so that a longer segment has more answers than
/// one (RFC 7242 5.3 has one).
const SEGMENT_OCTETS_BOUND: u64 = 64 * 1024;

/// Outgoing bundles, from `Transmit` to the peer's last acknowledgment or refusal, or to their last octet where none was
/// agreed on.
#[derive(Debug)]
pub(super) struct TransfersOut {
    queue: Outgoing<Own>,
    repeats: Repeats,
    agreed: Agreed,
}

/// Refusals that are to come of further segments of the bundle refused last: the peer gives each segment one answer.
#[derive(Clone, Copy, Debug, Default)]
struct Repeats {
    expected: u64,
    seen: u64,
}

/// A bundle, beside what every version has of it.
#[derive(Debug, Default)]
struct Own {
    /// Segments given out, the one begun included.
    segments: u64,
    /// Segments that the peer has answered.
    answered: u64,
    /// Whether nothing of it leaves before all of it is there.
    held: bool,
}

impl TransfersOut {
    /// Segments have so many octets at most, and [`SEGMENT_OCTETS_BOUND`].
    pub(super) const fn new(segment_length: u64) -> Self {
        let bounded = segment_length < SEGMENT_OCTETS_BOUND;
        let segment_length = match bounded {
            true => segment_length,
            false => SEGMENT_OCTETS_BOUND,
        };
        Self {
            queue: Outgoing::new(segment_length),
            repeats: Repeats {
                expected: 0,
                seen: 0,
            },
            agreed: Agreed::NOTHING,
        }
    }

    /// Both sides have said what they offer.
    pub(super) const fn negotiated(&mut self, agreed: Agreed) {
        self.agreed = agreed;
    }

    /// No bundle is queued, being sent or unanswered.
    pub(super) const fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Octets of the transfer that has begun to leave which have not been given out, without the heads of its segments.
    pub(super) fn leaving_octets(&self) -> u64 {
        self.queue.leaving_octets()
    }

    /// Octets of bundles that have not begun to leave.
    pub(super) const fn queued_octets(&self) -> u64 {
        self.queue.queued_octets()
    }

    /// A segment has begun to leave and is not complete.
    pub(super) const fn is_inside_segment(&self) -> bool {
        self.queue.is_inside_segment()
    }

    /// Queue a bundle.
    pub(super) fn transmit(&mut self, transfer: TransferId, length: u64) {
        self.queue.push(transfer, length, Own::default());
    }

    /// Nothing of a bundle is verified. A peer that keeps parts cannot be told, so none goes there before the whole is here.
    pub(super) fn unverified(&mut self, transfer: TransferId) {
        if let Some(own) = self.queue.own(transfer) {
            own.held = self.agreed.keeps_reactive_fragments;
        }
    }

    /// The next octets of a bundle.
    pub(super) fn supply(&mut self, transfer: TransferId, octets: Piece) {
        self.queue.supply(transfer, octets);
    }

    /// The node gives up a bundle.
    pub(super) fn cancel(&mut self, transfer: TransferId, events: &mut Events) -> Cancelled {
        // A peer that was told the length sees that the end comes early, and can say so.
        let ends_early = self.agreed.lengths && self.agreed.answering == Answering::Refusals;
        self.queue.cancel(transfer, ends_early, events)
    }

    /// The session is ending: no queued bundle will begin.
    pub(super) fn end(&mut self, events: &mut Events) {
        self.queue.end(events);
    }

    /// The session is over: every bundle has failed, and nothing of one is given out any more.
    pub(super) fn close(&mut self, events: &mut Events) {
        self.queue.close(events);
    }

    /// The peer acknowledged octets of the bundle that it answers next.
    pub(super) fn handle_acknowledgment(
        &mut self,
        now: Instant,
        octets: u64,
        events: &mut Events,
    ) -> Result<(), AnswerFault> {
        if self.agreed.answering == Answering::Nothing {
            return Err(AnswerFault::NotNegotiated);
        }
        // A peer that refuses a bundle once and not each segment goes on with the next bundle.
        let repeats = core::mem::take(&mut self.repeats);
        if repeats.expected > 0 && repeats.seen > 0 {
            return Err(AnswerFault::Unclear);
        }
        let sequence = self.queue.first();
        let under_way = self.queue.under_way(sequence);
        let Some((_, sent, out)) = under_way.filter(|(_, _, out)| out.own.is_answerable()) else {
            return Err(AnswerFault::NotUnderWay);
        };
        if octets > sent {
            return Err(AnswerFault::Overshoot { octets, sent });
        }
        out.own.answered = out.own.answered.saturating_add(1);
        if out.phase.is_given_up() {
            // The node knows how it ended. A peer that acknowledges the end did not notice.
            if out.phase == Phase::Stopped && !out.own.is_answerable() {
                self.queue.finish(sequence, Outcome::Failed(None), events);
            }
            return Ok(());
        }
        let acknowledged = out.acknowledged;
        if octets <= acknowledged && out.length > 0 {
            return Err(AnswerFault::Repeated {
                octets,
                acknowledged,
            });
        }
        // RFC 7242 5.3: only full segments can be acknowledged.
        if octets < out.first_segment {
            return Err(AnswerFault::NoBoundary {
                octets,
                first_segment: out.first_segment,
            });
        }
        self.queue.acknowledge(now, sequence, octets, events);
        Ok(())
    }

    /// The peer refused the bundle that it answers next.
    pub(super) fn handle_refusal(
        &mut self,
        reason: RefuseReason,
        events: &mut Events,
    ) -> Result<(), AnswerFault> {
        if self.agreed.answering != Answering::Refusals {
            return Err(AnswerFault::NotNegotiated);
        }
        // RFC 7242 5.4: segments that crossed the refusal are refused, too.
        if self.repeats.expected > 0 {
            self.repeats.expected -= 1;
            self.repeats.seen = self.repeats.seen.saturating_add(1);
            return Ok(());
        }
        let sequence = self.queue.first();
        let under_way = self.queue.under_way(sequence);
        let Some((_, _, out)) = under_way.filter(|(_, _, out)| out.own.is_answerable()) else {
            return Err(AnswerFault::NotUnderWay);
        };
        let unanswered = out.own.segments.saturating_sub(out.own.answered);
        out.own.answered = out.own.segments;
        self.repeats = Repeats {
            expected: match planted(Mutant::OlderRefusalsUncounted) {
                true => 0,
                false => unanswered.saturating_sub(1),
            },
            seen: 0,
        };
        self.queue.refuse(sequence, reason, events);
        Ok(())
    }

    /// Write the rest of the segment begun, as far as there is room.
    pub(super) fn write_segment_rest(&mut self, writer: &mut Writer<'_>, events: &mut Events) {
        let left = self.queue.write_segment_rest(writer, events);
        if let Some(sequence) = left.filter(|_| self.agreed.answering == Answering::Nothing) {
            // RFC 7242 5.3: nobody will say that it came.
            self.queue.finish(sequence, Outcome::Transmitted, events);
        }
    }

    /// Begin the next segment, if there is one to send; false when there is none.
    pub(super) fn write_segment_head(&mut self, now: Instant, writer: &mut Writer<'_>) -> bool {
        let Some((segment, own)) = self.queue.begin_segment(now, |own| own.held) else {
            return false;
        };
        own.segments = own.segments.saturating_add(1);
        if let Some(octets) = segment.total.filter(|_| self.agreed.lengths) {
            // RFC 7242 5.5: right before the bundle's first segment; its only one says it itself.
            writer.message(&Message::Length { octets });
        }
        writer.message(&Message::DataSegment(DataSegment {
            flags: if segment.is_first { START } else { 0 } | if segment.is_last { END } else { 0 },
            length: segment.octets,
        }));
        true
    }
}

impl Own {
    /// A segment of it has begun to leave and has no answer.
    const fn is_answerable(&self) -> bool {
        self.answered < self.segments
    }
}
