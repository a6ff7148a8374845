//! Values under numbers that are given out one after another, and answered in about that order.

use alloc::collections::VecDeque;

/// Values by consecutive numbers. Its room is that from the oldest value to the newest: the caller sees to it that
/// the oldest is answered some time.
#[derive(Debug)]
pub(crate) struct Series<T> {
    values: VecDeque<Option<T>>,
    /// The number of the first item.
    first: u64,
    count: usize,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self {
            values: VecDeque::new(),
            first: 0,
            count: 0,
        }
    }
}

impl<T> Series<T> {
    /// Add a value under the number that follows the one before.
    pub(crate) fn push(&mut self, number: u64, value: T) {
        if self.values.is_empty() {
            self.first = number;
        }
        let next = u64::try_from(self.values.len()).ok();
        let next = next.and_then(|length| self.first.checked_add(length));
        assert!(next == Some(number), "numbers follow each other");
        self.values.push_back(Some(value));
        self.count += 1;
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number)?;
        let value = self.values.get_mut(place)?.take()?;
        self.count -= 1;
        while let Some(None) = self.values.front() {
            self.values.pop_front();
            self.first += 1;
        }
        Some(value)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        self.values.get(self.place(number)?)?.as_ref()
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn contains(&self, number: u64) -> bool {
        let place = self.place(number);
        place.is_some_and(|place| matches!(self.values.get(place), Some(Some(_))))
    }

    /// All values in the order of their numbers.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }

    /// All values in the order of their numbers, taken out.
    pub(crate) fn into_values(self) -> impl DoubleEndedIterator<Item = T> {
        self.values.into_iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_are_found_as_in_a_map(steps in proptest::collection::vec((any::<bool>(), 0_u64..40), 0..200)) {
            let (mut series, mut map) = (Series::default(), BTreeMap::new());
            let mut next = 7;
            for (add, number) in steps {
                if add {
                    series.push(next, number);
                    map.insert(next, number);
                    next += 1;
                } else {
                    prop_assert_eq!(series.remove(number), map.remove(&number));
                }
                prop_assert!((0..50).all(|number| series.contains(number) == map.contains_key(&number)));
                prop_assert_eq!(series.len(), map.len());
                prop_assert_eq!(series.is_empty(), map.is_empty());
                prop_assert!(series.values().eq(map.values()));
                let oldest = map.keys().next().map_or(0, |oldest| next - oldest);
                prop_assert_eq!(u64::try_from(series.values.len()).unwrap(), oldest);
            }
            let left: Vec<u64> = series.into_values().collect();
            prop_assert!(left.iter().eq(map.values()));
        }
    }
}
