//! Room in the store for bundles that are coming in from neighbours.
//!
//! A bundle that is begun is to be brought to its end, so it reserves room; but a peer can announce what it
//! likes, and need never send it. So a bundle reserves as much again as it has brought: whoever wants to keep
//! others out of the store must fill it.

use dhow_bundle::storage::BundleKey;

use crate::node::Node;
use crate::reception::Refused;

/// What a bundle reserves at once, octets: all of most bundles.
const AT_ONCE_OCTETS: u64 = 1 << 20;

/// Room is reserved in steps of so many octets.
const STEP_OCTETS: u64 = 256 << 10;

/// Octets that a bundle of `total` octets reserves of which `arrived` are here.
fn reserved(total: u64, arrived: u64) -> u64 {
    let arrived = arrived.checked_next_multiple_of(STEP_OCTETS);
    let wanted = arrived.map_or(u64::MAX, |arrived| arrived.saturating_mul(2));
    total.min(wanted.saturating_add(AT_ONCE_OCTETS))
}

impl Node {
    /// Octets that stored bundles take, and those that come in have reserved: what the quota is for.
    #[must_use]
    pub fn taken_octets(&self) -> u64 {
        let held = self.bundles.octets().saturating_sub(self.sharing.octets());
        held.saturating_sub(self.unreserved_octets)
    }

    /// The first `arrived` octets of a bundle are here: reserve room for more of it.
    pub(crate) fn reserve(&mut self, key: BundleKey, arrived: u64) -> Result<(), Refused> {
        let (Some(entry), Some(arrival)) = (self.bundles.entry(key), self.arrivals.get(key)) else {
            return Ok(());
        };
        let unreserved = entry.octets - reserved(entry.octets, arrived);
        let wanted = arrival.unreserved.saturating_sub(unreserved);
        if wanted == 0 {
            return Ok(());
        }
        if self.taken_octets().saturating_add(wanted) > self.config.quota_octets {
            return Err(self.no_room(wanted));
        }
        self.unreserved_octets = self.unreserved_octets.saturating_sub(wanted);
        if let Some(arrival) = self.arrivals.get_mut(key) {
            arrival.unreserved = unreserved;
        }
        Ok(())
    }

    /// A bundle has begun to come in from a neighbour, and reserves no more than it must.
    pub(crate) fn begin_reservation(&mut self, key: BundleKey) {
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        if let Some(arrival) = self.arrivals.get_mut(key) {
            arrival.unreserved = entry.octets - reserved(entry.octets, 0);
            self.unreserved_octets = self.unreserved_octets.saturating_add(arrival.unreserved);
        }
    }
}
