//! Answers to the peer's bundles: acknowledgments and refusals (RFC 7242 5.3, 5.4).

use alloc::collections::VecDeque;

use dhow_bundle::mutant::{Mutant, planted};

use super::message::{DataSegment, END, Message};
use super::reason::refusal_code;
use crate::stream::{RefuseReason, TransferId};
use crate::tcpcl::order::TransferOrder;
use crate::tcpcl::writer::Writer;

/// Incoming bundles that have not been answered to their end.
///
/// No answer says to which bundle it belongs: "a simple FIFO list of segments and acknowledgments" (RFC 7242 5.4) finds
/// it. So each segment gets one answer, in the order of the segments: an acknowledgment, or a refusal once its bundle is refused.
/// Answers are made when there is room to send them: a peer that never reads cannot make them pile up.
#[derive(Debug)]
pub(super) struct Answers {
    order: TransferOrder<Unanswered>,
    /// Segments awaiting their answer, of all bundles in `order`.
    runs: VecDeque<Run>,
    /// Refusals of segments that came when their bundle had been refused; nothing in `order` is older.
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
    /// The node gets the end of the bundle with the event of this number.
    Complete { event: u64 },
    /// The node knows that the bundle is complete and has acknowledged all of it.
    Confirmed,
}

/// Consecutive segments of one bundle with equal length: a flood of tiny segments takes no more room than one.
#[derive(Debug)]
struct Run {
    sequence: u64,
    ends: bool,
    length: u64,
    count: u64,
}

#[derive(Debug)]
struct Repeated {
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

    /// Every segment has been answered, and every bundle to its end.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.repeated.is_none()
    }

    /// Bundles and runs of segments that await their answer.
    pub(super) fn len(&self) -> usize {
        self.order.len().saturating_add(self.runs.len())
    }

    /// All bundles before this one have been answered.
    pub(super) const fn are_given_before(&self, transfer: TransferId) -> bool {
        self.order.first() >= transfer.0
    }

    /// A bundle begins, to be refused if there is a reason for it. Bundles are numbered from 0, each by one more.
    pub(super) fn begin(&mut self, transfer: TransferId, refused: Option<RefuseReason>) {
        let entry = Unanswered {
            received: 0,
            acknowledged: 0,
            durable: 0,
            progress: Progress::Arriving,
            refused,
        };
        let pushed = self.order.push(transfer, entry);
        assert!(
            pushed == Some(transfer.0),
            "a session numbers the bundles that come one after another"
        );
    }

    /// A segment of a bundle has begun to arrive; one of a bundle that was refused to its last segment is refused, too.
    pub(super) fn add_segment(
        &mut self,
        transfer: TransferId,
        segment: &DataSegment,
        refused: Option<RefuseReason>,
    ) {
        let Some((_, entry)) = self.order.at(transfer.0) else {
            // RFC 7242 5.4: a segment that comes after the refusal is refused, too.
            let count = self.repeated.as_ref().map_or(0, |repeated| repeated.count);
            self.repeated = refused.map(|reason| Repeated {
                reason,
                count: count.saturating_add(1),
            });
            return;
        };
        entry.received = entry.received.saturating_add(segment.length);
        let ends = segment.flags & END != 0;
        match self.runs.back_mut() {
            Some(run) if run.sequence == transfer.0 && !ends && run.length == segment.length => {
                run.count = run.count.saturating_add(1);
            }
            _ => self.runs.push_back(Run {
                sequence: transfer.0,
                ends,
                length: segment.length,
                count: 1,
            }),
        }
    }

    /// A bundle is complete; the node learns it from the event of this number.
    pub(super) fn complete(&mut self, transfer: TransferId, event: u64) {
        if let Some((_, entry)) = self.order.at(transfer.0) {
            entry.progress = Progress::Complete { event };
        }
    }

    /// The node says that the first `octets` octets of a bundle are durable; it has taken `taken` events so far.
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

    /// Octets of a bundle that nobody needs have come, and perhaps its end: they count as durable.
    pub(super) fn waive(&mut self, transfer: TransferId, octets: u64, complete: bool) {
        if let Some(entry) = self.order.get(transfer) {
            entry.durable = entry.durable.max(octets);
            if complete {
                entry.progress = Progress::Confirmed;
            }
        }
    }

    /// Octets of a bundle that is complete, and is not answered yet.
    pub(super) fn complete_octets(&mut self, transfer: TransferId) -> Option<u64> {
        let entry = self.order.get(transfer)?;
        (entry.progress != Progress::Arriving).then_some(entry.received)
    }

    /// Refuse a bundle, unless it is answered already.
    pub(super) fn refuse(&mut self, transfer: TransferId, reason: RefuseReason) {
        if let Some(entry) = self.order.get(transfer) {
            entry.refused.get_or_insert(reason);
        }
    }

    /// No more segments of a refused bundle will come.
    pub(super) fn stop(&mut self, transfer: TransferId) {
        if let Some((_, entry)) = self.order.at(transfer.0) {
            entry.progress = Progress::Confirmed;
        }
    }

    /// The bundle that came last will not be completed, and is not answered.
    pub(super) fn forget(&mut self, transfer: TransferId) {
        while (self.runs.back()).is_some_and(|run| run.sequence == transfer.0) {
            self.runs.pop_back();
        }
        self.refuse(transfer, RefuseReason::Unknown);
        self.stop(transfer);
        self.pop_left_off();
    }

    /// Write the answers that can leave.
    pub(super) fn write(&mut self, writer: &mut Writer<'_>) {
        if let Some(repeated) = &mut self.repeated {
            let reason = refusal_code(repeated.reason);
            while repeated.count > 0 && writer.room() > 0 {
                writer.message(&Message::RefuseBundle { reason });
                repeated.count -= 1;
            }
            if repeated.count > 0 {
                return;
            }
            self.repeated = None;
        }
        while writer.room() > 0 && self.write_first(writer) {}
    }

    /// Take refused bundles of which no segment awaits an answer from the front; true when there was one.
    fn pop_left_off(&mut self) -> bool {
        let before = self.order.first();
        loop {
            let sequence = self.order.first();
            let awaited = self
                .runs
                .front()
                .is_some_and(|run| run.sequence == sequence);
            let over = self.order.front().is_some_and(|(_, entry)| {
                entry.refused.is_some() && entry.progress == Progress::Confirmed
            });
            if awaited || !over {
                return self.order.first() != before;
            }
            self.order.pop_front();
        }
    }

    /// Write one answer to the bundle that began first; false when none can leave yet.
    fn write_first(&mut self, writer: &mut Writer<'_>) -> bool {
        let sequence = self.order.first();
        let Some((_, entry)) = self.order.front() else {
            return false;
        };
        let run = self.runs.front_mut().filter(|run| run.sequence == sequence);
        let Some(run) = run else {
            // A refused bundle may be left off without an end.
            return self.pop_left_off();
        };
        let acknowledged = entry.acknowledged.saturating_add(run.length);
        let ends = run.ends;
        let is_early =
            acknowledged > entry.durable || (ends && entry.progress != Progress::Confirmed);
        if let Some(reason) = entry.refused {
            let reason = refusal_code(reason);
            writer.message(&Message::RefuseBundle { reason });
        } else if is_early && !planted(Mutant::OlderAcknowledgedOnArrival) {
            return false;
        } else {
            // RFC 7242 5.3: one ACK_SEGMENT for each segment, with the sum of all lengths.
            let octets = if planted(Mutant::OlderLengthsNotSummed) {
                run.length
            } else {
                acknowledged
            };
            writer.message(&Message::AckSegment { octets });
        }
        entry.acknowledged = acknowledged;
        let refused = entry.refused.is_some();
        run.count -= 1;
        if run.count == 0 {
            self.runs.pop_front();
            let more = self
                .runs
                .front()
                .is_some_and(|run| run.sequence == sequence);
            // Segments that still come of a refused bundle are refused without an entry.
            if ends || (refused && !more) {
                self.order.pop_front();
            }
        }
        true
    }
}
