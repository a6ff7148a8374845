//! Incoming sessions that are over.

use alloc::collections::{BTreeMap, VecDeque};

use super::segment::DataHead;

/// The numbers of incoming sessions that are over, so that a late segment opens none of them again. The oldest is
/// forgotten for the newest.
#[derive(Debug)]
pub(super) struct Closed {
    most: usize,
    order: VecDeque<u64>,
    /// By number: octets of the block, where its end had come.
    known: BTreeMap<u64, Option<u64>>,
}

/// A data segment's relation to the sessions that are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lateness {
    /// It is of none of them.
    No,
    /// It is late.
    Late,
    /// It is of another block: the number was used again.
    Reused,
}

impl Closed {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            most,
            order: VecDeque::new(),
            known: BTreeMap::new(),
        }
    }

    /// A session is over.
    pub(super) fn push(&mut self, number: u64, length: Option<u64>) {
        if self.known.insert(number, length).is_some() {
            return;
        }
        self.order.push_back(number);
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(super) fn look(&self, head: &DataHead) -> Lateness {
        match self.known.get(&head.session.number) {
            None => Lateness::No,
            Some(Some(length))
                if head.end() > *length || (head.kind.is_block_end() && head.end() != *length) =>
            {
                Lateness::Reused
            }
            Some(_) => Lateness::Late,
        }
    }

    /// Sessions that are known.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}
