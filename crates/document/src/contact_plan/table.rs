//! Tables of contacts, as those of iMotes at CRAWDAD: lines of `NODE NODE START END …`, between spaces, tabs or commas.
//!
//! Times are seconds. If all are Unix times, as in tables of dates, they count from the first beginning. A contact that was seen
//! once has its beginning as its end, and lasts a second. Further columns (how often two met, the time between) are left.

use std::time::Duration;

use super::{Contact, Plan, Wrong, ends, node};
use crate::quantity::parse_duration;

/// Times from here on are those of dates.
const UNIX_TIME: Duration = Duration::from_secs(1_000_000_000);

/// The length of a contact that was seen once.
const SEEN_ONCE: Duration = Duration::from_secs(1);

/// Reads a table.
pub(super) fn read(text: &str) -> Result<Plan, Wrong> {
    let mut plan = Plan::default();
    for (number, line) in (1..).zip(text.lines()) {
        read_line((number, line), &mut plan).map_err(|what| (number, what))?;
    }
    let first = plan.contacts.iter().map(|it| it.start).min();
    if let Some(first) = first.filter(|first| *first >= UNIX_TIME) {
        for contact in &mut plan.contacts {
            contact.start = contact.start.saturating_sub(first);
            contact.end = contact.end.saturating_sub(first);
        }
    }
    Ok(plan)
}

/// The columns of a line, without what is behind a `#`.
pub(super) fn columns(line: &str) -> Vec<&str> {
    let text = line.split('#').next().unwrap_or_default();
    let columns = text.split(|letter: char| letter.is_whitespace() || letter == ',');
    columns.filter(|column| !column.is_empty()).collect()
}

fn read_line((number, line): (usize, &str), plan: &mut Plan) -> Result<(), String> {
    let columns = columns(line);
    let (first, second, start, end) = match columns.as_slice() {
        [] => return Ok(()),
        [first, second, start, end, ..] => (first, second, time(start)?, time(end)?),
        _ => return Err(format!("'{line}' does not have four columns")),
    };
    if end < start {
        return Err("it ends before it begins".to_owned());
    }
    let (low, high) = ends(node(first)?, node(second)?)?;
    for (from, to) in [(low, high), (high, low)] {
        plan.contacts.push(Contact {
            line: number,
            from,
            to,
            start,
            end: end.max(start.saturating_add(SEEN_ONCE)),
            rate: None,
        });
    }
    Ok(())
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(&format!("{text}s")).map_err(|_| format!("'{text}' is not a number of seconds"))
}
