//! [`DiscoverConfig`]: one place at which neighbours are found.

use alloc::string::String;
use alloc::vec::Vec;

use dhow_link::discovery::{Hearing, ServiceProtocol};

use crate::config::{Enabled, LinkConfig, Protocol};

/// Position in [`Config::discover`](crate::config::Config::discover).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiscoverId(pub u32);

/// Destinations of beacons, and the treatment of those that are heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoverConfig {
    /// The links to neighbours that are found, but for their names and peers. They are up, and dialled at any time.
    pub link: LinkConfig,
    /// Patterns of the node IDs that may be found; empty for all.
    pub accept: Vec<String>,
    /// Whether the node sends beacons.
    pub announce: Enabled,
    /// Whether the node hears beacons.
    pub listen: Enabled,
    /// Whether the announcement of DTN2, which has no version, is heard too.
    pub dtn2: Enabled,
    /// The time between two beacons to one destination, milliseconds, at least 100 (default 1000).
    pub period_ms: u64,
    /// Destinations of beacons; the driver knows their addresses.
    pub destinations: u32,
    /// Neighbours that are known at a time, at most (default 256).
    pub neighbours: u32,
    /// Neighbours that become known in a second, at most (default 32).
    pub new_per_second: u32,
}

impl DiscoverConfig {
    /// Shortest time between two beacons, milliseconds.
    pub const PERIOD_MS_MIN: u64 = 100;

    /// Most neighbours that may be known at a time.
    pub const NEIGHBOURS_MAX: u32 = 1_024;

    /// A place with such links, and the defaults.
    #[must_use]
    pub const fn usual(link: LinkConfig) -> Self {
        Self {
            link,
            accept: Vec::new(),
            announce: Enabled::Yes,
            listen: Enabled::Yes,
            dtn2: Enabled::No,
            period_ms: 1_000,
            destinations: 1,
            neighbours: 256,
            new_per_second: 32,
        }
    }

    /// The formats that are heard.
    #[must_use]
    pub const fn hearing(&self) -> Hearing {
        match self.dtn2 {
            Enabled::Yes => Hearing::IpndAndDtn2,
            Enabled::No => Hearing::Ipnd,
        }
    }
}

/// The service of a beacon that a link of this protocol leads to; `None` where beacons have no name for it.
#[must_use]
pub const fn service_of(protocol: Protocol) -> Option<ServiceProtocol> {
    match protocol {
        Protocol::Tcpcl4 | Protocol::Tcpcl3 | Protocol::Auto => Some(ServiceProtocol::Tcpcl),
        Protocol::Udp(_) => Some(ServiceProtocol::Udpcl),
        Protocol::Stcp(policy) => match policy.framing {
            crate::config::Framing::Mtcp => Some(ServiceProtocol::Mtcp),
            _ => None,
        },
        _ => None,
    }
}
