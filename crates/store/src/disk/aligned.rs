//! Buffers in which octets go to the disk and come from it without passing through the page cache.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

use super::Chunk;
use super::buffers::{BUFFER_ROOM_OCTETS, Buffers};

/// The octets of which lengths and places of direct reads and writes, and of the buffers for them, are multiples: no disk or file system in
/// use wants more.
pub(super) const BLOCK_OCTETS: usize = 4096;

/// Octets of the largest room: so many are worth a system call.
pub(super) const ALIGNED_OCTETS: usize = 1 << 20;

/// Fewer octets are copied: one more write costs as much.
const UNCOPIED_OCTETS: usize = 32 << 10;

/// Room for what is written: one write behind the other in buffers of a pool, each write at a multiple of its grain.
#[derive(Debug)]
pub(super) struct WriteBuffers {
    /// The one that is filled.
    current: Option<BytesMut>,
    buffers: Buffers,
    /// Octets of which a write is made a multiple.
    grain: usize,
}

/// The rest of a buffer is left when it has fewer octets than this, and than what is wanted.
const REST_OCTETS: usize = 32 << 10;

impl WriteBuffers {
    /// Room for writes that are made multiples of `grain` octets.
    pub(super) fn new(buffers: Buffers, grain: usize) -> Self {
        Self {
            current: None,
            buffers,
            grain,
        }
    }

    /// The number of `wanted` octets that are best put together next: the rest of a buffer is not to be lost.
    pub(super) fn offer(&self, wanted: usize) -> usize {
        let left = self.current.as_ref().map_or(0, BytesMut::capacity);
        let left = left - left % self.grain;
        let most = if left < wanted.min(REST_OCTETS) {
            BUFFER_ROOM_OCTETS
        } else {
            left
        };
        wanted.min(most)
    }

    /// The octets that `fill` puts together, `octets` of them and at most [`BUFFER_ROOM_OCTETS`], with zeros behind them up to a
    /// multiple of the grain.
    pub(super) fn put_together(
        &mut self,
        octets: usize,
        fill: impl FnOnce(&mut BytesMut),
    ) -> Bytes {
        let padded = octets.next_multiple_of(self.grain);
        let mut buffer = match self.current.take() {
            Some(begun) if begun.capacity() >= padded => begun,
            full => {
                let buffer = self.buffers.take();
                full.into_iter().for_each(|full| self.buffers.give(full));
                buffer
            }
        };
        fill(&mut buffer);
        assert!(
            buffer.len() == octets,
            "as much is put together as was said"
        );
        buffer.resize(padded, 0);
        let together = buffer.split().freeze();
        self.current = Some(buffer);
        together
    }
}

/// Chunks read one after the other.
#[derive(Debug)]
pub(super) struct Source<'a> {
    chunks: &'a [Chunk<'a>],
    /// Octets of the first chunk that are read.
    used: usize,
}

impl<'a> Source<'a> {
    pub(super) const fn of(chunks: &'a [Chunk<'a>]) -> Self {
        Self { chunks, used: 0 }
    }

    /// Adds the next `count` octets to `out`; there must be as many.
    pub(super) fn read(&mut self, mut count: usize, out: &mut BytesMut) {
        while count > 0
            && let Some(first) = self.chunks.first()
        {
            let left = first.octets().get(self.used..).unwrap_or_default();
            let now = left.get(..count).unwrap_or(left);
            out.extend_from_slice(now);
            count -= now.len();
            self.used += now.len();
            self.pass_read();
        }
    }

    /// Goes on to a chunk that is not read to its end.
    fn pass_read(&mut self) {
        while let Some((first, rest)) = self.chunks.split_first()
            && first.octets().len() == self.used
        {
            self.chunks = rest;
            self.used = 0;
        }
    }

    /// The next octets, for `offset` of the log, as they are, where they may be kept and are whole blocks there and in memory.
    pub(super) fn take_blocks(&mut self, offset: u64) -> Option<Bytes> {
        self.pass_read();
        let Some(Chunk::Shared(octets)) = self.chunks.first() else {
            return None;
        };
        let octets = octets.slice(self.used..);
        if !are_blocks(&octets, offset) {
            return None;
        }
        let count = octets.len() - octets.len() % BLOCK_OCTETS;
        self.used += count;
        Some(octets.slice(..count))
    }

    /// The number of octets, the next of which is for `offset` of the log and does not begin such blocks, before the next that
    /// does; 0 at the end.
    pub(super) fn before_blocks(&mut self, offset: u64) -> usize {
        self.pass_read();
        let Some((first, rest)) = self.chunks.split_first() else {
            return 0;
        };
        let mut count = first.octets().len() - self.used;
        for chunk in rest {
            let at = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            match chunk {
                Chunk::Shared(octets) if are_blocks(octets, at) => break,
                _ => count += chunk.octets().len(),
            }
        }
        count
    }
}

/// Whether octets for this place in the log are enough blocks, there and in memory, to be written as they are.
fn are_blocks(octets: &Bytes, offset: u64) -> bool {
    u64::try_from(BLOCK_OCTETS).is_ok_and(|block| offset.is_multiple_of(block))
        && octets.len() >= UNCOPIED_OCTETS
        && octets.as_ptr().align_offset(BLOCK_OCTETS) == 0
}

/// Rooms that were given back, to be used again: the last first, which the processor's caches may still hold.
#[derive(Clone, Debug, Default)]
pub(super) struct AlignedBuffers {
    spare: Arc<Mutex<Spare>>,
}

#[derive(Debug, Default)]
struct Spare {
    rooms: Vec<Box<[u8]>>,
    octets: usize,
    bound: usize,
}

impl AlignedBuffers {
    /// Rooms of which so many octets are kept for use again.
    pub(super) fn new(bound: usize) -> Self {
        let spare = Spare {
            bound,
            ..Spare::default()
        };
        Self {
            spare: Arc::new(Mutex::new(spare)),
        }
    }

    /// Keep none of those that nobody uses.
    pub(super) fn give_back(&self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let rooms = std::mem::take(&mut spare.rooms);
        spare.octets = 0;
        drop(spare);
        drop(rooms);
    }

    /// A room of at least `octets`, with whatever it last held.
    pub(super) fn take(&self, octets: usize) -> AlignedBuffer {
        let wanted = octets.max(BLOCK_OCTETS).next_power_of_two();
        let room = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(wanted + BLOCK_OCTETS);
        let octets = room.unwrap_or_else(|| vec![0; wanted + BLOCK_OCTETS].into_boxed_slice());
        let start = octets.as_ptr().align_offset(BLOCK_OCTETS).min(BLOCK_OCTETS);
        AlignedBuffer {
            octets,
            start,
            spare: Arc::clone(&self.spare),
        }
    }
}

impl Spare {
    fn take(&mut self, octets: usize) -> Option<Box<[u8]>> {
        let at = self.rooms.iter().rposition(|room| room.len() == octets)?;
        self.octets -= octets;
        Some(self.rooms.remove(at))
    }

    fn give(&mut self, room: Box<[u8]>) {
        if self.octets + room.len() <= self.bound {
            self.octets += room.len();
            self.rooms.push(room);
        }
    }
}

/// A buffer that begins at a multiple of [`BLOCK_OCTETS`]; it is given back when it goes.
#[derive(Debug)]
pub(super) struct AlignedBuffer {
    octets: Box<[u8]>,
    start: usize,
    spare: Arc<Mutex<Spare>>,
}

impl AlignedBuffer {
    /// The first `count` octets, or all where it has fewer.
    pub(super) fn octets_mut(&mut self, count: usize) -> &mut [u8] {
        let end = self.octets.len().min(self.start + count);
        self.octets.get_mut(self.start..end).unwrap_or_default()
    }

    /// All octets, shared; the room is given back when the last slice of them goes.
    pub(super) fn share(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.octets.get(self.start..).unwrap_or_default()
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        let octets = std::mem::take(&mut self.octets);
        self.spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .give(octets);
    }
}

#[cfg(test)]
#[allow(clippy::as_conversions, reason = "addresses are compared")]
mod tests {
    use super::*;

    #[test]
    fn writes_lie_aligned_one_behind_the_other_in_buffers_that_are_used_again() {
        let mut rooms = WriteBuffers::new(Buffers::with_octets(0), BLOCK_OCTETS);
        let mut addresses = std::collections::BTreeSet::new();
        for round in 1..200_usize {
            let octets = round * 7_919 % BUFFER_ROOM_OCTETS;
            let room = rooms.put_together(octets, |room| room.resize(octets, 7));
            let (written, padding) = room.split_at(octets);
            assert!(
                written.iter().all(|octet| *octet == 7) && padding.iter().all(|octet| *octet == 0)
            );
            assert!(room.len().is_multiple_of(BLOCK_OCTETS) && padding.len() < BLOCK_OCTETS);
            assert_eq!(room.as_ptr() as usize % BLOCK_OCTETS, 0);
            addresses.insert(room.as_ptr() as usize / (BUFFER_ROOM_OCTETS / 2));
        }
        assert!(addresses.len() <= 9, "{addresses:?}");
        let kept: Vec<Bytes> = (0..20)
            .map(|_| {
                rooms.put_together(BUFFER_ROOM_OCTETS, |room| {
                    room.resize(BUFFER_ROOM_OCTETS, 1)
                })
            })
            .collect();
        assert!(kept.iter().all(|room| room.iter().all(|octet| *octet == 1)));
    }

    #[test]
    fn rooms_are_aligned_and_used_again_within_their_bound() {
        let rooms = AlignedBuffers::new(2 * (ALIGNED_OCTETS + BLOCK_OCTETS));
        let mut taken: Vec<AlignedBuffer> = (0..3).map(|_| rooms.take(ALIGNED_OCTETS)).collect();
        for room in &mut taken {
            let octets = room.octets_mut(ALIGNED_OCTETS);
            assert_eq!(octets.len(), ALIGNED_OCTETS);
            assert_eq!(octets.as_ptr() as usize % BLOCK_OCTETS, 0);
        }
        let shared = taken.pop().unwrap().share();
        let address = shared.as_ptr();
        let slice = shared.slice(5..7);
        drop((shared, taken));
        assert_eq!(rooms.spare.lock().unwrap().rooms.len(), 2, "one is in use");
        drop(slice);
        assert_eq!(
            rooms.spare.lock().unwrap().rooms.len(),
            2,
            "no more are kept"
        );
        let again: Vec<AlignedBuffer> = (0..2).map(|_| rooms.take(ALIGNED_OCTETS)).collect();
        assert!(again.iter().all(|room| room.as_ref().as_ptr() != address));
        assert_eq!(rooms.spare.lock().unwrap().octets, 0);
        assert_eq!(rooms.take(1).octets_mut(1).len(), 1);
    }
}
