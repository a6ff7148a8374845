//! A neighbour's link over datagrams, as the rest of the node sees it: a session whose transfers come in order.
//!
//! The node reads bundles in order, and datagrams overtake each other. So octets that come early wait (`early.rs`) until those before
//! them have come, or the layer gives their transfer up; where there are many, the store has them meanwhile. A transfer whose first octets come behind those of a newer one waits as
//! a whole: the newer may be the same bundle, sent again by a peer that gave the older up, and the node would take the older for the newest copy. All neighbours together have [`EARLY_OCTETS`] for that.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::GAPS;
use dhow_bundle::{NodeId, Now};
use dhow_link::datagram::{Assurance, Limit, Path};
use dhow_link::ltp::{self, Engine, Known, VALUE_OCTETS};
use dhow_link::stream::{LinkCommand, LinkEvent, RefuseReason, SessionParameters, TransferId};
use dhow_link::udpcl::{self, Conversation};
use dhow_link::{Batch, DatagramEvent, DatagramLink};

use crate::adjacencies::blocks::Blocks;
use crate::adjacencies::early::{self, Coming, Early};
use crate::adjacencies::layer::Told;
use crate::config::{
    Aggregation, LtpAuthentication, LtpPolicy, OnSent, Protocol, RedPart, UdpPolicy,
};
use crate::memory::length;
use crate::view::DatagramCounts;

/// The memory of octets that came early, of all neighbours, at most. Those of a block without its first octets are all there; what has no room
/// comes again.
pub(crate) const EARLY_OCTETS: u64 = 256 << 20;

/// Early octets have no more than this part of the index's memory.
pub(crate) const EARLY_SHARE: u64 = 4;

/// After a rest as much leaves at once as the rate lets pass in one of so many parts of a second, where that is more than usual: the
/// timers of a driver are a millisecond late, and later on a busy machine.
const BURSTS_PER_S: u64 = 500;

/// Octets of a block of LTP that bundles share, at most: some datagrams. A lost octet of a block keeps all behind it from the store.
const SHARED_OCTETS: u64 = 16 << 10;

/// A neighbour's engine has three of four parts of what the early octets of others leave, so that there is always room for one more
/// neighbour, and for what pieces take beside their octets.
const fn engine_room(left_octets: u64) -> u64 {
    left_octets / 4 * 3
}

/// An engine takes octets behind gaps for as much room as it was told of last, and one that closes makes more of it. So datagrams come in parts of
/// the room, one of so many, which is less than what it leaves. After each the store takes what it may, and the engine is told again.
const PARTS: u64 = 16;

/// The part of the room, one of so many, of which early octets make the store take all that it may, of whatever transfer, and then again after each
/// of [`PARTS`] parts: what finds no room is lost.
const PRESSED_PART: u64 = 2;

/// Datagrams until there are so many octets, at least one.
fn count_within(datagrams: &[Bytes], octets: u64) -> usize {
    let mut sum = 0_u64;
    let within = datagrams.iter().take_while(|it| {
        sum = sum.saturating_add(length(it.len()));
        sum <= octets
    });
    within.count().max(1)
}

/// The machine of a layer over datagrams.
enum Machine {
    /// UDPCL: a transfer is a bundle.
    Udp(Box<Conversation>),
    /// LTP: a transfer that comes in is a block of bundles.
    Ltp(Box<Engine>, Box<Blocks>),
}

/// A conversation with a configured peer, or with a stranger.
pub(crate) struct Datagrams {
    machine: Machine,
    protocol: Protocol,
    on_sent: OnSent,
    path: Path,
    segment_mru: u64,
    transfers: BTreeMap<TransferId, Coming>,
    /// The first transfer that has not begun.
    next: TransferId,
    /// The newest transfer of which the node has the first octets.
    newest: TransferId,
    /// Transfers with early octets of which the store may be given some.
    crowded: BTreeSet<TransferId>,
    /// The memory that early octets take.
    early_octets: u64,
    /// The bound of `early_octets`.
    room_octets: u64,
    /// The memory of early octets at which the store is to take what it may of all transfers.
    pressed_at: u64,
    events: VecDeque<Told>,
    /// Rules that were broken, and how often.
    faults: VecDeque<(&'static str, u64)>,
    /// Transfers for whose early octets there was no room.
    refused: u64,
    counts: DatagramCounts,
}

/// A rate with the burst that a driver needs.
fn rate(octets_per_s: u64, usual: ltp::Rate) -> ltp::Rate {
    let burst_octets = usual.burst_octets.max(octets_per_s / BURSTS_PER_S);
    ltp::Rate {
        octets_per_s,
        burst_octets,
    }
}

impl Machine {
    fn link(&self) -> &dyn DatagramLink {
        match self {
            Self::Udp(conversation) => &**conversation,
            Self::Ltp(engine, _) => &**engine,
        }
    }

    fn link_mut(&mut self) -> &mut dyn DatagramLink {
        match self {
            Self::Udp(conversation) => &mut **conversation,
            Self::Ltp(engine, _) => &mut **engine,
        }
    }
}

impl Datagrams {
    /// A conversation over UDP.
    pub(crate) fn udp(policy: UdpPolicy, peer: Option<NodeId>, seed: u64, now: Now) -> Self {
        let usual = udpcl::Config::default();
        let config = udpcl::Config {
            mtu: policy.mtu_octets,
            peer: peer.map_or(udpcl::Peer::Unknown, udpcl::Peer::Known),
            rate: rate(policy.octets_per_s, usual.rate),
            ..usual
        };
        let machine = Machine::Udp(Box::new(Conversation::new(config, seed, now)));
        let protocol = Protocol::Udp(policy);
        Self::new(machine, protocol, (policy.mtu_octets, policy.on_sent))
    }

    /// An engine's relation to another engine. Blocks have at most `most_octets`, of which `early_octets` may lie behind gaps.
    pub(crate) fn ltp(
        policy: LtpPolicy,
        (engine, remote_engine): (u64, u64),
        peer: Option<NodeId>,
        (most_octets, early_octets): (u64, u64),
        (seed, now): (u64, Now),
    ) -> Self {
        let usual = ltp::Config::default();
        let authentication = match policy.authentication {
            LtpAuthentication::None => None,
            LtpAuthentication::Key => Some((ltp::Ciphersuite::HmacSha1, length(VALUE_OCTETS))),
            LtpAuthentication::Signature(octets) => Some((ltp::Ciphersuite::RsaSha256, octets)),
        };
        let authentication = authentication.map(|(suite, value_octets)| ltp::Authentication {
            suite,
            key_id: Vec::new(),
            value_octets,
            seal: None,
        });
        let config = ltp::Config {
            peer,
            engine,
            remote_engine,
            red: match policy.red {
                RedPart::All => ltp::Red::All,
                RedPart::None => ltp::Red::None,
                RedPart::Octets(octets) => ltp::Red::Octets(octets),
            },
            mtu: policy.mtu_octets,
            aggregate: match policy.aggregation {
                Aggregation::Shared => SHARED_OCTETS,
                Aggregation::Alone => 0,
            },
            // ION cancels a session with a checkpoint before the end of its red part.
            checkpoint_octets: 0,
            rate: rate(policy.octets_per_s, usual.rate).smooth(),
            light_time: Duration::from_millis(policy.light_time_ms),
            transfer_mru: policy.block_octets.min(most_octets),
            reassembly_octets: engine_room(early_octets),
            sessions: usize::try_from(policy.blocks).unwrap_or(usize::MAX),
            gaps: GAPS,
            remembered: usual
                .remembered
                .max(16 * usize::try_from(policy.blocks).unwrap_or(0)),
            authentication,
            ..usual
        };
        let machine = Engine::new(config, seed, now);
        let machine = Machine::Ltp(Box::new(machine), Box::default());
        let protocol = Protocol::Ltp(LtpPolicy {
            engine: Some(engine),
            remote_engine: Some(remote_engine),
            ..policy
        });
        Self::new(machine, protocol, (policy.mtu_octets, policy.on_sent))
    }

    fn new(machine: Machine, protocol: Protocol, (segment_mru, on_sent): (u64, OnSent)) -> Self {
        Self {
            machine,
            protocol,
            on_sent,
            path: Path::default(),
            segment_mru,
            transfers: BTreeMap::new(),
            next: TransferId(0),
            newest: TransferId(0),
            crowded: BTreeSet::new(),
            early_octets: 0,
            room_octets: 0,
            pressed_at: 0,
            events: VecDeque::new(),
            faults: VecDeque::new(),
            refused: 0,
            counts: DatagramCounts::default(),
        }
    }

    /// Datagrams came, of which the first are handled; `room_octets` may wait here in all. Their number comes back: before the others, all
    /// events are to be heard, and the store is to have what it may.
    pub(crate) fn handle_datagrams(
        &mut self,
        now: Now,
        datagrams: &[Bytes],
        room_octets: u64,
    ) -> usize {
        let count = count_within(datagrams, room_octets / PARTS).min(datagrams.len());
        let (part, _) = datagrams.split_at(count);
        self.room_octets = room_octets;
        let step = room_octets / PARTS;
        let next = self.early_octets.saturating_add(step);
        self.pressed_at = self.pressed_at.min(next).max(room_octets / PRESSED_PART);
        self.counts.received += length(part.len());
        self.counts.received_octets += part.iter().map(|it| length(it.len())).sum::<u64>();
        if let Machine::Ltp(engine, _) = &mut self.machine {
            let left = engine_room(room_octets).saturating_sub(self.early_octets);
            engine.set_room(engine.octets_beyond().saturating_add(left));
        }
        self.machine.link_mut().handle_datagrams(now, part);
        self.translate_all(now);
        count
    }

    pub(crate) fn handle_left(&mut self, now: Now, datagrams: u64) {
        self.machine.link_mut().handle_left(now, datagrams);
        self.translate_all(now);
    }

    pub(crate) fn handle_command(&mut self, now: Now, command: LinkCommand) {
        let command = match &mut self.machine {
            Machine::Udp(_) => Some(command),
            Machine::Ltp(_, blocks) => match command {
                LinkCommand::Acknowledge { transfer, .. } => blocks.taken(transfer),
                LinkCommand::Refuse { transfer, reason } => blocks.refused(transfer, reason),
                other => Some(other),
            },
        };
        if let Some(command) = command {
            self.command(now, command);
        }
    }

    fn command(&mut self, now: Now, command: LinkCommand) {
        if let LinkCommand::Refuse { transfer, reason } = &command {
            let (transfer, refused) = (*transfer, *reason);
            self.forget(transfer);
            let blocks = self.blocks_mut();
            if blocks.is_some_and(|blocks| blocks.is_open(transfer)) {
                let event = LinkEvent::Abandoned {
                    transfer,
                    refused: Some(refused),
                };
                self.events.push_back(event.into());
            }
        }
        self.machine.link_mut().handle_command(now, command);
        self.translate_all(now);
    }

    /// The blocks that come in, of a layer that has some.
    pub(crate) fn blocks_mut(&mut self) -> Option<&mut Blocks> {
        match &mut self.machine {
            Machine::Udp(_) => None,
            Machine::Ltp(_, blocks) => Some(blocks),
        }
    }

    /// All octets of a block were given to the node.
    pub(crate) fn end_block(&mut self, now: Now, block: TransferId) {
        let command = self.blocks_mut().and_then(|blocks| blocks.end(block));
        if let Some(command) = command {
            self.command(now, command);
        }
    }

    /// The knowledge of an LTP engine of a session number that a report names.
    pub(crate) fn knows_session(&self, number: u64) -> Known {
        match &self.machine {
            Machine::Udp(_) => Known::Never,
            Machine::Ltp(engine, _) => engine.knows_session(number),
        }
    }

    /// Transfers outlast the times in which nothing can pass.
    pub(crate) const fn keeps_transfers(&self) -> bool {
        matches!(self.machine, Machine::Ltp(..))
    }

    /// The peer says that it has a transfer.
    pub(crate) fn acknowledges(&self) -> bool {
        self.machine.link().capabilities().assurance == Assurance::Acknowledged
    }

    pub(crate) const fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn handle_timeout(&mut self, now: Now) {
        self.machine.link_mut().handle_timeout(now);
        self.translate_all(now);
    }

    /// The path takes no longer datagrams than these.
    pub(crate) fn narrowed(&mut self, now: Now, octets: u64) {
        let mtu = Some(octets);
        self.handle_path(now, Path { mtu, ..self.path });
    }

    /// The state of the path, as far as it is known.
    pub(crate) const fn path(&self) -> Path {
        self.path
    }

    /// The state of the path is another.
    pub(crate) fn handle_path(&mut self, now: Now, path: Path) {
        self.path = path;
        self.machine.link_mut().handle_path(now, path);
        self.translate_all(now);
    }

    pub(crate) fn poll_datagrams(&mut self, now: Now, limit: Limit, out: &mut Batch) {
        let (datagrams, octets) = (out.len(), out.octets());
        self.machine.link_mut().poll_datagrams(now, limit, out);
        self.counts.sent += length(out.len() - datagrams);
        self.counts.sent_octets += out.octets() - octets;
        self.translate_all(now);
    }

    /// The next event since the last call.
    pub(crate) fn poll_event(&mut self) -> Option<Told> {
        self.events.pop_front()
    }

    /// Whether there are early octets of which the store may be given some.
    pub(crate) fn is_crowded(&self) -> bool {
        !self.crowded.is_empty()
    }

    /// Whether the room for early octets is so full that the store is to take what it may though much waits for it: that is no more memory.
    pub(crate) const fn is_pressed(&self) -> bool {
        self.early_octets >= self.room_octets / PRESSED_PART
    }

    /// If the room is that full, all transfers with early octets in memory are crowded; not again until much more came.
    pub(crate) fn crowd(&mut self) {
        if matches!(self.machine, Machine::Ltp(..)) && self.early_octets >= self.pressed_at.max(1) {
            let with_some = (self.transfers.iter()).filter(|(_, coming)| coming.has_pieces());
            self.crowded
                .extend(with_some.map(|(transfer, _)| *transfer));
            let step = self.room_octets / PARTS;
            self.pressed_at = self.early_octets.saturating_add(step);
        }
    }

    /// A block with early octets of which the store may be given some, and the bundle in it whose octets are the next, with the place at which it
    /// begins. All events must have been heard.
    pub(crate) fn take_crowded(&mut self) -> Option<(TransferId, Option<(TransferId, u64)>)> {
        let block = self.crowded.pop_first()?;
        let (Machine::Ltp(_, blocks), Some(coming)) = (&self.machine, self.transfers.get(&block))
        else {
            return Some((block, None));
        };
        let within = blocks.within(block).and_then(|(bundle, octets)| {
            let start = coming.given.checked_sub(octets)?;
            Some((bundle, start))
        });
        Some((block, within))
    }

    /// Early octets of a transfer, wherever they are.
    pub(crate) fn early_octets_of(&self, transfer: TransferId) -> u64 {
        let coming = self.transfers.get(&transfer);
        coming.map_or(0, Coming::early_octets)
    }

    /// Early octets of a transfer that end before `end` and that the store is to have, with their places.
    pub(crate) fn place(&mut self, transfer: TransferId, end: u64) -> Vec<(u64, Bytes)> {
        let least = match self.is_pressed() {
            true => early::RUN_LEAST_PRESSED,
            false => early::RUN_LEAST,
        };
        let Some(coming) = self.transfers.get_mut(&transfer) else {
            return Vec::new();
        };
        let before = coming.memory_octets();
        let placed = coming.place(end, least, self.room_octets);
        let after = coming.memory_octets();
        self.early_octets = self.early_octets.saturating_sub(before) + after;
        placed
    }

    /// A rule that was broken, and how often.
    pub(crate) fn poll_fault(&mut self) -> Option<(&'static str, u64)> {
        self.faults.pop_front()
    }

    /// Transfers given up since the last call because there was no room for early octets.
    pub(crate) const fn take_refused(&mut self) -> u64 {
        core::mem::replace(&mut self.refused, 0)
    }

    /// The fate of a bundle when its last datagram has left.
    pub(crate) const fn on_sent(&self) -> OnSent {
        self.on_sent
    }

    pub(crate) fn link(&self) -> &dyn DatagramLink {
        self.machine.link()
    }

    pub(crate) const fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// The memory of octets that wait for others.
    pub(crate) const fn early_octets(&self) -> u64 {
        self.early_octets
    }

    /// Take what the layer says; a new value has said nothing yet.
    pub(crate) fn translate_all(&mut self, now: Now) {
        while let Some(event) = self.machine.link_mut().poll_event() {
            self.translate(now, event);
        }
    }

    fn translate(&mut self, now: Now, event: DatagramEvent) {
        let event = match event {
            DatagramEvent::Up { peer } => LinkEvent::Up(SessionParameters {
                peer,
                secured: false,
                proven: false,
                keepalive_s: 0,
                segment_mru: self.segment_mru,
                transfer_mru: self.machine.link().capabilities().transfer_mru,
                keeps_reactive_fragments: false,
            }),
            DatagramEvent::Piece {
                transfer,
                offset,
                octets,
                length,
            } => return self.piece(now, transfer, (offset, octets), length),
            DatagramEvent::Complete { transfer, length } => return self.complete(transfer, length),
            DatagramEvent::Abandoned { transfer, refused } => match self.forget(transfer) {
                Some(coming) if coming.given > 0 => LinkEvent::Abandoned { transfer, refused },
                _ => return,
            },
            // The acknowledgment ends it.
            DatagramEvent::Sent { .. } if self.acknowledges() => {
                return;
            }
            DatagramEvent::Sent { transfer } => LinkEvent::Sent { transfer },
            DatagramEvent::Transmitted { transfer } => LinkEvent::Transmitted { transfer },
            DatagramEvent::Failed {
                transfer,
                refused,
                acknowledged,
            } => LinkEvent::Failed {
                transfer,
                refused,
                acknowledged,
            },
            DatagramEvent::Ending => LinkEvent::Ending,
            DatagramEvent::Down(reason) => LinkEvent::Down(reason),
            DatagramEvent::Fault { rule, count } => {
                self.counts.faults += count;
                return self.faults.push_back((rule, count));
            }
            DatagramEvent::Announced { .. } => return,
        };
        self.events.push_back(event.into());
    }

    fn piece(
        &mut self,
        now: Now,
        transfer: TransferId,
        (offset, octets): (u64, Bytes),
        total: Option<u64>,
    ) {
        // Octets that the node has refused may still come: of a transfer that has begun and is not here.
        if transfer >= self.next {
            self.next = TransferId(transfer.0.saturating_add(1));
            let coming = Coming::new(self.room_octets);
            self.transfers.insert(transfer, coming);
        }
        let is_silent = matches!(self.machine, Machine::Udp(_));
        let Some(coming) = self.transfers.get_mut(&transfer) else {
            return;
        };
        // A peer cancels the block of a bundle that it sends again, so that no copy comes late.
        let is_late = is_silent && coming.given == 0 && transfer < self.newest;
        let is_all = total == Some(length(octets.len()));
        if offset > coming.given || is_late && !is_all {
            let cost = early::cost(length(octets.len()));
            let early_octets = self.early_octets.saturating_add(cost);
            if early_octets > self.room_octets {
                self.refused = self.refused.saturating_add(1);
                return self.refuse(now, transfer);
            }
            self.early_octets = early_octets;
            // A slice would keep the buffer that it came in.
            coming.keep(offset, Bytes::copy_from_slice(&octets));
        } else {
            self.give(transfer, octets, total);
            self.give_early(transfer, total);
        }
        let coming = self.transfers.get(&transfer);
        if !is_silent && coming.is_some_and(Coming::is_crowded) {
            self.crowded.insert(transfer);
        }
    }

    /// The octets of a transfer that came early and are the next.
    fn give_early(&mut self, transfer: TransferId, total: Option<u64>) {
        while let Some(coming) = self.transfers.get_mut(&transfer)
            && let Some(it) = coming.next_early()
        {
            self.early_octets = self.early_octets.saturating_sub(it.cost());
            match it {
                Early::Piece(octets) => self.give(transfer, octets, total),
                Early::Run(run) => {
                    coming.given = coming.given.saturating_add(run.octets);
                    self.events.push_back(Told::Placed { transfer, run });
                }
            }
        }
    }

    /// The next octets of a transfer, which may be the last.
    fn give(&mut self, transfer: TransferId, octets: Bytes, total: Option<u64>) {
        let Some(coming) = self.transfers.get_mut(&transfer) else {
            return;
        };
        let start = coming.given == 0;
        self.newest = self.newest.max(transfer);
        coming.given = coming.given.saturating_add(length(octets.len()));
        let end = total == Some(coming.given);
        if end {
            self.forget(transfer);
        }
        let segment = LinkEvent::Segment {
            transfer,
            octets,
            start,
            end,
            length: total.filter(|_| start),
        };
        self.events.push_back(segment.into());
    }

    /// All has come: what waited as a whole is given, and where the layer learned only now that nothing follows, the end.
    fn complete(&mut self, transfer: TransferId, length: u64) {
        self.give_early(transfer, Some(length));
        if self.transfers.contains_key(&transfer) {
            self.give(transfer, Bytes::new(), Some(length));
        }
    }

    fn refuse(&mut self, now: Now, transfer: TransferId) {
        let coming = self.forget(transfer);
        let reason = RefuseReason::NoResources;
        (self.machine.link_mut()).handle_command(now, LinkCommand::Refuse { transfer, reason });
        if coming.is_some_and(|coming| coming.given > 0) {
            let event = LinkEvent::Abandoned {
                transfer,
                refused: Some(reason),
            };
            self.events.push_back(event.into());
        }
    }

    fn forget(&mut self, transfer: TransferId) -> Option<Coming> {
        let coming = self.transfers.remove(&transfer)?;
        self.crowded.remove(&transfer);
        self.early_octets = self.early_octets.saturating_sub(coming.memory_octets());
        Some(coming)
    }
}
