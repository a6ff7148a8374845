//! The configuration of a conversation.

use core::time::Duration;

use dhow_bundle::NodeId;

use crate::datagram::Rate;

/// Largest transfer in either direction, octets (4 MiB): the layer sends nothing again, so at a loss of 1 in
/// 10,000 datagrams of 1,232 octets 29 % of such transfers fail.
pub const MAX_TRANSFER_OCTETS: u64 = 4 << 20;

/// Largest UDP payload over IPv4, octets.
pub const MAX_MTU: u64 = 65_507;

/// Smallest payload that is worth its heads, octets.
pub const LEAST_MTU: u64 = 128;

/// RFC 7122 3.4: keepalives are no more frequent than this.
pub const LEAST_KEEPALIVE: Duration = Duration::from_secs(15);

/// The node at the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// A node that the configuration names. Announcements change nothing.
    Known(NodeId),
    /// The node that the peer's first Sender Node ID item names. Nothing proves it (draft 3.5.4): for networks
    /// whose hosts are trusted.
    Announced,
    /// Nobody that bundles could be routed to.
    #[default]
    Unknown,
}

/// When a bundle travels in an Identified Transfer (draft 3.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// When it does not fit into one datagram by itself. Peers of RFC 7122 understand all others.
    #[default]
    WhenNeeded,
    /// Always: the peer's layer recognises datagrams that the network doubled.
    Always,
}

/// An announcement of this node to peers that look for it (draft 3.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Our node ID.
    pub node_id: NodeId,
    /// Time between two announcements; 1 s to 60 s (draft 3.5.3).
    pub interval: Duration,
}

/// The offers and limits of a conversation.
#[derive(Clone, Debug)]
pub struct Config {
    /// The peer. Default `Unknown`.
    pub peer: Peer,
    /// Largest datagram that we send, octets of UDP payload, from [`LEAST_MTU`] to [`MAX_MTU`]. Default 1,232:
    /// any IPv6 path takes packets of 1,280 octets, of which 40 and 8 are headers.
    pub mtu: u64,
    /// Default `WhenNeeded`.
    pub framing: Framing,
    /// Default 1,250,000 octets a second (10 Mbit/s) and 65,507 at once. Nothing slows the sender down but this
    /// (RFC 8085 3.1): the path must take it.
    pub rate: Rate,
    /// Largest transfer in either direction, octets, at most [`MAX_TRANSFER_OCTETS`] (the default). A peer that knows
    /// RFC 7122 alone takes no more than one datagram.
    pub transfer_mru: u64,
    /// An incoming transfer is given up when no segment of it came for so long. Default 10 s; draft 3.6.2 asks
    /// for at most 60 s. Transfers that ended are known as long.
    pub transfer_timeout: Duration,
    /// Octets of incomplete incoming transfers that the node may have to keep; no less than `transfer_mru`. Default
    /// 16 MiB.
    pub reassembly_octets: u64,
    /// Send a keepalive when nothing was sent for so long, no less than [`LEAST_KEEPALIVE`]; never when `None`
    /// (the default).
    pub keepalive: Option<Duration>,
    /// Announce ourselves; not when `None` (the default): peers that are configured need no announcement
    /// (draft 4.3).
    pub announcement: Option<Announcement>,
    /// An ending conversation waits so long until the transfers that have begun have left. Default 10 s.
    pub termination_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            peer: Peer::Unknown,
            mtu: 1_232,
            framing: Framing::WhenNeeded,
            rate: Rate {
                octets_per_s: 1_250_000,
                burst_octets: MAX_MTU,
            },
            transfer_mru: MAX_TRANSFER_OCTETS,
            transfer_timeout: Duration::from_secs(10),
            reassembly_octets: 16 << 20,
            keepalive: None,
            announcement: None,
            termination_timeout: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// The same configuration with every value inside its bounds.
    pub(super) fn bounded(mut self) -> Self {
        self.mtu = self.mtu.clamp(LEAST_MTU, MAX_MTU);
        self.transfer_mru = self.transfer_mru.min(MAX_TRANSFER_OCTETS);
        self.reassembly_octets = self.reassembly_octets.max(self.transfer_mru);
        self.keepalive = self.keepalive.map(|interval| interval.max(LEAST_KEEPALIVE));
        if let Some(announcement) = &mut self.announcement {
            // Draft 3.5.3: no shorter than 1 second and no longer than 60 seconds.
            let (least, most) = (Duration::from_secs(1), Duration::from_secs(60));
            announcement.interval = announcement.interval.clamp(least, most);
        }
        self
    }
}
