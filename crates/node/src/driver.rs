//! Everything that goes into a node and comes out of it.
//!
//! A driver calls [`Node::handle`](crate::Node::handle) with an [`Event`], then
//! [`Node::poll`](crate::Node::poll) until it gives no more [`Action`]s, and
//! [`Node::poll_octets`](crate::Node::poll_octets) for each stream that an `Action::Flush` names.
//! Octet streams are numbered by the driver; what speaks on them (TCPCLv4, AAP 2.0) is the node's.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use dhow_bundle::eid::PatternError;
use dhow_bundle::storage::{Extents, Medium, StoreCommand, StoreEvent, StoreRefusal, StoredBundle};
use dhow_bundle::{BundleId, DtnTime, EndpointId, NodeId};
use dhow_link::stream::{DownReason, PeerIdentities, RefuseReason, SessionParameters};

use crate::changes::Changes;
use crate::config::{LinkId, ListenerId, Route};
use crate::discovery::config::DiscoverId;
use crate::discovery::origin::BeaconOrigin;
use crate::steps::BundleStep;

/// An octet stream (a connection) that a driver has opened or accepted, or a conversation with a peer by datagrams; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// The numbers of tunnels are from this one on.
const TUNNELS: u64 = 1 << 63;

impl StreamId {
    /// The tunnel of a number, through which bundles go in others: a session of the node's of which no driver knows.
    pub(crate) const fn of_tunnel(number: u64) -> Self {
        Self(TUNNELS | number)
    }

    /// Whether it is a tunnel: it stands for as long as its link is up, whatever connections there are.
    #[must_use]
    pub const fn is_tunnel(self) -> bool {
        self.0 >= TUNNELS
    }
}

/// The number of a question to a driver, chosen by the part that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The purpose of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A dialled connection of a link: answer to `Action::Dial`. Of a link over UDP a conversation with its address.
    Dialled {
        /// The link.
        link: LinkId,
    },
    /// A connection that a neighbour made.
    Accepted {
        /// The listener that accepted it.
        listener: ListenerId,
    },
    /// An application's connection.
    Client,
    /// The connection of a program that is a part of the node (docs/external.md).
    Program,
    /// A conversation with an address from which datagrams came that is no link's. Its bundles are taken as from nobody known, and none is
    /// sent there.
    Heard {
        /// The place at which they came.
        listener: ListenerId,
    },
}

/// The state, as far as a driver knows it, of the path that a stream takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Nothing speaks against the path.
    Open,
    /// Octets sent over it have been sent again and are still not answered, or it began at an address that
    /// this machine no longer has.
    Lost,
    /// The interface that it leaves by has no carrier: whatever is sent meanwhile is in the way of what comes
    /// after.
    Dark,
    /// The system does not tell.
    Unknown,
}

/// Whether anything leads to a link's neighbour at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Something does, or the driver does not know.
    Present,
    /// The interface has no carrier, or no contact is on: a dial would fail.
    Absent,
}

/// An event that a driver tells its node.
#[derive(Clone, Debug)]
pub enum Event {
    /// The store was opened and holds this bundle (one event each, before any other; keys dense from 0).
    Recovered {
        /// The bundle.
        bundle: Box<StoredBundle>,
        /// The places of its octets.
        extents: Extents,
    },
    /// The store was opened: what else it remembers. Ends recovery; the node starts to work.
    Opened {
        /// Highest creation time given out before.
        reserved_time: DtnTime,
        /// Highest sequence number given out before.
        reserved_sequence: u64,
        /// Removed bundles and when they would have expired.
        removed: Vec<(BundleId, DtnTime)>,
    },
    /// The store answers.
    Store(StoreEvent),
    /// Octets that were asked for by `Action::Read`; `None` when the disk failed.
    Read {
        /// The ticket of the action.
        ticket: Ticket,
        /// The octets of all extents in order.
        octets: Option<Bytes>,
    },
    /// A stream is connected.
    Connected {
        /// Its number.
        stream: StreamId,
        /// The purpose of the connection.
        purpose: Purpose,
    },
    /// Octets arrived on a stream.
    Octets {
        /// The stream.
        stream: StreamId,
        /// The octets.
        octets: Bytes,
    },
    /// Datagrams came from the peer of a conversation, in this order.
    Datagrams {
        /// The conversation.
        stream: StreamId,
        /// Their octets; slices of one buffer need not be copied.
        datagrams: Vec<Bytes>,
    },
    /// So many more of the datagrams that `poll_datagrams` gave have left, in the order in which it gave them: the socket took them, or
    /// refused them for good. Never more than it gave.
    Left {
        /// The conversation.
        stream: StreamId,
        /// The number of datagrams.
        datagrams: u64,
    },
    /// The path of a conversation takes no longer datagrams than these from now on. Those that were given before and are longer are lost.
    Narrowed {
        /// The conversation.
        stream: StreamId,
        /// Octets of UDP payload. More than is configured change nothing.
        octets: u64,
    },
    /// The TLS handshake on a stream succeeded.
    Secured {
        /// The stream.
        stream: StreamId,
        /// Identities that the peer proved.
        identities: PeerIdentities,
    },
    /// The TLS handshake on a stream failed.
    Insecure {
        /// The stream.
        stream: StreamId,
    },
    /// A stream ended or failed; nothing more will come or go.
    Disconnected {
        /// The stream.
        stream: StreamId,
    },
    /// A dial did not succeed.
    DialFailed {
        /// The link.
        link: LinkId,
        /// The reason, for people.
        reason: String,
    },
    /// Addresses or routes of the machine changed: waiting links dial at once.
    NetworkChanged,
    /// Answer to `Action::CheckPath`.
    PathChecked {
        /// The stream.
        stream: StreamId,
        /// The state of its path.
        path: Path,
    },
    /// This driver finds out by itself when a path is lost over which nothing is under way, and tells it by `PathChecked`:
    /// the node need not ask.
    TellsPaths,
    /// A link's neighbour can be reached no more, or again. The link is not dialled in between. A driver that does not learn when
    /// a carrier is back never says that one is absent.
    CarrierChanged {
        /// The link.
        link: LinkId,
        /// The state of the carrier from now on.
        carrier: Carrier,
    },
    /// The operator wants something; answered by `Action::Answer`.
    Operator {
        /// The ticket to be repeated in the answer.
        ticket: Ticket,
        /// The command.
        command: OperatorCommand,
    },
    /// Finish transfers in progress, end all sessions, take nothing new. Said again, it gives up transfers that outlast the silence of
    /// a peer, and tells the peer so.
    Shutdown,
    /// A datagram came to a place where beacons are heard ([`Config::discover`](crate::config::Config::discover)).
    Beacon {
        /// The place.
        place: DiscoverId,
        /// The address from which it came.
        from: SocketAddr,
        /// Its octets; a datagram longer than a beacon may be cut.
        octets: Bytes,
    },
}

/// A request of an operator to a running node.
#[derive(Clone, Debug)]
pub enum OperatorCommand {
    /// Bring a link up or down, by name.
    LinkUp(String),
    /// Take a link down: sessions end in order, bundles wait.
    LinkDown(String),
    /// Add a route.
    RouteAdd(Route),
    /// Remove the route to a pattern via a link.
    RouteDelete {
        /// The pattern as given.
        to: String,
        /// The link's name.
        via: String,
    },
    /// Drop a stored bundle.
    BundleDrop(BundleId),
    /// Make a link, with the policy of another.
    LinkAdd {
        /// Its name, which no other link has.
        name: String,
        /// The link of which it gets all but its name and its peer.
        like: String,
        /// The only peer allowed; over UDP there must be one.
        peer: Option<NodeId>,
    },
    /// Take down a link that was added, and forget it.
    LinkDelete(String),
    /// Take up what differs in the node's configuration.
    Change(Box<Changes>),
}

/// An action for the driver to carry out.
#[derive(Clone, Debug, Hash)]
pub enum Action {
    /// Give the store a command.
    Store(StoreCommand),
    /// Read octets from the store; answer with `Event::Read`.
    Read {
        /// The ticket to be repeated in the answer.
        ticket: Ticket,
        /// The places to read, in order.
        extents: Extents,
    },
    /// Connect to a link's address; answer with `Connected` or `DialFailed`. Over UDP there is nothing to wait for: `Connected` says that datagrams
    /// from that address are the conversation's.
    Dial {
        /// The link.
        link: LinkId,
    },
    /// Give up the dials of a link that are under way; they are not answered.
    StopDialling {
        /// The link.
        link: LinkId,
    },
    /// Find out whether the path of a stream still carries anything; answer with `PathChecked`.
    CheckPath {
        /// The stream.
        stream: StreamId,
    },
    /// A stream has octets to write: call `poll_octets`, or, of a link over UDP, `poll_datagrams`, until it gives none. If
    /// [`Node::counts_written`](crate::Node::counts_written), only once all that it gave before is written.
    Flush {
        /// The stream.
        stream: StreamId,
    },
    /// Start TLS on a stream, once everything polled before is written; answer `Secured` or `Insecure`.
    StartTls {
        /// The stream.
        stream: StreamId,
    },
    /// Drop a stream at once with all that is not written, so that the peer sees it cut; `Close` follows.
    Abort {
        /// The stream.
        stream: StreamId,
    },
    /// Write what `poll_octets` still gives, then close the stream and forget it. A conversation by datagrams has nothing to write: what was
    /// given and has not left is not to leave.
    Close {
        /// The stream.
        stream: StreamId,
    },
    /// Answer to an operator.
    Answer {
        /// The ticket of the operator's command.
        ticket: Ticket,
        /// Done, or why not.
        outcome: Result<(), OperatorRefusal>,
    },
    /// Something happened that logs, metrics and measurements want to know.
    Occurred(Occurrence),
    /// Send a beacon. Nobody is told if it cannot be sent: another follows.
    Announce(DiscoverId, Announcement),
    /// A link of this number has been made, or is dialled at another address from now on.
    LinkFound(Box<LinkAddress>),
}

/// A beacon that is to be sent: the driver knows the addresses and ports of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Announcement {
    /// Its destination.
    pub to: BeaconTo,
    /// Its sequence number.
    pub sequence: u32,
    /// The time until the next, milliseconds; 0 where none will follow.
    pub period_ms: u64,
}

/// The destination of a beacon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BeaconTo {
    /// The one of this position in the place's list.
    Destination(u32),
    /// The host from which a beacon came, at the port where the place hears them: others send from any port.
    Address(SocketAddr),
}

/// The address of a link that was made because a beacon told of its neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LinkAddress {
    /// The link. Numbers of links that are deleted are used again.
    pub link: LinkId,
    /// The place where its neighbour was heard.
    pub place: DiscoverId,
    /// Its name.
    pub name: String,
    /// Address, with its scope where it has one (`fe80::1%2`), or host name.
    pub host: String,
    /// TCP or UDP port.
    pub port: u16,
    /// The origin of the beacon, by which each address of the host is to be checked as it is dialled.
    pub origin: BeaconOrigin,
}

/// Why an operator's command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Hash)]
pub enum OperatorRefusal {
    /// No such link.
    #[error("no link is named '{0}'")]
    UnknownLink(String),
    /// Not a pattern.
    #[error("'{0}' is not an endpoint-ID pattern: {1}")]
    BadPattern(String, PatternError),
    /// No such route.
    #[error("there is no route to '{0}' via '{1}'")]
    UnknownRoute(String, String),
    /// The same route exists.
    #[error("the route to '{0}' via '{1}' exists")]
    RouteExists(String, String),
    /// No such bundle.
    #[error("no bundle {0} is stored here")]
    UnknownBundle(BundleId),
    /// Another link has the name.
    #[error("a link is named '{0}' already")]
    LinkExists(String),
    /// No more links are made in this run.
    #[error("{0} links have been made, no more are in this run")]
    TooManyLinks(usize),
    /// No more listeners are made in this run.
    #[error("there are {0} listeners, no more are made in this run")]
    TooManyListeners(usize),
    /// A neighbour that does not say who it is needs its node ID.
    #[error("the protocol of '{0}' is one in which a peer does not tell its node ID")]
    NoPeer(String),
    /// The configuration has the link.
    #[error("link '{0}' is configured")]
    LinkConfigured(String),
    /// Routes lead over the link.
    #[error("the route to '{1}' leads over link '{0}'")]
    LinkRouted(String, String),
    /// This node is no neighbour of its own.
    #[error("{0} is this node")]
    OwnNode(NodeId),
    /// A link like this one needs an address.
    #[error("a link like '{0}' needs an address")]
    NoAddress(String),
    /// A peer has one tunnel.
    #[error("there is a tunnel to {0} already")]
    TunnelExists(NodeId),
    /// A beacon told of the link's neighbour.
    #[error("link '{0}' is to a neighbour that was found: it goes when the neighbour does")]
    LinkFound(String),
}

/// The occurrences of which a driver wants to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Telling {
    /// All occurrences.
    #[default]
    Everything,
    /// Not of what happens to every bundle: received, created, forwarded, delivered. Counters count that.
    Exceptions,
    /// All occurrences, and the steps of each bundle ([`Occurrence::Step`]).
    Steps,
}

impl Telling {
    /// Whether it is of what happens to every bundle.
    #[inline]
    pub(crate) const fn is_of_bundles(self) -> bool {
        matches!(self, Self::Everything | Self::Steps)
    }

    /// Whether it is of the steps of each bundle.
    #[inline]
    pub(crate) const fn is_of_steps(self) -> bool {
        matches!(self, Self::Steps)
    }
}

/// Something that happened in a node: for logs, metrics and measurements, none of which the node knows. Recordings know each
/// by its place in this list: new ones come last.
#[derive(Clone, Debug, Hash)]
pub enum Occurrence {
    /// A link's or listener's session is established.
    SessionUp {
        /// The stream.
        stream: StreamId,
        /// The link that dialled it, if one did.
        link: Option<LinkId>,
        /// Parameters that both sides agreed on.
        parameters: SessionParameters,
    },
    /// A session is over.
    SessionDown {
        /// The stream.
        stream: StreamId,
        /// The link that dialled it, if one did.
        link: Option<LinkId>,
        /// The reason.
        reason: DownReason,
    },
    /// A bundle was received from a neighbour and is durable.
    Received {
        /// The bundle.
        id: BundleId,
        /// The neighbour.
        from: NodeId,
        /// Octets of the whole bundle.
        octets: u64,
    },
    /// A bundle was created here and is durable.
    Created {
        /// The bundle.
        id: BundleId,
        /// Octets of the whole bundle.
        octets: u64,
    },
    /// A bundle that is known already arrived again.
    Duplicate {
        /// The bundle.
        id: BundleId,
    },
    /// A neighbour has taken a bundle.
    Forwarded {
        /// The bundle.
        id: BundleId,
        /// The neighbour.
        to: NodeId,
        /// Octets of the whole bundle.
        octets: u64,
    },
    /// A neighbour has taken a transfer: a bundle, or a fragment of it.
    Transferred {
        /// The bundle.
        id: BundleId,
        /// The neighbour.
        to: NodeId,
        /// Octets of the bundle, or of the fragment's payload.
        octets: u64,
        /// Time from its beginning to its acknowledgment, nanoseconds: a `Duration` has twice the octets.
        took_ns: u64,
    },
    /// An application has confirmed a bundle.
    Delivered {
        /// The bundle.
        id: BundleId,
        /// The endpoint that it was delivered at.
        endpoint: EndpointId,
        /// Octets of payload.
        octets: u64,
    },
    /// A bundle was deleted before it reached its destination.
    Deleted {
        /// The bundle.
        id: BundleId,
        /// Status report reason code (RFC 9171 table 1).
        reason: u64,
    },
    /// An incoming bundle was refused.
    RefusedIncoming {
        /// The neighbour.
        from: NodeId,
        /// The reason that the neighbour was told.
        reason: RefuseReason,
        /// The rule that was broken, with the section of the standard where there is one.
        why: String,
        /// Whether only another copy of it is in its way, as is usual with a router that makes copies.
        is_double: bool,
    },
    /// A neighbour refused a bundle.
    RefusedOutgoing {
        /// The bundle.
        id: BundleId,
        /// The neighbour.
        to: NodeId,
        /// The reason that the peer gave.
        reason: RefuseReason,
    },
    /// A neighbour rejected a message of this node (RFC 9174 5.1.2): one of the two is at fault.
    MessageRejected {
        /// The neighbour, once it has said who it is.
        peer: Option<NodeId>,
        /// Type code of the message (RFC 9174 table 2).
        message: u8,
        /// Reason code (RFC 9174 table 4).
        reason: u8,
    },
    /// A status report was not generated because there were too many.
    ReportSuppressed,
    /// The store refused octets.
    StoreRefused {
        /// The reason.
        refusal: StoreRefusal,
    },
    /// A stored bundle is corrupt on disk and in quarantine.
    Quarantined {
        /// The bundle.
        id: BundleId,
    },
    /// The wall clock jumped by this many milliseconds against the monotonic one.
    ClockJumped {
        /// Positive for forward.
        milliseconds: i64,
    },
    /// An application's connection was ended by the node.
    ClientClosed {
        /// The stream.
        stream: StreamId,
        /// The reason.
        reason: String,
    },
    /// The disk, or the memory for bundles, has room for less than the quota, for notably more or less than told before, or for all of it again.
    QuotaChanged {
        /// The medium that has that room.
        medium: Medium,
        /// Octets of bundles that the node takes from now on.
        effective: u64,
        /// The quota that it was given, octets.
        quota: u64,
    },
    /// An event came that the state of a bundle does not allow: a mistake in this program. The bundle stays as it is.
    TransitionRefused {
        /// The bundle.
        id: BundleId,
        /// The state and the event.
        transition: String,
    },
    /// Datagrams of a neighbour, or parts of them, broke a rule and were dropped. At most once a second for each rule.
    DatagramsDropped {
        /// The conversation.
        stream: StreamId,
        /// The rule with its section, as a sentence's part.
        rule: &'static str,
        /// Times that it was broken since it was last told.
        count: u64,
    },
    /// A bundle has no form in the version of the Bundle Protocol that a neighbour speaks: it waits for another next hop (docs/gateway.md).
    Untranslatable(Box<Untranslated>),
    /// A program has said which part of the node it is.
    ProgramUp {
        /// The stream.
        stream: StreamId,
        /// The name that it gave.
        name: String,
    },
    /// The connection of a program is over.
    ProgramDown {
        /// The stream.
        stream: StreamId,
        /// The name that it gave; empty if none.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A beacon told of a neighbour, and a link to it has been made.
    NeighbourFound {
        /// The neighbour.
        node: NodeId,
        /// The link.
        link: LinkId,
        /// The address at which it is dialled.
        address: String,
    },
    /// No beacon tells of a neighbour any more, and it has no session.
    NeighbourLost {
        /// The neighbour.
        node: NodeId,
    },
    /// An administrative record for this node came that nothing here reads.
    RecordUnread {
        /// The bundle that it is in.
        id: BundleId,
    },
    /// A bundle has taken a step, where the driver follows them.
    Step(Box<BundleStep>),
}

/// A bundle that has no form in the version that a neighbour speaks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Untranslated {
    /// The bundle.
    pub id: BundleId,
    /// The neighbour.
    pub to: NodeId,
    /// The part of the bundle that has no form.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some pass for every bundle, and each is copied a few times on its way.
    #[test]
    fn what_passes_the_door_is_small() {
        assert!(size_of::<Event>() <= 104, "{}", size_of::<Event>());
        assert!(size_of::<Action>() <= 104, "{}", size_of::<Action>());
    }
}
