//! Internal operations traffic (RFC 5326 6): segments without octets of a block, which leave before all others.

use alloc::collections::VecDeque;

use super::segment::{Party, SessionId};

/// Answers that may wait. Reports and cancellations are bounded by the sessions that they are of.
pub(super) const MAX_ANSWERS: usize = 4_096;

/// A segment that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// RA of the report with this serial number.
    ReportAck(SessionId, u64),
    /// CAS or CAR for a cancellation by this party.
    CancelAck(SessionId, Party),
    /// RS of an incoming session, by the session's number and the report's.
    Report(u64, u64),
    /// CS or CR of the session with this number; the party is this engine's part in it.
    Cancel(Party, u64),
}

/// The queue of operations.
#[derive(Debug, Default)]
pub(super) struct Operations {
    queue: VecDeque<Operation>,
    answers: usize,
}

impl Operation {
    const fn is_answer(self) -> bool {
        matches!(self, Self::ReportAck(..) | Self::CancelAck(..))
    }
}

impl Operations {
    /// Add one; false when too many answers wait.
    pub(super) fn push(&mut self, operation: Operation) -> bool {
        if operation.is_answer() {
            if self.answers >= MAX_ANSWERS {
                return false;
            }
            self.answers = self.answers.saturating_add(1);
        }
        self.queue.push_back(operation);
        true
    }

    pub(super) fn first(&self) -> Option<Operation> {
        self.queue.front().copied()
    }

    pub(super) fn pop(&mut self) {
        if self.queue.pop_front().is_some_and(Operation::is_answer) {
            self.answers = self.answers.saturating_sub(1);
        }
    }

    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Segments that wait.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
