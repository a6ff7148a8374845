//! Sessions that talk to each other, to scripts and to recordings, with a clock that jumps.
#![allow(
    clippy::as_conversions,
    reason = "test lengths are small, and truncation to an octet is meant"
)]

mod capture;
mod contact;
mod hostile;
mod random;
mod transfer;
mod upkeep;

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{DtnTime, Instant, NodeId, Now};

use super::message::{ContactHeader, DataSegment, Message, Shutdown};
use super::wire::{Decoder, Item};
use super::{Config, Session, State};
use crate::stream::{
    DownReason, Gather, LinkCommand, LinkEvent, RefuseReason, StreamSession, TerminateReason,
    TransferId,
};
use crate::tcpcl::writer::Encode;

/// Flags of a contact header (RFC 7242 table 1).
const ACKNOWLEDGED: u8 = 1;
const FRAGMENTED: u8 = 2;
const REFUSED: u8 = 4;
const ANNOUNCED: u8 = 8;

const START: u8 = 2;
const END: u8 = 1;

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
            Piece::Extent(Extent { offset, length }) => {
                octets.extend((*offset..offset + length).map(log_octet));
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

fn transmit(session: &mut Session, now: Now, transfer: u64, octets: &[u8]) {
    let transfer = TransferId(transfer);
    let length = octets.len() as u64;
    session.handle_command(now, LinkCommand::Transmit { transfer, length });
    let octets = Piece::Octets(Bytes::copy_from_slice(octets));
    session.handle_command(now, LinkCommand::Supply { transfer, octets });
}

/// The contact header of a peer that offers these flags.
fn header(offer: u8, keepalive_s: u16, endpoint: &str) -> Vec<u8> {
    let mut octets = BytesMut::new();
    ContactHeader {
        offer,
        keepalive_s,
        endpoint: endpoint.into(),
    }
    .encode(&mut octets);
    octets.to_vec()
}

/// A session that is established with a peer that offers these flags, and has said its own contact header.
fn established(config: Config, offer: u8) -> Session {
    let mut session = Session::new(config, at(0));
    session.handle_octets(at(0), header(offer, 0, "ipn:1.0").into());
    drain(&mut session, at(0));
    assert!(matches!(events(&mut session)[..], [LinkEvent::Up(_)]));
    session
}

fn encoded(sent: &[Message]) -> Bytes {
    let mut octets = BytesMut::new();
    for message in sent {
        message.encode(&mut octets);
        if let Message::DataSegment(segment) = message {
            octets.extend((0..segment.length).map(log_octet));
        }
    }
    octets.freeze()
}

/// A peer sends messages; segments carry the front of the log.
fn receive(session: &mut Session, now: Now, sent: &[Message]) -> Vec<LinkEvent> {
    session.handle_octets(now, encoded(sent));
    events(session)
}

const fn data(flags: u8, length: u64) -> Message {
    Message::DataSegment(DataSegment { flags, length })
}

const fn ack(octets: u64) -> Message {
    Message::AckSegment { octets }
}

const fn refuse(reason: u8) -> Message {
    Message::RefuseBundle { reason }
}

const fn shutdown(reason: Option<u8>) -> Message {
    Message::Shutdown(Shutdown {
        reason,
        delay_s: None,
    })
}

fn acknowledge(session: &mut Session, transfer: u64, octets: u64) {
    let transfer = TransferId(transfer);
    session.handle_command(at(0), LinkCommand::Acknowledge { transfer, octets });
}

/// The messages in some octets, without a contact header.
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

/// The octets that a session gives now.
fn said(session: &mut Session) -> Vec<Message> {
    messages(&drain(session, at(0)))
}

/// The fault of a peer that a session ended with, last.
fn fault(events: &[LinkEvent]) -> &str {
    match events.last() {
        Some(LinkEvent::Down(DownReason::PeerFault(fault))) => fault,
        other => panic!("{other:?}"),
    }
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
    fn new(sessions: [Session; 2], now: Now) -> Self {
        Self {
            now,
            sessions,
            wires: [BytesMut::new(), BytesMut::new()],
            events: [Vec::new(), Vec::new()],
        }
    }

    fn command(&mut self, side: usize, command: LinkCommand) {
        self.sessions[side].handle_command(self.now, command);
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
}
