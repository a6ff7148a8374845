//! The quota that counts: the configured one, or the room of the disk where that is less.
//!
//! The store tells how much that is (`StoreEvent::Capacity`), now and then and with hysteresis. The node admits no more, so that a neighbour
//! or an application is refused before the store has to refuse, and with the bound that was met. Stored bundles stay, also where they are
//! more than the disk would take anew.

use dhow_bundle::Now;
use dhow_bundle::storage::Medium;

use crate::node::Node;

impl Node {
    /// The disk has room for more octets of bundles than before, or for fewer.
    pub(crate) fn capacity_changed(&mut self, now: Now, octets: u64, medium: Medium) {
        let before = self.held.quota_octets(&self.config);
        self.held
            .capacity_changed(&mut self.outbox, &self.config, octets, medium);
        if self.held.quota_octets(&self.config) > before {
            self.adjacencies
                .announce_anew(&self.held, &mut self.attention, &self.config, now);
        }
    }
}
