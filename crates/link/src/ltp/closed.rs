//! Incoming sessions that are over.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

use super::end_to_end::EndToEnd;
use super::segment::DataHead;
use crate::stream::TransferId;

/// The numbers of incoming sessions that are over, so that a late segment opens none of them again. The oldest is
/// forgotten for the newest.
#[derive(Debug)]
pub(super) struct Closed {
    most: usize,
    order: VecDeque<u64>,
    known: BTreeMap<u64, Over>,
}

/// The part of a session that is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Over {
    /// Octets of the block, where its end had come.
    pub(super) length: Option<u64>,
    /// Only green octets came, and not all of the block: a red part may be on its way still, for which the standard opens
    /// the session again (RFC 5326 8.2).
    pub(super) takes_red: bool,
    /// Our number of its transfer, if octets of it were told of.
    pub(super) transfer: Option<TransferId>,
    /// Octets of the red part, where its end had come.
    pub(super) red: Option<u64>,
    /// The part of the block for all hops.
    pub(super) end_to_end: Option<Box<EndToEnd>>,
}

/// A data segment's relation to the sessions that are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lateness {
    /// The segment is of no such session.
    No,
    /// The segment is late.
    Late,
    /// The segment is of another block: the number was used again.
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
    pub(super) fn push(&mut self, number: u64, over: Over) {
        if self.known.insert(number, over).is_some() {
            return;
        }
        self.order.push_back(number);
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The session of a transfer: mostly a recent one.
    pub(super) fn session_of(&self, transfer: TransferId) -> Option<u64> {
        let is_it = |number: &&u64| {
            let over = self.known.get(number);
            over.is_some_and(|over| over.transfer == Some(transfer))
        };
        self.order.iter().rev().find(is_it).copied()
    }

    /// A session that is over and known.
    pub(super) fn over(&self, number: u64) -> Option<&Over> {
        self.known.get(&number)
    }

    pub(super) fn look(&self, head: &DataHead) -> Lateness {
        let Some(over) = self.known.get(&head.session.number) else {
            return Lateness::No;
        };
        if over.takes_red && head.kind.is_red() {
            return Lateness::No;
        }
        let is_other = over.length.is_some_and(|length| {
            head.end() > length || (head.kind.is_block_end() && head.end() != length)
        });
        if is_other {
            Lateness::Reused
        } else {
            Lateness::Late
        }
    }

    /// Sessions that are known.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}
