//! The octets of an outgoing block, kept until nobody needs them again.

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};

use crate::datagram::Batch;

/// Pieces in order, of which any part can be given out, any number of times. None is copied: extents of the store cost
/// no memory, and octets in memory are shared.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Each with its offset in the block.
    pieces: Vec<(u64, Piece)>,
    octets: u64,
}

impl Block {
    /// Octets that are there.
    pub(super) const fn octets(&self) -> u64 {
        self.octets
    }

    /// Add octets at the end. An extent that goes on where the last one ends makes that longer.
    pub(super) fn push(&mut self, piece: Piece) {
        let length = piece.length();
        if length == 0 {
            return;
        }
        let offset = self.octets;
        self.octets = self.octets.saturating_add(length);
        if let (Some((_, Piece::Extent(last))), Piece::Extent(next)) =
            (self.pieces.last_mut(), &piece)
            && last.offset.checked_add(last.length) == Some(next.offset)
        {
            last.length = last.length.saturating_add(next.length);
            return;
        }
        self.pieces.push((offset, piece));
    }

    /// Add all octets of another block at the end.
    pub(super) fn append(&mut self, other: Self) {
        for (_, piece) in other.pieces {
            self.push(piece);
        }
    }

    /// Add the octets from `start` to `end`, which must be there, to the datagram under construction.
    pub(super) fn give(&self, start: u64, end: u64, out: &mut Batch) {
        assert!(
            end <= self.octets,
            "a segment holds octets that were supplied"
        );
        let first = self.pieces.partition_point(|(offset, _)| *offset <= start);
        let pieces = self.pieces.get(first.saturating_sub(1)..);
        for (offset, piece) in pieces.unwrap_or_default() {
            if *offset >= end {
                break;
            }
            let from = start.saturating_sub(*offset);
            let to = end.saturating_sub(*offset).min(piece.length());
            out.push(part(piece, from, to));
        }
    }

    /// Nobody needs the octets again.
    pub(super) fn clear(&mut self) {
        self.pieces = Vec::new();
    }
}

fn part(piece: &Piece, from: u64, to: u64) -> Piece {
    match piece {
        Piece::Octets(octets) => {
            let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(octets.len());
            let (from, to) = (index(from), index(to));
            Piece::Octets(if from < to {
                octets.slice(from..to)
            } else {
                Bytes::new()
            })
        }
        Piece::Extent(extent) => Piece::Extent(Extent {
            offset: extent.offset.saturating_add(from),
            length: to.saturating_sub(from),
        }),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn flatten(batch: &Batch) -> Vec<u64> {
        let octets = |piece: &Piece| match piece {
            Piece::Octets(octets) => octets.iter().map(|octet| u64::from(*octet)).collect(),
            Piece::Extent(extent) => {
                (extent.offset..extent.offset + extent.length).collect::<Vec<_>>()
            }
        };
        batch.pieces().iter().flat_map(octets).collect()
    }

    proptest! {
        #[test]
        fn any_part_is_that_part_of_the_whole(
            pieces in proptest::collection::vec((any::<bool>(), 0_u64..40, 0_u64..20), 1..10),
            from in 0_u64..200,
            length in 0_u64..200,
        ) {
            let (mut block, mut whole) = (Block::default(), vec![]);
            for (extent, offset, length) in pieces {
                whole.extend(offset..offset + length);
                block.push(if extent {
                    Piece::Extent(Extent { offset, length })
                } else {
                    Piece::Octets((offset..offset + length).map(|octet| u8::try_from(octet).unwrap()).collect())
                });
            }
            let end = (from + length).min(block.octets());
            let from = from.min(end);
            let mut out = Batch::new();
            block.give(from, end, &mut out);
            out.end_datagram();
            let range = usize::try_from(from).unwrap()..usize::try_from(end).unwrap();
            prop_assert_eq!(flatten(&out), &whole[range]);
        }
    }

    #[test]
    fn extents_that_follow_each_other_are_one() {
        let mut block = Block::default();
        for offset in [0, 10, 20, 40] {
            block.push(Piece::Extent(Extent { offset, length: 10 }));
        }
        assert_eq!((block.pieces.len(), block.octets()), (2, 40));
    }
}
