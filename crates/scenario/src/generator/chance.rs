//! Times that are distributed as people's are: by additions, multiplications and divisions alone, so that no machine's library takes part.

use std::time::Duration;

use crate::entropy::Entropy;

/// Terms of series: beyond them nothing changes.
const TERMS: u32 = 40;

/// The natural logarithm of 2.
const LN_2: f64 = core::f64::consts::LN_2;

/// Exponents beyond it give more than any time that is waited for.
const EXPONENT_MAX: f64 = 60.0;

/// A number from 0 to 1, neither of them.
fn part(entropy: &mut Entropy) -> f64 {
    let drawn = u32::try_from(entropy.below(u64::from(u32::MAX))).unwrap_or(0);
    (f64::from(drawn) + 0.5) / f64::from(u32::MAX)
}

/// The natural logarithm of a number from 0 to 1, but 0.
fn logarithm(number: f64) -> f64 {
    let (mut number, mut halves) = (number, 0.0);
    // No positive number has more.
    for _ in 0..1_100 {
        if number >= 0.5 {
            break;
        }
        number *= 2.0;
        halves += 1.0;
    }
    let ratio = (number - 1.0) / (number + 1.0);
    let square = ratio * ratio;
    let (mut power, mut sum) = (ratio, 0.0);
    for term in 0..TERMS {
        sum += power / f64::from(2 * term + 1);
        power *= square;
    }
    2.0 * sum - halves * LN_2
}

/// e to the power of a number from 0 on.
fn exponential(number: f64) -> f64 {
    let (mut rest, mut doublings) = (number, 1.0);
    while rest > LN_2 {
        rest -= LN_2;
        doublings *= 2.0;
    }
    let (mut term, mut sum) = (1.0, 1.0);
    for number in 1..TERMS {
        term *= rest / f64::from(number);
        sum += term;
    }
    sum * doublings
}

/// A time by Pareto's distribution, cut off at the most: few are long. `coefficient` is in billionths, more than 0.
pub(super) fn pareto(
    entropy: &mut Entropy,
    (least, most): (Duration, Duration),
    coefficient: u32,
) -> Duration {
    let coefficient = f64::from(coefficient.max(1)) / 1e9;
    let exponent = -logarithm(part(entropy)) / coefficient;
    if exponent > EXPONENT_MAX {
        return most;
    }
    let seconds = least.as_secs_f64() * exponential(exponent);
    Duration::try_from_secs_f64(seconds).map_or(most, |it| it.min(most))
}

/// A time that is normally distributed around 0, milliseconds: the sum of twelve numbers, so that none is more than six deviations.
pub(super) fn normal_ms(entropy: &mut Entropy, deviation: Duration) -> i64 {
    const ONE: i128 = 1 << 32;
    let drawn = (0..12).map(|_| i128::from(entropy.below(1 << 32)));
    let sum: i128 = drawn.sum::<i128>() - 6 * ONE;
    let ms = i128::try_from(deviation.as_millis()).unwrap_or(0);
    i64::try_from(sum * ms / ONE).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_powers_are_those_of_the_library() {
        for number in [1e-9, 0.01, 0.3, 0.5, 0.75, 1.0] {
            assert!((logarithm(number) - number.ln()).abs() < 1e-12, "{number}");
        }
        for number in [0.0, 0.1, 1.0, 7.5, 30.0] {
            let ratio = exponential(number) / number.exp();
            assert!((ratio - 1.0).abs() < 1e-12, "{number}");
        }
    }

    /// Half of Pareto's times are below the least times 2^(1 / coefficient); a quarter is above its square.
    #[test]
    fn few_times_are_long() {
        let mut entropy = Entropy::new(1, 1_u64, 0);
        let bounds = (Duration::from_secs(10), Duration::from_secs(100_000));
        let mut times: Vec<Duration> = (0..10_000)
            .map(|_| pareto(&mut entropy, bounds, 500_000_000))
            .collect();
        times.sort_unstable();
        assert!(times[0] >= bounds.0 && times[9_999] == bounds.1);
        for (place, seconds) in [(5_000, 40), (7_500, 160)] {
            let found = times[place].as_secs();
            assert!(
                (seconds * 9 / 10..seconds * 11 / 10).contains(&found),
                "{found}"
            );
        }
    }

    #[test]
    fn two_thirds_of_normal_times_are_within_their_deviation() {
        let mut entropy = Entropy::new(1, 1_u64, 0);
        let hour = Duration::from_secs(3_600);
        let times: Vec<i64> = (0..10_000).map(|_| normal_ms(&mut entropy, hour)).collect();
        let within = times.iter().filter(|it| it.abs() <= 3_600_000).count();
        assert!((6_700..6_960).contains(&within), "{within}");
        let early = times.iter().filter(|it| **it < 0).count();
        assert!((4_850..5_150).contains(&early), "{early}");
    }
}
