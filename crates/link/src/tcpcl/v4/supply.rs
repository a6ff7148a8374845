//! The octets that a node supplies for a transfer, as they wait to be sent.

use alloc::collections::VecDeque;

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};

/// Octets of one piece of zeros; a segment of 1 MiB takes 16.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Pieces of a transfer in order. They are handed on in parts and never copied.
#[derive(Debug, Default)]
pub(super) struct Supply {
    pieces: VecDeque<Piece>,
    /// Octets ever supplied.
    total: u64,
}

impl Supply {
    /// Add octets at the end.
    pub(super) fn push(&mut self, octets: Piece) {
        let length = octets.length();
        if length > 0 {
            self.total = self.total.saturating_add(length);
            self.pieces.push_back(octets);
        }
    }

    /// Octets ever supplied.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Nothing of what is left goes out; so many zeros do, to end the segment begun.
    pub(super) fn blank(&mut self, mut length: u64) {
        self.clear();
        while length > 0 {
            let zeros = usize::try_from(length).unwrap_or(usize::MAX);
            let piece = Piece::Octets(Bytes::from_static(ZEROS.get(..zeros).unwrap_or(&ZEROS)));
            length = length.saturating_sub(piece.length());
            self.pieces.push_back(piece);
        }
    }

    /// Forget what is left.
    pub(super) fn clear(&mut self) {
        self.pieces = VecDeque::new();
    }

    /// Take up to `length` octets from the front: one piece or a part of one.
    pub(super) fn take(&mut self, length: u64) -> Piece {
        let part = match self.pieces.front_mut() {
            Some(Piece::Octets(octets)) => usize::try_from(length)
                .ok()
                .filter(|length| *length < octets.len())
                .map(|length| Piece::Octets(octets.split_to(length))),
            Some(Piece::Extent(extent)) if length < extent.length => {
                let part = Extent {
                    offset: extent.offset,
                    length,
                };
                extent.offset = extent.offset.saturating_add(length);
                extent.length -= length;
                Some(Piece::Extent(part))
            }
            Some(Piece::Extent(_)) | None => None,
        };
        let piece = part.or_else(|| self.pieces.pop_front());
        assert!(
            piece.is_some(),
            "a segment never announces more octets than were supplied"
        );
        piece.unwrap_or(Piece::Octets(Bytes::new()))
    }
}
