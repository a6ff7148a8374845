//! Octets read from the socket that wait for the log: a fixed set of buffers that go round.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Octets of one buffer: what one read takes at most. It fits a processor's second cache beside what
/// else is in use. On a busy machine 128 KiB to 1 MiB differed by less than the runs did.
pub const PIECE_OCTETS: usize = 128 << 10;

/// A last buffer with less room than this is not read into again.
const ROOM_MIN_OCTETS: usize = PIECE_OCTETS / 4;

/// A buffer and what of it is filled.
#[derive(Debug)]
pub struct Piece {
    buffer: Vec<u8>,
    filled: usize,
    frames: u64,
}

impl Piece {
    /// An empty one whose memory is there already.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buffer: vec![u8::MAX; PIECE_OCTETS],
            filled: 0,
            frames: 0,
        }
    }

    /// The filled part.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        self.buffer.get(..self.filled).unwrap_or(&self.buffer)
    }

    /// The free part.
    pub fn room(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.filled..).unwrap_or_default()
    }

    /// Notes that the first `octets` of the room were filled, and how many whole frames of the stream that makes.
    pub fn fill(&mut self, octets: usize, frames: u64) {
        self.filled += octets;
        self.frames = frames;
    }

    /// Whole frames of the stream up to the end of this piece.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }
}

/// The buffers between the thread that reads and the thread that writes.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Piece>,
    free: Vec<Piece>,
    ended: bool,
}

impl Queue {
    /// With so many buffers.
    #[must_use]
    pub fn new(pieces: usize) -> Self {
        let free = std::iter::repeat_with(Piece::new).take(pieces).collect();
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                free,
                ended: false,
            }),
            filled: Condvar::new(),
            freed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer to read into: the last one that waits while it has room, or a free one as soon as there is one.
    /// `None` when the queue was ended.
    pub fn place(&self) -> Option<Piece> {
        let mut state = self.state();
        loop {
            if state.ended {
                return None;
            }
            if state
                .waiting
                .back()
                .is_some_and(|last| last.buffer.len() - last.filled >= ROOM_MIN_OCTETS)
            {
                return state.waiting.pop_back();
            }
            if let Some(piece) = state.free.pop() {
                return Some(piece);
            }
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets a buffer wait for the log, or be free when it is empty.
    pub fn put(&self, piece: Piece) {
        let mut state = self.state();
        if piece.filled == 0 {
            state.free.push(piece);
            return;
        }
        state.waiting.push_back(piece);
        drop(state);
        self.filled.notify_one();
    }

    /// Everything that waits, as soon as something does; `None` at the end.
    pub fn take(&self) -> Option<VecDeque<Piece>> {
        let mut state = self.state();
        loop {
            if !state.waiting.is_empty() {
                return Some(std::mem::take(&mut state.waiting));
            }
            if state.ended {
                return None;
            }
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Frees buffers.
    pub fn free(&self, pieces: impl IntoIterator<Item = Piece>) {
        let mut state = self.state();
        for mut piece in pieces {
            piece.filled = 0;
            state.free.push(piece);
        }
        drop(state);
        self.freed.notify_one();
    }

    /// Says that nothing will be put any more, or that nobody takes any more.
    pub fn end(&self) {
        self.state().ended = true;
        self.filled.notify_all();
        self.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(queue: &Queue, octets: usize) {
        let mut piece = queue.place().unwrap();
        let frames = piece.frames() + 1;
        piece.fill(octets, frames);
        queue.put(piece);
    }

    #[test]
    fn small_reads_share_a_buffer_until_it_is_taken() {
        let queue = Queue::new(2);
        put(&queue, 10);
        put(&queue, 20);
        let taken = queue.take().unwrap();
        assert_eq!(
            taken
                .iter()
                .map(|piece| piece.octets().len())
                .collect::<Vec<_>>(),
            [30]
        );
        put(&queue, 5);
        assert_eq!(queue.take().unwrap().len(), 1);
    }

    #[test]
    fn all_that_waits_is_taken_at_once_and_in_order() {
        let queue = Queue::new(3);
        for _ in 0..3 {
            put(&queue, PIECE_OCTETS);
        }
        let taken = queue.take().unwrap();
        assert_eq!(taken.len(), 3);
        queue.free(taken);
        assert_eq!(queue.place().unwrap().octets(), b"");
    }

    #[test]
    fn a_reader_waits_for_the_log_when_every_buffer_is_filled() {
        let queue = Queue::new(1);
        put(&queue, PIECE_OCTETS);
        let taken = queue.take().unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| queue.place().is_some());
            queue.free(taken);
            assert!(reader.join().unwrap());
        });
    }

    #[test]
    fn what_waits_at_the_end_is_still_taken() {
        let queue = Queue::new(2);
        put(&queue, 1);
        queue.end();
        assert!(queue.take().is_some());
        assert!(queue.take().is_none());
        assert!(queue.place().is_none());
    }
}
