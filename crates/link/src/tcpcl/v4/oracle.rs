//! Sessions at the mercy of arbitrary octets: what fuzzing calls, and the replay of its corpus.
//!
//! Everything here panics when a session breaks its word; it is no part of the interface.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{Instant, NodeId, Now, Reading};

use super::message::{ContactHeader, Message, SessInit, VERSION};
use super::{Config, Role, Session, State};
use crate::stream::{
    Gather, LinkCommand, LinkEvent, RefuseReason, StreamSession, TerminateReason, TransferId,
};
use crate::tcpcl::writer::Encode;

/// Runs and transfers that a session under test keeps: few, so that the bound is met.
const AWAITING: usize = 64;

/// Octets at the front of a fuzzer's input that say how the node behaves.
const CHOICES: usize = 8;

/// Play octets in three ways; how many transfers began in all of them.
#[must_use]
pub fn check_session(octets: &[u8]) -> usize {
    let (choices, messages) = octets.split_at_checked(CHOICES).unwrap_or((octets, &[]));
    from_the_start(Role::Active, octets)
        .saturating_add(from_the_start(Role::Passive, octets))
        .saturating_add(established(messages, choices))
}

/// Play octets as all that a peer sends, in chunks of 1, 2, 3 … octets; how many transfers began.
pub(super) fn from_the_start(role: Role, octets: &[u8]) -> usize {
    let mut ordeal = Ordeal::new(role);
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

/// Play octets as messages in an established session whose node behaves by `choices`; how many
/// transfers began.
pub(super) fn established(octets: &[u8], choices: &[u8]) -> usize {
    let mut ordeal = Ordeal::new(Role::Passive);
    ordeal.receive(&opening());
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

fn opening() -> BytesMut {
    let mut opening = BytesMut::new();
    ContactHeader {
        version: VERSION,
        flags: 0,
    }
    .encode(&mut opening);
    Message::SessInit(SessInit {
        keepalive_s: 10,
        segment_mru: 500,
        transfer_mru: 2_000,
        node_id: "ipn:1.0".into(),
        extensions: Bytes::new(),
    })
    .encode(&mut opening);
    opening.put_u8(super::message::kind::KEEPALIVE);
    opening
}

struct Ordeal {
    session: Session,
    now: Now,
    /// Incoming transfers: octets so far.
    arrived: Vec<(TransferId, u64)>,
    /// Outgoing transfers not over.
    open: usize,
    down: bool,
}

impl Ordeal {
    #[expect(clippy::expect_used, reason = "the text is a node ID")]
    fn new(role: Role) -> Self {
        let node_id: NodeId = "ipn:2.0".parse().expect("a node ID");
        let config = Config {
            awaiting_acknowledgment: AWAITING,
            segment_mru: 10_000,
            transfer_mru: 20_000,
            reading: Reading::Lenient,
            ..Config::new(node_id)
        };
        let now = Now {
            monotonic: Instant::START,
            ..Now::default()
        };
        Self {
            session: Session::new(role, config, now),
            now,
            arrived: Vec::new(),
            open: 0,
            down: false,
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
        self.session
            .handle_octets(self.now, Bytes::copy_from_slice(octets));
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
                            assert!(start, "a transfer begins with its first event");
                            self.arrived.push((transfer, length));
                        }
                    }
                }
                LinkEvent::Transmitted { .. } | LinkEvent::Failed { .. } => {
                    assert!(self.open > 0, "a transfer is over once");
                    self.open -= 1;
                }
                LinkEvent::Down(_) => self.down = true,
                _ => {}
            }
        }
        assert_eq!(self.down, self.session.state() == State::Closed);
        assert!(
            self.session.incoming.awaiting() <= AWAITING + 1,
            "what awaits acknowledgment is bounded"
        );
    }

    /// Do one of the things that a node does.
    fn respond(&mut self, choice: u8) {
        let last = self.arrived.last().copied();
        match (choice % 8, last) {
            (0..=2, Some((transfer, octets))) => {
                self.session
                    .handle_command(self.now, LinkCommand::Acknowledge { transfer, octets });
            }
            (3, Some((transfer, _))) => {
                let reason = RefuseReason::NoResources;
                self.session
                    .handle_command(self.now, LinkCommand::Refuse { transfer, reason });
            }
            (4, _) => {
                self.now.monotonic =
                    self.now.monotonic + Duration::from_secs(u64::from(choice) / 8);
                self.session.handle_timeout(self.now);
            }
            (5, _) if choice > 250 => {
                let reason = TerminateReason::Busy;
                self.session
                    .handle_command(self.now, LinkCommand::Terminate { reason });
            }
            (6, _) if choice > 250 => {
                self.session.handle_command(
                    self.now,
                    LinkCommand::Cancel {
                        transfer: TransferId(2),
                    },
                );
            }
            _ => self.send(usize::from(choice) * 4),
        }
        self.take();
    }

    fn send(&mut self, limit: usize) {
        let mut out = Gather::new();
        self.session.poll_octets(self.now, limit, &mut out);
        // One message head may pass the limit, and what was rejected.
        assert!(
            out.octets() <= u64::try_from(limit).unwrap_or(u64::MAX) + 200,
            "the limit is about kept"
        );
    }

    fn end(mut self) -> usize {
        self.session
            .handle_command(self.now, LinkCommand::Disconnected);
        self.take();
        assert!(self.down, "a session without a stream is over");
        assert_eq!(self.open, 0, "every outgoing transfer is over");
        assert_eq!(
            self.session.poll_timeout(),
            None,
            "a session that is over waits for nothing"
        );
        self.arrived.len()
    }
}
