//! Copies of one bundle that come in at a time, where a transfer that is given up does not come again: all go on, and the one that is whole
//! first is kept.
//!
//! The one that began last is found by the bundle's identity, and the others are not; each knows the next in the order in which they began.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::iter::successors;

use dhow_bundle::storage::BundleKey;

use crate::held::Held;
use crate::held::bundles::NewEntry;

/// Copies of one bundle that come in at a time, at most.
pub(crate) const RIVALS: usize = 8;

/// The order in which copies of bundles began.
#[derive(Default)]
pub(super) struct Rivals {
    /// The copy that began next, of each but the last.
    next: BTreeMap<BundleKey, BundleKey>,
    /// The copy that began before, of each but the first.
    before: BTreeMap<BundleKey, BundleKey>,
}

impl Rivals {
    fn join(&mut self, before: BundleKey, key: BundleKey) {
        self.next.insert(before, key);
        self.before.insert(key, before);
    }

    /// The other copies of a bundle.
    fn of(&self, key: BundleKey) -> impl Iterator<Item = BundleKey> {
        let along = |way: &BTreeMap<BundleKey, BundleKey>, key: &BundleKey| way.get(key).copied();
        let before = successors(along(&self.before, &key), move |key| {
            along(&self.before, key)
        });
        before.chain(successors(along(&self.next, &key), move |key| {
            along(&self.next, key)
        }))
    }

    /// A copy comes in no longer: that before it, where it was the last.
    fn remove(&mut self, key: BundleKey) -> Option<BundleKey> {
        let (before, next) = (self.before.remove(&key), self.next.remove(&key));
        if let Some(before) = before {
            self.next.remove(&before);
        }
        if let Some(next) = next {
            self.before.remove(&next);
        }
        if let (Some(before), Some(next)) = (before, next) {
            self.join(before, next);
        }
        before.filter(|_| next.is_none())
    }
}

impl Held {
    /// Whether another copy of a bundle comes in beside this one.
    pub(crate) fn has_rivals(&self, key: BundleKey) -> bool {
        self.rivals.of(key).next().is_some()
    }

    /// The other copies of a bundle that come in.
    pub(crate) fn rivals(&self, key: BundleKey) -> Vec<BundleKey> {
        self.rivals.of(key).collect()
    }

    /// Hold a bundle that begins to come in, beside another copy where one comes in.
    pub(crate) fn insert_beside(&mut self, rival: Option<BundleKey>, new: NewEntry) -> BundleKey {
        if let Some(rival) = rival {
            self.bundles.disown(rival);
        }
        let key = self.bundles.insert(new);
        if let Some(rival) = rival {
            self.rivals.join(rival, key);
        }
        key
    }

    /// A copy comes in no longer: if it was the last, the one before it is found.
    pub(crate) fn end_rivalry(&mut self, key: BundleKey) {
        if let Some(before) = self.rivals.remove(key) {
            self.bundles.disown(key);
            self.bundles.own(before);
        }
    }

    /// The first thing about copies that is not as it must be: all of them come in, and the last one of a bundle is found.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn check_rivals(&self) -> Result<(), alloc::string::String> {
        use crate::held::bundles::Entry;
        use crate::invariants::expect;
        use alloc::format;

        let (next, before) = (&self.rivals.next, &self.rivals.before);
        let last = next.values().filter(|key| !next.contains_key(key));
        for key in next.keys().chain(before.keys()) {
            let count = self.rivals.of(*key).count();
            expect(self.arrivals.contains(*key) && count < RIVALS, || {
                format!("{key:?} has {count} copies beside it, or does not come in")
            })?;
        }
        for key in last {
            let identity = self.bundles.entry(*key).map(Entry::identity);
            let found = identity.and_then(|identity| self.bundles.find(&identity));
            expect(found == Some(*key), || {
                format!("the last copy is {key:?}, and {found:?} is found")
            })?;
        }
        Ok(())
    }
}
