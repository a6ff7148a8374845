//! The bundles that a node holds, for a copy of its store that is made while it runs.

use dhow_bundle::storage::{BundleKey, Extents, StoredBundle};
use dhow_bundle::{DtnTime, Now, Version};

use crate::held::retention::State;
use crate::node::Node;

impl Node {
    /// The first bundle from a key on that is durable and sound, with the record that a store keeps of it and the places of its octets. They
    /// stay where they are until this node is told something else. The age in the record is that of now.
    #[must_use]
    pub fn stored_from(
        &self,
        now: Now,
        key: BundleKey,
    ) -> Option<(BundleKey, StoredBundle, Extents)> {
        let mut held = self.held.bundles().iter_from(key);
        let (key, entry) = held.find(|(_, entry)| {
            let is_gone = matches!(
                entry.state(),
                State::Arriving | State::Kept | State::Deleting | State::Quarantined
            );
            !is_gone && !entry.extents().is_empty()
        })?;
        let left = (entry.expires() - now.monotonic).as_millis();
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        let mut bundle = self.held.stored_bundle(entry);
        bundle.age_at_reception_ms = bundle.lifetime_ms.saturating_sub(left);
        bundle.received = now.dtn;
        bundle.note = match entry.version() {
            Version::V6 => self.held.custody_note(key),
            Version::V7 => self.held.permits_note(key),
        };
        Some((key, bundle, entry.extents()))
    }

    /// The creation time and the sequence number up to which this node may have given any out.
    #[must_use]
    pub fn reserved(&self) -> (DtnTime, u64) {
        self.held.creation().reserved()
    }
}
