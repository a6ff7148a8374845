//! Reads: octets in memory are lent, and a reader that reads on and on finds the next octets read ahead.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::MutexGuard;

use bytes::Bytes;
use rustix::fs::{SeekFrom, seek};

use super::crew::THREADS;
use super::{Direct, Shared, Span, State, lead, length, lock, wait};
use crate::disk::aligned::{ALIGNED_OCTETS, BLOCK_OCTETS};

/// Windows that are read ahead of a reader who reads on and on, at most.
const WINDOWS_AHEAD: u64 = 8;

/// Part of the memory that a window takes: octets read ahead are used before they make place for others.
const WINDOW_PART: usize = 32;

/// Windows whose room is kept for use again.
pub(super) const SPARE_WINDOWS: usize = 16;

/// Octets of the smallest window.
const WINDOW_OCTETS_MIN: usize = 64 << 10;

/// Readers whose places are remembered.
const TRAILS: usize = 8;

/// A reader that has not read for so many reads of all is not counted any more.
const READS_REMEMBERED: u64 = 256;

/// A read that begins at most so many octets behind the last one reads on: other octets lie between.
const STRIDE_OCTETS: u64 = 256 << 10;

/// A window that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The number of the read: a void one may be read once more before its end.
    number: u64,
    pub(super) span: Span,
    /// Whether something is written there meanwhile: the octets read may be older.
    pub(super) void: bool,
}

/// Octets of a window, a power of two, for a log of which so many octets are kept in memory.
pub(super) fn window_octets(memory: usize) -> usize {
    let octets = (memory / WINDOW_PART).clamp(WINDOW_OCTETS_MIN, ALIGNED_OCTETS);
    1 << octets.ilog2()
}

impl Direct {
    /// Octets from `offset` on, at most `most`, that are in memory, or are brought there because they are a part of a longer
    /// read; `None` where they are better read by themselves.
    pub(in super::super) fn share(&self, offset: u64, most: u64) -> Option<Bytes> {
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

    /// Windows to be read ahead of each reader: all that they read has room, with the windows at which they are.
    fn windows_ahead(&self, state: &State) -> u64 {
        let windows = state.recent.read_bound() / length(self.shared.window_octets);
        let each = windows / state.trails.readers().max(1);
        each.saturating_sub(1).min(WINDOWS_AHEAD)
    }

    /// Whether the block at `offset` is no hole: most segments do not fill their place in the log, and what follows is read from elsewhere.
    fn has_data(&self, offset: u64) -> bool {
        seek(&self.shared.file, SeekFrom::Data(offset))
            .is_ok_and(|data| data < offset + length(BLOCK_OCTETS))
    }

    /// Have the next windows read.
    fn read_on(&self, mut state: MutexGuard<'_, State>, mut on: u64) {
        for _ in 0..self.windows_ahead(&state) {
            on -= length(lead(on));
            if let Some(end) = state.recent.end_of(on) {
                on = end;
                continue;
            }
            let is_coming =
                state.loads.iter().any(|load| load.span.holds(on)) || state.wanted.contains(&on);
            if !is_coming {
                if !self.has_data(on) {
                    break;
                }
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

impl Shared {
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
                // Octets that are read ahead are not in buffers: together they have what the log may have of memory.
                self.buffers.cede(state.recent.read_octets());
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

/// Places where readers were last, so that it is seen who reads on.
#[derive(Debug, Default)]
pub(super) struct Trails {
    trails: [Trail; TRAILS],
    reads: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Trail {
    /// The end of the last read.
    end: u64,
    /// Its number.
    last: u64,
    /// Whether the read followed another one.
    reads_on: bool,
}

impl Trails {
    /// Somebody reads from `start` to `end`: true when that follows what was read before.
    fn walk(&mut self, start: u64, end: u64) -> bool {
        self.reads += 1;
        let last = self.reads;
        let follows = |trail: &Trail| {
            trail.last > 0 && trail.end <= start && start - trail.end <= STRIDE_OCTETS
        };
        let reads_on = self.trails.iter().any(follows);
        // The nearest behind it is its own; without any, the place that was left longest ago is given up.
        let own = self.trails.iter_mut().max_by_key(|trail| {
            let is_own = follows(trail);
            (
                is_own,
                if is_own {
                    trail.end
                } else {
                    u64::MAX - trail.last
                },
            )
        });
        if let Some(own) = own {
            *own = Trail {
                end,
                last,
                reads_on,
            };
        }
        reads_on
    }

    /// The number of those who read on and on.
    fn readers(&self) -> u64 {
        let reads = |trail: &&Trail| trail.reads_on && self.reads - trail.last < READS_REMEMBERED;
        length(self.trails.iter().filter(reads).count())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::disk::buffers::Buffers;

    const MEMORY_OCTETS: u64 = 16 << 20;
    const AREA_OCTETS: u64 = 8 << 20;
    const PIECE_OCTETS: u64 = 50_000;

    /// Windows that are read when readers take turns at areas of the log with holes between them, and windows in these areas; `None`
    /// without direct reads.
    fn loads(areas: &[u64]) -> Option<(u64, u64)> {
        let room = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = room.path().join("log");
        let file = File::create_new(&path).unwrap();
        for &start in areas {
            let octets = vec![7; usize::try_from(AREA_OCTETS).unwrap()];
            file.write_all_at(&octets, start).unwrap();
        }
        file.set_len(1 << 30).unwrap();
        file.sync_all().unwrap();
        let direct = Direct::open(&path, MEMORY_OCTETS, Buffers::with_octets(MEMORY_OCTETS))?;
        let mut places = areas.to_vec();
        for _ in 0..AREA_OCTETS / PIECE_OCTETS {
            for place in &mut places {
                let end = *place + PIECE_OCTETS;
                while *place < end {
                    let octets = direct.share(*place, end - *place);
                    *place += octets.map_or(PIECE_OCTETS, |octets| length(octets.len()));
                }
            }
        }
        let state = lock(&direct.shared.state);
        assert_eq!(state.trails.readers(), length(areas.len()));
        let windows = AREA_OCTETS / length(direct.shared.window_octets) * length(areas.len());
        Some((state.next_load, windows))
    }

    #[test]
    fn readers_that_take_turns_leave_one_another_what_was_read_ahead() {
        let Some((loads, windows)) = loads(&[64 << 20, 128 << 20, 192 << 20, 256 << 20]) else {
            return eprintln!("skipped: no reads past the page cache here");
        };
        assert!(
            loads <= windows * 5 / 4,
            "{loads} loads of {windows} windows"
        );
    }

    #[test]
    fn no_holes_are_read_ahead() {
        let Some((loads, windows)) = loads(&[64 << 20]) else {
            return eprintln!("skipped: no reads past the page cache here");
        };
        assert!(loads <= windows + 2, "{loads} loads of {windows} windows");
    }
}
