//! The convergence layers that files name.

use crate::v7::admin::bibe::{BibeTypes, Numbering};

/// The convergence layer of a link. Each has its name in node files and scenarios, where it is one of [`Protocol::NAMES`]. A listener for
/// connections answers either version of TCPCL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// TCPCLv4 (RFC 9174).
    #[default]
    Tcpcl4,
    /// TCPCLv3 (RFC 7242).
    Tcpcl3,
    /// TCPCLv4, and version 3 with a peer that does not speak it.
    Auto,
    /// Bundles over UDP (RFC 7122, draft-ietf-dtn-udpcl-04), with the peer that the policy names. Nothing is acknowledged:
    /// a bundle is removed when its last datagram has left ([`OnSent`]), and may be lost.
    Udp(UdpPolicy),
    /// Blocks of the Licklider Transmission Protocol (RFC 5326) over UDP, client service 1 (RFC 7116), with the peer that the policy
    /// names. A red block is acknowledged; of one that is not, a bundle is removed as over UDP.
    Ltp(LtpPolicy),
    /// Bundles one after the other over a TCP connection, from the side that dials to the side that accepts
    /// (draft-burleigh-dtn-stcp-00, draft-ietf-dtn-mtcpcl-01, CCSDS 133.1-B-3), with the peer that the policy names. Nothing is acknowledged: a bundle is
    /// removed when the socket has taken its last octet ([`OnSent`]), and may be lost.
    Stcp(StcpPolicy),
    /// Bundles as the payload of other bundles, which take their own way to the peer that the policy names (draft-ietf-dtn-bibect-03). The
    /// node needs no connection for it.
    Bibe(BibePolicy),
    /// A program that leads to the peer (docs/external.md). It comes by itself, so that no file names it as a link's.
    Program,
}

/// The service below a convergence layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// Connections over TCP.
    Tcp,
    /// Datagrams over UDP.
    Udp,
    /// Bundles: nothing is dialled.
    Bundles,
}

/// The behaviour of a link over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPolicy {
    /// Largest datagram sent, octets of UDP payload; [`UdpPolicy::MTU_MIN`] to [`UdpPolicy::MTU_MAX`] (default 1232).
    pub mtu_octets: u64,
    /// UDP payload sent, octets a second: nothing else slows the sender down (default 1,250,000).
    pub octets_per_s: u64,
    /// The fate of a bundle when its last datagram has left.
    pub on_sent: OnSent,
}

/// The behaviour of a link over LTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LtpPolicy {
    /// The engine ID here; `None` for the node number of the node's `ipn:` ID.
    pub engine: Option<u64>,
    /// The engine ID of the peer; `None` for the node number of its `ipn:` ID.
    pub remote_engine: Option<u64>,
    /// The part of each block that is acknowledged, and sent again where it is lost.
    pub red: RedPart,
    /// Largest datagram sent, octets of UDP payload; [`UdpPolicy::MTU_MIN`] to [`UdpPolicy::MTU_MAX`] (default 1400).
    pub mtu_octets: u64,
    /// UDP payload sent, octets a second: nothing else slows the sender down (default 1,250,000).
    pub octets_per_s: u64,
    /// One-way light time, milliseconds, where no planned contact says another (default 50).
    pub light_time_ms: u64,
    /// Largest block in either direction, octets (default [`LtpPolicy::BLOCK_MAX`]: as much as the link's transfers may have). Larger bundles are
    /// cut into fragments.
    pub block_octets: u64,
    /// Blocks that may be under way at a time in each direction (default 1,024).
    pub blocks: u32,
    /// The fate of a bundle whose block is not all red when its last datagram has left.
    pub on_sent: OnSent,
    /// The proof of where segments come from.
    pub authentication: LtpAuthentication,
    /// The blocks of bundles that wait.
    pub aggregation: Aggregation,
}

/// The blocks of bundles that wait for a peer over LTP, where these are small and blocks all red.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregation {
    /// Several are one block, which the peer takes apart.
    #[default]
    Shared,
    /// Each is a block.
    Alone,
}

/// The part of a block that is red: acknowledged, and sent again where it is lost (RFC 5326 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedPart {
    /// The whole block.
    #[default]
    All,
    /// No part of the block.
    None,
    /// So many octets from its start; shorter blocks are all red.
    Octets(u64),
}

/// The authentication of the segments of a link over LTP, both ways (RFC 5327 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LtpAuthentication {
    /// None.
    #[default]
    None,
    /// HMAC-SHA1-80, with a key that the driver has.
    Key,
    /// RSA-SHA256, with keys that the driver has: signatures of this node have so many octets.
    Signature(u64),
}

/// The form of bundles on a TCP connection that carries them in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Framing {
    /// STCP as it is deployed: the length in 32 bits in network order, then the bundle. Length 0 is a keep-alive.
    #[default]
    Stcp,
    /// STCP as in draft-burleigh-dtn-stcp-00, section 3.2: a CBOR array of the length and a byte string.
    StcpDraft,
    /// MTCP (draft-ietf-dtn-mtcpcl-01): a CBOR byte string.
    Mtcp,
    /// Encapsulation packets of CCSDS (133.1-B-3), each with one bundle (CCSDS 734.2-B-1 B2.1.6). An idle packet is a keep-alive.
    Encapsulation,
}

/// The behaviour of a link over a connection in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StcpPolicy {
    /// The form of bundles.
    pub framing: Framing,
    /// The fate of a bundle when the socket has taken its last octet.
    pub on_sent: OnSent,
}

/// The behaviour of a link that carries bundles in others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BibePolicy {
    /// The codes that the peer's program uses.
    pub dialect: BibeDialect,
    /// Whether a bundle stays until a custody signal of the peer says that it has it, and leaves again where none comes.
    pub custody: bool,
    /// The time that a bundle takes to the peer, milliseconds (default 0).
    pub latency_ms: u64,
    /// The time that a custody signal to the peer waits for other transmissions to tell of, milliseconds (default 15,000).
    pub delay_ms: u64,
}

/// The codes of Bundle-in-Bundle Encapsulation that a program writes. The record types of all of them are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BibeDialect {
    /// The codes of draft-ietf-dtn-bibect-03.
    #[default]
    Draft,
    /// The codes of ION: other record types, and times as seconds of Unix time.
    Ion,
    /// The codes of DTNME: other dispositions.
    Dtnme,
    /// The codes of uD3TN: another record type, and no custody signals.
    Ud3tn,
}

/// The fate of a bundle that has left over a link without acknowledgments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnSent {
    /// The bundle is removed.
    #[default]
    Forget,
    /// The bundle is held until it expires, and leaves by another link that comes up, but not over this one again while the node runs.
    Keep,
}

impl Protocol {
    /// All that files name, with default settings.
    pub const ALL: [Self; 10] = [
        Self::Tcpcl4,
        Self::Tcpcl3,
        Self::Auto,
        Self::Udp(UdpPolicy::DEFAULT),
        Self::Ltp(LtpPolicy::DEFAULT),
        Self::framed(Framing::Stcp),
        Self::framed(Framing::StcpDraft),
        Self::framed(Framing::Mtcp),
        Self::framed(Framing::Encapsulation),
        Self::Bibe(BibePolicy::DEFAULT),
    ];

    /// Their names, in the same order.
    pub const NAMES: &[&str] = &[
        Self::Tcpcl4.name(),
        Self::Tcpcl3.name(),
        Self::Auto.name(),
        Self::Udp(UdpPolicy::DEFAULT).name(),
        Self::Ltp(LtpPolicy::DEFAULT).name(),
        Framing::Stcp.name(),
        Framing::StcpDraft.name(),
        Framing::Mtcp.name(),
        Framing::Encapsulation.name(),
        Self::Bibe(BibePolicy::DEFAULT).name(),
    ];

    /// The names of those that links of scenarios have: all but the one that carries bundles in others.
    pub const OF_SCENARIOS: &[&str] = &[
        Self::Tcpcl4.name(),
        Self::Tcpcl3.name(),
        Self::Auto.name(),
        Self::Udp(UdpPolicy::DEFAULT).name(),
        Self::Ltp(LtpPolicy::DEFAULT).name(),
        Framing::Stcp.name(),
        Framing::StcpDraft.name(),
        Framing::Mtcp.name(),
        Framing::Encapsulation.name(),
    ];

    /// The names that a listener's may have: that of TCPCLv4 answers either version of TCPCL. All others have to be told, since their peers say
    /// nothing by which one could be found out.
    pub const LISTENERS: &[&str] = &[
        Self::Tcpcl4.name(),
        Self::Udp(UdpPolicy::DEFAULT).name(),
        Self::Ltp(LtpPolicy::DEFAULT).name(),
        Framing::Stcp.name(),
        Framing::StcpDraft.name(),
        Framing::Mtcp.name(),
        Framing::Encapsulation.name(),
    ];

    /// Connections in one direction with this form of bundles, with default settings.
    #[must_use]
    pub const fn framed(framing: Framing) -> Self {
        Self::Stcp(StcpPolicy {
            framing,
            on_sent: OnSent::Forget,
        })
    }

    /// The value's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcpcl4 => "tcpcl",
            Self::Tcpcl3 => "tcpcl3",
            Self::Auto => "auto",
            Self::Udp(_) => "udp",
            Self::Ltp(_) => "ltp",
            Self::Stcp(policy) => policy.framing.name(),
            Self::Bibe(_) => "bibe",
            Self::Program => "program",
        }
    }

    /// The protocol of this name, with default settings.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.name() == name)
    }

    /// The service that it uses.
    #[must_use]
    pub const fn transport(self) -> Transport {
        match self {
            Self::Tcpcl4 | Self::Tcpcl3 | Self::Auto | Self::Stcp(_) | Self::Program => {
                Transport::Tcp
            }
            Self::Udp(_) | Self::Ltp(_) => Transport::Udp,
            Self::Bibe(_) => Transport::Bundles,
        }
    }

    /// Whether its sessions can be protected by TLS.
    #[must_use]
    pub const fn has_tls(self) -> bool {
        match self {
            Self::Tcpcl4 | Self::Auto => true,
            // RFC 7242 7: the version has none of its own.
            Self::Tcpcl3 | Self::Udp(_) => false,
            // RFC 5327 2.1: segments are authenticated by themselves.
            Self::Ltp(_) => false,
            // The drafts leave it to management, and it is not offered.
            Self::Stcp(_) | Self::Program => false,
            // Bundles are protected on their way as any others.
            Self::Bibe(_) => false,
        }
    }

    /// Whether bundles go to the side that was dialled alone, and each side that has some dials.
    #[must_use]
    pub const fn is_one_way(self) -> bool {
        matches!(self, Self::Stcp(_))
    }

    /// Whether a peer says who it is; where it does not, a link names it.
    #[must_use]
    pub const fn tells_peer(self) -> bool {
        matches!(
            self,
            Self::Tcpcl4 | Self::Tcpcl3 | Self::Auto | Self::Program
        )
    }

    /// Whether transfers that are under way outlast the times in which nothing can pass.
    #[must_use]
    pub const fn keeps_transfers(self) -> bool {
        matches!(self, Self::Ltp(_))
    }

    /// The fate of a bundle that has left, where nobody acknowledges it.
    #[must_use]
    pub const fn on_sent(self) -> Option<OnSent> {
        match self {
            Self::Tcpcl4 | Self::Tcpcl3 | Self::Auto | Self::Bibe(_) | Self::Program => None,
            Self::Udp(policy) => Some(policy.on_sent),
            Self::Ltp(policy) if matches!(policy.red, RedPart::All) => None,
            Self::Ltp(policy) => Some(policy.on_sent),
            Self::Stcp(policy) => Some(policy.on_sent),
        }
    }
}

impl Framing {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Stcp, Self::StcpDraft, Self::Mtcp, Self::Encapsulation];

    /// The value's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stcp => "stcp",
            Self::StcpDraft => "stcp-draft",
            Self::Mtcp => "mtcp",
            Self::Encapsulation => "encapsulation",
        }
    }

    /// The longest bundle that it can carry, octets.
    #[must_use]
    pub const fn longest_octets(self) -> u64 {
        match self {
            Self::Stcp => 0xffff_ffff,
            Self::StcpDraft | Self::Mtcp => u64::MAX,
            // The length in an encapsulation packet counts its header of 8 octets.
            Self::Encapsulation => 0xffff_fff7,
        }
    }

    /// Whether it has frames without a bundle, by which a sender shows that it is there.
    #[must_use]
    pub const fn has_keepalive(self) -> bool {
        matches!(self, Self::Stcp | Self::Encapsulation)
    }
}

impl UdpPolicy {
    /// Least `mtu_octets`.
    pub const MTU_MIN: u64 = 128;

    /// Largest `mtu_octets`: UDP over IPv4 carries no more.
    pub const MTU_MAX: u64 = 65_507;

    const DEFAULT: Self = Self {
        mtu_octets: 1_232,
        octets_per_s: 1_250_000,
        on_sent: OnSent::Forget,
    };
}

impl Default for UdpPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl LtpPolicy {
    /// Least `block_octets`.
    pub const BLOCK_MIN: u64 = 1_024;

    /// Largest `block_octets`: 1 TiB.
    pub const BLOCK_MAX: u64 = 1 << 40;

    /// Most `blocks`.
    pub const BLOCKS_MAX: u32 = 65_536;

    const DEFAULT: Self = Self {
        engine: None,
        remote_engine: None,
        red: RedPart::All,
        mtu_octets: 1_400,
        octets_per_s: 1_250_000,
        light_time_ms: 50,
        block_octets: Self::BLOCK_MAX,
        blocks: 1_024,
        on_sent: OnSent::Forget,
        authentication: LtpAuthentication::None,
        aggregation: Aggregation::Shared,
    };
}

impl Default for LtpPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl BibePolicy {
    /// The draft's codes, no custody, no latency, and signals after 15 s.
    pub const DEFAULT: Self = Self {
        dialect: BibeDialect::Draft,
        custody: false,
        latency_ms: 0,
        delay_ms: 15_000,
    };
}

impl Default for BibePolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl BibeDialect {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Draft, Self::Ion, Self::Dtnme, Self::Ud3tn];

    /// Their names in files, in the same order.
    pub const NAMES: &[&str] = &[
        Self::Draft.name(),
        Self::Ion.name(),
        Self::Dtnme.name(),
        Self::Ud3tn.name(),
    ];

    /// The value's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Ion => "ion",
            Self::Dtnme => "dtnme",
            Self::Ud3tn => "ud3tn",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The record type codes that are written.
    #[must_use]
    pub const fn types(self) -> BibeTypes {
        match self {
            Self::Draft | Self::Dtnme => BibeTypes::Draft,
            Self::Ion => BibeTypes::Ion,
            Self::Ud3tn => BibeTypes::Ud3tn,
        }
    }

    /// The codes of dispositions.
    #[must_use]
    pub const fn numbering(self) -> Numbering {
        match self {
            Self::Dtnme => Numbering::Dtnme,
            Self::Draft | Self::Ion | Self::Ud3tn => Numbering::Draft,
        }
    }
}

impl OnSent {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Forget, Self::Keep];

    /// Their names in files, in the same order.
    pub const NAMES: &[&str] = &[Self::Forget.name(), Self::Keep.name()];

    /// The value's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forget => "forget",
            Self::Keep => "keep",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_is_found_by_its_name() {
        assert_eq!(Protocol::ALL.len(), Protocol::NAMES.len());
        for (protocol, name) in Protocol::ALL.into_iter().zip(Protocol::NAMES) {
            assert_eq!(protocol.name(), *name);
            assert_eq!(Protocol::named(name), Some(protocol));
        }
        assert_eq!(Protocol::named("TCPCL"), None);
        for (it, name) in BibeDialect::ALL.into_iter().zip(BibeDialect::NAMES) {
            assert_eq!((it.name(), BibeDialect::named(name)), (*name, Some(it)));
        }
        for name in Protocol::OF_SCENARIOS {
            let transport = Protocol::named(name).unwrap().transport();
            assert_ne!(transport, Transport::Bundles);
        }
        assert_eq!(Protocol::OF_SCENARIOS.len() + 1, Protocol::NAMES.len());
        for (it, name) in OnSent::ALL.into_iter().zip(OnSent::NAMES) {
            assert_eq!((it.name(), OnSent::named(name)), (*name, Some(it)));
        }
    }
}
