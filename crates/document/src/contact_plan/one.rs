//! The ONE's connectivity traces: lines of `SECONDS CONN NODE NODE up` and `… down`.
//!
//! The ONE counts its hosts from 0 and may write a word before the number (`p0`). No node has the number 0 (it is that of the local node):
//! see [`Plan::counted_from_1`]. Both ends of a connection can send, so that each is a contact in both directions.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Contact, Plan, Wrong, ends, node};
use crate::quantity::parse_duration;

/// Reads a trace; connections that its end finds up last until `end`.
pub(super) fn read(text: &str, end: Duration) -> Result<Plan, Wrong> {
    let mut trace = Trace::default();
    for (number, line) in (1..).zip(text.lines()) {
        trace
            .read_line(number, line)
            .map_err(|what| (number, what))?;
    }
    for (ends, up) in std::mem::take(&mut trace.up) {
        trace.add(ends, up, end);
    }
    Ok(trace.plan)
}

/// The number of a host, behind the word that may be before it.
fn host(text: &str) -> Result<u32, String> {
    let digits = text.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    node(digits).map_err(|_| format!("'{text}' is not a node number"))
}

/// The line and the time of a connection's beginning.
type Up = (usize, Duration);

#[derive(Default)]
struct Trace {
    plan: Plan,
    /// The nodes that are connected, the lower number first.
    up: BTreeMap<(u32, u32), Up>,
    /// The time of the last line.
    last: Duration,
}

impl Trace {
    fn read_line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (time, first, second, state) = match words.as_slice() {
            [] => return Ok(()),
            [first, ..] if first.starts_with('#') => return Ok(()),
            [time, "CONN", first, second, state, ..] => (time, first, second, state),
            _ => return Err(format!("'{line}' is not a line of a connectivity trace")),
        };
        let time = parse_duration(&format!("{time}s"))
            .map_err(|_| format!("'{time}' is not a number of seconds"))?;
        if time < self.last {
            return Err("it is earlier than the line before".to_owned());
        }
        self.last = time;
        let (first, second) = ends(host(first)?, host(second)?)?;
        let (low, high) = (first.min(second), first.max(second));
        match *state {
            "up" => match self.up.insert((low, high), (number, time)) {
                None => Ok(()),
                Some(_) => Err(format!("{low} and {high} are connected already")),
            },
            "down" => {
                let up = self
                    .up
                    .remove(&(low, high))
                    .ok_or_else(|| format!("{low} and {high} are not connected"))?;
                self.add((low, high), up, time);
                Ok(())
            }
            state => Err(format!("'{state}' is neither up nor down")),
        }
    }

    /// A connection that is over.
    fn add(&mut self, (low, high): (u32, u32), (line, start): Up, end: Duration) {
        if end <= start {
            return;
        }
        for (from, to) in [(low, high), (high, low)] {
            self.plan.contacts.push(Contact {
                line,
                from,
                to,
                start,
                end,
                rate: None,
            });
        }
    }
}
