//! Transfers from the peer: RFC 9174 5.2, figure 12.

use bytes::Bytes;

use super::answer::Answers;
use super::fault::SegmentFault;
use super::message::{END, START, XferSegment};
use crate::stream::{LinkEvent, RefuseReason, TransferId};
use crate::tcpcl::event::Events;
use crate::tcpcl::writer::Writer;

/// Incoming transfers, from their first segment to the last acknowledgment or the refusal.
#[derive(Debug)]
pub(super) struct TransfersIn {
    answers: Answers,
    current: Option<Current>,
    limits: Limits,
}

/// The limits of incoming transfers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Largest segment announced, octets.
    pub(super) segment_mru: u64,
    /// Largest transfer announced, octets.
    pub(super) transfer_mru: u64,
    /// Transfers and runs of segments that may await their answer.
    pub(super) awaiting: usize,
}

/// Whether new transfers are welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Yes.
    Open,
    /// No: the session is ending.
    Ending,
}

/// The transfer whose segments are arriving.
#[derive(Debug)]
struct Current {
    transfer: TransferId,
    sequence: u64,
    fate: Fate,
    /// Flags of the segment arriving.
    flags: u8,
    /// Octets of the whole transfer, if known.
    length: Option<u64>,
    /// Whether the node has been told of the transfer.
    begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Accepted,
    Dropped(RefuseReason),
}

impl TransfersIn {
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            answers: Answers::new(),
            current: None,
            limits,
        }
    }

    /// No transfer awaits octets or an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.answers.is_empty()
    }

    /// A transfer has begun to come, and is wanted.
    pub(super) fn is_arriving(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.fate == Fate::Accepted)
    }

    /// Transfers and runs of segments that await their answer.
    pub(super) fn awaiting(&self) -> usize {
        self.answers.len()
    }

    /// A segment's head has arrived; its data follow by `handle_data`.
    pub(super) fn handle_segment(
        &mut self,
        segment: &XferSegment,
        admission: Admission,
        events: &mut Events,
    ) -> Result<(), SegmentFault> {
        if segment.flags & START == 0 {
            self.continue_transfer(segment, events)?;
        } else {
            self.begin_transfer(segment, admission)?;
            if segment.extensions.unverified {
                let transfer = TransferId(segment.transfer);
                events.push(LinkEvent::Unverified { transfer });
            }
        }
        if segment.data_length == 0 {
            self.handle_data(Bytes::new(), true, events);
        }
        Ok(())
    }

    fn begin_transfer(
        &mut self,
        segment: &XferSegment,
        admission: Admission,
    ) -> Result<(), SegmentFault> {
        // RFC 9174 5.2.2: segments of different transfers are never interleaved.
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.fate == Fate::Accepted)
        {
            return Err(SegmentFault::Interleaved(segment.transfer));
        }
        if self.awaiting() >= self.limits.awaiting {
            return Err(SegmentFault::Exhausted);
        }
        let whole = segment.flags & END != 0;
        let length = segment.extensions.length.or(if whole {
            Some(segment.data_length)
        } else {
            None
        });
        let refused = match admission {
            // RFC 9174 6.1: no new transfer while the session is ending.
            Admission::Ending => Some(RefuseReason::SessionTerminating),
            // RFC 9174 5.2.5: an unknown critical item refuses the transfer; so does a list that
            // cannot be read.
            Admission::Open if segment.extensions.fault.is_some() => {
                Some(RefuseReason::ExtensionFailure)
            }
            Admission::Open => self.refusal_of(segment, 0, length),
        };
        let transfer = TransferId(segment.transfer);
        let Some(sequence) = self.answers.begin(transfer, refused) else {
            return Err(SegmentFault::Reused(segment.transfer));
        };
        let fate = refused.map_or(Fate::Accepted, Fate::Dropped);
        self.current = Some(Current {
            transfer,
            sequence,
            fate,
            flags: segment.flags,
            length,
            begun: false,
        });
        if refused.is_none() {
            self.answers.add_segment(sequence, segment);
        }
        Ok(())
    }

    fn continue_transfer(
        &mut self,
        segment: &XferSegment,
        events: &mut Events,
    ) -> Result<(), SegmentFault> {
        let Some(current) = self
            .current
            .as_mut()
            .filter(|current| current.transfer.0 == segment.transfer)
        else {
            return Err(SegmentFault::NotUnderWay(segment.transfer));
        };
        current.flags = segment.flags;
        let (sequence, length) = (current.sequence, current.length);
        match current.fate {
            Fate::Dropped(reason) => self
                .answers
                .refuse_again(sequence, current.transfer, reason),
            Fate::Accepted => {
                let received = self.answers.received(sequence);
                if let Some(reason) = self.refusal_of(segment, received, length) {
                    self.abandon_current(reason, events);
                } else if self.awaiting() >= self.limits.awaiting {
                    return Err(SegmentFault::Exhausted);
                } else {
                    self.answers.add_segment(sequence, segment);
                }
            }
        }
        Ok(())
    }

    /// Why a transfer of `length` octets, if that is known, cannot go on with this segment, `received`
    /// octets after its start.
    fn refusal_of(
        &self,
        segment: &XferSegment,
        received: u64,
        length: Option<u64>,
    ) -> Option<RefuseReason> {
        let total = received.saturating_add(segment.data_length);
        let ends = segment.flags & END != 0;
        // RFC 9174 4.6: no segment is longer than our Segment MRU.
        if segment.data_length > self.limits.segment_mru {
            return Some(RefuseReason::NotAcceptable);
        }
        // RFC 9174 5.2.5.1: the announced length is authoritative; other lengths are not acceptable.
        if length.is_some_and(|length| total > length || (ends && total != length)) {
            return Some(RefuseReason::NotAcceptable);
        }
        // RFC 9174 4.6: no transfer is longer than our Transfer MRU. The peer is told the reason that
        // asks it to fragment the bundle.
        if length.unwrap_or(total).max(total) > self.limits.transfer_mru {
            return Some(RefuseReason::NoResources);
        }
        None
    }

    fn abandon_current(&mut self, reason: RefuseReason, events: &mut Events) {
        let Some(current) = self.current.as_mut() else {
            return;
        };
        current.fate = Fate::Dropped(reason);
        self.answers.refuse(current.transfer, reason);
        if current.begun {
            events.push(LinkEvent::Abandoned {
                transfer: current.transfer,
                refused: Some(reason),
            });
        }
    }

    /// Octets of the current segment, `last` when they complete it.
    pub(super) fn handle_data(&mut self, octets: Bytes, last: bool, events: &mut Events) {
        let Some(current) = self.current.as_mut() else {
            return;
        };
        let end = last && current.flags & END != 0;
        if current.fate == Fate::Accepted && (end || !octets.is_empty()) {
            let (transfer, start) = (current.transfer, !current.begun);
            let length = if start { current.length } else { None };
            current.begun = true;
            if end {
                self.answers.complete(current.sequence, events.pushed());
            }
            events.push(LinkEvent::Segment {
                transfer,
                octets,
                start,
                end,
                length,
            });
        }
        if end {
            self.current = None;
        }
    }

    /// The node says that the first `octets` octets of a transfer are durable; it has taken `taken`
    /// events so far.
    pub(super) fn acknowledge(&mut self, transfer: TransferId, octets: u64, taken: u64) {
        self.answers.acknowledge(transfer, octets, taken);
    }

    /// The node does not want a transfer.
    pub(super) fn refuse(&mut self, transfer: TransferId, reason: RefuseReason) {
        let refused = self.answers.refuse(transfer, reason);
        if let Some(current) = self.current.as_mut()
            && refused == Some(current.sequence)
            && current.fate == Fate::Accepted
        {
            current.fate = Fate::Dropped(reason);
        }
    }

    /// Write the acknowledgments and refusals that can leave.
    pub(super) fn write(&mut self, writer: &mut Writer<'_>) {
        self.answers.write(writer);
    }

    /// The session is over: tell the node of the transfer that will not be completed.
    pub(super) fn close(&mut self, events: &mut Events) {
        if let Some(current) = self.current.take()
            && current.fate == Fate::Accepted
            && current.begun
        {
            events.push(LinkEvent::Abandoned {
                transfer: current.transfer,
                refused: None,
            });
        }
    }
}
