//! Buffers that are used again: those for octets that arrive, and those for octets read from the store.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
pub use dhow_store::{BUFFER_OCTETS, Buffers};

/// Buffers for what is read kept for use again, at most (16 MiB).
const SPARE_BUFFERS: usize = 64;

/// Buffers kept for use again in any case: less than these would be made anew all the time.
const SPARE_BUFFERS_MIN: usize = 4;

/// Begun buffers kept at hand: as many connections of a thread are in the middle of a read.
const BEGUN_BUFFERS: usize = 4;

/// A buffer with less room than this is changed for another: a read should be worth its call.
pub const ROOM_MIN_OCTETS: usize = BUFFER_OCTETS / 8;

/// One thread's buffers for what arrives. A buffer with room left is filled further; others are of a pool that threads and the
/// store have in common.
#[derive(Debug)]
pub struct ReceivePool {
    begun: Vec<BytesMut>,
    buffers: Buffers,
}

impl ReceivePool {
    /// Buffers of a pool.
    #[must_use]
    pub const fn of(buffers: Buffers) -> Self {
        Self {
            begun: Vec::new(),
            buffers,
        }
    }

    /// An empty buffer with room for at least [`ROOM_MIN_OCTETS`].
    pub fn take(&mut self) -> BytesMut {
        let begun = self.begun.pop();
        begun.unwrap_or_else(|| self.buffers.take())
    }

    /// Give an empty buffer back whose slices may still be in use.
    pub fn give(&mut self, buffer: BytesMut) {
        if buffer.capacity() >= ROOM_MIN_OCTETS && self.begun.len() < BEGUN_BUFFERS {
            self.begun.push(buffer);
        } else {
            self.buffers.give(buffer);
        }
    }
}

/// Buffers for what is read from the store. A buffer comes back by itself when the last slice of it goes.
#[derive(Clone, Debug)]
pub struct ReadPool {
    spare: Arc<Mutex<Vec<Box<[u8]>>>>,
    bound: usize,
}

impl Default for ReadPool {
    fn default() -> Self {
        Self {
            spare: Arc::default(),
            bound: SPARE_BUFFERS,
        }
    }
}

impl ReadPool {
    /// A pool that keeps so many octets of buffers, at most those of 64.
    #[must_use]
    pub fn with_octets(octets: u64) -> Self {
        let octets = usize::try_from(octets).unwrap_or(usize::MAX);
        Self {
            bound: (octets / BUFFER_OCTETS).clamp(SPARE_BUFFERS_MIN, SPARE_BUFFERS),
            ..Self::default()
        }
    }

    /// Keep no buffer that nobody uses.
    pub fn give_back(&self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = std::mem::take(&mut *spare);
        drop(spare);
        drop(dropped);
    }

    /// A buffer of [`BUFFER_OCTETS`], with whatever octets it last held.
    #[must_use]
    pub fn take(&self) -> PooledBuffer {
        let octets = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let octets = octets.unwrap_or_else(|| vec![0; BUFFER_OCTETS].into_boxed_slice());
        PooledBuffer {
            octets,
            spare: Arc::clone(&self.spare),
            bound: self.bound,
        }
    }
}

/// A buffer of a [`ReadPool`].
#[derive(Debug)]
pub struct PooledBuffer {
    octets: Box<[u8]>,
    spare: Arc<Mutex<Vec<Box<[u8]>>>>,
    bound: usize,
}

impl PooledBuffer {
    /// The octets, to be read into.
    pub fn octets_mut(&mut self) -> &mut [u8] {
        &mut self.octets
    }

    /// The buffer as shared octets.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let octets = std::mem::take(&mut self.octets);
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < self.bound {
            spare.push(octets);
        }
    }
}

#[cfg(test)]
#[allow(clippy::as_conversions, reason = "addresses are compared")]
mod tests {
    use super::*;

    #[test]
    fn a_pool_keeps_no_more_than_it_is_told() {
        let read = ReadPool::with_octets(0);
        drop((0..20).map(|_| read.take()).collect::<Vec<_>>());
        assert_eq!(read.spare.lock().unwrap().len(), SPARE_BUFFERS_MIN);
    }

    #[test]
    fn a_receive_buffer_with_room_is_filled_further() {
        let mut pool = ReceivePool::of(Buffers::with_octets(0));
        let mut buffer = pool.take();
        let room = buffer.capacity();
        buffer.extend_from_slice(b"octets");
        let slice = buffer.split().freeze();
        pool.give(buffer);
        let mut buffer = pool.take();
        assert_eq!(buffer.as_ptr() as usize, slice.as_ptr() as usize + 6);
        assert_eq!(buffer.capacity(), room - 6);
        buffer.resize(room - 6, 1);
        drop((buffer.split(), slice));
        pool.give(buffer);
        assert_eq!(pool.take().capacity(), room, "it is whole again");
    }

    #[test]
    fn a_read_buffer_comes_back_with_its_last_slice() {
        let pool = ReadPool::default();
        let slice = pool.take().freeze().slice(10..20);
        let address = slice.as_ptr() as usize - 10;
        assert_eq!(pool.spare.lock().unwrap().len(), 0);
        drop(slice);
        assert_eq!(pool.take().as_ref().as_ptr() as usize, address);
    }
}
