//! The configuration of a session.

use core::time::Duration;

use dhow_bundle::{NodeId, Reading};

/// The side that opened the TCP connection (RFC 9174 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We dialled.
    Active,
    /// The peer dialled.
    Passive,
}

/// Whether a session is to be protected by TLS (RFC 9174 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPolicy {
    /// No session without TLS.
    Required,
    /// TLS whenever the peer can.
    Preferred,
    /// No TLS; the driver needs no TLS engine.
    Never,
}

/// The identity that the peer's certificate must prove once TLS protects a session (RFC 9174
/// 4.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityPolicy {
    /// The node ID; network-level identities are not looked at (recommended by RFC 9174 4.4.5).
    NodeId,
    /// The node ID if the certificate has any, the dialled DNS name or the address otherwise: for
    /// certificates of authorities that know nothing of node IDs (RFC 9174 3.4).
    NodeIdElseNetwork,
    /// Both the node ID and the DNS name or address.
    NodeIdAndNetwork,
    /// None: TLS protects against listeners only (RFC 9174 7.12.1).
    Unauthenticated,
}

/// The offers, demands and tolerances of a session.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our node ID.
    pub node_id: NodeId,
    /// Keepalive interval that we offer, seconds; 0 for none. Default 30, the least that RFC 9174
    /// 5.1.1 advises on shared networks.
    pub keepalive_s: u16,
    /// Largest segment that we take, octets of data. Segments are handed on as they arrive, so this
    /// costs no memory; it bounds how long the peer cannot acknowledge. Default 1 MiB.
    pub segment_mru: u64,
    /// Largest transfer that we take, octets. Default 1 TiB: the store refuses long before.
    pub transfer_mru: u64,
    /// Largest segment that we send, octets of data, whatever the peer would take. Default 64 KiB:
    /// half a second at 1 Mbit/s, after which acknowledgments get their turn, at 0.03 % overhead.
    pub segment_length: u64,
    /// Whether to use TLS. Default `Never`, since a session cannot know whether its driver can.
    pub tls: TlsPolicy,
    /// The identity that the peer's certificate must prove. Default `NodeId`.
    pub identity: IdentityPolicy,
    /// The only node that is welcome; any when `None` (the default).
    pub expected_peer: Option<NodeId>,
    /// End the session when no transfer has moved for so long; `None` (the default) for never.
    pub idle_timeout: Option<Duration>,
    /// End the session when a transfer that has begun to come has come no further for so long, though octets of it were
    /// wanted; `None` (the default) for never.
    pub transfer_timeout: Option<Duration>,
    /// The time that all from the connection to the peer's `SESS_INIT` may take, TLS included. Default
    /// 10 s; RFC 9174 4.1 asks for at most 60 s.
    pub negotiation_timeout: Duration,
    /// The time that an ending session waits without any octet moving. Default 10 s.
    pub termination_timeout: Duration,
    /// Whether what we acknowledge of a transfer that fails is kept as a fragment, and we go on behind
    /// what such a peer acknowledged (docs/tcpcl-extensions.md). Default false: it is the node that keeps.
    pub keeps_reactive_fragments: bool,
    /// The strictness with which the peer is read. Default `Strict`.
    pub reading: Reading,
    /// Incoming transfers and runs of equal segments that may wait for the node's acknowledgment; the
    /// session asks for no more octets at half of it and ends at all of it. Default 65,536: 100-octet
    /// bundles at 1 M/s with a store that takes 20 ms to flush, and at most about 8 MB.
    pub awaiting_acknowledgment: usize,
}

impl Config {
    /// The defaults for a node.
    #[must_use]
    pub const fn new(node_id: NodeId) -> Self {
        Self {
            node_id,
            keepalive_s: 30,
            segment_mru: 1 << 20,
            transfer_mru: 1 << 40,
            segment_length: 64 * 1024,
            tls: TlsPolicy::Never,
            identity: IdentityPolicy::NodeId,
            expected_peer: None,
            idle_timeout: None,
            transfer_timeout: None,
            negotiation_timeout: Duration::from_secs(10),
            termination_timeout: Duration::from_secs(10),
            keeps_reactive_fragments: false,
            reading: Reading::Strict,
            awaiting_acknowledgment: 65_536,
        }
    }
}
