//! Room for small octets that are written one behind the other and given away.

use bytes::{BufMut as _, Bytes, BytesMut};

/// Octets of the first room.
const FIRST_OCTETS: usize = 512;

/// A buffer that is given away piece by piece. It begins small and takes more at a time the more is written, so that
/// what says little keeps little.
#[derive(Debug)]
pub struct SmallBuffer {
    octets: BytesMut,
    next_octets: usize,
    most_octets: usize,
}

impl SmallBuffer {
    /// One that takes at most so many octets at a time, unless more are written at once.
    #[must_use]
    pub fn new(most_octets: usize) -> Self {
        Self {
            octets: BytesMut::new(),
            next_octets: FIRST_OCTETS.min(most_octets),
            most_octets,
        }
    }

    /// True when so many octets can be written and nothing is moved.
    #[must_use]
    pub fn has(&self, octets: usize) -> bool {
        self.octets.capacity().saturating_sub(self.octets.len()) >= octets
    }

    /// Makes room for so many octets behind what is written and not given away.
    pub fn reserve(&mut self, octets: usize) {
        if !self.has(octets) {
            self.octets.reserve(self.next_octets.max(octets));
            self.next_octets = self.next_octets.saturating_mul(2).min(self.most_octets);
        }
    }

    /// Writes octets.
    pub fn put(&mut self, octets: &[u8]) {
        self.octets.put_slice(octets);
    }

    /// The buffer, for a writer of octets behind those that are here.
    pub const fn open(&mut self) -> &mut BytesMut {
        &mut self.octets
    }

    /// Octets that are written and not given away.
    #[must_use]
    pub fn len(&self) -> usize {
        self.octets.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Takes all octets that are written and not given away.
    #[must_use]
    pub fn give(&mut self) -> Bytes {
        self.octets.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_with_what_is_written_and_no_further_than_it_may() {
        let mut room = SmallBuffer::new(4096);
        let mut given = alloc::vec::Vec::new();
        let mut taken = alloc::vec::Vec::new();
        for number in 0..200_u8 {
            if !room.has(100) {
                room.reserve(100);
                taken.push(room.octets.capacity());
            }
            room.put(&[number; 100]);
            given.push(room.give());
        }
        assert!(
            taken.first().is_some_and(|first| *first < 1024),
            "{taken:?}"
        );
        assert!(taken.iter().all(|octets| *octets <= 4096), "{taken:?}");
        assert!(taken.len() < 12, "{taken:?}");
        assert!(
            (0_u8..)
                .zip(&given)
                .all(|(number, it)| it[..] == [number; 100])
        );
    }
}
