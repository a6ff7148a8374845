//! The times at which packets leave: a value that follows from a pattern and a seed, and knows no clock.

use std::time::Duration;

use dhow_scenario::Entropy;

/// Nanoseconds of a second.
const SECOND_NS: u128 = 1_000_000_000;

/// The purpose of this entropy, apart from all that scenarios draw.
const PURPOSE: u64 = 2_000;

/// A seed gives this to [`Entropy`]'s number: a sender has one flow.
const WHICH: usize = 0;

/// A pattern of packets: one size and one rate, always or in bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// Octets of a packet's payload.
    pub octets: u32,
    /// The pace of packets within a burst.
    pub pace: Pace,
    /// When packets leave at that rate.
    pub bursts: Bursts,
}

/// The pace of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Bits of payload a second.
    BitsPerS(u64),
    /// The time from one to the next, whatever its size.
    Interval(Duration),
}

/// When packets leave at a pattern's rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bursts {
    /// Always.
    Always,
    /// In bursts and pauses, each exponentially distributed around its mean.
    Exponential {
        /// The mean length of a burst.
        on: Duration,
        /// The mean length of the pause after it.
        off: Duration,
    },
    /// In bursts and pauses, each of a Pareto distribution: most are short, a few very long, so that many such flows together
    /// look alike at every scale of time.
    Pareto {
        /// The mean length of a burst.
        on: Duration,
        /// The mean length of the pause after it.
        off: Duration,
        /// The weight of the tail: more than 1; at 2 and less there is no variance.
        shape: f64,
    },
}

/// Why a pattern cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PatternError {
    /// Nothing would ever leave.
    #[error("a rate of 0 bit/s sends nothing")]
    NoRate,
    /// All would leave at once.
    #[error("packets with no time between them have no rate")]
    NoInterval,
    /// The packet cannot say which one it is, or no datagram has so many.
    #[error("{0} octets are not from {least} to {most}", least = Pattern::OCTETS_MIN, most = Pattern::OCTETS_MAX)]
    Octets(u32),
    /// Bursts of no length.
    #[error("bursts take more than no time")]
    NoBurst,
    /// There is no mean.
    #[error("the shape {0} of a Pareto distribution is not more than 1, so that it has no mean")]
    Shape(f64),
}

impl Pattern {
    /// Octets that a packet needs to say which one it is.
    pub const OCTETS_MIN: u32 = 17;
    /// Octets of the largest UDP datagram over IPv4.
    pub const OCTETS_MAX: u32 = 65_507;

    /// The pattern, if it can be sent.
    ///
    /// # Errors
    /// The fault in it.
    pub fn checked(self) -> Result<Self, PatternError> {
        match self.pace {
            Pace::BitsPerS(0) => return Err(PatternError::NoRate),
            Pace::Interval(Duration::ZERO) => return Err(PatternError::NoInterval),
            Pace::BitsPerS(_) | Pace::Interval(_) => {}
        }
        if !(Self::OCTETS_MIN..=Self::OCTETS_MAX).contains(&self.octets) {
            return Err(PatternError::Octets(self.octets));
        }
        match self.bursts {
            Bursts::Exponential { on, .. } | Bursts::Pareto { on, .. } if on.is_zero() => {
                Err(PatternError::NoBurst)
            }
            Bursts::Pareto { shape, .. } if shape.is_nan() || shape <= 1.0 => {
                Err(PatternError::Shape(shape))
            }
            _ => Ok(self),
        }
    }

    /// When the packet of this number in a burst leaves, from the burst's start: exact, so that nothing drifts.
    fn offset_ns(&self, number: u64) -> u128 {
        match self.pace {
            Pace::BitsPerS(bits_per_s) => {
                let bits = u128::from(number) * u128::from(self.octets) * 8;
                bits * SECOND_NS / u128::from(bits_per_s.max(1))
            }
            Pace::Interval(interval) => u128::from(number) * interval.as_nanos(),
        }
    }
}

/// A packet and when it leaves, from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The time, from the start of the flow.
    pub at: Duration,
    /// Octets of its payload.
    pub octets: u32,
}

/// All departures of a flow, one after the other; it never ends by itself.
#[derive(Clone, Debug)]
pub struct Schedule {
    pattern: Pattern,
    entropy: Entropy,
    burst_start_ns: u128,
    /// None: the burst does not end.
    burst_ns: Option<u128>,
    sent_in_burst: u64,
}

impl Schedule {
    /// The schedule of a pattern that can be sent.
    ///
    /// # Errors
    /// The fault in the pattern.
    pub fn new(pattern: Pattern, seed: u64) -> Result<Self, PatternError> {
        let mut schedule = Self {
            pattern: pattern.checked()?,
            entropy: Entropy::new(seed, PURPOSE, WHICH),
            burst_start_ns: 0,
            burst_ns: None,
            sent_in_burst: 0,
        };
        schedule.burst_ns = schedule.draw_burst();
        Ok(schedule)
    }

    /// The pattern now.
    #[must_use]
    pub const fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// The next packet, without taking it.
    #[must_use]
    pub fn peek(&self) -> Departure {
        let ns = self.burst_start_ns + self.pattern.offset_ns(self.sent_in_burst);
        Departure {
            at: from_ns(ns),
            octets: self.pattern.octets,
        }
    }

    /// The next packet has left.
    pub fn advance(&mut self) {
        self.sent_in_burst += 1;
        let offset = self.pattern.offset_ns(self.sent_in_burst);
        // A burst has one packet at least, however short it is.
        if self.burst_ns.is_some_and(|length| offset >= length) {
            let length = self.burst_ns.unwrap_or_default().max(offset);
            self.burst_start_ns += length + self.draw_pause();
            self.burst_ns = self.draw_burst();
            self.sent_in_burst = 0;
        }
    }

    /// From now on another pattern: its first packet leaves its own interval after the last one of the old, at `now` at the
    /// earliest.
    ///
    /// # Errors
    /// The fault in the new pattern; the old one goes on.
    pub fn change(&mut self, now: Duration, pattern: Pattern) -> Result<(), PatternError> {
        let pattern = pattern.checked()?;
        let last = self
            .sent_in_burst
            .checked_sub(1)
            .map(|last| self.burst_start_ns + self.pattern.offset_ns(last) + pattern.offset_ns(1));
        self.burst_start_ns = last.unwrap_or_default().max(now.as_nanos());
        self.pattern = pattern;
        self.burst_ns = self.draw_burst();
        self.sent_in_burst = 0;
        Ok(())
    }

    /// Nothing leaves for so long: all that follows is so much later.
    pub fn shift(&mut self, by: Duration) {
        self.burst_start_ns += by.as_nanos();
    }

    fn draw_burst(&mut self) -> Option<u128> {
        match self.pattern.bursts {
            Bursts::Always => None,
            Bursts::Exponential { on, .. } => Some(self.entropy.exponential(on).as_nanos()),
            Bursts::Pareto { on, shape, .. } => Some(self.draw_pareto(on, shape)),
        }
    }

    fn draw_pause(&mut self) -> u128 {
        match self.pattern.bursts {
            Bursts::Always => 0,
            Bursts::Exponential { off, .. } => self.entropy.exponential(off).as_nanos(),
            Bursts::Pareto { off, shape, .. } => self.draw_pareto(off, shape),
        }
    }

    /// Nanoseconds, Pareto distributed: the shortest times e to the power of an exponential time divided by the shape.
    fn draw_pareto(&mut self, mean: Duration, shape: f64) -> u128 {
        let power = self
            .entropy
            .exponential(Duration::from_secs(1))
            .as_secs_f64()
            / shape;
        let shortest = mean.as_secs_f64() * (shape - 1.0) / shape;
        Duration::try_from_secs_f64(shortest * exponential_of(power))
            .unwrap_or(LONGEST)
            .min(LONGEST)
            .as_nanos()
    }
}

/// The longest burst or pause that is drawn.
const LONGEST: Duration = Duration::from_secs(1 << 32);

/// e to a power that is not negative. Only additions and multiplications take part, which are the same on every machine; the
/// library's function is not.
fn exponential_of(power: f64) -> f64 {
    const HALVINGS: u32 = 12;
    const TERMS: u32 = 8;
    let small = power / f64::from(1_u32 << HALVINGS);
    let (mut sum, mut term) = (1.0, 1.0);
    for number in 1..=TERMS {
        term = term * small / f64::from(number);
        sum += term;
    }
    (0..HALVINGS).fold(sum, |value, _| value * value)
}

fn from_ns(ns: u128) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Pattern = Pattern {
        octets: 1_470,
        pace: Pace::BitsPerS(54 * 1024 * 1024),
        bursts: Bursts::Always,
    };

    fn departures(schedule: &mut Schedule, count: usize) -> Vec<Duration> {
        let each = |_| {
            let at = schedule.peek().at;
            schedule.advance();
            at
        };
        (0..count).map(each).collect()
    }

    #[test]
    fn a_constant_rate_does_not_drift_by_a_nanosecond() {
        let mut schedule = Schedule::new(PACKET, 1).unwrap();
        let times = departures(&mut schedule, 1_000_001);
        assert_eq!(times[0], Duration::ZERO);
        // 1,000,000 × 1,470 × 8 bits at 56,623,104 bit/s.
        assert_eq!(times[1_000_000].as_nanos(), 207_689_073_350);
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn an_interval_is_kept_where_no_whole_rate_has_it() {
        // 512 octets each 30 s are 136.5 bit/s.
        let pace = Pace::Interval(Duration::from_secs(30));
        let pattern = Pattern {
            octets: 512,
            pace,
            bursts: Bursts::Always,
        };
        let mut schedule = Schedule::new(pattern, 1).unwrap();
        let times = departures(&mut schedule, 1_001);
        assert_eq!(times[1_000], Duration::from_secs(30_000));
        let pace = Pace::Interval(Duration::ZERO);
        let refused = Pattern { pace, ..pattern }.checked();
        assert_eq!(refused, Err(PatternError::NoInterval));
    }

    #[test]
    fn a_new_rate_holds_from_now_on_and_not_before_its_own_interval_is_over() {
        let slow = Pattern {
            octets: 1_000,
            pace: Pace::BitsPerS(8_000),
            bursts: Bursts::Always,
        };
        let mut schedule = Schedule::new(slow, 1).unwrap();
        departures(&mut schedule, 3);
        let fast = Pattern {
            pace: Pace::BitsPerS(80_000),
            ..slow
        };
        schedule.change(Duration::from_millis(2_050), fast).unwrap();
        let times = departures(&mut schedule, 2);
        assert_eq!(times, [2_100, 2_200].map(Duration::from_millis));
        schedule.change(Duration::from_secs(9), fast).unwrap();
        assert_eq!(schedule.peek().at, Duration::from_secs(9));
    }

    /// The part of the time in which packets leave, of so many of them.
    fn busy_part(bursts: Bursts, seed: u64) -> f64 {
        let pattern = Pattern {
            octets: 125,
            pace: Pace::BitsPerS(1_000_000),
            bursts,
        };
        let mut schedule = Schedule::new(pattern, seed).unwrap();
        let times = departures(&mut schedule, 200_001);
        // A packet takes a millisecond.
        200.0 / times[200_000].as_secs_f64()
    }

    #[test]
    fn bursts_and_pauses_have_their_means() {
        let (on, off) = (Duration::from_millis(100), Duration::from_millis(300));
        let exponential = busy_part(Bursts::Exponential { on, off }, 1);
        assert!((0.23..0.27).contains(&exponential), "{exponential}");
        let shape = 2.5;
        let pareto = busy_part(Bursts::Pareto { on, off, shape }, 1);
        assert!((0.22..0.28).contains(&pareto), "{pareto}");
    }

    #[test]
    fn the_same_seed_gives_the_same_departures_and_another_others() {
        let pattern = Pattern {
            bursts: Bursts::Pareto {
                on: Duration::from_millis(5),
                off: Duration::from_millis(5),
                shape: 1.5,
            },
            ..PACKET
        };
        let of = |seed| departures(&mut Schedule::new(pattern, seed).unwrap(), 1_000);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn the_shortest_and_the_median_of_pareto_are_those_of_the_distribution() {
        let mut schedule = Schedule::new(PACKET, 3).unwrap();
        let mean = Duration::from_secs(3);
        let mut drawn: Vec<u128> = (0..10_000)
            .map(|_| schedule.draw_pareto(mean, 1.5))
            .collect();
        drawn.sort_unstable();
        // Shortest: mean × 0.5 / 1.5 = 1 s; median: 2 to the power of 1 / 1.5.
        assert!(drawn[0] >= SECOND_NS - 1, "{}", drawn[0]);
        let median = drawn[5_000];
        assert!((1_560_000_000..1_620_000_000).contains(&median), "{median}");
    }

    #[test]
    fn a_pattern_that_cannot_be_sent_says_why() {
        let wrong = |pattern: Pattern| pattern.checked().unwrap_err();
        assert_eq!(
            wrong(Pattern {
                pace: Pace::BitsPerS(0),
                ..PACKET
            }),
            PatternError::NoRate
        );
        assert_eq!(
            wrong(Pattern {
                octets: 16,
                ..PACKET
            }),
            PatternError::Octets(16)
        );
        let bursts = Bursts::Exponential {
            on: Duration::ZERO,
            off: Duration::ZERO,
        };
        assert_eq!(wrong(Pattern { bursts, ..PACKET }), PatternError::NoBurst);
        let on = Duration::from_secs(1);
        let bursts = Bursts::Pareto {
            on,
            off: on,
            shape: 1.0,
        };
        assert_eq!(
            wrong(Pattern { bursts, ..PACKET }),
            PatternError::Shape(1.0)
        );
    }

    #[test]
    fn powers_of_e_are_as_exact_as_bursts_need() {
        for power in [0.0, 0.1, 1.0, 10.0, 44.0] {
            let found = exponential_of(power) / f64::exp(power);
            assert!((found - 1.0).abs() < 1e-9, "{power}: {found}");
        }
    }
}
