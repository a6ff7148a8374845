//! Copies that came a moment ago from one of several neighbours: the others may have been given the same, and say so in their next adverts.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use dhow_bundle::{Instant, NodeId};

use crate::memory::tree_octets;

/// The time for which such a copy is given to nobody else but its destination's node: an advert is made in less than half of it.
pub(super) const FRESH: Duration = Duration::from_millis(250);

/// Copies that are kept back, at most. Of more, those that come then are not.
const FRESH_BOUND: usize = 1_024;

/// Those of a node. Their numbers are used once.
#[derive(Default)]
pub(super) struct FreshCopies {
    /// By number, with the node that each is for, where that is a single one.
    copies: BTreeMap<u64, Option<NodeId>>,
    /// Until when each is, in the order in which they came.
    until: VecDeque<(Instant, u64)>,
    /// Those that came since the time was known.
    came: VecDeque<u64>,
}

impl FreshCopies {
    /// One has come.
    pub(super) fn add(&mut self, number: u64, destination: Option<&NodeId>) {
        if self.copies.len() < FRESH_BOUND {
            self.copies.insert(number, destination.cloned());
            self.came.push_back(number);
        }
    }

    /// Time has passed: those that came are kept from now on, and those whose time is over are not.
    pub(super) fn look(&mut self, now: Instant) {
        let until = self.came.drain(..).map(|number| (now + FRESH, number));
        self.until.extend(until);
        while let Some(&(at, number)) = self.until.front()
            && at <= now
        {
            self.until.pop_front();
            self.copies.remove(&number);
        }
    }

    /// Whether a copy is kept from a neighbour.
    pub(super) fn keeps(&self, number: u64, neighbour: &NodeId) -> bool {
        let copy = self.copies.get(&number);
        copy.is_some_and(|destination| destination.as_ref() != Some(neighbour))
    }

    /// When the next is kept no more.
    pub(super) fn wakes(&self) -> Option<Instant> {
        self.until.front().map(|(at, _)| *at)
    }

    /// Octets of memory that they take.
    pub(super) fn memory_octets(&self) -> usize {
        tree_octets::<(u64, Option<NodeId>)>(self.copies.len())
            + self.until.capacity() * size_of::<(Instant, u64)>()
            + self.came.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_kept_for_a_moment_but_not_from_its_destination() {
        let [here, there]: [NodeId; 2] = ["ipn:2.0", "ipn:3.0"].map(|it| it.parse().unwrap());
        let mut fresh = FreshCopies::default();
        let at = |ms| Instant::START + Duration::from_millis(ms);
        fresh.add(1, Some(&there));
        assert_eq!(fresh.wakes(), None, "the time is not known yet");
        fresh.look(at(1_000));
        assert!(fresh.keeps(1, &here) && !fresh.keeps(1, &there) && !fresh.keeps(2, &here));
        assert_eq!(fresh.wakes(), Some(at(1_250)));
        fresh.look(at(1_249));
        assert!(fresh.keeps(1, &here));
        fresh.look(at(1_250));
        assert!(!fresh.keeps(1, &here));
        assert_eq!(fresh.wakes(), None);
    }

    #[test]
    fn of_too_many_copies_those_that_come_last_are_not_kept() {
        let here: NodeId = "ipn:2.0".parse().unwrap();
        let mut fresh = FreshCopies::default();
        for number in 0..1_025 {
            fresh.add(number, None);
        }
        assert!(fresh.keeps(1_023, &here) && !fresh.keeps(1_024, &here));
    }
}
