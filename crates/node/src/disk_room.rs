//! The quota that counts: what the node was given, or what the disk has room for where that is less.
//!
//! The store tells how much that is (`StoreEvent::Capacity`), now and then and with hysteresis. The node admits no more, so that a neighbour
//! or an application is refused before the store has to refuse, and with the bound that was met. Stored bundles stay, also where they are
//! more than the disk would take anew.

use crate::adjacencies::Adjacencies;
use crate::attention::Attention;
use crate::config::Config;
use crate::held::Held;
use alloc::vec::Vec;

use dhow_bundle::Now;
use dhow_bundle::storage::Medium;

use crate::door::StreamId;
use crate::node::Node;

/// A session ends, so that the peer is told anew, once so many times the transfer MRU can be taken that it was told.
const GROWN: u64 = 2;

impl Adjacencies {
    /// Ends sessions whose peers were told a transfer MRU for which the disk had no more room then: what they send would come in pieces
    /// of that size, for as long as the session lasts.
    pub(crate) fn announce_anew(
        &mut self,
        held: &Held,
        attention: &mut Attention,
        config: &Config,
        now: Now,
    ) {
        let is_small = |told: u64, wanted: u64| {
            held.announced_mru(config, wanted) >= told.saturating_mul(GROWN)
        };
        let small: Vec<StreamId> = self
            .neighbours
            .iter()
            .filter(|(_, it)| !it.ending && is_small(it.announced_mru, it.policy.transfer_mru))
            .map(|(stream, _)| *stream)
            .collect();
        for stream in small {
            self.terminate(attention, now, stream);
        }
    }
}

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
