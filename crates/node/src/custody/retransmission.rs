//! [`Retransmission`]: the time for which a custody signal is waited for (RFC 5050 5.10.1).

use core::time::Duration;

use dhow_bundle::mutant::{Mutant, planted};

/// The time that a custody signal is waited for: twice as long after each time that none came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// The shortest wait: a round trip, and the time that a signal may gather others.
    pub floor: Duration,
    /// The longest wait.
    pub cap: Duration,
}

impl Default for Retransmission {
    /// 30 s, twice as long as aggregate custody signals gather, and a day.
    fn default() -> Self {
        Self {
            floor: Duration::from_secs(30),
            cap: Duration::from_secs(86_400),
        }
    }
}

impl Retransmission {
    /// The wait after so long a round trip, and so many times that no signal came.
    pub(super) fn wait(self, round_trip: Duration, timeouts: u8) -> Duration {
        if planted(Mutant::CustodyTimerIgnored) {
            return self.cap;
        }
        let times = 1_u32.checked_shl(u32::from(timeouts));
        let wait = times.and_then(|times| round_trip.max(self.floor).checked_mul(times));
        wait.map_or(self.cap, |wait| wait.min(self.cap))
    }
}
