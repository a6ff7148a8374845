//! The configuration of a node: identity, links, listeners, routes, limits and policies.

use alloc::string::String;
use alloc::vec::Vec;
pub use dhow_bundle::RouterKind;
pub use dhow_bundle::gateway::AgeDialect;
pub use dhow_bundle::protocol::{
    Aggregation, BibeDialect, BibePolicy, Framing, LtpAuthentication, LtpPolicy, OnSent, Protocol,
    RedPart, StcpPolicy, UdpPolicy,
};
pub use dhow_bundle::router::{Acknowledgments, DropPolicy};

use dhow_bundle::storage::REMOVED_BOUND;
use dhow_bundle::{NodeId, Priority, Version};

use crate::contacts::ContactTable;
pub use crate::discovery::config::{DiscoverConfig, DiscoverId};

/// Everything a node must know at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's IDs; the first is the one that it presents and puts into previous-node blocks.
    pub node_ids: Vec<NodeId>,
    /// Configured links, by position: [`LinkId`].
    pub links: Vec<LinkConfig>,
    /// Listeners, by position: [`ListenerId`].
    pub listeners: Vec<ListenerConfig>,
    /// Static routes.
    pub routes: Vec<Route>,
    /// The routers of destinations, by pattern; static routes decide about all others.
    pub routing: Vec<Routing>,
    /// Routers that are programs of their own (docs/external.md).
    pub external: ExternalConfig,
    /// Contacts that are planned, of this node and of others.
    pub contacts: ContactTable,
    /// Most octets in the store, bundles as stored.
    pub quota_octets: u64,
    /// Most bundles in the store.
    pub quota_bundles: u64,
    /// Octets of memory for the index, at most: bundles, the endpoint IDs that they name, queues and sessions
    /// ([`Node::memory_octets`](crate::Node::memory_octets)). A node that has no more refuses.
    pub memory_octets: u64,
    /// Octets that may wait for the store to make them durable, at most; beyond it streams are not read
    /// (about twice rate × flush time keeps a disk busy; by default a 64th of the memory, from 1 to 64 MiB).
    pub store_queue_octets: u64,
    /// Status reports that this node may generate.
    pub reports: Reports,
    /// Service number of the echo service on `ipn:` node IDs (and its name on `dtn:` ones: `echo`); `None` for no echo.
    pub echo_service: Option<u32>,
    /// Service number of the perf service on `ipn:` node IDs (and its name on `dtn:` ones: `perf`); `None` for none.
    pub perf_service: Option<u32>,
    /// Bundles by which the echo and perf services answer one source in a second, at most.
    pub answers_per_second: u32,
    /// Sources whose measurements are counted, by pattern text; empty for all.
    pub perf_sources: Vec<String>,
    /// The checksum of the payload block of bundles that this node makes.
    pub payload_checksum: PayloadChecksum,
    /// Lifetime of bundles whose sender names none, milliseconds.
    pub default_lifetime_ms: u64,
    /// The greatest priority that applications of this node may ask for; none for any.
    pub highest_priority: Option<Priority>,
    /// The share of the store of each source.
    pub source_limits: SourceLimits,
    /// Custody of bundles of version 6.
    pub custody: CustodyPolicy,
    /// Identities of removed bundles that are remembered until they expire.
    pub removed_bound: usize,
    /// Octets that are asked of the store before a small bundle leaves.
    pub first_read: FirstRead,
    /// Places at which neighbours are found by their beacons.
    pub discover: Vec<DiscoverConfig>,
    /// Seed of all entropy in the node.
    pub seed: u64,
}

impl Config {
    /// The defaults, in one place for the node file, for simulated nodes and for tests: a node that dials nobody and
    /// answers any node that dials it, with a store of 10 GiB and no bound on memory.
    #[must_use]
    pub fn usual(node_ids: Vec<NodeId>) -> Self {
        Self {
            node_ids,
            links: Vec::new(),
            listeners: alloc::vec![ListenerConfig::default()],
            routes: Vec::new(),
            routing: Vec::new(),
            external: ExternalConfig::default(),
            contacts: ContactTable::default(),
            quota_octets: 10 << 30,
            quota_bundles: u64::MAX,
            memory_octets: u64::MAX,
            store_queue_octets: STORE_QUEUE_OCTETS_MOST,
            reports: Reports::default(),
            echo_service: Some(7),
            perf_service: Some(5_201),
            answers_per_second: 100,
            perf_sources: Vec::new(),
            payload_checksum: PayloadChecksum::default(),
            default_lifetime_ms: 86_400_000,
            highest_priority: None,
            source_limits: SourceLimits::default(),
            custody: CustodyPolicy::default(),
            removed_bound: REMOVED_BOUND,
            first_read: FirstRead::default(),
            discover: Vec::new(),
            seed: 0,
        }
    }
}

/// Octets that are asked of the store before a bundle of up to 16 KiB leaves; of larger ones it is always the header blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstRead {
    /// All of it: one read instead of two, and its checksums are compared.
    #[default]
    Whole,
    /// Its header blocks, unless it is an administrative record: a driver that gives octets of its store to a session without a copy
    /// holds no memory for those that wait to leave.
    HeaderBlocks,
}

/// Custody of bundles of version 6 that ask for it (RFC 5050 5.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustodyPolicy {
    /// Whether this node becomes their custodian.
    pub accept: Enabled,
    /// Whether bundles leave with a number of this node, so that a signal may tell of many (aggregate custody signals). Programs that take
    /// the block with the number for the age of a bundle (IBR-DTN, DTN2) want none.
    pub aggregate: Enabled,
    /// The time that a signal waits for other bundles to tell of, milliseconds (default 15,000).
    pub delay_ms: u64,
    /// The time after which a bundle is sent again for which no signal came, milliseconds, twice as long each time (default 30,000).
    pub retry_ms: u64,
}

impl Default for CustodyPolicy {
    fn default() -> Self {
        Self {
            accept: Enabled::Yes,
            aggregate: Enabled::Yes,
            delay_ms: 15_000,
            retry_ms: 30_000,
        }
    }
}

/// Position in [`Config::links`] (links made at run time follow).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// Position in [`Config::listeners`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// A neighbour that this node dials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// The operator's name for it, unique.
    pub name: String,
    /// Policy of its sessions.
    pub policy: SessionPolicy,
    /// Whether the link starts up; an operator may change it.
    pub enabled: Enabled,
    /// Parallel sessions to hold open; 1 to 16. Over UDP, and in bundles, always 1.
    pub sessions: u8,
    /// First delay before dialling again, milliseconds (default 50).
    pub backoff_min_ms: u64,
    /// Largest delay before dialling again, milliseconds (default 1000).
    pub backoff_max_ms: u64,
    /// The protocol that is spoken on it.
    pub protocol: Protocol,
    /// When it is dialled.
    pub dial: DialTime,
}

/// When a link is dialled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DialTime {
    /// Whenever a session is missing.
    #[default]
    Always,
    /// Only during contacts of [`Config::contacts`] from this node to the peer that the link's policy names. A session that stands when
    /// a contact ends is left to itself; where nobody acknowledges it ends with the contact.
    Contacts,
}

impl LinkConfig {
    /// A link of this name with the defaults.
    #[must_use]
    pub fn usual(name: String) -> Self {
        Self {
            name,
            policy: SessionPolicy::default(),
            enabled: Enabled::Yes,
            sessions: 1,
            backoff_min_ms: 50,
            backoff_max_ms: 1_000,
            protocol: Protocol::default(),
            dial: DialTime::default(),
        }
    }
}

/// Whether something is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enabled {
    /// On.
    Yes,
    /// Off.
    No,
}

/// A listener for neighbours that dial this node.
#[derive(Clone, Debug, Default)]
pub struct ListenerConfig {
    /// Policy of its sessions.
    pub policy: SessionPolicy,
    /// The protocol that is spoken on its connections: the default answers either version of TCPCL. Over UDP there are none.
    pub protocol: Protocol,
}

/// The checksum of a payload block (RFC 9171 4.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadChecksum {
    /// CRC-32C.
    #[default]
    Crc32C,
    /// None: the next hop cannot tell whether the payload is as it was made.
    None,
}

/// When TLS protects a session (RFC 9174 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// No session without TLS.
    Required,
    /// If the peer can.
    Preferred,
    /// Never offered.
    #[default]
    Never,
}

/// When a neighbour is told that a bundle of its is safe (RFC 9174 5.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// Once it is durable here.
    #[default]
    Here,
    /// Of a bundle that is sent on while it comes in: once the next hop has acknowledged it, or has not
    /// taken it. Of others as with `Here`.
    NextHop,
}

/// The order in which waiting bundles leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendOrder {
    /// First in, first out within a flow, from one source to one destination; flows take turns.
    #[default]
    Arrival,
    /// The one that expires first goes first.
    Expiry,
}

/// Largest transfer taken where nothing else is said and the quota is larger, octets: 16 GiB.
pub const DEFAULT_TRANSFER_MRU: u64 = 16 << 30;

/// Octets that a session may have under way by default, at most: with little memory they are fewer.
pub const WINDOW_OCTETS_MOST: u64 = 128 << 20;

/// Octets that wait for the store by default, at most: with little memory they are fewer.
pub const STORE_QUEUE_OCTETS_MOST: u64 = 128 << 20;

/// The policy of the sessions of one link or listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPolicy {
    /// Keepalive interval offered, seconds; 0 for none.
    pub keepalive_s: u16,
    /// Largest segment taken, octets.
    pub segment_mru: u64,
    /// Largest transfer taken, octets; no more than the quota is announced.
    pub transfer_mru: u64,
    /// Largest segment sent, octets (the peer's MRU binds too).
    pub segment_octets: u64,
    /// End a session after this long without transfers, seconds; 0 for never.
    pub idle_timeout_s: u32,
    /// The time that a session may take from the connection to the peer's `SESS_INIT`, and that one which ends may stand
    /// without an octet moving, seconds (default 10). RFC 9174 4.1 asks for at most 60 s; a link whose round trip is
    /// longer needs several of its round trips.
    pub answer_timeout_s: u32,
    /// End a session whose peer has begun a transfer of which nothing more comes for this long, seconds; 0 for never (default 300).
    pub transfer_timeout_s: u32,
    /// TLS.
    pub tls: Tls,
    /// True where a session without a proven node ID is refused although TLS is on (RFC 9174 4.4.4).
    pub require_node_id: Enabled,
    /// The only peer allowed, if set.
    pub peer: Option<NodeId>,
    /// The strictness with which bundles and acknowledgments are read.
    pub reading: ReadingPolicy,
    /// Cut bundles into fragments of at most this many payload octets before sending; `None`: only where the peer's transfer MRU demands it.
    pub fragment_octets: Option<u64>,
    /// Octets sent and not yet acknowledged, at most, per session.
    pub window_octets: u64,
    /// Bundles sent and not yet acknowledged, at most, per session.
    pub window_bundles: u32,
    /// Whether large bundles are sent on to this peer while they still come in.
    pub cut_through: Enabled,
    /// Whether a transfer that fails goes on where it stopped, where the peer does so too.
    pub resume: Enabled,
    /// Whether payload blocks leave without their checksum, for peers that take none which has one.
    pub strip_checksum: Enabled,
    /// When the peer is told that its bundles are safe.
    pub acknowledge: Acknowledge,
    /// Order of sending.
    pub order: SendOrder,
    /// Whether the peer may hand over bundles whose source is another node than itself.
    pub accept_relayed: Enabled,
    /// Whether this node forwards to third nodes what came from this peer.
    pub relay: Enabled,
    /// Sources that are accepted, by pattern text; empty for all.
    pub accept_sources: Vec<String>,
    /// The greatest priority that the peer's bundles have here, whatever they say; none for any.
    pub highest_priority: Option<Priority>,
    /// The versions of the Bundle Protocol that the peer takes: bundles of another leave translated (docs/gateway.md).
    pub bundle_versions: BundleVersions,
    /// The block that tells the age of bundles which leave translated into version 6.
    pub age_dialect: AgeDialect,
    /// The limits of what the peer brings.
    pub limits: Limits,
}

/// Limits of what a neighbour brings over all of its sessions; none where there is no limit. Bundles above a limit are refused for lack of
/// resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Octets of bundles a second.
    pub octets_per_s: Option<u64>,
    /// Bundles a second.
    pub bundles_per_s: Option<u64>,
    /// Octets in the store.
    pub held_octets: Option<u64>,
    /// Bundles in the store.
    pub held_bundles: Option<u64>,
}

/// Limits of each source's share of the store, of the bundles that neighbours bring; none where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceLimits {
    /// Octets.
    pub octets: Option<u64>,
    /// Bundles.
    pub bundles: Option<u64>,
}

/// Versions of the Bundle Protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BundleVersions {
    /// 6 and 7.
    #[default]
    Both,
    /// 6 (RFC 5050).
    Six,
    /// 7 (RFC 9171).
    Seven,
}

impl BundleVersions {
    /// The versions of a list of numbers; `None` where it is empty, or has others than 6 and 7.
    #[must_use]
    pub fn of_numbers(numbers: &[i64]) -> Option<Self> {
        let is_all = |of: &[i64]| numbers.iter().all(|number| of.contains(number));
        match numbers {
            [] => None,
            _ if is_all(&[6]) => Some(Self::Six),
            _ if is_all(&[7]) => Some(Self::Seven),
            _ => is_all(&[6, 7]).then_some(Self::Both),
        }
    }

    /// The numbers of the versions.
    pub fn numbers(self) -> impl Iterator<Item = u8> {
        let versions = Version::ALL.into_iter();
        versions
            .filter(move |version| self.has(*version))
            .map(Version::number)
    }

    /// Whether a version is among them.
    #[must_use]
    pub const fn has(self, version: Version) -> bool {
        match self {
            Self::Both => true,
            Self::Six => matches!(version, Version::V6),
            Self::Seven => matches!(version, Version::V7),
        }
    }
}

/// The strictness with which bundles are read (the list of what lenient means is in the bundle crate).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadingPolicy {
    /// Bundles are read as the standards say.
    #[default]
    Strict,
    /// Bundles are read with the published exceptions.
    Lenient,
}

impl Default for SessionPolicy {
    fn default() -> Self {
        Self {
            keepalive_s: 30,
            segment_mru: 1 << 20,
            transfer_mru: DEFAULT_TRANSFER_MRU,
            segment_octets: 1 << 18,
            idle_timeout_s: 0,
            answer_timeout_s: 10,
            transfer_timeout_s: 300,
            tls: Tls::Never,
            require_node_id: Enabled::No,
            peer: None,
            reading: ReadingPolicy::Strict,
            fragment_octets: None,
            window_octets: WINDOW_OCTETS_MOST,
            window_bundles: 65_536,
            cut_through: Enabled::Yes,
            resume: Enabled::Yes,
            strip_checksum: Enabled::No,
            acknowledge: Acknowledge::Here,
            order: SendOrder::Arrival,
            accept_relayed: Enabled::Yes,
            relay: Enabled::Yes,
            accept_sources: Vec::new(),
            highest_priority: None,
            bundle_versions: BundleVersions::Both,
            age_dialect: AgeDialect::Type20,
            limits: Limits::default(),
        }
    }
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Endpoint-ID pattern, as text (`ipn:4.*`).
    pub to: String,
    /// Name of a link, or the ID of a node to which any session will do, dialled or accepted.
    pub via: String,
    /// Among routes whose patterns are equally specific for a destination, those of a higher priority are used first; default 0. A session
    /// with the destination's own node comes before all routes.
    pub priority: i32,
}

/// The router of all destinations of a pattern. The most specific pattern of a destination counts, the first of equals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Endpoint-ID pattern, as text (`ipn:*.*`).
    pub to: String,
    /// The router that decides about their bundles.
    pub router: RouterKind,
    /// With spray and wait, the copies of a bundle that is made here, 1 to 65,536 (default [`COPIES`]).
    pub copies: u32,
    /// The nodes whose acknowledgments end copies (default [`RouterKind::acknowledgments`]).
    pub acknowledgments: Acknowledgments,
    /// The copies that a full store deletes.
    pub drop: DropPolicy,
}

/// The usual copies of a bundle with spray and wait: enough for some hundred nodes.
pub const COPIES: u32 = 8;

/// Routers that are programs of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalConfig {
    /// Settings of all external routers.
    pub policy: ExternalPolicy,
    /// Their destinations. The most specific pattern of a destination counts, of [`Config::routing`] and of this, the first of equals.
    pub routing: Vec<ExternalRouting>,
}

/// The destinations of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalRouting {
    /// Endpoint-ID pattern, as text (`ipn:*.*`).
    pub to: String,
    /// The name that the program gives; none of a [`RouterKind`].
    pub program: String,
}

/// The times that programs are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalPolicy {
    /// Questions that a program may leave without an answer, at most; at least 1 (default 256).
    pub questions: u32,
    /// The time after which a program whose answer does not come is cut off, milliseconds (default 10,000).
    pub answer_ms: u64,
    /// The time after which bundles without a decision go by routes, where there are any, milliseconds; 0 for never (default 0).
    pub fallback_ms: u64,
}

impl Default for ExternalPolicy {
    fn default() -> Self {
        Self {
            questions: 256,
            answer_ms: 10_000,
            fallback_ms: 0,
        }
    }
}

/// The status reports that this node generates (RFC 9171 5.1: none by default).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reports {
    /// Bundle processing control flags of the kinds that are generated (0x4000 reception, 0x10000 forwarding, 0x20000 delivery, 0x40000 deletion).
    pub generate: u64,
    /// Most reports a second; above it they are counted and not made.
    pub per_second: u32,
    /// The time that reports for an endpoint that reads aggregated ones wait for each other, milliseconds; 0 for not
    /// at all: each is sent by itself.
    pub collect_ms: u64,
    /// Most reports that wait for each other; 1 to 65536.
    pub collect_most: usize,
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            generate: 0,
            per_second: 10_000,
            collect_ms: 100,
            collect_most: 4_096,
        }
    }
}
