//! Transfers that share a block, one behind the other (service data aggregation), and the transfers that go alone.
//!
//! Transfers that wait because nothing may leave yet are one block when it begins. None waits for others: a block takes those that are there when its
//! first datagram can leave. A capsule is one of them.

use alloc::vec::Vec;

use super::block::Block;
use super::config::{Config, Red};
use super::queues::Queue;
use super::segment::Reason;
use super::sessions_out::SessionsOut;
use super::state::Sender;
use crate::stream::{RefuseReason, TransferId};

/// Blocks of one transfer after which transfers share blocks again, at most, in transfers of the block that was refused.
const ALONE_MOST: u64 = 1 << 12;

/// A transfer in a block.
#[derive(Debug)]
pub(super) struct Capsule {
    pub(super) transfer: TransferId,
    pub(super) length: u64,
    /// Its octets, until the block begins.
    pub(super) octets: Block,
}

impl Capsule {
    pub(super) fn new(transfer: TransferId, length: u64) -> Self {
        Self {
            transfer,
            length,
            octets: Block::default(),
        }
    }
}

/// Transfers that go alone, since a block of several was refused: the refusal of one is no other's.
#[derive(Debug, Default)]
pub(super) struct Alone {
    /// So many more.
    left: u64,
    /// Blocks of several that were refused since one was taken.
    refused: u32,
}

impl Alone {
    /// A block of so many was refused.
    pub(super) fn refused(&mut self, capsules: usize) {
        let capsules = u64::try_from(capsules).unwrap_or(u64::MAX);
        let times = 2_u64.checked_shl(self.refused).unwrap_or(ALONE_MOST);
        self.left = capsules.saturating_mul(times.min(ALONE_MOST));
        self.refused = self.refused.saturating_add(1);
    }

    /// A block of several was taken.
    pub(super) const fn taken(&mut self) {
        self.refused = 0;
    }

    /// A block begins.
    pub(super) const fn begun(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

/// The refusal of each transfer of a block that the peer cancels.
pub(super) const fn share_of(
    refused: RefuseReason,
    reason: Reason,
    capsules: usize,
) -> Option<RefuseReason> {
    match reason {
        Reason::UserCancelled | Reason::SystemCancelled if capsules > 1 => None,
        _ => Some(refused),
    }
}

impl SessionsOut {
    /// Add to the next block that is to begin what waits behind it, as far as all of it is there and the block takes it.
    pub(super) fn gather(&mut self, config: &Config) {
        let most = config.aggregate.min(config.transfer_mru);
        // The red part of a block that is only in part red is of its first transfer.
        if most == 0 || config.red != Red::All || self.alone.left > 0 {
            return;
        }
        let Some(number) = self.queues.first(Queue::Waiting) else {
            return;
        };
        let Some(mut first) = self.sessions.remove(&number) else {
            return;
        };
        self.queues.pop(Queue::Waiting);
        let is_whole = first.state == Sender::Ready && first.supplied() == first.length;
        while is_whole && let Some(next) = self.queues.first(Queue::Waiting) {
            let room = most.saturating_sub(first.length);
            match self.sessions.get(&next) {
                Some(it) if it.length > room || it.supplied() < it.length => break,
                _ => self.queues.pop(Queue::Waiting),
            }
            let capsules = self.sessions.remove(&next).map(|next| next.capsules);
            for capsule in capsules.unwrap_or_default() {
                self.by_transfer.insert(capsule.transfer, number);
                first.length = first.length.saturating_add(capsule.length);
                first.capsules.push(capsule);
            }
            first.red = first.length;
        }
        self.sessions.insert(number, first);
        self.queues.push_front(Queue::Waiting, number);
    }

    /// Take a transfer out of a block of several that has not begun; false when there is none.
    pub(super) fn take_out(&mut self, number: u64, transfer: TransferId) -> bool {
        let Some(session) = self.sessions.get_mut(&number) else {
            return false;
        };
        if session.state != Sender::Ready || session.capsules.len() < 2 {
            return false;
        }
        let (taken, kept): (Vec<_>, Vec<_>) = core::mem::take(&mut session.capsules)
            .into_iter()
            .partition(|capsule| capsule.transfer == transfer);
        let sum =
            |octets: fn(&Capsule) -> u64| taken.iter().map(octets).fold(0, u64::saturating_add);
        let (octets, supplied) = (sum(|it| it.length), sum(|it| it.octets.octets()));
        session.capsules = kept;
        session.length = session.length.saturating_sub(octets);
        session.red = session.length;
        self.queued_octets = self.queued_octets.saturating_sub(supplied);
        self.by_transfer.remove(&transfer);
        true
    }
}
