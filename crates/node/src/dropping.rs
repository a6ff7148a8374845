//! A full store refuses; where the operator says so, copies of bundles of other nodes make room for what comes (docs/routing.md).

use dhow_bundle::{EndpointId, Now};

use crate::held::bundles::Removal;
use crate::local::Locality;
use crate::node::Node;
use crate::reception::Refused;
use crate::reservation::Comes;

/// "Depleted storage" (RFC 9171 9.5).
const DEPLETED: u64 = 4;

impl Node {
    /// Room for a bundle of so many octets: copies go for it, where the operator says so and it helps. Their room is given away at once: the store deletes
    /// them before it is given the bundle. None go for one that an empty store has no room for.
    pub(crate) fn make_room(
        &mut self,
        now: Now,
        octets: u64,
        comes: Comes<'_>,
    ) -> Result<(), Refused> {
        let Err(refused) = self.check_room(octets, comes) else {
            return Ok(());
        };
        if octets > self.held.quota_octets(&self.config) {
            return Err(refused);
        }
        let wanted = self.wanted_room(octets, comes);
        let copies = self.forwarding.copies_to_drop(&self.held, wanted);
        if copies.is_empty() {
            return Err(refused);
        }
        for key in copies {
            self.outbox.counters.dropped += 1;
            self.delete(now, key, Removal::Deleted, Some(DEPLETED));
            self.held.begin_leaving(key);
        }
        self.check_room(octets, comes)
    }

    /// Whether parts are kept of a bundle that comes in. A store that is nearly full and drops copies keeps none of one that goes on: a part is worth
    /// less than the room that it takes from another copy.
    pub(crate) fn keeps_parts(&self, destination: &EndpointId) -> bool {
        let drops = self.forwarding.drops_for(destination) && self.is_nearly_full();
        !drops || self.held.endpoints().locality_of(destination) != Locality::Remote
    }
}
