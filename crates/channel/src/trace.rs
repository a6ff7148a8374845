//! A rate that changes, as a list of moments at which a packet may leave: the traces of mahimahi.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::Instant;

use crate::profile::Rate;

/// Octets that may leave at each moment of a trace: a packet of 1500, and what a TUN device puts before it.
pub const MOMENT_OCTETS: u64 = 1504;

/// Moments that a trace may have: a gigabit a second for two minutes.
pub const MOMENTS_MAX: usize = 10_000_000;

/// Characters of a wrong line that are told.
const SHOWN_CHARS: usize = 40;

/// Why something is no trace. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// Nothing ever leaves.
    #[error("there is no moment at which a packet may leave")]
    Empty,
    /// All moments are the same.
    #[error("it is over at once: its last moment, after which it begins anew, is 0")]
    NoTime,
    /// Not a number.
    #[error("'{text}' is not a number of milliseconds from 0 to {}", u32::MAX)]
    Number {
        /// The number of the line.
        line: usize,
        /// The text of the line, or its beginning.
        text: alloc::string::String,
    },
    /// Back in time.
    #[error("{at} ms are before {before} ms, which is the moment before it")]
    OutOfOrder {
        /// The number of the line.
        line: usize,
        /// Its moment, milliseconds.
        at: u32,
        /// The one before it, milliseconds.
        before: u32,
    },
    /// More than there is room for.
    #[error("it has more than {MOMENTS_MAX} moments")]
    TooLong,
}

impl TraceError {
    /// The line that is wrong; the first where it is none by itself.
    #[must_use]
    pub const fn line(&self) -> usize {
        match self {
            Self::Number { line, .. } | Self::OutOfOrder { line, .. } => *line,
            Self::Empty | Self::NoTime => 1,
            Self::TooLong => MOMENTS_MAX + 1,
        }
    }
}

/// Moments, milliseconds from the beginning and in order, at each of which [`MOMENT_OCTETS`] may leave, of one packet or of several.
/// After the last moment the trace begins anew, as though that were moment 0. Octets that no packet uses at their moment are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTrace(Arc<[u32]>);

impl RateTrace {
    /// A trace of such moments.
    ///
    /// # Errors
    /// When there are none, too many, or they are not in order; lines are positions from 1.
    pub fn new(moments: Vec<u32>) -> Result<Self, TraceError> {
        if moments.len() > MOMENTS_MAX {
            return Err(TraceError::TooLong);
        }
        for (line, pair) in (2..).zip(moments.windows(2)) {
            if let [before, at] = *pair
                && at < before
            {
                return Err(TraceError::OutOfOrder { line, at, before });
            }
        }
        match moments.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoTime),
            Some(_) => Ok(Self(moments.into())),
        }
    }

    /// Reads a trace file: one moment a line, as a whole number of milliseconds.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let lines = (1..).zip(text.lines());
        let moments = lines.take(MOMENTS_MAX + 1).map(|(line, text)| {
            text.trim().parse().map_err(|_| TraceError::Number {
                line,
                text: text.chars().take(SHOWN_CHARS).collect(),
            })
        });
        Self::new(moments.collect::<Result<_, _>>()?)
    }

    /// After how long it begins anew: 1 ms to 49 days.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// The mean rate over one repetition of the trace, at least one octet a second.
    #[must_use]
    pub fn mean(&self) -> Rate {
        let moments = u64::try_from(self.0.len()).unwrap_or(u64::MAX);
        let octets = moments.saturating_mul(MOMENT_OCTETS * 1000) / self.period_ms();
        Rate::from_octets_per_s(octets).unwrap_or(Rate::LEAST)
    }

    fn period_ms(&self) -> u64 {
        self.0.last().copied().unwrap_or(1).into()
    }

    /// When the moment of a number is, all repetitions counted from 0: milliseconds from the beginning.
    fn at_ms(&self, number: u64) -> u64 {
        let moments = u64::try_from(self.0.len()).unwrap_or(1).max(1);
        let place = usize::try_from(number % moments).unwrap_or(0);
        let within = self.0.get(place).copied().unwrap_or(0);
        (number / moments)
            .saturating_mul(self.period_ms())
            .saturating_add(within.into())
    }

    /// The first moment that is not before a time from the beginning.
    fn first_from(&self, time: Duration) -> u64 {
        let moments = u64::try_from(self.0.len()).unwrap_or(1);
        let wanted = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        // The end of a repetition is the beginning of the next, and belongs to both.
        let round = (wanted / self.period_ms()).saturating_sub(1);
        let mut first = round.saturating_mul(moments);
        for round in [round, round.saturating_add(1)] {
            let left = wanted.saturating_sub(round.saturating_mul(self.period_ms()));
            let passed = self.0.partition_point(|at| u64::from(*at) < left);
            first = first.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
            if passed < self.0.len() {
                break;
            }
        }
        first
    }
}

/// The state of a trace in use: the number of the moment at which the last packet left, and the octets that may still leave
/// at it.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    trace: RateTrace,
    start: Instant,
    moment: u64,
    left_octets: u64,
}

impl Course {
    pub(crate) const fn new(trace: RateTrace, start: Instant) -> Self {
        Self {
            trace,
            start,
            moment: 0,
            left_octets: MOMENT_OCTETS,
        }
    }

    /// The same trace from its beginning.
    pub(crate) fn begin(&mut self, start: Instant) {
        *self = Self::new(self.trace.clone(), start);
    }

    /// The instant at which the last of a packet's octets has left.
    pub(crate) fn transmit(&mut self, now: Instant, octets: u64) -> Instant {
        self.pass(now);
        if octets > self.left_octets {
            let more = octets - self.left_octets;
            let moments = more.div_ceil(MOMENT_OCTETS);
            self.moment = self.moment.saturating_add(moments);
            self.left_octets = moments.saturating_mul(MOMENT_OCTETS) - more;
        } else {
            self.left_octets -= octets;
        }
        self.start + Duration::from_millis(self.trace.at_ms(self.moment))
    }

    /// Cuts off the packet that is leaving: the next octets leave at the first moment after `now`, with all of its octets.
    pub(crate) fn reset(&mut self, now: Instant) {
        let after = now.since(self.start) + Duration::from_nanos(1);
        self.moment = self.trace.first_from(after);
        self.left_octets = MOMENT_OCTETS;
    }

    /// Moments before now are over.
    fn pass(&mut self, now: Instant) {
        let first = self.trace.first_from(now.since(self.start));
        if first > self.moment {
            self.moment = first;
            self.left_octets = MOMENT_OCTETS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_trace_is_read_line_by_line_and_says_which_is_wrong() {
        assert_eq!(
            RateTrace::parse("0\n3\n3 \n10\n"),
            RateTrace::new(vec![0, 3, 3, 10])
        );
        let wrong = |text: &str| {
            let error = RateTrace::parse(text).expect_err("no trace");
            (error.line(), alloc::format!("{error}"))
        };
        for (text, line, what) in [
            ("", 1, "there is no moment at which a packet may leave"),
            (
                "0\n0\n",
                1,
                "it is over at once: its last moment, after which it begins anew, is 0",
            ),
            (
                "1\n\n2\n",
                2,
                "'' is not a number of milliseconds from 0 to 4294967295",
            ),
            (
                "1\n2.5\n",
                2,
                "'2.5' is not a number of milliseconds from 0 to 4294967295",
            ),
            (
                "1\n9\n8\n",
                3,
                "8 ms are before 9 ms, which is the moment before it",
            ),
        ] {
            assert_eq!(wrong(text), (line, what.into()), "{text}");
        }
    }

    #[test]
    fn a_trace_goes_on_from_its_beginning() {
        let trace = RateTrace::new(vec![0, 4, 10]).expect("a trace");
        assert_eq!(trace.period(), Duration::from_millis(10));
        assert_eq!(trace.mean().octets_per_s(), 3 * 1504 * 100);
        let times: Vec<u64> = (0..7).map(|number| trace.at_ms(number)).collect();
        assert_eq!(times, [0, 4, 10, 10, 14, 20, 20]);
        let firsts =
            [0, 1, 4, 5, 10, 11, 20, 21].map(|at| trace.first_from(Duration::from_millis(at)));
        assert_eq!(firsts, [0, 1, 1, 2, 2, 4, 5, 7]);
        assert_eq!(trace.first_from(Duration::from_nanos(4_000_001)), 2);
    }
}
