//! An engine with neighbours, and its loop.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::{Instant, Now};
use dhow_link::datagram::DatagramEvent;
use dhow_link::ltp::{Addressee, Config, Engine, Known, Status};
use dhow_link::stream::{RefuseReason, TransferId};
use dhow_link::{DatagramLink as _, LinkCommand};

use super::super::finishing::{Done, Finisher};
use super::super::leaving::LeavingFiles;
use super::super::neighbour::{Attempt, Neighbour};
use super::super::peer::{Incoming, PeerId};
use super::super::refusals::Refusals;
use super::super::socket::{NO_WAY_WAIT, Socket, path_to};
use super::super::unheard::Unheard;
use super::super::{LAST_WORDS, LOOK};
use super::block::{Block, Outward};
use super::orders::OrderState;
use super::ways::Ways;
use super::{About, End, Hop, Passing, Settings, Told, Watch, What, Work, spool};
use crate::clock::Clock;
use crate::config::file::ClockSetting;
use crate::datagrams::calls::Addresses;
use crate::datagrams::seal::SegmentKey;
use crate::open_files::{self, Dialled};

/// System calls in which datagrams are read before anything else happens.
const CALLS_PER_TURN: usize = 8;

/// The time between two notes about strangers.
const NOTE_EVERY: Duration = Duration::from_secs(10);

/// Numbers of blocks: those of files that leave (`LeavingFiles`).
const NUMBERS: u64 = 1 << 23;

/// Times of waiting for an answer that a station stays when its work is done.
pub(super) const LINGER: u32 = 3;

/// An engine with neighbours.
pub(super) struct Station<'a> {
    pub(super) settings: Settings,
    pub(super) config: Config,
    pub(super) socket: Socket,
    pub(super) clock: Clock,
    /// Its files are called by the numbers of their blocks.
    pub(super) finisher: Finisher<u64>,
    pub(super) leaving: LeavingFiles,
    pub(super) neighbours: BTreeMap<PeerId, Neighbour>,
    pub(super) blocks: BTreeMap<u64, Block>,
    pub(super) by_incoming: BTreeMap<Incoming, u64>,
    pub(super) by_outgoing: BTreeMap<(PeerId, TransferId), u64>,
    next_block: u64,
    pub(super) next_transfer: u64,
    /// Octets of blocks on the disk.
    pub(super) used: u64,
    /// The ways back to sources, as blocks came from them: reports go back there.
    pub(super) ways: Ways,
    /// Transfers that are here, by source and number, with their octets, until their lives end.
    pub(super) seen: BTreeMap<(u64, u64), (Instant, u64)>,
    /// Blocks with octets that are not written.
    pub(super) gathered: Vec<u64>,
    pub(super) orders: Vec<OrderState>,
    /// Files that came.
    pub(super) received: u64,
    /// When octets came last.
    pub(super) last: Instant,
    looked: Instant,
    /// When something was last said that strangers can bring about.
    noted: Option<Instant>,
    /// Datagrams of strangers that were not authentic.
    unheard: Unheard,
    /// Refusals of the system to send.
    refusals: Refusals,
    pub(super) ending: Option<(End, Instant)>,
    pub(super) watch: &'a mut dyn Watch,
}

/// Work until it is done, or it is to end.
///
/// # Errors
/// When the address cannot be had, the socket or the directory fails, or the thread that makes files durable has ended.
pub fn run(settings: Settings, watch: &mut dyn Watch) -> io::Result<End> {
    // A block has a file that is written and the same one to be read. Blocks beyond the system's limit are refused.
    let blocks = Dialled {
        configured: settings.blocks,
        found: 0,
    };
    open_files::allow(blocks).map_err(io::Error::other)?;
    let socket = Socket::bind(settings.listen)?;
    // The blocks of a relay are its own as long as it runs.
    let _lock = match settings.work {
        Work::Relay(_) => Some(spool::lock(&settings.directory)?),
        Work::Receive { .. } | Work::Send(_) => None,
    };
    let ways = match settings.work {
        Work::Relay(_) => Ways::open(&settings.directory)?,
        Work::Receive { .. } | Work::Send(_) => Ways::default(),
    };
    let finisher = Finisher::start(&settings.directory)?;
    let clock = Clock::start(ClockSetting::System);
    let mut config = settings.way.config();
    config.engine = settings.engine;
    config.end_to_end = true;
    config.sessions = settings.blocks;
    config.authentication = settings.key.as_ref().map(SegmentKey::authentication);
    config.termination_timeout = LAST_WORDS;
    let now = clock.now().monotonic;
    let mut station = Station {
        settings,
        config,
        socket,
        clock,
        finisher,
        leaving: LeavingFiles::default(),
        neighbours: BTreeMap::new(),
        blocks: BTreeMap::new(),
        by_incoming: BTreeMap::new(),
        by_outgoing: BTreeMap::new(),
        next_block: 0,
        next_transfer: 0,
        used: 0,
        ways,
        seen: BTreeMap::new(),
        gathered: Vec::new(),
        orders: Vec::new(),
        received: 0,
        last: now,
        looked: now,
        noted: None,
        unheard: Unheard::default(),
        refusals: Refusals::default(),
        ending: None,
        watch,
    };
    let local = station.socket.local();
    station.watch.hear(Told::Listening(local));
    if matches!(station.settings.work, Work::Relay(_)) {
        station.resume()?;
    }
    station.take_orders();
    station.turn()
}

impl Station<'_> {
    fn turn(mut self) -> io::Result<End> {
        loop {
            let now = self.clock.now();
            if let Some(end) = self.look(now) {
                return Ok(end);
            }
            let is_more = self.read()?;
            self.write();
            self.finish()?;
            let now = self.clock.now();
            let mut wait = if is_more { Duration::ZERO } else { LOOK };
            let mut for_room = false;
            let ids: Vec<_> = self.neighbours.keys().copied().collect();
            for id in ids {
                for_room |= self.serve(id, now, &mut wait);
            }
            if !wait.is_zero() {
                let bell = Some(self.finisher.bell());
                self.socket.wait(for_room, bell, wait)?;
            }
        }
    }

    /// Send what a neighbour is to have, and see how long to wait for it; whether the socket has no room.
    fn serve(&mut self, id: PeerId, now: Now, wait: &mut Duration) -> bool {
        let is_due = |at: Instant| at <= now.monotonic;
        if let Some(neighbour) = self.neighbours.get_mut(&id)
            && neighbour.engine.poll_timeout().is_some_and(is_due)
        {
            neighbour.engine.handle_timeout(now);
            self.take_events(id, now);
        }
        let Some(neighbour) = self.neighbours.get_mut(&id) else {
            return false;
        };
        let (key, pace) = (self.settings.key.as_deref(), self.settings.way.pace());
        let way = (&self.socket, &self.clock);
        let mut failed = Vec::new();
        let attempt = neighbour.send(way, &mut self.leaving, key, pace, &mut failed);
        if let Some(errno) = self.socket.take_refused() {
            let to = neighbour.to;
            if let Some(what) = self.refusals.tell(now.monotonic, to, errno) {
                self.watch.hear(Told::Note(what));
            }
            // The path may take less than before.
            if let Some(path) = path_to(to) {
                neighbour.engine.handle_path(now, path);
            }
        }
        if let Some(at) = neighbour.engine.poll_timeout() {
            *wait = (*wait).min(at.max(neighbour.next).since(now.monotonic));
        }
        let mut for_room = false;
        match attempt {
            Attempt::Idle => {}
            Attempt::More => *wait = (*wait).min(neighbour.next.since(now.monotonic)),
            Attempt::NoRoom => for_room = true,
            Attempt::NoWay => *wait = (*wait).min(NO_WAY_WAIT),
        }
        for failed in failed {
            self.unreadable(failed.number, failed.why);
        }
        self.take_events(id, now);
        for_room
    }

    /// Whether it is over, and what time has brought.
    fn look(&mut self, now: Now) -> Option<End> {
        if now.monotonic.since(self.looked) >= LOOK {
            self.looked = now.monotonic;
            self.age(now);
            self.tell_progress();
            for what in self.unheard.tell(now.monotonic) {
                self.watch.hear(Told::Note(what));
            }
        }
        if let Some((end, at)) = self.ending {
            let is_idle = self.neighbours.values().all(Neighbour::is_idle);
            let is_stopped = end != End::Stopped && self.watch.is_over();
            return (is_idle || now.monotonic >= at || is_stopped).then_some(end);
        }
        let silent = now.monotonic.since(self.last);
        let (count, timeout) = match &self.settings.work {
            Work::Receive { count, timeout } => (*count, *timeout),
            Work::Relay(_) | Work::Send(_) => (None, None),
        };
        if self.watch.is_over() {
            self.end(End::Stopped, now, LAST_WORDS);
        } else if count.is_some_and(|count| self.received >= count) {
            self.end(End::Done, now, self.linger());
        } else if timeout.is_some_and(|timeout| silent >= timeout) {
            self.end(End::Silence, now, LAST_WORDS);
        } else if let Some(end) = self.end_of_orders() {
            self.end(end, now, self.linger());
        }
        None
    }

    /// The time in which answers come that are waited for.
    pub(super) fn linger(&self) -> Duration {
        let wait = self.config.light_time.saturating_mul(2) + self.config.margin;
        wait.saturating_mul(LINGER)
    }

    fn end(&mut self, end: End, now: Now, within: Duration) {
        self.ending = Some((end, now.monotonic + within));
        self.end_orders();
        let numbers: Vec<_> = self.blocks.keys().copied().collect();
        for number in numbers {
            let block = self.blocks.get(&number);
            // Reports still leave when the work is done.
            let stays = end != End::Stopped && block.is_some_and(|block| block.octets.is_some());
            if stays || block.is_some_and(|block| block.path.is_some()) {
                continue;
            }
            self.stop(number, RefuseReason::NoResources);
        }
    }

    /// End both sessions of a block, and forget it.
    pub(super) fn stop(&mut self, number: u64, inward: RefuseReason) {
        let now = self.clock.now();
        if let Some(of) = self.detach_inward(number) {
            self.refuse(of, inward);
        }
        if let Some(outward) = self.detach_outward(number)
            && let Some(neighbour) = self.neighbours.get_mut(&outward.peer)
        {
            neighbour.engine.cancel_onward(now, outward.transfer);
        }
        self.remove(number);
    }

    /// Blocks whose lives end, and those that leave again.
    fn age(&mut self, now: Now) {
        let numbers: Vec<_> = self.blocks.keys().copied().collect();
        for number in numbers {
            let Some(block) = self.blocks.get_mut(&number) else {
                continue;
            };
            if block.deadline <= now.monotonic {
                let status = match block.had_no_room {
                    true => Status::NoSpace,
                    false => Status::Expired,
                };
                self.give_up(number, status);
            } else if block.again.is_some_and(|at| at <= now.monotonic) {
                block.again = None;
                self.start(number);
            }
        }
        self.seen.retain(|_, (until, _)| *until > now.monotonic);
    }

    /// Read the datagrams that are there; whether there may be more.
    fn read(&mut self) -> io::Result<bool> {
        for _ in 0..CALLS_PER_TURN {
            let mut runs: Vec<(Addressee, Addresses, Vec<Bytes>)> = Vec::new();
            let dropped = self.socket.receive(|message| {
                let between = message.addresses;
                for datagram in message.owned() {
                    let Some(to) = Addressee::of(&datagram) else {
                        continue;
                    };
                    match runs.last_mut() {
                        Some((last, before, run)) if *last == to && *before == between => {
                            run.push(datagram);
                        }
                        _ => runs.push((to, between, vec![datagram])),
                    }
                }
            })?;
            let Some(dropped) = dropped else {
                return Ok(false);
            };
            if dropped > 0 {
                let what = format!(
                    "{dropped} datagrams came faster than they were read, and are asked for again"
                );
                self.watch.hear(Told::Note(what));
            }
            let now = self.clock.now();
            for (to, between, datagrams) in runs {
                let Some(id) = self.neighbour_of(to, between.peer, &datagrams, now) else {
                    continue;
                };
                let key = self.config.authentication.as_ref();
                if let Some(neighbour) = self.neighbours.get_mut(&id) {
                    neighbour.take(now, between, &datagrams, key);
                }
                self.take_events(id, now);
            }
        }
        Ok(true)
    }

    /// The neighbour that sent datagrams.
    fn neighbour_of(
        &mut self,
        to: Addressee,
        from: SocketAddr,
        datagrams: &[Bytes],
        now: Now,
    ) -> Option<PeerId> {
        let host = from.ip();
        match to {
            Addressee::ReceiverFrom(engine) => {
                let id = PeerId { host, engine };
                let key = self.config.authentication.as_ref();
                let is_authentic = |it| key.is_none_or(|key| key.accepts_all(it));
                let is_known = self.neighbours.contains_key(&id);
                let may_come = is_known || datagrams.iter().any(is_authentic);
                if !may_come {
                    self.unheard.count(id, datagrams.len());
                }
                let hop = Hop {
                    engine,
                    address: from,
                };
                (may_come && self.meet(hop, now).is_some()).then_some(id)
            }
            Addressee::Sender { engine, .. } if engine != self.settings.engine => None,
            Addressee::Sender { session, .. } => {
                let here = self.neighbours.iter().filter(|(id, _)| id.host == host);
                let ranked = here.map(|(id, it)| {
                    let known = it.engine.knows_session(session);
                    ((known, it.to == from), *id)
                });
                let best = ranked.max_by_key(|(rank, _)| *rank);
                let best = best.filter(|((known, is_there), _)| *known > Known::Never || *is_there);
                best.map(|(_, id)| id).or_else(|| self.meet_at(from, now))
            }
        }
    }

    /// The neighbour that a route has at an address: it may report of sessions of which a relay that began anew does not know (RFC 5326 6.13).
    fn meet_at(&mut self, address: SocketAddr, now: Now) -> Option<PeerId> {
        let mut hops = self.settings.routes.values().chain(&self.settings.default);
        let hop = hops.find(|it| it.address == address).copied()?;
        self.meet(hop, now)
    }

    /// The neighbour at a hop, which may be a new one; `None` when there are too many.
    pub(super) fn meet(&mut self, hop: Hop, now: Now) -> Option<PeerId> {
        let id = PeerId {
            host: hop.address.ip(),
            engine: hop.engine,
        };
        if self.neighbours.contains_key(&id) {
            return Some(id);
        }
        let mut hops = self.settings.routes.values().chain(&self.settings.default);
        let fixed = hops
            .find(|it| it.engine == hop.engine && it.address.ip() == id.host)
            .copied();
        if fixed.is_none() && !self.make_room_for_stranger(id, now) {
            return None;
        }
        let config = Config {
            remote_engine: hop.engine,
            ..self.config.clone()
        };
        let seed = self.settings.seed ^ now.monotonic.as_nanos() ^ hop.engine.rotate_left(32);
        let mut engine = Engine::new(config, seed, now);
        let address = fixed.unwrap_or(hop).address;
        if let Some(path) = path_to(address) {
            engine.handle_path(now, path);
        }
        let it = Neighbour::new(engine, address, fixed.is_some(), now.monotonic);
        self.neighbours.insert(id, it);
        Some(id)
    }

    /// Says something that strangers can bring about as often as they like.
    pub(super) fn note_once_a_while(&mut self, now: Now, what: impl FnOnce() -> String) {
        if self
            .noted
            .is_none_or(|at| now.monotonic.since(at) >= NOTE_EVERY)
        {
            self.noted = Some(now.monotonic);
            self.watch.hear(Told::Note(what()));
        }
    }

    pub(super) fn take_events(&mut self, id: PeerId, now: Now) {
        // Blocks that were given up here: the engine may have told of more of them before.
        let mut given_up = BTreeSet::new();
        while let Some(neighbour) = self.neighbours.get_mut(&id)
            && let Some(event) = neighbour.engine.poll_event()
        {
            match event {
                DatagramEvent::Piece { transfer, .. } if given_up.contains(&transfer) => {}
                DatagramEvent::Piece {
                    transfer,
                    offset,
                    octets,
                    ..
                } => {
                    let of = Incoming { peer: id, transfer };
                    self.take(of, offset, octets, now);
                    if !self.by_incoming.contains_key(&of) {
                        given_up.insert(transfer);
                    }
                }
                DatagramEvent::Complete { transfer, .. } => {
                    self.complete(Incoming { peer: id, transfer });
                }
                DatagramEvent::Abandoned { transfer, refused } => {
                    self.abandoned(Incoming { peer: id, transfer }, refused);
                }
                DatagramEvent::Transmitted { transfer } => self.passed(id, transfer, true),
                DatagramEvent::Sent { transfer } => self.passed(id, transfer, false),
                DatagramEvent::Failed {
                    transfer, refused, ..
                } => self.failed(id, transfer, refused),
                DatagramEvent::Fault { rule, count } => {
                    let engine = id.engine;
                    let what = format!("engine {engine} at {}: {rule}, {count} times", id.host);
                    self.watch.hear(Told::Note(what));
                }
                _ => {}
            }
        }
    }

    /// Hear of files that were synced.
    fn finish(&mut self) -> io::Result<()> {
        if self.finisher.under_way() == 0 {
            return Ok(());
        }
        self.finisher.hear();
        while let Some(done) = self.finisher.poll()? {
            if let Done::Finished(number, named) = done {
                self.named(number, named);
            }
        }
        Ok(())
    }

    /// Keep a block under a number of its own.
    pub(super) fn add(&mut self, block: Block) -> u64 {
        while self.blocks.contains_key(&self.next_block) {
            self.next_block = (self.next_block + 1) % NUMBERS;
        }
        let number = self.next_block;
        self.next_block = (number + 1) % NUMBERS;
        self.blocks.insert(number, block);
        number
    }

    /// Forget a block, which has no sessions any more.
    pub(super) fn remove(&mut self, number: u64) -> Option<Block> {
        self.leaving.remove(number);
        let block = self.blocks.remove(&number)?;
        if block.octets.is_none() && block.order.is_none() {
            self.used = self.used.saturating_sub(block.came.octets());
        }
        Some(block)
    }

    /// A block does not come any more; its incoming transfer comes back.
    pub(super) fn detach_inward(&mut self, number: u64) -> Option<Incoming> {
        let (of, _) = self.blocks.get_mut(&number)?.inward.take()?;
        self.by_incoming.remove(&of);
        self.is_less(of.peer);
        Some(of)
    }

    /// A block does not leave any more; its session comes back.
    pub(super) fn detach_outward(&mut self, number: u64) -> Option<Outward> {
        let outward = self.blocks.get_mut(&number)?.outward.take()?;
        self.by_outgoing.remove(&(outward.peer, outward.transfer));
        self.is_less(outward.peer);
        Some(outward)
    }

    fn is_less(&mut self, peer: PeerId) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.blocks = neighbour.blocks.saturating_sub(1);
        }
    }

    pub(super) fn refuse(&mut self, of: Incoming, reason: RefuseReason) {
        let transfer = of.transfer;
        self.command(of.peer, LinkCommand::Refuse { transfer, reason });
    }

    pub(super) fn command(&mut self, peer: PeerId, command: LinkCommand) {
        let now = self.clock.now();
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.engine.handle_command(now, command);
        }
    }

    /// Tell of a block that is here.
    pub(super) fn tell(&mut self, number: u64, what: What) {
        let Some(block) = self.blocks.get(&number) else {
            return;
        };
        let inward = block
            .inward
            .as_ref()
            .map(|(of, session)| (of.peer, *session));
        let outward = block.outward.as_ref().map(|it| (it.peer, it.session));
        let hop = match what {
            What::Leaving | What::Passed | What::Retried(_) => outward,
            _ => inward,
        };
        let about = About {
            end_to_end: block.end_to_end,
            neighbour: hop.map_or(0, |(peer, _)| peer.engine),
            session: hop.map_or(0, |(_, session)| session),
            octets: block.came.octets(),
            time: self.clock.now().monotonic.since(block.began),
        };
        self.watch.hear(Told::Block(about, what));
    }

    /// Whether blocks leave while they come.
    pub(super) const fn cuts_through(&self) -> bool {
        matches!(self.settings.work, Work::Relay(Passing::CutThrough))
    }
}
