//! The transmitter: when each packet has left, to the fraction of a nanosecond.

use core::time::Duration;

use dhow_bundle::Instant;

use crate::profile::Rate;
use crate::trace::{Course, RateTrace};

const NANOS_PER_S: u128 = 1_000_000_000;

/// A transmitter, at a rate or as a trace says.
#[derive(Clone, Debug)]
pub struct Line(Pace);

#[derive(Clone, Debug)]
enum Pace {
    Even(Even),
    Traced(Course),
}

impl Line {
    /// A transmitter that is free.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self(Pace::Even(Even {
            rate,
            at: Instant::START,
            numerator: 0,
        }))
    }

    /// A transmitter that follows a trace, which begins at the start of time.
    #[must_use]
    pub const fn traced(trace: RateTrace) -> Self {
        Self(Pace::Traced(Course::new(trace, Instant::START)))
    }

    /// Its trace begins at an instant, and what was leaving is to leave anew; whether it has a trace.
    pub fn begin(&mut self, start: Instant) -> bool {
        match &mut self.0 {
            Pace::Even(_) => false,
            Pace::Traced(course) => {
                course.begin(start);
                true
            }
        }
    }

    /// A packet is to leave as soon as the transmitter is free; the instant at which its last octet has left.
    pub fn transmit(&mut self, now: Instant, octets: u64) -> Instant {
        match &mut self.0 {
            Pace::Even(even) => even.transmit(now, octets),
            Pace::Traced(course) => course.transmit(now, octets),
        }
    }

    /// Cuts off the packet that is leaving: the transmitter is free at `now`, or with the next moment of the trace.
    pub fn reset(&mut self, now: Instant) {
        match &mut self.0 {
            Pace::Even(even) => even.reset(now),
            Pace::Traced(course) => course.reset(now),
        }
    }
}

/// The instant at which the transmitter is free again: `at` plus `numerator` parts of a nanosecond of which
/// there are as many as the rate has octets a second. The remainder of each division is carried on, so that the
/// rate is met exactly over any number of packets.
#[derive(Clone, Copy, Debug)]
struct Even {
    rate: Rate,
    at: Instant,
    numerator: u64,
}

impl Even {
    fn transmit(&mut self, now: Instant, octets: u64) -> Instant {
        if self.at < now {
            self.at = now;
            self.numerator = 0;
        }
        let rate = u128::from(self.rate.octets_per_s());
        let parts = u128::from(octets) * NANOS_PER_S + u128::from(self.numerator);
        let nanos = u64::try_from(parts / rate).unwrap_or(u64::MAX);
        self.at = self.at + Duration::from_nanos(nanos);
        self.numerator = u64::try_from(parts % rate).unwrap_or(0);
        if self.numerator == 0 {
            self.at
        } else {
            self.at + Duration::from_nanos(1)
        }
    }

    const fn reset(&mut self, now: Instant) {
        self.at = now;
        self.numerator = 0;
    }
}
