//! The order in which outgoing sessions send.

use alloc::collections::VecDeque;

/// The sessions that can send, by number: each at most once in a queue.
#[derive(Debug, Default)]
pub(super) struct Queues {
    repeating: VecDeque<u64>,
    going: VecDeque<u64>,
    waiting: VecDeque<u64>,
}

/// The queues, the first first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Sessions with octets to send again.
    Repeating,
    /// Sessions that have begun and have their next octets.
    Going,
    /// Sessions that have not begun and have their first octets.
    Waiting,
}

impl Queues {
    pub(super) fn first(&self, queue: Queue) -> Option<u64> {
        match queue {
            Queue::Repeating => self.repeating.front().copied(),
            Queue::Going => self.going.front().copied(),
            Queue::Waiting => self.waiting.front().copied(),
        }
    }

    pub(super) fn pop(&mut self, queue: Queue) {
        self.of(queue).pop_front();
    }

    pub(super) fn push_front(&mut self, queue: Queue, number: u64) {
        self.of(queue).push_front(number);
    }

    pub(super) fn push_back(&mut self, queue: Queue, number: u64) {
        self.of(queue).push_back(number);
    }

    const fn of(&mut self, queue: Queue) -> &mut VecDeque<u64> {
        match queue {
            Queue::Repeating => &mut self.repeating,
            Queue::Going => &mut self.going,
            Queue::Waiting => &mut self.waiting,
        }
    }
}
