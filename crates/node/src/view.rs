//! The view of a node from outside: plain values for the operator's interface.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use dhow_bundle::{BundleId, DtnTime, EndpointId, Instant, NodeId};
use dhow_link::discovery::{Format, ServiceProtocol};

use crate::api::seam::DeliveryFailureAction;
use crate::config::{BundleVersions, Enabled, Protocol, Route};
use crate::discovery::config::DiscoverId;
use crate::driver::StreamId;

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Taken down by the operator or the configuration.
    Down,
    /// A connection is being made or a session negotiated.
    Dialling,
    /// The last attempt failed; the next one comes at this instant.
    Waiting(Instant),
    /// Nothing leads to its neighbour: it is dialled when the driver says that something does, or when a planned contact begins.
    Absent,
    /// At least one session is established.
    Up,
}

/// The state of a stored bundle, for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleState {
    /// The bundle waits for a hop or a subscriber.
    Waiting,
    /// The bundle is with a session or a subscriber.
    InFlight,
    /// The bundle is tried again after a while: a neighbour refused it, it came back, or its checksums are compared.
    AwaitingRetry,
    /// The bundle waits for the decision of a router that is a program.
    AwaitingRouter,
    /// The bundle has left over a link that promises nothing, and is kept until it expires.
    Sent,
    /// The next hop has it, and this node is its custodian until a signal says who is.
    AwaitingSignal,
    /// A fragment that waits for the others.
    Reassembling,
    /// Its octets are damaged on disk: neither sent nor delivered.
    Damaged,
}

impl fmt::Display for BundleState {
    /// `waiting`, `in_flight`, `resting`, `awaiting_router`, `sent`, `awaiting_signal`, `reassembling`, `damaged`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::InFlight => "in_flight",
            Self::AwaitingRetry => "resting",
            Self::AwaitingRouter => "awaiting_router",
            Self::Sent => "sent",
            Self::AwaitingSignal => "awaiting_signal",
            Self::Reassembling => "reassembling",
            Self::Damaged => "damaged",
        })
    }
}

/// The origin of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkOrigin {
    /// The configuration.
    Configured,
    /// An operator added it to the running node.
    Added,
    /// A beacon told of its neighbour.
    Found,
}

/// A configured link.
#[derive(Clone, Debug)]
pub struct LinkView {
    /// Its name.
    pub name: String,
    /// Its origin.
    pub origin: LinkOrigin,
    /// Whether the operator wants it up.
    pub enabled: Enabled,
    /// Its state.
    pub state: LinkState,
    /// The neighbour, once a session was established.
    pub peer: Option<NodeId>,
    /// The versions of the Bundle Protocol that bundles leave in.
    pub bundle_versions: BundleVersions,
    /// Established sessions.
    pub sessions: usize,
    /// When octets last came over it; `None` before any did.
    pub heard: Option<Instant>,
    /// Attempts to connect that failed in a row.
    pub failures: u32,
    /// Why the last attempt failed or the last session ended; `None` while all is well.
    pub last_error: Option<String>,
}

/// A neighbour of which a beacon told.
#[derive(Clone, Debug)]
pub struct NeighbourView {
    /// Its node ID, as it claims.
    pub node: NodeId,
    /// The entry of the configuration by which it was found.
    pub place: DiscoverId,
    /// The convergence layer by which it is reached.
    pub protocol: Option<ServiceProtocol>,
    /// The address that its link dials; empty while it has none.
    pub address: String,
    /// The format of its last beacon.
    pub format: Format,
    /// When its first beacon came.
    pub since: Instant,
    /// When its last beacon came.
    pub heard: Instant,
    /// The time between its beacons, milliseconds.
    pub period_ms: u64,
    /// Beacons that came from the neighbour.
    pub beacons: u64,
    /// The name of its link, once it has one.
    pub link: Option<String>,
    /// Established sessions with the neighbour's node ID, dialled by either side.
    pub sessions: usize,
    /// Whether one of them is under TLS, in which it proved what policy asks for.
    pub is_secured: bool,
    /// Why the last attempt of its link failed or the last session ended; `None` while all is well.
    pub last_error: Option<String>,
}

/// An established session.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// Its stream.
    pub stream: StreamId,
    /// The name of the link that dialled it; `None` for an accepted one.
    pub link: Option<String>,
    /// The neighbour.
    pub peer: NodeId,
    /// The convergence layer that is spoken, with default settings.
    pub protocol: Protocol,
    /// The versions of the Bundle Protocol that bundles leave in.
    pub bundle_versions: BundleVersions,
    /// True under TLS.
    pub secured: bool,
    /// When it was established.
    pub since: Instant,
    /// When octets last came, if any did: a session over datagrams is there before.
    pub heard: Option<Instant>,
    /// Bundles that the neighbour acknowledged.
    pub bundles_sent: u64,
    /// Octets of the bundles.
    pub octets_sent: u64,
    /// Bundles that came and were acknowledged.
    pub bundles_received: u64,
    /// Octets of the bundles.
    pub octets_received: u64,
    /// Bundles refused since the neighbour, or a source, had used up what it may have.
    pub limited: u64,
    /// Transfers sent and not yet acknowledged.
    pub in_flight: usize,
    /// The bundle that is coming in.
    pub arriving: Option<ArrivalView>,
    /// Counts of its datagrams; `None` over a stream.
    pub datagrams: Option<DatagramCounts>,
}

/// The use of a connection, from the one that gives way first where there are too many to the one that stays longest: of two of one kind
/// the one goes first from which octets came last the longer ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// The connection has brought no bundle yet.
    Nothing,
    /// The connection has brought bundles, and octets last then.
    Idle(Instant),
    /// The connection is within a bundle, of which octets came last then.
    Arriving(Instant),
}

/// Octets of bundles that a stream is to write: of transfers that are opened and have not left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Octets of the transfer that has begun to leave, without the heads of its segments.
    pub begun_octets: u64,
    /// Octets of transfers of which nothing has left.
    pub queued_octets: u64,
}

/// Datagrams of a conversation since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Datagrams that came.
    pub received: u64,
    /// Octets of UDP payload in the datagrams.
    pub received_octets: u64,
    /// Datagrams given to be sent.
    pub sent: u64,
    /// Octets of UDP payload in the datagrams.
    pub sent_octets: u64,
    /// Times that one of those that came broke a rule, and was dropped in whole or in part.
    pub faults: u64,
}

/// A bundle of which the beginning has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalView {
    /// Its identity.
    pub id: BundleId,
    /// Octets of the whole bundle.
    pub octets: u64,
    /// Octets that have come.
    pub received_octets: u64,
}

/// A route.
#[derive(Clone, Debug)]
pub struct RouteView {
    /// The route; an implicit one names a session's peer as its pattern.
    pub route: Route,
    /// True for the implicit route to a session's peer.
    pub implicit: bool,
    /// True when a session is established over which it could be used now.
    pub usable: bool,
    /// The router that decides, where routes do not: `via` is then `*`, every neighbour.
    pub router: Option<String>,
}

/// A router that is a program of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramView {
    /// Its name.
    pub name: String,
    /// Patterns of the destinations that it decides about.
    pub patterns: Vec<String>,
    /// Whether the program is there.
    pub is_there: bool,
    /// Times that it came.
    pub sessions: u64,
    /// Bundles that wait for its decision.
    pub undecided: usize,
    /// Questions without an answer.
    pub unanswered: usize,
    /// Questions that it was asked.
    pub questions: u64,
    /// Decisions that were taken.
    pub decisions: u64,
    /// Decisions about bundles that are not held.
    pub stale: u64,
}

/// Bundles that wait for one next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingView {
    /// The name of the link, or the node's ID; `None` for what waits for applications here or has no route.
    pub next_hop: Option<String>,
    /// Bundles whose best next hop it is.
    pub bundles: u64,
}

/// A registration.
#[derive(Clone, Debug)]
pub struct RegistrationView {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Connections that take deliveries now: active when more than none, passive otherwise.
    pub subscribers: usize,
    /// The fate of bundles while it is passive.
    pub failure_action: DeliveryFailureAction,
    /// Bundles that wait for the endpoint.
    pub waiting: usize,
}

/// Stored bundles of one destination.
#[derive(Clone, Debug)]
pub struct DestinationView {
    /// The destination endpoint.
    pub destination: EndpointId,
    /// Bundles stored.
    pub bundles: u64,
    /// Octets of the bundles.
    pub octets: u64,
    /// Milliseconds for which the oldest of them has been here.
    pub oldest_ms: u64,
    /// Milliseconds until the first of them expires.
    pub next_expiry_ms: Option<u64>,
    /// The link or peer over which the next would leave now; `None` while they wait.
    pub next_hop: Option<String>,
    /// Whether a router or a route leads there, or its node is a neighbour or an endpoint of this node.
    pub is_routed: bool,
    /// True for an endpoint of this node.
    pub local: bool,
}

/// The bundles for a destination, or for all that are not told of one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadView {
    /// The destination; `None` for all others.
    pub destination: Option<EndpointId>,
    /// Bundles stored.
    pub bundles: u64,
    /// Octets of the bundles.
    pub octets: u64,
    /// Milliseconds for which the oldest of them has been here.
    pub oldest_ms: u64,
}

/// The bundles that a neighbour took and brought since the start, over all its sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficView {
    /// The neighbour; `None` for all that have no counts of their own.
    pub peer: Option<NodeId>,
    /// Bundles that it acknowledged.
    pub bundles_sent: u64,
    /// Octets of the bundles.
    pub octets_sent: u64,
    /// Bundles that came and were acknowledged.
    pub bundles_received: u64,
    /// Octets of the bundles.
    pub octets_received: u64,
}

/// A stored bundle.
#[derive(Clone, Debug)]
pub struct BundleView {
    /// Its identity.
    pub id: BundleId,
    /// Its version.
    pub version: dhow_bundle::Version,
    /// The order in which it leaves this node.
    pub priority: dhow_bundle::Priority,
    /// Whether this node is its custodian.
    pub is_custodian: bool,
    /// Its destination.
    pub destination: EndpointId,
    /// Octets of the whole bundle.
    pub octets: u64,
    /// Octets of payload.
    pub payload_octets: u64,
    /// Milliseconds until it expires.
    pub expires_in_ms: u64,
    /// When it was received or created, by the wall clock.
    pub received: DtnTime,
    /// The neighbour that it came from.
    pub previous: Option<EndpointId>,
    /// True while it is being sent or delivered.
    pub in_flight: bool,
    /// Its state.
    pub state: BundleState,
}

/// Counts since the node's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bundles created by local applications and the node itself.
    pub created: u64,
    /// Bundles received from neighbours and stored.
    pub received: u64,
    /// Octets of the bundles.
    pub received_octets: u64,
    /// When the last of them was stored.
    pub last_received: Option<Instant>,
    /// Bundles that came again.
    pub duplicates: u64,
    /// Bundles that neighbours took.
    pub forwarded: u64,
    /// Octets of the bundles.
    pub forwarded_octets: u64,
    /// Bundles delivered to applications.
    pub delivered: u64,
    /// Bundles that expired.
    pub expired: u64,
    /// Bundles deleted for another reason.
    pub deleted: u64,
    /// Incoming bundles refused.
    pub refused: u64,
    /// Bundles of them that were refused since their neighbour brought more than its rate.
    pub limited_rate: u64,
    /// Bundles of them that were refused since their neighbour had used up its share of the store.
    pub limited_share: u64,
    /// Bundles of them that were refused since their source had used up its share.
    pub limited_source: u64,
    /// Outgoing bundles that neighbours refused.
    pub refused_by_peers: u64,
    /// Bundles that had no form in the version of the Bundle Protocol that a neighbour speaks, and wait for another next hop.
    pub untranslatable: u64,
    /// Status reports generated.
    pub reports: u64,
    /// Reports of them sent in bundles that can carry many.
    pub reports_collected: u64,
    /// Status reports not generated because there were too many.
    pub reports_suppressed: u64,
    /// Bundles that the echo and perf services did not answer: their source answers itself, or was answered often
    /// enough.
    pub answers_withheld: u64,
    /// Adverts of routers sent to neighbours.
    pub adverts_sent: u64,
    /// Adverts of neighbours that a router took.
    pub adverts_taken: u64,
    /// Adverts that no router took (docs/adverts.md).
    pub adverts_refused: u64,
    /// Copies deleted since their bundle is known to be where it was to go (docs/adverts.md).
    pub purged: u64,
    /// Copies deleted so that other bundles find room (docs/routing.md).
    pub dropped: u64,
    /// Connections of programs that the node ended, for what they said or did not say (docs/external.md).
    pub programs_ended: u64,
    /// Bundles that went by routes since no program decided about them in time.
    pub fallbacks: u64,
    /// Custody signals sent, aggregates as one.
    pub signals_sent: u64,
    /// Custody signals about bundles that this node has not, or has no custody of.
    pub signals_ignored: u64,
    /// Administrative records for this node that nothing here reads: reports, or bundles for a tunnel that it does not have (docs/bibe.md).
    pub records_unread: u64,
    /// Stored bundles found corrupt.
    pub quarantined: u64,
    /// Events that the state of a bundle does not allow: mistakes in this program.
    pub transitions_refused: u64,
    /// Fragments made.
    pub fragments: u64,
    /// Bundles that were sent on while they came in.
    pub passed: u64,
    /// Fragments kept of bundles whose transfer failed.
    pub kept: u64,
    /// Times that a bundle went on behind what next hops had of it.
    pub resumed: u64,
    /// Bundles put together from fragments.
    pub reassembled: u64,
    /// Times that a datagram broke a rule, and was dropped in whole or in part.
    pub datagram_faults: u64,
}

impl Counters {
    /// A bundle from a neighbour is stored.
    pub(crate) fn count_received(&mut self, now: Instant, octets: u64) {
        self.received += 1;
        self.received_octets += octets;
        self.last_received = Some(now);
    }
}
