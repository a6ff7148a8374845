//! The measures of a run: each is one number, by the name that it has in a scenario's `[report]`.

use std::fmt;
use std::str::FromStr;

use dhow_page::{Axis, escaped, quantity};
use dhow_scenario::nearest;

use super::limit;
use super::statistics::{Spread, quantile};
use super::summary::RunSummary;
use super::worth::worth;
use crate::comparison::Better;
use crate::number::{float, micros, whole};
use crate::results::FIRST_OCTET;

/// A measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Payload that was delivered, by the time in which it could pass the narrowest cut on its way: bit/s.
    Goodput,
    /// The share of payloads that were delivered.
    Delivery,
    /// The time from sending to delivery, within which so many hundredths of what was delivered were: seconds.
    Delay(u8),
    /// The time from when the first payload could leave to the last delivery, where all were delivered: seconds.
    Drain,
    /// Processor time of all nodes for a megabyte delivered: seconds.
    Processor,
    /// Time in which links were there for a megabyte delivered: seconds.
    LinkTime,
    /// Energy for a megabyte delivered: joules.
    Energy,
    /// Octets written to disks for each that was delivered.
    Written,
    /// Processor time of a node in the run: seconds.
    Used(String),
    /// The share of the processor that a node may take which it used while payloads could pass, or programs ran together; of one core where
    /// it has no limit.
    Share(String),
    /// Measurements that programs and nodes are known to have made.
    MeasurementsMade,
    /// Measurements that are stored.
    MeasurementsStored,
    /// Measurements that are not stored.
    MeasurementsLost,
    /// Octets that one node wrote to its disk for each that another did, while payloads could pass.
    WrittenRatio(String, String),
    /// The mean of a figure that programs tell, and of which, if not of all.
    Figure(String, Option<String>),
    /// Goodput, divided by such a figure: that of a yardstick which was there in the same run.
    GoodputOf(String, Option<String>),
    /// The median delay less the time that a key is set to, as that of light on the way: seconds.
    DelayLess(String),
    /// Payload that was delivered, by the time from when the first could leave to the last delivery, less the time that a key is set to: bit/s.
    GoodputLess(String),
}

/// All names but those of figures and nodes.
const NAMES: [&str; 13] = [
    "goodput",
    "delivery",
    "delay_median",
    "delay_p95",
    "delay_max",
    "drain",
    "cpu_per_mb",
    "link_seconds_per_mb",
    "energy_per_mb",
    "written_per_octet",
    "measurements_made",
    "measurements_stored",
    "measurements_lost",
];

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "goodput" => Self::Goodput,
            "delivery" => Self::Delivery,
            "delay_median" => Self::Delay(50),
            "delay_p95" => Self::Delay(95),
            "delay_max" => Self::Delay(100),
            "drain" => Self::Drain,
            "cpu_per_mb" => Self::Processor,
            "link_seconds_per_mb" => Self::LinkTime,
            "energy_per_mb" => Self::Energy,
            "written_per_octet" => Self::Written,
            "measurements_made" => Self::MeasurementsMade,
            "measurements_stored" => Self::MeasurementsStored,
            "measurements_lost" => Self::MeasurementsLost,
            _ => match text.split_once(':') {
                Some(("cpu", node)) => Self::Used(node.to_owned()),
                Some(("cpu_share", node)) => Self::Share(node.to_owned()),
                Some(("written_ratio", nodes)) => {
                    let nodes = nodes.split_once(':').ok_or_else(|| not_measured(text))?;
                    Self::WrittenRatio(nodes.0.to_owned(), nodes.1.to_owned())
                }
                Some(("figure", figure)) => {
                    let (name, program) = figure_and_program(figure);
                    Self::Figure(name, program)
                }
                Some(("goodput_of", figure)) => {
                    let (name, program) = figure_and_program(figure);
                    Self::GoodputOf(name, program)
                }
                Some(("delay_less", key)) => Self::DelayLess(key.to_owned()),
                Some(("goodput_less", key)) => Self::GoodputLess(key.to_owned()),
                _ => return Err(not_measured(text)),
            },
        })
    }
}

/// The name of a figure, and the program that tells it where one is named.
fn figure_and_program(text: &str) -> (String, Option<String>) {
    match text.split_once(':') {
        Some((name, program)) => (name.to_owned(), Some(program.to_owned())),
        None => (text.to_owned(), None),
    }
}

/// The mean of a figure that programs tell.
fn figure_mean(summary: &RunSummary, name: &str, program: Option<&String>) -> Option<f64> {
    let values = summary
        .figures
        .iter()
        .filter(|it| it.name == *name && program.is_none_or(|of| *of == it.program));
    Spread::of(values.map(|it| it.value).collect()).map(|spread| spread.mean)
}

/// The time from when the first payload could leave to the last delivery, where all were delivered, in seconds.
fn drain(summary: &RunSummary) -> Option<f64> {
    let last = summary.last_delivery_s.filter(|_| summary.is_drained())?;
    Some(last - summary.first_chance())
}

/// The time that a swept key is set to in a run, in seconds; nothing where it is no time.
fn time_set(summary: &RunSummary, key: &str) -> Option<f64> {
    let (micros, axis) = worth(summary.run.point.value(key)?)?;
    (axis == Axis::Time).then(|| float(micros) / 1e6)
}

/// The error for a name that is no measure.
fn not_measured(text: &str) -> String {
    let meant = did_you_mean(text, &NAMES);
    format!(
        "'{text}' is not measured: {meant}{}, written_ratio:NODE:NODE, cpu:NODE, cpu_share:NODE, figure:NAME, figure:NAME:PROGRAM, goodput_of:NAME, goodput_of:NAME:PROGRAM, delay_less:KEY and goodput_less:KEY are",
        NAMES.join(", ")
    )
}

/// The name that is near enough to be meant, as a question before all names; nothing where there is none.
pub(super) fn did_you_mean(text: &str, names: &[&str]) -> String {
    let meant = nearest(text, names.iter().copied());
    meant.map_or_else(String::new, |meant| format!("did you mean '{meant}'? "))
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goodput => f.write_str("goodput"),
            Self::Delivery => f.write_str("share delivered"),
            Self::Delay(50) => f.write_str("median delay"),
            Self::Delay(100) => f.write_str("longest delay"),
            Self::Delay(hundredths) => write!(f, "{hundredths}th percentile of delay"),
            Self::Drain => f.write_str("time until all was delivered"),
            Self::Processor => f.write_str("processor time for a megabyte"),
            Self::LinkTime => f.write_str("time of links for a megabyte"),
            Self::Energy => f.write_str("energy for a megabyte"),
            Self::Written => f.write_str("octets written for each delivered"),
            Self::Used(node) => write!(f, "processor time of {node}"),
            Self::Share(node) => write!(f, "processor share of {node}"),
            Self::MeasurementsMade => f.write_str("measurements made"),
            Self::MeasurementsStored => f.write_str("measurements stored"),
            Self::MeasurementsLost => f.write_str("measurements lost"),
            Self::WrittenRatio(one, other) => {
                write!(f, "octets written at {one} for each at {other}")
            }
            Self::Figure(name, None) => f.write_str(name),
            Self::Figure(name, Some(program)) if name == FIRST_OCTET => {
                write!(f, "time from the first octet of {program}")
            }
            Self::Figure(name, Some(program)) => write!(f, "{name} of {program}"),
            Self::GoodputOf(name, None) => write!(f, "goodput, as a share of {name}"),
            Self::GoodputOf(name, Some(program)) => {
                write!(f, "goodput, as a share of the {name} of {program}")
            }
            Self::DelayLess(key) => write!(f, "median delay less {key}"),
            Self::GoodputLess(key) => write!(f, "payload by the time less {key}"),
        }
    }
}

impl Measure {
    /// The number of a run, in bit/s, seconds, shares of 1, or whatever a figure counts; nothing where it has none.
    #[must_use]
    pub fn of(&self, summary: &RunSummary) -> Option<f64> {
        let delivered = float(summary.run.delivered_octets);
        match self {
            Self::Goodput => summary.goodput(),
            Self::Delivery => (summary.run.sent > 0)
                .then(|| float(summary.run.delivered) / float(summary.run.sent)),
            Self::Delay(hundredths) => quantile(&summary.delays, f64::from(*hundredths) / 100.0),
            Self::Drain => drain(summary),
            Self::Processor => summary.run.cpu_s_per_mb,
            Self::LinkTime => summary.run.link_s_per_mb,
            Self::Energy => summary.run.joules_per_mb,
            Self::Written => {
                let written: u64 = summary
                    .resources
                    .iter()
                    .map(|it| it.disk_write_octets)
                    .sum();
                (delivered > 0.0).then(|| float(written) / delivered)
            }
            Self::Used(node) => {
                let used = summary.resources.iter().find(|it| it.node == *node)?;
                Some(used.user_s + used.system_s)
            }
            Self::Share(node) => limit::processor_share(summary, node),
            Self::MeasurementsMade => Some(float(summary.run.samples + summary.run.samples_lost)),
            Self::MeasurementsStored => Some(float(summary.run.samples)),
            Self::MeasurementsLost => Some(float(summary.run.samples_lost)),
            Self::WrittenRatio(one, other) => {
                let written = |node: &String| {
                    let day = summary.days.iter().find(|day| day.node == *node);
                    day.map(|day| float(day.written_octets))
                };
                let other = written(other).filter(|octets| *octets > 0.0)?;
                written(one).map(|octets| octets / other)
            }
            Self::Figure(name, program) => figure_mean(summary, name, program.as_ref()),
            Self::GoodputOf(name, program) => {
                let figure = figure_mean(summary, name, program.as_ref());
                let figure = figure.filter(|figure| *figure > 0.0)?;
                summary.goodput().map(|goodput| goodput / figure)
            }
            Self::DelayLess(key) => {
                let delay = Self::Delay(50).of(summary)?;
                Some(delay - time_set(summary, key)?)
            }
            Self::GoodputLess(key) => {
                let time = drain(summary)? - time_set(summary, key)?;
                (time > 0.0).then(|| delivered * 8.0 / time)
            }
        }
    }

    /// The name that it has in `[report]`.
    #[must_use]
    pub fn key(&self) -> String {
        let of = |kind: &str, name: &str, program: &Option<String>| match program {
            Some(program) => format!("{kind}:{name}:{program}"),
            None => format!("{kind}:{name}"),
        };
        match self {
            Self::Goodput => "goodput".to_owned(),
            Self::Delivery => "delivery".to_owned(),
            Self::Delay(50) => "delay_median".to_owned(),
            Self::Delay(100) => "delay_max".to_owned(),
            Self::Delay(hundredths) => format!("delay_p{hundredths}"),
            Self::Drain => "drain".to_owned(),
            Self::Processor => "cpu_per_mb".to_owned(),
            Self::LinkTime => "link_seconds_per_mb".to_owned(),
            Self::Energy => "energy_per_mb".to_owned(),
            Self::Written => "written_per_octet".to_owned(),
            Self::Used(node) => format!("cpu:{node}"),
            Self::Share(node) => format!("cpu_share:{node}"),
            Self::MeasurementsMade => "measurements_made".to_owned(),
            Self::MeasurementsStored => "measurements_stored".to_owned(),
            Self::MeasurementsLost => "measurements_lost".to_owned(),
            Self::WrittenRatio(one, other) => format!("written_ratio:{one}:{other}"),
            Self::Figure(name, program) => of("figure", name, program),
            Self::GoodputOf(name, program) => of("goodput_of", name, program),
            Self::DelayLess(key) => format!("delay_less:{key}"),
            Self::GoodputLess(key) => format!("goodput_less:{key}"),
        }
    }

    /// The swept key whose value it counts with; nothing for most.
    pub(super) fn swept(&self) -> Option<&str> {
        match self {
            Self::DelayLess(key) | Self::GoodputLess(key) => Some(key),
            _ => None,
        }
    }

    /// The direction in which a change of the measure is a gain; nothing where neither is. Of a program's figure its name and its unit tell.
    #[must_use]
    pub fn better(&self) -> Option<Better> {
        match self {
            Self::Goodput
            | Self::Delivery
            | Self::MeasurementsStored
            | Self::GoodputOf(..)
            | Self::GoodputLess(_) => Some(Better::More),
            Self::Delay(_)
            | Self::DelayLess(_)
            | Self::Drain
            | Self::Processor
            | Self::LinkTime
            | Self::Energy
            | Self::Written
            | Self::Used(_)
            | Self::MeasurementsLost => Some(Better::Less),
            Self::Share(_) | Self::MeasurementsMade | Self::WrittenRatio(..) => None,
            Self::Figure(name, _) => match name.split(':').next().unwrap_or(name) {
                "goodput" | "rate" | "rate_received" | "delivered" | "delivery_prob" => {
                    Some(Better::More)
                }
                "delay" | "jitter" | "lost" | "time" | "latency_avg" | "latency_med"
                | "dropped" | "overhead_ratio" | "expired" | "refused" | "duplicates"
                | "violations" => Some(Better::Less),
                _ => None,
            },
        }
    }

    /// Measures that every run may have.
    pub(crate) fn usual() -> [Self; 9] {
        [
            Self::Goodput,
            Self::Delivery,
            Self::Delay(50),
            Self::Delay(95),
            Self::Drain,
            Self::Processor,
            Self::LinkTime,
            Self::Energy,
            Self::Written,
        ]
    }

    /// Measures of runs whose programs or nodes measure.
    pub(crate) fn of_measurements() -> [Self; 3] {
        [
            Self::MeasurementsMade,
            Self::MeasurementsStored,
            Self::MeasurementsLost,
        ]
    }

    /// The axis of such numbers; a program names the unit of its figures.
    #[must_use]
    pub fn axis(&self, runs: &[RunSummary]) -> Axis {
        match self {
            Self::Goodput | Self::GoodputLess(_) => Axis::Rate,
            Self::Delivery | Self::Share(_) | Self::GoodputOf(..) => Axis::Share,
            Self::Delay(_)
            | Self::DelayLess(_)
            | Self::Drain
            | Self::Processor
            | Self::LinkTime
            | Self::Used(_) => Axis::Time,
            Self::Energy => Axis::Energy,
            Self::Written
            | Self::WrittenRatio(..)
            | Self::MeasurementsMade
            | Self::MeasurementsStored
            | Self::MeasurementsLost => Axis::Count,
            Self::Figure(name, _) => {
                let mut figures = runs.iter().flat_map(|summary| &summary.figures);
                let found = figures.find(|it| it.name == *name);
                found.map_or(Axis::Count, |it| axis_of_unit(&it.unit))
            }
        }
    }
}

impl Measure {
    /// The way to read such numbers.
    pub(crate) fn reading(&self, runs: &[RunSummary]) -> Reading {
        let mut figures = runs.iter().flat_map(|summary| &summary.figures);
        match self {
            Self::Figure(name, _) => {
                let found = figures.find(|it| it.name == *name);
                found.map_or_else(|| Reading::of(Axis::Count), |it| Reading::of_unit(&it.unit))
            }
            _ => Reading::of(self.axis(runs)),
        }
    }
}

/// The way to read numbers: on an axis, or in a unit that only their program knows.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    axis: Axis,
    /// Behind the number; empty where the axis has units.
    unit: String,
}

impl Reading {
    const fn of(axis: Axis) -> Self {
        Self {
            axis,
            unit: String::new(),
        }
    }

    /// The axis of a program's figures.
    pub(crate) fn of_unit(unit: &str) -> Self {
        let axis = axis_of_unit(unit);
        let unit = if axis == Axis::Count { unit } else { "" };
        Self {
            axis,
            unit: unit.to_owned(),
        }
    }

    /// A number as it is read, for a page.
    pub(crate) fn said(&self, value: f64) -> String {
        escaped(&self.plain(value))
    }

    /// A number as it is read, for a terminal.
    pub(crate) fn plain(&self, value: f64) -> String {
        let said = said(self.axis, value);
        match self.unit.as_str() {
            unit if !unit.is_empty() && value.is_finite() => format!("{said} {unit}"),
            _ => said,
        }
    }

    /// The unit of the numbers themselves: seconds, octets; empty for a count.
    pub(crate) fn unit_of_values(&self) -> &str {
        match self.axis {
            Axis::Time => "s",
            Axis::Octets => "octets",
            Axis::Rate => "bit/s",
            Axis::Energy => "J",
            Axis::Share => "share",
            Axis::Count | Axis::Name => &self.unit,
        }
    }

    /// The axis on which the numbers have their place.
    pub(crate) const fn axis(&self) -> Axis {
        self.axis
    }
}

/// The axis of a program's figures.
fn axis_of_unit(unit: &str) -> Axis {
    match unit {
        "bit/s" => Axis::Rate,
        "s" => Axis::Time,
        "octets" => Axis::Octets,
        "share" => Axis::Share,
        "J" => Axis::Energy,
        _ => Axis::Count,
    }
}

/// Numbers from here on are said by their power of ten.
const LARGE: f64 = 1e12;

/// Times below it have no microseconds.
const MICROSECOND_S: f64 = 1e-6;

/// A number at its place on an axis.
pub(crate) fn placed(axis: Axis, value: f64) -> u64 {
    match axis {
        Axis::Time | Axis::Energy => micros(value),
        Axis::Share => whole(value * 10_000.0),
        _ => whole(value),
    }
}

/// A number as it is read; a dash for what is none.
pub(crate) fn said(axis: Axis, value: f64) -> String {
    match axis {
        _ if !value.is_finite() => "–".to_owned(),
        _ if value < 0.0 => format!("-{}", said(axis, -value)),
        Axis::Count | Axis::Time if value >= LARGE => match axis {
            Axis::Time => format!("{value:.2e} s"),
            _ => format!("{value:.2e}"),
        },
        Axis::Count if value > 0.0 && value < 0.01 => format!("{value:.2e}"),
        Axis::Count if value < 100.0 && value.fract() != 0.0 => format!("{value:.2}"),
        Axis::Count => quantity::thousands(whole(value)),
        Axis::Octets => significant(value, ["B", "kB", "MB", "GB"]),
        Axis::Rate => significant(value, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]),
        Axis::Energy => significant(value * 1e6, ["µJ", "mJ", "J", "kJ"]),
        Axis::Time if value > 0.0 && value < MICROSECOND_S => {
            significant(value * 1e9, ["ns", "µs", "ms", "s"])
        }
        Axis::Time => {
            let value = std::time::Duration::try_from_secs_f64(value);
            quantity::span(value.unwrap_or(std::time::Duration::MAX))
        }
        Axis::Share if value >= LARGE => format!("{:.2e} %", value * 100.0),
        Axis::Share => format!("{:.1} %", value * 100.0),
        Axis::Name => value.to_string(),
    }
}

/// Three digits that count, and a unit, of which each is a thousand times the one before.
fn significant(value: f64, units: [&str; 4]) -> String {
    let (mut value, mut unit) = (value, 0);
    while value.abs() >= 999.5 && unit + 1 < units.len() {
        (value, unit) = (value / 1_000.0, unit + 1);
    }
    let unit = units.get(unit).copied().unwrap_or_default();
    match value.abs() {
        0.0 => format!("0 {unit}"),
        it if !(0.005..LARGE).contains(&it) => format!("{value:.2e} {unit}"),
        it if it < 9.995 => format!("{value:.2} {unit}"),
        it if it < 99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_has_the_name_by_which_it_is_asked_for() {
        let others = [
            "cpu:a",
            "cpu_share:a",
            "written_ratio:a:b",
            "figure:rate",
            "goodput_of:rate:iperf",
            "delay_less:link.delay",
            "goodput_less:link.space.delay",
        ];
        for name in NAMES.iter().chain(&others) {
            assert_eq!(name.parse::<Measure>().unwrap().key(), *name);
        }
    }

    #[test]
    fn numbers_below_nothing_and_far_from_it_are_said() {
        for (unit, value, words) in [
            ("s", -0.5, "-500 ms"),
            ("s", 1e-9, "1.00 ns"),
            ("s", 1e300, "1.00e300 s"),
            ("", -5.0, "-5"),
            ("dBm", -70.5, "-70.50 dBm"),
            ("V", 3.7, "3.70 V"),
            ("V", 0.0004, "4.00e-4 V"),
            ("<m>", 2.0, "2 &lt;m&gt;"),
            ("octets", 1e308, "1.00e299 GB"),
            ("octets", -2_000.0, "-2.00 kB"),
            ("bit/s", f64::INFINITY, "–"),
            ("dBm", f64::NAN, "–"),
        ] {
            assert_eq!(Reading::of_unit(unit).said(value), words);
        }
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        let rates = [
            0.0,
            1.5,
            999.6,
            1_976_400.0,
            25_170_000.0,
            843_341_000.0,
            7e9,
        ];
        let rates = rates.map(|rate| said(Axis::Rate, rate));
        assert_eq!(
            rates,
            [
                "0 bit/s",
                "1.50 bit/s",
                "1.00 kbit/s",
                "1.98 Mbit/s",
                "25.2 Mbit/s",
                "843 Mbit/s",
                "7.00 Gbit/s"
            ]
        );
        assert_eq!(said(Axis::Energy, 0.25), "250 mJ");
        assert_eq!(said(Axis::Share, 0.994), "99.4 %");
        assert_eq!(
            (said(Axis::Count, 1.234), said(Axis::Count, 1_234.0)),
            ("1.23".to_owned(), "1,234".to_owned())
        );
        assert_eq!(said(Axis::Count, 42.0), "42");
    }
}
