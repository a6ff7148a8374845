//! Sessions at the mercy of arbitrary octets: what fuzzing calls, and the replay of its corpus. The output of a session is judged
//! by another hand: a plain count of segments and answers.
//!
//! Everything here panics when a session breaks its word; it is no part of the interface.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{Instant, NodeId, Now};

use super::message::{ContactHeader, Message};
use super::wire::{Decoder, Item};
use super::{Config, Session, State};
use crate::stream::{
    Gather, LinkCommand, LinkEvent, RefuseReason, StreamSession, TerminateReason, TransferId,
};

/// Runs and bundles that a session under test keeps: few, so that the bound is met.
const AWAITING: usize = 64;

/// Octets at the front of a fuzzer's input that say how the node behaves; the first one says what the peer offers.
const CHOICES: usize = 8;

/// Play octets in two ways; how many bundles began in both.
#[must_use]
pub fn check_session(octets: &[u8]) -> usize {
    let (choices, messages) = octets.split_at_checked(CHOICES).unwrap_or((octets, &[]));
    from_the_start(octets).saturating_add(established(messages, choices))
}

/// Play octets as all that a peer sends, in chunks of 1, 2, 3 … octets; how many bundles began.
pub(super) fn from_the_start(octets: &[u8]) -> usize {
    let mut ordeal = Ordeal::new();
    let mut rest = octets;
    let mut length = 1;
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        ordeal.receive(chunk);
        ordeal.respond(u8::try_from(length % 256).unwrap_or(0));
        rest = behind;
        length += 1;
    }
    ordeal.end()
}

/// Play octets as messages in an established session whose node behaves by `choices`; how many bundles began.
pub(super) fn established(octets: &[u8], choices: &[u8]) -> usize {
    let mut ordeal = Ordeal::new();
    let offer = choices.first().copied().unwrap_or(0x0f);
    let mut opening = BytesMut::new();
    ContactHeader {
        offer,
        keepalive_s: 10,
        endpoint: "ipn:1.0".into(),
    }
    .encode(&mut opening);
    ordeal.receive(&opening);
    for transfer in 0..4 {
        ordeal.transmit(transfer, transfer * 700);
    }
    let piece = octets.len() / (choices.len() + 1) + 1;
    let mut choices = choices.iter().copied().cycle();
    for chunk in octets.chunks(piece) {
        ordeal.receive(chunk);
        if let Some(choice) = choices.next() {
            ordeal.respond(choice);
        }
    }
    ordeal.end()
}

struct Ordeal {
    session: Session,
    now: Now,
    /// Incoming bundles: octets so far.
    arrived: Vec<(TransferId, u64)>,
    /// Outgoing bundles not over.
    open: usize,
    down: bool,
    heard: Count,
    said: Count,
}

/// One side's messages, counted.
#[derive(Default)]
struct Count {
    decoder: Decoder,
    /// Whether the contact header is over.
    is_greeted: bool,
    segments: u64,
    answers: u64,
    shutdowns: u64,
}

impl Count {
    fn add(&mut self, octets: Bytes) {
        let mut chunk = octets;
        if !self.is_greeted {
            match self.decoder.contact(&mut chunk) {
                Ok(Some(_)) => self.is_greeted = true,
                _ => return,
            }
        }
        while let Ok(Some(item)) = self.decoder.next(&mut chunk) {
            match item {
                Item::Message(Message::DataSegment(_)) => self.segments += 1,
                Item::Message(Message::AckSegment { .. } | Message::RefuseBundle { .. }) => {
                    self.answers += 1;
                }
                Item::Message(Message::Shutdown(_)) => self.shutdowns += 1,
                _ => {}
            }
        }
    }
}

impl Ordeal {
    #[expect(clippy::expect_used, reason = "the text is a node ID")]
    fn new() -> Self {
        let node_id: NodeId = "ipn:2.0".parse().expect("a node ID");
        let config = Config {
            awaiting_acknowledgment: AWAITING,
            segment_length: 500,
            transfer_mru: 20_000,
            keeps_reactive_fragments: true,
            ..Config::new(node_id)
        };
        let now = Now {
            monotonic: Instant::START,
            ..Now::default()
        };
        Self {
            session: Session::new(config, now),
            now,
            arrived: Vec::new(),
            open: 0,
            down: false,
            heard: Count::default(),
            said: Count::default(),
        }
    }

    fn transmit(&mut self, transfer: u64, length: u64) {
        let transfer = TransferId(transfer);
        self.open += 1;
        self.session
            .handle_command(self.now, LinkCommand::Transmit { transfer, length });
        let octets = Piece::Extent(Extent { offset: 0, length });
        self.session
            .handle_command(self.now, LinkCommand::Supply { transfer, octets });
        self.take();
    }

    fn receive(&mut self, octets: &[u8]) {
        let octets = Bytes::copy_from_slice(octets);
        self.heard.add(octets.clone());
        self.session.handle_octets(self.now, octets);
        self.take();
    }

    fn take(&mut self) {
        while let Some(event) = self.session.poll_event() {
            assert!(!self.down, "nothing happens after Down");
            match event {
                LinkEvent::Segment {
                    transfer,
                    octets,
                    start,
                    ..
                } => {
                    let length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
                    match self
                        .arrived
                        .last_mut()
                        .filter(|(last, _)| !start && *last == transfer)
                    {
                        Some((_, arrived)) => *arrived += length,
                        None => {
                            assert!(start, "a bundle begins with its first event");
                            self.arrived.push((transfer, length));
                        }
                    }
                }
                LinkEvent::Transmitted { .. } | LinkEvent::Failed { .. } => {
                    assert!(self.open > 0, "a bundle is over once");
                    self.open -= 1;
                }
                LinkEvent::Down(_) => self.down = true,
                _ => {}
            }
        }
        assert_eq!(self.down, self.session.state() == State::Closed);
        assert!(
            self.session.incoming.awaiting() <= AWAITING + 1,
            "what awaits an answer is bounded"
        );
    }

    /// Do one of the things that a node does.
    fn respond(&mut self, choice: u8) {
        let last = self.arrived.last().copied();
        let now = self.now;
        match (choice % 8, last) {
            (0..=2, Some((transfer, octets))) => {
                let command = LinkCommand::Acknowledge { transfer, octets };
                self.session.handle_command(now, command);
            }
            (3, Some((transfer, _))) => {
                let reason = match choice {
                    0..128 => RefuseReason::NoResources,
                    _ => RefuseReason::NotAcceptable,
                };
                let command = LinkCommand::Refuse { transfer, reason };
                self.session.handle_command(now, command);
            }
            (4, _) => {
                let later = Duration::from_secs(u64::from(choice) / 8);
                self.now.monotonic = self.now.monotonic + later;
                self.session.handle_timeout(self.now);
            }
            (5, _) if choice > 250 => {
                let reason = TerminateReason::Busy;
                self.session
                    .handle_command(now, LinkCommand::Terminate { reason });
            }
            (6, _) if choice > 250 => {
                let transfer = TransferId(2);
                self.session
                    .handle_command(now, LinkCommand::Cancel { transfer });
            }
            _ => self.send(usize::from(choice) * 4),
        }
        self.take();
    }

    fn send(&mut self, limit: usize) {
        let mut out = Gather::new();
        self.session.poll_octets(self.now, limit, &mut out);
        // One message head may pass the limit.
        assert!(
            out.octets() <= u64::try_from(limit).unwrap_or(u64::MAX) + 100,
            "the limit is about kept"
        );
        for piece in out.pieces() {
            let octets = match piece {
                Piece::Octets(octets) => octets.clone(),
                Piece::Extent(extent) => {
                    Bytes::from(alloc::vec![0; usize::try_from(extent.length).unwrap_or(0)])
                }
            };
            self.said.add(octets);
        }
        assert!(
            self.said.answers <= self.heard.segments,
            "a segment has one answer at most"
        );
        assert!(self.said.shutdowns <= 1, "a session ends once");
    }

    fn end(mut self) -> usize {
        self.send(1 << 20);
        self.take();
        self.session
            .handle_command(self.now, LinkCommand::Disconnected);
        self.take();
        assert!(self.down, "a session without a stream is over");
        assert_eq!(self.open, 0, "every outgoing bundle is over");
        assert_eq!(
            self.session.poll_timeout(),
            None,
            "a session that is over waits for nothing"
        );
        self.arrived.len()
    }
}
