//! A log's octets on their way past the page cache.
//!
//! Octets that a store writes it either sends on at once, or not for a long time. A page cache keeps it for the time between, at the
//! price of a copy, and of memory that the system gives and takes page by page. Here a write goes from a buffer that is used
//! again and again to the disk, and the buffers written last are what the log's readers find first. A reader that reads on and on
//! finds the next octets read ahead.

mod crew;
mod reading;
mod writing;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};

use self::crew::Crew;
use self::reading::{Load, SPARE_WINDOWS, Trails, window_octets};
pub(super) use self::writing::Written;
use self::writing::{Edge, Write};
use super::aligned::{AlignedBuffers, BLOCK_OCTETS, WriteBuffers};
use super::buffers::Buffers;
use super::recent::Recent;

/// Octets of memory from which on it is ample.
const AMPLE_OCTETS: usize = 32 << 20;

/// A log without a page cache. One thread writes it.
#[derive(Debug)]
pub(super) struct Direct {
    shared: Arc<Shared>,
    write_rooms: Mutex<WriteBuffers>,
    buffers: Buffers,
    /// Whether there is memory for buffers of others, which count whole although perhaps only a part of them was written.
    is_ample: bool,
    readers: Crew,
    writers: Crew,
}

#[derive(Debug)]
struct Shared {
    file: File,
    rooms: AlignedBuffers,
    buffers: Buffers,
    window_octets: usize,
    state: Mutex<State>,
    /// There is something to read ahead.
    read_wanted: Condvar,
    /// There is something to write.
    write_wanted: Condvar,
    /// Something was read.
    read: Condvar,
    /// Something was written.
    written: Condvar,
}

#[derive(Debug)]
struct State {
    recent: Recent,
    /// The places of windows that are to be read.
    wanted: VecDeque<u64>,
    /// Windows that are being read.
    loads: Vec<Load>,
    next_load: u64,
    /// Stretches that are to be written.
    writes: VecDeque<Write>,
    /// The places at which something is to be written or is being written.
    unwritten: Vec<Span>,
    /// The number of threads that wait for writes.
    waiting: usize,
    /// Why a write failed, until somebody asks.
    failure: Option<io::Error>,
    edge: Edge,
    /// Whether a write has succeeded: the file system has direct ones.
    proven: bool,
    trails: Trails,
    closed: bool,
}

/// A range of the log, from one octet to another, which is no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u64,
    end: u64,
}

impl Span {
    fn new(start: u64, octets: usize) -> Self {
        Self {
            start,
            end: start.saturating_add(length(octets)),
        }
    }

    fn meets(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    fn holds(self, offset: u64) -> bool {
        self.start <= offset && offset < self.end
    }
}

fn length(octets: usize) -> u64 {
    u64::try_from(octets).unwrap_or(u64::MAX)
}

/// Octets that an offset is behind the beginning of its block.
fn lead(offset: u64) -> usize {
    usize::try_from(offset % length(BLOCK_OCTETS)).unwrap_or(0)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change; the lock is let go meanwhile.
fn wait<'a>(change: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    change.wait(state).unwrap_or_else(PoisonError::into_inner)
}

impl Direct {
    /// The log at `path`, of which so many octets are kept in memory; `None` where the file system has no direct reads and writes.
    pub(super) fn open(path: &Path, memory_octets: u64, buffers: Buffers) -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let memory = usize::try_from(memory_octets).unwrap_or(usize::MAX);
        let window_octets = window_octets(memory);
        let shared = Shared {
            file,
            rooms: AlignedBuffers::new(window_octets * SPARE_WINDOWS),
            buffers: buffers.clone(),
            window_octets,
            state: Mutex::new(State {
                recent: Recent::new(memory_octets, length(BLOCK_OCTETS)),
                wanted: VecDeque::new(),
                loads: Vec::new(),
                next_load: 0,
                writes: VecDeque::new(),
                unwritten: Vec::new(),
                waiting: 0,
                failure: None,
                edge: Edge::default(),
                proven: false,
                trails: Trails::default(),
                closed: false,
            }),
            read_wanted: Condvar::new(),
            write_wanted: Condvar::new(),
            read: Condvar::new(),
            written: Condvar::new(),
        };
        Some(Self {
            shared: Arc::new(shared),
            write_rooms: Mutex::new(WriteBuffers::new(buffers.clone(), BLOCK_OCTETS)),
            buffers,
            is_ample: memory >= AMPLE_OCTETS,
            readers: Crew::default(),
            writers: Crew::default(),
        })
    }

    /// The number of octets of which large chunks must be multiples to be written as they are.
    pub(super) fn grain(&self) -> Option<usize> {
        self.is_ample.then_some(BLOCK_OCTETS)
    }

    /// The octets of a span are to be changed by another way: nothing of them is on its way any more.
    pub(super) fn change(&self, start: u64, end: u64) -> io::Result<()> {
        self.settle()?;
        let mut state = lock(&self.shared.state);
        state.edge = Edge::default();
        state.forget(Span { start, end });
        Ok(())
    }

    /// The octets of a span were changed by another way.
    pub(super) fn outdate(&self, start: u64, end: u64) {
        lock(&self.shared.state).forget(Span { start, end });
    }

    /// Nobody will read the octets of a span before they are written again.
    pub(super) fn forget(&self, start: u64, end: u64) {
        lock(&self.shared.state).recent.forget(start, end);
    }
}

impl Direct {
    /// Let go of all memory that nobody uses.
    pub(super) fn give_back(&self) {
        lock(&self.shared.state).recent.clear();
        self.shared.rooms.give_back();
        self.buffers.give_back();
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        lock(&self.shared.state).closed = true;
        self.shared.read_wanted.notify_all();
        self.shared.write_wanted.notify_all();
        self.readers.end();
        self.writers.end();
    }
}

impl State {
    /// The octets of a span that are in memory are old.
    fn forget(&mut self, span: Span) {
        self.recent.forget(span.start, span.end);
        for load in &mut self.loads {
            load.void |= load.span.meets(span);
        }
    }

    /// Something in a span is to be written or is being written.
    fn is_under_way(&self, span: Span) -> bool {
        self.unwritten.iter().any(|unwritten| unwritten.meets(span))
    }
}
