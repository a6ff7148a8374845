//! Copies that the store was told to delete so that others find room: theirs is given away before they are gone.

use alloc::collections::BTreeMap;

use dhow_bundle::storage::BundleKey;

/// Copies that leave the store.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// Each with its octets.
    bundles: BTreeMap<BundleKey, u64>,
    octets: u64,
}

impl Leaving {
    /// The store was told to delete a copy of so many octets.
    pub(crate) fn begin(&mut self, key: BundleKey, octets: u64) {
        let before = self.bundles.insert(key, octets).unwrap_or(0);
        self.octets = self.octets.saturating_sub(before).saturating_add(octets);
    }

    /// A bundle is gone from the store.
    pub(crate) fn end(&mut self, key: BundleKey) {
        let octets = self.bundles.remove(&key).unwrap_or(0);
        self.octets = self.octets.saturating_sub(octets);
    }

    /// Copies that leave.
    pub(crate) fn bundles(&self) -> u64 {
        u64::try_from(self.bundles.len()).unwrap_or(u64::MAX)
    }

    /// Octets of the bundles.
    pub(crate) const fn octets(&self) -> u64 {
        self.octets
    }

    /// Each copy with its octets.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BundleKey, u64)> {
        self.bundles.iter().map(|(key, octets)| (*key, *octets))
    }
}
