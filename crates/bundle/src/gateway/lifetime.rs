//! Lifetimes: nothing expires earlier for being counted in seconds.

use super::identity::MS_PER_SECOND;
use crate::time::DtnTime;

/// Milliseconds of a lifetime in seconds, 2^64-1 at most.
pub(super) const fn to_v7(lifetime_s: u64) -> u64 {
    lifetime_s.saturating_mul(MS_PER_SECOND)
}

/// Seconds of a lifetime in milliseconds, rounded up. In version 6 it counts from the second in which the bundle was created, so the part of it that had
/// passed belongs to it.
pub(super) const fn to_v6(lifetime_ms: u64, creation: DtnTime) -> u64 {
    let passed_ms = creation.as_millis() % MS_PER_SECOND;
    let part_ms = lifetime_ms % MS_PER_SECOND + passed_ms;
    // Less than 2^64/1000 and 2.
    lifetime_ms / MS_PER_SECOND + part_ms.div_ceil(MS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_and_never_0_for_something() {
        let whole = DtnTime::from_millis(5_000);
        let cases = [(0, 0), (1, 1), (999, 1), (1_000, 1), (1_001, 2)];
        for (ms, seconds) in cases {
            assert_eq!(to_v6(ms, whole), seconds, "{ms}");
            assert_eq!(to_v6(ms, DtnTime::UNKNOWN), seconds, "{ms}");
        }
        // Created at 1.999 s, useful until 3.499 s: not over at 3 s.
        assert_eq!(to_v6(1_500, DtnTime::from_millis(1_999)), 3);
        let most = to_v6(u64::MAX, DtnTime::from_millis(1_999));
        assert_eq!(most, u64::MAX / 1000 + 2);
        assert_eq!(to_v7(u64::MAX / 1000), u64::MAX / 1000 * 1000);
        assert_eq!(to_v7(u64::MAX / 1000 + 1), u64::MAX);
    }
}
