//! The last refusal of bundles that neighbours did not take: nothing is decided by it, an operator is told of it.

use alloc::collections::BTreeMap;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Instant, NodeId};
use dhow_link::stream::RefuseReason;

use crate::memory::tree_octets;

/// Bundles of which a refusal is remembered, at most: one beyond takes the place of that with the least key.
const REMEMBERED: usize = 1_024;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) by: NodeId,
    pub(crate) reason: RefuseReason,
    /// Whether the reason is that of a cancellation of LTP.
    pub(crate) is_ltp: bool,
    pub(crate) at: Instant,
}

/// The last refusal of each bundle, of some bundles.
#[derive(Default)]
pub(crate) struct Refusals(BTreeMap<BundleKey, Refusal>);

impl Refusals {
    pub(crate) fn note(&mut self, key: BundleKey, refusal: Refusal) {
        if self.0.len() >= REMEMBERED && !self.0.contains_key(&key) {
            self.0.pop_first();
        }
        self.0.insert(key, refusal);
    }

    #[inline]
    pub(crate) fn forget(&mut self, key: BundleKey) {
        if !self.0.is_empty() {
            self.0.remove(&key);
        }
    }

    pub(crate) fn get(&self, key: BundleKey) -> Option<&Refusal> {
        self.0.get(&key)
    }

    /// Octets of memory that they take; the texts of node IDs are not counted, since [`REMEMBERED`] bounds them.
    pub(crate) fn memory_octets(&self) -> usize {
        tree_octets::<(BundleKey, Refusal)>(self.0.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    #[test]
    fn the_last_refusal_of_each_is_remembered_up_to_a_bound() {
        let refusal = |reason| Refusal {
            by: "ipn:2.0".parse().unwrap(),
            reason,
            is_ltp: false,
            at: Instant::START,
        };
        let mut refusals = Refusals::default();
        let keys = 0..=u32::try_from(REMEMBERED).unwrap();
        for key in keys.clone() {
            refusals.note(BundleKey(key), refusal(RefuseReason::Unknown));
        }
        refusals.note(BundleKey(*keys.end()), refusal(RefuseReason::NotAcceptable));
        assert_eq!(refusals.get(BundleKey(0)), None);
        assert!(refusals.get(BundleKey(1)).is_some());
        let last = refusals.get(BundleKey(*keys.end()));
        assert_eq!(last.unwrap().reason, RefuseReason::NotAcceptable);
        refusals.forget(BundleKey(1));
        assert_eq!(refusals.0.len(), REMEMBERED - 1);
    }
}
