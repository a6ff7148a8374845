//! A neighbour: an engine of LTP for blocks both ways.

use std::net::SocketAddr;

use bytes::Bytes;
use dhow_bundle::Instant;
use dhow_link::DatagramLink as _;
use dhow_link::ltp::Engine;

use super::super::leaving::{Failed, LeavingFiles};
use super::super::socket::{Sent, Socket};
use crate::clock::Clock;
use crate::datagrams::outgoing::{Outgoing, POLLED};
use crate::datagrams::seal::SegmentKey;

/// An engine next to this one.
pub(super) struct Neighbour {
    pub(super) engine: Engine,
    /// The address at which it hears.
    pub(super) to: SocketAddr,
    /// Whether a route says the address: it is not where datagrams come from.
    pub(super) is_fixed: bool,
    pub(super) heard: Instant,
    /// Blocks under way, in either direction.
    pub(super) blocks: usize,
    pub(super) outgoing: Outgoing,
    /// When the next batch may leave.
    pub(super) next: Instant,
}

/// The end of an attempt to send.
pub(super) enum Attempt {
    /// Nothing more is there.
    Idle,
    /// There may be more at `Neighbour::next`.
    More,
    /// The socket has no room.
    NoRoom,
    /// No way leads there now.
    NoWay,
    /// The file of a block could not be read, or has changed.
    Unreadable(Failed),
}

impl Neighbour {
    pub(super) fn new(engine: Engine, to: SocketAddr, is_fixed: bool, now: Instant) -> Self {
        Self {
            engine,
            to,
            is_fixed,
            heard: now,
            blocks: 0,
            outgoing: Outgoing::default(),
            next: now,
        }
    }

    /// Nothing is under way, and nothing is left to say.
    pub(super) fn is_idle(&self) -> bool {
        let is_silent = self.outgoing.is_empty() && !self.engine.has_word_left();
        self.blocks == 0 && self.engine.incoming_sessions() == 0 && is_silent
    }

    /// Send a batch, when its time has come.
    pub(super) fn send(
        &mut self,
        (socket, clock): (&Socket, &Clock),
        leaving: &mut LeavingFiles,
        key: Option<&SegmentKey>,
        pace: std::time::Duration,
    ) -> Attempt {
        let now = clock.now();
        if self.outgoing.is_empty() {
            if now.monotonic < self.next {
                return Attempt::More;
            }
            let engine = &mut self.engine;
            let (mut given, mut failed) = (0, None);
            let is_whole = self
                .outgoing
                .fill(socket.calls().cutting(), |batch, octets| {
                    engine.poll_datagrams(now, POLLED, batch);
                    given = batch.len();
                    if let Err(error) = leaving.read(batch, octets) {
                        failed = Some(error);
                        return false;
                    }
                    if let Some(key) = key {
                        key.seal(batch, octets);
                    }
                    true
                });
            if !is_whole {
                // The datagrams of the batch are lost, and those of other blocks are sent again.
                self.outgoing.clear();
                let left = u64::try_from(given).unwrap_or(u64::MAX);
                self.engine.handle_left(now, left);
                return failed.map_or(Attempt::More, Attempt::Unreadable);
            }
            if self.outgoing.is_empty() {
                return Attempt::Idle;
            }
            self.next = now.monotonic + pace;
        }
        let (sent, left) = socket.send(self.to, &mut self.outgoing);
        self.engine.handle_left(clock.now(), left);
        match sent {
            Sent::Whole => Attempt::More,
            Sent::NoRoom => Attempt::NoRoom,
            Sent::NoWay => Attempt::NoWay,
        }
    }

    /// Take datagrams from an address.
    pub(super) fn take(&mut self, now: dhow_bundle::Now, from: SocketAddr, datagrams: &[Bytes]) {
        self.heard = now.monotonic;
        if !self.is_fixed {
            self.to = from;
        }
        self.engine.handle_datagrams(now, datagrams);
    }
}
