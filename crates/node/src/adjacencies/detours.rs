//! The hops that a bundle may go over.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::neighbour::Neighbour;
use crate::detours::OBSTACLE_RETRY;
use crate::held::Held;
use crate::held::endpoints::EndpointIndex;
use crate::routing::Hop;
use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};

impl Neighbour {
    /// Whether it is time to take what may not go over the session out of the way, whether or not it has room or others to send: what
    /// came while no other hop was up need not wait until the session has nothing else.
    pub(crate) fn is_to_be_cleared(&mut self, now: Instant) -> bool {
        let is_due = self.parameters.is_some() && self.clear_at <= now;
        if is_due {
            self.clear_at = now + OBSTACLE_RETRY;
        }
        is_due && !planted(Mutant::DetourBehindOthers)
    }
}

impl Adjacencies {
    /// Whether some of these hops may be barred to a bundle that came from a neighbour, and may be one that must not be fragmented or that
    /// has no form in the other version.
    pub(crate) fn may_be_barred(
        &self,
        held: &Held,
        hops: &[Hop],
        (previous, is_barred_somewhere): (Option<EndpointIndex>, bool),
    ) -> bool {
        let Some(previous) = previous else {
            return is_barred_somewhere;
        };
        let previous = held.endpoints().id(previous);
        let is_it = |hop: &Hop| match hop {
            Hop::Peer(peer) => peer.endpoint() == previous,
            Hop::Link(link) => {
                let peer = self.link(*link).and_then(|link| link.peer.as_ref());
                peer.is_some_and(|peer| peer.endpoint() == previous)
            }
        };
        is_barred_somewhere || hops.iter().any(is_it)
    }
}
