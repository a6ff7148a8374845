//! The progress of files that leave: rate, and the time that is left.

use std::time::{Duration, Instant};

use super::way::WayOptions;
use crate::progress::Progress;
use crate::quantity;

/// The files of a sender, as they leave.
#[derive(Debug)]
pub struct Pace {
    /// Octets of all.
    total: u64,
    /// One-way light time to the engine that they leave for.
    light_time: Duration,
    /// Octets that leave in a second, at most.
    rate: u64,
    began: Instant,
}

impl Pace {
    /// Files of so many octets begin to leave.
    pub fn new(total: u64, way: &WayOptions) -> Self {
        Self {
            total,
            light_time: way.light_time(),
            rate: way.rate(),
            began: Instant::now(),
        }
    }

    /// Shows the octets sent, and those that the engine claims.
    pub fn show(&self, progress: &Progress, sent: u64, claimed: u64) {
        let words = format!(
            "{} of {} sent, {} there, {}, {} left",
            quantity::size(sent),
            quantity::size(self.total),
            quantity::size(claimed),
            quantity::rate(sent, self.began.elapsed()),
            self.left(sent)
        );
        progress.say(claimed.max(sent / 2), words);
    }

    /// Time until the last report comes, if nothing is lost: the rest leaves at the rate so far, and the report comes a round trip later.
    fn left(&self, sent: u64) -> String {
        if sent == 0 {
            return "-".to_owned();
        }
        let elapsed = self.began.elapsed().as_nanos();
        let rest = u128::from(self.total.saturating_sub(sent));
        let nanos = elapsed.saturating_mul(rest) / u128::from(sent);
        // The first octets leave at once.
        let least = rest.saturating_mul(1_000_000_000) / u128::from(self.rate.max(1));
        let nanos = u64::try_from(nanos.max(least)).unwrap_or(u64::MAX);
        let leaving = Duration::from_nanos(nanos);
        let round_trip = self.light_time.saturating_mul(2);
        quantity::elapsed(leaving.saturating_add(round_trip))
    }
}
