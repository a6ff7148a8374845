//! HDTN's contact plans: JSON, a list of contacts with times in seconds, rates in bits a second and one-way light time in seconds.

use std::time::Duration;

use dhow_document::quantity::parse_duration;
use serde::Deserialize;
use serde_json::Number;
use serde_json::value::RawValue;

use super::pair::Said;
use super::{Pairs, Wrong, between};

#[derive(Deserialize)]
struct Plan<'a> {
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

/// A contact that makes sense.
struct Contact {
    between: (u32, u32),
    ascends: bool,
    window: (Duration, Duration),
    rate: u64,
    delay: Duration,
}

impl Written {
    fn check(&self) -> Result<Contact, String> {
        let time = |number: &Number| {
            let text = format!("{number}s");
            parse_duration(&text).map_err(|_| format!("{number} is no number of seconds"))
        };
        let window = (time(&self.start_time)?, time(&self.end_time)?);
        if window.1 <= window.0 {
            return Err("it ends before it begins".to_owned());
        }
        Ok(Contact {
            between: between(self.source, self.dest)?,
            ascends: self.source < self.dest,
            window,
            rate: self.rate_bits_per_sec.div_ceil(8),
            delay: time(&self.owlt)?,
        })
    }
}

/// Reads a plan.
pub(super) fn read(text: &str) -> Result<Pairs, Wrong> {
    let plan: Plan<'_> = serde_json::from_str(text).map_err(|error| wrong(0, &error))?;
    let mut pairs = Pairs::new();
    let (mut line, mut counted) = (1, 0);
    for written in plan.contacts {
        let begins = written.get().as_ptr().addr() - text.as_ptr().addr();
        let passed = text.as_bytes().get(counted..begins).unwrap_or_default();
        line += passed.iter().filter(|octet| **octet == b'\n').count();
        counted = begins;
        let contact: Written =
            serde_json::from_str(written.get()).map_err(|error| wrong(line - 1, &error))?;
        let contact = contact.check().map_err(|what| (line, what))?;
        let (start, end) = contact.window;
        let pair = pairs.entry(contact.between).or_default();
        pair.ranges.push((start, end, contact.delay));
        if contact.rate > 0 {
            pair.say(Said {
                line,
                window: contact.window,
                ascends: contact.ascends,
                rate: contact.rate,
            });
        }
    }
    Ok(pairs)
}

/// An error behind so many lines.
fn wrong(lines: usize, error: &serde_json::Error) -> Wrong {
    let place = format!(" at line {} column {}", error.line(), error.column());
    (lines + error.line(), error.to_string().replace(&place, ""))
}
