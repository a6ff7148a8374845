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
use crate::tcpcl::order::TransferOrder;
use crate::tcpcl::pacing::SegmentLength;
use crate::tcpcl::supply::{Supplies, Supply};
use crate::tcpcl::writer::Writer;

/// Finished transfers that may stay in the queue behind one that the peer never answers. RFC 9174
/// asks for no order of acknowledgments, so this is generous; each takes about 200 octets.
const MAX_FINISHED_BEHIND: usize = 65_536;

/// Outgoing transfers, from `Transmit` to the peer's last acknowledgment or refusal.
#[derive(Debug)]
pub(super) struct TransfersOut {
    order: TransferOrder<TransferOut>,
    /// Sequence number of the transfer that is being sent or is to be sent next.
    sending: u64,
    /// The octets to be sent of that and of those that follow it.
    supplies: Supplies,
    /// Octets of the segment begun that have not been given out.
    segment_remaining: u64,
    /// Transfers in `order` that are not finished.
    open: usize,
    /// Octets of those that have not begun to leave.
    queued_octets: u64,
    /// The transfer refused last: the peer may refuse it again.
    refused_last: Option<TransferId>,
    segment_length: SegmentLength,
    /// Largest transfer that the peer takes, octets; `None` before it has said so.
    transfer_mru: Option<u64>,
    peer_keeps: Keeping,
    reading: Reading,
}

/// The octets that both sides keep of transfers that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    Nothing,
    /// The octets that they acknowledged.
    Prefixes,
}

#[derive(Debug)]
struct TransferOut {
    length: u64,
    /// Octets in the segments given out, the one begun included.
    sent: u64,
    /// Octets in the first segment.
    first_segment: u64,
    acknowledged: u64,
    phase: Phase,
    /// The peer refused while a segment was being given out.
    refused: Option<RefuseReason>,
    /// The peer is told that nothing of it is verified.
    unverified: bool,
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
    /// The node has been told that the transfer failed.
    const fn is_given_up(self) -> bool {
        matches!(self, Self::Stopping | Self::Stopped)
    }
}

/// The consequence for the session of cancelling a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    /// Nothing.
    Quietly,
    /// All of the transfer had left: the session must end.
    TooLate,
}

impl TransfersOut {
    /// Segments have so many octets at most.
    pub(super) const fn new(segment_length: u64, reading: Reading) -> Self {
        Self {
            order: TransferOrder::new(),
            sending: 0,
            supplies: Supplies::new(),
            segment_remaining: 0,
            open: 0,
            queued_octets: 0,
            refused_last: None,
            segment_length: SegmentLength::new(segment_length),
            transfer_mru: None,
            peer_keeps: Keeping::Nothing,
            reading,
        }
    }

    /// No transfer is queued, being sent or unanswered.
    pub(super) const fn is_idle(&self) -> bool {
        self.open == 0
    }

    /// Octets of transfers that have not begun to leave.
    pub(super) const fn queued_octets(&self) -> u64 {
        self.queued_octets
    }

    /// A segment has begun to leave and is not complete.
    pub(super) const fn is_inside_segment(&self) -> bool {
        self.segment_remaining > 0
    }

    /// The peer's limits are known (RFC 9174 4.7).
    pub(super) fn negotiated(
        &mut self,
        (segment_mru, transfer_mru): (u64, u64),
        peer_keeps: Keeping,
        events: &mut Events,
    ) {
        self.peer_keeps = peer_keeps;
        self.segment_length.limit(segment_mru);
        if planted(Mutant::SegmentTooLong) {
            self.segment_length.exceed();
        }
        self.transfer_mru = Some(transfer_mru);
        for sequence in self.order.first()..self.order.next() {
            if self
                .order
                .at(sequence)
                .is_some_and(|(_, out)| out.length > transfer_mru && out.phase != Phase::Finished)
            {
                self.finish(
                    sequence,
                    Outcome::Failed(Some(RefuseReason::NoResources)),
                    events,
                );
            }
        }
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
        let pushed = self.order.push(
            transfer,
            TransferOut {
                length,
                sent: 0,
                first_segment: 0,
                acknowledged: 0,
                phase: Phase::Queued,
                refused: None,
                unverified: false,
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

    /// Nothing of a transfer is verified.
    pub(super) fn unverified(&mut self, transfer: TransferId) {
        if let Some(out) = self.order.get(transfer) {
            out.unverified = self.peer_keeps == Keeping::Prefixes;
        }
    }

    /// The next octets of a transfer. Those of a transfer that is over are dropped: its end and the
    /// node's supply may cross.
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
        // All of a transfer that has wholly left was supplied before.
        if let Some(supply) = self.supplies.of(sequence, self.sending) {
            supply.push(octets);
            assert!(
                supply.total() <= length,
                "a node supplies no more octets than it said the transfer has"
            );
        }
    }

    /// The node gives up a transfer.
    pub(super) fn cancel(&mut self, transfer: TransferId, events: &mut Events) -> Cancelled {
        let Some(sequence) = self.order.sequence(transfer) else {
            return Cancelled::Quietly;
        };
        match self.order.at(sequence).map(|(_, out)| out.phase) {
            Some(Phase::Queued) => {
                self.finish(sequence, Outcome::Failed(None), events);
                Cancelled::Quietly
            }
            Some(Phase::Sending) => {
                self.stop(sequence, events);
                Cancelled::Quietly
            }
            Some(Phase::Sent) => Cancelled::TooLate,
            Some(Phase::Stopping | Phase::Stopped | Phase::Finished) | None => Cancelled::Quietly,
        }
    }

    /// RFC 9174 5.2.5.1: a transfer shorter than announced is invalid, and the peer refuses it.
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
        // RFC 9174 6.1: the segment begun is sent to its end; what it carries does not matter any more.
        if let Some(supply) = self.supplies.of(sequence, self.sending) {
            supply.blank(remaining);
        }
        events.push(LinkEvent::Failed {
            transfer,
            refused: None,
            acknowledged: out.acknowledged,
        });
    }

    /// The session is ending: no queued transfer will begin (RFC 9174 6.1).
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

    /// The session is over: every transfer has failed, and nothing of one is given out any more.
    pub(super) fn close(&mut self, events: &mut Events) {
        self.segment_remaining = 0;
        for sequence in self.order.first()..self.order.next() {
            self.finish(sequence, Outcome::Failed(None), events);
        }
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
        let id = TransferId(transfer);
        let remaining = self.segment_remaining;
        let sending = self.sending;
        let Some(sequence) = self.order.sequence(id) else {
            return Err(AnswerFault::NotUnderWay(transfer));
        };
        let Some((_, out)) = self.order.at(sequence) else {
            return Err(AnswerFault::NotUnderWay(transfer));
        };
        if matches!(out.phase, Phase::Queued | Phase::Finished) {
            return Err(AnswerFault::NotUnderWay(transfer));
        }
        let sent = if sequence == sending {
            out.sent.saturating_sub(remaining)
        } else {
            out.sent
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
                self.finish(sequence, Outcome::Failed(None), events);
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
        let more = octets.saturating_sub(out.acknowledged);
        out.acknowledged = octets;
        self.segment_length.acknowledge(now, more);
        if octets == out.length || (planted(Mutant::AcknowledgedIsSent) && out.phase == Phase::Sent)
        {
            self.finish(sequence, Outcome::Transmitted, events);
        } else {
            events.push(LinkEvent::Acknowledged {
                transfer: id,
                octets,
            });
        }
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
        let inside_segment = self.is_inside_segment();
        let sending = self.sending;
        let under_way = match self.order.sequence(id) {
            Some(sequence) => self.order.at(sequence).map(|(_, out)| (sequence, out)),
            None => None,
        };
        let Some((sequence, out)) =
            under_way.filter(|(_, out)| !matches!(out.phase, Phase::Queued | Phase::Finished))
        else {
            // RFC 9174 5.2.4: segments that crossed the refusal are refused again.
            return if self.refused_last == Some(id) {
                Ok(())
            } else {
                Err(AnswerFault::NotUnderWay(transfer))
            };
        };
        self.refused_last = Some(id);
        if inside_segment && sequence == sending {
            // RFC 9174 5.2.4: the segment begun is sent to its end; only then is the transfer over.
            out.refused = Some(reason);
            return Ok(());
        }
        self.finish(sequence, Outcome::refused(reason), events);
        self.check_order()
    }

    fn check_order(&mut self) -> Result<(), AnswerFault> {
        let finished = self.order.len().saturating_sub(self.open);
        match self.order.front() {
            Some((transfer, _)) if finished > MAX_FINISHED_BEHIND => {
                Err(AnswerFault::Exhausted(transfer.0))
            }
            _ => Ok(()),
        }
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
        if let Some(reason) = out.refused {
            self.pass_on();
            self.finish(sequence, Outcome::refused(reason), events);
        } else if matches!(out.phase, Phase::Sent | Phase::Stopped) {
            self.pass_on();
        }
    }

    /// Go on to the transfer that follows.
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
        let Some((transfer, out)) = self.order.at(self.sending) else {
            return false;
        };
        if out.phase == Phase::Stopping {
            out.phase = Phase::Stopped;
            writer.message(&Message::XferSegment(XferSegment {
                flags: END,
                transfer: transfer.0,
                extensions: TransferExtensions::default(),
                data_length: 0,
            }));
            return true;
        }
        // The octets that are there go out now: a segment does not wait for being full.
        let supply = self.supplies.of(self.sending, self.sending);
        let supplied = supply.map_or(0, |supply| supply.total());
        let left = supplied.saturating_sub(out.sent);
        let data_length = left.min(self.segment_length.octets());
        if data_length == 0 && out.length > 0 {
            return false;
        }
        let start = out.phase == Phase::Queued;
        let end = out.sent.saturating_add(data_length) == out.length;
        // RFC 9174 5.2.5.1: the length is said unless the only segment says it.
        let length = if start && !end {
            Some(out.length - u64::from(planted(Mutant::LengthWithoutTrailer)))
        } else {
            None
        };
        let flags = if start { START } else { 0 } | if end { END } else { 0 };
        writer.message(&Message::XferSegment(XferSegment {
            flags,
            transfer: transfer.0,
            extensions: TransferExtensions {
                length,
                unverified: start && !end && out.unverified,
                fault: None,
            },
            data_length,
        }));
        if start {
            out.first_segment = data_length;
            self.queued_octets = self.queued_octets.saturating_sub(out.length);
        }
        self.segment_length.begin(now);
        out.sent = out.sent.saturating_add(data_length);
        out.phase = if end { Phase::Sent } else { Phase::Sending };
        self.segment_remaining = data_length;
        true
    }
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Transmitted,
    Failed(Option<RefuseReason>),
}

impl Outcome {
    /// RFC 9174 table 6: "Completed" means that the peer has the whole bundle.
    fn refused(reason: RefuseReason) -> Self {
        match reason {
            RefuseReason::Completed => Self::Transmitted,
            RefuseReason::NoResources if planted(Mutant::RefusedIsTaken) => Self::Transmitted,
            reason => Self::Failed(Some(reason)),
        }
    }
}
