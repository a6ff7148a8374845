//! When held bundles expire: in rough order for as long as that is far off, to the nanosecond once it is near.
//!
//! A tree of all instants costs two descents of cold memory for every bundle that only passes through. Here a
//! bundle is noted in a bag of those that expire in about the same second, at a place that its entry knows.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use dhow_bundle::Instant;
use dhow_bundle::storage::BundleKey;

use crate::held::bundles::{Bundles, Entry};
use crate::memory::tree_octets;

/// The instants of one bag, as a power of two of nanoseconds: about a second.
const BAG_BITS: u32 = 30;

/// A bag with more places than four times its bundles and this is packed.
const SPARE_PLACES: usize = 64;

/// Where a bundle's expiry is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed {
    /// Nowhere.
    No,
    /// Among those that expire soon.
    Soon,
    /// In the bag of its second, at this place.
    Later(u32),
}

/// Bundles that expire in about the same second.
#[derive(Default)]
struct Bag {
    places: Vec<Option<BundleKey>>,
    /// Places that are taken.
    count: usize,
}

/// The expiries of all bundles that have one.
#[derive(Default)]
pub(crate) struct Expiries {
    soon: BTreeSet<(Instant, BundleKey)>,
    later: BTreeMap<u64, Bag>,
    /// The first second that is not yet near.
    far: u64,
    /// Places for which the bags have room.
    room: usize,
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
        if entry.timed != Timed::No {
            return;
        }
        let second = second(entry.expires);
        if second < self.far {
            entry.timed = Timed::Soon;
            self.soon.insert((entry.expires, key));
            return;
        }
        let bag = self.later.entry(second).or_default();
        // There are fewer bundles than keys, and never four times as many places.
        let place = u32::try_from(bag.places.len()).unwrap_or(u32::MAX);
        let before = bag.places.capacity();
        bag.places.push(Some(key));
        self.room += bag.places.capacity() - before;
        bag.count += 1;
        entry.timed = Timed::Later(place);
    }

    /// Let a bundle expire no more.
    pub(crate) fn remove(&mut self, bundles: &mut Bundles, key: BundleKey) {
        let Some(entry) = bundles.entry_mut(key) else {
            return;
        };
        let timed = core::mem::replace(&mut entry.timed, Timed::No);
        match timed {
            Timed::No => {}
            Timed::Soon => {
                self.soon.remove(&(entry.expires, key));
            }
            Timed::Later(place) => {
                let second = second(entry.expires);
                let Some(bag) = self.later.get_mut(&second) else {
                    return;
                };
                bag.take(place);
                let before = bag.places.capacity();
                if bag.count == 0 {
                    self.later.remove(&second);
                    self.room -= before;
                } else if bag.places.len() > 4 * bag.count + SPARE_PLACES {
                    bag.pack(bundles);
                    self.room = self.room + bag.places.capacity() - before;
                }
            }
        }
    }

    /// Whether a bundle expires some time.
    pub(crate) fn contains(&self, entry: &Entry, key: BundleKey) -> bool {
        match entry.timed {
            Timed::No => false,
            Timed::Soon => self.soon.contains(&(entry.expires, key)),
            Timed::Later(place) => {
                let bag = self.later.get(&second(entry.expires));
                bag.is_some_and(|bag| bag.at(place) == Some(key))
            }
        }
    }

    /// Bundles that expire some time.
    pub(crate) fn len(&self) -> usize {
        let later = self.later.values().map(|bag| bag.count);
        later.fold(self.soon.len(), usize::saturating_add)
    }

    /// Octets of memory that they take.
    pub(crate) fn memory_octets(&self) -> usize {
        tree_octets::<(Instant, BundleKey)>(self.soon.len())
            + tree_octets::<(u64, Bag)>(self.later.len())
            + self.room * size_of::<Option<BundleKey>>()
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
            let (second, bag) = bag.remove_entry();
            self.far = self.far.max(second.saturating_add(1));
            self.room -= bag.places.capacity();
            for key in bag.places.into_iter().flatten() {
                if let Some(entry) = bundles.entry_mut(key) {
                    entry.timed = Timed::Soon;
                    self.soon.insert((entry.expires, key));
                }
            }
        }
        let &(at, key) = self.soon.first()?;
        if at > now {
            return None;
        }
        self.soon.remove(&(at, key));
        if let Some(entry) = bundles.entry_mut(key) {
            entry.timed = Timed::No;
        }
        Some(key)
    }
}

impl Bag {
    fn at(&self, place: u32) -> Option<BundleKey> {
        let place = usize::try_from(place).ok()?;
        self.places.get(place).copied().flatten()
    }

    fn take(&mut self, place: u32) {
        let place = usize::try_from(place).ok();
        let taken = place
            .and_then(|place| self.places.get_mut(place))
            .and_then(Option::take);
        assert!(taken.is_some(), "a bundle knows the place of its expiry");
        self.count -= 1;
    }

    /// Close the gaps.
    fn pack(&mut self, bundles: &mut Bundles) {
        self.places.retain(Option::is_some);
        self.places.shrink_to(2 * self.count);
        for (place, key) in (0..).zip(self.places.iter().flatten()) {
            if let Some(entry) = bundles.entry_mut(*key) {
                entry.timed = Timed::Later(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::held::bundles::tests::entry;

    proptest! {
        /// Whatever comes, goes and expires: the same as a set of instants.
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
                let first = all.first().map(|&(at, _)| at);
                prop_assert!(expiries.next() <= first && expiries.next().is_some() == first.is_some());
            }
        }
    }

    /// What passes through leaves nothing behind, whatever stays.
    #[test]
    fn a_bag_is_packed_when_most_of_it_has_gone() {
        let (mut bundles, mut expiries) = (Bundles::new(1), Expiries::default());
        let expires = Instant::from_nanos(5_000_000_000);
        let keys: Vec<BundleKey> = (0..10_000)
            .map(|sequence| bundles.insert(entry(sequence, expires)))
            .collect();
        for &key in &keys {
            expiries.insert(&mut bundles, key);
        }
        for &key in &keys[10..] {
            expiries.remove(&mut bundles, key);
        }
        let places: usize = expiries.later.values().map(|bag| bag.places.len()).sum();
        assert!(places <= 10 * 4 + SPARE_PLACES, "{places}");
        for &key in &keys[..10] {
            assert!(expiries.contains(bundles.entry(key).unwrap(), key));
        }
    }
}
