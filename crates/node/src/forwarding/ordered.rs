//! Bundles that wait for one thing, in order.
//!
//! Nearly all come last and leave first, so they are a chain through their entries; a bundle that comes back to a place before the last stands
//! aside in a tree.

use alloc::collections::BTreeSet;

use dhow_bundle::storage::BundleKey;

use crate::held::bundles::{Bundles, Entry};
use crate::held::chain::{Chain, Standing, Waiting};
use crate::memory::tree_octets;

/// Bundles by their places in the order, each of which is taken once.
#[derive(Default)]
pub(crate) struct Ordered {
    run: Chain<Waiting>,
    /// Bundles that came to a place that was not the last.
    aside: BTreeSet<(u64, BundleKey)>,
}

impl Ordered {
    /// Put a bundle, which waits nowhere else, to its place.
    pub(crate) fn insert(&mut self, bundles: &mut Bundles, key: BundleKey) {
        let order = |key| bundles.entry(key).map(Entry::order);
        let Some(place) = order(key) else { return };
        let is_last = self.run.last().and_then(order).is_none_or(|it| it < place);
        let is_first = || {
            self.run
                .first()
                .and_then(order)
                .is_some_and(|it| place < it)
        };
        if is_last {
            self.run.push_back(bundles, key);
        } else if is_first() {
            self.run.push_front(bundles, key);
        } else {
            if let Some(entry) = bundles.entry_mut(key) {
                Chain::<Waiting>::set_beside(entry, true);
            }
            self.aside.insert((place, key));
        }
    }

    pub(crate) fn remove(&mut self, bundles: &mut Bundles, key: BundleKey) {
        let Some(entry) = bundles.entry_mut(key) else {
            return;
        };
        match Chain::<Waiting>::standing(entry) {
            Standing::Out => {}
            Standing::Beside => {
                self.aside.remove(&(entry.order(), key));
                Chain::<Waiting>::set_beside(entry, false);
            }
            Standing::In => self.run.remove(bundles, key),
        }
    }

    /// Whether a bundle, which waits nowhere else, is here.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn contains(&self, entry: &Entry, key: BundleKey) -> bool {
        match Chain::<Waiting>::standing(entry) {
            Standing::Out => false,
            Standing::Beside => self.aside.contains(&(entry.order(), key)),
            Standing::In => !self.run.is_empty(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.run.len() + self.aside.len()
    }

    /// Octets of memory that it takes beside itself and the entries.
    pub(crate) fn memory_octets(&self) -> usize {
        tree_octets::<(u64, BundleKey)>(self.aside.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.run.is_empty() && self.aside.is_empty()
    }

    pub(crate) fn first(&self, bundles: &Bundles) -> Option<(u64, BundleKey)> {
        let run = self.run.first();
        let run = run.and_then(|key| Some((bundles.entry(key)?.order(), key)));
        let aside = self.aside.first().copied();
        match (run, aside) {
            (Some(run), Some(aside)) => Some(run.min(aside)),
            (run, aside) => run.or(aside),
        }
    }

    /// The first in order; of the run, no more than `looks` are looked at.
    pub(crate) fn iter(
        &self,
        bundles: &Bundles,
        looks: usize,
    ) -> impl Iterator<Item = (u64, BundleKey)> {
        let is_whole = self.run.len() <= looks;
        let run = self.run.iter(bundles).take(looks);
        let mut run = run.map(|(key, entry)| (entry.order(), key)).peekable();
        let mut aside = self.aside.iter().copied().peekable();
        core::iter::from_fn(move || match (run.peek(), aside.peek()) {
            (Some(first), Some(other)) if other < first => aside.next(),
            (Some(_), _) => run.next(),
            (None, _) if is_whole => aside.next(),
            (None, _) => None,
        })
    }

    /// Whether the run has as many bundles as it counts, in order.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_whole(&self, bundles: &Bundles) -> bool {
        let run = || self.run.iter(bundles).map(|(_, entry)| entry.order());
        run().count() == self.run.len() && run().is_sorted_by(|one, other| one < other)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use dhow_bundle::Instant;
    use proptest::prelude::*;

    use super::*;
    use crate::held::bundles::tests::entry;

    proptest! {
        #[test]
        fn a_line_is_an_ordered_set(
            steps in proptest::collection::vec((0_u8..6, any::<prop::sample::Index>()), 0..400)
        ) {
            let (mut ordered, mut set) = (Ordered::default(), BTreeSet::new());
            let mut bundles = Bundles::new(1);
            let mut away: Vec<(u64, BundleKey)> = Vec::new();
            let mut next = 0;
            for (step, which) in steps {
                match step {
                    0..3 => {
                        next += 2;
                        let key = bundles.insert(entry(next, Instant::START));
                        bundles.entry_mut(key).unwrap().set_order(next);
                        ordered.insert(&mut bundles, key);
                        set.insert((next, key));
                    }
                    3 if !away.is_empty() => {
                        let (place, key) = away.swap_remove(which.index(away.len()));
                        ordered.insert(&mut bundles, key);
                        set.insert((place, key));
                    }
                    4 if !set.is_empty() => {
                        let &(place, key) = set.iter().nth(which.index(set.len())).unwrap();
                        set.remove(&(place, key));
                        ordered.remove(&mut bundles, key);
                        ordered.remove(&mut bundles, key);
                        away.push((place, key));
                    }
                    _ => if let Some((place, key)) = set.pop_first() {
                        ordered.remove(&mut bundles, key);
                        away.push((place, key));
                    },
                }
                prop_assert!(ordered.iter(&bundles, usize::MAX).eq(set.iter().copied()));
                prop_assert_eq!(ordered.first(&bundles), set.first().copied());
                prop_assert_eq!(ordered.len(), set.len());
                prop_assert_eq!(ordered.is_empty(), set.is_empty());
                prop_assert!(ordered.is_whole(&bundles));
                let has = |&(_, key): &(u64, BundleKey)| ordered.contains(bundles.entry(key).unwrap(), key);
                prop_assert!(set.iter().all(has));
                prop_assert!(!away.iter().any(has));
            }
        }
    }

    #[test]
    fn no_more_is_looked_at_than_is_said() {
        let (mut ordered, mut bundles) = (Ordered::default(), Bundles::new(1));
        let keys: Vec<BundleKey> = (0..1_000)
            .map(|place| {
                let key = bundles.insert(entry(place, Instant::START));
                bundles.entry_mut(key).unwrap().set_order(place);
                ordered.insert(&mut bundles, key);
                key
            })
            .collect();
        assert_eq!(ordered.iter(&bundles, 256).count(), 256);
        for key in &keys[1..990] {
            ordered.remove(&mut bundles, *key);
        }
        assert_eq!(
            (ordered.len(), ordered.iter(&bundles, 256).count()),
            (11, 11)
        );
    }
}
