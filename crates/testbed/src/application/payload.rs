//! The payloads of bundles: octets that name the payload, and then octets that follow from the name and the seed.

use std::io::{self, Read};
use std::sync::Arc;

use dhow_scenario::Entropy;

/// Octets that payloads are cut from.
const POOL_OCTETS: usize = 1 << 16;

/// The first octets of each payload.
const MARK: u32 = 0x6468_6f77;

/// Octets of mark and name.
pub const HEAD_OCTETS: usize = 16;

/// The purpose of this entropy.
const PURPOSE: u64 = 1;

/// The name of a payload within a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The position of its traffic in the scenario.
    pub traffic: u32,
    /// The number of the payload within that traffic, from 0.
    pub number: u64,
}

/// Octets that all payloads of a run are cut from.
#[derive(Clone, Debug)]
pub struct Pool(Arc<[u8]>);

impl Pool {
    /// The pool of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut entropy = Entropy::new(seed, PURPOSE, 0);
        let words = (0..POOL_OCTETS / 8).flat_map(|_| entropy.draw().to_le_bytes());
        Self(words.collect())
    }

    /// A payload of so many octets, at least [`HEAD_OCTETS`].
    #[must_use]
    pub fn payload(&self, name: Name, octets: u64) -> Payload {
        let mut head = [0; HEAD_OCTETS];
        let words = MARK
            .to_le_bytes()
            .into_iter()
            .chain(name.traffic.to_le_bytes())
            .chain(name.number.to_le_bytes());
        for (place, octet) in head.iter_mut().zip(words) {
            *place = octet;
        }
        // Payloads beside each other begin at different places of the pool.
        let mixed = name.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let start = usize::try_from(mixed ^ u64::from(name.traffic)).unwrap_or(0) % POOL_OCTETS;
        Payload {
            pool: Arc::clone(&self.0),
            head,
            start,
            position: 0,
            left: octets,
        }
    }
}

impl Name {
    /// The name with which a payload's octets begin; `None` if they have no mark.
    #[must_use]
    pub fn of(octets: &[u8]) -> Option<Self> {
        let (mark, rest) = octets.split_first_chunk::<4>()?;
        let (traffic, rest) = rest.split_first_chunk::<4>()?;
        let (number, _) = rest.split_first_chunk::<8>()?;
        (u32::from_le_bytes(*mark) == MARK).then_some(Self {
            traffic: u32::from_le_bytes(*traffic),
            number: u64::from_le_bytes(*number),
        })
    }
}

/// A payload as octets that are read one after the other.
#[derive(Clone, Debug)]
pub struct Payload {
    pool: Arc<[u8]>,
    head: [u8; HEAD_OCTETS],
    start: usize,
    position: usize,
    left: u64,
}

impl Payload {
    /// The octets that come next, as many as lie beside each other and at most so many; they count as read.
    fn next(&mut self, most: usize) -> &[u8] {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX).min(most);
        let piece = match self.head.get(self.position..) {
            Some(head) if !head.is_empty() => head,
            _ => {
                let from = (self.start + self.position - HEAD_OCTETS) % POOL_OCTETS;
                self.pool.get(from..).unwrap_or_default()
            }
        };
        let piece = piece.get(..piece.len().min(left)).unwrap_or_default();
        self.position += piece.len();
        self.left -= u64::try_from(piece.len()).unwrap_or(0);
        piece
    }

    /// True if the next octets of the payload are these; it goes on behind them.
    pub fn is_next(&mut self, mut found: &[u8]) -> bool {
        while !found.is_empty() {
            let expected = self.next(found.len());
            let (same, rest) = found.split_at(expected.len());
            if expected.is_empty() || same != expected {
                return false;
            }
            found = rest;
        }
        true
    }
}

impl Read for Payload {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let piece = self.next(out.len());
        if let Some(room) = out.get_mut(..piece.len()) {
            room.copy_from_slice(piece);
        }
        Ok(piece.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_says_which_it_is_and_whether_it_is_whole() {
        let pool = Pool::new(3);
        for octets in [16, 17, 1_000, 65_552, 200_000] {
            let name = Name {
                traffic: 2,
                number: 77,
            };
            let mut whole = Vec::new();
            let read = pool.payload(name, octets).read_to_end(&mut whole);
            assert_eq!(read.expect("memory").to_string(), octets.to_string());
            assert_eq!(Name::of(&whole), Some(name));
            let mut expected = pool.payload(name, octets);
            for piece in whole.chunks(777) {
                assert!(expected.is_next(piece));
            }
            assert!(!expected.is_next(&[0]), "one octet too many");
            let last = whole.len() - 1;
            whole[last] ^= 1;
            assert!(!pool.payload(name, octets).is_next(&whole));
        }
    }
}
