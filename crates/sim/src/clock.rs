//! The clocks of one node.

use std::time::Duration;

use dhow_bundle::{DtnTime, Instant, Now};
use dhow_scenario::{Scenario, scenario};

/// The true wall clock when a world begins: 2025-05-08T06:13:20Z.
pub const EPOCH: DtnTime = DtnTime::from_millis(800_000_000_000);

/// A node's two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: scenario::Clock,
    /// When the node (re)started.
    started: Instant,
}

impl Clock {
    /// Clocks that are read from `started` on.
    #[must_use]
    pub const fn new(wall: scenario::Clock, started: Instant) -> Self {
        Self { wall, started }
    }

    /// The wall clock jumps.
    pub const fn step(&mut self, wall: scenario::Clock) {
        self.wall = wall;
    }

    const fn drift_ppm(self) -> i32 {
        match self.wall {
            scenario::Clock::None => 0,
            scenario::Clock::Known { drift_ppm, .. } => drift_ppm,
        }
    }

    /// The time that the node is told at a true instant.
    #[must_use]
    pub fn now(&self, truth: Instant) -> Now {
        let up = drifted(truth.since(self.started), self.drift_ppm());
        let dtn = match self.wall {
            scenario::Clock::None => DtnTime::UNKNOWN,
            scenario::Clock::Known {
                offset_ms,
                drift_ppm,
            } => {
                let since = drifted(truth.since(Instant::START), drift_ppm);
                let since_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
                let right = EPOCH.as_millis().saturating_add(since_ms);
                DtnTime::from_millis(right.saturating_add_signed(offset_ms))
            }
        };
        Now {
            monotonic: Instant::START + up,
            dtn,
        }
    }

    /// The true instant at which the node's monotonic clock shows `monotonic`, or shortly after.
    #[must_use]
    pub fn truth(&self, monotonic: Instant) -> Instant {
        let up = monotonic.since(Instant::START);
        let ppm = self.drift_ppm();
        if ppm == 0 {
            return self.started + up;
        }
        let per_million = u128::from(1_000_000_u32.saturating_add_signed(ppm).max(1));
        let nanos = up.as_nanos() * 1_000_000 / per_million + 1;
        self.started + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The greatest error of the wall clocks of some nodes: an offset, and a drift since the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockError {
    offset: Duration,
    drift_ppm: u32,
}

impl ClockError {
    /// The clocks of a scenario, wherever they jump.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let mut error = Self::default();
        for (at, node) in scenario.nodes.iter().enumerate() {
            if let scenario::Clock::Known {
                offset_ms,
                drift_ppm,
            } = node.clock
            {
                let steps = scenario.clock_steps.iter().filter(|step| step.node.0 == at);
                let steps = steps.fold(0_u64, |sum, step| {
                    sum.saturating_add(step.by_ms.unsigned_abs())
                });
                let offset = offset_ms.unsigned_abs().saturating_add(steps);
                error.offset = error.offset.max(Duration::from_millis(offset));
                error.drift_ppm = error.drift_ppm.max(drift_ppm.unsigned_abs());
            }
        }
        error
    }

    /// The clock's time at a true instant.
    #[must_use]
    pub fn at(&self, truth: Instant) -> Duration {
        if self.drift_ppm == 0 {
            return self.offset;
        }
        let since = truth.since(Instant::START).as_nanos();
        let drift = since * u128::from(self.drift_ppm) / 1_000_000;
        self.offset + Duration::from_nanos(u64::try_from(drift).unwrap_or(u64::MAX))
    }
}

fn drifted(time: Duration, ppm: i32) -> Duration {
    if ppm == 0 {
        return time;
    }
    let per_million = u128::from(1_000_000_u32.saturating_add_signed(ppm));
    let nanos = time.as_nanos() * per_million / 1_000_000;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_set_by_a_drifting_clock_is_due_when_it_rings() {
        for drift_ppm in [-100_000, -7, 0, 3, 99_999] {
            let wall = scenario::Clock::Known {
                offset_ms: -5,
                drift_ppm,
            };
            let started = Instant::START + Duration::from_nanos(987_654_321);
            let clock = Clock::new(wall, started);
            for nanos in [0, 1, 999, 1_000_000_007, 86_400_000_000_000] {
                let due = Instant::START + Duration::from_nanos(nanos);
                let rings = clock.truth(due);
                let shown = clock.now(rings).monotonic;
                let late = shown.since(due);
                assert!(
                    shown >= due && late <= Duration::from_nanos(2),
                    "{drift_ppm} {nanos}"
                );
            }
        }
    }
}
