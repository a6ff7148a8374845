//! The lines of ION's `ionadmin`: `a contact` and `a range`.

use std::time::Duration;

use super::pair::Said;
use super::{Pairs, Wrong, between, node};

/// Reads a plan's lines.
pub(super) fn read(text: &str) -> Result<Pairs, Wrong> {
    let mut pairs = Pairs::new();
    for (number, line) in (1..).zip(text.lines()) {
        read_line((number, line), &mut pairs).map_err(|what| (number, what))?;
    }
    Ok(pairs)
}

fn read_line((number, line): (usize, &str), pairs: &mut Pairs) -> Result<(), String> {
    let line = line.split('#').next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [] => Ok(()),
        ["a", "contact", start, end, from, to, rate, ..] => {
            let window = window(start, end)?;
            let ends = ends(from, to)?;
            let pair = pairs.entry(ends).or_default();
            let rate = rate
                .parse::<u64>()
                .map_err(|_| format!("'{rate}' is no rate in octets a second"))?;
            // ION ends a contact before its end by one of rate 0.
            if rate > 0 {
                pair.say(Said {
                    line: number,
                    window,
                    ascends: node(from)? == ends.0,
                    rate,
                });
            }
            Ok(())
        }
        ["a", "range", start, end, from, to, seconds, ..] => {
            let (start, end) = window(start, end)?;
            let pair = pairs.entry(ends(from, to)?).or_default();
            let seconds = seconds
                .parse::<u64>()
                .map_err(|_| format!("'{seconds}' is no number of seconds"))?;
            pair.ranges.push((start, end, Duration::from_secs(seconds)));
            Ok(())
        }
        [first, ..] => Err(format!("'{first} …' is no line of a contact plan")),
    }
}

fn window(start: &str, end: &str) -> Result<(Duration, Duration), String> {
    let time = |text: &str| {
        text.strip_prefix('+')
            .and_then(|digits| digits.parse::<u64>().ok())
            .map(Duration::from_secs)
            .ok_or_else(|| format!("'{text}' is no time: seconds from the start, '+60'"))
    };
    let (start, end) = (time(start)?, time(end)?);
    if end <= start {
        return Err("it ends before it begins".to_owned());
    }
    Ok((start, end))
}

fn ends(from: &str, to: &str) -> Result<(u32, u32), String> {
    between(node(from)?, node(to)?)
}
