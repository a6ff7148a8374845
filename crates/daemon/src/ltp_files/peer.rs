//! An engine that sends files here.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_link::ltp::Engine;
use dhow_link::stream::TransferId;

use super::arriving::ArrivingFile;
use super::leaving::LeavingFiles;
use super::neighbour::{Attempt, Neighbour};
use super::socket::Socket;
use crate::clock::Clock;
use crate::datagrams::calls::Addresses;
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
    pub(super) neighbour: Neighbour,
    pub(super) files: BTreeMap<TransferId, Arrival>,
}

impl Peer {
    pub(super) fn new(engine: Engine, between: Addresses, now: Instant) -> Self {
        let mut neighbour = Neighbour::new(engine, between.peer, false, now);
        neighbour.own = between.own;
        Self {
            neighbour,
            files: BTreeMap::new(),
        }
    }

    /// Nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.neighbour.is_idle() && self.files.is_empty()
    }

    /// Send what the engine has to say, all of which is in memory.
    pub(super) fn answer(
        &mut self,
        socket: &Socket,
        clock: &Clock,
        key: Option<&SegmentKey>,
    ) -> Attempt {
        let (mut none, mut failed) = (LeavingFiles::default(), Vec::new());
        let pace = Duration::ZERO;
        loop {
            let way = (socket, clock);
            match (self.neighbour).send(way, &mut none, key, pace, &mut failed) {
                Attempt::More => {}
                sent => return sent,
            }
        }
    }
}
