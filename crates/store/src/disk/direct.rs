//! A log's octets on their way past the page cache.
//!
//! What a store writes it either sends on at once, or not for a long time. A page cache keeps it for the time between, at the
//! price of a copy, and of memory that the system gives and takes page by page. Here a write goes from a buffer that is used
//! again and again to the disk, and the buffers written last are what the log's readers find first. Whoever reads on and on
//! finds the next octets read ahead.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use rustix::fs::{Mode, OFlags};

use super::recent::Recent;
use super::rooms::{BLOCK_OCTETS, ROOM_OCTETS, Rooms, Source, WriteRooms};

/// Threads that read ahead, and as many that write: a disk is faster when it is asked for more than one thing at a time.
const THREADS: usize = 2;

/// Fewer octets wait for those that follow, or for the next sync, which writes them itself: one write takes as long for few as for none.
const SMALL_OCTETS: usize = 128 << 10;

/// Writes on their way at a time: more would make no disk faster, and would take memory.
const WRITES_BOUND: usize = 8;

/// Windows that are read ahead of whoever reads on and on.
const WINDOWS_AHEAD: u32 = 8;

/// Part of the memory that a window takes: what is read ahead is used before it makes place for other.
const WINDOW_PART: usize = 32;

/// Windows whose room is kept for use again.
const SPARE_WINDOWS: usize = 16;

/// Octets of the smallest window.
const WINDOW_OCTETS_MIN: usize = 64 << 10;

/// Readers whose places are remembered.
const TRAILS: usize = 8;

/// A read that begins at most so many octets behind the last one reads on: other octets lie between.
const STRIDE_OCTETS: u64 = 256 << 10;

/// A log without a page cache. One thread writes it.
#[derive(Debug)]
pub(super) struct Direct {
    shared: Arc<Shared>,
    write_rooms: Mutex<WriteRooms>,
    readers: Crew,
    writers: Crew,
}

/// Threads for one kind of work, begun when there first is some.
#[derive(Debug, Default)]
struct Crew(Mutex<Vec<JoinHandle<()>>>);

#[derive(Debug)]
struct Shared {
    file: File,
    rooms: Rooms,
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
    /// Where windows begin that are to be read.
    wanted: VecDeque<u64>,
    /// Windows that are being read.
    loads: Vec<Load>,
    next_load: u64,
    /// What is to be written.
    writes: VecDeque<Write>,
    /// Where something is to be written or is being written.
    unwritten: Vec<Span>,
    /// Why a write failed, until somebody asks.
    failure: Option<io::Error>,
    edge: Edge,
    /// A write has succeeded: the file system has direct ones.
    proven: bool,
    trails: Trails,
    closed: bool,
}

/// From one octet of the log to another, which is no part of it.
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

/// A window that is being read.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Which: what is void may be read once more before its end.
    number: u64,
    span: Span,
    /// Something is written there meanwhile: what is read may be older.
    void: bool,
}

/// Whole blocks on their way to the disk.
#[derive(Debug)]
struct Write {
    octets: Bytes,
    span: Span,
}

impl Write {
    fn new(start: u64, octets: Bytes) -> Self {
        Self {
            span: Span::new(start, octets.len()),
            octets,
        }
    }
}

/// The blocks that were written last, of which the very last one may be full in part.
#[derive(Debug, Default)]
struct Edge {
    start: u64,
    /// All of them, with zeros behind the octets so far.
    blocks: Bytes,
    octets: usize,
    /// They are not on their way to the disk yet: more will be in them, or a sync asks for them.
    dirty: bool,
}

impl Edge {
    /// The blocks of it.
    fn span(&self) -> Span {
        Span::new(self.start, self.blocks.len())
    }

    /// The `count` octets at `start`, where they are known.
    fn part(&self, start: u64, count: usize) -> Option<Bytes> {
        let skipped = usize::try_from(start.checked_sub(self.start)?).ok()?;
        let end = skipped.checked_add(count)?;
        (end <= self.octets).then(|| self.blocks.slice(skipped..end))
    }

    /// The block at `start` is one of them, and not the last one.
    fn is_cut_at(&self, start: u64) -> bool {
        let last = self.span().end.saturating_sub(length(BLOCK_OCTETS));
        self.start <= start && start < last
    }

    /// What is to be written of it when the next write begins with the block at `start`.
    fn before(&self, start: u64) -> Option<Write> {
        let span = self.span();
        let end = if span.holds(start) { start } else { span.end };
        let count = usize::try_from(end - self.start).ok()?;
        (self.dirty && count > 0).then(|| Write::new(self.start, self.blocks.slice(..count)))
    }
}

/// How a direct write ended.
#[derive(Debug)]
pub(super) enum Written {
    Yes,
    /// The file system does not write past its page cache.
    Unsupported,
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
    pub(super) fn open(path: &Path, memory_octets: u64) -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let memory = usize::try_from(memory_octets).unwrap_or(usize::MAX);
        let window_octets = (memory / WINDOW_PART).clamp(WINDOW_OCTETS_MIN, ROOM_OCTETS);
        let window_octets = 1 << window_octets.ilog2();
        let shared = Shared {
            file,
            rooms: Rooms::new(window_octets * SPARE_WINDOWS),
            window_octets,
            state: Mutex::new(State {
                recent: Recent::new(memory_octets, length(BLOCK_OCTETS)),
                wanted: VecDeque::new(),
                loads: Vec::new(),
                next_load: 0,
                writes: VecDeque::new(),
                unwritten: Vec::new(),
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
            write_rooms: Mutex::new(WriteRooms::new(memory, BLOCK_OCTETS)),
            readers: Crew::default(),
            writers: Crew::default(),
        })
    }

    /// Write slices one after the other from `offset`: whole blocks are on their way when this returns, the last one may wait
    /// for more, and all is on the disk after [`Direct::settle`]. What follows in the last block becomes zeros; `before` reads
    /// what precedes in the first one, where that is not known.
    pub(super) fn write(
        &self,
        offset: u64,
        slices: &[IoSlice<'_>],
        before: &File,
    ) -> io::Result<Written> {
        let mut source = Source::of(slices);
        let mut offset = offset;
        let mut left: usize = slices.iter().map(|slice| slice.len()).sum();
        while left > 0 {
            let lead = lead(offset);
            let start = offset - length(lead);
            let head = self.read_edge(start, lead, before)?;
            let count = lock(&self.write_rooms).offer(lead + left) - lead;
            let padded = lock(&self.write_rooms).put_together(lead + count, |room| {
                room.extend_from_slice(&head);
                source.read(count, room);
            });
            if let Written::Unsupported = self.send(start, lead, lead + count, &padded)? {
                return Ok(Written::Unsupported);
            }
            offset += length(count);
            left -= count;
        }
        Ok(Written::Yes)
    }

    /// The `count` octets at `start`, the beginning of a block.
    fn read_edge(&self, start: u64, count: usize, before: &File) -> io::Result<Bytes> {
        if count == 0 {
            return Ok(Bytes::new());
        }
        if let Some(known) = lock(&self.shared.state).edge.part(start, count) {
            return Ok(known);
        }
        self.wait_for(Span::new(start, BLOCK_OCTETS))?;
        let mut head = vec![0; count];
        before.read_exact_at(&mut head, start)?;
        Ok(head.into())
    }

    /// Sends `count` octets, which begin with a block at `start` and of which the first `known` are there already, on their way to
    /// the disk: many at once, few with what follows or with the next sync. Zeros stand behind them up to the end of the last block.
    fn send(&self, start: u64, known: usize, count: usize, padded: &Bytes) -> io::Result<Written> {
        // What is on its way is not overtaken: of two writes under way, either may be the later one.
        let span = Span::new(start, padded.len());
        let mut state = self.shared.wait_for_writes(|state| {
            state.unwritten.len() < WRITES_BOUND && !state.is_under_way(span)
        });
        if !state.proven {
            drop(state);
            return self.prove(start, known, count, padded);
        }
        let edge = &state.edge;
        let is_covered = edge.span().meets(span) && !edge.span().holds(start);
        if edge.dirty && (is_covered || edge.is_cut_at(start)) {
            state = self.shared.write_edge(state)?;
        }
        // From here on the lock is not let go: what is read before is old, and what is read after waits.
        state.forget(Span::new(start + length(known), padded.len() - known));
        let before = state.edge.before(start);
        let whole = Some(count - count % BLOCK_OCTETS).filter(|whole| *whole >= SMALL_OCTETS);
        let whole = whole.unwrap_or(0);
        state.edge = Edge {
            start: start + length(whole),
            blocks: padded.slice(whole..),
            octets: count - whole,
            dirty: count > whole,
        };
        let read = padded.slice(known..count);
        state.recent.keep(start + length(known), read);
        let blocks = (whole > 0).then(|| Write::new(start, padded.slice(..whole)));
        for write in before.into_iter().chain(blocks) {
            state.unwritten.push(write.span);
            state.writes.push_back(write);
            self.shared.write_wanted.notify_one();
        }
        if !state.writes.is_empty()
            && !self
                .writers
                .is_there(THREADS, "write", &self.shared, Shared::serve_writes)
        {
            while !state.writes.is_empty() {
                state = self.shared.write_next(state);
            }
        }
        Ok(Written::Yes)
    }

    /// The first write tells whether the file system has direct ones.
    fn prove(&self, start: u64, known: usize, count: usize, padded: &Bytes) -> io::Result<Written> {
        match self.shared.file.write_all_at(padded, start) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Ok(Written::Unsupported);
            }
            Err(error) => return Err(error),
        }
        let mut state = lock(&self.shared.state);
        state.forget(Span::new(start + length(known), padded.len() - known));
        state.proven = true;
        state.edge = Edge {
            start,
            blocks: padded.clone(),
            octets: count,
            dirty: false,
        };
        let read = padded.slice(known..count);
        state.recent.keep(start + length(known), read);
        Ok(Written::Yes)
    }

    /// Returns once everything written is on the disk.
    pub(super) fn settle(&self) -> io::Result<()> {
        let mut state = lock(&self.shared.state);
        let written = if state.edge.dirty {
            match self.shared.write_edge(state) {
                Ok(after) => {
                    state = after;
                    Ok(())
                }
                Err(error) => {
                    state = lock(&self.shared.state);
                    Err(error)
                }
            }
        } else {
            Ok(())
        };
        drop(state);
        let mut state = self
            .shared
            .wait_for_writes(|state| state.unwritten.is_empty());
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => written,
        }
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

    /// Nothing of the octets from `offset` on is on its way to the disk when this returns.
    pub(super) fn wait_until_written(&self, offset: u64, octets: usize) -> io::Result<()> {
        self.wait_for(Span::new(offset, octets))
    }

    fn wait_for(&self, span: Span) -> io::Result<()> {
        let state = lock(&self.shared.state);
        if state.edge.dirty && state.edge.span().meets(span) {
            drop(self.shared.write_edge(state)?);
        } else {
            drop(state);
        }
        drop(self.shared.wait_for_writes(|state| {
            !state
                .unwritten
                .iter()
                .any(|unwritten| unwritten.meets(span))
        }));
        Ok(())
    }

    /// Octets from `offset` on, at most `most`, that are in memory, or are brought there because they are a part of a longer
    /// read; `None` where they are better read by themselves.
    pub(super) fn share(&self, offset: u64, most: u64) -> Option<Bytes> {
        let mut state = lock(&self.shared.state);
        let mut is_loaded = false;
        loop {
            if let Some(found) = state.recent.find(offset, most) {
                state
                    .trails
                    .walk(offset, offset + length(found.octets.len()));
                if let Some(on) = found.leads_to {
                    self.read_on(state, on);
                }
                return Some(found.octets);
            }
            if state
                .loads
                .iter()
                .any(|load| load.span.holds(offset) && !load.void)
            {
                state = wait(&self.shared.read, state);
                continue;
            }
            let reads_on = state.trails.walk(offset, offset.saturating_add(most));
            if !reads_on || is_loaded {
                return None;
            }
            is_loaded = true;
            let start = offset - length(lead(offset));
            state.wanted.retain(|wanted| *wanted != start);
            state = self.shared.load(state, start);
        }
    }

    /// Have the next windows read.
    fn read_on(&self, mut state: MutexGuard<'_, State>, mut on: u64) {
        let size = self
            .shared
            .file
            .metadata()
            .map_or(0, |metadata| metadata.len());
        for _ in 0..WINDOWS_AHEAD {
            on -= length(lead(on));
            if on >= size {
                break;
            }
            if let Some(end) = state.recent.end_of(on) {
                on = end;
                continue;
            }
            let is_coming =
                state.loads.iter().any(|load| load.span.holds(on)) || state.wanted.contains(&on);
            if !is_coming {
                state.wanted.push_back(on);
                self.shared.read_wanted.notify_one();
            }
            on += length(self.shared.window_octets);
        }
        if state.wanted.is_empty() {
            return;
        }
        drop(state);
        if !self
            .readers
            .is_there(THREADS, "read", &self.shared, Shared::serve_reads)
        {
            lock(&self.shared.state).wanted.clear();
        }
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

impl Crew {
    /// True when there is at least one thread for the work; there will be `count` where the system gives them.
    fn is_there(&self, count: usize, name: &str, shared: &Arc<Shared>, work: fn(&Shared)) -> bool {
        let mut threads = lock(&self.0);
        while threads.len() < count {
            let shared = Arc::clone(shared);
            let thread = std::thread::Builder::new().name(format!("disk-{name}"));
            match thread.spawn(move || work(&shared)) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        !threads.is_empty()
    }

    fn end(&self) {
        for thread in lock(&self.0).drain(..) {
            // A thread that failed has nothing that anybody waits for.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Waits until as much is written as it should be.
    fn wait_for_writes(&self, is_enough: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        while !is_enough(&state) {
            state = wait(&self.written, state);
        }
        state
    }

    /// Reads what is wanted until the log is closed.
    fn serve_reads(&self) {
        let mut state = lock(&self.state);
        while !state.closed {
            state = match state.wanted.pop_front() {
                Some(start) if state.recent.end_of(start).is_none() => self.load(state, start),
                Some(_) => state,
                None => wait(&self.read_wanted, state),
            };
        }
    }

    /// Writes what is to be written until the log is closed and nothing is left.
    fn serve_writes(&self) {
        let mut state = lock(&self.state);
        loop {
            if !state.writes.is_empty() {
                state = self.write_next(state);
            } else if state.closed {
                return;
            } else {
                state = wait(&self.write_wanted, state);
            }
        }
    }

    /// Writes what is first in line; the lock is let go meanwhile.
    fn write_next<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(write) = state.writes.pop_front() else {
            return state;
        };
        drop(state);
        let written = self.file.write_all_at(&write.octets, write.span.start);
        let mut state = lock(&self.state);
        state.end_write(write.span);
        if let Err(error) = written {
            state.failure.get_or_insert(error);
        }
        self.written.notify_all();
        state
    }

    /// Writes the last blocks as they are; the lock is let go meanwhile.
    fn write_edge<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> io::Result<MutexGuard<'a, State>> {
        while state.is_under_way(state.edge.span()) {
            state = wait(&self.written, state);
        }
        if !state.edge.dirty {
            return Ok(state);
        }
        state.edge.dirty = false;
        let (blocks, span) = (state.edge.blocks.clone(), state.edge.span());
        state.unwritten.push(span);
        drop(state);
        let written = self.file.write_all_at(&blocks, span.start);
        let mut state = lock(&self.state);
        state.end_write(span);
        self.written.notify_all();
        written.map(|()| state)
    }

    /// Reads the window at `start`, the beginning of a block, and keeps it; the lock is let go meanwhile.
    fn load<'a>(&'a self, mut state: MutexGuard<'a, State>, start: u64) -> MutexGuard<'a, State> {
        let span = Span::new(start, self.window_octets);
        let void = (state.edge.dirty && state.edge.span().meets(span)) || state.is_under_way(span);
        let number = state.next_load;
        state.next_load += 1;
        state.loads.push(Load { number, span, void });
        drop(state);
        let octets = self.read_window(start);
        let mut state = lock(&self.state);
        if let Some(at) = state.loads.iter().position(|load| load.number == number) {
            let load = state.loads.swap_remove(at);
            if !load.void
                && let Ok(octets) = octets
            {
                state.recent.keep_read(start, octets);
            }
        }
        self.read.notify_all();
        state
    }

    fn read_window(&self, start: u64) -> io::Result<Bytes> {
        let mut room = self.rooms.take(self.window_octets);
        let octets = room.octets_mut(self.window_octets);
        let mut done = 0;
        // A direct read that ends within a block has met the end of the file.
        while done < octets.len() && done.is_multiple_of(BLOCK_OCTETS) {
            let rest = octets.get_mut(done..).unwrap_or_default();
            match self.file.read_at(rest, start + length(done)) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(room.share().slice(..done))
    }
}

impl State {
    /// What is in memory of a span is old.
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

    fn end_write(&mut self, span: Span) {
        if let Some(at) = self.unwritten.iter().position(|other| *other == span) {
            self.unwritten.swap_remove(at);
        }
    }
}

/// Where readers were last, so that it is seen who reads on.
#[derive(Debug, Default)]
struct Trails {
    ends: [u64; TRAILS],
    next: usize,
}

impl Trails {
    /// Somebody reads from `start` to `end`: true when that follows what was read before.
    fn walk(&mut self, start: u64, end: u64) -> bool {
        let follows =
            |trail: &&mut u64| **trail > 0 && **trail <= start && start - **trail <= STRIDE_OCTETS;
        if let Some(trail) = self.ends.iter_mut().find(follows) {
            *trail = end;
            return true;
        }
        if let Some(trail) = self.ends.get_mut(self.next) {
            *trail = end;
        }
        self.next = (self.next + 1) % TRAILS;
        false
    }
}
