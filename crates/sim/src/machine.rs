//! One simulated machine: a disk that stays, and a node, a store and applications that come and go with it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::{Extents, Piece, StoreCommand, StoreEvent, StoredBundle};
use dhow_bundle::{Instant, Now};
use dhow_link::Gather;
use dhow_node::Node;
use dhow_node::config::LinkId;
use dhow_node::driver::{Event, StreamId, Telling, Ticket};
use dhow_node::recording::{Content, Recorder};
use dhow_scenario::scenario;
use dhow_store::{Loss, OpenError};

use crate::clients::CLIENT;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::network::Blueprint;
use crate::portion::Portion;
use crate::queue::{ConnectionKey, Life, Side};
use crate::sparse::Sparse;
use crate::storage::Storage;

/// The interval at which a store looks for remembered identifiers that have expired, as the daemon's does.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// The content of a store when its machine started.
#[derive(Debug)]
pub struct Found {
    /// The bundles, in the order of their keys, with the places of their octets.
    pub bundles: Vec<(Box<StoredBundle>, Extents)>,
    /// The bundles that the store says it has lost.
    pub loss: Loss,
}

/// One machine.
#[derive(Debug)]
pub struct Machine {
    /// Its name in the scenario.
    pub name: String,
    /// The configuration of its node and store, the links that it dials, and its applications.
    pub blueprint: Blueprint,
    /// Its store, with the disk that outlives crashes.
    pub storage: Storage,
    /// Counts its starts.
    pub life: Life,
    /// Its node, with all else that is gone after a crash; none while the machine is down.
    pub running: Option<Running>,
    /// The error of its wall clock, if it has one.
    pub wall: scenario::Clock,
    /// The time that a flush takes.
    pub flush: Duration,
    /// The time that a read takes.
    pub read: Duration,
    /// The time until which its disk does nothing.
    pub stalled: Instant,
    /// The time until which its disk was seen to be in trouble: stalled, full, or failing.
    pub troubled: Instant,
    /// The reads and flushes that fail.
    pub failing: Failing,
    /// Decides what its disk keeps in a crash, and when it crashes.
    pub entropy: Entropy,
    /// Positions of the links that end here.
    pub roads: Vec<u32>,
    /// The most bundles and octets that were seen in its store, and how often it crashed.
    pub most: Most,
    /// The part of payloads in its nodes' recordings, where they are made.
    pub recorded: Option<Content>,
    /// The recordings of its lives that are over.
    pub recordings: Vec<Vec<u8>>,
}

/// The reads and flushes of a disk that fail.
#[derive(Debug)]
pub struct Failing {
    read_per_billion: u32,
    flush_per_billion: u32,
    until: Option<Instant>,
    entropy: Entropy,
}

impl Failing {
    /// The failures that a scenario has.
    #[must_use]
    pub fn new(faults: &scenario::Faults, entropy: Entropy) -> Self {
        Self {
            read_per_billion: faults.read_fails_per_billion,
            flush_per_billion: faults.flush_fails_per_billion,
            until: faults.until.map(|until| Instant::START + until),
            entropy,
        }
    }

    fn happens(&mut self, per_billion: u32, now: Instant) -> bool {
        let is_over = self.until.is_some_and(|until| now >= until);
        per_billion > 0 && !is_over && self.entropy.happens(per_billion)
    }

    /// Whether a read fails now.
    pub fn read(&mut self, now: Instant) -> bool {
        self.happens(self.read_per_billion, now)
    }

    /// Whether a flush fails now.
    pub fn flush(&mut self, now: Instant) -> bool {
        self.happens(self.flush_per_billion, now)
    }
}

/// Whether a store tries again what the disk refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Nothing was refused.
    None,
    /// By and by.
    Planned,
    /// Now.
    Due,
}

/// The most that samples saw of a machine, and its crashes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Most {
    /// Bundles in its store when it was looked at.
    pub bundles: u64,
    /// Octets of its quota that were taken then.
    pub octets: u64,
    /// Times that it crashed.
    pub crashes: u64,
}

/// The node of a machine that is up, with all that a crash takes.
pub struct Running {
    /// The node.
    pub node: Node,
    /// Its clocks.
    pub clock: Clock,
    /// The commands that the store is given next.
    pub batch: Vec<StoreCommand>,
    /// Octets in `batch`.
    pub batch_octets: u64,
    /// Whether the disk is flushing.
    pub flushing: bool,
    /// Whether the disk was asked for a flush for the last batch.
    pub has_flushed: bool,
    /// Whether the store, to which the disk refused something, will try again by and by, or is to now.
    pub retry: Retry,
    /// Octets that the flush covers.
    pub flushing_octets: u64,
    /// The events that the node is told in this turn.
    pub inbox: VecDeque<Event>,
    /// Whether an application may have something to say.
    pub may_request: bool,
    /// Whether the store has something to do though nothing is asked of it.
    pub is_unsettled: bool,
    /// Reads that the disk has not answered, in order.
    pub reads: VecDeque<(Ticket, Extents)>,
    /// Counts what was decided about dials, for each link: older decisions do not hold.
    pub dials: BTreeMap<LinkId, u32>,
    /// The time since which the node counts octets as taken that its disk does not have.
    pub miscounts: Option<Instant>,
    /// Connections with octets that the node has not taken.
    pub unread: Vec<(ConnectionKey, Side)>,
    /// Ends of links over UDP with datagrams that the node has not taken.
    pub has_datagrams: Vec<(u32, Side)>,
    /// When the store looks for expired identifiers.
    forget_at: Instant,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("flushing", &self.flushing)
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// Opens the store and starts a node; what it found comes back.
    ///
    /// # Errors
    /// The disk does not hold what a store can be opened from.
    pub fn start(&mut self, now: Instant) -> Result<Found, OpenError> {
        self.life.0 += 1;
        let clock = Clock::new(self.wall, now);
        let mut config = self.blueprint.config.clone();
        config.seed ^= u64::from(self.life.0) << 32;
        let left = self.storage.open(&self.blueprint.options)?;
        let program = concat!("dhow ", env!("CARGO_PKG_VERSION"));
        let recorder = |content| Recorder::new(program, &config, Telling::default(), content);
        let recorder = self.recorded.map(recorder);
        let mut node = Node::new(config);
        if let Some(recorder) = recorder {
            node = node.with_recorder(recorder);
        }
        let shown = clock.now(now);
        let mut bundles = Vec::new();
        for (bundle, extents) in left.bundles {
            let bundle = Box::new(bundle);
            bundles.push((bundle.clone(), extents.clone()));
            node.handle(shown, Event::Recovered { bundle, extents });
        }
        node.handle(
            shown,
            Event::Opened {
                reserved_time: left.reserved.0,
                reserved_sequence: left.reserved.1,
                removed: left.removed,
            },
        );
        let mut told = Vec::new();
        self.storage.tell_capacity(&mut told);
        for event in told {
            node.handle(shown, Event::Store(event));
        }
        node.handle(shown, Event::TellsPaths);
        self.running = Some(Running {
            node,
            clock,
            batch: Vec::new(),
            batch_octets: 0,
            flushing: false,
            has_flushed: false,
            retry: Retry::None,
            flushing_octets: 0,
            inbox: VecDeque::new(),
            may_request: true,
            is_unsettled: self.storage.is_unsettled(),
            reads: VecDeque::new(),
            dials: BTreeMap::new(),
            miscounts: None,
            unread: Vec::new(),
            has_datagrams: Vec::new(),
            forget_at: now + FORGET_EVERY,
        });
        Ok(Found {
            bundles,
            loss: left.loss,
        })
    }

    /// Nothing runs here any more; false where nothing did.
    pub fn stop(&mut self) -> bool {
        let Some(mut running) = self.running.take() else {
            return false;
        };
        if let Some(recorder) = running.node.recorder() {
            let mut recording = Vec::new();
            recorder.take(&mut recording);
            self.recordings.push(recording);
        }
        true
    }

    /// Collects the octets that a stream is to write, at most about `limit`.
    fn gather(&mut self, now: Instant, stream: StreamId, limit: usize, gather: &mut Gather) {
        gather.clear();
        let Some(running) = &mut self.running else {
            return;
        };
        let shown = running.clock.now(now);
        loop {
            let before = gather.octets();
            let left = limit.saturating_sub(usize::try_from(before).unwrap_or(usize::MAX));
            if left == 0 {
                break;
            }
            running.node.poll_octets(shown, stream, left, gather);
            let has_more = gather.octets() > before && running.node.may_have_octets(stream);
            // To ask again is to say that all is written.
            if !has_more || running.node.counts_written(stream) {
                break;
            }
        }
    }

    /// The octets that a neighbour's stream is to write, at most about `limit`; `None` when stored ones of them are not there.
    pub fn poll_freight(
        &mut self,
        now: Instant,
        stream: StreamId,
        limit: usize,
        gather: &mut Gather,
    ) -> Option<Portion> {
        if self.storage.sparse_store().is_none() {
            let octets = self.poll_octets(now, stream, limit, gather);
            return octets.map(Portion::Octets);
        }
        self.gather(now, stream, limit, gather);
        let sparse_store = self.storage.sparse_store()?;
        let mut sparse = Sparse::default();
        for piece in gather.pieces() {
            match piece {
                Piece::Octets(octets) => sparse.push(octets),
                Piece::Extent(extent) => sparse.append(sparse_store.read(&[*extent])?),
            }
        }
        Some(Portion::Sparse(sparse))
    }

    /// The octets that a stream is to write, at most about `limit`; empty when there are none. `None` when those that are
    /// stored are not there.
    pub fn poll_octets(
        &mut self,
        now: Instant,
        stream: StreamId,
        limit: usize,
        gather: &mut Gather,
    ) -> Option<Bytes> {
        self.gather(now, stream, limit, gather);
        let has_extents = || {
            gather
                .pieces()
                .iter()
                .any(|it| matches!(it, Piece::Extent(_)))
        };
        if stream.0 & CLIENT == 0 && has_extents() && self.failing.read(now) {
            return None;
        }
        match gather.pieces() {
            [] => Some(Bytes::new()),
            [Piece::Octets(octets)] => Some(octets.clone()),
            [Piece::Extent(extent)] => self.storage.read(&[*extent]),
            pieces => {
                let capacity = usize::try_from(gather.octets()).unwrap_or(0);
                let mut out = BytesMut::with_capacity(capacity);
                for piece in pieces {
                    match piece {
                        Piece::Octets(octets) => out.extend_from_slice(octets),
                        Piece::Extent(extent) => {
                            out.extend_from_slice(&self.storage.read(&[*extent])?);
                        }
                    }
                }
                Some(out.freeze())
            }
        }
    }
}

impl Running {
    /// The time that the node's clocks show.
    #[must_use]
    pub fn now(&self, truth: Instant) -> Now {
        self.clock.now(truth)
    }

    /// Gives the store what has collected; what need not wait for a flush comes back.
    pub fn begin_batch(&mut self, storage: &mut Storage, truth: Instant) -> Vec<StoreEvent> {
        let mut events = Vec::new();
        if truth >= self.forget_at {
            storage.forget_expired(self.clock.now(truth).dtn);
            self.forget_at = truth + FORGET_EVERY;
        }
        self.flushing_octets = std::mem::take(&mut self.batch_octets);
        storage.handle(self.batch.drain(..));
        storage.written(&mut events);
        events
    }
}
