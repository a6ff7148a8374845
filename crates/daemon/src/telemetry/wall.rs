//! Moments of a node's run as times of day.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::Clock;

/// A difference below this is due to the time between reading two clocks, nanoseconds.
const UNCERTAINTY_NS: u64 = 1_000_000;

/// The wall clock beside the node's own.
#[derive(Debug)]
pub(super) struct Wall {
    clock: Clock,
    /// The time of day at the node's start by the wall clock as it is now, nanoseconds since the beginning of 1970.
    start_ns: u64,
}

impl Wall {
    /// Beside a node's clock.
    pub(super) fn beside(clock: Clock) -> Self {
        let mut wall = Self { clock, start_ns: 0 };
        wall.look();
        wall
    }

    /// Looks at both clocks. Small differences are not followed, so that spans which touch each other still do.
    pub(super) fn look(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = since.map_or(0, |since| nanos(since.as_nanos()));
        let run_ns = self.clock.now().monotonic.as_nanos();
        let start_ns = now_ns.saturating_sub(run_ns);
        if self.start_ns.abs_diff(start_ns) > UNCERTAINTY_NS {
            self.start_ns = start_ns;
        }
    }

    /// The time of day at the node's start, nanoseconds since the beginning of 1970.
    pub(super) const fn start_ns(&self) -> u64 {
        self.start_ns
    }
}

fn nanos(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}
