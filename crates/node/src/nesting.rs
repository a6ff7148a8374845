//! Bundles in bundles for this node, one in the other (draft-ietf-dtn-bibect-03).

use dhow_bundle::Header;
use dhow_link::stream::TransferId;

use crate::adjacencies::session_id::SessionId;
use crate::node::Node;
use crate::reception::Refused;

/// Bundles for this node that may be in each other, at most: each is written to the store as it comes out.
const DEPTH_MAX: u8 = 8;

impl Node {
    /// The number of carriers that a record which comes out of one was in; 0 for all other bundles.
    pub(crate) fn depth_in_carriers(
        &mut self,
        (session, transfer): (SessionId, TransferId),
        header: &Header,
    ) -> Result<u8, Refused> {
        if !session.is_tunnel() || !header.is_administrative() {
            return Ok(0);
        }
        let tunnel = self.adjacencies.tunnel_mut(session);
        let coming = tunnel.and_then(|tunnel| tunnel.coming(transfer));
        let depth = coming.map_or(0, |coming| self.held.depth(coming.outer));
        if depth >= DEPTH_MAX {
            let why = "it is in more bundles for this node, one in the other, than may be";
            return Err(Refused::not_acceptable(why));
        }
        Ok(depth + 1)
    }
}
