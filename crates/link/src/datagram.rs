//! The seam of convergence layers over datagrams: [`DatagramLink`].
//!
//! One value stands for one peer: a driver has a socket, finds the value by the address that a datagram came
//! from, and sends to that address what the value gives.
//!
//! # Commands
//!
//! They are those of stream layers ([`LinkCommand`]), with these differences:
//!
//! * A transfer whose octets are there waits for no other: datagrams need no order.
//! * `Cancel` of a transfer that is wholly given out changes nothing. One that has begun stops, and fails once its
//!   datagrams have left; one that has not begun fails at once.
//! * `Acknowledge` says that octets are durable. Layers without acknowledgments ignore it.
//! * `Secured`, `Insecure` and `Unverified` mean nothing and are ignored.
//!
//! # Octets with their offset
//!
//! Datagrams are lost and overtake each other, so incoming octets come as [`DatagramEvent::Piece`], each with
//! its offset in the transfer, in any order and never twice. A layer remembers which octets came and keeps
//! none of them: a lost early piece makes nobody but the node wait. [`DatagramEvent::Complete`] follows the
//! last piece. A stream layer is the special case in order: its `Segment` is a piece at the sum of the lengths
//! before it, and its `end` is `Complete`.
//!
//! # Sent, or acknowledged
//!
//! [`Capabilities::assurance`] says which of two events ends an outgoing transfer well. `Transmitted` means,
//! as with streams, that the peer acknowledged the whole. [`DatagramEvent::Sent`] means that the last datagram
//! left the socket and that nobody will ever say more: the node decides whether it keeps or forgets the bundle.
//! A layer with acknowledgments gives both, `Sent` first.
//!
//! Datagrams may refer to extents of the store, which a driver reads later. So a datagram that
//! [`DatagramLink::poll_datagrams`] gave has not left yet: the driver says so by [`DatagramLink::handle_left`],
//! and no event ends a transfer before the last datagram with octets of it has left.
//!
//! # How LTP (RFC 5326) fits
//!
//! * One value is an LTP engine's relation to one remote engine ([`crate::ltp`]). An LTP session carries one block, so it is
//!   a transfer here: many are open at once in both directions, which the bounds of an engine limit. This is why the trait is
//!   a link and not a session. Incoming transfers are numbered by the layer, so that the session IDs of the remote engine need
//!   not be unique for ever.
//! * Data segments have offsets, so red and green data are pieces alike. The length is `None` until the segment that ends the
//!   block came. A green part has no report: `Complete` comes only where no octet was lost, and `Abandoned` otherwise. The
//!   configuration says whether blocks go red, green or both, and [`Capabilities`] what that is worth; where bundles of one
//!   peer are to go either way, there are two values for it.
//! * Timers of checkpoints, reports and cancellations start when a segment is radiated (RFC 5326 6.2, 6.3, 6.15), which is the
//!   cue of [`DatagramLink::handle_left`]. Timers stop while the remote engine is known to be unable to transmit, and go on
//!   later (6.5, 6.6): [`DatagramLink::handle_path`] gives that cue, for each direction by itself, from a contact plan or from
//!   the carrier.
//! * The report that completes the claims of a red block tells of what is durable: the engine holds it back until `Acknowledge`
//!   covers the block. A complete red part is thus `Transmitted` for the sender only after the receiver's sync. Reports before
//!   it claim octets beyond gaps, which a node cannot make durable yet, so that they are not sent again.
//! * Retransmission takes octets that have left before, so an engine keeps the supplied pieces of a transfer (mostly extents,
//!   which cost no memory) until `Transmitted`, `Failed` or, of a green part, `Sent`.
//! * `Cancel` of a transfer that has begun is a CS segment, also when all of it was given out. `Refuse` is a CR segment; of a
//!   bundle that is here already ([`RefuseReason::Completed`]) the octets are taken and dropped, and reported. The reason of a
//!   CR or CS from the peer ends in `Failed` or `Abandoned` with the nearest [`RefuseReason`].
//!
//! [`RefuseReason`]: crate::stream::RefuseReason

pub(crate) mod fault;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod ledger;
pub(crate) mod pacing;
pub(crate) mod span;

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{Instant, NodeId, Now};

pub use pacing::Rate;

use crate::stream::{DownReason, LinkCommand, RefuseReason, TransferId};

/// The most that a layer can say of an outgoing transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assurance {
    /// The whole transfer left; it may be lost (`Sent`).
    Sent,
    /// The peer has the whole transfer (`Transmitted`).
    Acknowledged,
}

/// The services of a layer towards one peer, as far as they are known now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// The event that ends a transfer well.
    pub assurance: Assurance,
    /// Largest outgoing transfer, octets. Longer ones fail with `NoResources`: the node fragments their bundles.
    pub transfer_mru: u64,
    /// Versions of the Bundle Protocol that can be carried.
    pub bundle_versions: &'static [u8],
}

/// Whether octets can pass in one direction of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathState {
    /// The path is open, as far as is known.
    #[default]
    Open,
    /// No: the contact is over or there is no carrier.
    Closed,
}

/// A cue of the state of the path to a peer (RFC 5326 5: link state cues).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path {
    /// The direction from here to the peer. While it is closed no datagrams are given.
    pub outgoing: PathState,
    /// The direction from the peer to here. While it is closed no timer that waits for the peer runs.
    pub incoming: PathState,
    /// Octets of payload in the largest datagram that passes, where the system knows. It makes datagrams smaller than
    /// is configured, never larger.
    pub mtu: Option<u64>,
    /// One-way light time to the peer, where a contact plan or the driver knows it: it counts instead of the configured one.
    pub light_time: Option<Duration>,
}

/// The most that one call is to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Datagrams.
    pub datagrams: usize,
    /// Octets in all datagrams; the first may be longer.
    pub octets: u64,
}

/// The events of a layer over datagrams.
#[derive(Clone, Debug)]
pub enum DatagramEvent {
    /// The peer's node ID is known, from the configuration or from the peer. Comes once at most; bundles may
    /// come in before.
    Up {
        /// The peer.
        peer: NodeId,
    },
    /// The peer announces itself. Nothing proves it: it is a hint for those who trust the network.
    Announced {
        /// Its node ID, where it says one.
        node_id: Option<NodeId>,
        /// The time after which it promises to say again that it listens at the address that it sends from; `None`
        /// when it does not listen there, or no more.
        listens: Option<Duration>,
    },
    /// Octets of an incoming transfer. No octet of a transfer comes twice.
    Piece {
        /// The transfer: numbered by the layer, in the order in which transfers begin, and never again.
        transfer: TransferId,
        /// Octets of the transfer before these.
        offset: u64,
        /// The octets, a slice of the datagram; never empty.
        octets: Bytes,
        /// Octets of the whole transfer, where known.
        length: Option<u64>,
    },
    /// All octets of an incoming transfer have come.
    Complete {
        /// The transfer.
        transfer: TransferId,
        /// Octets of the transfer.
        length: u64,
    },
    /// An incoming transfer of which pieces came will not be completed.
    Abandoned {
        /// The transfer.
        transfer: TransferId,
        /// Why the layer gave it up; `None` when its pieces did not come in time, or the link is over.
        refused: Option<RefuseReason>,
    },
    /// All datagrams of an outgoing transfer left the socket. This ends the transfer of a layer with
    /// [`Assurance::Sent`]; the peer may have nothing of it.
    Sent {
        /// The transfer.
        transfer: TransferId,
    },
    /// The peer has acknowledged an outgoing transfer as a whole.
    Transmitted {
        /// The transfer.
        transfer: TransferId,
    },
    /// An outgoing transfer failed. No datagram that was given and has not left refers to its octets.
    Failed {
        /// The transfer.
        transfer: TransferId,
        /// `NoResources` when it is longer than the layer's transfer MRU; `None` when it was cancelled or the
        /// link is over.
        refused: Option<RefuseReason>,
        /// Octets from its start that the peer had acknowledged before.
        acknowledged: u64,
    },
    /// Datagrams or parts of them broke a rule and were dropped. The link goes on. At most one event for each rule
    /// and second.
    Fault {
        /// The rule with its section, as a sentence's part.
        rule: &'static str,
        /// Times that it was broken since the last event of this rule.
        count: u64,
    },
    /// The link is ending: open no new transfers. Transfers that had not begun have failed.
    Ending,
    /// The link is over. Datagrams that were given and have not left are not to leave any more.
    Down(DownReason),
}

/// A convergence layer over datagrams towards one peer, as a machine: events in by `handle_*`, actions out by
/// `poll_*`.
pub trait DatagramLink {
    /// The services of the layer now; they may change with every call of `handle_datagrams`.
    fn capabilities(&self) -> Capabilities;
    /// Datagrams came from the peer, in this order. Slices are kept, never copied.
    fn handle_datagrams(&mut self, now: Now, datagrams: &[Bytes]);
    /// The node or the driver wants something.
    fn handle_command(&mut self, now: Now, command: LinkCommand);
    /// So many more of the datagrams given by `poll_datagrams` have left, in the order in which they were given:
    /// the socket took them, or refused them for good. Their extents are not read any more.
    fn handle_left(&mut self, now: Now, datagrams: u64);
    /// The state of the path to the peer changed.
    fn handle_path(&mut self, now: Now, path: Path);
    /// The instant of `poll_timeout` has come (or another; then nothing happens). `poll_datagrams` may have
    /// datagrams again.
    fn handle_timeout(&mut self, now: Now);
    /// Add datagrams to send to `out`, within `limit`. To be asked after every other call, until it gives none.
    fn poll_datagrams(&mut self, now: Now, limit: Limit, out: &mut Batch);
    /// The oldest event that was not taken yet. To be asked after every other call, until there is none.
    fn poll_event(&mut self) -> Option<DatagramEvent>;
    /// When `handle_timeout` wants to be called.
    fn poll_timeout(&self) -> Option<Instant>;
    /// Octets of transfers of which nothing has been given out yet; over LTP those that are there.
    fn queued_octets(&self) -> u64;
    /// False while too much of what came waits for the node. Datagrams that are handed over all the same are
    /// dropped.
    fn wants_datagrams(&self) -> bool {
        true
    }
}

/// Datagrams to send, each a gather of pieces: for one `sendmmsg`, or for one send a run where the system cuts
/// equal datagrams itself (UDP GSO).
#[derive(Debug, Default)]
pub struct Batch {
    pieces: Vec<Piece>,
    datagrams: Vec<Boundary>,
    /// Octets of the pieces behind the last boundary.
    unfinished: u64,
    octets: u64,
}

/// The end of a datagram.
#[derive(Clone, Copy, Debug)]
struct Boundary {
    /// Pieces up to here.
    pieces: usize,
    /// Octets of the datagram.
    octets: u64,
}

/// Datagrams that follow each other and have one size, but for the last, which may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The octets of all datagrams, one behind the other.
    pub pieces: &'a [Piece],
    /// Octets of each datagram but the last.
    pub size: u64,
    /// Datagrams, at least one.
    pub datagrams: usize,
    /// Octets of all datagrams.
    pub octets: u64,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pieces: Vec::new(),
            datagrams: Vec::new(),
            unfinished: 0,
            octets: 0,
        }
    }

    /// Add a piece to the datagram under construction; empty ones are dropped.
    pub fn push(&mut self, piece: Piece) {
        let length = piece.length();
        if length > 0 {
            self.unfinished = self.unfinished.saturating_add(length);
            self.pieces.push(piece);
        }
    }

    /// The datagram under construction is whole. Without octets it is none.
    pub fn end_datagram(&mut self) {
        let octets = core::mem::take(&mut self.unfinished);
        if octets > 0 {
            self.octets = self.octets.saturating_add(octets);
            let pieces = self.pieces.len();
            self.datagrams.push(Boundary { pieces, octets });
        }
    }

    /// Whole datagrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// True when there is no whole datagram.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Octets in all whole datagrams.
    #[must_use]
    pub const fn octets(&self) -> u64 {
        self.octets
    }

    /// The pieces of all whole datagrams, in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        self.pieces_of(0, self.len())
    }

    /// The pieces of each datagram, in order.
    pub fn datagrams(&self) -> impl Iterator<Item = &[Piece]> {
        (0..self.len()).map(|at| self.pieces_of(at, at.saturating_add(1)))
    }

    /// The datagrams as runs, none longer than `most` unless it is a single datagram.
    pub fn runs(&self, most: Limit) -> impl Iterator<Item = Run<'_>> {
        let mut start = 0;
        core::iter::from_fn(move || {
            let run = self.run_from(start, most)?;
            start = start.saturating_add(run.datagrams);
            Some(run)
        })
    }

    fn run_from(&self, start: usize, most: Limit) -> Option<Run<'_>> {
        let size = self.datagrams.get(start)?.octets;
        let (mut end, mut octets) = (start, 0_u64);
        for next in self.datagrams.iter().skip(start) {
            let sum = octets.saturating_add(next.octets);
            let fits = end - start < most.datagrams && sum <= most.octets;
            if end > start && !(fits && next.octets <= size) {
                break;
            }
            (end, octets) = (end.saturating_add(1), sum);
            if next.octets < size {
                break;
            }
        }
        Some(Run {
            pieces: self.pieces_of(start, end),
            size,
            datagrams: end - start,
            octets,
        })
    }

    fn pieces_of(&self, start: usize, end: usize) -> &[Piece] {
        let boundary = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| self.datagrams.get(at));
            before.map_or(0, |boundary| boundary.pieces)
        };
        let range = boundary(start)..boundary(end);
        self.pieces.get(range).unwrap_or_default()
    }

    /// Empty the batch and keep its room.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.datagrams.clear();
        self.unfinished = 0;
        self.octets = 0;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use dhow_bundle::storage::Extent;

    use super::*;

    fn batch(sizes: &[u64]) -> Batch {
        let mut batch = Batch::new();
        for size in sizes {
            // A head in memory and octets of the store.
            batch.push(Piece::Octets(Bytes::from_static(b"h")));
            batch.push(Piece::Extent(Extent {
                offset: 0,
                length: size - 1,
            }));
            batch.end_datagram();
        }
        batch
    }

    fn shape(sizes: &[u64], datagrams: usize, octets: u64) -> Vec<(usize, u64, u64)> {
        let batch = batch(sizes);
        let runs: Vec<_> = batch.runs(Limit { datagrams, octets }).collect();
        let pieces: usize = runs.iter().map(|run| run.pieces.len()).sum();
        assert_eq!(pieces, batch.pieces.len(), "every piece is in one run");
        runs.iter()
            .map(|run| (run.datagrams, run.size, run.octets))
            .collect()
    }

    #[test]
    fn equal_datagrams_are_one_run_that_a_shorter_one_ends() {
        assert_eq!(shape(&[], 64, 65_507), []);
        assert_eq!(
            shape(&[100, 100, 100, 40, 100, 40, 40, 90], 64, 65_507),
            [(4, 100, 340), (2, 100, 140), (1, 40, 40), (1, 90, 90)]
        );
    }

    #[test]
    fn a_run_is_no_longer_than_the_system_takes() {
        assert_eq!(
            shape(&[100; 5], 2, 65_507),
            [(2, 100, 200), (2, 100, 200), (1, 100, 100)]
        );
        assert_eq!(shape(&[100; 3], 64, 299), [(2, 100, 200), (1, 100, 100)]);
        assert_eq!(shape(&[100; 2], 0, 0), [(1, 100, 100), (1, 100, 100)]);
    }

    #[test]
    fn a_datagram_without_octets_is_none() {
        let mut batch = Batch::new();
        batch.end_datagram();
        batch.push(Piece::Octets(Bytes::new()));
        batch.end_datagram();
        assert!(batch.is_empty());
        batch.push(Piece::Octets(Bytes::from_static(b"a")));
        assert!(batch.is_empty(), "it is not whole yet");
        batch.end_datagram();
        let datagrams: Vec<_> = batch.datagrams().map(<[Piece]>::len).collect();
        assert_eq!((datagrams, batch.len(), batch.octets()), (vec![1], 1, 1));
        batch.clear();
        assert!(batch.is_empty() && batch.octets() == 0);
    }
}
