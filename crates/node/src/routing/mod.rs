//! Which way a bundle leaves: candidates for the next hop of a destination, best first.
//!
//! A router sees endpoint IDs and links; never octets, sessions or clocks. Start reading at
//! [`static_routes`].

pub(crate) mod static_routes;

use dhow_bundle::NodeId;

use crate::config::LinkId;

/// A next hop: a configured link, or any session to a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hop {
    /// Over a session that this link dialled.
    Link(LinkId),
    /// Over any session to this node, dialled or accepted.
    Peer(NodeId),
}
