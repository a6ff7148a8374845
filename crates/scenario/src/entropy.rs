//! All chance in a scenario and in the program that runs it: drawn from one seed, the same on every machine and in every build.

use std::time::Duration;

/// A stream of random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Entropy {
    state: u64,
}

impl Entropy {
    /// The first purpose of those of scenario files.
    pub const OURS: u64 = 1_000;

    /// When payloads of a scenario's traffic are sent, and how large they are.
    pub const TRAFFIC: u64 = 6;

    /// The stream that a seed gives for a purpose and a number. Each purpose has streams of its own, so that more of one do not
    /// change another; those below [`Entropy::OURS`], but for [`Entropy::TRAFFIC`], are for the program that runs a scenario.
    #[must_use]
    pub fn new(seed: u64, purpose: impl Into<u64>, which: usize) -> Self {
        let which = u64::try_from(which).unwrap_or(u64::MAX);
        let mut mixing = Self { state: seed };
        mixing.state = mixing.draw() ^ purpose.into();
        mixing.state = mixing.draw() ^ which;
        let state = mixing.draw();
        Self { state }
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `bound`; 0 where there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.draw()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A time between two, both included, to the millisecond.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span_ms = most.saturating_sub(least).as_millis();
        let span_ms = u64::try_from(span_ms).unwrap_or(u64::MAX - 1);
        least + Duration::from_millis(self.below(span_ms + 1))
    }

    /// True so many times of a billion.
    pub fn happens(&mut self, per_billion: u32) -> bool {
        per_billion > 0 && self.below(1_000_000_000) < u64::from(per_billion)
    }

    /// A time that is exponentially distributed around its mean, by von Neumann's comparisons: whole numbers only, so
    /// that no machine's logarithm takes part.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let mut whole = 0_u128;
        loop {
            let first = self.draw();
            let (mut last, mut falling) = (first, 1_u32);
            loop {
                let next = self.draw();
                if next >= last {
                    break;
                }
                last = next;
                falling += 1;
            }
            if falling % 2 == 1 {
                // (whole + first / 2^64) × mean
                let nanos = mean.as_nanos().min(u128::from(u64::MAX));
                let part = (nanos * u128::from(first)) >> 64;
                let total = whole.saturating_mul(nanos).saturating_add(part);
                return Duration::from_nanos(u64::try_from(total).unwrap_or(u64::MAX));
            }
            whole += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_times_have_their_mean_and_their_median() {
        let mut entropy = Entropy::new(1, 1_u64, 0);
        let mean = Duration::from_secs(10);
        let mut times: Vec<Duration> = (0..10_000).map(|_| entropy.exponential(mean)).collect();
        times.sort_unstable();
        let sum: Duration = times.iter().sum();
        let found = (sum / 10_000).as_millis();
        assert!((9_700..10_300).contains(&found), "{found}");
        // ln 2 of the mean.
        let median = times[5_000].as_millis();
        assert!((6_700..7_200).contains(&median), "{median}");
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let mut first = Entropy::new(1, 1_u64, 0);
        for other in [
            Entropy::new(1, 1_u64, 1),
            Entropy::new(1, 2_u64, 0),
            Entropy::new(2, 1_u64, 0),
        ] {
            let mut other = other;
            assert_ne!(first.draw(), other.draw());
        }
    }
}
