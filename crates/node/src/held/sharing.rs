//! Bundles in the store that have octets in common: one that comes in, and the parts that were kept of it, until
//! the store has let them go. Each part has the first payload octets of the bundle.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use dhow_bundle::storage::BundleKey;

/// A bundle, until it is gone, and the parts of it.
#[derive(Debug, Default)]
struct Group {
    whole: Option<BundleKey>,
    /// Each with its payload octets.
    parts: Vec<(BundleKey, u64)>,
}

/// All bundles that share octets with others.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    groups: BTreeMap<u64, Group>,
    /// The group of each bundle.
    members: BTreeMap<BundleKey, u64>,
    next: u64,
    /// Octets that are in more than one bundle, without the one time that they are in the store.
    octets: u64,
}

impl Group {
    /// Octets of its bundles that another of them has.
    fn shared(&self) -> u64 {
        let octets = || self.parts.iter().map(|&(_, octets)| octets);
        let once = match self.whole {
            Some(_) => 0,
            None => octets().max().unwrap_or(0),
        };
        octets().fold(0, u64::saturating_add).saturating_sub(once)
    }
}

impl Sharing {
    /// A part with the first `octets` payload octets of a bundle is stored beside it.
    pub(crate) fn share(&mut self, whole: BundleKey, part: BundleKey, octets: u64) {
        let number = *self.members.entry(whole).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.members.insert(part, number);
        let group = self.groups.entry(number).or_default();
        group.whole = Some(whole);
        group.parts.push((part, octets));
        self.octets = self.octets.saturating_add(octets);
    }

    /// A bundle is gone from the store.
    pub(crate) fn release(&mut self, key: BundleKey) {
        let Some(number) = self.members.remove(&key) else {
            return;
        };
        let Some(group) = self.groups.get_mut(&number) else {
            return;
        };
        let before = group.shared();
        group.whole = group.whole.filter(|whole| *whole != key);
        group.parts.retain(|(part, _)| *part != key);
        self.octets = self.octets.saturating_sub(before) + group.shared();
        if group.parts.len() + usize::from(group.whole.is_some()) < 2 {
            let left = group.whole.into_iter();
            for key in left.chain(group.parts.iter().map(|(part, _)| *part)) {
                self.members.remove(&key);
            }
            self.groups.remove(&number);
        }
    }

    /// Bundles beyond one of each that have octets in common.
    pub(crate) fn bundles(&self) -> u64 {
        let beyond = self.members.len().saturating_sub(self.groups.len());
        u64::try_from(beyond).unwrap_or(u64::MAX)
    }

    /// Octets that bundles have beyond those of the store: each is there once, in however many bundles it is.
    pub(crate) fn octets(&self) -> u64 {
        self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_octets_count_once_in_whatever_order_bundles_go() {
        let (whole, one, two) = (BundleKey(7), BundleKey(8), BundleKey(9));
        // The octets that are shared after each of the three has gone.
        for (order, expected) in [
            ([whole, one, two], [10, 0, 0]),
            ([whole, two, one], [10, 0, 0]),
            ([one, whole, two], [30, 0, 0]),
            ([two, one, whole], [10, 0, 0]),
        ] {
            let mut sharing = Sharing::default();
            sharing.share(whole, one, 10);
            sharing.share(whole, two, 30);
            assert_eq!((sharing.octets(), sharing.bundles()), (40, 2));
            for (key, (expected, bundles)) in
                order.into_iter().zip(expected.into_iter().zip([1, 0, 0]))
            {
                sharing.release(key);
                assert_eq!(sharing.octets(), expected, "{order:?} {key:?}");
                assert_eq!(sharing.bundles(), bundles, "{order:?} {key:?}");
            }
            assert!(sharing.groups.is_empty() && sharing.members.is_empty());
        }
    }
}
