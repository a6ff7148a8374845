//! HDTN's contact plans: JSON, a list of contacts with times in seconds, rates in bits a second and one-way light time in seconds.

use serde::Deserialize;
use serde_json::Number;
use serde_json::value::RawValue;

use super::{Contact, Plan, Range, Wrong, ends};
use crate::quantity::parse_duration;

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    contacts: Vec<&'a RawValue>,
}

/// A contact as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    source: u32,
    dest: u32,
    start_time: Number,
    end_time: Number,
    rate_bits_per_sec: u64,
    #[serde(default = "zero")]
    owlt: Number,
}

fn zero() -> Number {
    Number::from(0)
}

impl Written {
    /// The contact that a line says, none where its rate is 0, and its range.
    fn check(&self, line: usize) -> Result<(Option<Contact>, Range), String> {
        let time = |number: &Number| {
            let text = format!("{number}s");
            parse_duration(&text).map_err(|_| format!("{number} is not a number of seconds"))
        };
        let (start, end) = (time(&self.start_time)?, time(&self.end_time)?);
        if end <= start {
            return Err("it ends before it begins".to_owned());
        }
        let (from, to) = ends(self.source, self.dest)?;
        let range = Range {
            line,
            from,
            to,
            start,
            end,
            delay: time(&self.owlt)?,
        };
        let rate = self.rate_bits_per_sec.div_ceil(8);
        let contact = (rate > 0).then_some(Contact {
            line,
            from,
            to,
            start,
            end,
            rate: Some(rate),
        });
        Ok((contact, range))
    }
}

/// Reads a plan.
pub(super) fn read(text: &str) -> Result<Plan, Wrong> {
    let said: Said<'_> = serde_json::from_str(text).map_err(|error| wrong(0, &error))?;
    let mut plan = Plan::default();
    let (mut line, mut counted) = (1, 0);
    for written in said.contacts {
        let begins = written.get().as_ptr().addr() - text.as_ptr().addr();
        let passed = text.as_bytes().get(counted..begins).unwrap_or_default();
        line += passed.iter().filter(|octet| **octet == b'\n').count();
        counted = begins;
        let written: Written =
            serde_json::from_str(written.get()).map_err(|error| wrong(line - 1, &error))?;
        let (contact, range) = written.check(line).map_err(|what| (line, what))?;
        plan.contacts.extend(contact);
        plan.ranges.push(range);
    }
    Ok(plan)
}

/// An error behind so many lines.
fn wrong(lines: usize, error: &serde_json::Error) -> Wrong {
    let place = format!(" at line {} column {}", error.line(), error.column());
    (lines + error.line(), error.to_string().replace(&place, ""))
}
