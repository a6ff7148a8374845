//! Bundles that are back from where they were in flight: they wait again, rest first, or are deleted if that was asked for meanwhile.

use crate::held::bundles::Removal;
use crate::held::retention::Trigger;
use crate::node::Node;
use core::time::Duration;
use dhow_bundle::Now;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::storage::StoreCommand;

/// The time that the store may take to compare a bundle with its checksums before it is asked again.
const VERIFY_PATIENCE: Duration = Duration::from_secs(60);

impl Node {
    /// Let a bundle rest before it is tried again; one that is back from where it was in flight, too. False when it was to be
    /// deleted once it is back, and is.
    pub(crate) fn retry_after(&mut self, now: Now, key: BundleKey, duration: Duration) -> bool {
        self.held.release_moved(&mut self.outbox, key);
        if self.meets_pending_deletion(now, key) {
            return false;
        }
        let until = now.monotonic + duration;
        if self
            .held
            .advance(&mut self.outbox, key, Trigger::RetryLater { until })
            && !planted(Mutant::RestForEver)
        {
            self.held.retry_at(until, key);
        }
        true
    }

    /// Delete a bundle that is back and was to be deleted once it is; false when it was not.
    pub(crate) fn meets_pending_deletion(&mut self, now: Now, key: BundleKey) -> bool {
        let pending_deletion = self
            .held
            .entry(key)
            .and_then(|entry| entry.pending_deletion());
        let pending_deletion = pending_deletion.filter(|_| !planted(Mutant::DoomForgotten));
        if let Some(reason) = pending_deletion {
            self.delete(now, key, Removal::Deleted, Some(u64::from(reason)));
        }
        pending_deletion.is_some()
    }

    /// A bundle that has left, and is back from where it was in flight, waits for a session over another link.
    pub(crate) fn stay_sent(&mut self, now: Now, key: BundleKey) {
        self.held.release_moved(&mut self.outbox, key);
        if !self.meets_pending_deletion(now, key) {
            self.held.advance(&mut self.outbox, key, Trigger::Left);
            let custody = self.held.custody_mut().value_mut();
            custody.handle_carrier_gone(now.monotonic, key);
        }
    }

    /// A bundle is back from where it was in flight without having been taken.
    pub(crate) fn put_back(&mut self, now: Now, key: BundleKey) {
        if !self.meets_pending_deletion(now, key) {
            self.forwarding.enqueue(
                &mut self.held,
                &mut self.adjacencies,
                &mut self.delivery,
                &mut self.outbox,
                key,
            );
        }
    }

    /// Ask the store whether a bundle from an earlier run is what was written; it is back when the answer
    /// comes, or after a while when the disk gives none.
    pub(crate) fn verify(&mut self, now: Now, key: BundleKey) {
        if !self.retry_after(now, key, VERIFY_PATIENCE) {
            return;
        }
        self.held.begin_verification(key);
        if let Some(part) = self.held.unverified(now, key) {
            self.outbox.store(StoreCommand::Verify { key: part });
        }
    }
}
