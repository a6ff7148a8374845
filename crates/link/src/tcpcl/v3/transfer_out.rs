//! Bundles to the peer: RFC 7242 5.2 to 5.5.

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::Piece;

use super::fault::AnswerFault;
use super::message::{DataSegment, END, Message, START};
use super::negotiation::Agreed;
use super::transfer_in::Answering;
use crate::stream::{LinkEvent, RefuseReason, TransferId};
use crate::tcpcl::event::Events;
use crate::tcpcl::order::TransferOrder;
use crate::tcpcl::pacing::SegmentLength;
use crate::tcpcl::supply::{Supplies, Supply};
use crate::tcpcl::writer::Writer;

/// Outgoing bundles, from `Transmit` to the peer's last acknowledgment or refusal, or to their last octet where none was
/// agreed on.
#[derive(Debug)]
pub(super) struct TransfersOut {
    order: TransferOrder<TransferOut>,
    /// Sequence number of the bundle that is being sent or is to be sent next.
    sending: u64,
    /// The octets that are there to be sent of that and of those that follow it.
    supplies: Supplies,
    /// Octets of the segment begun that have not been given out.
    segment_remaining: u64,
    /// Bundles in `order` that are not finished.
    open: usize,
    /// Octets of those that have not begun to leave.
    queued_octets: u64,
    repeats: Repeats,
    segment_length: SegmentLength,
    agreed: Agreed,
}

/// Refusals that are to come of further segments of the bundle refused last: the peer gives each segment one answer.
#[derive(Clone, Copy, Debug, Default)]
struct Repeats {
    expected: u64,
    seen: u64,
}

#[derive(Debug)]
struct TransferOut {
    length: u64,
    /// Octets in the segments given out, the one begun included.
    sent: u64,
    /// Octets in the first segment.
    first_segment: u64,
    acknowledged: u64,
    /// Segments given out, the one begun included.
    segments: u64,
    /// Segments that the peer has answered.
    answered: u64,
    phase: Phase,
    /// The peer refused while a segment was being given out.
    refused: Option<RefuseReason>,
    /// Nothing of it leaves before all of it is there.
    held: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Queued,
    Sending,
    /// All segments have begun to leave.
    Sent,
    /// Given up: its end comes before its announced length.
    Stopping,
    /// Given up, and ended: the peer's refusal is to come.
    Stopped,
    Finished,
}

impl Phase {
    /// The node has been told that the bundle failed.
    const fn is_given_up(self) -> bool {
        matches!(self, Self::Stopping | Self::Stopped)
    }
}

/// The consequence for the session of cancelling a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    /// Nothing.
    Quietly,
    /// The peer would take what left for a bundle: the session must end.
    NeedsEnd,
}

impl TransfersOut {
    /// Segments have so many octets at most.
    pub(super) const fn new(segment_length: u64) -> Self {
        Self {
            order: TransferOrder::new(),
            sending: 0,
            supplies: Supplies::new(),
            segment_remaining: 0,
            open: 0,
            queued_octets: 0,
            repeats: Repeats {
                expected: 0,
                seen: 0,
            },
            segment_length: SegmentLength::new(segment_length),
            agreed: Agreed::NOTHING,
        }
    }

    /// Both sides have said what they offer.
    pub(super) const fn negotiated(&mut self, agreed: Agreed) {
        self.agreed = agreed;
    }

    /// No bundle is queued, being sent or unanswered.
    pub(super) const fn is_idle(&self) -> bool {
        self.open == 0
    }

    /// Octets of bundles that have not begun to leave.
    pub(super) const fn queued_octets(&self) -> u64 {
        self.queued_octets
    }

    /// A segment has begun to leave and is not complete.
    pub(super) const fn is_inside_segment(&self) -> bool {
        self.segment_remaining > 0
    }

    /// Queue a bundle.
    pub(super) fn transmit(&mut self, transfer: TransferId, length: u64) {
        let pushed = self.order.push(
            transfer,
            TransferOut {
                length,
                sent: 0,
                first_segment: 0,
                acknowledged: 0,
                segments: 0,
                answered: 0,
                phase: Phase::Queued,
                refused: None,
                held: false,
            },
        );
        self.supplies.push(Supply::default());
        assert!(
            pushed.is_some(),
            "a node numbers each transfer of a session once"
        );
        self.open = self.open.saturating_add(1);
        self.queued_octets = self.queued_octets.saturating_add(length);
    }

    /// Nothing of a bundle is verified. A peer that keeps parts cannot be told, so none goes there before the whole is here.
    pub(super) fn unverified(&mut self, transfer: TransferId) {
        if let Some(out) = self.order.get(transfer) {
            out.held = self.agreed.keeps_prefixes;
        }
    }

    /// The next octets of a bundle. Those of one that is over are dropped: its end and the node's supply may cross.
    pub(super) fn supply(&mut self, transfer: TransferId, octets: Piece) {
        let Some(sequence) = self.order.sequence(transfer) else {
            return;
        };
        let Some((_, out)) = self.order.at(sequence) else {
            return;
        };
        if out.phase == Phase::Finished || out.phase.is_given_up() {
            return;
        }
        let length = out.length;
        // All of a bundle that has wholly left was supplied before.
        if let Some(supply) = self.supplies.of(sequence, self.sending) {
            supply.push(octets);
            assert!(
                supply.total() <= length,
                "a node supplies no more octets than it said the transfer has"
            );
        }
    }

    /// The node gives up a bundle.
    pub(super) fn cancel(&mut self, transfer: TransferId, events: &mut Events) -> Cancelled {
        let Some(sequence) = self.order.sequence(transfer) else {
            return Cancelled::Quietly;
        };
        match self.order.at(sequence).map(|(_, out)| out.phase) {
            Some(Phase::Queued) => {
                self.finish(sequence, Outcome::Failed(None), events);
                Cancelled::Quietly
            }
            // A peer that was told the length sees that the end comes early, and can say so.
            Some(Phase::Sending)
                if self.agreed.lengths && self.agreed.answering == Answering::Refusals =>
            {
                self.stop(sequence, events);
                Cancelled::Quietly
            }
            Some(Phase::Sending | Phase::Sent) => Cancelled::NeedsEnd,
            Some(Phase::Stopping | Phase::Stopped | Phase::Finished) | None => Cancelled::Quietly,
        }
    }

    /// A bundle that is shorter than announced is no bundle, and the peer refuses it.
    fn stop(&mut self, sequence: u64, events: &mut Events) {
        let remaining = if sequence == self.sending {
            self.segment_remaining
        } else {
            0
        };
        let Some((transfer, out)) = self.order.at(sequence) else {
            return;
        };
        out.phase = Phase::Stopping;
        // RFC 7242 6.1: the segment begun is sent to its end; what it carries does not matter any more.
        if let Some(supply) = self.supplies.of(sequence, self.sending) {
            supply.blank(remaining);
        }
        events.push(LinkEvent::Failed {
            transfer,
            refused: None,
            acknowledged: out.acknowledged,
        });
    }

    /// The session is ending: no queued bundle will begin.
    pub(super) fn end(&mut self, events: &mut Events) {
        for sequence in self.sending..self.order.next() {
            if self
                .order
                .at(sequence)
                .is_some_and(|(_, out)| out.phase == Phase::Queued)
            {
                self.finish(sequence, Outcome::Failed(None), events);
            }
        }
    }

    /// The session is over: every bundle has failed, and nothing of one is given out any more.
    pub(super) fn close(&mut self, events: &mut Events) {
        self.segment_remaining = 0;
        for sequence in self.order.first()..self.order.next() {
            self.finish(sequence, Outcome::Failed(None), events);
        }
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
        let (sequence, remaining, sending) =
            (self.order.first(), self.segment_remaining, self.sending);
        let under_way = self.order.front();
        let Some((transfer, out)) = under_way.filter(|(_, out)| out.is_answerable()) else {
            return Err(AnswerFault::NotUnderWay);
        };
        let sent = if sequence == sending {
            out.sent.saturating_sub(remaining)
        } else {
            out.sent
        };
        if octets > sent {
            return Err(AnswerFault::Overshoot { octets, sent });
        }
        out.answered = out.answered.saturating_add(1);
        if out.phase.is_given_up() {
            // The node knows how it ended. A peer that acknowledges the end did not notice.
            if out.phase == Phase::Stopped && out.answered == out.segments {
                self.finish(sequence, Outcome::Failed(None), events);
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
        let more = octets.saturating_sub(acknowledged);
        out.acknowledged = octets;
        self.segment_length.acknowledge(now, more);
        if octets == out.length {
            self.finish(sequence, Outcome::Transmitted, events);
        } else {
            events.push(LinkEvent::Acknowledged { transfer, octets });
        }
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
        let (sequence, inside_segment) = (self.order.first(), self.is_inside_segment());
        let under_way = self.order.front();
        let Some((_, out)) = under_way.filter(|(_, out)| out.is_answerable()) else {
            return Err(AnswerFault::NotUnderWay);
        };
        let unanswered = out.segments.saturating_sub(out.answered);
        out.answered = out.segments;
        self.repeats = Repeats {
            expected: match planted(Mutant::OlderRefusalsUncounted) {
                true => 0,
                false => unanswered.saturating_sub(1),
            },
            seen: 0,
        };
        if inside_segment && sequence == self.sending {
            // RFC 7242 5.4: the segment begun is sent to its end; only then is the bundle over.
            out.refused = Some(reason);
            return Ok(());
        }
        self.finish(sequence, Outcome::refused(reason), events);
        Ok(())
    }

    fn finish(&mut self, sequence: u64, outcome: Outcome, events: &mut Events) {
        let Some((transfer, out)) = self.order.at(sequence) else {
            return;
        };
        if out.phase == Phase::Finished {
            return;
        }
        let is_known = out.phase.is_given_up();
        if out.phase == Phase::Queued {
            self.queued_octets = self.queued_octets.saturating_sub(out.length);
        }
        out.phase = Phase::Finished;
        if let Some(supply) = self.supplies.of(sequence, self.sending) {
            supply.clear();
        }
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.segment_length.rest();
        }
        if !is_known {
            events.push(match outcome {
                Outcome::Transmitted => LinkEvent::Transmitted { transfer },
                Outcome::Failed(refused) => LinkEvent::Failed {
                    transfer,
                    refused,
                    acknowledged: out.acknowledged,
                },
            });
        }
        while self
            .order
            .front()
            .is_some_and(|(_, out)| out.phase == Phase::Finished)
        {
            self.order.pop_front();
        }
    }

    /// Write the rest of the segment begun, as far as there is room.
    pub(super) fn write_segment_rest(&mut self, writer: &mut Writer<'_>, events: &mut Events) {
        let sequence = self.sending;
        let Some((_, out)) = self.order.at(sequence) else {
            return;
        };
        let Some(supply) = self.supplies.of(sequence, sequence) else {
            return;
        };
        while self.segment_remaining > 0 && writer.room() > 0 {
            let piece = supply.take(self.segment_remaining.min(writer.room()));
            self.segment_remaining = self.segment_remaining.saturating_sub(piece.length());
            writer.piece(piece);
        }
        if self.segment_remaining > 0 {
            return;
        }
        let (refused, has_left) = (
            out.refused,
            matches!(out.phase, Phase::Sent | Phase::Stopped),
        );
        if refused.is_some() || has_left {
            self.pass_on();
        }
        if let Some(reason) = refused {
            self.finish(sequence, Outcome::refused(reason), events);
        } else if has_left && self.agreed.answering == Answering::Nothing {
            // RFC 7242 5.3: nobody will say that it came.
            self.finish(sequence, Outcome::Transmitted, events);
        }
    }

    /// Go on to the bundle that follows.
    fn pass_on(&mut self) {
        self.sending = self.sending.saturating_add(1);
        self.supplies.pop();
    }

    /// Begin the next segment, if there is one to send; false when there is none.
    pub(super) fn write_segment_head(&mut self, now: Instant, writer: &mut Writer<'_>) -> bool {
        let next = self.order.next();
        while self.sending < self.order.first()
            || (self.sending < next
                && self
                    .order
                    .at(self.sending)
                    .is_some_and(|(_, out)| out.phase == Phase::Finished))
        {
            self.pass_on();
        }
        let Some((_, out)) = self.order.at(self.sending) else {
            return false;
        };
        if out.phase == Phase::Stopping {
            out.phase = Phase::Stopped;
            out.segments = out.segments.saturating_add(1);
            writer.message(&Message::DataSegment(DataSegment {
                flags: END,
                length: 0,
            }));
            return true;
        }
        // The octets that are there go out now: a segment does not wait for being full.
        let supply = self.supplies.of(self.sending, self.sending);
        let supplied = supply.map_or(0, |supply| supply.total());
        let left = supplied.saturating_sub(out.sent);
        let length = left.min(self.segment_length.octets());
        if (length == 0 && out.length > 0) || (out.held && supplied < out.length) {
            return false;
        }
        let start = out.phase == Phase::Queued;
        let end = out.sent.saturating_add(length) == out.length;
        if start && !end && self.agreed.lengths {
            // RFC 7242 5.5: right before the bundle's first segment; its only one says it itself.
            writer.message(&Message::Length { octets: out.length });
        }
        let flags = if start { START } else { 0 } | if end { END } else { 0 };
        writer.message(&Message::DataSegment(DataSegment { flags, length }));
        if start {
            out.first_segment = length;
            self.queued_octets = self.queued_octets.saturating_sub(out.length);
        }
        self.segment_length.begin(now);
        out.sent = out.sent.saturating_add(length);
        out.segments = out.segments.saturating_add(1);
        out.phase = if end { Phase::Sent } else { Phase::Sending };
        self.segment_remaining = length;
        true
    }
}

impl TransferOut {
    /// A segment of it has begun to leave and has no answer.
    const fn is_answerable(&self) -> bool {
        !matches!(self.phase, Phase::Queued | Phase::Finished) && self.answered < self.segments
    }
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Transmitted,
    Failed(Option<RefuseReason>),
}

impl Outcome {
    /// RFC 7242 table 3: "the receiver now has the complete bundle".
    fn refused(reason: RefuseReason) -> Self {
        match reason {
            RefuseReason::Completed => Self::Transmitted,
            reason => Self::Failed(Some(reason)),
        }
    }
}
