//! Sessions that talk to each other, to scripts and to recordings, with a clock that jumps.
#![allow(
    clippy::as_conversions,
    reason = "test lengths are small, and truncation to an octet is meant"
)]

mod capture;
mod contact;
mod hostile;
mod pair;
mod random;
mod transfer;
mod upkeep;

use alloc::vec;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use core::time::Duration;
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{DtnTime, Instant, NodeId, Now};

use super::message::Message;
use super::wire::{Decoder, Item};
use super::{Config, Role, Session, State};
use crate::stream::{Gather, LinkCommand, LinkEvent, StreamSession, TransferId};
use crate::tcpcl::writer::Encode;

/// A log whose octet at each offset is known.
fn log_octet(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 16) as u8
}

/// The octets that a gather list stands for.
fn flatten(gather: &Gather) -> Vec<u8> {
    let mut octets = Vec::new();
    for piece in gather.pieces() {
        match piece {
            Piece::Octets(bytes) => octets.extend_from_slice(bytes),
            Piece::Extent(extent) => {
                octets.extend((extent.offset..extent.offset + extent.length).map(log_octet));
            }
        }
    }
    octets
}

fn at(milliseconds: u64) -> Now {
    Now {
        monotonic: Instant::START + Duration::from_millis(milliseconds),
        dtn: DtnTime::UNKNOWN,
    }
}

fn node(text: &str) -> NodeId {
    text.parse().unwrap()
}

fn config(node_id: &str) -> Config {
    Config::new(node(node_id))
}

/// All that a session wants to send now.
fn drain(session: &mut Session, now: Now) -> Vec<u8> {
    let mut octets = Vec::new();
    loop {
        let mut gather = Gather::new();
        let may_have_octets = session.may_have_octets();
        session.poll_octets(now, 1 << 20, &mut gather);
        assert!(may_have_octets || gather.is_empty());
        if gather.is_empty() {
            return octets;
        }
        octets.extend(flatten(&gather));
    }
}

fn events(session: &mut Session) -> Vec<LinkEvent> {
    core::iter::from_fn(|| session.poll_event()).collect()
}

/// Two sessions and the wires between them.
struct Pair {
    now: Now,
    sessions: [Session; 2],
    /// Octets under way to each session.
    wires: [BytesMut; 2],
    events: [Vec<LinkEvent>; 2],
}

impl Pair {
    fn new(active: Config, passive: Config) -> Self {
        let now = at(1_000);
        Self {
            now,
            sessions: [
                Session::new(Role::Active, active, now),
                Session::new(Role::Passive, passive, now),
            ],
            wires: [BytesMut::new(), BytesMut::new()],
            events: [Vec::new(), Vec::new()],
        }
    }

    /// A pair that is established.
    fn up() -> Self {
        let mut pair = Self::new(config("ipn:1.0"), config("ipn:2.0"));
        pair.settle();
        pair.events = [Vec::new(), Vec::new()];
        pair
    }

    fn command(&mut self, side: usize, command: LinkCommand) {
        self.sessions[side].handle_command(self.now, command);
    }

    fn transmit(&mut self, side: usize, transfer: u64, octets: &[u8]) {
        let transfer = TransferId(transfer);
        let length = octets.len() as u64;
        self.command(side, LinkCommand::Transmit { transfer, length });
        let octets = Piece::Octets(Bytes::copy_from_slice(octets));
        self.command(side, LinkCommand::Supply { transfer, octets });
    }

    /// Let one side send up to `limit` octets.
    fn send(&mut self, side: usize, limit: usize) -> usize {
        let mut gather = Gather::new();
        let may_have_octets = self.sessions[side].may_have_octets();
        self.sessions[side].poll_octets(self.now, limit, &mut gather);
        assert!(may_have_octets || gather.is_empty());
        let octets = flatten(&gather);
        assert_eq!(octets.len() as u64, gather.octets());
        self.wires[1 - side].extend_from_slice(&octets);
        octets.len()
    }

    /// Deliver up to `limit` octets to one side and take its events.
    fn deliver(&mut self, side: usize, limit: usize) -> usize {
        let length = limit.min(self.wires[side].len());
        let chunk = self.wires[side].split_to(length).freeze();
        self.sessions[side].handle_octets(self.now, chunk);
        self.take(side);
        length
    }

    fn take(&mut self, side: usize) {
        let new = events(&mut self.sessions[side]);
        self.events[side].extend(new);
    }

    /// Lets octets pass until nothing is under way any more.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = 0;
            for side in [0, 1] {
                moved += self.send(side, usize::MAX);
                moved += self.deliver(1 - side, usize::MAX);
                self.take(side);
            }
            if moved == 0 {
                return;
            }
        }
        panic!("two sessions talk for ever");
    }

    /// Jump to the next deadline of either side.
    fn jump(&mut self) {
        let next = self
            .sessions
            .iter()
            .filter_map(StreamSession::poll_timeout)
            .min();
        self.now.monotonic = self
            .now
            .monotonic
            .max(next.expect("somebody waits for something"));
        for session in &mut self.sessions {
            session.handle_timeout(self.now);
        }
        self.take(0);
        self.take(1);
    }

    /// The incoming transfers that one side has seen whole, in order.
    fn received(&self, side: usize) -> Vec<(TransferId, Vec<u8>)> {
        let mut whole = Vec::new();
        let mut parts: Vec<u8> = Vec::new();
        for event in &self.events[side] {
            if let LinkEvent::Segment {
                transfer,
                octets,
                start,
                end,
                ..
            } = event
            {
                if *start {
                    parts.clear();
                }
                parts.extend_from_slice(octets);
                if *end {
                    whole.push((*transfer, parts.clone()));
                }
            }
        }
        whole
    }
}

/// The messages in some octets, without their contact header.
fn messages(octets: &[u8]) -> Vec<Message> {
    let mut chunk = Bytes::copy_from_slice(octets);
    let mut decoder = Decoder::default();
    let mut messages = Vec::new();
    while let Some(item) = decoder.next(&mut chunk).unwrap() {
        if let Item::Message(message) = item {
            messages.push(message);
        }
    }
    messages
}
