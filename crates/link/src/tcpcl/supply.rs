//! The octets that a node supplies for a transfer, as they wait to be sent.

use alloc::collections::VecDeque;

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};

/// Octets of one piece of zeros; a segment of 1 MiB takes 16.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// The octets of transfers that are to be sent, in their order: those that have left take no room.
#[derive(Debug)]
pub(super) struct Supplies {
    waiting: VecDeque<Supply>,
}

impl Supplies {
    pub(super) const fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
        }
    }

    /// Adds a transfer to be sent.
    pub(super) fn push(&mut self, supply: Supply) {
        self.waiting.push_back(supply);
    }

    /// Of the transfer with this sequence number where the first has that one; `None` when it has left.
    pub(super) fn of(&mut self, sequence: u64, first: u64) -> Option<&mut Supply> {
        let ahead = sequence.checked_sub(first)?;
        self.waiting.get_mut(usize::try_from(ahead).ok()?)
    }

    /// The first transfer has wholly left, or is over.
    pub(super) fn pop(&mut self) {
        self.waiting.pop_front();
    }
}

/// Pieces of a transfer in order. They are handed on in parts and never copied.
///
/// Most transfers have two pieces, a bundle's header blocks and its body, which take no room elsewhere.
#[derive(Debug, Default)]
pub(super) struct Supply {
    /// The front; where it is empty, so is all behind it.
    first: Option<Piece>,
    /// The octets that follow it; if it is empty, so is all behind it.
    second: Option<Piece>,
    more: VecDeque<Piece>,
    /// Octets ever supplied.
    total: u64,
}

impl Supply {
    /// Add octets at the end.
    pub(super) fn push(&mut self, octets: Piece) {
        let length = octets.length();
        if length > 0 {
            self.total = self.total.saturating_add(length);
            self.add(octets);
        }
    }

    fn add(&mut self, piece: Piece) {
        if self.first.is_none() {
            self.first = Some(piece);
        } else if self.second.is_none() {
            self.second = Some(piece);
        } else {
            self.more.push_back(piece);
        }
    }

    fn pop(&mut self) -> Option<Piece> {
        let next = self.second.take();
        if next.is_some() {
            self.second = self.more.pop_front();
        }
        core::mem::replace(&mut self.first, next)
    }

    /// Octets ever supplied.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// None of the octets left goes out; so many zeros do, to end the segment begun.
    pub(super) fn blank(&mut self, mut length: u64) {
        self.clear();
        while length > 0 {
            let zeros = usize::try_from(length).unwrap_or(usize::MAX);
            let piece = Piece::Octets(Bytes::from_static(ZEROS.get(..zeros).unwrap_or(&ZEROS)));
            length = length.saturating_sub(piece.length());
            self.add(piece);
        }
    }

    /// Forget the octets left.
    pub(super) fn clear(&mut self) {
        self.first = None;
        self.second = None;
        self.more = VecDeque::new();
    }

    /// Take up to `length` octets from the front: one piece or a part of one.
    pub(super) fn take(&mut self, length: u64) -> Piece {
        let part = match &mut self.first {
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
        let piece = part.or_else(|| self.pop());
        assert!(
            piece.is_some(),
            "a segment never announces more octets than were supplied"
        );
        piece.unwrap_or(Piece::Octets(Bytes::new()))
    }
}
