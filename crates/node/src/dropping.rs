//! A full store refuses; where the operator says so, copies of bundles of other nodes make room for what comes next (docs/routing.md).

use dhow_bundle::Now;

use crate::held::bundles::Removal;
use crate::node::Node;

/// "Depleted storage" (RFC 9171 9.5).
const DEPLETED: u64 = 4;

impl Node {
    /// A bundle of so many octets found no room: copies go, where the operator says so. Their room is there once the store has deleted them, so that
    /// whoever brought the bundle finds it at the next try. None go for one that an empty store has no room for.
    pub(crate) fn drop_copies(&mut self, now: Now, octets: u64) {
        if octets > self.held.quota_octets(&self.config) {
            return;
        }
        for key in self.forwarding.copies_to_drop(&self.held, octets) {
            self.outbox.counters.dropped += 1;
            self.delete(now, key, Removal::Deleted, Some(DEPLETED));
        }
    }
}
