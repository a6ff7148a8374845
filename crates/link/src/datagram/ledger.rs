//! Links over datagrams at the mercy of arbitrary datagrams: what the oracles of all layers share.
//!
//! Everything here panics when a link breaks its word; it is no part of the interface.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;

use super::DatagramEvent;
use crate::stream::TransferId;

/// Octets at the front of a fuzzer's input that say how the node behaves.
const CHOICES: usize = 8;

/// The choices in a fuzzer's input, and the rest.
pub(crate) fn choices(octets: &[u8]) -> (&[u8], &[u8]) {
    octets.split_at_checked(CHOICES).unwrap_or((octets, &[]))
}

/// The datagrams in a fuzzer's input; the last may be cut.
pub(crate) fn split(mut octets: &[u8]) -> Vec<&[u8]> {
    let mut datagrams = Vec::new();
    while let Some((length, rest)) = octets.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length));
        let (datagram, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        datagrams.push(datagram);
        octets = behind;
    }
    datagrams
}

/// All that a link tells of incoming transfers, held against what it may tell.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Incomplete transfers.
    arriving: BTreeMap<TransferId, Arriving>,
    /// Transfers that came whole, in that order.
    pub(crate) whole: Vec<(TransferId, Vec<u8>)>,
    /// Transfers that were abandoned.
    pub(crate) abandoned: usize,
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
    /// Notes an event.
    pub(crate) fn note(&mut self, event: &DatagramEvent) {
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
    pub(crate) fn refuse(&mut self, transfer: TransferId) {
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

    /// The transfer has begun, whatever became of it.
    pub(crate) fn has_begun(&self, transfer: TransferId) -> bool {
        transfer.0 < self.next
    }

    /// The octets of transfers that came whole, in that order.
    #[cfg(test)]
    pub(crate) fn payloads(&self) -> Vec<Vec<u8>> {
        let whole = self.whole.iter();
        whole.map(|(_, octets)| octets.clone()).collect()
    }

    /// Incomplete transfers, and octets that came of them.
    pub(crate) fn held(&self) -> (usize, u64) {
        let arriving = self.arriving.values();
        let pieces = arriving.flat_map(|arriving| arriving.pieces.values());
        (self.arriving.len(), pieces.map(length_of).sum())
    }
}

fn length_of(octets: impl AsRef<[u8]>) -> u64 {
    u64::try_from(octets.as_ref().len()).unwrap_or(u64::MAX)
}
