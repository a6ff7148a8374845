//! Files that engines send: each block is one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::{Instant, Now};
use dhow_link::datagram::DatagramEvent;
use dhow_link::ltp::{Addressee, Config};
use dhow_link::stream::{RefuseReason, TransferId};
use dhow_link::{DatagramLink as _, LinkCommand};

mod meeting;

use super::arriving::{ArrivingFile, UnnamedFile};
use super::finishing::{Done, Finisher, Job};
use super::neighbour::Attempt;
use super::peer::{Arrival, Incoming, Peer, PeerId};
use super::refusals::Refusals;
use super::socket::{NO_WAY_WAIT, Socket};
use super::unheard::Unheard;
use super::{LAST_WORDS, LOOK, Way};
use crate::clock::Clock;
use crate::config::file::ClockSetting;
use crate::datagrams::calls::{Addresses, Message};
use crate::datagrams::seal::SegmentKey;

/// Files that are open at a time; the blocks of others are refused, unless their host has a claim to a share (`meeting`).
const MAX_FILES: usize = 512;

/// System calls in which datagrams are read before anything else happens.
const CALLS_PER_TURN: usize = 8;

/// Octets after which a file that still comes is synced, so that little is left to be synced at its end.
const UNSYNCED_OCTETS: u64 = 32 << 20;

/// Times of waiting for an answer that a receiver stays to hear that its last reports came.
const LINGER: u32 = 3;

/// The receiver's settings.
#[derive(Debug)]
pub struct Settings {
    /// The address to hear at.
    pub listen: SocketAddr,
    /// The address to answer to, unless it is that from which the datagrams of an engine come.
    pub reply: Option<SocketAddr>,
    /// The engines that may send; all, when it is empty.
    pub from: Vec<u64>,
    /// The way from the senders.
    pub way: Way,
    /// The directory for files.
    pub directory: PathBuf,
    /// Octets of the largest file that is taken.
    pub largest: u64,
    /// Sessions of an engine that are open at a time.
    pub sessions: usize,
    /// Files after which it is over.
    pub count: Option<u64>,
    /// Time without octets of a file after which it is over.
    pub timeout: Option<Duration>,
    /// The key of all segments.
    pub key: Option<Arc<SegmentKey>>,
    /// Hard to guess.
    pub seed: u64,
}

/// A file, as far as it came.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The engine that sent the file.
    pub engine: u64,
    /// The address that it is answered at.
    pub from: SocketAddr,
    /// The number of the session.
    pub session: u64,
    /// Octets that came.
    pub octets: u64,
    /// Time since the first octets.
    pub time: Duration,
}

/// The reason for which a file did not come whole.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The sender cancelled the session, or the session broke a rule.
    #[error("the session was cancelled ({0})")]
    Cancelled(&'static str),
    /// Nothing came in time.
    #[error("nothing more came in time")]
    Silence,
    /// The disk does not take the file.
    #[error("it cannot be written: {0}")]
    Disk(#[from] io::Error),
    /// Too many files come at a time.
    #[error("{MAX_FILES} files come at a time already")]
    TooMany,
    /// Its host had more places than others, of which one had none.
    #[error("it made room for another host: engines and files of all hosts have places in common")]
    Crowded,
    /// The receiver ended.
    #[error("the receiver ended")]
    Ended,
}

/// News of a reception.
#[derive(Debug)]
pub enum Told {
    /// The receiver hears at this address.
    Listening(SocketAddr),
    /// A file is whole, durable, and has this name.
    Received(About, PathBuf),
    /// A file did not come whole: nothing of it is kept.
    Lost(About, Lost),
    /// Something is odd.
    Note(String),
    /// So many octets came in all, of so many that are known to come, and so many files are under way.
    Progress(u64, u64, usize),
}

/// Someone who is told.
pub trait Watch {
    /// True once it is to end.
    fn is_over(&self) -> bool;
    /// Take news.
    fn hear(&mut self, told: Told);
}

/// The end of a reception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The number of files asked for has come.
    Count,
    /// Nothing came for too long.
    Silence,
    /// The receiver was told to end.
    Stopped,
}

/// Whether files can be written into a directory: nothing of the attempt stays there.
///
/// # Errors
/// They cannot.
pub fn probe(directory: &Path) -> io::Result<()> {
    UnnamedFile::create(directory, "probe").map(drop)
}

/// Receive until all files came, nothing comes any more, or it is to end.
///
/// # Errors
/// When the address cannot be had, the socket fails, or the thread that makes files durable has ended.
pub fn receive(settings: Settings, watch: &mut dyn Watch) -> io::Result<End> {
    let socket = Socket::bind(settings.listen)?;
    watch.hear(Told::Listening(socket.local()));
    let finisher = Finisher::start(&settings.directory)?;
    let clock = Clock::start(ClockSetting::None);
    let mut config = settings.way.config();
    config.transfer_mru = config.transfer_mru.min(settings.largest);
    config.sessions = settings.sessions;
    config.authentication = settings.key.as_ref().map(SegmentKey::authentication);
    let reception = Reception {
        last: clock.now().monotonic,
        looked: clock.now().monotonic,
        settings,
        config,
        socket,
        clock,
        finisher,
        peers: BTreeMap::new(),
        open: 0,
        received: 0,
        octets: 0,
        gathered: Vec::new(),
        ending: None,
        unheard: Unheard::default(),
        refusals: Refusals::default(),
        noted: None,
        watch,
    };
    reception.run()
}

struct Reception<'a> {
    settings: Settings,
    config: Config,
    socket: Socket,
    clock: Clock,
    finisher: Finisher<Incoming>,
    peers: BTreeMap<PeerId, Peer>,
    /// Files under way.
    open: usize,
    /// Files that came.
    received: u64,
    /// Octets that came.
    octets: u64,
    /// Files with octets that are not written.
    gathered: Vec<Incoming>,
    /// When octets of a file came last.
    last: Instant,
    /// When progress was told last.
    looked: Instant,
    /// The reason for which the receiver ends, and the latest time.
    ending: Option<(End, Instant)>,
    /// Datagrams of strangers that were not authentic.
    unheard: Unheard,
    /// Refusals of the system to send.
    refusals: Refusals,
    /// When something was last said that strangers can bring about.
    noted: Option<Instant>,
    watch: &'a mut dyn Watch,
}

impl Reception<'_> {
    fn run(mut self) -> io::Result<End> {
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
            let ids: Vec<_> = self.peers.keys().copied().collect();
            for id in ids {
                let Some(peer) = self.peers.get_mut(&id) else {
                    continue;
                };
                if peer
                    .neighbour
                    .engine
                    .poll_timeout()
                    .is_some_and(|at| at <= now.monotonic)
                {
                    peer.neighbour.engine.handle_timeout(now);
                    self.take_events(id, now.monotonic);
                }
                let key = self.settings.key.as_deref();
                let Some(peer) = self.peers.get_mut(&id) else {
                    continue;
                };
                match peer.answer(&self.socket, &self.clock, key) {
                    Attempt::Idle | Attempt::More => {}
                    Attempt::NoRoom => for_room = true,
                    Attempt::NoWay => wait = wait.min(NO_WAY_WAIT),
                }
                let refused = self.socket.take_refused();
                let told = refused
                    .and_then(|errno| self.refusals.tell(now.monotonic, peer.neighbour.to, errno));
                if let Some(what) = told {
                    self.watch.hear(Told::Note(what));
                }
                if let Some(at) = peer.neighbour.engine.poll_timeout() {
                    wait = wait.min(at.since(now.monotonic));
                }
                self.take_events(id, now.monotonic);
            }
            if !wait.is_zero() {
                let bell = Some(self.finisher.bell());
                self.socket.wait(for_room, bell, wait)?;
            }
        }
    }

    /// The end of the receiver, once it is over.
    fn look(&mut self, now: Now) -> Option<End> {
        let now = now.monotonic;
        if now.since(self.looked) >= LOOK {
            self.looked = now;
            self.tell_progress();
            for what in self.unheard.tell(now) {
                self.watch.hear(Told::Note(what));
            }
        }
        match self.ending {
            None => {
                let wait = self.config.light_time.saturating_mul(2) + self.config.margin;
                let linger = wait.saturating_mul(LINGER);
                let is_silent = |timeout| now.since(self.last) >= timeout;
                if self.watch.is_over() {
                    self.end(End::Stopped, now, LAST_WORDS);
                } else if self.settings.count.is_some_and(|it| self.received >= it) {
                    self.end(End::Count, now, linger);
                } else if self.settings.timeout.is_some_and(is_silent)
                    && self.finisher.under_way() == 0
                {
                    self.end(End::Silence, now, LAST_WORDS);
                }
                None
            }
            Some((end, at)) => {
                let is_idle = self.peers.values().all(Peer::is_idle);
                let is_stopped = end == End::Count && self.watch.is_over();
                (is_idle || now >= at || is_stopped).then_some(end)
            }
        }
    }

    fn end(&mut self, end: End, now: Instant, within: Duration) {
        self.ending = Some((end, now + within));
        let coming: Vec<_> = self
            .peers
            .iter()
            .flat_map(|(peer, it)| {
                let coming = it.files.iter().filter(|(_, file)| file.file.is_some());
                coming.map(|(transfer, _)| Incoming {
                    peer: *peer,
                    transfer: *transfer,
                })
            })
            .collect();
        for of in coming {
            self.lose(of, Lost::Ended);
            self.refuse(of, RefuseReason::Unknown);
        }
    }

    fn tell_progress(&mut self) {
        let files = self.peers.values().flat_map(|peer| peer.files.values());
        let known = files.map(|it| it.length.unwrap_or(it.octets).saturating_sub(it.octets));
        let known = known.fold(self.octets, u64::saturating_add);
        let told = Told::Progress(self.octets, known, self.open);
        self.watch.hear(told);
    }

    /// Read the datagrams that are there; whether there may be more.
    fn read(&mut self) -> io::Result<bool> {
        for _ in 0..CALLS_PER_TURN {
            let mut runs: Vec<(PeerId, Addresses, Vec<Bytes>)> = Vec::new();
            let take = |message: Message<'_>| sort(&message, &mut runs);
            let Some(dropped) = self.socket.receive(take)? else {
                return Ok(false);
            };
            if dropped > 0 {
                let what = format!(
                    "{dropped} datagrams came faster than they were read, and are asked for again"
                );
                self.watch.hear(Told::Note(what));
            }
            let now = self.clock.now();
            for (id, between, datagrams) in runs {
                self.handle(id, between, &datagrams, now);
            }
        }
        Ok(true)
    }

    fn take_events(&mut self, id: PeerId, now: Instant) {
        // Blocks that were given up here: the engine may have told of more of them before.
        let mut given_up = BTreeSet::new();
        while let Some(peer) = self.peers.get_mut(&id)
            && let Some(event) = peer.neighbour.engine.poll_event()
        {
            match event {
                DatagramEvent::Piece { transfer, .. } if given_up.contains(&transfer) => {}
                DatagramEvent::Piece {
                    transfer,
                    offset,
                    octets,
                    length,
                } => {
                    let of = Incoming { peer: id, transfer };
                    self.take(of, offset, octets, length, now);
                    let peer = self.peers.get(&id);
                    if peer.is_none_or(|peer| !peer.files.contains_key(&transfer)) {
                        given_up.insert(transfer);
                    }
                }
                DatagramEvent::Complete { transfer, .. } => {
                    self.complete(Incoming { peer: id, transfer });
                }
                DatagramEvent::Abandoned { transfer, refused } => {
                    let why = match refused {
                        None => Lost::Silence,
                        Some(RefuseReason::NoResources) => Lost::Cancelled("SYS_CNCLD"),
                        Some(RefuseReason::Retransmit) => Lost::Cancelled("RLEXC or RXMTCYCEXC"),
                        Some(_) => Lost::Cancelled("USR_CNCLD"),
                    };
                    self.lose(Incoming { peer: id, transfer }, why);
                }
                DatagramEvent::Fault { rule, count } => {
                    let engine = id.engine;
                    let what = format!("engine {engine} at {}: {rule}, {count} times", id.host);
                    self.watch.hear(Told::Note(what));
                }
                _ => {}
            }
        }
    }

    fn take(
        &mut self,
        of: Incoming,
        offset: u64,
        octets: Bytes,
        length: Option<u64>,
        now: Instant,
    ) {
        let Some(peer) = self.peers.get_mut(&of.peer) else {
            return;
        };
        let count = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        if !peer.files.contains_key(&of.transfer)
            && let Err(why) = self.open(of, now)
        {
            return self.fail(of, why);
        }
        let Some(peer) = self.peers.get_mut(&of.peer) else {
            return;
        };
        let Some(arrival) = peer.files.get_mut(&of.transfer) else {
            return;
        };
        let Some(file) = &mut arrival.file else {
            return;
        };
        arrival.octets = arrival.octets.saturating_add(count);
        arrival.length = length;
        self.octets = self.octets.saturating_add(count);
        self.last = now;
        if file.is_written() {
            self.gathered.push(of);
        }
        if let Err(error) = file.take(offset, octets) {
            return self.fail(of, error.into());
        }
        if file.unsynced >= UNSYNCED_OCTETS && !file.is_syncing {
            (file.unsynced, file.is_syncing) = (0, true);
            let job = Job::Sync(of, Arc::clone(file.file()));
            self.finisher.begin(job);
        }
    }

    /// Write what came in this turn.
    fn write(&mut self) {
        for of in std::mem::take(&mut self.gathered) {
            let written = self.coming(of).map(ArrivingFile::write);
            if let Some(Err(error)) = written {
                self.fail(of, error.into());
            }
        }
    }

    fn open(&mut self, of: Incoming, now: Instant) -> Result<(), Lost> {
        let Some(peer) = self.peers.get_mut(&of.peer) else {
            return Ok(());
        };
        let session = peer
            .neighbour
            .engine
            .incoming_session(of.transfer)
            .unwrap_or(0);
        let may_open = self.ending.is_none()
            && (self.open < MAX_FILES || self.make_room_for_file(of.peer.host));
        let Some(peer) = self.peers.get_mut(&of.peer) else {
            return Ok(());
        };
        let file = match may_open {
            true => Some(UnnamedFile::create(
                &self.settings.directory,
                &name(of.peer.engine, session),
            )),
            false => None,
        };
        let (file, outcome) = match file {
            Some(Ok(file)) => (Some(ArrivingFile::new(file)), Ok(())),
            Some(Err(error)) => (None, Err(error.into())),
            None if self.ending.is_some() => (None, Err(Lost::Ended)),
            None => (None, Err(Lost::TooMany)),
        };
        self.open = self.open.saturating_add(1);
        let arrival = Arrival {
            session,
            file,
            began: now,
            octets: 0,
            length: None,
        };
        peer.files.insert(of.transfer, arrival);
        outcome
    }

    /// All of a file is there.
    fn complete(&mut self, of: Incoming) {
        let Some(peer) = self.peers.get_mut(&of.peer) else {
            return;
        };
        let Some(arrival) = peer.files.get_mut(&of.transfer) else {
            return;
        };
        let name = name(of.peer.engine, arrival.session);
        let Some(mut file) = arrival.file.take() else {
            return;
        };
        match file.write() {
            Ok(()) => self
                .finisher
                .begin(Job::Finish(of, file.into_unnamed(), name)),
            Err(error) => self.fail(of, error.into()),
        }
    }

    /// A file cannot be taken.
    fn fail(&mut self, of: Incoming, why: Lost) {
        let reason = match why {
            Lost::Ended => RefuseReason::Unknown,
            _ => RefuseReason::NoResources,
        };
        self.lose(of, why);
        self.refuse(of, reason);
    }

    fn refuse(&mut self, of: Incoming, reason: RefuseReason) {
        let transfer = of.transfer;
        self.command(of, LinkCommand::Refuse { transfer, reason });
    }

    fn command(&mut self, of: Incoming, command: LinkCommand) {
        let now = self.clock.now();
        if let Some(peer) = self.peers.get_mut(&of.peer) {
            peer.neighbour.engine.handle_command(now, command);
        }
    }

    /// A file is given up.
    fn lose(&mut self, of: Incoming, why: Lost) {
        if let Some(about) = self.part(of) {
            self.watch.hear(Told::Lost(about, why));
        }
    }

    /// A file is over.
    fn part(&mut self, of: Incoming) -> Option<About> {
        let now = self.clock.now().monotonic;
        let peer = self.peers.get_mut(&of.peer)?;
        let arrival = peer.files.remove(&of.transfer)?;
        self.open = self.open.saturating_sub(1);
        Some(About {
            engine: of.peer.engine,
            from: peer.neighbour.to,
            session: arrival.session,
            octets: arrival.octets,
            time: now.since(arrival.began),
        })
    }

    /// Hear of files that were synced.
    fn finish(&mut self) -> io::Result<()> {
        if self.finisher.under_way() == 0 {
            return Ok(());
        }
        self.finisher.hear();
        while let Some(done) = self.finisher.poll()? {
            match done {
                Done::Synced(of, synced) => {
                    let file = self.coming(of);
                    if let Some(file) = file {
                        file.is_syncing = false;
                    }
                    if let Err(error) = synced {
                        self.fail(of, error.into());
                    }
                }
                Done::Finished(of, Ok(path)) => self.acknowledge(of, path),
                Done::Finished(of, Err(error)) => self.fail(of, error.into()),
            }
        }
        Ok(())
    }

    fn coming(&mut self, of: Incoming) -> Option<&mut ArrivingFile> {
        let peer = self.peers.get_mut(&of.peer)?;
        peer.files.get_mut(&of.transfer)?.file.as_mut()
    }

    /// A file is durable and has its name: its sender may know.
    fn acknowledge(&mut self, of: Incoming, path: PathBuf) {
        let Some(about) = self.part(of) else {
            // It was given up while it was named, and nothing is kept of it; no more can be done where that fails.
            let _ = std::fs::remove_file(path);
            return;
        };
        let (transfer, octets): (TransferId, u64) = (of.transfer, about.octets);
        self.command(of, LinkCommand::Acknowledge { transfer, octets });
        self.received = self.received.saturating_add(1);
        self.watch.hear(Told::Received(about, path));
    }
}

/// The name of a file: a block has none.
fn name(engine: u64, session: u64) -> String {
    format!("ltp-{engine}-{session}")
}

/// Sort the datagrams of a message by the engines that they come from, those that follow each other together.
fn sort(message: &Message<'_>, runs: &mut Vec<(PeerId, Addresses, Vec<Bytes>)>) {
    let between = message.addresses;
    for datagram in message.owned() {
        let Some(Addressee::ReceiverFrom(engine)) = Addressee::of(&datagram) else {
            continue;
        };
        let host = between.peer.ip();
        let id = PeerId { host, engine };
        match runs.last_mut() {
            Some((last, before, run)) if *last == id && *before == between => run.push(datagram),
            _ => runs.push((id, between, vec![datagram])),
        }
    }
}
