//! Bundles from the peer: RFC 7242 5.2, 5.5.

use bytes::Bytes;

use super::answer::Answers;
use super::fault::SegmentFault;
use super::message::{DataSegment, END, START};
use crate::stream::{LinkEvent, RefuseReason, TransferId};
use crate::tcpcl::event::Events;
use crate::tcpcl::writer::Writer;

/// Incoming bundles, from their first segment to the last answer.
#[derive(Debug)]
pub(super) struct TransfersIn {
    answering: Answering,
    answers: Answers,
    current: Option<Current>,
    /// Octets of the next bundle, if the peer announced them.
    announced: Option<u64>,
    /// The number of the next bundle.
    next: u64,
    limits: Limits,
}

/// The terms that incoming bundles are held to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Largest bundle taken, octets.
    pub(super) transfer_mru: u64,
    /// Bundles and runs of segments that may await their answer.
    pub(super) awaiting: usize,
}

/// The answers that both sides agreed on (RFC 7242 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answering {
    /// None.
    Nothing,
    /// Segments are acknowledged.
    Acknowledgments,
    /// Segments are acknowledged or refused.
    Refusals,
}

/// The outcome of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The peer is told, or need not be.
    Done,
    /// The peer keeps its bundle only where the session ends before it is acknowledged.
    NeedsEnd,
}

/// The bundle whose segments are arriving.
#[derive(Debug)]
struct Current {
    transfer: TransferId,
    fate: Fate,
    /// Flags of the segment arriving.
    flags: u8,
    /// Octets of the whole bundle, if known.
    length: Option<u64>,
    /// Octets in its segments, the one arriving included.
    received: u64,
    /// Octets that have come.
    arrived: u64,
    /// Whether the node has been told of the bundle.
    begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Accepted,
    /// Its segments are refused, where that was agreed on.
    Dropped(RefuseReason),
    /// Its segments are acknowledged and not kept.
    Waived,
}

impl TransfersIn {
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            answering: Answering::Nothing,
            answers: Answers::new(),
            current: None,
            announced: None,
            next: 0,
            limits,
        }
    }

    /// Both sides have said what they offer.
    pub(super) const fn negotiated(&mut self, answering: Answering) {
        self.answering = answering;
    }

    /// No bundle awaits octets or an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.answers.is_empty() && (self.answering != Answering::Nothing || !self.is_arriving())
    }

    /// A bundle has begun to come, and is wanted.
    pub(super) fn is_arriving(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.fate == Fate::Accepted)
    }

    /// A bundle has begun to come that was not refused, so that no other may begin.
    fn must_go_on(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| !matches!(current.fate, Fate::Dropped(_)))
    }

    /// The number of the next bundle.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// All bundles before this one have come and been answered, as far as answers were agreed on.
    pub(super) fn are_over_before(&self, number: u64) -> bool {
        let current = self.current.as_ref();
        let arriving =
            current.is_some_and(|it| it.fate == Fate::Accepted && it.transfer.0 < number);
        !arriving && (self.answers.is_empty() || self.answers.are_given_before(TransferId(number)))
    }

    /// Bundles and runs of segments that await their answer.
    pub(super) fn awaiting(&self) -> usize {
        self.answers.len()
    }

    /// The peer says how long the next bundle is (RFC 7242 5.5).
    pub(super) fn handle_length(&mut self, octets: u64) -> Result<(), SegmentFault> {
        if self.must_go_on() || self.announced.is_some() {
            return Err(SegmentFault::MisplacedLength);
        }
        self.announced = Some(octets);
        Ok(())
    }

    /// A segment's head has arrived; its data follow by `handle_data`.
    pub(super) fn handle_segment(
        &mut self,
        segment: &DataSegment,
        events: &mut Events,
    ) -> Result<(), SegmentFault> {
        if segment.flags & START == 0 {
            self.continue_transfer(segment, events)?;
        } else {
            self.begin_transfer(segment)?;
        }
        if segment.length == 0 {
            self.handle_data(Bytes::new(), true, events);
        }
        Ok(())
    }

    fn begin_transfer(&mut self, segment: &DataSegment) -> Result<(), SegmentFault> {
        if self.must_go_on() {
            return Err(SegmentFault::Interleaved);
        }
        // RFC 7242 5.4: a refused bundle may be left off; the next one's beginning shows it.
        if let Some(refused) = self.current.take() {
            self.answers.stop(refused.transfer);
        }
        if self.awaiting() >= self.limits.awaiting {
            return Err(SegmentFault::Exhausted);
        }
        let announced = self.announced.take();
        let whole = segment.flags & END != 0;
        let length = announced.or(whole.then_some(segment.length));
        let refused = self.refusal_of(segment, 0, length)?;
        let transfer = TransferId(self.next);
        self.next = self.next.saturating_add(1);
        self.current = Some(Current {
            transfer,
            fate: refused.map_or(Fate::Accepted, Fate::Dropped),
            flags: segment.flags,
            length,
            received: segment.length,
            arrived: 0,
            begun: false,
        });
        if self.answering != Answering::Nothing {
            self.answers.begin(transfer, refused);
            self.answers.add_segment(transfer, segment, refused);
        }
        Ok(())
    }

    fn continue_transfer(
        &mut self,
        segment: &DataSegment,
        events: &mut Events,
    ) -> Result<(), SegmentFault> {
        if self.announced.is_some() {
            return Err(SegmentFault::MisplacedLength);
        }
        let Some(current) = &self.current else {
            return Err(SegmentFault::NotUnderWay);
        };
        let (transfer, length, before) = (current.transfer, current.length, current.received);
        let is_accepted = current.fate == Fate::Accepted;
        // The segments of a bundle that is refused await their answer behind those of bundles before it.
        if self.awaiting() >= self.limits.awaiting {
            return Err(SegmentFault::Exhausted);
        }
        if is_accepted && let Some(reason) = self.refusal_of(segment, before, length)? {
            self.abandon(transfer, reason, events);
        }
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        current.flags = segment.flags;
        current.received = current.received.saturating_add(segment.length);
        let refused = match current.fate {
            Fate::Dropped(reason) => Some(reason),
            Fate::Accepted | Fate::Waived => None,
        };
        if self.answering != Answering::Nothing {
            self.answers.add_segment(transfer, segment, refused);
        }
        Ok(())
    }

    /// Why a bundle of `length` octets, if that is known, cannot go on with this segment, `received` octets after its start.
    fn refusal_of(
        &self,
        segment: &DataSegment,
        received: u64,
        length: Option<u64>,
    ) -> Result<Option<RefuseReason>, SegmentFault> {
        let total = received.saturating_add(segment.length);
        let ends = segment.flags & END != 0;
        let reason = if length.is_some_and(|length| total > length || (ends && total != length)) {
            // RFC 7242 5.5: the announced length is the bundle's.
            RefuseReason::NotAcceptable
        } else if length.unwrap_or(total).max(total) > self.limits.transfer_mru {
            RefuseReason::NoResources
        } else {
            return Ok(None);
        };
        if self.answering == Answering::Acknowledgments {
            return Err(SegmentFault::Unrefusable(self.limits.transfer_mru));
        }
        Ok(Some(reason))
    }

    fn abandon(&mut self, transfer: TransferId, reason: RefuseReason, events: &mut Events) {
        self.answers.refuse(transfer, reason);
        if let Some(current) = &mut self.current {
            current.fate = Fate::Dropped(reason);
            if current.begun {
                events.push(LinkEvent::Abandoned {
                    transfer,
                    refused: Some(reason),
                });
            }
        }
    }

    /// Octets of the current segment, `last` when they complete it.
    pub(super) fn handle_data(&mut self, octets: Bytes, last: bool, events: &mut Events) {
        let Some(current) = self.current.as_mut() else {
            return;
        };
        let end = last && current.flags & END != 0;
        let more = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        current.arrived = current.arrived.saturating_add(more);
        let (transfer, arrived) = (current.transfer, current.arrived);
        match current.fate {
            Fate::Accepted if end || !octets.is_empty() => {
                let start = !current.begun;
                let length = if start { current.length } else { None };
                current.begun = true;
                if end {
                    self.answers.complete(transfer, events.pushed());
                }
                events.push(LinkEvent::Segment {
                    transfer,
                    octets,
                    start,
                    end,
                    length,
                });
            }
            Fate::Waived => self.answers.waive(transfer, arrived, end),
            Fate::Accepted | Fate::Dropped(_) => {}
        }
        if end {
            self.current = None;
        }
    }

    /// The node says that the first `octets` octets of a bundle are durable; it has taken `taken` events so far.
    pub(super) fn acknowledge(&mut self, transfer: TransferId, octets: u64, taken: u64) {
        self.answers.acknowledge(transfer, octets, taken);
    }

    /// The node does not want a bundle.
    pub(super) fn refuse(&mut self, transfer: TransferId, reason: RefuseReason) -> Refusal {
        let arriving = self.current.as_mut().filter(|it| it.transfer == transfer);
        let has_come = self.answers.complete_octets(transfer);
        if self.answering != Answering::Acknowledgments {
            if let Some(current) = arriving.filter(|it| it.fate == Fate::Accepted) {
                current.fate = Fate::Dropped(reason);
            }
            self.answers.refuse(transfer, reason);
            return Refusal::Done;
        }
        match reason {
            // RFC 7242 5.3: an acknowledgment says that octets came. The node has the bundle, or nobody should.
            RefuseReason::Completed
            | RefuseReason::NotAcceptable
            | RefuseReason::ExtensionFailure => {
                if let Some(current) = arriving {
                    current.fate = Fate::Waived;
                    self.answers.waive(transfer, current.arrived, false);
                } else if let Some(octets) = has_come {
                    self.answers.waive(transfer, octets, true);
                }
                Refusal::Done
            }
            _ if arriving.is_some() || has_come.is_some() => Refusal::NeedsEnd,
            _ => Refusal::Done,
        }
    }

    /// Write the answers that can leave.
    pub(super) fn write(&mut self, writer: &mut Writer<'_>) {
        self.answers.write(writer);
    }

    /// The session is over, or the peer sends no more: tell the node of the bundle that will not be completed.
    pub(super) fn close(&mut self, events: &mut Events) {
        if let Some(current) = self.current.take() {
            self.answers.forget(current.transfer);
            if current.fate == Fate::Accepted && current.begun {
                events.push(LinkEvent::Abandoned {
                    transfer: current.transfer,
                    refused: None,
                });
            }
        }
    }
}
