//! The times that bundles spent in stores, of those that nodes deleted.

use std::collections::BTreeMap;
use std::time::Duration;

/// The binary digits of a time in milliseconds that are told apart: medians are right to one part in 512.
const DIGITS: u32 = 10;

/// Times of bundles of the scenario's traffic, from when a store had them until their node deleted them: not those that are still there, not parts of
/// bundles, and not those at the nodes that they were for.
#[derive(Clone, Debug, Default)]
pub struct StoreTimes {
    count: u64,
    sum: Duration,
    /// Times by their first digits, milliseconds: 512 entries for each power of two, about 12,000 in 30 years.
    counts: BTreeMap<u64, u64>,
}

impl StoreTimes {
    /// Adds a bundle that was deleted after this time.
    pub(crate) fn add(&mut self, time: Duration) {
        self.count += 1;
        self.sum = self.sum.saturating_add(time);
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let idle = (u64::BITS - millis.leading_zeros()).saturating_sub(DIGITS);
        *self.counts.entry(millis >> idle << idle).or_default() += 1;
    }

    /// The number of bundles.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean; nothing of no bundle.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let count = u32::try_from(self.count).unwrap_or(u32::MAX);
        self.sum.checked_div(count)
    }

    /// The median, the lower of two; nothing of no bundle.
    #[must_use]
    pub fn median(&self) -> Option<Duration> {
        let rank = self.count.div_ceil(2);
        let mut below = 0;
        let mut counts = self.counts.iter();
        let found = counts.find(|(_, count)| {
            below += **count;
            below >= rank
        });
        found.map(|(millis, _)| Duration::from_millis(*millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_mean_and_a_median() {
        let mut times = StoreTimes::default();
        assert_eq!((times.mean(), times.median()), (None, None));
        for seconds in [10, 1, 4, 2] {
            times.add(Duration::from_secs(seconds));
        }
        assert_eq!(times.count(), 4);
        assert_eq!(times.mean(), Some(Duration::from_millis(4_250)));
        let median = times.median().expect("there is one").as_secs_f64();
        assert!((median - 2.0).abs() <= 2.0 / 512.0, "{median}");
    }

    #[test]
    fn long_times_keep_their_first_digits() {
        let mut times = StoreTimes::default();
        times.add(Duration::MAX);
        times.add(Duration::MAX);
        times.add(Duration::from_secs(43_210));
        assert_eq!(times.counts.len(), 2);
        let mut one = StoreTimes::default();
        one.add(Duration::from_secs(43_210));
        let median = one.median().expect("there is one").as_secs_f64();
        assert!((43_210.0 - median) / 43_210.0 < 1.0 / 512.0, "{median}");
    }
}
