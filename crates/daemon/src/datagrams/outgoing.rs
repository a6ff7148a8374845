//! Datagrams on their way into a socket.

use std::io::IoSlice;
use std::ops::Range;

use bytes::Bytes;
use dhow_link::Batch;
use dhow_link::datagram::Limit;
use dhow_node::driver::StreamId;

use super::seal::SegmentKey;
use crate::core::Core;

/// Datagrams that are polled at a time: a system call carries much, and others of the thread wait for little.
pub const POLLED: Limit = Limit {
    datagrams: 1_024,
    octets: 512 << 10,
};

/// Datagrams that the system takes as one and cuts itself, at most (`UDP_MAX_SEGMENTS` of older kernels, and the largest packet of IPv4).
const TOGETHER: Limit = Limit {
    datagrams: 64,
    octets: 65_507,
};

/// Each datagram by itself.
const ALONE: Limit = Limit {
    datagrams: 1,
    octets: 0,
};

/// Whether the system cuts datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cutting {
    /// The system takes many of one size as one, and cuts them.
    Done,
    /// The system takes each datagram by itself.
    NotDone,
}

/// Datagrams that are one message for the system: one, or several of one size of which the last may be shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burst {
    pieces: Range<usize>,
    /// Octets of each datagram but the last.
    size: u64,
    datagrams: usize,
}

impl Burst {
    /// The size to which the system is to cut it, if it is to.
    #[must_use]
    pub fn cut(&self) -> Option<u16> {
        let size = u16::try_from(self.size).ok();
        size.filter(|_| self.datagrams > 1)
    }

    /// The number of datagrams.
    #[must_use]
    pub const fn datagrams(&self) -> usize {
        self.datagrams
    }

    /// Octets of its longest datagram.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }
}

/// Datagrams that were polled and have not left.
#[derive(Debug, Default)]
pub struct Outgoing {
    batch: Batch,
    /// The octets of all datagrams, in order.
    octets: Vec<Bytes>,
    bursts: Vec<Burst>,
    /// Bursts before this one have left.
    next: usize,
}

impl Outgoing {
    /// Takes what a conversation has to send, once all before has left; false when the disk did not give octets that are stored.
    /// Each of them is sealed where there is a key.
    pub fn refill(
        &mut self,
        core: &Core,
        stream: StreamId,
        cutting: Cutting,
        key: Option<&SegmentKey>,
    ) -> bool {
        let poll = |batch: &mut Batch, octets: &mut Vec<Bytes>| {
            let is_read = core.poll_datagrams(stream, POLLED, batch, octets);
            if let Some(key) = key.filter(|_| is_read) {
                key.seal(batch, octets);
            }
            is_read
        };
        self.fill(cutting, poll)
    }

    /// Takes what `poll` gives, a batch and its octets, once all before has left; false when octets of the batch are missing, as `poll`
    /// says or by their count.
    pub fn fill(
        &mut self,
        cutting: Cutting,
        poll: impl FnOnce(&mut Batch, &mut Vec<Bytes>) -> bool,
    ) -> bool {
        assert!(
            self.is_empty(),
            "datagrams are polled only when those before have left"
        );
        self.clear();
        let is_read = poll(&mut self.batch, &mut self.octets);
        self.lay_out(cutting);
        let octets: usize = self.octets.iter().map(Bytes::len).sum();
        is_read && u64::try_from(octets) == Ok(self.batch.octets())
    }

    /// Sends each of those that have not left by itself.
    pub fn part(&mut self) {
        self.lay_out(Cutting::NotDone);
    }

    fn lay_out(&mut self, cutting: Cutting) {
        let left = self.bursts.get(..self.next).unwrap_or_default();
        let left = left.iter().map(Burst::datagrams).sum();
        let most = match cutting {
            Cutting::Done => TOGETHER,
            Cutting::NotDone => ALONE,
        };
        let mut pieces = self.octets.iter().zip(0..).peekable();
        let bursts = self.batch.runs(most).map(|run| {
            let start = pieces.peek().map_or(self.octets.len(), |(_, at)| *at);
            let (mut octets, mut end) = (0_u64, start);
            while octets < run.octets
                && let Some((piece, at)) = pieces.next()
            {
                octets += u64::try_from(piece.len()).unwrap_or(u64::MAX);
                end = at + 1;
            }
            Burst {
                pieces: start..end,
                size: run.size,
                datagrams: run.datagrams,
            }
        });
        self.bursts = bursts.collect();
        self.next = left;
    }

    /// True when all have left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next >= self.bursts.len()
    }

    /// The bursts that have not left.
    #[must_use]
    pub fn bursts(&self) -> &[Burst] {
        self.bursts.get(self.next..).unwrap_or_default()
    }

    /// The octets of a burst.
    pub fn slices(&self, burst: &Burst) -> Vec<IoSlice<'_>> {
        let pieces = self.octets.get(burst.pieces.clone()).unwrap_or_default();
        pieces.iter().map(|piece| IoSlice::new(piece)).collect()
    }

    /// So many bursts have left; how many datagrams these were comes back.
    pub fn advance(&mut self, bursts: usize) -> u64 {
        let gone = self.bursts().get(..bursts).unwrap_or_default();
        let datagrams: usize = gone.iter().map(Burst::datagrams).sum();
        self.next += gone.len();
        if self.is_empty() {
            self.clear();
        }
        u64::try_from(datagrams).unwrap_or(u64::MAX)
    }

    /// Lets go of all datagrams.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.octets.clear();
        self.bursts.clear();
        self.next = 0;
    }
}

#[cfg(test)]
impl Outgoing {
    /// These datagrams, whose octets lie in two pieces.
    pub(super) fn of(datagrams: &[Vec<u8>], cutting: Cutting) -> Self {
        let mut outgoing = Self::default();
        for datagram in datagrams {
            let (before, behind) = datagram.split_at(datagram.len() / 3);
            for piece in [before, behind].into_iter().filter(|it| !it.is_empty()) {
                let piece = Bytes::copy_from_slice(piece);
                let pushed = dhow_bundle::storage::Piece::Octets(piece.clone());
                outgoing.batch.push(pushed);
                outgoing.octets.push(piece);
            }
            outgoing.batch.end_datagram();
        }
        outgoing.lay_out(cutting);
        outgoing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(outgoing: &Outgoing) -> Vec<(Option<u16>, usize, usize)> {
        let octets = |burst| outgoing.slices(burst).iter().map(|it| it.len()).sum();
        let bursts = outgoing.bursts().iter();
        bursts
            .map(|burst| (burst.cut(), burst.datagrams(), octets(burst)))
            .collect()
    }

    #[test]
    fn equal_datagrams_are_one_burst_and_can_be_parted_when_some_have_left() {
        let datagrams = [10, 10, 4, 9, 9].map(|size| vec![7; size]);
        let mut outgoing = Outgoing::of(&datagrams, Cutting::Done);
        assert_eq!(shape(&outgoing), [(Some(10), 3, 24), (Some(9), 2, 18)]);
        assert_eq!(outgoing.advance(1), 3);
        outgoing.part();
        assert_eq!(shape(&outgoing), [(None, 1, 9), (None, 1, 9)]);
        assert_eq!(outgoing.advance(2), 2);
        assert!(outgoing.is_empty() && outgoing.octets.is_empty());
    }
}
