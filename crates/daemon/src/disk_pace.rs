//! The octets that may wait for the disk: as many as keep it busy, since it stands before all that comes later.

use std::time::Duration;

/// Time that the waiting octets take to write, beside [`FLUSHES`] flushes.
const SLACK: Duration = Duration::from_millis(10);

/// Flushes that what waits may take: one is under way, one waits for it, and each is worth as much again.
const FLUSHES: u32 = 4;

/// Octets that may wait, at least.
const FLOOR_OCTETS: u64 = 4 << 20;

/// Octets that a turn writes, at least, to say how fast the disk is.
const TURN_OCTETS: u64 = 256 << 10;

/// Turns of which the fastest counts, and the shortest flush.
const TURNS: usize = 16;

/// The rate of a disk and what its flushes take, by its last turns.
#[derive(Debug, Default)]
pub struct DiskPace {
    turns: [Option<(u64, Duration)>; TURNS],
    newest: usize,
}

impl DiskPace {
    /// So many octets were written and flushed in this time, of which the flush took a part.
    pub fn turn(&mut self, octets: u64, took: Duration, flush: Duration) {
        if octets < TURN_OCTETS {
            return;
        }
        let rate = u128::from(octets) * 1_000_000_000 / took.as_nanos().max(1);
        self.newest = (self.newest + 1) % TURNS;
        if let Some(turn) = self.turns.get_mut(self.newest) {
            *turn = Some((u64::try_from(rate).unwrap_or(u64::MAX), flush));
        }
    }

    /// Octets that may wait; no bound before anything was written.
    #[must_use]
    pub fn octets(&self) -> u64 {
        let turns = || self.turns.iter().flatten();
        let (Some(rate), Some(flush)) = (
            turns().map(|(rate, _)| *rate).max(),
            turns().map(|(_, flush)| *flush).min(),
        ) else {
            return u64::MAX;
        };
        let time = flush.saturating_mul(FLUSHES).saturating_add(SLACK);
        let octets = u128::from(rate) * time.as_nanos() / 1_000_000_000;
        u64::try_from(octets).unwrap_or(u64::MAX).max(FLOOR_OCTETS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that writes what waits and flushes it, while as much more comes as may wait; its rate, and what waits then.
    fn saturated(octets_per_ms: u64, flush: Duration) -> (u64, u64) {
        let mut pace = DiskPace::default();
        let (mut waits, mut written, mut time) = (128 << 20, 0_u64, Duration::ZERO);
        for turn in 0..200 {
            let took = Duration::from_nanos(waits * 1_000_000 / octets_per_ms) + flush;
            pace.turn(waits, took, flush);
            if turn >= 100 {
                written += waits;
                time += took;
            }
            // Octets that are being written wait too.
            waits = pace.octets().min(128 << 20) / 2;
        }
        let rate = u128::from(written) * 1_000_000 / time.as_nanos();
        (u64::try_from(rate).unwrap(), pace.octets())
    }

    #[test]
    fn what_waits_takes_some_flushes_and_keeps_the_disk_busy() {
        for flush_ms in [0, 1, 5] {
            let flush = Duration::from_millis(flush_ms);
            let (rate, waits) = saturated(1_000_000, flush);
            let most = 10 + 4 * flush_ms;
            assert!(
                waits <= most * 1_000_000 || waits == FLOOR_OCTETS,
                "{waits}"
            );
            assert!(
                rate >= 650_000,
                "{rate} octets/ms with flushes of {flush:?}"
            );
        }
        let (rate, waits) = saturated(20_000, Duration::from_millis(20));
        assert!(waits <= 90 * 20_000 || waits == FLOOR_OCTETS, "{waits}");
        assert!(rate >= 12_000, "{rate}");
    }

    #[test]
    fn nothing_is_bounded_before_the_disk_is_known() {
        let mut pace = DiskPace::default();
        pace.turn(1_000, Duration::from_millis(5), Duration::from_millis(5));
        assert_eq!(pace.octets(), u64::MAX);
    }
}
