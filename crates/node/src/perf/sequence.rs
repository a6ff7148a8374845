//! Sequence numbers of a stream that have come, in any order.

use alloc::collections::BTreeMap;

/// Ranges that are kept apart, at most: gaps that may still be filled, 2 KiB a stream. Beyond it the oldest
/// gap is taken for lost, and what yet comes of it is counted as uncertain.
const RANGES_MAX: usize = 128;

/// The relation of a sequence number to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    /// The number has not come before.
    New,
    /// The number has come before.
    Repeated,
    /// The number lies in a gap that is no longer kept.
    Uncertain,
}

/// The sequence numbers that have come.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// Below this nothing is kept.
    floor: u64,
    /// First number of each range, and the one behind its last.
    ranges: BTreeMap<u64, u64>,
}

impl Sequence {
    /// A number has come.
    pub(super) fn insert(&mut self, number: u64) -> Novelty {
        if number < self.floor {
            return Novelty::Uncertain;
        }
        let Some(end) = number.checked_add(1) else {
            // The last number of 64 bits would have no end; no stream gets so far.
            return Novelty::Uncertain;
        };
        let before = self.ranges.range(..=number).next_back();
        let mut start = number;
        if let Some((&first, &behind)) = before {
            if number < behind {
                return Novelty::Repeated;
            }
            if number == behind {
                start = first;
            }
        }
        let end = self.ranges.remove(&end).unwrap_or(end);
        self.ranges.insert(start, end);
        if self.ranges.len() > RANGES_MAX
            && let Some((_, end)) = self.ranges.pop_first()
        {
            self.floor = end;
        }
        Novelty::New
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn each_number_is_new_once_in_any_order() {
        let mut sequence = Sequence::default();
        // 37 and 101 have no common factor: every number below 101, in another order.
        let numbers: Vec<u64> = (0..101).map(|step| step * 37 % 101).collect();
        for &number in &numbers {
            assert_eq!(sequence.insert(number), Novelty::New, "{number}");
        }
        for &number in &numbers {
            assert_eq!(sequence.insert(number), Novelty::Repeated, "{number}");
        }
        assert_eq!(sequence.ranges.len(), 1, "no gap is left");
    }

    #[test]
    fn more_gaps_than_are_kept_make_the_oldest_uncertain() {
        let mut sequence = Sequence::default();
        for number in 0..1_000 {
            assert_eq!(sequence.insert(2 * number), Novelty::New);
            assert!(sequence.ranges.len() <= RANGES_MAX);
        }
        assert_eq!(sequence.insert(1), Novelty::Uncertain);
        assert_eq!(sequence.insert(0), Novelty::Uncertain);
        assert_eq!(sequence.insert(1_999), Novelty::New);
        assert_eq!(sequence.insert(1_997), Novelty::New);
        assert_eq!(sequence.insert(1_998), Novelty::Repeated);
        assert_eq!(sequence.insert(u64::MAX), Novelty::Uncertain);
    }
}
