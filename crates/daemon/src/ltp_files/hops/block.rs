//! A block that is here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use dhow_bundle::Instant;
use dhow_link::ltp::{EndToEnd, Ends, IncomingBlock};
use dhow_link::stream::TransferId;

use super::super::arriving::ArrivingFile;
use super::super::peer::{Incoming, PeerId};

/// A block, from its first octet until nobody needs it.
#[derive(Debug)]
pub(super) struct Block {
    /// Its part for all hops, as it came; `None` until the start of the block is there, and in a block for this hop alone.
    pub(super) end_to_end: Option<EndToEnd>,
    /// Its fate.
    pub(super) fate: Fate,
    /// The session in which it comes, and its number.
    pub(super) inward: Option<(Incoming, u64)>,
    pub(super) ends: Ends,
    /// The smallest offset of a green segment that came.
    pub(super) green: Option<u64>,
    pub(super) came: Came,
    /// Its file, while it comes.
    pub(super) file: Option<ArrivingFile>,
    /// Its file, once it is durable. One without is of use to nobody after a restart.
    pub(super) path: Option<PathBuf>,
    /// Its octets, where it was made here: it is a report.
    pub(super) octets: Option<Bytes>,
    /// The file of the block that it reports on, as long as the report is not durable: after a restart nobody else would make it.
    pub(super) given_up: Option<PathBuf>,
    pub(super) began: Instant,
    /// When its life ends.
    pub(super) deadline: Instant,
    /// Its session with the next hop.
    pub(super) outward: Option<Outward>,
    /// When it is to leave again.
    pub(super) again: Option<Instant>,
    /// Whether the next hop had no room for the block.
    pub(super) had_no_room: bool,
    /// Whether the next hop has the block.
    pub(super) is_passed: bool,
    /// The file that it is, of those that are sent.
    pub(super) order: Option<usize>,
}

/// The fate of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody knows yet.
    Unknown,
    /// The block becomes a file here.
    Keep,
    /// The block leaves for another engine.
    PassOn,
    /// The block is a report for this engine.
    Report,
}

/// The session of a block with its next hop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outward {
    pub(super) peer: PeerId,
    pub(super) transfer: TransferId,
    pub(super) session: u64,
    /// Octets given to the session.
    pub(super) supplied: u64,
    /// The ends that it was told of.
    pub(super) ends: Ends,
}

/// The octets of a block that came.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// Parts by their start, none touching the next. The engine bounds them (`gaps`).
    parts: BTreeMap<u64, u64>,
    octets: u64,
}

impl Came {
    /// Octets came that were not there before.
    pub(super) fn add(&mut self, offset: u64, length: u64) {
        self.octets += length;
        let (mut start, mut end) = (offset, offset.saturating_add(length));
        if let Some((before, upto)) = self.parts.range(..offset).next_back()
            && *upto == offset
        {
            start = *before;
        }
        if let Some(behind) = self.parts.remove(&end) {
            end = behind;
        }
        self.parts.insert(start, end);
    }

    /// The offset behind the last octet.
    pub(super) fn end(&self) -> u64 {
        self.parts.last_key_value().map_or(0, |(_, end)| *end)
    }

    /// Octets, wherever they lie.
    pub(super) const fn octets(&self) -> u64 {
        self.octets
    }

    /// Octets from the start without a gap.
    pub(super) fn prefix(&self) -> u64 {
        self.parts.get(&0).copied().unwrap_or(0)
    }

    /// Offset and length of each part.
    pub(super) fn claims(&self) -> Vec<(u64, u64)> {
        let parts = self.parts.iter();
        parts.map(|(start, end)| (*start, end - start)).collect()
    }
}

impl Block {
    /// A block of which nothing is known.
    pub(super) fn new(now: Instant, deadline: Instant) -> Self {
        Self {
            end_to_end: None,
            fate: Fate::Unknown,
            inward: None,
            ends: Ends::default(),
            green: None,
            came: Came::default(),
            file: None,
            path: None,
            octets: None,
            given_up: None,
            began: now,
            deadline,
            outward: None,
            again: None,
            had_no_room: false,
            is_passed: false,
            order: None,
        }
    }

    /// Octets from the start that may leave: the last octet of a part waits until its end is known, since the segment that holds it
    /// says so. A peer may say that the block ends where its red part does after it said where that ends.
    pub(super) fn may_leave(&self) -> u64 {
        let prefix = self.came.prefix();
        match (self.ends.red, self.ends.length) {
            (Some(_), Some(_)) => prefix,
            (Some(_), None) => prefix.saturating_sub(1),
            (None, _) => {
                let red = self.green.map_or(prefix, |green| green.min(prefix));
                red.saturating_sub(1)
            }
        }
    }

    /// Take what the engine knows of its parts. The first word stands, since octets may have left by it.
    pub(super) fn know(&mut self, told: &IncomingBlock) {
        self.ends.red = self.ends.red.or(told.ends.red);
        self.ends.length = self.ends.length.or(told.ends.length);
        self.green = told.green;
        if self.ends.length == Some(self.came.octets()) {
            // The end of the red part was never said: it is where green octets begin.
            let red = self.ends.red.or(self.green);
            self.ends.red = red.or(self.ends.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_any_order_are_one() {
        let mut came = Came::default();
        for (offset, length) in [(10, 5), (0, 3), (20, 1), (15, 5), (3, 7)] {
            came.add(offset, length);
        }
        assert_eq!((came.prefix(), came.octets()), (21, 21));
        assert_eq!(came.claims(), [(0, 21)]);
        came.add(30, 2);
        assert_eq!((came.prefix(), came.claims().len()), (21, 2));
        assert_eq!((came.end(), Came::default().end()), (32, 0));
    }

    fn told(red: Option<u64>, length: Option<u64>, green: Option<u64>) -> IncomingBlock {
        IncomingBlock {
            session: 1,
            end_to_end: None,
            ends: Ends { red, length },
            green,
        }
    }

    #[test]
    fn the_last_octet_of_a_part_waits_for_its_end() {
        let mut block = Block::new(Instant::START, Instant::START);
        assert_eq!(block.may_leave(), 0);
        block.came.add(0, 10);
        block.know(&told(None, None, None));
        assert_eq!(block.may_leave(), 9);
        block.know(&told(Some(10), None, None));
        assert_eq!(block.may_leave(), 9, "the block may end there");
        block.came.add(10, 5);
        block.know(&told(Some(10), None, Some(10)));
        assert_eq!(block.may_leave(), 14);
        block.know(&told(Some(10), Some(15), Some(10)));
        assert_eq!(block.may_leave(), 15);
    }

    #[test]
    fn green_octets_wait_where_the_end_of_the_red_part_was_not_said() {
        let mut block = Block::new(Instant::START, Instant::START);
        block.came.add(0, 30);
        block.know(&told(None, Some(40), Some(10)));
        assert_eq!(block.may_leave(), 9);
        block.came.add(30, 10);
        block.know(&told(None, Some(40), Some(10)));
        assert_eq!((block.ends.red, block.may_leave()), (Some(10), 40));
        // Another word comes too late.
        block.know(&told(Some(20), Some(40), Some(10)));
        assert_eq!(block.ends.red, Some(10));
    }
}
