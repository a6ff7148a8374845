//! Contact plans in the lines of ION's `ionadmin`: `a contact` and `a range`.
//!
//! Both ends of a line are node numbers, and every line is for one direction; a link here is the same in both, so
//! the lines of the two directions become one link, with the contacts of either, the highest rate and the longest range.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ScenarioError;
use crate::section::Source;

/// What a plan says about one pair of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Beginnings and ends, apart from each other, in order.
    pub(crate) contacts: Vec<(Duration, Duration)>,
    /// Octets a second.
    pub(crate) rate: u64,
    /// Light time.
    pub(crate) range: Duration,
}

/// Pairs of node numbers, the lower one first.
pub(crate) type Pairs = BTreeMap<(u32, u32), Pair>;

/// Reads a plan's lines.
pub(crate) fn read(source: Source<'_>) -> Result<Pairs, ScenarioError> {
    let mut pairs = Pairs::new();
    for (number, line) in source.text.lines().enumerate() {
        read_line(line, &mut pairs).map_err(|what| {
            source
                .fault(number + 1, what)
                .with_hint("a line is 'a contact +START +END NODE NODE OCTETS_PER_SECOND' or 'a range +START +END NODE NODE SECONDS'")
        })?;
    }
    pairs.retain(|_, pair| !pair.contacts.is_empty());
    for pair in pairs.values_mut() {
        pair.contacts = united(std::mem::take(&mut pair.contacts));
    }
    Ok(pairs)
}

fn read_line(line: &str, pairs: &mut Pairs) -> Result<(), String> {
    let line = line.split('#').next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [] => Ok(()),
        ["a", "contact", start, end, from, to, rate, ..] => {
            let (start, end) = window(start, end)?;
            let pair = pairs.entry(between(from, to)?).or_default();
            let rate = rate
                .parse::<u64>()
                .map_err(|_| format!("'{rate}' is no rate in octets a second"))?;
            // ION ends a contact before its end by one of rate 0.
            if rate > 0 {
                pair.contacts.push((start, end));
                pair.rate = pair.rate.max(rate);
            }
            Ok(())
        }
        ["a", "range", start, end, from, to, seconds, ..] => {
            window(start, end)?;
            let pair = pairs.entry(between(from, to)?).or_default();
            let seconds = seconds
                .parse::<u64>()
                .map_err(|_| format!("'{seconds}' is no number of seconds"))?;
            pair.range = pair.range.max(Duration::from_secs(seconds));
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

fn between(from: &str, to: &str) -> Result<(u32, u32), String> {
    let node = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|node| *node > 0)
            .ok_or_else(|| format!("'{text}' is no node number"))
    };
    let (from, to) = (node(from)?, node(to)?);
    if from == to {
        return Err(format!("node {from} needs no contact with itself"));
    }
    Ok((from.min(to), from.max(to)))
}

/// The same times, in order and apart from each other.
fn united(mut windows: Vec<(Duration, Duration)>) -> Vec<(Duration, Duration)> {
    windows.sort_unstable();
    let mut apart: Vec<(Duration, Duration)> = Vec::with_capacity(windows.len());
    for (start, end) in windows {
        match apart.last_mut() {
            Some((_, last)) if *last >= start => *last = end.max(*last),
            _ => apart.push((start, end)),
        }
    }
    apart
}
