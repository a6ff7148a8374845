//! Transfers to the peer: the state that every version of the protocol keeps of them.

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::Piece;

use super::event::Events;
use super::order::TransferOrder;
use super::pacing::SegmentLength;
use super::supply::{Supplies, Supply};
use super::writer::Writer;
use crate::stream::{LinkEvent, RefuseReason, TransferId};

/// Outgoing transfers, from `Transmit` to the end of the last of them. `T` is what a version remembers of a transfer beside that.
#[derive(Debug)]
pub(crate) struct Outgoing<T> {
    order: TransferOrder<Transfer<T>>,
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
    segment_length: SegmentLength,
}

/// One transfer.
#[derive(Debug)]
pub(crate) struct Transfer<T> {
    pub(crate) length: u64,
    /// Octets in the segments given out, the one begun included.
    pub(crate) sent: u64,
    /// Octets in the first segment.
    pub(crate) first_segment: u64,
    pub(crate) acknowledged: u64,
    pub(crate) phase: Phase,
    /// The peer refused while a segment was being given out.
    refused: Option<RefuseReason>,
    pub(crate) own: T,
}

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
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
    pub(crate) const fn is_given_up(self) -> bool {
        matches!(self, Self::Stopping | Self::Stopped)
    }
}

/// The consequence for the session of cancelling a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// Nothing.
    Quietly,
    /// The octets that left cannot be taken back: the session must end.
    NeedsEnd,
}

/// The end of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Transmitted,
    /// The transfer has left, and nobody will say that it came.
    Sent,
    /// The peer keeps it, and will say later whether it came.
    Kept,
    Failed(Option<RefuseReason>),
}

impl Outcome {
    /// RFC 9174 table 6, RFC 7242 table 3: "Completed" means that the peer has the whole bundle.
    fn refused(reason: RefuseReason) -> Self {
        match reason {
            RefuseReason::Completed => Self::Transmitted,
            RefuseReason::NoResources if planted(Mutant::RefusedIsTaken) => Self::Transmitted,
            reason => Self::Failed(Some(reason)),
        }
    }
}

/// A segment that begins to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) transfer: TransferId,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    /// Octets of data.
    pub(crate) octets: u64,
    /// Octets of the whole transfer, where this is the first of several segments.
    pub(crate) total: Option<u64>,
}

impl<T> Outgoing<T> {
    /// Segments have so many octets at most.
    pub(crate) const fn new(segment_length: u64) -> Self {
        Self {
            order: TransferOrder::new(),
            sending: 0,
            supplies: Supplies::new(),
            segment_remaining: 0,
            open: 0,
            queued_octets: 0,
            segment_length: SegmentLength::new(segment_length),
        }
    }

    /// Segments have as many octets as are there: nobody answers them.
    pub(crate) const fn unanswered() -> Self {
        let mut all = Self::new(0);
        all.segment_length = SegmentLength::unbounded();
        all
    }

    /// No transfer is queued, being sent or unanswered.
    pub(crate) const fn is_idle(&self) -> bool {
        self.open == 0
    }

    /// Octets of transfers that have not begun to leave.
    pub(crate) const fn queued_octets(&self) -> u64 {
        self.queued_octets
    }

    /// Octets of the transfer that has begun to leave which have not been given out, without the heads of its segments.
    pub(crate) fn leaving_octets(&self) -> u64 {
        let out = self.order.peek(self.sending);
        let later = out.filter(|out| out.phase == Phase::Sending);
        let later = later.map_or(0, |out| out.length.saturating_sub(out.sent));
        self.segment_remaining.saturating_add(later)
    }

    /// A segment has begun to leave and is not complete.
    pub(crate) const fn is_inside_segment(&self) -> bool {
        self.segment_remaining > 0
    }

    /// Finished transfers that stay behind one that is not, and that one.
    pub(crate) fn finished_behind(&mut self) -> (usize, Option<TransferId>) {
        let finished = self.order.len().saturating_sub(self.open);
        (finished, self.order.front().map(|(transfer, _)| transfer))
    }

    /// The peer takes segments of so many octets.
    pub(crate) fn limit_segments(&mut self, octets: u64) {
        self.segment_length.limit(octets);
        if planted(Mutant::SegmentTooLong) {
            self.segment_length.exceed();
        }
    }

    /// Queue a transfer.
    pub(crate) fn push(&mut self, transfer: TransferId, length: u64, own: T) {
        let pushed = self.order.push(
            transfer,
            Transfer {
                length,
                sent: 0,
                first_segment: 0,
                acknowledged: 0,
                phase: Phase::Queued,
                refused: None,
                own,
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

    /// The part of a transfer that a version alone knows, while the transfer is not over.
    pub(crate) fn own(&mut self, transfer: TransferId) -> Option<&mut T> {
        self.order.get(transfer).map(|out| &mut out.own)
    }

    /// The next octets of a transfer. Those of a transfer that is over are dropped: its end and the
    /// node's supply may cross.
    pub(crate) fn supply(&mut self, transfer: TransferId, octets: Piece) {
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

    /// The node gives up a transfer. The peer notices an early end where `ends_early`.
    pub(crate) fn cancel(
        &mut self,
        transfer: TransferId,
        ends_early: bool,
        events: &mut Events,
    ) -> Cancelled {
        let Some(sequence) = self.order.sequence(transfer) else {
            return Cancelled::Quietly;
        };
        match self.order.at(sequence).map(|(_, out)| out.phase) {
            Some(Phase::Queued) => {
                self.finish(sequence, Outcome::Failed(None), events);
                Cancelled::Quietly
            }
            Some(Phase::Sending) if ends_early => {
                self.stop(sequence, events);
                Cancelled::Quietly
            }
            Some(Phase::Sending | Phase::Sent) => Cancelled::NeedsEnd,
            Some(Phase::Stopping | Phase::Stopped | Phase::Finished) | None => Cancelled::Quietly,
        }
    }

    /// A transfer that is shorter than announced is no bundle, and the peer refuses it (RFC 9174 5.2.5.1, RFC 7242 5.5).
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
        // RFC 9174 6.1, RFC 7242 6.1: the segment begun is sent to its end; what it carries does not matter any more.
        if let Some(supply) = self.supplies.of(sequence, self.sending) {
            supply.blank(remaining);
        }
        events.push(LinkEvent::Failed {
            transfer,
            refused: None,
            acknowledged: out.acknowledged,
        });
    }

    /// The session is ending: no queued transfer will begin.
    pub(crate) fn end(&mut self, events: &mut Events) {
        self.fail_each(None, events, |out| out.phase == Phase::Queued);
    }

    /// The session is over: every transfer has failed, and nothing of one is given out any more.
    pub(crate) fn close(&mut self, events: &mut Events) {
        self.segment_remaining = 0;
        self.fail_each(None, events, |_| true);
    }

    /// Fails these transfers.
    pub(crate) fn fail_each(
        &mut self,
        reason: Option<RefuseReason>,
        events: &mut Events,
        fails: impl Fn(&Transfer<T>) -> bool,
    ) {
        for sequence in self.order.first()..self.order.next() {
            if self.order.at(sequence).is_some_and(|(_, out)| fails(out)) {
                self.finish(sequence, Outcome::Failed(reason), events);
            }
        }
    }

    /// The sequence number of a transfer.
    pub(crate) fn sequence(&self, transfer: TransferId) -> Option<u64> {
        self.order.sequence(transfer)
    }

    /// The sequence number of the oldest transfer.
    pub(crate) const fn first(&self) -> u64 {
        self.order.first()
    }

    /// True for a transfer of which nothing has begun to leave.
    pub(crate) fn is_queued(&mut self, sequence: u64) -> bool {
        let out = self.order.at(sequence);
        out.is_some_and(|(_, out)| out.phase == Phase::Queued)
    }

    /// A transfer of which a segment has begun to leave, and that is not over, with the octets of it that have left.
    pub(crate) fn under_way(
        &mut self,
        sequence: u64,
    ) -> Option<(TransferId, u64, &mut Transfer<T>)> {
        let inside = match sequence == self.sending {
            true => self.segment_remaining,
            false => 0,
        };
        let (transfer, out) = self.order.at(sequence)?;
        let is_under_way = !matches!(out.phase, Phase::Queued | Phase::Finished);
        is_under_way.then(|| (transfer, out.sent.saturating_sub(inside), out))
    }

    /// The peer has the first octets of a transfer.
    pub(crate) fn acknowledge(
        &mut self,
        now: Instant,
        sequence: u64,
        octets: u64,
        events: &mut Events,
    ) {
        let Some((transfer, out)) = self.order.at(sequence) else {
            return;
        };
        let more = octets.saturating_sub(out.acknowledged);
        out.acknowledged = octets;
        self.segment_length.acknowledge(now, more);
        if octets == out.length || (planted(Mutant::AcknowledgedIsSent) && out.phase == Phase::Sent)
        {
            self.finish(sequence, Outcome::Transmitted, events);
        } else {
            events.push(LinkEvent::Acknowledged { transfer, octets });
        }
    }

    /// The peer refused a transfer.
    pub(crate) fn refuse(&mut self, sequence: u64, reason: RefuseReason, events: &mut Events) {
        if self.is_inside_segment()
            && sequence == self.sending
            && let Some((_, out)) = self.order.at(sequence)
        {
            // RFC 9174 5.2.4, RFC 7242 5.4: the segment begun is sent to its end; only then is the transfer over.
            out.refused = Some(reason);
        } else {
            self.finish(sequence, Outcome::refused(reason), events);
        }
    }

    /// A transfer is over.
    pub(crate) fn finish(&mut self, sequence: u64, outcome: Outcome, events: &mut Events) {
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
                Outcome::Sent => LinkEvent::Sent { transfer },
                Outcome::Kept => LinkEvent::Kept { transfer },
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

    /// Write the rest of the segment begun, as far as there is room. The sequence number of its transfer where that was the last of one that
    /// the peer may still answer.
    pub(crate) fn write_segment_rest(
        &mut self,
        writer: &mut Writer<'_>,
        events: &mut Events,
    ) -> Option<u64> {
        let sequence = self.sending;
        let (_, out) = self.order.at(sequence)?;
        let supply = self.supplies.of(sequence, sequence)?;
        while self.segment_remaining > 0 && writer.room() > 0 {
            let piece = supply.take(self.segment_remaining.min(writer.room()));
            self.segment_remaining = self.segment_remaining.saturating_sub(piece.length());
            writer.piece(piece);
        }
        if self.segment_remaining > 0 {
            return None;
        }
        let has_left = matches!(out.phase, Phase::Sent | Phase::Stopped);
        if let Some(reason) = out.refused {
            self.pass_on();
            self.finish(sequence, Outcome::refused(reason), events);
            return None;
        }
        has_left.then(|| {
            self.pass_on();
            sequence
        })
    }

    /// Go on to the transfer that follows.
    fn pass_on(&mut self) {
        self.sending = self.sending.saturating_add(1);
        self.supplies.pop();
    }

    /// Begin the next segment, if there is one to send. Of a transfer that is `held` none begins before all of it is there.
    pub(crate) fn begin_segment(
        &mut self,
        now: Instant,
        held: impl FnOnce(&T) -> bool,
    ) -> Option<(Segment, &mut T)> {
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
        let (transfer, out) = self.order.at(self.sending)?;
        if out.phase == Phase::Stopping {
            out.phase = Phase::Stopped;
            let last = Segment {
                transfer,
                is_first: false,
                is_last: true,
                octets: 0,
                total: None,
            };
            return Some((last, &mut out.own));
        }
        // The octets that are there go out now: a segment does not wait for being full.
        let supply = self.supplies.of(self.sending, self.sending);
        let supplied = supply.map_or(0, |supply| supply.total());
        let left = supplied.saturating_sub(out.sent);
        let octets = left.min(self.segment_length.octets());
        if (octets == 0 && out.length > 0) || (supplied < out.length && held(&out.own)) {
            return None;
        }
        let is_first = out.phase == Phase::Queued;
        let is_last = out.sent.saturating_add(octets) == out.length;
        if is_first {
            out.first_segment = octets;
            self.queued_octets = self.queued_octets.saturating_sub(out.length);
        }
        self.segment_length.begin(now);
        out.sent = out.sent.saturating_add(octets);
        out.phase = if is_last { Phase::Sent } else { Phase::Sending };
        self.segment_remaining = octets;
        let segment = Segment {
            transfer,
            is_first,
            is_last,
            octets,
            // RFC 9174 5.2.5.1, RFC 7242 5.5: the only segment of a transfer says its length itself.
            total: (is_first && !is_last).then_some(out.length),
        };
        Some((segment, &mut out.own))
    }
}
