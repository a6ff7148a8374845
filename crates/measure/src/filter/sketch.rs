//! Quantiles of any number of values in little memory: counts in ranges whose ends are 2 % apart.

use std::collections::BTreeMap;

/// The ratio of the end of a range to its beginning: its middle is within one hundredth of all values in it.
const GROWTH: f64 = 1.02;

/// Counts by range. Ranges reach over all numbers, so there are at most 72,000 of either sign.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    negative: BTreeMap<i32, u64>,
    zero: u64,
    positive: BTreeMap<i32, u64>,
    count: u64,
    ends: Option<(f64, f64)>,
}

impl Sketch {
    /// Adds a value; NaN is none.
    pub(super) fn add(&mut self, number: f64) {
        if number.is_nan() {
            return;
        }
        self.count += 1;
        let (least, greatest) = self.ends.unwrap_or((number, number));
        self.ends = Some((least.min(number), greatest.max(number)));
        match number {
            n if n > 0.0 => *self.positive.entry(range(n)).or_default() += 1,
            n if n < 0.0 => *self.negative.entry(range(-n)).or_default() += 1,
            _ => self.zero += 1,
        }
    }

    /// The value below which that part of all lies; no number where there is none.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let Some((least, greatest)) = self.ends else {
            return f64::NAN;
        };
        let rank = rank(part, self.count);
        if rank == 0 {
            return least;
        }
        let negative = self
            .negative
            .iter()
            .rev()
            .map(|(at, count)| (-middle(*at), *count));
        let positive = self
            .positive
            .iter()
            .map(|(at, count)| (middle(*at), *count));
        let mut seen = 0;
        for (value, count) in negative.chain([(0.0, self.zero)]).chain(positive) {
            seen += count;
            if seen > rank && rank + 1 < self.count {
                return value.clamp(least, greatest);
            }
        }
        greatest
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "logarithms of doubles to this base are below 72,000"
)]
fn range(number: f64) -> i32 {
    (number.ln() / GROWTH.ln()).ceil() as i32
}

fn middle(range: i32) -> f64 {
    GROWTH.powi(range) * 2.0 / (GROWTH + 1.0)
}

/// The number of values before the one at quantile `part` (0 to 1).
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "between 0 and the count"
)]
fn rank(part: f64, count: u64) -> u64 {
    (part * count.saturating_sub(1) as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_hundredth() {
        let mut sketch = Sketch::default();
        for number in -1000..=9000_i32 {
            sketch.add(f64::from(number));
        }
        for (part, value) in [
            (0.0, -1000.0),
            (0.05, -500.0),
            (0.1, 0.0),
            (0.5, 4000.0),
            (0.99, 8900.0),
            (1.0, 9000.0),
        ] {
            let found = sketch.quantile(part);
            assert!(
                (found - value).abs() <= f64::abs(value) * 0.0101,
                "{part}: {found}"
            );
        }
        assert!(Sketch::default().quantile(0.5).is_nan());
    }
}
