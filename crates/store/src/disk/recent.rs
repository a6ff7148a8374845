//! Octets of the log that are in memory: those written last, and those read ahead.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::buffers::BUFFER_OCTETS;

/// Stretches of the log in memory. No two have an octet in common, and what is written is dropped from them first.
#[derive(Debug)]
pub(super) struct Recent {
    /// Stretches by their first octet.
    stretches: BTreeMap<u64, Stretch>,
    /// First octets and numbers, the oldest first; numbers that are gone from `stretches` may still be named.
    order: VecDeque<(u64, u64)>,
    /// The same of those that were read.
    read_order: VecDeque<(u64, u64)>,
    /// Octets of memory that they take.
    octets: u64,
    /// The part of it that octets take which were read.
    read_octets: u64,
    bound: u64,
    /// A stretch takes a multiple of so many octets of memory.
    grain: u64,
    next_number: u64,
    /// The stretch with which the buffer of others was counted that was kept last: its number, and where the buffer begins.
    lent: Option<(u64, usize)>,
}

#[derive(Debug)]
struct Stretch {
    octets: Bytes,
    /// Octets of memory that it takes.
    weight: u64,
    number: u64,
    /// Whether the stretch was read, and did not come to be written.
    is_read: bool,
    /// The place at which to read on once somebody reads here; `None` when that is done, or for written octets.
    leads_to: Option<u64>,
}

/// The finding at a place in the log.
#[derive(Debug)]
pub(super) struct Found {
    /// The octets from the place on.
    pub(super) octets: Bytes,
    /// Octets that were read ahead are being used for the first time: those that follow from here on will be wanted.
    pub(super) leads_to: Option<u64>,
}

fn length(octets: usize) -> u64 {
    u64::try_from(octets).unwrap_or(u64::MAX)
}

impl Recent {
    /// Room for stretches of so many octets, each of which takes a multiple of `grain`.
    pub(super) fn new(bound: u64, grain: u64) -> Self {
        Self {
            stretches: BTreeMap::new(),
            order: VecDeque::new(),
            read_order: VecDeque::new(),
            octets: 0,
            read_octets: 0,
            bound,
            grain,
            next_number: 0,
            lent: None,
        }
    }

    /// The octets from `offset` on, at most `most`.
    pub(super) fn find(&mut self, offset: u64, most: u64) -> Option<Found> {
        let (start, stretch) = self.stretches.range_mut(..=offset).next_back()?;
        let skipped = usize::try_from(offset - start).ok()?;
        let left = stretch
            .octets
            .len()
            .checked_sub(skipped)
            .filter(|left| *left > 0)?;
        let count = usize::try_from(most).unwrap_or(usize::MAX).min(left);
        let found = Found {
            octets: stretch.octets.slice(skipped..skipped + count),
            leads_to: stretch.leads_to.take(),
        };
        let start = *start;
        if found.leads_to.is_some() {
            self.finish_before(start);
        }
        Some(found)
    }

    /// A reader that reads on has come to `offset`: octets read and used before it go first.
    fn finish_before(&mut self, offset: u64) {
        let before = self.stretches.range(..offset).next_back();
        if let Some((start, stretch)) = before
            && stretch.is_read
            && stretch.leads_to.is_none()
            && start + length(stretch.octets.len()) == offset
        {
            self.read_order.push_front((*start, stretch.number));
            self.tidy();
        }
    }

    /// The end of the stretch that holds the octet at `offset`.
    pub(super) fn end_of(&self, offset: u64) -> Option<u64> {
        let (start, stretch) = self.stretches.range(..=offset).next_back()?;
        Some(start + length(stretch.octets.len())).filter(|end| *end > offset)
    }

    /// Keep octets that were written at `offset`.
    pub(super) fn keep(&mut self, offset: u64, octets: Bytes) {
        self.forget(offset, offset.saturating_add(length(octets.len())));
        let weight = self.weight(&octets);
        self.add(offset, octets, weight, None);
    }

    /// The same for octets in a buffer of others, which stays as long as they do, whatever else was in it: all of it counts with
    /// the first of its stretches, and where it is not known where it begins, with each.
    pub(super) fn keep_lent(&mut self, offset: u64, octets: Bytes, base: Option<usize>) {
        self.forget(offset, offset.saturating_add(length(octets.len())));
        let is_counted = base.is_some() && self.lent.is_some_and(|(_, last)| base == Some(last));
        let weight = if is_counted {
            0
        } else {
            self.lent = base.map(|base| (self.next_number, base));
            length(octets.len().max(BUFFER_OCTETS))
        };
        self.add(offset, octets, weight, None);
    }

    /// Keep octets that were read at `offset`, as far as nothing is there yet.
    pub(super) fn keep_read(&mut self, offset: u64, mut octets: Bytes) {
        if self.end_of(offset).is_some() {
            return;
        }
        if let Some((next, _)) = self.stretches.range(offset..).next() {
            octets.truncate(usize::try_from(next - offset).unwrap_or(usize::MAX));
        }
        let end = offset.saturating_add(length(octets.len()));
        let weight = self.weight(&octets);
        self.add(offset, octets, weight, Some(end));
    }

    fn add(&mut self, offset: u64, octets: Bytes, weight: u64, leads_to: Option<u64>) {
        let number = self.next_number;
        self.next_number += 1;
        let bound = match leads_to {
            Some(_) => self.read_bound(),
            None => self.bound,
        };
        if octets.is_empty() || weight > bound {
            return;
        }
        self.octets += weight;
        let is_read = leads_to.is_some();
        self.read_octets += if is_read { weight } else { 0 };
        let order = match is_read {
            true => &mut self.read_order,
            false => &mut self.order,
        };
        order.push_back((offset, number));
        self.stretches.insert(
            offset,
            Stretch {
                octets,
                weight,
                number,
                is_read,
                leads_to,
            },
        );
        while self.octets > self.bound || self.read_octets > self.read_bound() {
            let is_read_oldest = match (self.order.front(), self.read_order.front()) {
                (Some((_, written)), Some((_, read))) => read < written,
                (None, _) => true,
                (_, None) => false,
            };
            let is_read = is_read_oldest || self.read_octets > self.read_bound();
            let order = match is_read {
                true => &mut self.read_order,
                false => &mut self.order,
            };
            let Some((offset, number)) = order.pop_front() else {
                break;
            };
            if self
                .stretches
                .get(&offset)
                .is_some_and(|it| it.number == number)
            {
                self.remove(offset);
            }
        }
        self.tidy();
    }

    /// Names no more stretches that are gone than stretches that are there, about.
    fn tidy(&mut self) {
        let stretches = &self.stretches;
        for order in [&mut self.order, &mut self.read_order] {
            if order.len() > 2 * stretches.len() + SLACK {
                let is_there = |&(offset, number): &(u64, u64)| {
                    stretches.get(&offset).is_some_and(|it| it.number == number)
                };
                order.retain(is_there);
            }
        }
    }

    /// The memory that octets may take which were read.
    pub(super) const fn read_bound(&self) -> u64 {
        self.bound / READ_PART
    }

    /// The memory that octets take which were read.
    pub(super) const fn read_octets(&self) -> u64 {
        self.read_octets
    }

    /// Let go of all octets.
    pub(super) fn clear(&mut self) {
        self.stretches.clear();
        (self.order, self.read_order) = (VecDeque::new(), VecDeque::new());
        (self.octets, self.read_octets, self.lent) = (0, 0, None);
    }

    /// Drop everything that has an octet between `start` and `end`.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        while let Some((offset, stretch)) = self.stretches.range(..end).next_back()
            && offset + length(stretch.octets.len()) > start
        {
            let offset = *offset;
            self.remove(offset);
        }
        self.tidy();
    }

    fn weight(&self, octets: &Bytes) -> u64 {
        length(octets.len()).next_multiple_of(self.grain)
    }

    fn remove(&mut self, offset: u64) {
        if let Some(stretch) = self.stretches.remove(&offset) {
            self.octets -= stretch.weight;
            self.read_octets -= if stretch.is_read { stretch.weight } else { 0 };
            // The buffer may be used again, and counts anew.
            self.lent = self.lent.filter(|(number, _)| *number != stretch.number);
        }
    }
}

/// The part of the memory that what was read may have is one of so many: it is used once, soon after it was read, and nearly never again.
const READ_PART: u64 = 4;

/// Names of stretches that are gone, before they are looked for.
const SLACK: usize = 64;

#[cfg(test)]
#[allow(clippy::as_conversions, reason = "small numbers")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Octets are written, read ahead and dropped in any order: those found are the log's, and no more than the bound.
        #[test]
        fn what_is_found_is_what_was_written_last(
            bound in 1_u64..400,
            steps in proptest::collection::vec((0_u8..4, 0_usize..300, 1_usize..80), 0..200),
        ) {
            let mut log = vec![0_u8; 400];
            let mut recent = Recent::new(bound, 1);
            for (value, (step, offset, count)) in (1_u8..).cycle().zip(steps) {
                let end = offset + count;
                match step {
                    0 => {
                        log[offset..end].fill(value);
                        recent.keep(offset as u64, Bytes::copy_from_slice(&log[offset..end]));
                    }
                    1 => recent.keep_read(offset as u64, Bytes::copy_from_slice(&log[offset..end])),
                    2 => {
                        recent.forget(offset as u64, end as u64);
                        log[offset..end].fill(value);
                    }
                    _ => {}
                }
                for place in 0..log.len() {
                    let found = recent.find(place as u64, count as u64);
                    prop_assert_eq!(recent.end_of(place as u64).is_some(), found.is_some());
                    if let Some(found) = found {
                        prop_assert!(!found.octets.is_empty() && found.octets.len() <= count);
                        prop_assert_eq!(&found.octets[..], &log[place..place + found.octets.len()]);
                    }
                }
                let held: u64 = recent.stretches.values().map(|it| it.weight).sum();
                prop_assert!(held == recent.octets && recent.octets <= bound);
                let read = recent.stretches.values().filter(|it| it.is_read);
                prop_assert_eq!(read.map(|it| it.weight).sum::<u64>(), recent.read_octets());
                prop_assert!(recent.read_octets <= bound / READ_PART);
                for order in [&recent.order, &recent.read_order] {
                    prop_assert!(order.len() <= 2 * recent.stretches.len() + SLACK);
                }
            }
        }
    }

    #[test]
    fn what_was_read_ahead_leads_on_once() {
        let mut recent = Recent::new(100, 4);
        recent.keep_read(10, Bytes::from_static(b"ahead"));
        recent.keep(15, Bytes::from_static(b"written"));
        assert_eq!(recent.find(12, 2).unwrap().leads_to, Some(15));
        assert_eq!(recent.find(12, 2).unwrap().leads_to, None);
        assert_eq!(recent.find(15, 2).unwrap().leads_to, None);
    }

    #[test]
    fn what_was_read_and_used_goes_before_what_waits_for_its_reader() {
        let mut recent = Recent::new(40, 1);
        // Two readers have five octets ahead of them, and the second one reads on.
        recent.keep_read(0, Bytes::from_static(b"first"));
        recent.keep_read(20, Bytes::from_static(b"one"));
        assert!(recent.find(20, 3).is_some());
        recent.keep_read(23, Bytes::from_static(b"2"));
        assert!(recent.find(23, 1).is_some());
        recent.keep_read(24, Bytes::from_static(b"3rd"));
        let left = [0, 20, 23, 24].map(|offset| recent.end_of(offset).is_some());
        assert_eq!(left, [true, false, true, true]);
    }

    #[test]
    fn a_buffer_of_others_counts_whole_and_once() {
        const WHOLE: u64 = BUFFER_OCTETS as u64;
        let mut recent = Recent::new(2 * WHOLE, 1);
        let octets = Bytes::from(vec![1; 2 * BUFFER_OCTETS]);
        let (first, second) = (Some(1 << 20), Some(2 << 20));
        recent.keep_lent(0, octets.slice(..10), first);
        recent.keep_lent(10, octets.slice(500..600), first);
        assert_eq!(recent.octets, WHOLE);
        // A buffer that is used again once nobody has anything of it counts as often as it is kept.
        recent.forget(0, 110);
        assert_eq!(recent.octets, 0);
        recent.keep_lent(200, octets.slice(..10), first);
        recent.keep_lent(300, octets.slice(700..750), second);
        assert_eq!(recent.octets, 2 * WHOLE);
        // The oldest goes for more.
        recent.keep(400, Bytes::from_static(b"more"));
        assert_eq!((recent.end_of(200), recent.octets), (None, WHOLE + 4));
        recent.keep_lent(500, octets.slice(..5), None);
        recent.keep_lent(600, octets.slice(..BUFFER_OCTETS + 1), None);
        assert_eq!(recent.octets, WHOLE + 1, "nobody knows what others have");
    }
}
