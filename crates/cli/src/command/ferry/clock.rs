//! The time on a medium, as far as the node's clock and that of this program agree.

use std::time::{Duration, SystemTime};

use dhow_bundle::{DtnTime, Header};
use dhow_client::ferry::note::expiry;

/// Both clocks agree if they differ by less.
const TOLERANCE_MS: u64 = 10_000;

/// Milliseconds from the Unix epoch to that of DTN times (RFC 9171 4.2.6).
const DTN_EPOCH_MS: u64 = 946_684_800_000;

/// Whether the time is known.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    is_good: bool,
}

/// This program's time.
fn system() -> Option<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let millis = u64::try_from(since.ok()?.as_millis()).ok()?;
    millis.checked_sub(DTN_EPOCH_MS)
}

impl Clock {
    /// The clock beside a node's, whose time this is where it is accurate.
    pub fn beside(node_dtn_time_ms: Option<u64>) -> Self {
        let both = node_dtn_time_ms.zip(system());
        Self {
            is_good: both.is_some_and(|(node, here)| node.abs_diff(here) < TOLERANCE_MS),
        }
    }

    /// This program's clock alone.
    pub const fn alone() -> Self {
        Self { is_good: true }
    }

    /// The time, where it is known.
    pub fn now(self) -> Option<DtnTime> {
        system().filter(|_| self.is_good).map(DtnTime::from_millis)
    }

    /// Milliseconds for which a file has been on the medium; 0 where nobody knows.
    pub fn stay_ms(self, modified: SystemTime) -> u64 {
        let stay = SystemTime::now().duration_since(modified).ok();
        let stay = stay.filter(|_| self.is_good).unwrap_or(Duration::ZERO);
        u64::try_from(stay.as_millis()).unwrap_or(u64::MAX)
    }

    /// Milliseconds that a bundle has left to live, below 0 once it has expired; `None` where nobody knows.
    pub fn left_ms(self, header: &Header, modified: SystemTime) -> Option<i64> {
        let now = self.now()?.as_millis();
        let lifetime = header.primary.lifetime_ms;
        let (until, at) = match expiry(header.primary.creation, lifetime) {
            Some(at) => (at.as_millis(), now),
            None => {
                let age = header.age_ms().unwrap_or(0);
                (lifetime, age.saturating_add(self.stay_ms(modified)))
            }
        };
        let left = i128::from(until) - i128::from(at);
        i64::try_from(left).ok().or(Some(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_differs_from_the_nodes_is_no_good() {
        let here = system().unwrap();
        assert!(Clock::beside(Some(here)).now().is_some());
        for other in [None, Some(0), Some(here + 60_000), Some(here - 60_000)] {
            let clock = Clock::beside(other);
            assert!(clock.now().is_none());
            assert_eq!(clock.stay_ms(SystemTime::UNIX_EPOCH), 0);
        }
        // A file from the future has no age.
        let later = SystemTime::now() + Duration::from_secs(3_600);
        assert_eq!(Clock::alone().stay_ms(later), 0);
    }
}
