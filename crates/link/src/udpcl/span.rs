//! The octets of a transfer that have come, as ranges.

use alloc::vec::Vec;

/// Ranges of octets, in order, none touching the next.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// Start and end of each.
    ranges: Vec<(u64, u64)>,
    octets: u64,
}

/// The relation of a range to those that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// No octet of it is there.
    Nothing,
    /// Some are.
    Part,
    /// All are.
    Everything,
}

impl Spans {
    /// Octets in all ranges.
    pub(super) const fn octets(&self) -> u64 {
        self.octets
    }

    /// Ranges.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The part that is there of a range that is not empty.
    pub(super) fn overlap(&self, start: u64, end: u64) -> Overlap {
        match self.ranges.get(self.first_behind(start)) {
            Some((from, to)) if *from <= start && end <= *to => Overlap::Everything,
            Some((from, _)) if *from < end => Overlap::Part,
            _ => Overlap::Nothing,
        }
    }

    /// True when adding a range makes no further one: it touches one that is there.
    pub(super) fn touches(&self, start: u64, end: u64) -> bool {
        let at = self.first_behind(start);
        let before = at.checked_sub(1).and_then(|at| self.ranges.get(at));
        before.is_some_and(|(_, to)| *to == start)
            || self.ranges.get(at).is_some_and(|(from, _)| *from == end)
    }

    /// Add a range that is not empty and of which nothing is there.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        self.octets = self.octets.saturating_add(end.saturating_sub(start));
        let at = self.first_behind(start);
        let joins_next = self.ranges.get(at).is_some_and(|(from, _)| *from == end);
        let before = at.checked_sub(1);
        let previous = before.and_then(|at| self.ranges.get_mut(at));
        match previous.filter(|(_, to)| *to == start) {
            Some(previous) => {
                previous.1 = end;
                if joins_next {
                    let (_, to) = self.ranges.remove(at);
                    if let Some(previous) = before.and_then(|at| self.ranges.get_mut(at)) {
                        previous.1 = to;
                    }
                }
            }
            None => match self.ranges.get_mut(at).filter(|_| joins_next) {
                Some(next) => next.0 = start,
                None => self.ranges.insert(at, (start, end)),
            },
        }
    }

    /// The place of the first range that ends behind `start`. Mostly octets come in order: it is the end.
    fn first_behind(&self, start: u64) -> usize {
        match self.ranges.last() {
            Some((_, to)) if *to > start => self.ranges.partition_point(|(_, to)| *to <= start),
            _ => self.ranges.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The same as a list of octets.
        #[test]
        fn ranges_say_what_a_list_of_octets_says(ranges in proptest::collection::vec((0_u64..40, 1_u64..12), 0..40)) {
            let mut spans = Spans::default();
            let mut octets = [false; 60];
            for (start, length) in ranges {
                let end = start + length;
                let there = (start..end).filter(|at| octets[usize::try_from(*at).unwrap()]).count();
                let expected = match u64::try_from(there).unwrap() {
                    0 => Overlap::Nothing,
                    there if there == length => Overlap::Everything,
                    _ => Overlap::Part,
                };
                prop_assert_eq!(spans.overlap(start, end), expected);
                if expected == Overlap::Nothing {
                    let (before, touches) = (spans.len(), spans.touches(start, end));
                    spans.insert(start, end);
                    prop_assert_eq!(touches, spans.len() <= before);
                    (start..end).for_each(|at| octets[usize::try_from(at).unwrap()] = true);
                }
                let count = octets.iter().filter(|there| **there).count();
                prop_assert_eq!(spans.octets(), u64::try_from(count).unwrap());
                let starts = octets.iter().enumerate().filter(|(at, there)| **there && (*at == 0 || !octets[at - 1]));
                prop_assert_eq!(spans.len(), starts.count());
            }
        }
    }
}
