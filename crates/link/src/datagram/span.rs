//! The octets of a transfer that have come, as ranges.

use alloc::vec::Vec;

/// Ranges of octets, in order, none touching the next.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// Start and end of each.
    ranges: Vec<(u64, u64)>,
    octets: u64,
}

/// The relation of a range to those that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// No octet of it is there.
    Nothing,
    /// Some are.
    Part,
    /// All are.
    Everything,
}

impl Spans {
    /// Octets in all ranges.
    pub(crate) const fn octets(&self) -> u64 {
        self.octets
    }

    /// Ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The part that is there of a range that is not empty.
    pub(crate) fn overlap(&self, start: u64, end: u64) -> Overlap {
        match self.ranges.get(self.first_behind(start)) {
            Some((from, to)) if *from <= start && end <= *to => Overlap::Everything,
            Some((from, _)) if *from < end => Overlap::Part,
            _ => Overlap::Nothing,
        }
    }

    /// True when adding a range makes no further one: it touches one that is there.
    pub(crate) fn touches(&self, start: u64, end: u64) -> bool {
        let at = self.first_behind(start);
        let before = at.checked_sub(1).and_then(|at| self.ranges.get(at));
        before.is_some_and(|(_, to)| *to == start)
            || self.ranges.get(at).is_some_and(|(from, _)| *from == end)
    }

    /// Add a range that is not empty and of which nothing is there.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
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

    /// The parts of a range that are not there, in order.
    pub(crate) fn gaps(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let behind = self.ranges.get(self.first_behind(start)..);
        let there = behind.unwrap_or_default().iter();
        // The last gap ends where the range does.
        let there = there.copied().chain(core::iter::once((end, end)));
        let mut at = start;
        there
            .map(move |(from, to)| {
                let gap = (at, from.min(end));
                at = at.max(to);
                gap
            })
            .take_while(move |(from, _)| *from < end)
            .filter(|(from, to)| from < to)
    }

    /// The parts of a range that are there, in order. A range that ends before it begins has none.
    pub(crate) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let behind = self.ranges.get(self.first_behind(start)..);
        let there = behind.unwrap_or_default().iter();
        there
            .take_while(move |(from, _)| *from < end && start < end)
            .map(move |(from, to)| ((*from).max(start), (*to).min(end)))
    }

    /// Ranges of which a part lies in this one, counted without a look at each.
    pub(crate) fn count_within(&self, start: u64, end: u64) -> usize {
        let first = self.first_behind(start);
        let last = self.ranges.partition_point(|(from, _)| *from < end);
        last.saturating_sub(first)
    }

    /// Add what is not there yet of a range.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        while let Some((from, to)) = { self.gaps(start, end).next() } {
            self.insert(from, to);
        }
    }

    /// True when every octet of a range is there; of one that is empty, always.
    pub(crate) fn has_all(&self, start: u64, end: u64) -> bool {
        self.gaps(start, end).next().is_none()
    }

    /// The octets at the start that are there without a gap.
    pub(crate) fn prefix(&self) -> u64 {
        match self.ranges.first() {
            Some((0, to)) => *to,
            _ => 0,
        }
    }

    /// The start of the first range and the end of the last.
    pub(crate) fn bounds(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.ranges.first()?, self.ranges.last()?);
        Some((first.0, last.1))
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
                let listed: Vec<u64> = (start..end).filter(|at| !octets[usize::try_from(*at).unwrap()]).collect();
                prop_assert_eq!(spans.gaps(start, end).flat_map(|(from, to)| from..to).collect::<Vec<_>>(), listed);
                let listed: Vec<u64> = (start..end).filter(|at| octets[usize::try_from(*at).unwrap()]).collect();
                prop_assert_eq!(spans.within(start, end).flat_map(|(from, to)| from..to).collect::<Vec<_>>(), listed);
                prop_assert_eq!(spans.count_within(start, end), spans.within(start, end).count());
                if expected == Overlap::Part {
                    spans.add(start, end);
                    (start..end).for_each(|at| octets[usize::try_from(at).unwrap()] = true);
                    prop_assert!(spans.has_all(start, end));
                }
                let prefix = octets.iter().take_while(|there| **there).count();
                prop_assert_eq!(spans.prefix(), u64::try_from(prefix).unwrap());
                let count = octets.iter().filter(|there| **there).count();
                prop_assert_eq!(spans.octets(), u64::try_from(count).unwrap());
                let starts = octets.iter().enumerate().filter(|(at, there)| **there && (*at == 0 || !octets[at - 1]));
                prop_assert_eq!(spans.len(), starts.count());
            }
        }
    }
}
