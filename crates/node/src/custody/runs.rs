//! [`IdRuns`]: a set of IDs as runs of consecutive ones.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use crate::memory::tree_octets;

/// A set of custody or transmission IDs. Neighbouring ones share a run, so a set of a million may be as small as one of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdRuns {
    /// The last ID of each run, by its first. No run touches another.
    runs: BTreeMap<u64, u64>,
}

impl IdRuns {
    /// A set of one ID.
    pub(super) fn of(id: u64) -> Self {
        Self {
            runs: [(id, id)].into(),
        }
    }

    /// Adds an ID; false where the set has it.
    pub(super) fn insert(&mut self, id: u64) -> bool {
        let Some((first, last)) = self.widened(id) else {
            return false;
        };
        if last > id {
            self.runs.remove(&id.saturating_add(1));
        }
        self.runs.insert(first, last);
        true
    }

    /// The run that an ID would be part of; none where the set has it.
    fn widened(&self, id: u64) -> Option<(u64, u64)> {
        let before = self.runs.range(..=id).next_back();
        let first = match before {
            Some((_, &last)) if last >= id => return None,
            Some((&first, &last)) if last.checked_add(1) == Some(id) => first,
            _ => id,
        };
        let after = id.checked_add(1).and_then(|next| self.runs.get(&next));
        Some((first, after.copied().unwrap_or(id)))
    }

    /// The runs, in order: first and last ID of each.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().map(|(&first, &last)| (first, last))
    }

    /// The runs as they would be with another ID, in order.
    pub(super) fn iter_with(&self, id: u64) -> impl Iterator<Item = (u64, u64)> {
        let (first, last) = self.widened(id).unwrap_or((id, id));
        let is_new = !self.contains(id);
        // If the set has the ID, its run begins at or before it.
        let end = match is_new {
            true => Bound::Excluded(first),
            false => Bound::Included(id),
        };
        let before = self.runs.range((Bound::Unbounded, end));
        let after = self.runs.range((Bound::Excluded(last), Bound::Unbounded));
        let own = is_new.then_some((first, last));
        let copied = |(first, last): (&u64, &u64)| (*first, *last);
        before.map(copied).chain(own).chain(after.map(copied))
    }

    /// The number of runs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// Whether the set has an ID.
    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        let before = self.runs.range(..=id).next_back();
        before.is_some_and(|(_, &last)| last >= id)
    }

    /// The runs, as signals have them.
    pub(super) fn to_vec(&self) -> Vec<(u64, u64)> {
        self.iter().collect()
    }

    /// Octets of memory that it takes.
    pub(super) fn memory_octets(&self) -> usize {
        tree_octets::<(u64, u64)>(self.runs.len())
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn expand(runs: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
        runs.flat_map(|(first, last)| first..=last).collect()
    }

    #[test]
    fn the_last_id_of_all_is_one() {
        let mut ids = IdRuns::of(u64::MAX);
        assert!(!ids.insert(u64::MAX));
        assert!(ids.insert(u64::MAX - 1));
        assert!(ids.insert(0));
        assert_eq!(ids.to_vec(), [(0, 0), (u64::MAX - 1, u64::MAX)]);
        assert!(ids.contains(u64::MAX) && !ids.contains(1));
    }

    proptest! {
        #[test]
        fn runs_are_the_ids_in_as_few_as_there_can_be(ids in proptest::collection::vec(0_u64..40, 0..60)) {
            let (mut runs, mut model) = (IdRuns::default(), BTreeSet::new());
            for id in ids {
                let with: Vec<(u64, u64)> = runs.iter_with(id).collect();
                prop_assert_eq!(runs.contains(id), model.contains(&id));
                prop_assert_eq!(runs.insert(id), model.insert(id));
                prop_assert_eq!(with, runs.to_vec());
                prop_assert_eq!(expand(runs.iter()), Vec::from_iter(model.iter().copied()));
                let all = runs.to_vec();
                prop_assert!(all.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{:?}", all);
                prop_assert_eq!(runs.count(), all.len());
            }
        }
    }
}
