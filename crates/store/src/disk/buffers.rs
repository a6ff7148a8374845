//! Buffers that are used again: those that octets arrive in, and those that octets go to the disk from. Often they are the same.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;

use super::aligned::BLOCK_OCTETS;

/// Octets of a buffer: large enough that a socket read or a store read is worth its system call, small enough that a slice that
/// is kept for long keeps little else, and such that an allocator rounds them up to no more.
pub const BUFFER_OCTETS: usize = 256 << 10;

/// There is room for so many octets in a buffer at least: it begins at a multiple of a block's.
pub(super) const BUFFER_ROOM_OCTETS: usize = BUFFER_OCTETS - BLOCK_OCTETS;

/// Buffers kept for use again in any case: less than these would be made anew all the time.
const BUFFERS_MIN: usize = 16;

/// Lent buffers that are looked at for one that nobody has slices of any more; the next search goes on behind them. Fresh memory
/// costs more than all of them.
const LOOKS: usize = 64;

/// A pool of buffers that several threads have in common. A buffer is used again once every slice of it is gone.
#[derive(Clone, Debug)]
pub struct Buffers {
    pool: Arc<Mutex<Pool>>,
}

#[derive(Debug)]
struct Pool {
    /// Free, the last used last: the processor's caches may still hold it.
    free: Vec<BytesMut>,
    /// Slices of them are, or were, in use; in the order in which they are looked at.
    lent: VecDeque<BytesMut>,
    /// The first addresses of buffers, those that were dropped as well until another lies there.
    bases: BTreeSet<usize>,
    bound: usize,
    /// The number of buffers fewer that are kept: their memory is used for something else.
    ceded: usize,
}

impl Buffers {
    /// A pool that keeps as many buffers as hold so many octets, and 16 in any case.
    #[must_use]
    pub fn with_octets(octets: u64) -> Self {
        let octets = usize::try_from(octets).unwrap_or(usize::MAX);
        let pool = Pool {
            free: Vec::new(),
            lent: VecDeque::new(),
            bases: BTreeSet::new(),
            bound: (octets / BUFFER_OCTETS).max(BUFFERS_MIN),
            ceded: 0,
        };
        Self {
            pool: Arc::new(Mutex::new(pool)),
        }
    }

    /// An empty buffer with room for [`BUFFER_OCTETS`], or up to 4096 less: it begins at a multiple of 4096.
    #[must_use]
    pub fn take(&self) -> BytesMut {
        let (known, dropped) = self.with_pool(|pool| (pool.take(), pool.trim()));
        drop(dropped);
        let mut buffer = known.unwrap_or_else(|| self.make());
        let skipped = buffer.as_ptr().align_offset(BLOCK_OCTETS).min(BLOCK_OCTETS);
        buffer.resize(skipped, 0);
        drop(buffer.split());
        buffer
    }

    /// Give an empty buffer back whose slices may still be in use.
    pub fn give(&self, buffer: BytesMut) {
        let dropped = self.with_pool(|pool| pool.give(buffer));
        // Outside the lock: to give memory back to the system takes long.
        drop(dropped);
    }

    /// Keep fewer buffers than usual, as many octets of memory are used for something else. Those that take buffers let go of
    /// the others: an allocator has back at once what the thread frees that it gave it to.
    pub(super) fn cede(&self, octets: u64) {
        let buffers = usize::try_from(octets).unwrap_or(usize::MAX) / BUFFER_OCTETS;
        self.with_pool(|pool| pool.ceded = buffers);
    }

    /// Keep no buffer that nobody uses, and none of those in use once they are not.
    pub fn give_back(&self) {
        let dropped = self.with_pool(|pool| {
            let free = std::mem::take(&mut pool.free);
            (free, std::mem::take(&mut pool.lent))
        });
        drop(dropped);
    }

    fn make(&self) -> BytesMut {
        let buffer = BytesMut::with_capacity(BUFFER_OCTETS);
        let base = buffer.as_ptr().addr();
        self.with_pool(|pool| pool.note(base));
        buffer
    }

    /// The first address of the buffer in which octets lie as a whole; `None` where there is none. No two buffers have the same.
    pub(super) fn base_of(&self, octets: &[u8]) -> Option<usize> {
        let first = octets.as_ptr().addr();
        let base = self.with_pool(|pool| pool.bases.range(..=first).next_back().copied())?;
        (first - base + octets.len() <= BUFFER_OCTETS).then_some(base)
    }

    fn with_pool<T>(&self, work: impl FnOnce(&mut Pool) -> T) -> T {
        work(&mut self.pool.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Pool {
    fn take(&mut self) -> Option<BytesMut> {
        if self.free.is_empty() {
            self.reclaim();
        }
        self.free.pop()
    }

    /// Frees the lent buffers of which nobody has slices any more, as far as they are met one behind the other: the last of
    /// them is the one that was in use last.
    fn reclaim(&mut self) {
        for _ in 0..LOOKS.min(self.lent.len()) {
            while let Some(mut buffer) = self.lent.pop_front() {
                if !buffer.try_reclaim(BUFFER_OCTETS) {
                    self.lent.push_back(buffer);
                    break;
                }
                self.free.push(buffer);
            }
            if !self.free.is_empty() {
                return;
            }
        }
    }

    /// A buffer was made; what would meet it is gone.
    fn note(&mut self, base: usize) {
        let from = base.saturating_sub(BUFFER_OCTETS - 1);
        let gone: Vec<usize> = self
            .bases
            .range(from..base.saturating_add(BUFFER_OCTETS))
            .copied()
            .collect();
        gone.iter().for_each(|gone| {
            self.bases.remove(gone);
        });
        self.bases.insert(base);
    }

    fn give(&mut self, buffer: BytesMut) -> Option<BytesMut> {
        self.lent.push_back(buffer);
        self.excess()
    }

    /// One of more buffers than are kept. One whose slices stay for long would keep its place for as long.
    fn excess(&mut self) -> Option<BytesMut> {
        let bound = self.bound.saturating_sub(self.ceded).max(BUFFERS_MIN);
        if self.free.len() + self.lent.len() <= bound {
            return None;
        }
        if self.free.is_empty() {
            self.reclaim();
        }
        self.free.pop().or_else(|| self.lent.pop_front())
    }

    /// Lets go of buffers that are more than are kept, not many at a time.
    fn trim(&mut self) -> Vec<BytesMut> {
        std::iter::from_fn(|| self.excess()).take(LOOKS).collect()
    }
}

#[cfg(test)]
#[allow(clippy::as_conversions, reason = "addresses are compared")]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_once_its_slices_are_gone() {
        let buffers = Buffers::with_octets(0);
        let mut buffer = buffers.take();
        assert!((buffer.as_ptr() as usize).is_multiple_of(BLOCK_OCTETS));
        assert!(buffer.capacity() >= BUFFER_ROOM_OCTETS);
        buffer.resize(buffer.capacity(), 7);
        let address = buffer.as_ptr();
        let slice = buffer.split().freeze();
        buffers.give(buffer);
        let other = buffers.take();
        assert_ne!(other.as_ptr(), address, "the slice is still in use");
        drop(slice);
        assert_eq!(buffers.take().as_ptr(), address);
    }

    #[test]
    fn octets_are_known_for_their_buffer_s() {
        let buffers = Buffers::with_octets(0);
        let made: Vec<BytesMut> = (0..50).map(|_| buffers.take()).collect();
        let mut bases = BTreeSet::new();
        for mut buffer in made {
            buffer.resize(buffer.capacity(), 7);
            let base = buffers.base_of(&buffer[..10]);
            assert!(base.is_some_and(|base| bases.insert(base)));
            assert_eq!(buffers.base_of(&buffer[buffer.len() - 10..]), base);
        }
        assert_eq!(buffers.base_of(&vec![7; 2 * BUFFER_OCTETS]), None);
        buffers.with_pool(|pool| {
            pool.bases.clear();
            let eighth = BUFFER_OCTETS / 8;
            for place in [8, 11, 9, 10, 11, 19] {
                pool.note(place * eighth);
            }
            let left: Vec<usize> = pool.bases.iter().copied().collect();
            assert_eq!(
                left,
                [11 * eighth, 19 * eighth],
                "the others would meet these"
            );
        });
    }

    #[test]
    fn a_pool_keeps_no_more_than_it_is_told() {
        let buffers = Buffers::with_octets(20 * BUFFER_OCTETS as u64);
        let taken: Vec<_> = (0..50).map(|_| buffers.take()).collect();
        for buffer in taken {
            buffers.give(buffer);
        }
        let kept = buffers.with_pool(|pool| pool.free.len() + pool.lent.len());
        assert_eq!(kept, 20);
        // A buffer that is used for something else is not kept here.
        buffers.cede(3 * BUFFER_OCTETS as u64);
        let kept = || buffers.with_pool(|pool| pool.free.len() + pool.lent.len());
        let taken = buffers.take();
        assert_eq!(kept(), 17);
        buffers.cede(0);
        buffers.give(taken);
        for _ in 0..2 {
            buffers.give(BytesMut::with_capacity(BUFFER_OCTETS));
        }
        assert_eq!(kept(), 20);
        // All of them are used again, those for which there is no room first.
        drop((0..20).map(|_| buffers.take()).collect::<Vec<_>>());
        assert_eq!(
            buffers.with_pool(|pool| pool.free.len() + pool.lent.len()),
            0
        );
    }

    #[test]
    fn a_pool_that_gives_back_keeps_nothing() {
        let buffers = Buffers::with_octets(0);
        let mut buffer = buffers.take();
        buffer.resize(9, 7);
        let slice = buffer.split().freeze();
        buffers.give(buffer);
        buffers.give(BytesMut::with_capacity(BUFFER_OCTETS));
        buffers.give_back();
        buffers.with_pool(|pool| assert!(pool.free.is_empty() && pool.lent.is_empty()));
        assert_eq!(slice, [7; 9][..]);
    }
}
