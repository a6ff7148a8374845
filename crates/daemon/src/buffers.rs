//! Buffers that are used again: one pool for what arrives, one for what is read from the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// Octets of a buffer: large enough that a socket read or a store read is worth its system call, small
/// enough that a slice that is kept for long keeps little else.
pub const BUFFER_OCTETS: usize = 256 << 10;

/// Buffers kept for use again, at most: what one flush of a slow disk holds back (16 MiB).
const SPARE_BUFFERS: usize = 64;

/// Spare buffers looked at before a new one is made; the oldest ones are the likeliest to be free.
const LOOKS: usize = 4;

/// A buffer with less room than this is changed for another: a read should be worth its call.
pub const ROOM_MIN_OCTETS: usize = BUFFER_OCTETS / 8;

/// Buffers for what arrives. A buffer with room left is filled further; a full one is used again once
/// every slice of it is gone.
#[derive(Debug, Default)]
pub struct ReceivePool {
    spare: VecDeque<BytesMut>,
}

impl ReceivePool {
    /// An empty buffer with room for at least [`ROOM_MIN_OCTETS`].
    pub fn take(&mut self) -> BytesMut {
        for _ in 0..LOOKS.min(self.spare.len()) {
            let Some(mut buffer) = self.spare.pop_front() else {
                break;
            };
            if buffer.try_reclaim(BUFFER_OCTETS) || buffer.capacity() >= ROOM_MIN_OCTETS {
                return buffer;
            }
            self.spare.push_back(buffer);
        }
        BytesMut::with_capacity(BUFFER_OCTETS)
    }

    /// Give an empty buffer back whose slices may still be in use.
    pub fn give(&mut self, buffer: BytesMut) {
        if self.spare.len() >= SPARE_BUFFERS {
            return;
        }
        if buffer.capacity() >= ROOM_MIN_OCTETS {
            self.spare.push_front(buffer);
        } else {
            self.spare.push_back(buffer);
        }
    }
}

/// Buffers for what is read from the store. A buffer comes back by itself when the last slice of it goes.
#[derive(Clone, Debug, Default)]
pub struct ReadPool {
    spare: Arc<Mutex<Vec<Box<[u8]>>>>,
}

impl ReadPool {
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
        }
    }
}

/// A buffer of a [`ReadPool`].
#[derive(Debug)]
pub struct PooledBuffer {
    octets: Box<[u8]>,
    spare: Arc<Mutex<Vec<Box<[u8]>>>>,
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
        if spare.len() < SPARE_BUFFERS {
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
