//! Writes: whole blocks go to the disk behind the caller's back, the last blocks wait for more.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::sync::MutexGuard;

use bytes::Bytes;

use super::crew::THREADS;
use super::{Direct, Shared, Span, State, lead, length, lock, wait};
use crate::disk::Chunk;
use crate::disk::aligned::{BLOCK_OCTETS, Source};
use crate::disk::file::write_slices;
use crate::disk::recent::Recent;

/// Fewer octets wait for those that follow, or for the next sync, which writes them itself: one write takes as long for few as for none.
const SMALL_OCTETS: usize = 128 << 10;

/// Writes on their way at a time: more would make no disk faster, and would take memory.
const WRITES_BOUND: usize = 8;

/// A write waits for more as long as it has fewer octets and nobody waits for it.
const WORTHWHILE_OCTETS: usize = 1 << 20;

/// Octets of a write at most: what one costs, in a virtual machine above all, hardly depends on how many it has.
const WRITE_OCTETS: usize = 4 << 20;

/// Parts of a write, each of which may be all that is used of a buffer.
const PARTS_BOUND: usize = 32;

/// The owner of the buffer in which octets lie that are written.
#[derive(Clone, Copy, Debug)]
enum Lies {
    /// The log's own.
    Here,
    /// The buffer of others; where it begins, if that is known.
    Elsewhere(Option<usize>),
}

impl Lies {
    /// Keeps octets in memory that were written at an offset.
    fn keep(self, recent: &mut Recent, offset: u64, octets: Bytes) {
        match self {
            Self::Here => recent.keep(offset, octets),
            Self::Elsewhere(base) => recent.keep_lent(offset, octets, base),
        }
    }
}

/// Octets for the log, from the beginning of a block on.
#[derive(Debug)]
struct Piece {
    start: u64,
    /// So many are there already.
    known: usize,
    /// Octets in all.
    count: usize,
    /// The octets, and zeros up to the end of the last block.
    padded: Bytes,
    lies: Lies,
}

impl Piece {
    /// The octets known of its place are old; it is kept in memory instead.
    fn take_place(&self, state: &mut State) {
        let first = self.start + length(self.known);
        state.forget(Span::new(first, self.padded.len() - self.known));
        let octets = self.padded.slice(self.known..self.count);
        self.lies.keep(&mut state.recent, first, octets);
    }
}

/// Whole blocks on their way to the disk.
#[derive(Debug)]
pub(super) struct Write {
    /// The octets, one part behind the other.
    parts: Vec<Bytes>,
    span: Span,
}

impl Write {
    fn new(start: u64, octets: Bytes) -> Self {
        Self {
            span: Span::new(start, octets.len()),
            parts: vec![octets],
        }
    }

    /// Whether what follows is better written with this.
    fn takes(&self, next: &Self) -> bool {
        self.span.end == next.span.start
            && next.span.end - self.span.start <= length(WRITE_OCTETS)
            && self.parts.len() < PARTS_BOUND
    }

    fn is_worthwhile(&self) -> bool {
        self.span.end - self.span.start >= length(WORTHWHILE_OCTETS)
    }

    fn write(&self, file: &File) -> io::Result<()> {
        if let [only] = self.parts.as_slice() {
            return file.write_all_at(only, self.span.start);
        }
        let mut slices: Vec<IoSlice<'_>> =
            self.parts.iter().map(|part| IoSlice::new(part)).collect();
        write_slices(file, self.span.start, &mut slices)
    }
}

/// The blocks that were written last, of which the very last one may be full in part.
#[derive(Debug, Default)]
pub(super) struct Edge {
    start: u64,
    /// All of them, with zeros behind the octets so far.
    blocks: Bytes,
    octets: usize,
    /// Whether the octets are not on their way to the disk yet: more will be in them, or a sync asks for them.
    pub(super) dirty: bool,
}

impl Edge {
    /// The blocks of the edge.
    pub(super) fn span(&self) -> Span {
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

    /// All of it, to be written as it is now.
    fn take(&mut self) -> Option<Write> {
        let is_wanted = std::mem::take(&mut self.dirty);
        is_wanted.then(|| Write::new(self.start, self.blocks.clone()))
    }

    /// The octets of it that are to be written when the next write begins with the block at `start`.
    fn before(&self, start: u64) -> Option<Write> {
        let span = self.span();
        let end = if span.holds(start) { start } else { span.end };
        let count = usize::try_from(end - self.start).ok()?;
        (self.dirty && count > 0).then(|| Write::new(self.start, self.blocks.slice(..count)))
    }
}

/// The end of a direct write.
#[derive(Debug)]
pub(in super::super) enum Written {
    Yes,
    /// The file system does not write past its page cache.
    Unsupported,
}

impl Direct {
    /// Write chunks one after the other from `offset`: they are on their way as soon as they are worth a write, and all is on the
    /// disk after [`Direct::settle`]. The rest of the last block becomes zeros; `before` reads
    /// what precedes in the first one, where that is not known.
    pub(in super::super) fn write(
        &self,
        offset: u64,
        chunks: &[Chunk<'_>],
        before: &File,
    ) -> io::Result<Written> {
        let mut source = Source::of(chunks);
        let mut offset = offset;
        loop {
            let blocks = self.grain().and_then(|_| source.take_blocks(offset));
            if let Some(blocks) = blocks {
                let lies = Lies::Elsewhere(self.buffers.base_of(&blocks));
                let count = blocks.len();
                let piece = Piece {
                    start: offset,
                    known: 0,
                    count,
                    padded: blocks,
                    lies,
                };
                if let Written::Unsupported = self.send(piece)? {
                    return Ok(Written::Unsupported);
                }
                offset += length(count);
                continue;
            }
            let left = source.before_blocks(offset);
            if left == 0 {
                break;
            }
            let lead = lead(offset);
            let start = offset - length(lead);
            let head = self.read_edge(start, lead, before)?;
            let count = lock(&self.write_rooms).offer(lead + left) - lead;
            let padded = lock(&self.write_rooms).put_together(lead + count, |room| {
                room.extend_from_slice(&head);
                source.read(count, room);
            });
            let piece = Piece {
                start,
                known: lead,
                count: lead + count,
                padded,
                lies: Lies::Here,
            };
            if let Written::Unsupported = self.send(piece)? {
                return Ok(Written::Unsupported);
            }
            offset += length(count);
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

    /// Sends octets on their way to the disk: many at once, few with what follows or with the next sync.
    fn send(&self, piece: Piece) -> io::Result<Written> {
        // A write that is on its way is not overtaken: of two writes under way, either may be the later one.
        let span = Span::new(piece.start, piece.padded.len());
        let mut state = self.shared.wait_for_writes(|state| {
            state.unwritten.len() < WRITES_BOUND && !state.is_under_way(span)
        });
        if !state.proven {
            drop(state);
            return self.prove(piece);
        }
        let edge = &state.edge;
        let is_covered = edge.span().meets(span) && !edge.span().holds(piece.start);
        if edge.dirty && (is_covered || edge.is_cut_at(piece.start)) {
            state = self.shared.write_edge(state)?;
        }
        // From here on the lock is not let go: reads before find old octets, and reads after wait.
        piece.take_place(&mut state);
        let Piece {
            start,
            count,
            padded,
            ..
        } = piece;
        let before = state.edge.before(start);
        let whole = Some(count - count % BLOCK_OCTETS).filter(|whole| *whole >= SMALL_OCTETS);
        let whole = whole.unwrap_or(0);
        state.edge = Edge {
            start: start + length(whole),
            blocks: padded.slice(whole..),
            octets: count - whole,
            dirty: count > whole,
        };
        let blocks = (whole > 0).then(|| Write::new(start, padded.slice(..whole)));
        for write in before.into_iter().chain(blocks) {
            state.ask_for(write);
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
        if state.is_to_be_written() {
            self.shared.write_wanted.notify_one();
        }
        Ok(Written::Yes)
    }

    /// The first write tells whether the file system has direct ones.
    fn prove(&self, piece: Piece) -> io::Result<Written> {
        match self.shared.file.write_all_at(&piece.padded, piece.start) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Ok(Written::Unsupported);
            }
            Err(error) => return Err(error),
        }
        let mut state = lock(&self.shared.state);
        piece.take_place(&mut state);
        state.proven = true;
        state.edge = Edge {
            start: piece.start,
            blocks: piece.padded,
            octets: piece.count,
            dirty: false,
        };
        Ok(Written::Yes)
    }

    /// Returns once everything written is on the disk.
    pub(in super::super) fn settle(&self) -> io::Result<()> {
        let mut state = lock(&self.shared.state);
        while state.edge.dirty && state.is_under_way(state.edge.span()) {
            state = self.shared.wait_for_write(state);
        }
        let edge = state.edge.take();
        edge.into_iter().for_each(|edge| state.ask_for(edge));
        if state.writes.len() > 1 {
            self.shared.write_wanted.notify_all();
        }
        // A thread that waits helps.
        while !state.writes.is_empty() {
            state = self.shared.write_next(state);
        }
        drop(state);
        let mut state = self
            .shared
            .wait_for_writes(|state| state.unwritten.is_empty());
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Nothing of the octets from `offset` on is on its way to the disk when this returns.
    pub(in super::super) fn wait_until_written(
        &self,
        offset: u64,
        octets: usize,
    ) -> io::Result<()> {
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
}

impl Shared {
    /// Waits until as much is written as it should be.
    fn wait_for_writes(&self, is_enough: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        while !is_enough(&state) {
            state = self.wait_for_write(state);
        }
        state
    }

    /// Waits until something was written.
    fn wait_for_write<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        self.write_wanted.notify_all();
        let mut state = wait(&self.written, state);
        state.waiting -= 1;
        state
    }

    /// Writes waiting octets until the log is closed and none are left.
    fn serve_writes(&self) {
        let mut state = lock(&self.state);
        loop {
            if state.is_to_be_written() {
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
        let written = write.write(&self.file);
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
            state = self.wait_for_write(state);
        }
        let Some(edge) = state.edge.take() else {
            return Ok(state);
        };
        state.unwritten.push(edge.span);
        drop(state);
        let written = edge.write(&self.file);
        let mut state = lock(&self.state);
        state.end_write(edge.span);
        self.written.notify_all();
        written.map(|()| state)
    }
}

impl State {
    /// The first stretch in line is to be written: to the only one more may come.
    fn is_to_be_written(&self) -> bool {
        let is_wanted = self.waiting > 0 || self.closed || self.writes.len() > 1;
        self.writes
            .front()
            .is_some_and(|first| is_wanted || first.is_worthwhile())
    }

    fn ask_for(&mut self, write: Write) {
        if let Some(last) = self.writes.back_mut().filter(|last| last.takes(&write)) {
            let before = last.span;
            last.span.end = write.span.end;
            last.parts.extend(write.parts);
            if let Some(span) = self.unwritten.iter_mut().find(|span| **span == before) {
                span.end = write.span.end;
            }
        } else {
            self.unwritten.push(write.span);
            self.writes.push_back(write);
        }
    }

    fn end_write(&mut self, span: Span) {
        if let Some(at) = self.unwritten.iter().position(|other| *other == span) {
            self.unwritten.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::buffers::Buffers;

    /// Octets that say where they lie.
    fn octets(start: usize, count: usize) -> Vec<u8> {
        (start..start + count)
            .map(|place| u8::try_from(place / 4096 % 251).unwrap())
            .collect()
    }

    #[test]
    fn a_write_waits_until_it_is_worthwhile_or_somebody_waits_for_it() {
        let room = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = room.path().join("log");
        let mut options = File::options();
        let options = options.create_new(true).read(true).write(true);
        let file = options.open(&path).unwrap();
        file.set_len(16 << 20).unwrap();
        let memory = 64 << 20;
        let Some(direct) = Direct::open(&path, memory, Buffers::with_octets(memory)) else {
            return eprintln!("skipped: no writes past the page cache here");
        };
        let write = |start: usize, count: usize| {
            let octets = octets(start, count);
            let chunks = [Chunk::Lent(&octets)];
            let written = direct.write(length(start), &chunks, &file).unwrap();
            assert!(matches!(written, Written::Yes));
        };
        // The first one tells whether the file system has such writes.
        write(0, 4096);
        write(4096, 200 << 10);
        write(4096 + (200 << 10), 200 << 10);
        let waiting = |state: &State| (state.writes.len(), state.unwritten.len());
        assert_eq!(waiting(&lock(&direct.shared.state)), (1, 1));
        let mut there = vec![7; 4096];
        file.read_exact_at(&mut there, 8192).unwrap();
        assert!(
            there.iter().all(|octet| *octet == 0),
            "it is written already"
        );
        direct.wait_until_written(8192, 10).unwrap();
        assert_eq!(waiting(&lock(&direct.shared.state)), (0, 0));
        let start = 4096 + (400 << 10);
        write(start, 5 << 20);
        direct.settle().unwrap();
        let end = start + (5 << 20);
        let is_there = |from: usize, to: usize| {
            let mut there = vec![0; to - from];
            file.read_exact_at(&mut there, length(from)).unwrap();
            there == octets(from, to - from)
        };
        assert!(is_there(0, end));
        // Nobody waits for these: one is long enough, and one has another behind it.
        let is_written_by_itself = |from: usize, to: usize| {
            let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while !is_there(from, to) {
                assert!(std::time::Instant::now() < patience, "nobody writes it");
                std::thread::yield_now();
            }
        };
        write(end, 2 << 20);
        is_written_by_itself(end, end + WORTHWHILE_OCTETS);
        let (first, second) = (10 << 20, 12 << 20);
        write(first, 200 << 10);
        write(second, 200 << 10);
        is_written_by_itself(first, first + (200 << 10));
        drop(direct);
        assert!(
            is_there(second, second + (200 << 10)),
            "the close writes it"
        );
    }
}
