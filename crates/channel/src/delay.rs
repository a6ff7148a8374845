//! Propagation delay of a link: constant, or a function of time.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::profile::ProfileError;

/// Ranges for the time between two points of a delay that changes between them.
const STEPS: u32 = 16;

/// Propagation delay, constant or a function of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay(Course);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Course {
    Constant(Duration),
    /// Delays at times from the start, the times in order; between two of them it changes evenly.
    Points(Arc<[(Duration, Duration)]>),
}

impl Delay {
    /// Always the same.
    #[must_use]
    pub const fn constant(delay: Duration) -> Self {
        Self(Course::Constant(delay))
    }

    /// Delays at times from the start, the times in order. Between two of them it changes evenly; before the first and after
    /// the last it is theirs.
    ///
    /// # Errors
    /// When there are none, or a time is not after the one before it.
    pub fn course(points: Vec<(Duration, Duration)>) -> Result<Self, ProfileError> {
        if !points.is_sorted_by(|first, second| first.0 < second.0) {
            return Err(ProfileError::OutOfOrder);
        }
        match points.as_slice() {
            [] => Err(ProfileError::NoDelay),
            [(_, first), rest @ ..] if rest.iter().all(|(_, delay)| delay == first) => {
                Ok(Self::constant(*first))
            }
            _ => Ok(Self(Course::Points(points.into()))),
        }
    }

    /// The delay of what leaves at a time from the start.
    #[must_use]
    pub fn at(&self, time: Duration) -> Duration {
        let points = match &self.0 {
            Course::Constant(delay) => return *delay,
            Course::Points(points) => points,
        };
        let behind = points.partition_point(|(at, _)| *at <= time);
        let before = behind.checked_sub(1).and_then(|at| points.get(at));
        match (before, points.get(behind)) {
            (Some(&(start, from)), Some(&(end, to))) => {
                let part = (time - start).as_nanos();
                let whole = (end - start).as_nanos();
                let change = from.abs_diff(to).as_nanos() * part / whole;
                let change = Duration::from_nanos(u64::try_from(change).unwrap_or(u64::MAX));
                if to >= from {
                    from + change
                } else {
                    from - change
                }
            }
            (Some(&(_, delay)), None) | (None, Some(&(_, delay))) => delay,
            (None, None) => Duration::ZERO,
        }
    }

    /// The shortest that there is.
    #[must_use]
    pub fn shortest(&self) -> Duration {
        match &self.0 {
            Course::Constant(delay) => *delay,
            Course::Points(points) => points
                .iter()
                .map(|(_, delay)| *delay)
                .min()
                .unwrap_or_default(),
        }
    }

    /// Ranges of time that follow each other from the start on, as contact plans have them, each with the longest delay in it: its end, and the
    /// delay. The last has no end. If the delay changes evenly between two times, there are [`STEPS`] ranges.
    #[must_use]
    pub fn ranges(&self) -> Vec<(Option<Duration>, Duration)> {
        let points: &[(Duration, Duration)] = match &self.0 {
            Course::Constant(delay) => return vec![(None, *delay)],
            Course::Points(points) => points,
        };
        let mut ranges: Vec<(Option<Duration>, Duration)> = Vec::new();
        let mut last = points.first().map_or(Duration::ZERO, |(_, delay)| *delay);
        for (from, to) in points.iter().zip(points.iter().skip(1)) {
            // A delay that does not change belongs to the range that goes on.
            if from.1 == to.1 {
                last = from.1;
                continue;
            }
            ranges.push((Some(from.0), last));
            for step in 1..=STEPS {
                let end = from.0 + (to.0.saturating_sub(from.0)) * step / STEPS;
                let start = from.0 + (to.0.saturating_sub(from.0)) * (step - 1) / STEPS;
                ranges.push((Some(end), self.at(start).max(self.at(end))));
            }
            last = to.1;
        }
        ranges.push((None, last));
        ranges.dedup_by_key(|range| range.0);
        ranges
    }

    /// The longest that there is.
    #[must_use]
    pub fn longest(&self) -> Duration {
        match &self.0 {
            Course::Constant(delay) => *delay,
            Course::Points(points) => points
                .iter()
                .map(|(_, delay)| *delay)
                .max()
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn delays_change_evenly_between_their_times() {
        let s = Duration::from_secs;
        let delay =
            Delay::course(vec![(s(10), s(4)), (s(20), s(2)), (s(40), s(12))]).expect("in order");
        for (time, expected) in [
            (0, 4),
            (10, 4),
            (15, 3),
            (20, 2),
            (30, 7),
            (40, 12),
            (99, 12),
        ] {
            assert_eq!(delay.at(s(time)), s(expected), "{time}");
        }
        assert_eq!(delay.longest(), s(12));
        assert_eq!(Delay::course(vec![]), Err(ProfileError::NoDelay));
        assert_eq!(
            Delay::course(vec![(s(1), s(1)), (s(1), s(2))]),
            Err(ProfileError::OutOfOrder)
        );
    }

    #[test]
    fn ranges_follow_each_other_and_none_is_shorter_than_the_delay_in_it() {
        let s = Duration::from_secs;
        assert_eq!(Delay::constant(s(3)).ranges(), [(None, s(3))]);
        let jump = Duration::from_nanos(1);
        let course = vec![
            (s(0), s(1)),
            (s(100) - jump, s(1)),
            (s(100), s(5)),
            (s(200), s(5)),
            (s(360), s(21)),
        ];
        let delay = Delay::course(course).expect("a course");
        let ranges = delay.ranges();
        let mut start = Duration::ZERO;
        for (end, longest) in &ranges {
            let end = end.unwrap_or(s(1_000));
            assert!(start <= end);
            for at in [start, (start + end) / 2, end.saturating_sub(jump)] {
                assert!(delay.at(at.max(start)) <= *longest, "{at:?}");
                assert!(*longest - delay.at(at.max(start)) <= s(4), "{at:?}");
            }
            start = end;
        }
        assert_eq!((delay.shortest(), delay.longest()), (s(1), s(21)));
        assert_eq!(ranges.last(), Some(&(None, s(21))));
    }
}
