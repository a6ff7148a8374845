//! The lines of ION's `ionadmin`: `a contact` and `a range`, and `@`, from which times count.

use std::time::Duration;

use super::{Contact, Plan, Range, Wrong, ends, node};
use crate::calendar;

/// The first words of lines that say other things of a node of ION than its plan.
const NO_PLAN: &[&str] = &["e", "h", "i", "l", "m", "r", "s", "v", "w"];

/// Reads a plan's lines.
pub(super) fn read(text: &str) -> Result<Plan, Wrong> {
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(text.lines()) {
        reader
            .read_line((number, line))
            .map_err(|what| (number, what))?;
    }
    let mut plan = reader.plan;
    if reader.kind == Some(Kind::Dates) {
        let starts =
            (plan.contacts.iter().map(|it| it.start)).chain(plan.ranges.iter().map(|it| it.start));
        plan.rebase(starts.min().unwrap_or_default());
    }
    Ok(plan)
}

/// The time from which times of a plan count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The plan's beginning.
    Start,
    /// From 1970, since times are dates, or counted from one.
    Dates,
}

#[derive(Debug, Default)]
struct Reader {
    plan: Plan,
    kind: Option<Kind>,
    /// The time that `+` counts from, Unix time.
    reference: Option<Duration>,
}

impl Reader {
    fn read_line(&mut self, (number, line): (usize, &str)) -> Result<(), String> {
        let text = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [] => Ok(()),
            ["@", "0"] => {
                self.reference = None;
                Ok(())
            }
            ["@", time] => {
                self.reference = Some(date(time).ok_or_else(|| no_time(time))?);
                Ok(())
            }
            ["a", "contact", start, end, from, to, rate, ..] => {
                let (start, end) = self.window(start, end)?;
                let (from, to) = ends(node(from)?, node(to)?)?;
                let rate = rate
                    .parse::<u64>()
                    .map_err(|_| format!("'{rate}' is not a rate in octets a second"))?;
                // ION ends a contact before its end by one of rate 0.
                if rate > 0 {
                    self.plan.contacts.push(Contact {
                        line: number,
                        from,
                        to,
                        start,
                        end,
                        rate: Some(rate),
                    });
                }
                Ok(())
            }
            ["a", "range", start, end, from, to, seconds, ..] => {
                let (start, end) = self.window(start, end)?;
                let (from, to) = ends(node(from)?, node(to)?)?;
                let seconds = seconds
                    .parse::<u64>()
                    .map_err(|_| format!("'{seconds}' is not a number of seconds"))?;
                self.plan.ranges.push(Range {
                    line: number,
                    from,
                    to,
                    start,
                    end,
                    delay: Duration::from_secs(seconds),
                });
                Ok(())
            }
            // `1 NODE FILE`; a table of numbers is no plan of ION.
            ["1", _, file] if calendar::parse_digits(file).is_none() => Ok(()),
            [first, ..] if NO_PLAN.contains(first) => Ok(()),
            [first, ..] => Err(format!("'{first} …' is not a line of a contact plan")),
        }
    }

    fn window(&mut self, start: &str, end: &str) -> Result<(Duration, Duration), String> {
        let (start, end) = (self.time(start)?, self.time(end)?);
        if end <= start {
            return Err("it ends before it begins".to_owned());
        }
        Ok((start, end))
    }

    /// A time of this plan, all of which are of one kind.
    fn time(&mut self, text: &str) -> Result<Duration, String> {
        let behind = text.strip_prefix('+').and_then(calendar::parse_digits);
        let (time, kind) = match (behind.map(Duration::from_secs), self.reference) {
            (Some(behind), None) => (behind, Kind::Start),
            (Some(behind), Some(reference)) => (reference.saturating_add(behind), Kind::Dates),
            (None, _) => (date(text).ok_or_else(|| no_time(text))?, Kind::Dates),
        };
        if self.kind.is_some_and(|known| known != kind) {
            return Err(format!(
                "'{text}': a plan has dates or times behind its start, and not both ('@ DATE' says what '+' counts from)"
            ));
        }
        self.kind = Some(kind);
        Ok(time)
    }
}

/// Unix time of `2026/11/27-02:30:00`, UTC.
fn date(text: &str) -> Option<Duration> {
    let (date, time) = text.split_once('-')?;
    calendar::unix_seconds((date, '/'), time).map(Duration::from_secs)
}

fn no_time(text: &str) -> String {
    format!("'{text}' is not a time: seconds from the start, '+60', or UTC, '2026/11/27-02:30:00'")
}
