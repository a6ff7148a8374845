//! Two engines with their nodes, and a channel that loses, doubles, delays and reorders.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{DtnTime, Instant, Now};

use super::super::{Config, Engine};
use super::referee::Referee;
use crate::datagram::ledger::Ledger;
use crate::datagram::{Batch, DatagramEvent, DatagramLink, Limit, Path, PathState};
use crate::stream::{LinkCommand, RefuseReason, TransferId};

/// Numbers that follow from a seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// True in so many of a thousand cases.
    pub(super) fn permille(&mut self, share: u64) -> bool {
        self.below(1_000) < share
    }
}

/// Microseconds since the start as an instant.
pub(super) fn at(microseconds: u64) -> Now {
    Now {
        monotonic: Instant::START + Duration::from_micros(microseconds),
        dtn: DtnTime::UNKNOWN,
    }
}

pub(super) const ALL: Limit = Limit {
    datagrams: usize::MAX,
    octets: u64::MAX,
};

/// The octets that datagrams stand for, all of which are in memory.
pub(super) fn flatten(batch: &Batch) -> Vec<Vec<u8>> {
    let octets = |piece: &Piece| match piece {
        Piece::Octets(octets) => octets.to_vec(),
        Piece::Extent(_) => unreachable!("nothing is in a store here"),
    };
    batch
        .datagrams()
        .map(|pieces| pieces.iter().flat_map(octets).collect())
        .collect()
}

/// The behaviour of the channel and of the nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// Lost datagrams of a thousand.
    pub(super) lost: u64,
    pub(super) doubled: u64,
    /// Microseconds on the way.
    pub(super) delay: u64,
    /// The greatest jitter beside the delay.
    pub(super) jitter: u64,
    /// The time until a node has made complete blocks durable.
    pub(super) sync: u64,
    /// The time until the socket has taken a datagram.
    pub(super) socket: u64,
    /// Intervals in which a direction (0 from the first engine) carries nothing, in order.
    pub(super) closed: Vec<(u64, u64, usize)>,
}

/// One of the two ends, with its node.
#[derive(Debug)]
pub(super) struct End {
    pub(super) engine: Engine,
    pub(super) ledger: Ledger,
    /// Blocks by transfer.
    pub(super) blocks: BTreeMap<TransferId, Vec<u8>>,
    pub(super) sent: BTreeSet<TransferId>,
    pub(super) transmitted: BTreeMap<TransferId, u64>,
    pub(super) failed: BTreeMap<TransferId, Option<RefuseReason>>,
    /// Incoming transfers that are durable, with their octets.
    pub(super) durable: Vec<Vec<u8>>,
    pub(super) faults: BTreeMap<&'static str, u64>,
    syncing: BTreeMap<u64, Vec<(TransferId, u64)>>,
    leaving: BTreeMap<u64, u64>,
    paths: Path,
}

pub(super) struct World {
    pub(super) ends: [End; 2],
    pub(super) now: u64,
    pub(super) conditions: Conditions,
    pub(super) referee: Referee,
    wire: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    count: u64,
    dice: Dice,
    /// Whether a node has said that it has a block from elsewhere.
    has_some_already: bool,
    has_crashed: bool,
}

impl World {
    /// Two engines of one configuration, but for their IDs.
    pub(super) fn new(config: &Config, conditions: Conditions, seed: u64) -> Self {
        let end = |engine: u64, remote_engine: u64| End {
            engine: Engine::new(
                Config {
                    engine,
                    remote_engine,
                    ..config.clone()
                },
                seed ^ engine << 32,
                at(0),
            ),
            ledger: Ledger::default(),
            blocks: BTreeMap::new(),
            sent: BTreeSet::new(),
            transmitted: BTreeMap::new(),
            failed: BTreeMap::new(),
            durable: vec![],
            faults: BTreeMap::new(),
            syncing: BTreeMap::new(),
            leaving: BTreeMap::new(),
            paths: Path::default(),
        };
        Self {
            ends: [end(2, 3), end(3, 2)],
            now: 0,
            conditions,
            referee: Referee::default(),
            wire: BTreeMap::new(),
            count: 0,
            dice: Dice(seed),
            has_some_already: false,
            has_crashed: false,
        }
    }

    pub(super) fn transmit(&mut self, from: usize, octets: Vec<u8>) -> TransferId {
        let now = at(self.now);
        let end = &mut self.ends[from];
        let transfer = TransferId(end.blocks.len() as u64);
        let length = octets.len() as u64;
        let engine = &mut end.engine;
        engine.handle_command(now, LinkCommand::Transmit { transfer, length });
        for chunk in octets.chunks(5_000) {
            let octets = Piece::Octets(Bytes::copy_from_slice(chunk));
            engine.handle_command(now, LinkCommand::Supply { transfer, octets });
        }
        end.blocks.insert(transfer, octets);
        transfer
    }

    pub(super) fn command(&mut self, end: usize, command: LinkCommand) {
        if let LinkCommand::Refuse { transfer, reason } = command {
            self.ends[end].ledger.refuse(transfer);
            self.has_some_already |= reason == RefuseReason::Completed;
        }
        self.ends[end].engine.handle_command(at(self.now), command);
    }

    /// An end crashes and is there again at once, with what was durable and nothing else. The referee goes home.
    pub(super) fn crash(&mut self, end: usize, seed: u64) {
        let config = self.ends[end].engine.local.config.clone();
        let end = &mut self.ends[end];
        end.engine = Engine::new(config, seed, at(self.now));
        end.ledger = Ledger::default();
        end.syncing.clear();
        end.leaving.clear();
        end.paths = Path::default();
        self.has_crashed = true;
    }

    /// Let time pass up to this instant, event by event.
    pub(super) fn pass(&mut self, until: u64) {
        let mut turns = 0_u64;
        loop {
            self.exchange();
            let Some(next) = self.next().filter(|next| *next <= until) else {
                break;
            };
            turns = if next > self.now { 0 } else { turns + 1 };
            assert!(turns < 10_000, "time passes");
            self.now = self.now.max(next);
        }
        self.now = until;
    }

    /// Let time pass until nothing more is to happen, and say when that was.
    pub(super) fn settle(&mut self, most: u64) -> u64 {
        loop {
            self.exchange();
            match self.next() {
                None => return self.now,
                Some(next) => self.now = self.now.max(next),
            }
            assert!(self.now < most, "it comes to an end");
        }
    }

    fn next(&self) -> Option<u64> {
        let ends = self.ends.iter();
        let of_ends = ends.flat_map(|end| {
            let timeout = end.engine.poll_timeout();
            let timeout = timeout.map(|at| at.as_nanos().div_ceil(1_000));
            let syncing = end.syncing.keys().next().copied();
            let leaving = end.leaving.keys().next().copied();
            [timeout, syncing, leaving]
        });
        let arrival = self.wire.keys().next().map(|(at, _)| *at);
        let path = self.conditions.closed.iter();
        let path = path.flat_map(|(from, to, _)| [*from, *to]);
        let path = path.filter(|at| *at > self.now);
        of_ends.flatten().chain(arrival).chain(path).min()
    }

    fn exchange(&mut self) {
        let now = at(self.now);
        self.open_and_close();
        while let Some(entry) = self.wire.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (to, datagram) = entry.remove();
            if !self.has_crashed {
                self.referee.arrived(&datagram);
            }
            let end = &mut self.ends[to];
            end.engine.handle_datagrams(now, &[datagram.into()]);
            self.take(to);
        }
        for place in [0, 1] {
            let end = &mut self.ends[place];
            while let Some(entry) = end.syncing.first_entry() {
                if *entry.key() > self.now {
                    break;
                }
                for (transfer, octets) in entry.remove() {
                    let whole = end
                        .ledger
                        .whole
                        .iter()
                        .find(|(known, _)| *known == transfer);
                    end.durable.push(whole.unwrap().1.clone());
                    let command = LinkCommand::Acknowledge { transfer, octets };
                    end.engine.handle_command(now, command);
                }
            }
            if end
                .engine
                .poll_timeout()
                .is_some_and(|at| at <= now.monotonic)
            {
                end.engine.handle_timeout(now);
            }
            self.take(place);
            self.send(place);
            self.take(place);
        }
    }

    fn send(&mut self, from: usize) {
        let now = at(self.now);
        let end = &mut self.ends[from];
        let mut batch = Batch::new();
        end.engine.poll_datagrams(now, ALL, &mut batch);
        let datagrams = flatten(&batch);
        let count = datagrams.len() as u64;
        let leaves = self.now + self.conditions.socket;
        if count > 0 {
            *end.leaving.entry(leaves).or_default() += count;
        }
        while let Some(entry) = end.leaving.first_entry() {
            if *entry.key() > self.now {
                break;
            }
            let count = entry.remove();
            end.engine.handle_left(now, count);
        }
        let mtu = end.engine.local.size;
        for datagram in datagrams {
            assert!(datagram.len() as u64 <= mtu, "a datagram fits the path");
            if !self.has_crashed {
                self.referee.sent(&datagram);
            }
            self.carry(1 - from, leaves, datagram);
        }
    }

    fn carry(&mut self, to: usize, leaves: u64, datagram: Vec<u8>) {
        let closed = self.conditions.closed.iter();
        let is_closed = closed
            .filter(|(_, _, way)| *way == 1 - to)
            .any(|(from, until, _)| (*from..*until).contains(&leaves));
        let copies = 1 + u64::from(self.dice.permille(self.conditions.doubled));
        for _ in 0..copies {
            if is_closed || self.dice.permille(self.conditions.lost) {
                continue;
            }
            let jitter = self.dice.below(self.conditions.jitter + 1);
            let arrives = leaves + self.conditions.delay + jitter;
            self.count += 1;
            self.wire
                .insert((arrives, self.count), (to, datagram.clone()));
        }
    }

    /// Tell both ends of the path as it is now.
    fn open_and_close(&mut self) {
        for place in [0, 1] {
            let state = |way: usize| {
                let mut closed = self.conditions.closed.iter();
                let is_closed = closed.any(|(from, until, closed)| {
                    *closed == way && (*from..*until).contains(&self.now)
                });
                if is_closed {
                    PathState::Closed
                } else {
                    PathState::Open
                }
            };
            let path = Path {
                outgoing: state(place),
                incoming: state(1 - place),
                mtu: None,
                light_time: None,
            };
            let end = &mut self.ends[place];
            if path != end.paths {
                end.paths = path;
                end.engine.handle_path(at(self.now), path);
            }
        }
    }

    fn take(&mut self, place: usize) {
        while let Some(event) = self.ends[place].engine.poll_event() {
            let (now, sync) = (self.now, self.conditions.sync);
            let end = &mut self.ends[place];
            end.ledger.note(&event);
            match event {
                DatagramEvent::Complete { transfer, length } => {
                    let due = end.syncing.entry(now + sync).or_default();
                    due.push((transfer, length));
                }
                DatagramEvent::Sent { transfer } => {
                    assert!(end.sent.insert(transfer), "sent once");
                }
                DatagramEvent::Transmitted { transfer } => {
                    assert!(end.sent.contains(&transfer), "sent before");
                    assert!(end.transmitted.insert(transfer, now).is_none());
                    self.check_durable(place, transfer);
                }
                DatagramEvent::Failed {
                    transfer, refused, ..
                } => {
                    assert!(!end.transmitted.contains_key(&transfer));
                    assert!(end.failed.insert(transfer, refused).is_none());
                }
                DatagramEvent::Fault { rule, count } => {
                    *end.faults.entry(rule).or_default() += count;
                }
                _ => {}
            }
        }
    }

    /// A sender is told that a block arrived only once it is durable there.
    fn check_durable(&self, place: usize, transfer: TransferId) {
        let [ref sender, ref receiver] = self.ends;
        let (sender, receiver) = if place == 0 {
            (sender, receiver)
        } else {
            (receiver, sender)
        };
        let block = &sender.blocks[&transfer];
        let told = sender.transmitted.keys();
        let told = told.filter(|other| sender.blocks[other] == *block).count();
        // Equal transfers may share a block.
        let told = told.min(1);
        let durable = receiver.durable.iter().filter(|other| has(other, block));
        let is_durable = durable.count() >= told || self.has_some_already;
        assert!(is_durable, "it is durable there");
    }

    /// The blocks that one end sent, and those that the other has, each sorted.
    pub(super) fn both(&self, from: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let mut sent: Vec<_> = self.ends[from].blocks.values().cloned().collect();
        let whole = self.ends[1 - from].ledger.whole.iter();
        let mut whole: Vec<_> = whole.map(|(_, octets)| octets.clone()).collect();
        sent.sort();
        whole.sort();
        (sent, whole)
    }

    /// Nothing is left of any session.
    pub(super) fn check_empty(&self) {
        for end in &self.ends {
            let (sessions, beyond, _) = end.engine.incoming.held();
            assert_eq!((sessions, beyond), (0, 0), "no session stays");
            assert_eq!(end.engine.outgoing.begun(), 0);
            assert_eq!(end.engine.local.operations.len(), 0);
            assert_eq!(end.ledger.held().0, 0);
        }
        self.referee.end();
    }
}

/// Whether octets have these in one place.
pub(super) fn has(octets: &[u8], part: &[u8]) -> bool {
    octets == part || octets.windows(part.len()).any(|window| window == part)
}

/// A block that differs by its seed.
pub(super) fn block(seed: u64, length: usize) -> Vec<u8> {
    let mut dice = Dice(seed);
    let mut octets: Vec<u8> = Vec::with_capacity(length + 8);
    while octets.len() < length {
        octets.extend(dice.next().to_le_bytes());
    }
    octets.truncate(length);
    octets
}
