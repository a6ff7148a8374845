//! The octets that a node supplies for a transfer, as they wait to be sent.

use alloc::collections::VecDeque;

use dhow_bundle::storage::{Extent, Piece};

use crate::datagram::Batch;

/// Pieces in order. They are handed on in parts and never copied.
#[derive(Debug, Default)]
pub(super) struct Supply {
    pieces: VecDeque<Piece>,
    /// Octets in the pieces.
    octets: u64,
}

impl Supply {
    /// Octets that are there.
    pub(super) const fn octets(&self) -> u64 {
        self.octets
    }

    /// Add octets at the end.
    pub(super) fn push(&mut self, piece: Piece) {
        let length = piece.length();
        if length > 0 {
            self.octets = self.octets.saturating_add(length);
            self.pieces.push_back(piece);
        }
    }

    /// Move the first `length` octets, which must be there, to the datagram under construction.
    pub(super) fn give(&mut self, mut length: u64, out: &mut Batch) {
        assert!(
            length <= self.octets,
            "a datagram holds no more octets than were supplied"
        );
        self.octets = self.octets.saturating_sub(length);
        while length > 0
            && let Some(front) = self.pieces.front_mut()
        {
            let whole = front.length();
            let piece = match front {
                Piece::Octets(octets) if length < whole => {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    Some(Piece::Octets(octets.split_to(length.min(octets.len()))))
                }
                Piece::Extent(extent) if length < whole => {
                    let part = Extent {
                        offset: extent.offset,
                        length,
                    };
                    extent.offset = extent.offset.saturating_add(length);
                    extent.length = whole.saturating_sub(length);
                    Some(Piece::Extent(part))
                }
                Piece::Octets(_) | Piece::Extent(_) => self.pieces.pop_front(),
            };
            if let Some(piece) = piece {
                length = length.saturating_sub(piece.length());
                out.push(piece);
            }
        }
    }
}
