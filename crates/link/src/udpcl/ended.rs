//! Incoming transfers that are over.

use alloc::collections::{BTreeSet, VecDeque};

use dhow_bundle::Instant;

/// Transfers that are over and still known: 4,096 with one segment of 1,232 octets are 5 MB of traffic and take
/// about 200 KiB.
pub(super) const MAX_ENDED: usize = 4_096;

/// The IDs of transfers that are over, so that segments which the network or the sender doubled are dropped (draft
/// 3.6.2). The oldest is forgotten for the newest.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Transfers in the order in which they ended, with the instant until which they are known.
    order: VecDeque<(Instant, u64)>,
    known: BTreeSet<u64>,
}

impl Ended {
    /// A transfer is over.
    pub(super) fn push(&mut self, transfer: u64, until: Instant) {
        if self.order.len() >= MAX_ENDED {
            self.forget_first();
        }
        if self.known.insert(transfer) {
            self.order.push_back((until, transfer));
        }
    }

    /// True when a transfer is over.
    pub(super) fn contains(&self, transfer: u64) -> bool {
        self.known.contains(&transfer)
    }

    /// Forget those whose time has come.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    /// Transfers that are known.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    fn forget_first(&mut self) {
        if let Some((_, transfer)) = self.order.pop_front() {
            self.known.remove(&transfer);
        }
    }
}
