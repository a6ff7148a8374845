//! [`Beacon`]: a node's announcement of itself and of the services by which it can be reached.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use dhow_bundle::NodeId;

use super::refusal::BeaconRefusal;
use super::wire;

/// Octets of a datagram that are read: what an Ethernet frame carries over IPv4. Longer ones are refused.
pub const MAX_BEACON_OCTETS: usize = 1_472;

/// Services of one beacon that are read; those behind them are skipped.
pub const MAX_SERVICES: usize = 32;

/// Octets of the text of a node ID, and of a host name, at most.
pub const MAX_NODE_ID_OCTETS: u64 = 255;

/// A form of beacons. Each has its name in node files, where it is one of [`Format::NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Version 0x04 (draft-irtf-dtnrg-ipnd-02 and -03).
    #[default]
    Ipnd4,
    /// Version 0x02 (draft -01, as IBR-DTN writes it).
    Ipnd2,
    /// Version 0x01 (draft -00, as IBR-DTN writes it).
    Ipnd1,
    /// The announcement of DTN2 from before IPND, which has no version.
    Dtn2,
    /// Version 0x07: CBOR, as dtn7-rs writes it.
    Cbor,
}

impl Format {
    /// All values.
    pub const ALL: [Self; 5] = [
        Self::Ipnd4,
        Self::Ipnd2,
        Self::Ipnd1,
        Self::Dtn2,
        Self::Cbor,
    ];

    /// Their names, in the same order.
    pub const NAMES: &[&str] = &[
        Self::Ipnd4.name(),
        Self::Ipnd2.name(),
        Self::Ipnd1.name(),
        Self::Dtn2.name(),
        Self::Cbor.name(),
    ];

    /// The format's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipnd4 => "ipnd-0x04",
            Self::Ipnd2 => "ipnd-0x02",
            Self::Ipnd1 => "ipnd-0x01",
            Self::Dtn2 => "dtn2",
            Self::Cbor => "cbor",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// The formats that a datagram may be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hearing {
    /// All that have a version.
    #[default]
    Ipnd,
    /// The announcement of DTN2 too: a datagram that has the length which it names at octets 2 and 3 is one.
    IpndAndDtn2,
}

/// The convergence layer of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceProtocol {
    /// TCPCL, of whichever version.
    Tcpcl,
    /// Bundles over UDP.
    Udpcl,
    /// MTCP; CBOR beacons alone have a name for it.
    Mtcp,
}

impl ServiceProtocol {
    /// The protocol's name, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcpcl => "tcpcl",
            Self::Udpcl => "udp",
            Self::Mtcp => "mtcp",
        }
    }
}

/// The host of a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// The one from whose address the beacon came.
    Sender,
    /// The one that has this address.
    Address(IpAddr),
    /// The one of this name, of 1 to 255 octets.
    Name(String),
}

/// A convergence layer at which a node can be reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service {
    /// The convergence layer.
    pub protocol: ServiceProtocol,
    /// Its host.
    pub host: Host,
    /// Its port, never 0.
    pub port: u16,
}

/// A beacon: one datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beacon {
    /// The node that sends the beacon.
    pub node: NodeId,
    /// The time until the next, in whole seconds but in DTN2's form, where it is in tenths; zero where none will follow, `None` where it is not said.
    pub period: Option<Duration>,
    /// The sender's count of its beacons to this destination; of 16 bits but in the CBOR form. 0 in the forms that have none.
    pub sequence: u32,
    /// Services that this crate knows, [`MAX_SERVICES`] at most.
    pub services: Vec<Service>,
}

/// A beacon as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The form that it came in.
    pub format: Format,
    /// Its content.
    pub beacon: Beacon,
    /// Whether a service was malformed, so that neither it nor anything behind it was read.
    pub is_cut: bool,
}

impl Beacon {
    /// Reads a datagram.
    ///
    /// # Errors
    /// It is no beacon, or names no node.
    pub fn decode(datagram: &[u8], hearing: Hearing) -> Result<Heard, BeaconRefusal> {
        wire::decode(datagram, hearing)
    }

    /// Appends the beacon in a format to `out`. Periods are rounded up, and what a format has no form for is left out: services other than TCPCL
    /// and UDPCL but in the CBOR form, hosts that are not the sender in the CBOR form, all services but the first of DTN2's form.
    pub fn encode(&self, format: Format, out: &mut Vec<u8>) {
        wire::encode(self, format, out);
    }

    /// The period in whole seconds, rounded up.
    pub(super) fn period_s(&self) -> Option<u64> {
        let period = self.period?;
        Some(period.as_secs() + u64::from(period.subsec_nanos() > 0))
    }
}
