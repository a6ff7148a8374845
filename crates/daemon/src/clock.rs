//! The machine's clocks, read once per turn.

use std::time::Duration;

use dhow_bundle::{DtnTime, Instant, Now};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::config::file::ClockSetting;

/// Reads the machine's clocks for a node that started when this value was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_nanos: u64,
    setting: ClockSetting,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start(setting: ClockSetting) -> Self {
        Self {
            start_nanos: nanos(clock_gettime(ClockId::Boottime)),
            setting,
        }
    }

    /// Both kinds of time. The monotonic one counts while the machine sleeps, since bundles age then too.
    #[must_use]
    pub fn now(&self) -> Now {
        let monotonic = nanos(clock_gettime(ClockId::Boottime)).saturating_sub(self.start_nanos);
        let dtn = match self.setting {
            ClockSetting::System => {
                DtnTime::from_unix_millis(nanos(clock_gettime(ClockId::Realtime)) / 1_000_000)
            }
            ClockSetting::None => DtnTime::UNKNOWN,
        };
        Now {
            monotonic: Instant::from_nanos(monotonic),
            dtn,
        }
    }

    /// The time until `instant`; zero when it has come.
    #[must_use]
    pub fn until(&self, instant: Instant) -> Duration {
        instant.since(self.now().monotonic)
    }
}

/// Nanoseconds of a time; 0 for one before the clock's zero.
fn nanos(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_a_clock_never_knows_the_time() {
        let clock = Clock::start(ClockSetting::None);
        assert_eq!(clock.now().dtn, DtnTime::UNKNOWN);
        assert!(Clock::start(ClockSetting::System).now().dtn.is_known());
    }

    #[test]
    fn monotonic_time_starts_at_zero_and_does_not_go_back() {
        let clock = Clock::start(ClockSetting::None);
        let (first, second) = (clock.now().monotonic, clock.now().monotonic);
        assert!(first <= second);
        assert_eq!(clock.until(first), Duration::ZERO);
    }
}
