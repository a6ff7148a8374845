//! Octets on their way into a socket.

use std::io::IoSlice;

use bytes::{Buf as _, Bytes};

/// Slices handed to the system in one gather-write (Linux takes up to 1,024).
pub const SLICES_PER_WRITE: usize = 512;

/// Octets polled and not yet written, in order.
#[derive(Debug, Default)]
pub struct Outgoing {
    pieces: Vec<Bytes>,
    /// Pieces before this one are written.
    next: usize,
}

impl Outgoing {
    /// True when everything is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next >= self.pieces.len()
    }

    /// Where new pieces go, once everything before is written.
    pub fn refill(&mut self) -> &mut Vec<Bytes> {
        assert!(
            self.is_empty(),
            "octets are polled only when those before are written"
        );
        self.pieces.clear();
        self.next = 0;
        &mut self.pieces
    }

    /// The next slices to write; how many there are comes back.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let left = self.pieces.get(self.next..).unwrap_or(&[]);
        let mut count = 0;
        for (slot, piece) in slices.iter_mut().zip(left) {
            *slot = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    /// This many octets were written.
    pub fn advance(&mut self, mut octets: usize) {
        while let Some(piece) = self.pieces.get_mut(self.next) {
            if octets < piece.len() {
                piece.advance(octets);
                return;
            }
            octets -= piece.len();
            // The slice is let go at once, so that its buffer can be used again.
            *piece = Bytes::new();
            self.next += 1;
        }
        assert!(octets == 0, "no more can be written than was given");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_taken_at_a_time_leaves_in_order() {
        for step in 1..9 {
            let mut outgoing = Outgoing::default();
            outgoing.refill().extend([
                Bytes::from_static(b"one"),
                Bytes::new(),
                Bytes::from_static(b"twofour"),
            ]);
            let mut written = Vec::new();
            while !outgoing.is_empty() {
                let mut slices = [IoSlice::new(&[]); 2];
                let count = outgoing.slices(&mut slices);
                let octets: Vec<u8> = slices[..count]
                    .iter()
                    .flat_map(|slice| slice.iter().copied())
                    .take(step)
                    .collect();
                let taken = octets.len();
                written.extend(octets);
                outgoing.advance(taken);
            }
            assert_eq!(written, b"onetwofour", "step {step}");
        }
    }
}
