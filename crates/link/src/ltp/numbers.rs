//! Session numbers and first serial numbers: hard to guess (RFC 5326 9.1), short, and never the same again.

use alloc::vec::Vec;

/// Session numbers have 31 bits: others keep them in 32.
const SESSION_BITS: u32 = 31;

/// Bits of a session number that are random. The others count: 8 million sessions have different numbers.
const RANDOM_BITS: u32 = 8;

/// First serial numbers are below this: four octets as an SDNV, and far from the greatest.
const SERIALS: u64 = 1 << 28;

/// Numbers that follow from a seed.
#[derive(Debug)]
pub(super) struct Numbers {
    state: u64,
    first: u64,
    sessions: u64,
}

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        let mut numbers = Self {
            state: seed,
            first: 0,
            sessions: 0,
        };
        numbers.first = numbers.random();
        numbers
    }

    /// The number of the next session (RFC 5326 3.1).
    pub(super) fn session(&mut self) -> u64 {
        let count = self.first.wrapping_add(self.sessions);
        self.sessions = self.sessions.saturating_add(1);
        let random = self.random() & ((1 << RANDOM_BITS) - 1);
        let number = (count << RANDOM_BITS | random) & ((1 << SESSION_BITS) - 1);
        number.max(1)
    }

    /// True when the number may be one that was given: its count is below the last.
    pub(super) fn was_given(&self, session: u64) -> bool {
        let counts = (1 << (SESSION_BITS - RANDOM_BITS)) - 1;
        let behind_first = (session >> RANDOM_BITS).wrapping_sub(self.first) & counts;
        session >> SESSION_BITS == 0 && (behind_first < self.sessions || self.sessions > counts)
    }

    /// RFC 5326 3.2.1, 3.2.2: the first serial number must be random and must not be zero.
    pub(super) fn serial(&mut self) -> u64 {
        (self.random() % SERIALS).max(1)
    }

    /// Octets that follow from the seed, for a cookie (RFC 5327 2.2).
    pub(super) fn octets(&mut self, count: usize) -> Vec<u8> {
        let mut octets = Vec::new();
        while octets.len() < count {
            octets.extend_from_slice(&self.random().to_be_bytes());
        }
        octets.truncate(count);
        octets
    }

    /// SplitMix64: spreads a seed; it is no source of randomness by itself.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn session_numbers_differ_and_are_known_again() {
        for seed in 0..50 {
            let mut numbers = Numbers::new(seed);
            let mut all = BTreeSet::new();
            assert!(!numbers.was_given(7) || seed > 0);
            for _ in 0..1_000 {
                let number = numbers.session();
                assert!(all.insert(number) && number < 1 << 31 && number > 0);
                assert!(
                    all.iter()
                        .rev()
                        .take(3)
                        .all(|number| numbers.was_given(*number))
                );
            }
            assert!(!numbers.was_given(1 << 31));
            assert!((1..SERIALS).contains(&numbers.serial()));
        }
    }
}
