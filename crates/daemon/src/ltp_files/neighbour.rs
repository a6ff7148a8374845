//! A neighbour: an engine of LTP for blocks both ways.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::{Instant, Now};
use dhow_link::DatagramLink as _;
use dhow_link::ltp::{Authentication, Engine};

use super::leaving::{Failed, LeavingFiles};
use super::socket::{Sent, Socket};
use crate::clock::Clock;
use crate::datagrams::calls::Addresses;
use crate::datagrams::outgoing::{Outgoing, POLLED};
use crate::datagrams::seal::SegmentKey;

/// An engine next to this one.
pub(super) struct Neighbour {
    pub(super) engine: Engine,
    /// The address at which it hears.
    pub(super) to: SocketAddr,
    /// The address of this machine that it sent to last, where the socket has several: it may hear no other.
    pub(super) own: Option<IpAddr>,
    /// Whether a route says the address: it is not where datagrams come from.
    pub(super) is_fixed: bool,
    pub(super) heard: Instant,
    /// Blocks under way, in either direction.
    pub(super) blocks: usize,
    pub(super) outgoing: Outgoing,
    /// When the next batch may leave.
    pub(super) next: Instant,
    /// Datagrams of files that could not be read: they count as left once the others of their batch have.
    unread: u64,
}

/// The end of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Nothing more is there.
    Idle,
    /// There may be more at `Neighbour::next`.
    More,
    /// The socket has no room.
    NoRoom,
    /// No way leads there now.
    NoWay,
}

impl Neighbour {
    pub(super) fn new(engine: Engine, to: SocketAddr, is_fixed: bool, now: Instant) -> Self {
        Self {
            engine,
            to,
            own: None,
            is_fixed,
            heard: now,
            blocks: 0,
            outgoing: Outgoing::default(),
            next: now,
            unread: 0,
        }
    }

    /// Nothing is under way, and nothing is left to say.
    pub(super) fn is_idle(&self) -> bool {
        let is_silent = self.outgoing.is_empty() && !self.engine.has_word_left();
        self.blocks == 0 && self.engine.incoming_sessions() == 0 && is_silent
    }

    /// Send a batch, when its time has come. Files that could not be read, or have changed, are told in `failed`; the datagrams of others leave.
    pub(super) fn send(
        &mut self,
        (socket, clock): (&Socket, &Clock),
        leaving: &mut LeavingFiles,
        key: Option<&SegmentKey>,
        pace: Duration,
        failed: &mut Vec<Failed>,
    ) -> Attempt {
        let now = clock.now();
        if self.outgoing.is_empty() {
            if now.monotonic < self.next {
                return Attempt::More;
            }
            let engine = &mut self.engine;
            let mut unread = 0;
            let is_whole = self
                .outgoing
                .fill(socket.calls().cutting(), |batch, octets| {
                    engine.poll_datagrams(now, POLLED, batch);
                    let given = batch.len();
                    failed.append(&mut leaving.read(batch, octets));
                    unread = given.saturating_sub(batch.len());
                    if let Some(key) = key {
                        key.seal(batch, octets);
                    }
                    true
                });
            assert!(
                is_whole,
                "all octets of the datagrams that stay in a batch were read"
            );
            self.unread = u64::try_from(unread).unwrap_or(u64::MAX);
            if self.outgoing.is_empty() {
                return match self.take_unread() {
                    0 => Attempt::Idle,
                    unread => {
                        self.engine.handle_left(now, unread);
                        Attempt::More
                    }
                };
            }
            self.next = now.monotonic + pace;
        }
        let between = Addresses {
            own: self.own,
            peer: self.to,
        };
        let (sent, mut left) = socket.send(between, &mut self.outgoing);
        if self.outgoing.is_empty() {
            left = left.saturating_add(self.take_unread());
        }
        self.engine.handle_left(clock.now(), left);
        match sent {
            Sent::Whole => Attempt::More,
            Sent::NoRoom => Attempt::NoRoom,
            Sent::NoWay => Attempt::NoWay,
        }
    }

    const fn take_unread(&mut self) -> u64 {
        std::mem::replace(&mut self.unread, 0)
    }

    /// Take datagrams that came between these addresses. With a key, nobody else says where an engine is, and what it sends to.
    pub(super) fn take(
        &mut self,
        now: Now,
        between: Addresses,
        datagrams: &[Bytes],
        key: Option<&Authentication>,
    ) {
        let to = match self.is_fixed {
            true => self.to,
            false => between.peer,
        };
        let is_known = (self.own, self.to) == (between.own, to);
        let is_authentic = |it| key.is_none_or(|key| key.accepts_all(it));
        if is_known || datagrams.iter().any(is_authentic) {
            (self.own, self.to, self.heard) = (between.own, to, now.monotonic);
        }
        self.engine.handle_datagrams(now, datagrams);
    }
}
