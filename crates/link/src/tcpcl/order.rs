//! Transfers in the order in which they began, found by their ID in constant time.

use alloc::collections::{BTreeMap, VecDeque};

use crate::stream::TransferId;

/// A queue of transfers. Peers number their transfers one after another (RFC 9174 5.2.1), so a
/// transfer's place follows from its distance to the first one; those that are numbered otherwise are
/// found through an index.
#[derive(Debug)]
pub(super) struct TransferOrder<T> {
    entries: VecDeque<Entry<T>>,
    /// Sequence number of the first entry: how many have left the queue.
    first: u64,
    /// The number of entries at the front that are numbered one after another; the rest is in `index`.
    consecutive: usize,
    index: BTreeMap<TransferId, u64>,
}

#[derive(Debug)]
struct Entry<T> {
    transfer: TransferId,
    value: T,
}

impl<T> TransferOrder<T> {
    pub(super) const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            consecutive: 0,
            index: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sequence number of the first entry.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// Sequence number that the next entry will get.
    pub(super) fn next(&self) -> u64 {
        self.first
            .saturating_add(u64::try_from(self.entries.len()).unwrap_or(u64::MAX))
    }

    /// Add a transfer at the end; its sequence number, or `None` when the ID is in the queue already.
    pub(super) fn push(&mut self, transfer: TransferId, value: T) -> Option<u64> {
        if self.sequence(transfer).is_some() {
            return None;
        }
        let sequence = self.next();
        let follows = match self.entries.back() {
            None => true,
            Some(last) => {
                self.consecutive == self.entries.len()
                    && last.transfer.0.checked_add(1) == Some(transfer.0)
            }
        };
        if follows {
            self.consecutive += 1;
        } else {
            self.index.insert(transfer, sequence);
        }
        self.entries.push_back(Entry { transfer, value });
        Some(sequence)
    }

    /// Sequence number of a transfer.
    pub(super) fn sequence(&self, transfer: TransferId) -> Option<u64> {
        let front = self.entries.front()?;
        let distance = transfer.0.wrapping_sub(front.transfer.0);
        if usize::try_from(distance).is_ok_and(|distance| distance < self.consecutive) {
            return Some(self.first.saturating_add(distance));
        }
        self.index.get(&transfer).copied()
    }

    /// The entry with a sequence number.
    pub(super) fn at(&mut self, sequence: u64) -> Option<(TransferId, &mut T)> {
        let place = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.entries
            .get_mut(place)
            .map(|entry| (entry.transfer, &mut entry.value))
    }

    /// The entry with a sequence number, to be looked at.
    pub(super) fn peek(&self, sequence: u64) -> Option<&T> {
        let place = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.entries.get(place).map(|entry| &entry.value)
    }

    /// The entry of a transfer.
    pub(super) fn get(&mut self, transfer: TransferId) -> Option<&mut T> {
        let sequence = self.sequence(transfer)?;
        self.at(sequence).map(|(_, value)| value)
    }

    /// The first entry.
    pub(super) fn front(&mut self) -> Option<(TransferId, &mut T)> {
        self.entries
            .front_mut()
            .map(|entry| (entry.transfer, &mut entry.value))
    }

    /// Remove the first entry.
    pub(super) fn pop_front(&mut self) -> Option<(TransferId, T)> {
        let entry = self.entries.pop_front()?;
        self.first = self.first.saturating_add(1);
        if self.consecutive > 0 {
            self.consecutive -= 1;
        } else {
            self.index.remove(&entry.transfer);
        }
        Some((entry.transfer, entry.value))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any numbering, any mixture of arrivals and departures: the same as a plain list.
        #[test]
        fn any_numbering_finds_the_same_as_a_list(steps in proptest::collection::vec((0_u64..12, any::<bool>()), 0..200)) {
            let mut order = TransferOrder::new();
            let mut list: Vec<(u64, u64)> = Vec::new();
            let mut count = 0_u64;
            for (number, pop) in steps {
                if pop {
                    let expected = if list.is_empty() { None } else { Some(list.remove(0)) };
                    prop_assert_eq!(order.pop_front().map(|(id, value): (TransferId, u64)| (id.0, value)), expected);
                } else {
                    let known = list.iter().any(|(id, _)| *id == number);
                    prop_assert_eq!(order.push(TransferId(number), count).is_none(), known);
                    if !known {
                        list.push((number, count));
                    }
                    count += 1;
                }
                for number in 0..12 {
                    let expected = list.iter().find(|(id, _)| *id == number).map(|(_, value)| *value);
                    prop_assert_eq!(order.get(TransferId(number)).map(|value| *value), expected);
                }
                prop_assert_eq!(order.len(), list.len());
            }
        }
    }

    /// The usual numbering needs no index at all.
    #[test]
    fn consecutive_numbers_stay_out_of_the_index() {
        let mut order = TransferOrder::new();
        for number in 7..1000 {
            order.push(TransferId(number), ());
            if number % 3 == 0 {
                order.pop_front();
            }
        }
        assert!(order.index.is_empty());
    }
}
