//! What an engine tells, held against what it may tell.
//!
//! Everything here panics when an engine breaks its word; it is no part of the interface.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;

use crate::datagram::DatagramEvent;
use crate::stream::TransferId;

/// All that an engine tells of incoming transfers.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Incomplete transfers.
    arriving: BTreeMap<TransferId, Arriving>,
    /// Transfers that came whole, in that order.
    pub(super) whole: Vec<(TransferId, Vec<u8>)>,
    /// Transfers that were abandoned.
    pub(super) abandoned: usize,
    /// Transfers that the node refused.
    refused: BTreeSet<TransferId>,
    next: u64,
}

#[derive(Debug, Default)]
struct Arriving {
    length: Option<u64>,
    pieces: BTreeMap<u64, Bytes>,
}

impl Ledger {
    /// One more event.
    pub(super) fn note(&mut self, event: &DatagramEvent) {
        match event {
            DatagramEvent::Piece {
                transfer,
                offset,
                octets,
                length,
            } => self.piece(*transfer, *offset, octets, *length),
            DatagramEvent::Complete { transfer, length } => self.complete(*transfer, *length),
            DatagramEvent::Abandoned { transfer, .. } => {
                let begun = self.arriving.remove(transfer);
                assert!(begun.is_some(), "a transfer that is abandoned had begun");
                self.abandoned += 1;
            }
            _ => {}
        }
    }

    /// The node refuses a transfer: nothing more is told of it.
    pub(super) fn refuse(&mut self, transfer: TransferId) {
        self.arriving.remove(&transfer);
        self.refused.insert(transfer);
    }

    fn piece(&mut self, transfer: TransferId, offset: u64, octets: &Bytes, length: Option<u64>) {
        let end = offset + length_of(octets);
        assert!(
            !self.refused.contains(&transfer),
            "nothing is told of a transfer that was refused"
        );
        if transfer.0 >= self.next {
            self.next = transfer.0 + 1;
            self.arriving.insert(transfer, Arriving::default());
        }
        let begun = self.arriving.get_mut(&transfer);
        assert!(begun.is_some(), "transfers are numbered as they begin");
        if let Some(arriving) = begun {
            let known = arriving.length;
            assert!(
                known.is_none() || known == length,
                "a transfer has one length"
            );
            arriving.length = length;
            assert!(
                !octets.is_empty() && end <= length.unwrap_or(u64::MAX),
                "no octet is beyond the end"
            );
            let before = arriving.pieces.range(..end).next_back();
            let free = before.is_none_or(|(start, before)| start + length_of(before) <= offset);
            assert!(free, "no octet comes twice");
            arriving.pieces.insert(offset, octets.clone());
        }
    }

    fn complete(&mut self, transfer: TransferId, length: u64) {
        let arriving = self.arriving.remove(&transfer).unwrap_or_default();
        let whole = arriving.pieces.values().flatten().copied();
        let whole = whole.collect::<Vec<u8>>();
        assert_eq!(
            length_of(&whole),
            length,
            "a complete transfer has all its octets"
        );
        self.whole.push((transfer, whole));
    }

    /// Incomplete transfers.
    pub(super) fn arriving(&self) -> usize {
        self.arriving.len()
    }
}

fn length_of(octets: impl AsRef<[u8]>) -> u64 {
    u64::try_from(octets.as_ref().len()).unwrap_or(u64::MAX)
}
