//! Copies of one bundle that come in at a time, where a transfer that is given up does not come again: all go on, and the one that is whole
//! first is kept.
//!
//! The one that began last is found by the bundle's identity, and the others are not; each knows the next in the order in which they began.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use dhow_bundle::storage::BundleKey;

use crate::held::Held;
use crate::held::bundles::NewEntry;

/// Copies of one bundle that come in at a time, at most.
pub(crate) const RIVALS: usize = 8;

/// Which copy began after which.
#[derive(Default)]
pub(super) struct Rivals {
    /// Of each copy but the last, the one that began next.
    next: BTreeMap<BundleKey, BundleKey>,
}

impl Rivals {
    fn before(&self, key: BundleKey) -> Option<BundleKey> {
        let mut pairs = self.next.iter();
        pairs.find_map(|(before, next)| (*next == key).then_some(*before))
    }

    /// The copies that began before this one, the last first.
    fn all_before(&self, key: BundleKey) -> Vec<BundleKey> {
        core::iter::successors(self.before(key), |key| self.before(*key)).collect()
    }

    /// The copies that began after this one.
    fn all_after(&self, key: BundleKey) -> impl Iterator<Item = BundleKey> {
        let next = |key: BundleKey| self.next.get(&key).copied();
        core::iter::successors(next(key), move |key| next(*key))
    }

    /// A copy comes in no longer: that before it, and whether it was the last.
    fn remove(&mut self, key: BundleKey) -> (Option<BundleKey>, bool) {
        let (before, next) = (self.before(key), self.next.remove(&key));
        if let Some(before) = before {
            match next {
                Some(next) => self.next.insert(before, next),
                None => self.next.remove(&before),
            };
        }
        (before, next.is_none())
    }
}

impl Held {
    /// Whether another copy of a bundle comes in beside this one.
    pub(crate) fn has_rivals(&self, key: BundleKey) -> bool {
        let rivals = &self.rivals;
        rivals.next.contains_key(&key) || rivals.before(key).is_some()
    }

    /// The other copies of a bundle that come in.
    pub(crate) fn rivals(&self, key: BundleKey) -> Vec<BundleKey> {
        if self.rivals.next.is_empty() {
            return Vec::new();
        }
        let mut rivals = self.rivals.all_before(key);
        rivals.extend(self.rivals.all_after(key));
        rivals
    }

    /// Hold a bundle that begins to come in, beside another copy where one comes in.
    pub(crate) fn insert_beside(&mut self, rival: Option<BundleKey>, new: NewEntry) -> BundleKey {
        if let Some(rival) = rival {
            self.bundles.disown(rival);
        }
        let key = self.bundles.insert(new);
        if let Some(rival) = rival {
            self.rivals.next.insert(rival, key);
        }
        key
    }

    /// A copy comes in no longer: if it was the last, the one before it is found.
    pub(crate) fn end_rivalry(&mut self, key: BundleKey) {
        if !self.has_rivals(key) {
            return;
        }
        if let (Some(before), true) = self.rivals.remove(key) {
            self.bundles.disown(key);
            self.bundles.own(before);
        }
    }
}
