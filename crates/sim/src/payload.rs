//! Payloads of bundles: octets that say which payload it is, and then octets that follow from that.

use bytes::{BufMut as _, Bytes, BytesMut};
use dhow_scenario::scenario::Fidelity;

use crate::entropy::{Entropy, Purpose};
use crate::ledger::UnitName;
use crate::sparse::zeros;

/// Octets that payloads are cut from.
const POOL_OCTETS: u64 = 1 << 16;

/// The first octets of each payload.
const MARK: u32 = 0x6468_6f77;

/// Octets of mark and name.
const HEAD_OCTETS: usize = 16;

/// The payloads of one run.
#[derive(Clone, Debug)]
pub struct Payloads {
    pool: Bytes,
}

impl Payloads {
    /// The payloads that a seed gives; at bundle fidelity they are zeros behind their heads.
    #[must_use]
    pub fn of(fidelity: Fidelity, seed: u64) -> Self {
        match fidelity {
            Fidelity::Octet => Self::new(seed),
            Fidelity::Bundle => Self {
                pool: zeros(POOL_OCTETS).next().unwrap_or_default(),
            },
        }
    }

    fn new(seed: u64) -> Self {
        let mut entropy = Entropy::new(seed, Purpose::Payload, 0);
        let mut pool = BytesMut::new();
        for _ in 0..POOL_OCTETS / 8 {
            pool.put_u64_le(entropy.draw());
        }
        Self {
            pool: pool.freeze(),
        }
    }

    /// A payload in pieces.
    #[must_use]
    pub fn pieces(&self, name: UnitName, octets: u64) -> Pieces {
        let mut head = BytesMut::with_capacity(HEAD_OCTETS);
        head.put_u32_le(MARK);
        head.put_u32_le(name.traffic);
        head.put_u64_le(u64::from(name.number));
        let mixed = u64::from(name.number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let from = (mixed ^ u64::from(name.traffic)) % POOL_OCTETS;
        Pieces {
            pool: self.pool.clone(),
            head: Some(head.freeze()),
            from: usize::try_from(from).unwrap_or(0),
            left: octets,
        }
    }

    /// The name of the payload that octets begin with.
    #[must_use]
    pub fn name(octets: &[u8]) -> Option<UnitName> {
        let (mark, rest) = octets.split_first_chunk::<4>()?;
        let (traffic, rest) = rest.split_first_chunk::<4>()?;
        let (number, _) = rest.split_first_chunk::<8>()?;
        (u32::from_le_bytes(*mark) == MARK).then_some(())?;
        Some(UnitName {
            traffic: u32::from_le_bytes(*traffic),
            number: u32::try_from(u64::from_le_bytes(*number)).ok()?,
        })
    }

    /// Whether octets are those of a payload of so many octets from one of them on.
    #[must_use]
    pub fn goes_on(&self, name: UnitName, octets: u64, offset: u64, found: &[u8]) -> bool {
        let mut start = 0;
        let end = offset.saturating_add(length(found));
        let mut left = found;
        for piece in self.pieces(name, octets) {
            if start >= end {
                break;
            }
            let next = start + length(&piece);
            let skipped = usize::try_from(offset.max(start) - start).unwrap_or(usize::MAX);
            if next > offset {
                let part = piece.get(skipped..).unwrap_or_default();
                let (here, later) = left.split_at(part.len().min(left.len()));
                if part.get(..here.len()) != Some(here) {
                    return false;
                }
                left = later;
            }
            start = next;
        }
        left.is_empty()
    }

    /// The first octet that is not what it should be; `None` when all are.
    #[must_use]
    pub fn difference(&self, name: UnitName, octets: u64, found: &[u8]) -> Option<usize> {
        let mut position = 0;
        for piece in self.pieces(name, octets) {
            let part = found.get(position..).unwrap_or_default();
            let part = part.get(..piece.len().min(part.len())).unwrap_or_default();
            if part != &piece[..] {
                let same = part.iter().zip(&piece[..]).take_while(|(a, b)| a == b);
                return Some(position + same.count());
            }
            position += piece.len();
        }
        (found.len() != position).then_some(position)
    }
}

/// A payload in pieces, of which none is made before it is taken: its head, then slices of what all payloads are cut from.
#[derive(Clone, Debug)]
pub struct Pieces {
    pool: Bytes,
    /// The piece that comes first, until it is taken.
    head: Option<Bytes>,
    /// The place in the pool at which the next slice begins.
    from: usize,
    /// Octets that are not taken.
    left: u64,
}

impl Pieces {
    /// Whether all octets are taken.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let piece = match self.head.take() {
            _ if most == 0 => return None,
            Some(head) => head.slice(..head.len().min(most)),
            None => {
                let from = std::mem::take(&mut self.from);
                self.pool
                    .slice(from..self.pool.len().min(from.saturating_add(most)))
            }
        };
        self.left = self.left.saturating_sub(length(&piece));
        Some(piece)
    }
}

fn length(octets: &[u8]) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_says_which_it_is_and_whether_it_is_whole() {
        let payloads = Payloads::new(3);
        for octets in [16, 17, 1_000, 65_552, 200_000] {
            let name = UnitName {
                traffic: 2,
                number: 77,
            };
            let mut whole: Vec<u8> = payloads.pieces(name, octets).flatten().collect();
            assert_eq!(u64::try_from(whole.len()), Ok(octets));
            assert_eq!(Payloads::name(&whole), Some(name));
            assert_eq!(payloads.difference(name, octets, &whole), None);
            let last = whole.len() - 1;
            let half = u64::try_from(last / 2).unwrap();
            assert!(payloads.goes_on(name, octets, half, &whole[last / 2..last]));
            assert!(!payloads.goes_on(name, octets, half + 1, &whole[last / 2..last]));
            whole[last] ^= 1;
            assert_eq!(payloads.difference(name, octets, &whole), Some(last));
            whole.truncate(last);
            assert_eq!(payloads.difference(name, octets, &whole), Some(last));
        }
    }
}
