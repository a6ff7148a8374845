//! One figure of two results: medians, their ratio, and the difference of means with its interval of confidence.

use crate::report::Spread;
use crate::report::quantile;

/// The direction in which a change of a figure is a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better: goodput.
    More,
    /// Less is better: delay.
    Less,
}

/// The meaning of a figure's difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better by more than noise.
    Better,
    /// Worse by more than noise.
    Worse,
    /// Another value by more than noise, of a figure that is neither better nor worse.
    Differs,
    /// The interval of the difference has nothing in it, so the difference may be chance.
    Noise,
    /// No difference at all.
    Same,
    /// There is a difference, and a side has one run alone: no interval tells of chance.
    Unknown,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Differs => "differs",
            Self::Noise => "noise",
            Self::Same => "same",
            Self::Unknown => "unknown",
        }
    }
}

/// An interval that has the difference of two means in it in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// One figure of two results.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    pub(crate) a: Spread,
    pub(crate) b: Spread,
}

impl Estimate {
    /// The estimate of the values of both sides.
    pub(crate) const fn of(a: Spread, b: Spread) -> Self {
        Self { a, b }
    }

    /// The medians of both.
    #[must_use]
    pub fn medians(&self) -> (f64, f64) {
        (median(&self.a), median(&self.b))
    }

    /// The median of the second by that of the first; nothing where that is 0.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let (a, b) = self.medians();
        let ratio = b / a;
        (a != 0.0 && ratio.is_finite()).then_some(ratio)
    }

    /// The mean of the second less that of the first.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.b.mean - self.a.mean
    }

    /// Half of the interval of the difference: the intervals of the two means, which are independent, as the sides of a right angle. Nothing
    /// where a side has one value.
    #[must_use]
    pub fn half(&self) -> Option<f64> {
        Some(self.a.confidence()?.hypot(self.b.confidence()?))
    }

    /// The interval of the difference; nothing where a side has one value.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        let half = self.half()?;
        let (low, high) = (self.difference() - half, self.difference() + half);
        Some(Interval { low, high })
    }

    /// The meaning of the difference.
    #[must_use]
    pub fn verdict(&self, better: Option<Better>) -> Verdict {
        let difference = self.difference();
        if difference == 0.0 {
            return Verdict::Same;
        }
        let Some(half) = self.half() else {
            return Verdict::Unknown;
        };
        if difference.abs() <= half {
            return Verdict::Noise;
        }
        match (better, difference > 0.0) {
            (None, _) => Verdict::Differs,
            (Some(Better::More), true) | (Some(Better::Less), false) => Verdict::Better,
            _ => Verdict::Worse,
        }
    }

    /// The part of the first mean by which the second is worse at least, with 95 % confidence; nothing where it is not worse by more than noise.
    #[must_use]
    pub fn loss(&self, better: Option<Better>) -> Option<f64> {
        let half = self
            .half()
            .filter(|_| self.verdict(better) == Verdict::Worse)?;
        let least = self.difference().abs() - half;
        Some(match self.a.mean.abs() {
            0.0 => f64::INFINITY,
            mean => least / mean,
        })
    }
}

/// The value in the middle; the mean of two where there are as many below as above.
fn median(spread: &Spread) -> f64 {
    let count = spread.values.len();
    let upper = spread.values.get(count / 2).copied();
    let lower = spread.values.get((count.max(1) - 1) / 2).copied();
    match (lower, upper) {
        (Some(lower), Some(upper)) => f64::midpoint(lower, upper),
        _ => quantile(&spread.values, 0.5).unwrap_or(spread.mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(a: &[f64], b: &[f64]) -> Estimate {
        let spread = |values: &[f64]| Spread::of(values.to_vec()).unwrap();
        Estimate::of(spread(a), spread(b))
    }

    #[test]
    fn a_difference_has_the_interval_of_both_means() {
        // Means 4 and 10, deviations 2 and 1, three values each: 4.303 * 2 / sqrt(3) = 4.968676 and 4.303 * 1 / sqrt(3) = 2.484338.
        let it = estimate(&[2.0, 4.0, 6.0], &[9.0, 10.0, 11.0]);
        assert_eq!(it.medians(), (4.0, 10.0));
        assert_eq!(it.ratio(), Some(2.5));
        assert_eq!(it.difference(), 6.0);
        // sqrt(4.968676^2 + 2.484338^2) = sqrt(24.687741 + 6.171935) = 5.555148
        assert!(
            (it.half().unwrap() - 5.555_148).abs() < 1e-5,
            "{:?}",
            it.half()
        );
        let interval = it.interval().unwrap();
        assert!(
            (interval.low - 0.444_852).abs() < 1e-5 && (interval.high - 11.555_148).abs() < 1e-5
        );
        assert_eq!(it.verdict(Some(Better::More)), Verdict::Better);
        assert_eq!(it.verdict(Some(Better::Less)), Verdict::Worse);
        assert_eq!(it.verdict(None), Verdict::Differs);
        // At least 0.444852 of 4.
        assert!((it.loss(Some(Better::Less)).unwrap() - 0.111_213).abs() < 1e-5);
        assert_eq!(it.loss(Some(Better::More)), None);
    }

    #[test]
    fn a_difference_within_its_interval_is_noise() {
        let it = estimate(&[2.0, 4.0, 6.0], &[8.0, 9.0, 10.0]);
        assert_eq!(it.verdict(Some(Better::More)), Verdict::Noise);
        assert_eq!(it.loss(Some(Better::Less)), None);
        assert_eq!(estimate(&[3.0], &[3.0]).verdict(None), Verdict::Same);
    }

    #[test]
    fn one_value_has_no_interval_and_a_median_of_two_is_between_them() {
        let it = estimate(&[3.0], &[4.0, 6.0]);
        assert_eq!((it.interval(), it.medians()), (None, (3.0, 5.0)));
        assert_eq!(it.verdict(Some(Better::Less)), Verdict::Unknown);
        assert_eq!(it.loss(Some(Better::Less)), None);
    }

    #[test]
    fn a_difference_from_nothing_has_no_ratio_and_any_loss_from_it_is_beyond_all_parts() {
        let it = estimate(&[0.0, 0.0], &[2.0, 2.0]);
        assert_eq!(it.ratio(), None);
        assert_eq!(it.loss(Some(Better::Less)), Some(f64::INFINITY));
    }
}
