//! The figures that are kept of a run when it is one of many.

use std::time::Duration;

use dhow_page::quantity::count;

use crate::run::{Finding, Outcome};
use crate::world::Counts;

/// Parts into which the delays of a run are divided.
pub(crate) const PARTS: usize = 200;

/// One run in short.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Its seed.
    pub seed: u64,
    /// A number that two runs share only when the same happened in both.
    pub trace_hash: u64,
    /// Whether the run was ended before it was over, so that no other run compares with it.
    pub interrupted: bool,
    /// Virtual time.
    pub time: Duration,
    /// Things that happened.
    pub events: u64,
    /// Payloads given to nodes.
    pub sent: u64,
    /// Payloads that they accepted.
    pub accepted: u64,
    /// Payloads delivered.
    pub delivered: u64,
    /// Payloads that expired before they were.
    pub expired: u64,
    /// Octets that left over links.
    pub carried_octets: u64,
    /// Octets of the payloads that were delivered.
    pub delivered_octets: u64,
    /// Counts of connections, contacts, flushes, bundles and faults.
    pub counts: Counts,
    /// The number of violations.
    pub violations: u64,
    /// The first findings.
    pub findings: Vec<Finding>,
    /// The times for which delivered payloads were on their way: the shortest, that within which each further 200th was
    /// delivered, and so the longest at the end; none where nothing was delivered.
    pub delays: Vec<Duration>,
}

impl Summary {
    /// The summary of a run.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let delivered = outcome.payloads.iter().filter(|it| it.delivered.is_some());
        let links = outcome.links.iter();
        let sum = |octets: &mut dyn Iterator<Item = u64>| octets.fold(0, u64::saturating_add);
        Self {
            seed: outcome.seed,
            trace_hash: outcome.trace_hash,
            interrupted: outcome.interrupted,
            time: outcome.progress.time,
            events: outcome.progress.events,
            sent: outcome.progress.sent,
            accepted: outcome.accepted,
            delivered: outcome.progress.delivered,
            expired: outcome.expired,
            carried_octets: sum(&mut links.map(|it| it.octets.0.saturating_add(it.octets.1))),
            delivered_octets: sum(&mut delivered.map(|it| it.octets)),
            counts: outcome.counts,
            violations: outcome.violations,
            findings: outcome.findings.clone(),
            delays: parts(&outcome.delays()),
        }
    }

    /// The time within which so many hundredths of what was delivered were.
    #[must_use]
    pub fn delay(&self, hundredths: usize) -> Option<Duration> {
        let place = hundredths.min(100) * PARTS / 100;
        self.delays.get(place).copied()
    }

    /// The share of all that was sent which was delivered within a time, in 1/10,000.
    #[must_use]
    pub fn share_within(&self, time: Duration) -> u64 {
        let parts = self.delays.partition_point(|delay| *delay <= time);
        // The first part is where the first was delivered, so it counts for next to nothing.
        let share = count(parts.saturating_sub(1)) * 10_000 / count(PARTS);
        share * self.delivered / self.sent.max(1)
    }
}

/// The first of sorted times, the one at each part, and so the last.
pub(crate) fn parts(times: &[Duration]) -> Vec<Duration> {
    let Some(last) = times.len().checked_sub(1) else {
        return Vec::new();
    };
    let at = |part: usize| times.get((last * part).div_ceil(PARTS)).copied();
    (0..=PARTS).filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_go_from_the_shortest_time_to_the_longest() {
        let seconds =
            |count: u64| -> Vec<Duration> { (1..=count).map(Duration::from_secs).collect() };
        let of = |count: u64| {
            let parts = parts(&seconds(count));
            [0, 50, 100, PARTS].map(|at| parts[at].as_secs())
        };
        assert_eq!(of(1), [1, 1, 1, 1]);
        assert_eq!(of(3), [1, 2, 2, 3]);
        assert_eq!(of(1_001), [1, 251, 501, 1_001]);
        assert!(parts(&[]).is_empty());
    }
}
