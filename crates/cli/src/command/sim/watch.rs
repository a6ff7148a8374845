//! The progress of all seeds: a bar, or a line a second.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::lines::times;
use super::seeds::Standing;
use crate::output;
use crate::progress::Progress;
use crate::quantity;

/// The interval between lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Seeds under way of which is told how far each is.
const SHOWN_MAX: usize = 4;

/// Tells how far all seeds are.
#[derive(Debug)]
pub struct Watch {
    seeds: u64,
    /// Virtual time of each seed, milliseconds.
    each_ms: u64,
    first: u64,
    in_lines: bool,
    bar: Progress,
    begun: Instant,
    told: Cell<Instant>,
}

impl Watch {
    /// The watch of so many seeds from the first on, of so much virtual time each.
    pub fn new(seeds: u64, first: u64, each: Duration, in_lines: bool) -> Self {
        let each_ms = milliseconds(each);
        let what = match seeds {
            1 => format!("seed {first}"),
            _ => format!("{seeds} seeds"),
        };
        let now = Instant::now();
        Self {
            seeds,
            each_ms,
            first,
            in_lines,
            bar: Progress::stretch(each_ms.saturating_mul(seeds), what),
            begun: now,
            told: Cell::new(now),
        }
    }

    /// Tells how far they are, where it is time to.
    pub fn look(&self, standing: &Standing) {
        if self.in_lines {
            if self.told.get().elapsed() >= LINE_EVERY {
                self.told.set(Instant::now());
                let seed = match self.seeds {
                    1 => format!("seed {}: ", self.first),
                    _ => String::new(),
                };
                output::talk(&format!("{seed}{}", self.words(standing)));
            }
            return;
        }
        let under_way = standing.under_way.iter();
        let under_way: u64 = under_way.map(|(_, at)| milliseconds(at.time)).sum();
        let done = standing.done.saturating_mul(self.each_ms);
        self.bar
            .say(done.saturating_add(under_way), self.words(standing));
    }

    fn words(&self, standing: &Standing) -> String {
        let sum = |count: fn(&dhow_sim::run::Progress) -> u64| -> u64 {
            standing.under_way.iter().map(|(_, at)| count(at)).sum()
        };
        let counts = format!(
            "{} created, {} delivered, {} expired, {} in stores",
            sum(|it| it.sent),
            sum(|it| it.delivered),
            sum(|it| it.expired),
            sum(|it| it.stored)
        );
        if self.seeds == 1 {
            let time = (standing.under_way.first()).map_or(Duration::ZERO, |(_, at)| at.time);
            return format!(
                "{}, {}, {} events/s, {counts}",
                quantity::span(milliseconds(time)),
                times(time, self.begun.elapsed()),
                quantity::per_second(sum(|it| it.events), self.begun.elapsed()),
            );
        }
        let under_way: Vec<String> = standing
            .under_way
            .iter()
            .take(SHOWN_MAX)
            .map(|(number, at)| {
                let part = milliseconds(at.time).saturating_mul(100) / self.each_ms.max(1);
                format!("{} at {part} %", self.first.wrapping_add(*number))
            })
            .collect();
        format!(
            "{} of {} seeds have run; {} under way ({}{}): {counts}",
            standing.done,
            self.seeds,
            standing.under_way.len(),
            under_way.join(", "),
            if standing.under_way.len() > SHOWN_MAX {
                ", …"
            } else {
                ""
            }
        )
    }

    /// Lets something be printed without tearing the bar.
    pub fn hide<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.hide(print)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish();
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
