//! An engine that sends files here.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use dhow_bundle::Instant;
use dhow_bundle::storage::Piece;
use dhow_link::ltp::Engine;
use dhow_link::stream::TransferId;
use dhow_link::{Batch, DatagramLink as _};

use super::arriving::ArrivingFile;
use super::socket::{Sent, Socket};
use crate::clock::Clock;
use crate::datagrams::outgoing::{Outgoing, POLLED};
use crate::datagrams::seal::SegmentKey;

/// The name of an engine: its ID, and its host, since two may have one ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PeerId {
    pub(super) host: IpAddr,
    pub(super) engine: u64,
}

/// The name of a file that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Incoming {
    pub(super) peer: PeerId,
    pub(super) transfer: TransferId,
}

/// A file that comes.
#[derive(Debug)]
pub(super) struct Arrival {
    /// The session, as the peer numbers it.
    pub(super) session: u64,
    /// `None` while it is being finished.
    pub(super) file: Option<ArrivingFile>,
    pub(super) began: Instant,
    /// Octets that came.
    pub(super) octets: u64,
    /// Octets of the whole, where known.
    pub(super) length: Option<u64>,
}

/// An engine and its files.
pub(super) struct Peer {
    pub(super) engine: Engine,
    /// The address at which it is answered.
    pub(super) to: SocketAddr,
    pub(super) heard: Instant,
    pub(super) files: BTreeMap<TransferId, Arrival>,
    pub(super) outgoing: Outgoing,
}

impl Peer {
    pub(super) fn new(engine: Engine, to: SocketAddr, now: Instant) -> Self {
        Self {
            engine,
            to,
            heard: now,
            files: BTreeMap::new(),
            outgoing: Outgoing::default(),
        }
    }

    /// Nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.engine.incoming_sessions() == 0 && self.files.is_empty() && self.outgoing.is_empty()
    }

    /// Send what the engine has to say.
    pub(super) fn answer(
        &mut self,
        socket: &Socket,
        clock: &Clock,
        key: Option<&SegmentKey>,
    ) -> Sent {
        loop {
            if self.outgoing.is_empty() {
                let engine = &mut self.engine;
                let cutting = socket.calls().cutting();
                let is_whole = self.outgoing.fill(cutting, |batch, octets| {
                    engine.poll_datagrams(clock.now(), POLLED, batch);
                    all_in_memory(batch, octets) && {
                        if let Some(key) = key {
                            key.seal(batch, octets);
                        }
                        true
                    }
                });
                assert!(is_whole, "an engine that sends no blocks has no extents");
            }
            if self.outgoing.is_empty() {
                return Sent::Whole;
            }
            let (sent, left) = socket.send(self.to, &mut self.outgoing);
            self.engine.handle_left(clock.now(), left);
            if sent != Sent::Whole {
                return sent;
            }
        }
    }
}

/// The octets of a batch; false when some are not in memory.
fn all_in_memory(batch: &Batch, out: &mut Vec<Bytes>) -> bool {
    for piece in batch.pieces() {
        match piece {
            Piece::Octets(octets) => out.push(octets.clone()),
            Piece::Extent(_) => return false,
        }
    }
    true
}
