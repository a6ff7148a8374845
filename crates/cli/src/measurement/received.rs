//! The summaries of a measurement, put together.

use std::collections::BTreeMap;
use std::time::Duration;

use dhow_node::perf::wire::{Delays, RunId, Summary};

/// Counts that are kept, at most: one more for each restart of the service's node.
const COUNTS_MAX: usize = 1024;

/// The newest summary of each count of a measurement.
#[derive(Clone, Debug, Default)]
pub struct Received {
    counts: BTreeMap<[u64; 2], Summary>,
}

/// Sums over all counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bundles that came.
    pub bundles: u64,
    /// Octets of their payloads.
    pub octets: u64,
    /// Bundles that came again.
    pub repeated: u64,
    /// Bundles that may have come before.
    pub uncertain: u64,
    /// The receiver's time from the first bundle to the last.
    pub span: Duration,
    /// The delays from creation to the service.
    pub delays: Delays,
}

impl Received {
    /// A summary came; true when it tells more than was known.
    pub fn take(&mut self, run: &RunId, summary: Summary) -> bool {
        if summary.run != *run {
            return false;
        }
        let is_known = self
            .counts
            .get(&summary.count)
            .is_some_and(|known| known.number >= summary.number);
        if is_known
            || (self.counts.len() >= COUNTS_MAX && !self.counts.contains_key(&summary.count))
        {
            return false;
        }
        self.counts.insert(summary.count, summary);
        true
    }

    /// True once the service has answered.
    pub fn is_answered(&self) -> bool {
        !self.counts.is_empty()
    }

    /// The number of times that the service's node was started again.
    pub fn restarts(&self) -> usize {
        self.counts.len().saturating_sub(1)
    }

    /// The totals of all bundles that came.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for summary in self.counts.values() {
            totals.bundles = totals.bundles.saturating_add(summary.bundles);
            totals.octets = totals.octets.saturating_add(summary.octets);
            totals.repeated = totals.repeated.saturating_add(summary.repeated);
            totals.uncertain = totals.uncertain.saturating_add(summary.uncertain);
            totals.span = totals
                .span
                .saturating_add(Duration::from_micros(summary.span_us));
            let (all, more) = (&mut totals.delays, summary.delays);
            if more.count > 0 {
                let first = all.count == 0;
                all.min_ms = if first {
                    more.min_ms
                } else {
                    all.min_ms.min(more.min_ms)
                };
                all.max_ms = if first {
                    more.max_ms
                } else {
                    all.max_ms.max(more.max_ms)
                };
                all.sum_ms = all.sum_ms.saturating_add(more.sum_ms);
                all.count = all.count.saturating_add(more.count);
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(count: u64, number: u32, bundles: u64) -> Summary {
        let mut delays = Delays::default();
        delays.add(i64::try_from(bundles).unwrap());
        Summary {
            run: [1; 16],
            number,
            count: [count, 0],
            bundles,
            octets: bundles * 100,
            span_us: bundles,
            delays,
            ..Summary::default()
        }
    }

    #[test]
    fn the_newest_summary_of_each_count_tells_whatever_the_order() {
        let mut received = Received::default();
        for (summary, is_news) in [
            (summary(5, 1, 20), true),
            (summary(5, 0, 10), false),
            (summary(9, 0, 3), true),
            (summary(5, 2, 30), true),
            (summary(5, 2, 30), false),
        ] {
            assert_eq!(received.take(&[1; 16], summary), is_news);
        }
        assert!(!received.take(&[2; 16], summary(5, 9, 99)));
        let totals = received.totals();
        assert_eq!(
            (
                totals.bundles,
                totals.octets,
                totals.span.as_micros(),
                received.restarts()
            ),
            (33, 3_300, 33, 1)
        );
        assert_eq!(
            (
                totals.delays.min_ms,
                totals.delays.max_ms,
                totals.delays.sum_ms
            ),
            (3, 30, 33)
        );
    }
}
