//! Buffers that are used again: one pool for what arrives, one for what is read from the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// Octets of a buffer: large enough that a socket read or a store read is worth its system call, small
/// enough that a slice that is kept for long keeps little else.
pub const BUFFER_OCTETS: usize = 256 << 10;

/// Buffers kept for use again, at most, where nobody says more or less (16 MiB).
const SPARE_BUFFERS: usize = 64;

/// Buffers kept for use again in any case: less than these would be made anew all the time.
const SPARE_BUFFERS_MIN: usize = 4;

/// Lent buffers that are looked at for one that is wanted; the next search goes on behind them.
const LOOKS: usize = 16;

/// A buffer with less room than this is changed for another: a read should be worth its call.
pub const ROOM_MIN_OCTETS: usize = BUFFER_OCTETS / 8;

/// Buffers for what arrives. A buffer with room left is filled further; a full one is used again once
/// every slice of it is gone.
#[derive(Debug)]
pub struct ReceivePool {
    /// Free, the last used last: the processor's caches may still hold it.
    free: Vec<BytesMut>,
    /// Slices of them are, or were, in use; in the order in which they are looked at.
    lent: VecDeque<BytesMut>,
    bound: usize,
}

impl Default for ReceivePool {
    fn default() -> Self {
        Self {
            free: Vec::new(),
            lent: VecDeque::new(),
            bound: SPARE_BUFFERS,
        }
    }
}

/// How many buffers hold so many octets.
fn buffers(octets: u64) -> usize {
    let octets = usize::try_from(octets).unwrap_or(usize::MAX);
    (octets / BUFFER_OCTETS).max(SPARE_BUFFERS_MIN)
}

impl ReceivePool {
    /// A pool that keeps as many buffers as hold what may wait for the disk, in octets: in a slow flush all of them are in
    /// use, and after it all of them again.
    #[must_use]
    pub fn with_octets(octets: u64) -> Self {
        Self {
            bound: buffers(octets),
            ..Self::default()
        }
    }

    /// An empty buffer with room for at least [`ROOM_MIN_OCTETS`].
    pub fn take(&mut self) -> BytesMut {
        if self.free.is_empty() {
            self.reclaim();
        }
        let free = self.free.pop();
        free.unwrap_or_else(|| BytesMut::with_capacity(BUFFER_OCTETS))
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

    /// Give an empty buffer back whose slices may still be in use.
    pub fn give(&mut self, buffer: BytesMut) {
        if buffer.capacity() >= ROOM_MIN_OCTETS {
            self.free.push(buffer);
        } else {
            self.lent.push_back(buffer);
        }
        if self.free.len() + self.lent.len() > self.bound {
            // One whose slices stay for long would keep its place for as long.
            drop(self.lent.pop_front().or_else(|| self.free.pop()));
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
        Self {
            bound: buffers(octets).min(SPARE_BUFFERS),
            ..Self::default()
        }
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
    fn a_receive_buffer_is_used_again_once_its_slices_are_gone() {
        let mut pool = ReceivePool::default();
        let mut buffer = pool.take();
        buffer.resize(BUFFER_OCTETS, 7);
        let address = buffer.as_ptr();
        let slice = buffer.split().freeze();
        pool.give(buffer);
        let other = pool.take();
        assert_ne!(other.as_ptr(), address, "the slice is still in use");
        drop(slice);
        assert_eq!(pool.take().as_ptr(), address);
    }

    #[test]
    fn pools_keep_no_more_than_they_are_told() {
        let mut receive = ReceivePool::with_octets(8 * BUFFER_OCTETS as u64);
        let read = ReadPool::with_octets(0);
        let taken: Vec<_> = (0..20).map(|_| (receive.take(), read.take())).collect();
        for (buffer, _) in taken {
            receive.give(buffer);
        }
        assert_eq!(receive.free.len() + receive.lent.len(), 8);
        assert_eq!(read.spare.lock().unwrap().len(), SPARE_BUFFERS_MIN);
    }

    #[test]
    fn a_receive_buffer_with_room_is_filled_further() {
        let mut pool = ReceivePool::default();
        let mut buffer = pool.take();
        buffer.extend_from_slice(b"octets");
        let slice = buffer.split().freeze();
        pool.give(buffer);
        let buffer = pool.take();
        assert_eq!(buffer.as_ptr() as usize, slice.as_ptr() as usize + 6);
        assert_eq!(buffer.capacity(), BUFFER_OCTETS - 6);
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
