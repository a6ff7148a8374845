//! The judges of a trial: the measured values against the expected ones.

use std::borrow::Cow;
use std::time::Duration;

use super::flight::{Flight, Load};
use super::{Finding, Trial};
use crate::number::float;

/// The largest error of a delay, for nineteen of twenty packets.
const DELAY_MS: f64 = 0.5;

/// The largest error of a rate, as a part of it.
const RATE_PART: f64 = 0.01;

/// The part of a rate by which carried octets may be below it: tbf counts 14 octets of Ethernet for each packet, which the rate of a link has not.
const CARRIED_PART: f64 = 0.02;

/// Standard deviations that a count drawn by chance may be off: more happens once in 16,000 times.
const DEVIATIONS: f64 = 4.0;

/// Packets that may be lost of a rate that is held.
const HELD_PART: f64 = 0.001;

/// The measure of a flight, and its expected value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Judge {
    /// One-way delay beside the time that a packet takes to leave: milliseconds, and bits a second.
    Delay { ms: f64, rate: f64 },
    /// The same of a long delay, with packets in order, of which none is lost.
    Far { ms: f64, rate: f64 },
    /// Bits a second of packets that come in a row.
    Rate { bits: f64 },
    /// Bits a second from when the first packet leaves: no more than these.
    Ceiling { bits: f64 },
    /// The fraction of packets that do not arrive.
    Loss { part: f64 },
    /// Milliseconds of delay, and most of what comes on top of it, evenly drawn.
    Jitter { ms: f64, most_ms: f64, rate: f64 },
    /// The fraction of packets that others overtake.
    Reordering { part: f64 },
    /// Nothing is expected: whether the packets of the load get through.
    Holds,
}

/// A trial of a link by the emulator.
fn emulated(name: &'static str, keys: &'static str, load: Load, judge: Judge) -> Trial {
    Trial {
        name,
        by: "emulator",
        keys: Cow::Borrowed(keys),
        delay: Duration::ZERO,
        load,
        judge,
    }
}

/// A link that has only a rate, made by what is usual for that.
fn plain(keys: &'static str, bits: f64, load: Load) -> Trial {
    Trial {
        by: "auto",
        ..emulated("carried", keys, load, Judge::Ceiling { bits })
    }
}

fn load(count: u32, octets: usize, per_second: u32) -> Load {
    Load {
        count,
        octets,
        per_second,
    }
}

/// The trial of a long delay: more than a spool has in memory (64 MiB), in 13 s.
pub(super) fn far(delay: Duration) -> Trial {
    let ms = delay.as_secs_f64() * 1e3;
    let judge = Judge::Far { ms, rate: 100e6 };
    let keys = format!("rate = \"100Mbit\"\ndelay = \"{}us\"\n", delay.as_micros());
    Trial {
        keys: Cow::Owned(keys),
        delay,
        ..emulated("far", "", load(100_000, 1_400, 8_000), judge)
    }
}

/// All trials that take seconds.
pub(super) fn trials() -> Vec<Trial> {
    let delay = |ms, rate| Judge::Delay { ms, rate };
    let rate = |bits| Judge::Rate { bits };
    let (slow, fast) = (10e6, 100e6);
    vec![
        emulated(
            "delay",
            "rate = \"10Mbit\"\ndelay = \"50ms\"\n",
            load(500, 500, 500),
            delay(50.0, slow),
        ),
        emulated(
            "delay",
            "rate = \"100Mbit\"\ndelay = \"5ms\"\n",
            load(1_000, 1_000, 1_000),
            delay(5.0, fast),
        ),
        emulated(
            "rate",
            "rate = \"1Mbit\"\n",
            load(400, 1_000, 200),
            rate(1e6),
        ),
        emulated(
            "rate",
            "rate = \"20Mbit\"\ndelay = \"10ms\"\n",
            load(4_500, 1_400, 3_000),
            rate(20e6),
        ),
        emulated(
            "rate",
            "rate = \"100Mbit\"\n",
            load(15_000, 1_400, 12_000),
            rate(fast),
        ),
        plain("rate = \"64kbit\"\n", 64e3, load(40, 1_000, 20)),
        plain("rate = \"19Mbit\"\n", 19e6, load(4_500, 1_400, 3_000)),
        plain("rate = \"20Mbit\"\n", 20e6, load(4_500, 1_400, 3_000)),
        plain("rate = \"100Mbit\"\n", fast, load(15_000, 1_400, 12_000)),
        emulated(
            "loss",
            "rate = \"100Mbit\"\nloss = 0.05\n",
            load(5_000, 100, 4_000),
            Judge::Loss { part: 0.05 },
        ),
        emulated(
            "jitter",
            "rate = \"100Mbit\"\ndelay = \"5ms\"\njitter = \"5ms\"\n",
            load(250, 100, 150),
            Judge::Jitter {
                ms: 5.0,
                most_ms: 5.0,
                rate: fast,
            },
        ),
        emulated(
            "reordering",
            "rate = \"100Mbit\"\nreorder = 0.1\nreorder_by = \"10ms\"\n",
            load(2_000, 100, 1_000),
            Judge::Reordering { part: 0.1 },
        ),
        emulated(
            "packets",
            "rate = \"1Gbit\"\n",
            load(5_000, 100, 10_000),
            Judge::Holds,
        ),
        emulated(
            "packets",
            "rate = \"1Gbit\"\n",
            load(15_000, 100, 30_000),
            Judge::Holds,
        ),
        emulated(
            "packets",
            "rate = \"1Gbit\"\n",
            load(50_000, 100, 100_000),
            Judge::Holds,
        ),
    ]
}

impl Judge {
    pub(super) fn judge(self, trial: &Trial, link: String, flight: &Flight) -> Finding {
        let (asked, measured, bound, held) = match self {
            Self::Delay { ms, rate } => delay(flight, ms, rate),
            Self::Far { ms, rate } => far_away(flight, ms, rate),
            Self::Rate { bits } => rate(flight, bits),
            Self::Ceiling { bits } => ceiling(flight, bits),
            Self::Loss { part } => {
                let lost = u64::from(flight.load.count).saturating_sub(arrived(flight));
                counted(flight, "lost", lost, part)
            }
            Self::Jitter { ms, most_ms, rate } => jitter(flight, ms, most_ms, rate),
            Self::Reordering { part } => counted(flight, "overtaken", overtaken(flight), part),
            Self::Holds => holds(flight),
        };
        Finding {
            name: trial.name.to_owned(),
            link,
            asked,
            measured,
            bound,
            held,
        }
    }
}

type Verdict = (String, String, String, Option<bool>);

/// Milliseconds that packets took beside the time to leave, the shortest first.
fn delays(flight: &Flight, rate: f64) -> Vec<f64> {
    let leaving_ms = float(flight.load.packet_octets()) * 8e3 / rate;
    let taken = flight.arrivals.iter().map(|it| {
        let time = it.arrived.saturating_sub(it.sent);
        time.as_secs_f64() * 1e3 - leaving_ms
    });
    let mut delays: Vec<f64> = taken.collect();
    delays.sort_by(f64::total_cmp);
    delays
}

/// A place in a sorted list, in hundredths of its length.
fn quantile(sorted: &[f64], hundredths: usize) -> f64 {
    let place = sorted.len().saturating_sub(1) * hundredths / 100;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

fn delay(flight: &Flight, ms: f64, rate: f64) -> Verdict {
    let delays = delays(flight, rate);
    let mut errors: Vec<f64> = delays.iter().map(|it| (it - ms).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let error = quantile(&errors, 95);
    (
        format!("{ms} ms"),
        format!(
            "{:.3} ms (median), {error:.3} ms off (95 %)",
            quantile(&delays, 50)
        ),
        format!("{DELAY_MS} ms"),
        Some(error <= DELAY_MS),
    )
}

fn far_away(flight: &Flight, ms: f64, rate: f64) -> Verdict {
    let (asked, measured, bound, held) = delay(flight, ms, rate);
    let (lost, overtaken) = (
        u64::from(flight.load.count).saturating_sub(arrived(flight)),
        overtaken(flight),
    );
    (
        format!("{asked}, none lost"),
        format!(
            "{measured}, {lost} of {} lost, {overtaken} overtaken",
            flight.load.count
        ),
        bound,
        held.map(|held| held && lost == 0 && overtaken == 0),
    )
}

fn rate(flight: &Flight, bits: f64) -> Verdict {
    let first = flight
        .arrivals
        .first()
        .map_or(Duration::ZERO, |it| it.arrived);
    let last = flight
        .arrivals
        .last()
        .map_or(Duration::ZERO, |it| it.arrived);
    let octets = float(arrived(flight).saturating_sub(1) * flight.load.packet_octets());
    let found = octets * 8.0 / last.saturating_sub(first).as_secs_f64();
    let error = found / bits - 1.0;
    (
        format!("{} Mbit/s", bits / 1e6),
        format!("{:.3} Mbit/s ({:+.2} %)", found / 1e6, error * 100.0),
        format!("{} %", RATE_PART * 100.0),
        Some(error.abs() <= RATE_PART),
    )
}

fn ceiling(flight: &Flight, bits: f64) -> Verdict {
    let first = flight.arrivals.iter().map(|it| it.sent).min();
    let last = flight.arrivals.iter().map(|it| it.arrived).max();
    let time = last.unwrap_or_default() - first.unwrap_or_default();
    let octets = float(arrived(flight) * flight.load.packet_octets());
    let found = octets * 8.0 / time.as_secs_f64();
    let error = found / bits - 1.0;
    (
        format!("at most {} Mbit/s", bits / 1e6),
        format!("{:.3} Mbit/s ({:+.2} %)", found / 1e6, error * 100.0),
        format!("-{} %, +0 %", CARRIED_PART * 100.0),
        Some((-CARRIED_PART..=0.0).contains(&error)),
    )
}

fn counted(flight: &Flight, what: &str, count: u64, part: f64) -> Verdict {
    let of = f64::from(flight.load.count);
    let bound = DEVIATIONS * (of * part * (1.0 - part)).sqrt();
    let expected = of * part;
    (
        format!("{expected:.0} {what} of {of}"),
        format!("{count} {what}"),
        format!("{bound:.0} packets"),
        Some((float(count) - expected).abs() <= bound),
    )
}

fn jitter(flight: &Flight, ms: f64, most_ms: f64, rate: f64) -> Verdict {
    let delays = delays(flight, rate);
    let count = float(arrived(flight)).max(1.0);
    let mean = delays.iter().sum::<f64>() / count;
    let expected = ms + most_ms / 2.0;
    // Evenly drawn: the variance is a twelfth of the square of the span.
    let bound = DELAY_MS + DEVIATIONS * most_ms / (12.0 * count).sqrt();
    let most = quantile(&delays, 95);
    let held = (mean - expected).abs() <= bound && most <= ms + most_ms + DELAY_MS;
    (
        format!("{ms} to {} ms, mean {expected}", ms + most_ms),
        format!(
            "mean {mean:.2} ms, {:.2} to {most:.2} ms (5 to 95 %)",
            quantile(&delays, 5)
        ),
        format!("{bound:.2} ms"),
        Some(held),
    )
}

fn holds(flight: &Flight) -> Verdict {
    let of = u64::from(flight.load.count);
    let lost = of.saturating_sub(arrived(flight));
    let first = flight.arrivals.first().map_or(Duration::ZERO, |it| it.sent);
    let last = flight.arrivals.last().map_or(Duration::ZERO, |it| it.sent);
    let rate = float(of) / last.saturating_sub(first).as_secs_f64();
    let word = match float(lost) <= float(of) * HELD_PART {
        true => "held",
        false => "not held",
    };
    (
        format!("{} packets/s", flight.load.per_second),
        format!("{word}: {lost} of {of} lost at {rate:.0} packets/s"),
        "none".to_owned(),
        None,
    )
}

fn arrived(flight: &Flight) -> u64 {
    u64::try_from(flight.arrivals.len()).unwrap_or(u64::MAX)
}

/// Packets that came behind one that left later.
fn overtaken(flight: &Flight) -> u64 {
    let mut newest = 0;
    let mut count = 0;
    for arrival in &flight.arrivals {
        count += u64::from(arrival.number < newest);
        newest = newest.max(arrival.number);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::flight::Arrival;
    use super::*;

    fn flight(arrivals: &[(u64, u64, u64)]) -> Flight {
        let arrivals = arrivals
            .iter()
            .map(|(number, sent_us, arrived_us)| Arrival {
                number: *number,
                sent: Duration::from_micros(*sent_us),
                arrived: Duration::from_micros(*arrived_us),
            });
        Flight {
            load: load(4, 972, 1_000),
            arrivals: arrivals.collect(),
        }
    }

    #[test]
    fn what_is_off_is_told_from_what_is_not() {
        // 1,000 octets at 8 Mbit/s take a millisecond to leave.
        let good = flight(&[
            (0, 0, 6_000),
            (1, 1_000, 7_100),
            (2, 2_000, 8_000),
            (3, 3_000, 9_000),
        ]);
        assert_eq!(delay(&good, 5.0, 8e6).3, Some(true));
        assert_eq!(delay(&good, 4.0, 8e6).3, Some(false));
        assert_eq!(far_away(&good, 5.0, 8e6).3, Some(true));
        let lossy = flight(&[(0, 0, 6_000), (1, 1_000, 7_100), (3, 3_000, 9_000)]);
        assert_eq!(far_away(&lossy, 5.0, 8e6).3, Some(false));
        let turned = flight(&[
            (0, 0, 6_000),
            (2, 2_000, 8_000),
            (1, 1_900, 8_000),
            (3, 3_000, 9_000),
        ]);
        assert_eq!(far_away(&turned, 5.0, 8e6).3, Some(false));
        assert_eq!(rate(&good, 8e6).3, Some(true));
        assert_eq!(rate(&good, 8.2e6).3, Some(false));
        // Four packets take 4 ms at 8 Mbit/s: a bucket let the first leave at once.
        let early = flight(&[(0, 0, 10), (1, 0, 1_010), (2, 0, 2_010), (3, 0, 3_900)]);
        assert_eq!(ceiling(&early, 8e6).3, Some(false));
        let due = flight(&[(0, 0, 1_000), (1, 0, 2_000), (2, 0, 3_000), (3, 0, 4_001)]);
        assert_eq!(ceiling(&due, 8e6).3, Some(true));
        assert_eq!(ceiling(&due, 8.2e6).3, Some(false));
        let turned = flight(&[(0, 0, 1), (2, 0, 2), (1, 0, 3), (3, 0, 4)]);
        assert_eq!(overtaken(&turned), 1);
        assert_eq!(counted(&turned, "lost", 90, 0.5).3, Some(false));
    }
}
