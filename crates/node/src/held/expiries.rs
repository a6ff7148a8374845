//! Expiries of held bundles: in rough order as long as they are far off, to the nanosecond once they are near.
//!
//! A tree of all instants costs two descents of cold memory for every bundle that only passes through. Here a bundle is in a bag of those that
//! expire in about the same second, as a chain through their entries.

use alloc::collections::{BTreeMap, BTreeSet};

use dhow_bundle::Instant;
use dhow_bundle::storage::BundleKey;

use crate::held::bundles::Bundles;
use crate::held::chain::{Bag, Chain, Standing};
use crate::memory::tree_octets;

/// The instants of one bag, as a power of two of nanoseconds: about a second.
const BAG_BITS: u32 = 30;

/// The expiries of all bundles that have one.
#[derive(Default)]
pub(crate) struct Expiries {
    /// Bundles that expire soon, which stand beside the bags.
    soon: BTreeSet<(Instant, BundleKey)>,
    later: BTreeMap<u64, Chain<Bag>>,
    /// The first second that is not yet near.
    far: u64,
}

fn second(at: Instant) -> u64 {
    at.as_nanos() >> BAG_BITS
}

impl Expiries {
    /// Let a bundle expire when its entry says; one that does already stays so.
    pub(crate) fn insert(&mut self, bundles: &mut Bundles, key: BundleKey) {
        let Some(entry) = bundles.entry_mut(key) else {
            return;
        };
        if Chain::<Bag>::standing(entry) != Standing::Out {
            return;
        }
        let expires = entry.expires();
        let second = second(expires);
        if second < self.far {
            Chain::<Bag>::set_beside(entry, true);
            self.soon.insert((expires, key));
            return;
        }
        let bag = self.later.entry(second).or_default();
        bag.push_back(bundles, key);
    }

    /// Let a bundle expire no more.
    pub(crate) fn remove(&mut self, bundles: &mut Bundles, key: BundleKey) {
        let Some(entry) = bundles.entry_mut(key) else {
            return;
        };
        let expires = entry.expires();
        match Chain::<Bag>::standing(entry) {
            Standing::Out => {}
            Standing::Beside => {
                Chain::<Bag>::set_beside(entry, false);
                self.soon.remove(&(expires, key));
            }
            Standing::In => {
                let second = second(expires);
                if let Some(bag) = self.later.get_mut(&second) {
                    bag.remove(bundles, key);
                    if bag.is_empty() {
                        self.later.remove(&second);
                    }
                }
            }
        }
    }

    /// Whether a bundle expires some time.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn contains(&self, entry: &crate::held::bundles::Entry, key: BundleKey) -> bool {
        match Chain::<Bag>::standing(entry) {
            Standing::Out => false,
            Standing::Beside => self.soon.contains(&(entry.expires(), key)),
            Standing::In => self.later.contains_key(&second(entry.expires())),
        }
    }

    /// Bundles that expire some time.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn len(&self) -> usize {
        let later = self.later.values().map(Chain::len);
        later.fold(self.soon.len(), usize::saturating_add)
    }

    /// Octets of memory that they take beside the entries.
    pub(crate) fn memory_octets(&self) -> usize {
        tree_octets::<(Instant, BundleKey)>(self.soon.len())
            + tree_octets::<(u64, Chain<Bag>)>(self.later.len())
    }

    /// When the next bundle expires, or its second begins.
    pub(crate) fn next(&self) -> Option<Instant> {
        let soon = self.soon.first().map(|&(at, _)| at);
        let later = self.later.first_key_value();
        let later = later.map(|(second, _)| Instant::from_nanos(second << BAG_BITS));
        [soon, later].into_iter().flatten().min()
    }

    /// A bundle that has expired by now; it expires no more.
    pub(crate) fn pop(&mut self, bundles: &mut Bundles, now: Instant) -> Option<BundleKey> {
        while let Some(bag) = self.later.first_entry()
            && *bag.key() <= second(now)
        {
            let (second, mut bag) = bag.remove_entry();
            self.far = self.far.max(second.saturating_add(1));
            while let Some(key) = bag.first() {
                bag.remove(bundles, key);
                if let Some(entry) = bundles.entry_mut(key) {
                    Chain::<Bag>::set_beside(entry, true);
                    self.soon.insert((entry.expires(), key));
                }
            }
        }
        let &(at, key) = self.soon.first()?;
        if at > now {
            return None;
        }
        self.soon.remove(&(at, key));
        if let Some(entry) = bundles.entry_mut(key) {
            Chain::<Bag>::set_beside(entry, false);
        }
        Some(key)
    }

    /// Whether each bag has as many bundles as it counts, all of its second.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn are_whole(&self, bundles: &Bundles) -> bool {
        self.later.iter().all(|(second_of, bag)| {
            let of = |entry: &crate::held::bundles::Entry| second(entry.expires()) == *second_of;
            bag.iter(bundles).filter(|(_, entry)| of(entry)).count() == bag.len()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::held::bundles::tests::entry;

    proptest! {
        /// Bundles come, go and expire in any order: the same as a set of instants.
        #[test]
        fn bundles_expire_in_the_order_of_their_instants(
            steps in proptest::collection::vec((0_u8..8, 0_u64..20_000_000_000, any::<prop::sample::Index>()), 0..300)
        ) {
            let (mut bundles, mut expiries) = (Bundles::new(1), Expiries::default());
            let mut all = BTreeSet::new();
            let mut now = Instant::START;
            for (sequence, (step, nanos, which)) in (0..).zip(steps) {
                match step {
                    0..4 => {
                        let expires = now + core::time::Duration::from_nanos(nanos);
                        let key = bundles.insert(entry(sequence, expires));
                        expiries.insert(&mut bundles, key);
                        expiries.insert(&mut bundles, key);
                        all.insert((expires, key));
                    }
                    4..7 if !all.is_empty() => {
                        let &(at, key) = all.iter().nth(which.index(all.len())).unwrap();
                        all.remove(&(at, key));
                        prop_assert!(expiries.contains(bundles.entry(key).unwrap(), key));
                        expiries.remove(&mut bundles, key);
                        expiries.remove(&mut bundles, key);
                        prop_assert!(!expiries.contains(bundles.entry(key).unwrap(), key));
                        bundles.remove(key);
                    }
                    _ => {
                        now = now + core::time::Duration::from_nanos(nanos / 4);
                        while let Some(&(at, key)) = all.first() && at <= now {
                            all.pop_first();
                            prop_assert!(expiries.next().is_some_and(|next| next <= at));
                            prop_assert_eq!(expiries.pop(&mut bundles, now), Some(key));
                        }
                        prop_assert_eq!(expiries.pop(&mut bundles, now), None);
                    }
                }
                prop_assert_eq!(expiries.len(), all.len());
                prop_assert!(expiries.are_whole(&bundles));
                let first = all.first().map(|&(at, _)| at);
                prop_assert!(expiries.next() <= first && expiries.next().is_some() == first.is_some());
            }
        }
    }
}
