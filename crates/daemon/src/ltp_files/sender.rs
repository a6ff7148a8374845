//! Files to one engine, each as a block.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{Instant, Now};
use dhow_link::datagram::DatagramEvent;
use dhow_link::ltp::{Addressee, Engine, Red};
use dhow_link::stream::{TerminateReason, TransferId};
use dhow_link::{DatagramLink as _, LinkCommand};

use super::leaving::{Failed, LeavingFiles};
pub use super::leaving::{Unreadable, open};
use super::neighbour::{Attempt, Neighbour};
use super::refusals::Refusals;
use super::socket::{NO_WAY_WAIT, Socket, path_to};
use super::why::Counterpart;
pub use super::why::Why;
use super::{LAST_WORDS, LOOK, Way};
use crate::clock::Clock;
use crate::config::file::ClockSetting;
use crate::datagrams::seal::SegmentKey;

/// Files that are open at a time.
const MAX_FILES: usize = 64;

/// Files of one sender: as many as there are numbers for in the space of offsets.
pub const MAX_FILES_SENT: usize = 1 << 23;

/// System calls in which datagrams are read before anything else happens.
const CALLS_PER_TURN: usize = 8;

/// The sender's settings.
#[derive(Debug)]
pub struct Settings {
    /// The address to send from.
    pub from: SocketAddr,
    /// The address of the engine.
    pub to: SocketAddr,
    /// The ID of the engine here.
    pub engine: u64,
    /// The part of each file that is acknowledged.
    pub red: Red,
    /// The way there.
    pub way: Way,
    /// The key of all segments.
    pub key: Option<Arc<SegmentKey>>,
    /// Hard to guess.
    pub seed: u64,
}

/// A file, as far as it was sent.
#[derive(Clone, Debug)]
pub struct About {
    /// Its place among the files.
    pub number: usize,
    /// The number of its session; `None` when none was begun.
    pub session: Option<u64>,
    /// Octets of the file.
    pub octets: u64,
    /// Time since it was begun.
    pub time: Duration,
}

/// The fate of a file.
#[derive(Debug)]
pub enum Fate {
    /// The receiver has it, and durably where it is a receiver of files.
    Acknowledged,
    /// The file left. A part of it is green: nobody says that it arrived.
    Sent,
    /// The file failed.
    Failed(Why),
}

/// News of what is sent.
#[derive(Debug)]
pub enum Told {
    /// The sender sends from this address.
    From(SocketAddr),
    /// The end of a file.
    Ended(About, Fate),
    /// Something is odd.
    Note(String),
    /// Octets sent and octets that the receiver claims, of all files.
    Progress(u64, u64),
}

/// Someone who is told.
pub trait Watch {
    /// True once it is to end.
    fn is_over(&self) -> bool;
    /// Take news.
    fn hear(&mut self, told: Told);
}

/// Send files, of which there are at most [`MAX_FILES_SENT`]; true when none failed and all were sent.
///
/// # Errors
/// When the address cannot be had, or the socket fails.
pub fn send(settings: Settings, files: &[PathBuf], watch: &mut dyn Watch) -> io::Result<bool> {
    assert!(files.len() <= MAX_FILES_SENT, "all files have a number");
    let socket = Socket::bind(settings.from)?;
    watch.hear(Told::From(socket.local()));
    let clock = Clock::start(ClockSetting::None);
    let mut config = settings.way.config();
    config.engine = settings.engine;
    config.red = settings.red;
    config.authentication = settings.key.as_ref().map(SegmentKey::authentication);
    config.termination_timeout = LAST_WORDS;
    let now = clock.now();
    let mut engine = Engine::new(config, settings.seed, now);
    if let Some(path) = path_to(settings.to) {
        engine.handle_path(now, path);
    }
    let sending = Sending {
        pace: settings.way.pace(),
        receiver: Neighbour::new(engine, settings.to, true, now.monotonic),
        looked: now.monotonic,
        settings,
        files,
        socket,
        clock,
        leaving: LeavingFiles::default(),
        open: BTreeMap::new(),
        begun: 0,
        over: (0, 0),
        is_whole: true,
        is_ending: false,
        is_down: false,
        refusals: Refusals::default(),
        watch,
    };
    sending.run()
}

struct Open {
    session: Option<u64>,
    octets: u64,
    began: Instant,
}

struct Sending<'a> {
    settings: Settings,
    files: &'a [PathBuf],
    socket: Socket,
    clock: Clock,
    receiver: Neighbour,
    leaving: LeavingFiles,
    /// Files under way, by their numbers.
    open: BTreeMap<u64, Open>,
    /// Files that were begun.
    begun: usize,
    /// Octets sent and claimed of files that are over.
    over: (u64, u64),
    /// Whether no file failed.
    is_whole: bool,
    is_ending: bool,
    is_down: bool,
    /// Refusals of the system to send.
    refusals: Refusals,
    /// The time between batches.
    pace: Duration,
    /// When progress was told last.
    looked: Instant,
    watch: &'a mut dyn Watch,
}

impl Sending<'_> {
    fn run(mut self) -> io::Result<bool> {
        loop {
            self.begin();
            let now = self.clock.now();
            self.look(now.monotonic);
            if self
                .receiver
                .engine
                .poll_timeout()
                .is_some_and(|at| at <= now.monotonic)
            {
                self.receiver.engine.handle_timeout(now);
            }
            self.read()?;
            let sent = self.send();
            self.take_events();
            if self.is_down {
                return Ok(self.is_whole);
            }
            let wait = self.wait(sent);
            if !wait.is_zero() {
                self.socket.wait(sent == Attempt::NoRoom, None, wait)?;
            }
        }
    }

    /// The time until there is something to do, unless a datagram comes.
    fn wait(&self, sent: Attempt) -> Duration {
        if sent == Attempt::NoWay {
            return NO_WAY_WAIT;
        }
        let now = self.clock.now().monotonic;
        // A batch that follows the last too soon would be small.
        let next = self.receiver.next;
        let engine = self.receiver.engine.poll_timeout();
        let engine = engine.map(|at| at.max(next));
        let more = (sent == Attempt::More).then_some(next);
        let until = engine.into_iter().chain(more).min();
        until.map_or(LOOK, |until| until.since(now).min(LOOK))
    }

    /// Begin files while few are open.
    fn begin(&mut self) {
        while !self.is_ending
            && self.leaving.len() < MAX_FILES
            && let Some(path) = self.files.get(self.begun)
        {
            let number = u64::try_from(self.begun).unwrap_or(u64::MAX);
            self.begun = self.begun.saturating_add(1);
            let now = self.clock.now();
            let (file, octets) = match open(path) {
                Ok(it) => it,
                Err(why) => {
                    let open = Open {
                        session: None,
                        octets: 0,
                        began: now.monotonic,
                    };
                    self.open.insert(number, open);
                    self.end(number, Fate::Failed(why.into()));
                    continue;
                }
            };
            let extent = self.leaving.add_as_it_is(number, file, octets);
            let transfer = TransferId(number);
            let length = octets;
            self.receiver
                .engine
                .handle_command(now, LinkCommand::Transmit { transfer, length });
            let octets = Piece::Extent(extent);
            self.receiver
                .engine
                .handle_command(now, LinkCommand::Supply { transfer, octets });
            let session = self.receiver.engine.progress(transfer).map(|it| it.session);
            let open = Open {
                session,
                octets: length,
                began: now.monotonic,
            };
            self.open.insert(number, open);
        }
    }

    /// Whether it is over, and how far it is.
    fn look(&mut self, now: Instant) {
        if now.since(self.looked) >= LOOK {
            self.looked = now;
            let open = self.open.keys();
            let progress = open.filter_map(|it| self.receiver.engine.progress(TransferId(*it)));
            let (sent, claimed) = progress.fold(self.over, |sum, it| {
                let sent = sum.0.saturating_add(it.sent);
                (sent, sum.1.saturating_add(it.claimed))
            });
            self.watch.hear(Told::Progress(sent, claimed));
        }
        let is_over = self.watch.is_over();
        let is_done = self.open.is_empty() && self.begun == self.files.len();
        if self.is_ending || !(is_over || is_done) {
            return;
        }
        self.is_ending = true;
        let now = self.clock.now();
        let open: Vec<_> = self.open.keys().copied().collect();
        for number in open {
            let transfer = TransferId(number);
            self.receiver
                .engine
                .handle_command(now, LinkCommand::Cancel { transfer });
        }
        self.is_whole &= !is_over || is_done;
        let reason = TerminateReason::Unknown;
        self.receiver
            .engine
            .handle_command(now, LinkCommand::Terminate { reason });
    }

    fn read(&mut self) -> io::Result<()> {
        for _ in 0..CALLS_PER_TURN {
            let mut datagrams: Vec<Bytes> = Vec::new();
            let (to, engine) = (self.settings.to.ip(), self.settings.engine);
            let dropped = self.socket.receive(|message| {
                if message.addresses.peer.ip() != to {
                    return;
                }
                let is_it = |it| matches!(it, Addressee::Sender { engine: id, .. } if id == engine);
                let here = |datagram: &Bytes| Addressee::of(datagram).is_some_and(is_it);
                datagrams.extend(message.owned().filter(here));
            })?;
            if dropped.is_none() {
                break;
            }
            self.receiver
                .engine
                .handle_datagrams(self.clock.now(), &datagrams);
        }
        Ok(())
    }

    /// Send what may leave now.
    fn send(&mut self) -> Attempt {
        let (key, mut failed) = (self.settings.key.as_deref(), Vec::new());
        let way = (&self.socket, &self.clock);
        let sent = (self.receiver).send(way, &mut self.leaving, key, self.pace, &mut failed);
        let now = self.clock.now();
        if let Some(errno) = self.socket.take_refused() {
            self.refused(now, errno);
        }
        for Failed { number, why } in failed {
            self.end(number, Fate::Failed(why.into()));
            let transfer = TransferId(number);
            let cancel = LinkCommand::Cancel { transfer };
            self.receiver.engine.handle_command(now, cancel);
        }
        sent
    }

    /// The system has refused to send.
    fn refused(&mut self, now: Now, errno: i32) {
        let to = self.settings.to;
        if let Some(what) = self.refusals.tell(now.monotonic, to, errno) {
            self.watch.hear(Told::Note(what));
        }
        // The path may take less than before.
        if let Some(path) = path_to(to) {
            self.receiver.engine.handle_path(now, path);
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.receiver.engine.poll_event() {
            match event {
                DatagramEvent::Sent { transfer } if self.settings.red != Red::All => {
                    // Of a file whose end is red the receiver has reported all.
                    let open = self.open.get(&transfer.0);
                    let is_red = |it: &Open| self.settings.red.of(it.octets) == it.octets;
                    let fate = match open.is_some_and(is_red) {
                        true => Fate::Acknowledged,
                        false => Fate::Sent,
                    };
                    self.end(transfer.0, fate);
                }
                DatagramEvent::Transmitted { transfer } => {
                    self.end(transfer.0, Fate::Acknowledged);
                }
                DatagramEvent::Failed {
                    transfer, refused, ..
                } => {
                    let why = match self.is_ending {
                        true => Why::Ended,
                        false => Why::of(Counterpart::Receiver, refused),
                    };
                    self.end(transfer.0, Fate::Failed(why));
                }
                DatagramEvent::Fault { rule, count } => {
                    let what = format!("{}: {rule}, {count} times", self.settings.to);
                    self.watch.hear(Told::Note(what));
                }
                DatagramEvent::Down(_) => self.is_down = true,
                _ => {}
            }
        }
    }

    /// A file is over.
    fn end(&mut self, number: u64, fate: Fate) {
        let Some(open) = self.open.remove(&number) else {
            return;
        };
        self.leaving.remove(number);
        self.is_whole &= !matches!(fate, Fate::Failed(_));
        if !matches!(fate, Fate::Failed(_)) {
            self.over.0 = self.over.0.saturating_add(open.octets);
            self.over.1 = self.over.1.saturating_add(open.octets);
        }
        let about = About {
            number: usize::try_from(number).unwrap_or(usize::MAX),
            session: open.session,
            octets: open.octets,
            time: self.clock.now().monotonic.since(open.began),
        };
        self.watch.hear(Told::Ended(about, fate));
    }
}
