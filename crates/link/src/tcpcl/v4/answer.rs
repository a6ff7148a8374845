//! The answers to the peer's transfers: acknowledgments and refusals (RFC 9174 5.2.3, 5.2.4).

use alloc::collections::VecDeque;

use dhow_bundle::mutant::{Mutant, planted};

use super::message::{END, Message, XferSegment};
use crate::stream::{RefuseReason, TransferId};
use crate::tcpcl::order::TransferOrder;
use crate::tcpcl::writer::Writer;

/// Incoming transfers that have not been answered to their end.
///
/// Answers leave in the order in which the transfers began, as RFC 9174 5.2.4 demands of refusals, and
/// are made when there is room to send them: a peer that never reads cannot make them pile up.
#[derive(Debug)]
pub(super) struct Answers {
    order: TransferOrder<Unanswered>,
    /// Segments awaiting acknowledgment, of all transfers in `order`.
    runs: VecDeque<Run>,
    /// Refusals of a transfer that goes on although it was refused.
    repeated: Option<Repeated>,
}

#[derive(Debug)]
struct Unanswered {
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

#[derive(Debug)]
struct Repeated {
    transfer: TransferId,
    reason: RefuseReason,
    count: u64,
}

impl Answers {
    pub(super) const fn new() -> Self {
        Self {
            order: TransferOrder::new(),
            runs: VecDeque::new(),
            repeated: None,
        }
    }

    /// Every transfer has been answered to its end.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.repeated.is_none()
    }

    /// Transfers and runs of segments that await their answer.
    pub(super) fn len(&self) -> usize {
        self.order.len().saturating_add(self.runs.len())
    }

    /// A transfer begins, to be refused if there is a reason for it; its sequence number, or `None`
    /// when its ID is that of a transfer not answered yet.
    pub(super) fn begin(
        &mut self,
        transfer: TransferId,
        refused: Option<RefuseReason>,
    ) -> Option<u64> {
        let progress = Progress::Arriving;
        self.order.push(
            transfer,
            Unanswered {
                received: 0,
                acknowledged: 0,
                durable: 0,
                progress,
                refused,
            },
        )
    }

    /// A segment of a transfer has begun to arrive.
    pub(super) fn add_segment(&mut self, sequence: u64, segment: &XferSegment) {
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

    /// Octets in a transfer's segments, the one arriving included.
    pub(super) fn received(&mut self, sequence: u64) -> u64 {
        self.order
            .at(sequence)
            .map_or(0, |(_, entry)| entry.received)
    }

    /// A transfer is complete; the node learns it from the event of this number.
    pub(super) fn complete(&mut self, sequence: u64, event: u64) {
        if let Some((_, entry)) = self.order.at(sequence) {
            entry.progress = Progress::Complete { event };
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

    /// Refuse a transfer; its sequence number, or `None` when it is answered already.
    pub(super) fn refuse(&mut self, transfer: TransferId, reason: RefuseReason) -> Option<u64> {
        let sequence = self.order.sequence(transfer)?;
        let (_, entry) = self.order.at(sequence)?;
        entry.refused.get_or_insert(reason);
        Some(sequence)
    }

    /// A segment has come of a transfer that is refused.
    pub(super) fn refuse_again(
        &mut self,
        sequence: u64,
        transfer: TransferId,
        reason: RefuseReason,
    ) {
        // RFC 9174 5.2.4: a segment that comes after the refusal is refused again. Before the refusal
        // has left, it stands for this segment too.
        if self.order.at(sequence).is_none() {
            let count = self
                .repeated
                .as_ref()
                .map_or(0, |repeated| repeated.count)
                .saturating_add(1);
            self.repeated = Some(Repeated {
                transfer,
                reason,
                count,
            });
        }
    }

    /// Write the answers that can leave.
    pub(super) fn write(&mut self, writer: &mut Writer<'_>) {
        if let Some(repeated) = &mut self.repeated {
            while repeated.count > 0 && writer.room() > 0 {
                let reason = repeated.reason.code();
                writer.message(&Message::XferRefuse {
                    reason,
                    transfer: repeated.transfer.0,
                });
                repeated.count -= 1;
            }
            if repeated.count > 0 {
                return;
            }
            self.repeated = None;
        }
        while writer.room() > 0 && self.write_first(writer) {}
    }

    /// Write one answer to the transfer that began first; false when none can leave yet.
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
        let mut acknowledged_length = entry.acknowledged.saturating_add(run.length);
        if planted(Mutant::LengthsNotSummed) {
            acknowledged_length = run.length;
        }
        let ends = run.flags & END != 0;
        if acknowledged_length > entry.durable || (ends && entry.progress != Progress::Confirmed) {
            return false;
        }
        // RFC 9174 5.2.3: one XFER_ACK for each segment, with its flags and the sum of all lengths.
        writer.message(&Message::XferAck {
            flags: if planted(Mutant::FlagsNotRepeated) {
                0
            } else {
                run.flags
            },
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
}
