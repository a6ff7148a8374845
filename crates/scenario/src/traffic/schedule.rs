//! The sizes and times of payloads: a traffic of the scenario, payload by payload, the same on every backend.

use std::sync::Arc;
use std::time::Duration;

use crate::entropy::Entropy;
use crate::scenario::{Listed, Pace, Size, Traffic};

/// A payload that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When, from the start of the run.
    pub at: Duration,
    /// Its size.
    pub octets: u64,
}

/// The payloads of one traffic, in their order. They follow from the scenario and the run's seed alone.
#[derive(Clone, Debug)]
pub struct Schedule {
    entropy: Entropy,
    start: Duration,
    pace: Pace,
    size: Size,
    list: Arc<[Listed]>,
    burst: u64,
    count: Option<u64>,
    /// The number of the next payload, from 0.
    number: u64,
    /// When the burst is due that the next one belongs to, from the start of the traffic.
    at: Duration,
}

impl Schedule {
    /// The schedule of a traffic, which has a position in the scenario, for a run's seed.
    #[must_use]
    pub fn new(traffic: &Traffic, position: usize, seed: u64) -> Self {
        Self {
            entropy: Entropy::new(seed, Entropy::TRAFFIC, position),
            start: traffic.start,
            pace: traffic.pace,
            size: traffic.size,
            list: Arc::clone(&traffic.list),
            burst: traffic.burst.max(1),
            count: traffic.count,
            number: 0,
            at: Duration::ZERO,
        }
    }
}

impl Iterator for Schedule {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        if self.count.is_some_and(|count| self.number >= count) {
            return None;
        }
        let number = self.number;
        self.number += 1;
        let (at, octets) = if self.pace == Pace::Listed {
            let listed = self.list.get(usize::try_from(number).ok()?)?;
            (listed.at, listed.octets)
        } else {
            if number > 0 && number.is_multiple_of(self.burst) {
                self.at = self.at.saturating_add(match self.pace {
                    Pace::Constant(every) => every,
                    Pace::Mean(mean) => self.entropy.exponential(mean),
                    Pace::AtOnce | Pace::Listed => Duration::ZERO,
                });
            }
            let span = self.size.max - self.size.min;
            let more = self.entropy.below(span.saturating_add(1));
            (self.at, self.size.min + more)
        };
        let at = self.start.saturating_add(at);
        Some(Due { at, octets })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Scenario;

    fn schedule(keys: &str) -> Vec<(u128, u64)> {
        let text = format!(
            "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit\"\n[[traffic]]\nfrom = \"a\"\nto = \"b\"\n{keys}[stop]\nat = \"1h\"\n"
        );
        let scenario = Scenario::parse(Path::new("s.toml"), &text).expect("a scenario");
        let schedule = Schedule::new(&scenario.traffic[0], 0, 1);
        let taken = schedule.take(6);
        taken.map(|due| (due.at.as_millis(), due.octets)).collect()
    }

    #[test]
    fn bursts_keep_their_pace() {
        let keys = "size = 100\nevery = \"1s\"\nburst = 2\nstart = \"3s\"\ncount = 5\n";
        let expected = [3_000, 3_000, 4_000, 4_000, 5_000].map(|at| (at, 100));
        assert_eq!(schedule(keys), expected);
    }

    #[test]
    fn what_has_no_pace_is_due_at_once_and_sizes_are_within_bounds() {
        let due = schedule("size = \"100B..200B\"\ncount = 50\n");
        assert!(
            due.iter()
                .all(|(at, octets)| *at == 0 && (100..=200).contains(octets))
        );
        assert!(due.iter().any(|(_, octets)| *octets != due[0].1));
    }
}
