//! Buffers in which octets go to the disk and come from it without passing through the page cache.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// What lengths and places of direct reads and writes, and the buffers for them, are multiples of: no disk or file system in
/// use wants more.
pub(super) const BLOCK_OCTETS: usize = 4096;

/// Octets of the largest room: a write of so many is worth its system call.
pub(super) const ROOM_OCTETS: usize = 1 << 20;

/// Room for what is written: one write behind the other in large buffers, each of which begins at a multiple of
/// [`BLOCK_OCTETS`].
#[derive(Debug)]
pub(super) struct WriteRooms {
    current: BytesMut,
    /// Free buffers, the last used last: the processor's caches may still hold it.
    free: Vec<BytesMut>,
    /// Buffers that were filled, in the order in which they are looked at.
    full: VecDeque<BytesMut>,
    bound: usize,
    /// Octets of which a write is made a multiple.
    grain: usize,
}

/// The rest of a buffer is left when it has fewer octets than this, and than what is wanted.
const REST_OCTETS: usize = 128 << 10;

/// Full buffers that are looked at for one that nobody reads any more; the next search goes on behind them. Fresh memory costs
/// more than all of them.
const LOOKS: usize = 64;

/// Buffers beside those whose octets are kept: the ones on their way to the disk, and one part in so many of the others.
const UNDER_WAY: usize = 4;
const UNDER_WAY_PART: usize = 8;

impl WriteRooms {
    /// Room of which so many octets are kept for use again, for writes that are made multiples of `grain` octets.
    pub(super) fn new(octets: usize, grain: usize) -> Self {
        Self {
            grain,
            current: BytesMut::new(),
            free: Vec::new(),
            full: VecDeque::new(),
            bound: (octets / ROOM_OCTETS)
                .saturating_add(octets / ROOM_OCTETS / UNDER_WAY_PART)
                .saturating_add(UNDER_WAY),
        }
    }

    /// How many of `wanted` octets are best put together next: what is left of a buffer is not to be lost.
    pub(super) fn offer(&self, wanted: usize) -> usize {
        let left = self.current.capacity() - self.current.capacity() % self.grain;
        let most = if left < wanted.min(REST_OCTETS) {
            ROOM_OCTETS
        } else {
            left
        };
        wanted.min(most)
    }

    /// What `fill` puts together, `octets` of it and at most [`ROOM_OCTETS`], with zeros behind it up to a multiple of the grain.
    pub(super) fn put_together(
        &mut self,
        octets: usize,
        fill: impl FnOnce(&mut BytesMut),
    ) -> Bytes {
        let padded = octets.next_multiple_of(self.grain);
        if self.current.capacity() < padded {
            let full = std::mem::replace(&mut self.current, BytesMut::new());
            self.current = self.next();
            self.give(full);
        }
        fill(&mut self.current);
        assert!(
            self.current.len() == octets,
            "as much is put together as was said"
        );
        self.current.resize(padded, 0);
        self.current.split().freeze()
    }

    /// An empty buffer that begins at a multiple of [`BLOCK_OCTETS`].
    fn next(&mut self) -> BytesMut {
        let whole = ROOM_OCTETS + BLOCK_OCTETS;
        if self.free.is_empty() {
            self.reclaim(whole);
        }
        let mut buffer = self
            .free
            .pop()
            .unwrap_or_else(|| BytesMut::with_capacity(whole));
        let skipped = buffer.as_ptr().align_offset(BLOCK_OCTETS).min(BLOCK_OCTETS);
        buffer.resize(skipped, 0);
        drop(buffer.split());
        buffer
    }

    /// Frees the full buffers that nobody reads any more, as far as they are met one behind the other: the last of them is the
    /// one that was in use last.
    fn reclaim(&mut self, octets: usize) {
        for _ in 0..LOOKS.min(self.full.len()) {
            while let Some(mut buffer) = self.full.pop_front() {
                if !buffer.try_reclaim(octets) {
                    self.full.push_back(buffer);
                    break;
                }
                self.free.push(buffer);
            }
            if !self.free.is_empty() {
                return;
            }
        }
    }

    fn give(&mut self, full: BytesMut) {
        self.full.push_back(full);
        if self.free.len() + self.full.len() > self.bound {
            drop(self.full.pop_front());
        }
    }
}

/// Slices read one after the other.
#[derive(Debug)]
pub(super) struct Source<'a, 'b> {
    slices: &'a [IoSlice<'b>],
    /// Octets of the first slice that are read.
    used: usize,
}

impl<'a, 'b> Source<'a, 'b> {
    pub(super) const fn of(slices: &'a [IoSlice<'b>]) -> Self {
        Self { slices, used: 0 }
    }

    /// Adds the next `count` octets to `out`; there must be as many.
    pub(super) fn read(&mut self, mut count: usize, out: &mut BytesMut) {
        while count > 0
            && let Some((first, rest)) = self.slices.split_first()
        {
            let left = first.get(self.used..).unwrap_or_default();
            let now = left.get(..count).unwrap_or(left);
            out.extend_from_slice(now);
            count -= now.len();
            self.used += now.len();
            if self.used == first.len() {
                self.slices = rest;
                self.used = 0;
            }
        }
    }
}

/// Rooms that were given back, to be used again: the last first, which the processor's caches may still hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Rooms {
    spare: Arc<Mutex<Spare>>,
}

#[derive(Debug, Default)]
struct Spare {
    rooms: Vec<Box<[u8]>>,
    octets: usize,
    bound: usize,
}

impl Rooms {
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

    /// A room of at least `octets`, with whatever it last held.
    pub(super) fn take(&self, octets: usize) -> Room {
        let wanted = octets.max(BLOCK_OCTETS).next_power_of_two();
        let room = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(wanted + BLOCK_OCTETS);
        let octets = room.unwrap_or_else(|| vec![0; wanted + BLOCK_OCTETS].into_boxed_slice());
        let start = octets.as_ptr().align_offset(BLOCK_OCTETS).min(BLOCK_OCTETS);
        Room {
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
pub(super) struct Room {
    octets: Box<[u8]>,
    start: usize,
    spare: Arc<Mutex<Spare>>,
}

impl Room {
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

impl AsRef<[u8]> for Room {
    fn as_ref(&self) -> &[u8] {
        self.octets.get(self.start..).unwrap_or_default()
    }
}

impl Drop for Room {
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
        let mut rooms = WriteRooms::new(4 * ROOM_OCTETS, BLOCK_OCTETS);
        let mut addresses = std::collections::BTreeSet::new();
        for round in 1..200_usize {
            let octets = round * 7_919 % ROOM_OCTETS;
            let room = rooms.put_together(octets, |room| room.resize(octets, 7));
            let (written, padding) = room.split_at(octets);
            assert!(
                written.iter().all(|octet| *octet == 7) && padding.iter().all(|octet| *octet == 0)
            );
            assert!(room.len().is_multiple_of(BLOCK_OCTETS) && padding.len() < BLOCK_OCTETS);
            assert_eq!(room.as_ptr() as usize % BLOCK_OCTETS, 0);
            addresses.insert(rooms.current.as_ptr() as usize / ROOM_OCTETS);
        }
        assert!(addresses.len() <= 6, "{addresses:?}");
        let kept: Vec<Bytes> = (0..20)
            .map(|_| rooms.put_together(ROOM_OCTETS, |room| room.resize(ROOM_OCTETS, 1)))
            .collect();
        assert!(rooms.full.len() + rooms.free.len() <= rooms.bound);
        assert!(kept.iter().all(|room| room.iter().all(|octet| *octet == 1)));
    }

    #[test]
    fn rooms_are_aligned_and_used_again_within_their_bound() {
        let rooms = Rooms::new(2 * (ROOM_OCTETS + BLOCK_OCTETS));
        let mut taken: Vec<Room> = (0..3).map(|_| rooms.take(ROOM_OCTETS)).collect();
        for room in &mut taken {
            let octets = room.octets_mut(ROOM_OCTETS);
            assert_eq!(octets.len(), ROOM_OCTETS);
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
        let again: Vec<Room> = (0..2).map(|_| rooms.take(ROOM_OCTETS)).collect();
        assert!(again.iter().all(|room| room.as_ref().as_ptr() != address));
        assert_eq!(rooms.spare.lock().unwrap().octets, 0);
        assert_eq!(rooms.take(1).octets_mut(1).len(), 1);
    }
}
