//! Neighbours that bundles reach in other bundles, and the commands to them.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::session_id::SessionId;
use crate::adjacencies::tunnel::Tunnel;
use crate::attention::Attention;
use crate::config::{BibePolicy, Protocol};
use dhow_bundle::{EndpointId, NodeId};
use dhow_link::stream::{RefuseReason, TransferId};

impl Adjacencies {
    /// The number of a tunnel that begins.
    pub(crate) fn next_tunnel(&mut self) -> SessionId {
        self.tunnels_begun += 1;
        self.tunnel_opened = true;
        SessionId::of_tunnel(self.tunnels_begun)
    }

    /// Whether a tunnel has been opened since this was asked.
    pub(crate) const fn take_opened(&mut self) -> bool {
        core::mem::replace(&mut self.tunnel_opened, false)
    }

    /// Whether there is a tunnel, or a link that would be one.
    pub(crate) const fn has_tunnels(&self) -> bool {
        self.has_tunnels
    }

    /// The first tunnel from a number on.
    pub(crate) fn tunnel_from(&self, session: SessionId) -> Option<SessionId> {
        let from = session.max(SessionId::of_tunnel(0));
        self.neighbours.range(from..).next().map(|(&it, _)| it)
    }

    pub(crate) fn tunnel_mut(&mut self, session: SessionId) -> Option<&mut Tunnel> {
        self.neighbours.get_mut(&session)?.session.tunnel()
    }

    /// The peer of a tunnel, and how it is treated.
    pub(crate) fn tunnel_policy(&self, session: SessionId) -> Option<(&NodeId, BibePolicy)> {
        let neighbour = self.neighbours.get(&session)?;
        let peer = neighbour.peer_id()?;
        match neighbour.session.protocol() {
            Protocol::Bibe(policy) => Some((peer, policy)),
            _ => None,
        }
    }

    /// The tunnel with a peer that is open; none within where its link is down. None for a node that is the peer of no such link.
    pub(crate) fn tunnel_with(&self, peer: &EndpointId) -> Option<Option<SessionId>> {
        let mut links = self.links.iter().filter(|link| {
            matches!(link.config.protocol, Protocol::Bibe(_))
                && !link.is_deleted
                && (link.config.policy.peer.as_ref()).is_some_and(|it| it.endpoint() == peer)
        });
        let first = links.next()?;
        let mut sessions = core::iter::once(first).chain(links);
        Some(sessions.find_map(|link| link.sessions.first().copied()))
    }

    /// The encapsulating bundle of a transfer is durable here, or is not to be.
    pub(crate) fn encapsulated(
        &mut self,
        attention: &mut Attention,
        (session, transfer): (SessionId, TransferId),
        refused: Option<RefuseReason>,
    ) {
        if let Some(tunnel) = self.tunnel_mut(session) {
            tunnel.left(transfer, refused);
            attention.attend(session.stream());
        }
    }
}
