//! The seam of convergence layers over octet streams: [`StreamSession`].

use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{Instant, NodeId, Now};

/// The number of a transfer of a session or link: outgoing ones are numbered by the node, incoming ones by the
/// peer (over datagrams by the layer); the two spaces are separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

/// Why a transfer was refused (RFC 9174 5.2.4, table 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefuseReason {
    /// 0x00: unknown or not said.
    Unknown,
    /// 0x01: the receiver already has the whole bundle.
    Completed,
    /// 0x02: the receiver's resources are exhausted.
    NoResources,
    /// 0x03: the receiver wants the whole bundle again.
    Retransmit,
    /// 0x04: something about the bundle made it unacceptable.
    NotAcceptable,
    /// 0x05: a transfer extension item could not be processed.
    ExtensionFailure,
    /// 0x06: the receiving node is ending the session.
    SessionTerminating,
    /// 0xF0, private: the source of the bundle has used up its share of the receiver's store, and others have not
    /// (docs/tcpcl-extensions.md 3). A peer that may not know it hears of [`RefuseReason::NoResources`].
    SourceFull,
    /// Any other code.
    Other(u8),
}

/// Why a session ends (RFC 9174 6.1, table 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TerminateReason {
    /// 0x00: not said.
    Unknown,
    /// 0x01: nothing was transferred for too long.
    IdleTimeout,
    /// 0x02: versions do not match.
    VersionMismatch,
    /// 0x03: too busy.
    Busy,
    /// 0x04: contact header or session initialization were not acceptable.
    ContactFailure,
    /// 0x05: resources are exhausted.
    ResourceExhaustion,
    /// Any other code.
    Other(u8),
}

/// The identities that the peer's certificate proves, found by the TLS engine (RFC 9174 4.4.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerIdentities {
    /// Node IDs (BundleEID names) in the certificate.
    pub node_ids: Vec<NodeId>,
    /// True when a DNS name of the certificate is the name that was dialled.
    pub dns_matches: Option<bool>,
    /// True when an IP address of the certificate is the peer's address.
    pub address_matches: Option<bool>,
}

/// A command of a node to a session.
#[derive(Clone, Debug)]
pub enum LinkCommand {
    /// Open an outgoing transfer of `length` octets. Its octets follow by `Supply`, at once or as they
    /// arrive. Transfers go out one after another, in the order of these commands (RFC 9174 5.2).
    Transmit {
        /// Chosen by the node; used once per session.
        transfer: TransferId,
        /// Octets of the whole bundle.
        length: u64,
    },
    /// The next octets of an outgoing transfer.
    Supply {
        /// The transfer.
        transfer: TransferId,
        /// The piece that comes next.
        octets: Piece,
    },
    /// The bundle of an outgoing transfer is not verified yet, and may turn out wrong: the peer is not to
    /// keep a part of it. Given right behind `Transmit`; peers that keep nothing are not told.
    Unverified {
        /// The transfer.
        transfer: TransferId,
    },
    /// Give up an outgoing transfer. One that has not begun is dropped in silence; one that has begun
    /// ends before its announced length, which the peer refuses; one that wholly left ends the session.
    /// Answered by `Failed` at once.
    Cancel {
        /// The transfer.
        transfer: TransferId,
    },
    /// Octets of an incoming transfer, up to this many from its start, are durable here: acknowledge
    /// the segments that they cover. The final acknowledgment goes out when `octets` reaches the length.
    Acknowledge {
        /// The transfer.
        transfer: TransferId,
        /// Octets from the transfer's start.
        octets: u64,
    },
    /// Refuse an incoming transfer; what still arrives of it is dropped.
    Refuse {
        /// The transfer.
        transfer: TransferId,
        /// The reason.
        reason: RefuseReason,
    },
    /// The TLS handshake that `StartTls` asked for succeeded with these verified identities.
    Secured {
        /// The peer's identities.
        identities: PeerIdentities,
    },
    /// The TLS handshake failed; the session ends (RFC 9174 4.4).
    Insecure,
    /// End the session in order: finish transfers in progress, start none (RFC 9174 6.1).
    Terminate {
        /// The reason.
        reason: TerminateReason,
    },
    /// The stream has ended or failed; no octets will come or go.
    Disconnected,
}

/// The parameters that both sides agreed on (RFC 9174 4.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionParameters {
    /// The peer's node ID, verified as far as policy asks.
    pub peer: NodeId,
    /// True when TLS protects the session.
    pub secured: bool,
    /// True when the peer's certificate names that node ID (RFC 9174 4.4.4.3).
    pub proven: bool,
    /// Seconds between keepalives; 0 for none.
    pub keepalive_s: u16,
    /// Largest segment that the peer takes, octets of data.
    pub segment_mru: u64,
    /// Largest transfer that the peer takes, octets.
    pub transfer_mru: u64,
    /// True when both sides keep what they acknowledged of a transfer that fails, as a fragment.
    pub keeps_reactive_fragments: bool,
}

/// A session whose peer has not proven its node ID has the hash that it had before anybody asked for proofs: recordings hold nodes to it.
impl Hash for SessionParameters {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.peer.hash(state);
        self.secured.hash(state);
        self.keepalive_s.hash(state);
        self.segment_mru.hash(state);
        self.transfer_mru.hash(state);
        self.keeps_reactive_fragments.hash(state);
        if self.proven {
            self.proven.hash(state);
        }
    }
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DownReason {
    /// Both sides ended it in order.
    Terminated(TerminateReason),
    /// The stream ended without an orderly end.
    Disconnected,
    /// The peer broke the protocol; which rule, with its section.
    PeerFault(String),
    /// TLS was required and not possible, or the peer's identity was not what policy asks for.
    Security(String),
    /// Nothing came from the peer for twice the keepalive interval.
    KeepaliveTimeout,
    /// A transfer from the peer began and came no further.
    TransferTimeout,
    /// The peer did not answer in time while the session was being set up or ended.
    NegotiationTimeout,
}

impl core::fmt::Display for DownReason {
    /// A sentence's part: `the connection ended`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Terminated(TerminateReason::Unknown) => f.write_str("ended in order"),
            Self::Terminated(reason) => write!(f, "ended in order: {reason}"),
            Self::Disconnected => f.write_str("the connection ended"),
            Self::PeerFault(rule) => write!(f, "the peer broke the protocol: {rule}"),
            Self::Security(why) => write!(f, "not secure: {why}"),
            Self::KeepaliveTimeout => f.write_str("nothing came for twice the keepalive interval"),
            Self::TransferTimeout => f.write_str("a transfer began and came no further"),
            Self::NegotiationTimeout => f.write_str("the peer did not answer in time"),
        }
    }
}

impl core::fmt::Display for TerminateReason {
    /// The reason's name (RFC 9174 table 9).
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unknown => f.write_str("no reason given"),
            Self::IdleTimeout => f.write_str("idle timeout"),
            Self::VersionMismatch => f.write_str("version mismatch"),
            Self::Busy => f.write_str("busy"),
            Self::ContactFailure => f.write_str("contact failure"),
            Self::ResourceExhaustion => f.write_str("resource exhaustion"),
            Self::Other(code) => write!(f, "reason {code:#04x}"),
        }
    }
}

/// An event of a session for its node and driver.
#[derive(Clone, Debug)]
pub enum LinkEvent {
    /// To the driver: both contact headers allow TLS. Write all that `poll_octets` still gives, start the
    /// handshake on the stream, then answer `Secured` or `Insecure`. Octets of the handshake do not
    /// pass the session.
    StartTls,
    /// The session is established.
    Up(SessionParameters),
    /// Incoming octets of a transfer, in order.
    Segment {
        /// The transfer, by the peer's number.
        transfer: TransferId,
        /// Octets; may be empty. Large segments arrive in several events.
        octets: Bytes,
        /// Whether this is the first event of the transfer.
        start: bool,
        /// Whether the transfer is complete with these octets.
        end: bool,
        /// Length of the whole transfer when the peer said it (Transfer Length extension), on `start`;
        /// also set when start and end coincide.
        length: Option<u64>,
    },
    /// The incoming transfer that begins next is not verified yet: no part of it is to be kept.
    Unverified {
        /// The transfer, by the peer's number.
        transfer: TransferId,
    },
    /// An incoming transfer will not be completed.
    Abandoned {
        /// The transfer, by the peer's number.
        transfer: TransferId,
        /// Why it was refused: it broke a rule, or its announced length was wrong. `None` when the session
        /// failed under it.
        refused: Option<RefuseReason>,
    },
    /// The peer has acknowledged octets of an outgoing transfer, counted from its start.
    Acknowledged {
        /// The transfer.
        transfer: TransferId,
        /// Octets acknowledged.
        octets: u64,
    },
    /// The peer has acknowledged an outgoing transfer as a whole.
    Transmitted {
        /// The transfer.
        transfer: TransferId,
    },
    /// All of an outgoing transfer has left, and nobody will ever say more: the peer may have nothing of it. Only of layers without
    /// acknowledgments.
    Sent {
        /// The transfer.
        transfer: TransferId,
    },
    /// The peer keeps all of an outgoing transfer, and nobody has taken it from there: this node keeps its bundle as well. `Transmitted` or
    /// `Failed` about the same transfer follows some time, or the end of the session. Only of layers with a carrier between both nodes.
    Kept {
        /// The transfer.
        transfer: TransferId,
    },
    /// An outgoing transfer failed.
    Failed {
        /// The transfer.
        transfer: TransferId,
        /// The peer's reason; `None` when the session ended or the transfer was cancelled;
        /// `NoResources` also when the transfer is longer than the peer's Transfer MRU.
        refused: Option<RefuseReason>,
        /// Octets that the peer had acknowledged before.
        acknowledged: u64,
    },
    /// The peer rejected a message of ours (RFC 9174 5.1.2): for the log, a fault of one of the two.
    Rejected {
        /// Reason code (RFC 9174 table 4).
        reason: u8,
        /// Type code of the rejected message (RFC 9174 table 2).
        message: u8,
    },
    /// The peer asks not to be dialled again before that (RFC 7242 6.1).
    ReconnectionDelay {
        /// The delay from now on; `None` for ever.
        delay: Option<Duration>,
    },
    /// The session is ending, by whichever side's wish: open no new transfers on it. Those that had not
    /// begun have failed.
    Ending,
    /// The session is over; `poll_octets` may still hold last octets to write before closing.
    Down(DownReason),
}

/// Octets to send, collected for one gather-write.
#[derive(Debug, Default)]
pub struct Gather {
    pieces: Vec<Piece>,
    octets: u64,
}

impl Gather {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pieces: Vec::new(),
            octets: 0,
        }
    }

    /// Add a piece; empty ones are dropped.
    pub fn push(&mut self, piece: Piece) {
        let length = piece.length();
        if length > 0 {
            self.octets = self.octets.saturating_add(length);
            self.pieces.push(piece);
        }
    }

    /// The pieces in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Octets in all pieces.
    #[must_use]
    pub const fn octets(&self) -> u64 {
        self.octets
    }

    /// True when there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Empty the list and keep its room.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.octets = 0;
    }
}

/// A convergence layer over octet streams, as a machine: events in by `handle_*`, actions out by `poll_*`.
pub trait StreamSession {
    /// Octets arrived from the peer, in any chunking. Slices are kept, never copied.
    fn handle_octets(&mut self, now: Now, octets: Bytes);
    /// The node or the driver wants something.
    fn handle_command(&mut self, now: Now, command: LinkCommand);
    /// The instant of `poll_timeout` has come (or another; then nothing happens).
    fn handle_timeout(&mut self, now: Now);
    /// Add up to about `limit` octets to send to `out`. The octets given here count as sent.
    fn poll_octets(&mut self, now: Now, limit: usize, out: &mut Gather);
    /// The next event since the last call; `None` when there is none. To be asked after every other call,
    /// `poll_octets` included: what goes out may end a transfer or the session.
    fn poll_event(&mut self) -> Option<LinkEvent>;
    /// When `handle_timeout` wants to be called.
    fn poll_timeout(&self) -> Option<Instant>;
    /// False while too much of what arrived waits for the node: a driver then leaves octets in the
    /// socket, so that the peer's TCP window slows the peer. Octets that are handed over all the same count
    /// against the session's bounds.
    fn wants_octets(&self) -> bool {
        true
    }
}
