//! Transfers from the peer: RFC 9174 5.2, figure 12.

use alloc::collections::VecDeque;

use bytes::Bytes;
use thiserror::Error;

use super::event::Events;
use super::message::{END, Message, START, XferSegment};
use super::order::TransferOrder;
use super::writer::Writer;
use crate::stream::{LinkEvent, RefuseReason, TransferId};

/// Incoming transfers, from their first segment to the last acknowledgment or the refusal.
///
/// Acknowledgments and refusals leave in the order in which the transfers began, as RFC 9174 5.2.4
/// demands of refusals, and are made when there is room to send them: a peer that never reads cannot
/// make them pile up.
#[derive(Debug)]
pub(super) struct TransfersIn {
    order: TransferOrder<TransferIn>,
    /// Segments awaiting acknowledgment, of all transfers in `order`.
    runs: VecDeque<Run>,
    current: Option<Current>,
    /// Refusals of a transfer that goes on although it was refused.
    repeated: Option<Repeated>,
    limits: Limits,
}

/// What incoming transfers are held to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Largest segment announced, octets.
    pub(super) segment_mru: u64,
    /// Largest transfer announced, octets.
    pub(super) transfer_mru: u64,
    /// Entries and runs that may await acknowledgment.
    pub(super) awaiting: usize,
}

#[derive(Debug)]
struct TransferIn {
    /// Octets in the segments received, the one arriving included.
    received: u64,
    /// Octets in the segments acknowledged.
    acknowledged: u64,
    /// Octets that the node has said are durable.
    durable: u64,
    progress: Progress,
    refused: Option<RefuseReason>,
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// The last segment is not complete.
    Arriving,
    /// The node gets the end of the transfer with the event of this number.
    Complete { event: u64 },
    /// The node knows that the transfer is complete and has acknowledged all of it.
    Confirmed,
}

/// Consecutive segments of one transfer with equal flags and length: a flood of tiny segments takes
/// no more room than one.
#[derive(Debug)]
struct Run {
    sequence: u64,
    flags: u8,
    length: u64,
    count: u64,
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
    /// The node has been told of the transfer.
    begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Accepted,
    Dropped(RefuseReason),
}

#[derive(Debug)]
struct Repeated {
    transfer: TransferId,
    reason: RefuseReason,
    count: u64,
}

/// Whether new transfers are welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Yes.
    Open,
    /// No: the session is ending.
    Ending,
}

/// How a peer broke the order of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum SegmentFault {
    /// A transfer began inside another.
    #[error("transfer {0} began inside another (RFC 9174 5.2.2)")]
    Interleaved(u64),
    /// A segment without START of a transfer that is not under way.
    #[error("a segment continues transfer {0}, which is not under way (RFC 9174 5.2.2)")]
    NotUnderWay(u64),
    /// The ID of a transfer that still awaits acknowledgment.
    #[error("transfer ID {0} was used twice (RFC 9174 5.2.1)")]
    Reused(u64),
    /// Too much awaits acknowledgment.
    #[error("too many segments await acknowledgment")]
    Exhausted,
}

impl TransfersIn {
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            order: TransferOrder::new(),
            runs: VecDeque::new(),
            current: None,
            repeated: None,
            limits,
        }
    }

    /// No transfer awaits octets, acknowledgment or refusal.
    pub(super) fn is_idle(&self) -> bool {
        self.order.is_empty() && self.repeated.is_none()
    }

    /// Transfers and runs of segments that await acknowledgment.
    pub(super) fn awaiting(&self) -> usize {
        self.order.len().saturating_add(self.runs.len())
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
            // RFC 9174 4.6: no transfer is longer than our Transfer MRU. The peer is told the reason
            // that asks it to fragment the bundle.
            Admission::Open if length.is_some_and(|length| length > self.limits.transfer_mru) => {
                Some(RefuseReason::NoResources)
            }
            Admission::Open => self.refusal_of(segment, 0, length),
        };
        let transfer = TransferId(segment.transfer);
        let entry = TransferIn {
            received: 0,
            acknowledged: 0,
            durable: 0,
            progress: Progress::Arriving,
            refused,
        };
        let Some(sequence) = self.order.push(transfer, entry) else {
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
            self.count_segment(sequence, segment);
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
            Fate::Dropped(reason) => {
                // RFC 9174 5.2.4: a segment that comes after the refusal is refused again. Before the
                // refusal has left, it stands for this segment too.
                if self.order.at(sequence).is_none() {
                    let count = self
                        .repeated
                        .as_ref()
                        .map_or(0, |repeated| repeated.count)
                        .saturating_add(1);
                    self.repeated = Some(Repeated {
                        transfer: TransferId(segment.transfer),
                        reason,
                        count,
                    });
                }
            }
            Fate::Accepted => {
                let received = self
                    .order
                    .at(sequence)
                    .map_or(0, |(_, entry)| entry.received);
                if let Some(reason) = self.refusal_of(segment, received, length) {
                    self.abandon_current(reason, events);
                } else if self.runs.len() >= self.limits.awaiting {
                    return Err(SegmentFault::Exhausted);
                } else {
                    self.count_segment(sequence, segment);
                }
            }
        }
        Ok(())
    }

    /// Why the transfer cannot go on with this segment, `received` octets after its start.
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
        // RFC 9174 4.6: no transfer is longer than our Transfer MRU.
        if total > self.limits.transfer_mru {
            return Some(RefuseReason::NoResources);
        }
        None
    }

    fn abandon_current(&mut self, reason: RefuseReason, events: &mut Events) {
        let Some(current) = self.current.as_mut() else {
            return;
        };
        current.fate = Fate::Dropped(reason);
        if let Some((_, entry)) = self.order.at(current.sequence) {
            entry.refused = Some(reason);
        }
        if current.begun {
            events.push(LinkEvent::Abandoned {
                transfer: current.transfer,
            });
        }
    }

    fn count_segment(&mut self, sequence: u64, segment: &XferSegment) {
        if let Some((_, entry)) = self.order.at(sequence) {
            entry.received = entry.received.saturating_add(segment.data_length);
        }
        match self.runs.back_mut() {
            Some(run)
                if run.sequence == sequence
                    && run.flags == segment.flags
                    && run.length == segment.data_length =>
            {
                run.count = run.count.saturating_add(1);
            }
            _ => self.runs.push_back(Run {
                sequence,
                flags: segment.flags,
                length: segment.data_length,
                count: 1,
            }),
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
            if end && let Some((_, entry)) = self.order.at(current.sequence) {
                entry.progress = Progress::Complete {
                    event: events.pushed(),
                };
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
        let Some(entry) = self.order.get(transfer) else {
            return;
        };
        assert!(
            octets <= entry.received,
            "a node acknowledges only octets that it has received"
        );
        entry.durable = entry.durable.max(octets);
        // The final segment may be empty, so that all octets were acknowledged before the node knew
        // that the bundle was complete: only what it says after that counts for the bundle.
        if let Progress::Complete { event } = entry.progress
            && taken > event
            && entry.durable == entry.received
        {
            entry.progress = Progress::Confirmed;
        }
    }

    /// The node does not want a transfer.
    pub(super) fn refuse(&mut self, transfer: TransferId, reason: RefuseReason) {
        let Some(sequence) = self.order.sequence(transfer) else {
            return;
        };
        let Some((_, entry)) = self.order.at(sequence) else {
            return;
        };
        if entry.refused.is_none() {
            entry.refused = Some(reason);
            if let Some(current) = self
                .current
                .as_mut()
                .filter(|current| current.sequence == sequence)
            {
                current.fate = Fate::Dropped(reason);
            }
        }
    }

    /// Write what acknowledgments and refusals can leave.
    pub(super) fn write(&mut self, writer: &mut Writer<'_>) {
        if let Some(repeated) = &mut self.repeated {
            while repeated.count > 0 && writer.room() > 0 {
                let message = Message::XferRefuse {
                    reason: repeated.reason.code(),
                    transfer: repeated.transfer.0,
                };
                writer.message(&message);
                repeated.count -= 1;
            }
            if repeated.count > 0 {
                return;
            }
            self.repeated = None;
        }
        while writer.room() > 0 && self.write_first(writer) {}
    }

    /// Write one message for the transfer that began first; false when nothing of it can leave yet.
    fn write_first(&mut self, writer: &mut Writer<'_>) -> bool {
        let sequence = self.order.first();
        let Some((transfer, entry)) = self.order.front() else {
            return false;
        };
        // RFC 9174 5.2.4: all transfers before the refused one have been acknowledged or refused.
        if let Some(reason) = entry.refused {
            writer.message(&Message::XferRefuse {
                reason: reason.code(),
                transfer: transfer.0,
            });
            while self
                .runs
                .front()
                .is_some_and(|run| run.sequence == sequence)
            {
                self.runs.pop_front();
            }
            self.order.pop_front();
            return true;
        }
        let Some(run) = self.runs.front_mut() else {
            return false;
        };
        let acknowledged_length = entry.acknowledged.saturating_add(run.length);
        let ends = run.flags & END != 0;
        if acknowledged_length > entry.durable || (ends && entry.progress != Progress::Confirmed) {
            return false;
        }
        // RFC 9174 5.2.3: one XFER_ACK for each segment, with its flags and the sum of all lengths.
        writer.message(&Message::XferAck {
            flags: run.flags,
            transfer: transfer.0,
            acknowledged_length,
        });
        entry.acknowledged = acknowledged_length;
        run.count -= 1;
        if run.count == 0 {
            self.runs.pop_front();
        }
        if ends {
            self.order.pop_front();
        }
        true
    }

    /// The session is over: tell the node of the transfer that will not be completed.
    pub(super) fn close(&mut self, events: &mut Events) {
        if let Some(current) = self.current.take()
            && current.fate == Fate::Accepted
            && current.begun
        {
            events.push(LinkEvent::Abandoned {
                transfer: current.transfer,
            });
        }
    }
}
