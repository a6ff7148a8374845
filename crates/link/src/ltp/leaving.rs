//! The ends of outgoing transfers, which are told once their last datagrams have left.

use alloc::collections::{BTreeMap, VecDeque};

use crate::datagram::DatagramEvent;
use crate::stream::{RefuseReason, TransferId};

/// Ends by the datagram that must have left before.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    ends: BTreeMap<(u64, End, TransferId), DatagramEvent>,
}

/// The kinds of ends, in the order in which one datagram may bring them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Sent,
    Last,
}

impl Leaving {
    /// Every end was told.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The transfers whose ends were not told.
    pub(super) fn transfers(&self) -> impl Iterator<Item = TransferId> {
        self.ends.keys().map(|(_, _, transfer)| *transfer)
    }

    /// All of a transfer has left with this datagram.
    pub(super) fn sent(&mut self, datagram: u64, transfer: TransferId) {
        let sent = DatagramEvent::Sent { transfer };
        self.ends.insert((datagram, End::Sent, transfer), sent);
    }

    /// A transfer is over, and this datagram was its last.
    pub(super) fn end(&mut self, datagram: u64, transfer: TransferId, event: DatagramEvent) {
        self.ends.insert((datagram, End::Last, transfer), event);
    }

    /// So many datagrams have left in all.
    pub(super) fn left(&mut self, datagrams: u64, events: &mut VecDeque<DatagramEvent>) {
        while let Some(entry) = self.ends.first_entry()
            && entry.key().0 <= datagrams
        {
            events.push_back(entry.remove());
        }
    }
}

/// A transfer has failed.
pub(super) const fn failed(
    transfer: TransferId,
    refused: Option<RefuseReason>,
    acknowledged: u64,
) -> DatagramEvent {
    DatagramEvent::Failed {
        transfer,
        refused,
        acknowledged,
    }
}
