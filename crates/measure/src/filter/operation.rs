//! The operations of filters: the samples of a window become columns.

use super::sketch::Sketch;
use crate::client::record::{self, Kept, Samples};
use crate::schema::{Element, Type};
use crate::value::Value;

/// Bins of a histogram.
const BINS_MAX: usize = 1024;

/// A filter's operation, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// The first value of the window.
    First,
    /// The last value.
    Last,
    /// Average, least and greatest.
    Avg,
    /// The sum.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Standard deviation and variance of a sample (n − 1).
    Stddev,
    /// The difference between the last value and the last of the window before (0 before the first), and the last value.
    Delta,
    /// The number of samples.
    Count,
    /// The number of integers missing between one value and the next, summed over the window.
    Seqgap,
    /// The counts of values in `bins` equal parts from `low` to `high`, and one count each for values below and above.
    Histogram {
        /// The lower end of the first part.
        low: f64,
        /// The upper end of the last part.
        high: f64,
        /// The number of parts.
        bins: usize,
    },
    /// Quantiles, within one hundredth of their value.
    Quantiles(Vec<f64>),
}

impl Operation {
    /// The operation of that name, with its usual settings.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "first" => Self::First,
            "last" => Self::Last,
            "avg" => Self::Avg,
            "sum" => Self::Sum,
            "min" => Self::Min,
            "max" => Self::Max,
            "stddev" => Self::Stddev,
            "delta" => Self::Delta,
            "count" => Self::Count,
            "seqgap" => Self::Seqgap,
            "histogram" => Self::Histogram {
                low: 0.0,
                high: 1.0,
                bins: 10,
            },
            "quantiles" => Self::Quantiles(vec![0.5, 0.9, 0.99]),
            _ => return None,
        })
    }

    /// All names.
    pub const NAMES: &'static str =
        "first, last, avg, sum, min, max, stddev, delta, count, seqgap, histogram, quantiles";

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Avg => "avg",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Stddev => "stddev",
            Self::Delta => "delta",
            Self::Count => "count",
            Self::Seqgap => "seqgap",
            Self::Histogram { .. } => "histogram",
            Self::Quantiles(_) => "quantiles",
        }
    }

    /// Changes a setting: `low`, `high`, `bins` of a histogram, `at` (numbers between 0 and 1) of quantiles.
    ///
    /// # Errors
    /// The operation has no such setting, or it cannot be that; what it can be.
    pub fn set(&mut self, setting: &str, text: &str) -> Result<(), &'static str> {
        let number = || text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        match (self, setting) {
            (Self::Histogram { low, .. }, "low") => *low = number().ok_or("a number")?,
            (Self::Histogram { high, .. }, "high") => *high = number().ok_or("a number")?,
            (Self::Histogram { bins, .. }, "bins") => {
                let count = text.trim().parse().ok();
                *bins = count
                    .filter(|n| (1..=BINS_MAX).contains(n))
                    .ok_or("1 to 1024")?;
            }
            (Self::Quantiles(all), "at") => {
                let each = text.split_ascii_whitespace().map(|word| word.parse().ok());
                let parts: Option<Vec<f64>> = each.collect();
                let is_part = |parts: &Vec<f64>| {
                    !parts.is_empty() && parts.iter().all(|part| (0.0..=1.0).contains(part))
                };
                *all = parts.filter(is_part).ok_or("numbers from 0 to 1")?;
            }
            _ => return Err("a setting that the filter has"),
        }
        Ok(())
    }

    /// True where only numbers can be taken.
    pub const fn needs_number(&self) -> bool {
        !matches!(self, Self::First | Self::Last | Self::Count)
    }

    /// Its columns over a field of that type; their names begin with `start`.
    pub fn columns(&self, start: &str, kind: Type) -> Vec<(String, Type)> {
        let doubles = |ends: &[&str]| {
            ends.iter()
                .map(|end| (format!("{start}_{end}"), Type::Double))
                .collect()
        };
        match self {
            Self::First => vec![(start.to_owned(), kind)],
            Self::Last => vec![(format!("{start}_last"), kind)],
            Self::Avg => doubles(&["avg", "min", "max"]),
            Self::Sum => doubles(&["sum"]),
            Self::Min => doubles(&["min"]),
            Self::Max => doubles(&["max"]),
            Self::Stddev => doubles(&["stddev", "variance"]),
            Self::Delta => doubles(&["delta", "last"]),
            Self::Count => vec![(format!("{start}_count"), Type::Uint64)],
            Self::Seqgap => vec![(format!("{start}_missing"), Type::Uint64)],
            Self::Histogram { .. } => {
                vec![(format!("{start}_histogram"), Type::Vector(Element::Uint64))]
            }
            Self::Quantiles(parts) => {
                let end = |part: &f64| {
                    // 0.999 is p99_9.
                    let percent = (part * 1e6).round() / 1e4;
                    (
                        format!("{start}_p{percent}").replace('.', "_"),
                        Type::Double,
                    )
                };
                parts.iter().map(end).collect()
            }
        }
    }
}

/// The state of a filter within a window.
#[derive(Debug)]
pub(super) enum Accumulator {
    /// The first or last value, as a record has it; it stays until there is another one.
    First {
        value: Vec<u8>,
        is_new: bool,
    },
    Last(Vec<u8>),
    Avg(Moments),
    Sum(f64),
    Min(f64),
    Max(f64),
    Stddev(Moments),
    Delta {
        before: f64,
        last: f64,
    },
    Count(u64),
    Seqgap {
        last: Option<f64>,
        missing: f64,
    },
    Histogram {
        low: f64,
        high: f64,
        counts: Vec<u64>,
    },
    Quantiles {
        parts: Vec<f64>,
        sketch: Sketch,
    },
}

impl Accumulator {
    pub(super) fn new(operation: &Operation) -> Self {
        match operation {
            Operation::First => Self::First {
                value: Vec::new(),
                is_new: true,
            },
            Operation::Last => Self::Last(Vec::new()),
            Operation::Avg => Self::Avg(Moments::default()),
            Operation::Sum => Self::Sum(0.0),
            Operation::Min => Self::Min(f64::NAN),
            Operation::Max => Self::Max(f64::NAN),
            Operation::Stddev => Self::Stddev(Moments::default()),
            Operation::Delta => Self::Delta {
                before: 0.0,
                last: 0.0,
            },
            Operation::Count => Self::Count(0),
            Operation::Seqgap => Self::Seqgap {
                last: None,
                missing: 0.0,
            },
            Operation::Histogram { low, high, bins } => Self::Histogram {
                low: *low,
                high: *high,
                counts: vec![0; bins + 2],
            },
            Operation::Quantiles(parts) => Self::Quantiles {
                parts: parts.clone(),
                sketch: Sketch::default(),
            },
        }
    }

    pub(super) fn add(&mut self, value: &Value<'_>) {
        let number = value.as_f64().unwrap_or(f64::NAN);
        match self {
            Self::First {
                value: first,
                is_new,
            } => {
                if std::mem::take(is_new) {
                    keep(first, value);
                }
            }
            Self::Last(last) => keep(last, value),
            Self::Avg(moments) | Self::Stddev(moments) => moments.add(number),
            Self::Sum(sum) => *sum += number,
            Self::Min(least) => *least = least.min(number),
            Self::Max(greatest) => *greatest = greatest.max(number),
            Self::Delta { last, .. } => *last = number,
            Self::Count(count) => *count += 1,
            Self::Seqgap { last, missing } => {
                if let Some(last) = last {
                    *missing += (number - *last - 1.0).max(0.0);
                }
                *last = Some(number);
            }
            Self::Histogram { low, high, counts } => {
                let place = place(number, *low, *high, counts.len());
                if let Some(count) = counts.get_mut(place) {
                    *count += 1;
                }
            }
            Self::Quantiles { sketch, .. } => sketch.add(number),
        }
    }

    /// The window's cells. An empty window has sums and counts of 0, what was first or last before, and else no numbers.
    pub(super) fn result<'a>(&'a self, cells: &mut Vec<Kept<'a>>) {
        let mut double = |number: f64| cells.push(Kept::Plain(Value::Double(number)));
        match self {
            Self::First { value, .. } | Self::Last(value) => {
                let kept = Samples::new(value).value();
                cells.push(kept.unwrap_or(Kept::Plain(Value::Double(f64::NAN))));
            }
            Self::Avg(moments) => {
                double(moments.average());
                double(moments.least);
                double(moments.greatest);
            }
            Self::Sum(number) | Self::Min(number) | Self::Max(number) => double(*number),
            Self::Stddev(moments) => {
                double(moments.variance().sqrt());
                double(moments.variance());
            }
            Self::Delta { before, last } => {
                double(last - before);
                double(*last);
            }
            Self::Count(count) => cells.push(Kept::Plain(Value::Uint64(*count))),
            Self::Seqgap { missing, .. } => cells.push(Kept::Plain(Value::Uint64(whole(*missing)))),
            Self::Histogram { counts, .. } => cells.push(Kept::Uint64(counts.clone())),
            Self::Quantiles { parts, sketch } => {
                for part in parts {
                    double(sketch.quantile(*part));
                }
            }
        }
    }

    /// The next window begins.
    pub(super) fn begin(&mut self) {
        match self {
            Self::First { is_new, .. } => *is_new = true,
            Self::Last(_) => {}
            Self::Avg(moments) | Self::Stddev(moments) => *moments = Moments::default(),
            Self::Sum(sum) => *sum = 0.0,
            Self::Min(number) | Self::Max(number) => *number = f64::NAN,
            Self::Delta { before, last } => *before = *last,
            Self::Count(count) => *count = 0,
            Self::Seqgap { missing, .. } => *missing = 0.0,
            Self::Histogram { counts, .. } => counts.fill(0),
            Self::Quantiles { sketch, .. } => *sketch = Sketch::default(),
        }
    }
}

fn keep(place: &mut Vec<u8>, value: &Value<'_>) {
    place.clear();
    record::write_value(place, value);
}

/// Number, mean and spread of a window, one value at a time (Welford 1962).
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
    least: f64,
    greatest: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            count: 0.0,
            mean: 0.0,
            squares: 0.0,
            least: f64::NAN,
            greatest: f64::NAN,
        }
    }
}

impl Moments {
    fn add(&mut self, number: f64) {
        self.count += 1.0;
        let before = number - self.mean;
        self.mean += before / self.count;
        self.squares += before * (number - self.mean);
        self.least = self.least.min(number);
        self.greatest = self.greatest.max(number);
    }

    fn average(&self) -> f64 {
        match self.count > 0.0 {
            true => self.mean,
            false => f64::NAN,
        }
    }

    fn variance(&self) -> f64 {
        match self.count {
            count if count > 1.0 => self.squares / (count - 1.0),
            count if count > 0.0 => 0.0,
            _ => f64::NAN,
        }
    }
}

/// In which of `counts` places a number is counted: the first is for what is below, the last for what is above.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a number between 0 and the few places that there are"
)]
fn place(number: f64, low: f64, high: f64, counts: usize) -> usize {
    let bins = counts.saturating_sub(2);
    if number.is_nan() || number < low {
        return 0;
    }
    if number >= high {
        return bins + 1;
    }
    (1 + ((number - low) / (high - low) * bins as f64) as usize).min(bins)
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole and not negative; saturates"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}
