//! The log line about the quota that counts: other programs fill and empty a disk as they like, and a log must stay readable.

use std::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::storage::Medium;

/// Time between two of these lines, at least.
const INTERVAL: Duration = Duration::from_secs(10);

/// The quota that counts, and the one that was configured, octets.
type Quota = (u64, u64);

/// A bound of one line in [`INTERVAL`], with the newest state at its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuotaLine {
    said: Option<(Instant, Quota)>,
    unsaid: Option<Quota>,
    medium: Medium,
}

impl QuotaLine {
    /// So many octets of the quota count from now on.
    pub fn say(&mut self, medium: Medium, quota: Quota, now: Instant) {
        self.unsaid = Some(quota);
        self.medium = medium;
        self.flush(now);
    }

    /// Tells what is untold, if it is time.
    pub fn flush(&mut self, now: Instant) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let Some((effective, quota)) = self.unsaid.take() else {
            return;
        };
        if self
            .said
            .is_some_and(|(_, said)| said == (effective, quota))
        {
            return;
        }
        self.said = Some((now, (effective, quota)));
        let medium = match self.medium {
            Medium::Disk => "the disk",
            Medium::Memory => "[node] memory",
        };
        if effective < quota {
            tracing::warn!(
                effective,
                quota,
                "{medium} has room for {effective} octets of the quota of {quota}: no more is taken"
            );
        } else {
            tracing::info!(quota, "{medium} has room for the whole quota again");
        }
    }

    /// When `flush` has something to tell.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.unsaid?;
        Some(self.said.map_or(Instant::START, |(at, _)| at + INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_disk_that_fills_and_empties_all_the_time_is_told_once_in_an_interval() {
        let mut line = QuotaLine::default();
        let mut told = 0;
        for second in 5..1_005 {
            line.say(Medium::Disk, (100 + second % 2, 200), at(second));
            let last = line.said.expect("something was said");
            told += u64::from(last.0 == at(second));
        }
        assert!((50..=100).contains(&told), "{told}");
    }

    #[test]
    fn the_newest_state_is_told_at_the_end_of_the_interval_and_an_old_one_not_again() {
        let mut line = QuotaLine::default();
        line.say(Medium::Disk, (100, 200), at(1));
        assert_eq!(line.due(), None);
        line.say(Medium::Disk, (50, 200), at(2));
        line.say(Medium::Disk, (200, 200), at(3));
        assert_eq!(line.due(), Some(at(11)));
        line.flush(at(10));
        assert_eq!(line.due(), Some(at(11)));
        line.flush(at(11));
        assert_eq!((line.due(), line.said), (None, Some((at(11), (200, 200)))));
        line.say(Medium::Disk, (100, 200), at(12));
        line.say(Medium::Disk, (200, 200), at(13));
        line.flush(at(21));
        assert_eq!((line.due(), line.said), (None, Some((at(11), (200, 200)))));
    }
}
