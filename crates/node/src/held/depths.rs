//! Records that came out of carriers: the number of carriers of each, one in the other (draft-ietf-dtn-bibect-03).

use alloc::vec::Vec;

use dhow_bundle::storage::BundleKey;

use crate::held::Held;
use crate::local::Locality;
use crate::sending::is_record;

impl Held {
    /// A record that is coming in was in so many carriers.
    pub(crate) fn set_depth(&mut self, key: BundleKey, depth: u8) {
        if depth > 0 {
            self.depths.insert(key, depth);
        }
    }

    /// The number of carriers that a record was in.
    pub(crate) fn depth(&self, key: BundleKey) -> u8 {
        self.depths.get(&key).copied().unwrap_or(0)
    }

    /// Records for this node itself that rest.
    pub(crate) fn resting_records(&self) -> Vec<BundleKey> {
        let keys = self.retries.iter().map(|(_, key)| *key);
        let is_one = |key: &BundleKey| {
            self.bundles.entry(*key).is_some_and(|entry| {
                is_record(entry.flags())
                    && self.endpoints.locality(entry.destination()) == Locality::Administrative
            })
        };
        keys.filter(is_one).collect()
    }
}
