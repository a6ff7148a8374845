//! The ONE's connectivity traces: lines of `SECONDS CONN NODE NODE up` and `… down`.
//!
//! The ONE counts its hosts from 0 and may write a word before the number (`p0`). No node has the number 0 (it is that of the local node), so
//! where a trace names it the numbers of all its hosts are one higher here.

use std::collections::BTreeMap;
use std::time::Duration;

use dhow_document::quantity::parse_duration;

use super::{Pairs, Wrong, between, node};

/// Reads a trace; what is up at its end stays so until the run's.
pub(super) fn read(text: &str, end: Duration) -> Result<Pairs, Wrong> {
    let mut trace = Trace::default();
    for (number, line) in (1..).zip(text.lines()) {
        trace.read_line(line).map_err(|what| (number, what))?;
    }
    for (between, start) in trace.up {
        if start < end {
            let pair = trace.pairs.entry(between).or_default();
            pair.contacts.push((start, end));
        }
    }
    Ok(trace.pairs)
}

/// The same pairs, each number one higher.
pub(super) fn counted_from_one(pairs: Pairs) -> Pairs {
    let pairs = pairs.into_iter();
    pairs
        .map(|((low, high), pair)| ((low.saturating_add(1), high.saturating_add(1)), pair))
        .collect()
}

/// The number of a host, behind the word that may be before it.
fn host(text: &str) -> Result<u32, String> {
    let digits = text.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    node(digits).map_err(|_| format!("'{text}' is no node number"))
}

#[derive(Default)]
struct Trace {
    pairs: Pairs,
    /// Who is in contact, and since when.
    up: BTreeMap<(u32, u32), Duration>,
    /// The time of the last line.
    last: Duration,
}

impl Trace {
    fn read_line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (time, first, second, state) = match words.as_slice() {
            [] => return Ok(()),
            [first, ..] if first.starts_with('#') => return Ok(()),
            [time, "CONN", first, second, state, ..] => (time, first, second, state),
            _ => return Err(format!("'{line}' is no line of a connectivity trace")),
        };
        let time = parse_duration(&format!("{time}s"))
            .map_err(|_| format!("'{time}' is no number of seconds"))?;
        if time < self.last {
            return Err("it is earlier than the line before".to_owned());
        }
        self.last = time;
        let between = between(host(first)?, host(second)?)?;
        let (low, high) = between;
        match *state {
            "up" => match self.up.insert(between, time) {
                None => Ok(()),
                Some(_) => Err(format!("{low} and {high} are connected already")),
            },
            "down" => {
                let start = self
                    .up
                    .remove(&between)
                    .ok_or_else(|| format!("{low} and {high} are not connected"))?;
                if start < time {
                    let pair = self.pairs.entry(between).or_default();
                    pair.contacts.push((start, time));
                }
                Ok(())
            }
            state => Err(format!("'{state}' is neither up nor down")),
        }
    }
}
