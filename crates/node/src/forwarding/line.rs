//! Bundles that wait for one thing, in order.
//!
//! Nearly all come last and leave first, so they stand in a run; what leaves from its middle leaves a gap, and what
//! comes back to a place before the last stands aside in a tree.

use alloc::collections::{BTreeSet, VecDeque};

use dhow_bundle::storage::BundleKey;

use crate::memory::tree_octets;

/// Gaps that a run may have beside one for every eighth place.
const SPARE_GAPS: usize = 64;

/// Bundles by their places, each of which is taken once.
#[derive(Default)]
pub(crate) struct Line {
    /// Places in order; neither the first nor the last of them is a gap.
    run: VecDeque<(u64, Option<BundleKey>)>,
    gaps: usize,
    /// What came to a place that was not the last.
    aside: BTreeSet<(u64, BundleKey)>,
}

impl Line {
    pub(crate) fn insert(&mut self, place: u64, key: BundleKey) {
        let last = self.run.back().map(|&(last, _)| last);
        let first = self.run.front().map(|&(first, _)| first);
        if last.is_none_or(|last| last < place) {
            self.run.push_back((place, Some(key)));
        } else if first.is_some_and(|first| place < first) {
            self.run.push_front((place, Some(key)));
        } else {
            self.aside.insert((place, key));
        }
    }

    pub(crate) fn remove(&mut self, place: u64, key: BundleKey) {
        if let Some(at) = self.find(place, key) {
            if let Some((_, slot)) = self.run.get_mut(at) {
                *slot = None;
                self.gaps += 1;
            }
            self.close_gaps();
        } else {
            self.aside.remove(&(place, key));
        }
    }

    pub(crate) fn contains(&self, place: u64, key: BundleKey) -> bool {
        self.find(place, key).is_some() || self.aside.contains(&(place, key))
    }

    pub(crate) fn len(&self) -> usize {
        self.run.len() - self.gaps + self.aside.len()
    }

    /// Octets of memory that it takes beside itself.
    pub(crate) fn memory_octets(&self) -> usize {
        self.run.capacity() * size_of::<(u64, Option<BundleKey>)>()
            + tree_octets::<(u64, BundleKey)>(self.aside.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.run.is_empty() && self.aside.is_empty()
    }

    pub(crate) fn first(&self) -> Option<(u64, BundleKey)> {
        let run = self
            .run
            .front()
            .and_then(|&(place, key)| Some((place, key?)));
        let aside = self.aside.first().copied();
        match (run, aside) {
            (Some(run), Some(aside)) => Some(run.min(aside)),
            (run, aside) => run.or(aside),
        }
    }

    /// The first in order; of the run, no more than `looks` places are looked at, gaps among them.
    pub(crate) fn iter(&self, looks: usize) -> impl Iterator<Item = (u64, BundleKey)> {
        let is_whole = self.run.len() <= looks;
        let run = self.run.iter().take(looks);
        let mut run = run
            .filter_map(|&(place, key)| Some((place, key?)))
            .peekable();
        let mut aside = self.aside.iter().copied().peekable();
        core::iter::from_fn(move || match (run.peek(), aside.peek()) {
            (Some(first), Some(other)) if other < first => aside.next(),
            (Some(_), _) => run.next(),
            (None, _) if is_whole => aside.next(),
            (None, _) => None,
        })
    }

    fn find(&self, place: u64, key: BundleKey) -> Option<usize> {
        let is_it = |at: &usize| self.run.get(*at) == Some(&(place, Some(key)));
        let first = Some(0).filter(is_it);
        first.or_else(|| {
            let at = self.run.binary_search_by_key(&place, |&(place, _)| place);
            at.ok().filter(is_it)
        })
    }

    fn close_gaps(&mut self) {
        while let Some((_, None)) = self.run.front() {
            self.run.pop_front();
            self.gaps -= 1;
        }
        while let Some((_, None)) = self.run.back() {
            self.run.pop_back();
            self.gaps -= 1;
        }
        if self.gaps > self.run.len() / 8 + SPARE_GAPS {
            self.run.retain(|(_, key)| key.is_some());
            self.gaps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_line_is_an_ordered_set(
            steps in proptest::collection::vec((0_u8..6, any::<prop::sample::Index>()), 0..400)
        ) {
            let (mut line, mut set) = (Line::default(), BTreeSet::new());
            let mut away: Vec<(u64, BundleKey)> = Vec::new();
            let mut next = 0;
            for (step, which) in steps {
                match step {
                    0..3 => {
                        next += 2;
                        let key = BundleKey(u32::try_from(next % 7).unwrap());
                        line.insert(next, key);
                        set.insert((next, key));
                    }
                    3 if !away.is_empty() => {
                        let (place, key) = away.swap_remove(which.index(away.len()));
                        line.insert(place, key);
                        set.insert((place, key));
                    }
                    4 if !set.is_empty() => {
                        let &(place, key) = set.iter().nth(which.index(set.len())).unwrap();
                        set.remove(&(place, key));
                        line.remove(place, key);
                        line.remove(place, key);
                        away.push((place, key));
                    }
                    _ => if let Some((place, key)) = set.pop_first() {
                        line.remove(place, key);
                        away.push((place, key));
                    },
                }
                prop_assert!(line.iter(usize::MAX).eq(set.iter().copied()));
                prop_assert_eq!(line.first(), set.first().copied());
                prop_assert_eq!(line.len(), set.len());
                prop_assert_eq!(line.is_empty(), set.is_empty());
                prop_assert!(set.iter().all(|&(place, key)| line.contains(place, key)));
                prop_assert!(away.iter().all(|&(place, key)| !line.contains(place, key)));
            }
        }
    }

    #[test]
    fn gaps_are_closed_before_they_are_many() {
        let mut line = Line::default();
        for place in 0..1_000 {
            line.insert(place, BundleKey(0));
        }
        for place in 1..990 {
            line.remove(place, BundleKey(0));
            assert!(line.gaps <= line.run.len() / 8 + SPARE_GAPS);
        }
        assert_eq!((line.len(), line.iter(256).count()), (11, 11));
    }
}
