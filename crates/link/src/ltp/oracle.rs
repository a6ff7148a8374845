//! Engines at the mercy of arbitrary datagrams: what fuzzing calls, and the replay of its corpus.
//!
//! Everything here panics when an engine breaks its word; it is no part of the interface.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{Instant, Now};

use super::engine::MAX_EVENTS_WAITING;
use super::operations::MAX_ANSWERS;
use super::{Config, Engine, Rate, Red};
use crate::datagram::ledger::{Ledger, choices, split};
use crate::datagram::{Batch, DatagramEvent, DatagramLink, Limit, Path, PathState};
use crate::stream::{LinkCommand, RefuseReason, TerminateReason, TransferId};

/// The seed of the engine under test: its session numbers are those of the corpus.
pub(super) const SEED: u64 = 1;

/// Play octets as datagrams, each behind its length in two octets; how many blocks came whole.
#[must_use]
pub fn check_engine(octets: &[u8]) -> usize {
    let (choices, datagrams) = choices(octets);
    let mut ordeal = Ordeal::new(choices.first().copied().unwrap_or(0));
    let mut choices = choices.iter().copied().cycle();
    for transfer in 0..4 {
        ordeal.transmit(transfer, transfer * 700 + 1);
    }
    for datagram in split(datagrams) {
        ordeal.receive(datagram);
        if let Some(choice) = choices.next() {
            ordeal.respond(choice);
        }
    }
    ordeal.end()
}

/// The configuration of the engine under test: what the fuzzer can reach is small.
pub(super) fn config(choice: u8) -> Config {
    Config {
        engine: 3,
        remote_engine: 2,
        red: match choice % 3 {
            0 => Red::All,
            1 => Red::Octets(500),
            _ => Red::None,
        },
        aggregate: if choice & 0x80 == 0 { 0 } else { 1_500 },
        mtu: 200,
        checkpoint_octets: 400,
        end_to_end: true,
        rate: Rate {
            octets_per_s: 1_000,
            burst_octets: 700,
        },
        transfer_mru: 20_000,
        reassembly_octets: 5_000,
        sessions: 3,
        gaps: 6,
        reports_under_way: 3,
        transmissions: 4,
        reports: 12,
        cycles: 4,
        remembered: 5,
        ..Config::default()
    }
}

struct Ordeal {
    engine: Engine,
    now: Now,
    ledger: Ledger,
    /// Outgoing transfers not over.
    open: BTreeSet<TransferId>,
    /// Incoming transfers that are whole and not acknowledged yet.
    undurable: Vec<(TransferId, u64)>,
    /// Datagrams given that have not left.
    given: u64,
    down: bool,
}

impl Ordeal {
    fn new(choice: u8) -> Self {
        let now = Now {
            monotonic: Instant::START,
            ..Now::default()
        };
        Self {
            engine: Engine::new(config(choice), SEED, now),
            now,
            ledger: Ledger::default(),
            open: BTreeSet::new(),
            undurable: Vec::new(),
            given: 0,
            down: false,
        }
    }

    fn transmit(&mut self, transfer: u64, length: u64) {
        let transfer = TransferId(transfer);
        self.open.insert(transfer);
        self.engine
            .handle_command(self.now, LinkCommand::Transmit { transfer, length });
        let octets = Piece::Extent(Extent { offset: 0, length });
        self.engine
            .handle_command(self.now, LinkCommand::Supply { transfer, octets });
        self.take();
        self.send(usize::MAX);
    }

    fn receive(&mut self, octets: &[u8]) {
        let datagram = Bytes::copy_from_slice(octets);
        self.engine
            .handle_datagrams(self.now, &[datagram.clone(), datagram]);
        self.take();
    }

    fn take(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            assert!(!self.down, "nothing happens after Down");
            self.ledger.note(&event);
            match event {
                DatagramEvent::Transmitted { transfer }
                | DatagramEvent::Failed { transfer, .. } => {
                    assert!(self.open.remove(&transfer), "a transfer is over once");
                }
                DatagramEvent::Sent { transfer } => {
                    assert!(self.open.contains(&transfer), "sent before it is over");
                    if self.engine.local.config.red != Red::All {
                        self.open.remove(&transfer);
                    }
                }
                DatagramEvent::Complete { transfer, length } => {
                    self.undurable.push((transfer, length));
                }
                DatagramEvent::Down(_) => self.down = true,
                _ => {}
            }
        }
        let config = &self.engine.local.config;
        let (sessions, beyond, known) = self.engine.incoming.held();
        assert!(sessions <= 2 * config.sessions && known <= config.remembered);
        assert!(beyond <= config.reassembly_octets);
        assert!(self.ledger.held().0 <= sessions);
        assert!(self.engine.outgoing.begun() <= config.sessions);
        let reports = sessions * (config.reports_under_way + 2) * 2;
        assert!(self.engine.local.operations.len() <= MAX_ANSWERS + reports + 100);
        assert!(self.engine.local.events.len() <= MAX_EVENTS_WAITING);
    }

    /// Do one of the things that a node, a driver or time does.
    fn respond(&mut self, choice: u8) {
        match choice % 8 {
            0 => {
                let transfer = TransferId(u64::from(choice) / 16);
                let reason = if choice & 8 == 0 {
                    RefuseReason::NoResources
                } else {
                    RefuseReason::Completed
                };
                if self.ledger.has_begun(transfer) {
                    self.ledger.refuse(transfer);
                }
                self.engine
                    .handle_command(self.now, LinkCommand::Refuse { transfer, reason });
            }
            1 => self.change_path(choice),
            2 | 3 => self.pass(Duration::from_secs(u64::from(choice) / 8)),
            4 if choice > 200 => {
                let transfer = TransferId(2);
                self.engine
                    .handle_command(self.now, LinkCommand::Cancel { transfer });
            }
            5 if choice > 250 => {
                let reason = TerminateReason::Busy;
                self.engine
                    .handle_command(self.now, LinkCommand::Terminate { reason });
            }
            6 => {
                let left = core::mem::take(&mut self.given);
                self.engine.handle_left(self.now, left);
            }
            7 => self.sync(),
            _ => self.send(usize::from(choice)),
        }
        self.take();
    }

    fn change_path(&mut self, choice: u8) {
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
        self.engine.handle_path(self.now, path);
    }

    fn pass(&mut self, time: Duration) {
        self.now.monotonic = self.now.monotonic + time;
        self.engine.handle_timeout(self.now);
    }

    /// The node made durable what is complete.
    fn sync(&mut self) {
        for (transfer, octets) in core::mem::take(&mut self.undurable) {
            self.engine
                .handle_command(self.now, LinkCommand::Acknowledge { transfer, octets });
        }
    }

    fn send(&mut self, datagrams: usize) {
        let mut out = Batch::new();
        let octets = 10_000;
        self.engine
            .poll_datagrams(self.now, Limit { datagrams, octets }, &mut out);
        assert!(out.len() <= datagrams && out.octets() <= octets);
        for datagram in out.datagrams() {
            let octets: u64 = datagram.iter().map(Piece::length).sum();
            assert!((1..=200).contains(&octets), "a datagram fits the path");
            self.given += 1;
        }
        self.take();
    }

    fn end(mut self) -> usize {
        // A peer that is silent for ever: time ends every session and transfer.
        self.engine.handle_path(self.now, Path::default());
        for _ in 0..10_000 {
            self.sync();
            self.send(usize::MAX);
            let left = core::mem::take(&mut self.given);
            self.engine.handle_left(self.now, left);
            self.take();
            let Some(at) = self.engine.poll_timeout() else {
                break;
            };
            self.now.monotonic = self.now.monotonic.max(at);
            self.engine.handle_timeout(self.now);
            self.take();
        }
        assert_eq!(self.engine.poll_timeout(), None, "nothing is waited for");
        assert!(self.open.is_empty(), "every outgoing transfer is over");
        assert_eq!(self.engine.incoming.held().0, 0, "every session is over");
        self.engine
            .handle_command(self.now, LinkCommand::Disconnected);
        self.take();
        assert!(self.down, "an engine without a socket is over");
        assert_eq!(self.ledger.held().0, 0);
        self.ledger.whole.len()
    }
}
