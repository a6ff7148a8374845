//! Axes and the places of their marks, which are at round numbers of the axis's unit.

use std::time::Duration;

use super::quantity::{energy, percent, rate, size, span, thousands};

/// Marks of an axis beside that at nothing, at most.
const MARKS_MAX: u64 = 6;

const MILLISECOND: u64 = 1_000;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The first of [`TIMES`].
const SHORTEST: u64 = 100 * MILLISECOND;

/// Distances between marks of time that are whole and above 50 ms, microseconds; below them 1, 2 and 5 of each power of ten, and beyond
/// them as many days.
const TIMES: [u64; 21] = [
    SHORTEST,
    SECOND / 5,
    SECOND / 2,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    4 * HOUR,
    6 * HOUR,
    12 * HOUR,
];

/// The distance between two values on an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// By their difference.
    #[default]
    Linear,
    /// By their ratio; a value of nothing has no place.
    Logarithmic,
}

/// The quantity that an axis shows, and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Microseconds.
    Time,
    /// Things.
    Count,
    /// Octets.
    Octets,
    /// Bits in a second.
    Rate,
    /// Microjoules.
    Energy,
    /// Numbers from 1 that stand for names, told below the picture.
    Name,
    /// 1/10,000, up to all.
    Share,
}

impl Axis {
    /// The distance between marks if the largest value is `most`, in the axis's unit.
    pub(crate) fn step(self, most: u64) -> u64 {
        let enough = |step: &u64| most / step <= MARKS_MAX;
        let decimal = |unit: u64| {
            let scales = (0..18).map(|power| unit.saturating_mul(10_u64.pow(power)));
            let steps = scales.flat_map(|scale| [1, 2, 5].map(|it| scale.saturating_mul(it)));
            let found = steps.clone().find(enough);
            found.unwrap_or(u64::MAX)
        };
        match self {
            Self::Time => {
                let whole = TIMES.iter().copied().find(enough);
                match whole {
                    Some(SHORTEST) => decimal(1).min(SHORTEST),
                    Some(step) => step,
                    None => decimal(DAY),
                }
            }
            Self::Count | Self::Octets | Self::Rate | Self::Energy => decimal(1),
            Self::Name => 1,
            Self::Share if most > 5_000 => 2_500,
            Self::Share => decimal(1),
        }
    }

    /// The value at the end of the axis: the largest one (times and names), or the first mark that is not below it.
    pub(crate) fn end(self, most: u64) -> u64 {
        match self {
            Self::Time | Self::Name => most.max(1),
            Self::Count | Self::Octets | Self::Rate | Self::Energy => {
                let step = self.step(most);
                most.max(1).div_ceil(step).saturating_mul(step)
            }
            Self::Share if most > 5_000 => 10_000,
            Self::Share => {
                let step = self.step(most);
                most.max(1).div_ceil(step).saturating_mul(step)
            }
        }
    }

    /// A value as it is read.
    pub(crate) fn say(self, value: u64) -> String {
        let said = match self {
            Self::Time if value == 0 => "0".to_owned(),
            Self::Time => span(Duration::from_micros(value)),
            Self::Count | Self::Name => thousands(value),
            Self::Rate => rate(value),
            Self::Energy => energy(value),
            Self::Octets => size(value),
            Self::Share => percent(value, 10_000),
        };
        said.replace(".0 ", " ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_few_and_at_whole_numbers() {
        let marks = |axis: Axis, most: u64| {
            let step = axis.step(most);
            let marks = (1..=most / step).map(|number| axis.say(number * step));
            marks.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(marks(Axis::Time, 8 * DAY), "2 d, 4 d, 6 d, 8 d");
        assert_eq!(marks(Axis::Time, 57 * HOUR), "12 h, 1 d, 1 d 12 h, 2 d");
        assert_eq!(marks(Axis::Time, 3_600_000), "1 s, 2 s, 3 s");
        assert_eq!(
            marks(Axis::Time, 550_000),
            "100 ms, 200 ms, 300 ms, 400 ms, 500 ms"
        );
        assert_eq!(
            marks(Axis::Time, 1_300),
            "200 µs, 400 µs, 600 µs, 800 µs, 1 ms, 1.2 ms"
        );
        assert_eq!(
            marks(Axis::Rate, 28_000_000),
            "5 Mbit/s, 10 Mbit/s, 15 Mbit/s, 20 Mbit/s, 25 Mbit/s"
        );
        assert_eq!(
            marks(Axis::Energy, 1_300_000),
            "200 mJ, 400 mJ, 600 mJ, 800 mJ, 1 J, 1.2 J"
        );
        assert_eq!(marks(Axis::Count, 1_550), "500, 1,000, 1,500");
        assert_eq!(
            marks(Axis::Octets, 26_200_000),
            "5 MB, 10 MB, 15 MB, 20 MB, 25 MB"
        );
        assert_eq!(marks(Axis::Share, 10_000), "25 %, 50 %, 75 %, 100 %");
        assert_eq!(marks(Axis::Share, 420), "1 %, 2 %, 3 %, 4 %");
        assert_eq!(Axis::Share.end(420), 500);
        assert_eq!((Axis::Count.end(1_550), Axis::Count.end(0)), (2_000, 1));
    }

    #[test]
    fn the_longest_time_has_marks_too() {
        assert!(u64::MAX / Axis::Time.step(u64::MAX) <= MARKS_MAX);
        assert!(u64::MAX / Axis::Octets.step(u64::MAX) <= MARKS_MAX);
    }
}
