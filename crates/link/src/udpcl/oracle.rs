//! Conversations at the mercy of arbitrary datagrams: what fuzzing calls, and the replay of its corpus.
//!
//! Everything here panics when a conversation breaks its word; it is no part of the interface.

use alloc::collections::BTreeSet;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{Instant, NodeId, Now};

use super::conversation::MAX_EVENTS_WAITING;
use super::ended::MAX_ENDED;
use super::transfer_in::MAX_INCOMPLETE;
use super::{Announcement, Config, Conversation, Framing, Peer, Rate};
use crate::datagram::ledger::{Ledger, choices, split};
use crate::datagram::{Batch, DatagramEvent, DatagramLink, Limit, Path, PathState};
use crate::stream::{LinkCommand, RefuseReason, TerminateReason, TransferId};

/// Play octets as datagrams, each behind its length in two octets, and as one datagram; how many transfers came
/// whole.
#[must_use]
pub fn check_conversation(octets: &[u8]) -> usize {
    let (choices, datagrams) = choices(octets);
    play(&[octets], choices).saturating_add(play(&split(datagrams), choices))
}

fn play(datagrams: &[&[u8]], choices: &[u8]) -> usize {
    let mut ordeal = Ordeal::new(choices.first().copied().unwrap_or(0));
    let mut choices = choices.iter().copied().cycle();
    for transfer in 0..4 {
        ordeal.transmit(transfer, transfer * 700 + 1);
    }
    for datagram in datagrams {
        ordeal.receive(datagram);
        if let Some(choice) = choices.next() {
            ordeal.respond(choice);
        }
    }
    ordeal.end()
}

struct Ordeal {
    conversation: Conversation,
    now: Now,
    ledger: Ledger,
    /// Outgoing transfers not over.
    open: BTreeSet<TransferId>,
    /// Datagrams given that have not left.
    given: u64,
    down: bool,
}

impl Ordeal {
    #[expect(clippy::expect_used, reason = "the text is a node ID")]
    fn new(choice: u8) -> Self {
        let node_id: NodeId = "ipn:2.0".parse().expect("a node ID");
        let config = Config {
            peer: match choice % 3 {
                0 => Peer::Unknown,
                1 => Peer::Announced,
                _ => Peer::Known(node_id.clone()),
            },
            framing: if choice.is_multiple_of(2) {
                Framing::WhenNeeded
            } else {
                Framing::Always
            },
            mtu: 200,
            rate: Rate {
                octets_per_s: 1_000,
                burst_octets: 500,
            },
            transfer_mru: 20_000,
            reassembly_octets: 20_000,
            keepalive: Some(Duration::from_secs(15)),
            announcement: Some(Announcement {
                node_id,
                interval: Duration::from_secs(7),
            }),
            ..Config::default()
        };
        let now = Now {
            monotonic: Instant::START,
            ..Now::default()
        };
        Self {
            conversation: Conversation::new(config, u64::from(choice), now),
            now,
            ledger: Ledger::default(),
            open: BTreeSet::new(),
            given: 0,
            down: false,
        }
    }

    fn transmit(&mut self, transfer: u64, length: u64) {
        let transfer = TransferId(transfer);
        self.open.insert(transfer);
        self.conversation
            .handle_command(self.now, LinkCommand::Transmit { transfer, length });
        let octets = Piece::Extent(Extent { offset: 0, length });
        self.conversation
            .handle_command(self.now, LinkCommand::Supply { transfer, octets });
        self.take();
    }

    fn receive(&mut self, octets: &[u8]) {
        let datagram = Bytes::copy_from_slice(octets);
        // Doubled: only a bundle by itself may come twice.
        self.conversation
            .handle_datagrams(self.now, &[datagram.clone(), datagram]);
        self.take();
    }

    fn take(&mut self) {
        while let Some(event) = self.conversation.poll_event() {
            assert!(!self.down, "nothing happens after Down");
            self.ledger.note(&event);
            match event {
                DatagramEvent::Sent { transfer } | DatagramEvent::Failed { transfer, .. } => {
                    assert!(self.open.remove(&transfer), "a transfer is over once");
                }
                DatagramEvent::Down(_) => self.down = true,
                _ => {}
            }
        }
        let (transfers, octets) = self.ledger.held();
        assert!(transfers <= MAX_INCOMPLETE && octets <= 20_000);
        assert_eq!(self.conversation.incoming.held(), self.ledger.held());
        assert!(self.conversation.incoming.known() <= MAX_ENDED);
        assert!(self.conversation.events.len() <= MAX_EVENTS_WAITING);
    }

    /// Do one of the things that a node, a driver or time does.
    fn respond(&mut self, choice: u8) {
        match choice % 8 {
            0 => {
                let transfer = TransferId(u64::from(choice) / 8);
                let reason = RefuseReason::NoResources;
                if self.ledger.has_begun(transfer) {
                    self.ledger.refuse(transfer);
                }
                self.conversation
                    .handle_command(self.now, LinkCommand::Refuse { transfer, reason });
            }
            1 => {
                let way = |closed| {
                    if closed {
                        PathState::Closed
                    } else {
                        PathState::Open
                    }
                };
                let path = Path {
                    outgoing: way(choice & 0x10 != 0),
                    incoming: way(choice & 0x20 != 0),
                    mtu: (choice & 0x40 != 0).then_some(150),
                    light_time: None,
                };
                self.conversation.handle_path(self.now, path);
            }
            2 | 3 => {
                let wait = Duration::from_secs(u64::from(choice) / 8);
                self.now.monotonic = self.now.monotonic + wait;
                self.conversation.handle_timeout(self.now);
            }
            4 if choice > 250 => {
                let transfer = TransferId(2);
                self.conversation
                    .handle_command(self.now, LinkCommand::Cancel { transfer });
            }
            5 if choice > 250 => {
                let reason = TerminateReason::Busy;
                self.conversation
                    .handle_command(self.now, LinkCommand::Terminate { reason });
            }
            6 => {
                let left = core::mem::take(&mut self.given);
                self.conversation.handle_left(self.now, left);
            }
            _ => self.send(usize::from(choice)),
        }
        self.take();
    }

    fn send(&mut self, datagrams: usize) {
        let mut out = Batch::new();
        let octets = 10_000;
        self.conversation
            .poll_datagrams(self.now, Limit { datagrams, octets }, &mut out);
        assert!(out.len() <= datagrams && out.octets() <= octets);
        for datagram in out.datagrams() {
            let octets: u64 = datagram.iter().map(Piece::length).sum();
            assert!((1..=200).contains(&octets), "a datagram fits the path");
            self.given += 1;
        }
    }

    fn end(mut self) -> usize {
        // Time ends all that is incomplete.
        self.conversation.handle_path(self.now, Path::default());
        while let Some(at) = self.conversation.poll_timeout()
            && self.ledger.held().0 > 0
        {
            self.now.monotonic = self.now.monotonic.max(at);
            self.conversation.handle_timeout(self.now);
            self.send(100);
            self.take();
        }
        assert!(self.down || self.ledger.held().0 == 0);
        self.conversation
            .handle_command(self.now, LinkCommand::Disconnected);
        self.take();
        assert!(self.down, "a conversation without a socket is over");
        assert!(self.open.is_empty(), "every outgoing transfer is over");
        assert_eq!(self.conversation.poll_timeout(), None);
        self.ledger.whole.len()
    }
}
