//! Octets on their way into a socket.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf as _, Bytes};

/// Slices handed to the system in one gather-write (Linux takes up to 1,024).
pub const SLICES_PER_WRITE: usize = 512;

/// Octets polled at a time: some buffers' worth, so that a write call carries much and an acknowledgment behind it does not wait long.
pub const GATHER_OCTETS: usize = 1 << 20;

/// Octets that are polled at a time in any case: a peer that reads goes on, however many others do not.
pub const GATHER_OCTETS_MIN: usize = 16 << 10;

/// Octets that are copied out of the buffers that they came in whenever their peer takes nothing.
const COPIED_OCTETS: usize = 64 << 10;

/// One connection gets a part of what is left that is one of so many: there is always some left for the next.
const LEFT_SHARE: usize = 4;

/// Octets that connections may have polled and not written, where nothing else is said.
const UNWRITTEN_OCTETS: u64 = 256 << 20;

/// Octets that were polled and are not written, of all connections together. A peer that does not read holds what was
/// polled last, for as long as it likes.
#[derive(Clone, Debug)]
pub struct Unwritten {
    octets: Arc<AtomicUsize>,
    bound: Arc<AtomicUsize>,
}

impl Default for Unwritten {
    fn default() -> Self {
        Self::with_bound(UNWRITTEN_OCTETS)
    }
}

impl Unwritten {
    /// None yet, and about so many octets at most, beside [`GATHER_OCTETS_MIN`] of each connection.
    #[must_use]
    pub fn with_bound(octets: u64) -> Self {
        Self {
            octets: Arc::default(),
            bound: Arc::new(AtomicUsize::new(clip(octets))),
        }
    }

    /// The octets that a connection which has written all is to poll next.
    #[must_use]
    pub fn next_octets(&self) -> usize {
        let left = self.bound().saturating_sub(self.octets());
        (left / LEFT_SHARE).clamp(GATHER_OCTETS_MIN, GATHER_OCTETS)
    }

    /// Whether there are so many that each connection is to hold nothing else with its own.
    fn is_scarce(&self) -> bool {
        self.octets() > self.bound() / 2
    }

    /// Let there be so many from now on.
    pub fn set_bound(&self, octets: u64) {
        self.bound.store(clip(octets), Ordering::Relaxed);
    }

    fn bound(&self) -> usize {
        self.bound.load(Ordering::Relaxed)
    }

    /// Octets that are polled and not written.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.octets.load(Ordering::Relaxed)
    }
}

fn clip(octets: u64) -> usize {
    usize::try_from(octets).unwrap_or(usize::MAX)
}

/// Octets polled and not yet written, in order.
#[derive(Debug)]
pub struct Outgoing {
    pieces: Vec<Bytes>,
    /// Pieces before this one are written.
    next: usize,
    unwritten: Unwritten,
    /// The number of these octets that is counted there.
    counted: usize,
    /// Whether the pieces are slices of larger buffers, which stay as long as they do.
    is_sliced: bool,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl Outgoing {
    /// Nothing yet; octets that come count as unwritten.
    #[must_use]
    pub const fn within(unwritten: Unwritten) -> Self {
        Self {
            pieces: Vec::new(),
            next: 0,
            unwritten,
            counted: 0,
            is_sliced: false,
        }
    }

    /// The number of octets to be polled next.
    #[must_use]
    pub fn next_octets(&self) -> usize {
        self.unwritten.next_octets()
    }

    /// New pieces are all there.
    pub fn refilled(&mut self) {
        let octets = self.pieces.iter().map(Bytes::len).sum();
        self.count(octets);
        self.is_sliced = true;
    }

    /// The peer takes nothing at present: where memory is scarce, octets that are left let go of the buffers that they came in. A little does
    /// so in any case: its buffer may be many times as large.
    pub fn stand_by(&mut self) {
        let left = self.pieces.get(self.next..).unwrap_or_default();
        let is_little = left.iter().map(Bytes::len).sum::<usize>() <= COPIED_OCTETS;
        if !self.is_sliced || !(is_little || self.unwritten.is_scarce()) {
            return;
        }
        let together = Bytes::from(left.concat());
        self.pieces = vec![together];
        self.next = 0;
        self.is_sliced = false;
    }

    fn count(&mut self, octets: usize) {
        let all = &self.unwritten.octets;
        if octets > self.counted {
            all.fetch_add(octets - self.counted, Ordering::Relaxed);
        } else {
            all.fetch_sub(self.counted - octets, Ordering::Relaxed);
        }
        self.counted = octets;
    }

    /// True when everything is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next >= self.pieces.len()
    }

    /// The list for new pieces, once everything before is written.
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
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_taken_at_a_time_leaves_in_order() {
        for step in 1..9 {
            let mut outgoing = Outgoing::within(Unwritten::with_bound(100));
            outgoing.refill().extend([
                Bytes::from_static(b"one"),
                Bytes::new(),
                Bytes::from_static(b"twofour"),
            ]);
            outgoing.refilled();
            assert_eq!(outgoing.unwritten.octets(), 10);
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
            assert_eq!(outgoing.unwritten.octets(), 0);
        }
    }

    #[test]
    fn what_waits_long_holds_no_more_than_itself_where_memory_is_scarce() {
        let unwritten = Unwritten::with_bound(500_000);
        let whole = Bytes::from(vec![7; 10_000_000]);
        let mut outgoing = Outgoing::within(unwritten);
        outgoing
            .refill()
            .extend([whole.slice(..100_000), whole.slice(500_000..600_000)]);
        outgoing.refilled();
        outgoing.advance(40_000);
        outgoing.stand_by();
        assert!(!whole.is_unique(), "there is enough memory");
        outgoing.advance(160_000);
        outgoing.refill().push(whole.slice(..300_000));
        outgoing.refilled();
        outgoing.advance(40_000);
        outgoing.stand_by();
        assert!(whole.is_unique());
        let mut slices = [IoSlice::new(&[]); 2];
        assert_eq!(outgoing.slices(&mut slices), 1);
        assert!(slices[0].len() == 260_000 && slices[0].iter().all(|octet| *octet == 7));
        outgoing.advance(260_000);
        assert!(outgoing.is_empty());
    }

    #[test]
    fn a_little_that_waits_holds_no_more_than_itself() {
        let whole = Bytes::from(vec![7; 1 << 20]);
        let mut outgoing = Outgoing::within(Unwritten::default());
        outgoing.refill().push(whole.slice(..GATHER_OCTETS_MIN));
        outgoing.refilled();
        outgoing.stand_by();
        assert!(whole.is_unique());
    }

    #[test]
    fn those_that_are_not_read_leave_something_for_all_others() {
        let unwritten = Unwritten::with_bound(4 << 20);
        let mut silent = Vec::new();
        for _ in 0..200 {
            let mut outgoing = Outgoing::within(unwritten.clone());
            let octets = outgoing.next_octets();
            outgoing.refill().push(Bytes::from(vec![0; octets]));
            outgoing.refilled();
            silent.push(outgoing);
        }
        assert_eq!(silent[0].counted, GATHER_OCTETS);
        assert!(unwritten.octets() <= (4 << 20) + 200 * GATHER_OCTETS_MIN);
        assert_eq!(unwritten.next_octets(), GATHER_OCTETS_MIN);
        drop(silent);
        assert_eq!(
            (unwritten.octets(), unwritten.next_octets()),
            (0, GATHER_OCTETS)
        );
    }
}
