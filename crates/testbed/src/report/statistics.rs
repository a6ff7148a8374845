//! Mean, spread and confidence of repeats.

use std::collections::BTreeMap;

use crate::number::float;

/// Two-sided 95 % quantiles of Student's distribution for 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The quantile of the normal distribution, for more.
const NORMAL: f64 = 1.960;

/// Values of repeats in short.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The values, from the least.
    pub(crate) values: Vec<f64>,
    /// The mean of the values.
    pub(crate) mean: f64,
    /// Their standard deviation, of a sample (n − 1); nothing of one value.
    pub(crate) deviation: Option<f64>,
}

impl Spread {
    /// The spread of values; nothing where there are none.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let count = float(u64::try_from(values.len()).ok()?);
        if values.is_empty() {
            return None;
        }
        let sum = values.iter().sum::<f64>();
        let mean = match (values.first(), values.last()) {
            // A sum of equal values is rounded, and differs with their number.
            (Some(least), Some(most)) if least.total_cmp(most).is_eq() => *least,
            _ if sum.is_finite() => sum / count,
            _ => values.iter().map(|value| value / count).sum(),
        };
        let deviation = (values.len() > 1).then(|| {
            let squares = values.iter().map(|value| (value - mean).powi(2));
            (squares.sum::<f64>() / (count - 1.0)).sqrt()
        });
        Some(Self {
            values,
            mean,
            deviation,
        })
    }

    /// Of values of runs with their seeds: several runs of one seed are no repeats of each other, so their mean is one value.
    pub(crate) fn of_seeds(values: impl IntoIterator<Item = (u64, f64)>) -> Option<Self> {
        let mut by_seed: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (seed, value) in values {
            by_seed.entry(seed).or_default().push(value);
        }
        let means = by_seed.into_values();
        let means = means.filter_map(|values| Some(Self::of(values)?.mean));
        Self::of(means.collect())
    }

    /// Half of the interval in which the mean of all possible repeats lies, in 95 of 100 cases.
    pub(crate) fn confidence(&self) -> Option<f64> {
        let deviation = self.deviation?;
        let freedom = self.values.len() - 1;
        let quantile = STUDENT.get(freedom - 1).copied().unwrap_or(NORMAL);
        let count = float(u64::try_from(self.values.len()).ok()?);
        Some(quantile * deviation / count.sqrt())
    }

    /// True if there are several values and all are the same.
    #[expect(
        clippy::float_cmp,
        reason = "the same to the last digit is what is asked"
    )]
    pub(crate) fn is_one(&self) -> bool {
        self.values.len() > 1 && self.least() == self.most()
    }

    /// The least.
    pub(crate) fn least(&self) -> f64 {
        self.values.first().copied().unwrap_or(self.mean)
    }

    /// The greatest.
    pub(crate) fn most(&self) -> f64 {
        self.values.last().copied().unwrap_or(self.mean)
    }
}

/// The value within which a share of sorted values lies (nearest rank); `share` is from 0 to 1.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = crate::number::whole(share * float(u64::try_from(last).ok()?));
    sorted.get(usize::try_from(place).ok()?.min(last)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_have_a_mean_a_deviation_and_a_confidence() {
        let spread = Spread::of(vec![4.0, 2.0, 6.0, f64::NAN]).unwrap();
        assert_eq!((spread.mean, spread.deviation), (4.0, Some(2.0)));
        assert_eq!((spread.least(), spread.most()), (2.0, 6.0));
        // 4.303 * 2 / sqrt(3)
        assert!((spread.confidence().unwrap() - 4.968_7).abs() < 1e-3);
        let one = Spread::of(vec![3.0]).unwrap();
        assert_eq!((one.deviation, one.confidence()), (None, None));
        assert_eq!(Spread::of(Vec::new()), None);
        let large = Spread::of(vec![1e308, 1e308]).unwrap();
        assert_eq!(large.mean, 1e308);
    }

    #[test]
    fn equal_values_have_no_deviation_and_their_mean_is_that_of_any_number_of_them() {
        let [few, many] = [3, 20].map(|count| Spread::of(vec![1.3; count]).unwrap());
        assert_eq!((few.mean, few.deviation), (1.3, Some(0.0)));
        assert_eq!((many.mean, many.deviation), (1.3, Some(0.0)));
    }

    #[test]
    fn runs_of_one_seed_are_one_value() {
        let spread = Spread::of_seeds([(1, 2.0), (2, 5.0), (1, 4.0), (2, f64::NAN)]).unwrap();
        assert_eq!(spread.values, [3.0, 5.0]);
        assert_eq!(Spread::of_seeds([]), None);
    }

    #[test]
    fn quantiles_go_from_the_first_to_the_last() {
        let sorted = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(
            [0.0, 0.5, 1.0].map(|it| quantile(&sorted, it).unwrap()),
            [1.0, 3.0, 5.0]
        );
        assert_eq!(quantile(&[], 0.5), None);
    }
}
