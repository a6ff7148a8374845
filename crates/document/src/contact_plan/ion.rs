//! The lines of ION's `ionadmin`: `a contact` and `a range`.

use std::time::Duration;

use super::{Contact, Plan, Range, Wrong, ends, node};

/// Reads a plan's lines.
pub(super) fn read(text: &str) -> Result<Plan, Wrong> {
    let mut plan = Plan::default();
    for (number, line) in (1..).zip(text.lines()) {
        read_line((number, line), &mut plan).map_err(|what| (number, what))?;
    }
    Ok(plan)
}

fn read_line((number, line): (usize, &str), plan: &mut Plan) -> Result<(), String> {
    let text = line.split('#').next().unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [] => Ok(()),
        ["a", "contact", start, end, from, to, rate, ..] => {
            let (start, end) = window(start, end)?;
            let (from, to) = ends(node(from)?, node(to)?)?;
            let rate = rate
                .parse::<u64>()
                .map_err(|_| format!("'{rate}' is not a rate in octets a second"))?;
            // ION ends a contact before its end by one of rate 0.
            if rate > 0 {
                plan.contacts.push(Contact {
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
            let (start, end) = window(start, end)?;
            let (from, to) = ends(node(from)?, node(to)?)?;
            let seconds = seconds
                .parse::<u64>()
                .map_err(|_| format!("'{seconds}' is not a number of seconds"))?;
            plan.ranges.push(Range {
                line: number,
                from,
                to,
                start,
                end,
                delay: Duration::from_secs(seconds),
            });
            Ok(())
        }
        [first, ..] => Err(format!("'{first} …' is not a line of a contact plan")),
    }
}

fn window(start: &str, end: &str) -> Result<(Duration, Duration), String> {
    let time = |text: &str| {
        text.strip_prefix('+')
            .and_then(|digits| digits.parse::<u64>().ok())
            .map(Duration::from_secs)
            .ok_or_else(|| format!("'{text}' is not a time: seconds from the start, '+60'"))
    };
    let (start, end) = (time(start)?, time(end)?);
    if end <= start {
        return Err("it ends before it begins".to_owned());
    }
    Ok((start, end))
}
