//! Contact plans in files of others, as links and contacts.
//!
//! Plans have a line for each direction; a link is the same in both, so the two become one, with the contacts of either, of which a
//! note says so. A link has one rate as well: a plan with several for one pair is refused where the scenario says none for it.

mod pair;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use dhow_channel::{Delay, Rate};
use dhow_document::contact_plan::{Format, PLAN_OCTETS_MAX, Plan};
use dhow_document::{Document, Entries, FileError};

use self::pair::{Pair, Said, pairs_of};
use crate::kind::{LinkKind, read_delay, read_rate};
use crate::network::Network;
use crate::regular_file::read_text;
use crate::scenario::{Contact, NodeIndex};

/// Adds the links and contacts of all plans that a file names.
pub(crate) fn read(
    document: &Document<'_>,
    network: &mut Network,
    end: Duration,
) -> Result<(), FileError> {
    for entries in document.all("contact_plan") {
        let path = document.resolve(entries.text("file").unwrap_or_default());
        let text = read_text(&path, PLAN_OCTETS_MAX).map_err(|error| {
            let what = format!("'file' cannot be read: {}: {error}", path.display());
            let hint = "the path is relative to the scenario's file";
            document
                .fault(entries.line_of("file"), what)
                .with_hint(hint)
        })?;
        let format = entries.text("format").and_then(Format::named);
        let plan = Plan::read(&path, &text, format, end)?;
        network.notes.extend(note_one_way(&path, &plan));
        add(document, entries, network, (&path, plan))?;
    }
    Ok(())
}

/// Reads a text as a plan of each format and checks what must be true of the pairs; true where it is one of any.
///
/// # Panics
/// When they contradict themselves.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn check(text: &str) -> bool {
    let mut is_one = false;
    for format in [Format::Ion, Format::Hdtn, Format::One, Format::Table] {
        let path = Path::new("fuzz.plan");
        let Ok(plan) = Plan::read(path, text, Some(format), Duration::from_secs(86_400)) else {
            continue;
        };
        let pairs = pairs_of(&plan);
        for ((low, high), pair) in &pairs {
            assert!(low < high, "{low} and {high} are a pair of nodes in order");
            let apart = pair.contacts.iter().zip(pair.contacts.iter().skip(1));
            assert!(pair.contacts.iter().all(|(begins, ends)| begins < ends));
            assert!(apart.clone().all(|(one, next)| one.1 < next.0), "united");
        }
        is_one |= !pairs.is_empty();
    }
    is_one
}

fn add(
    document: &Document<'_>,
    entries: &Entries,
    network: &mut Network,
    (path, plan): (&Path, Plan),
) -> Result<(), FileError> {
    let line = entries.line_of("file");
    let mut called = plan.contacts.iter().flat_map(|it| [it.from, it.to]);
    let by_name = called.any(|called| network.node_named(&called.to_string()).is_some());
    let plan = match plan.counts_from_0() && !by_name {
        true => plan.counted_from_1(),
        false => plan,
    };
    for ((first, second), pair) in pairs_of(&plan) {
        let find = |called: u32| {
            let found = if by_name {
                network.node_named(&called.to_string())
            } else {
                network.node_numbered(called)
            };
            found.ok_or_else(|| {
                document
                    .fault(line, format!("the plan names node {called}, which is none"))
                    .with_hint("a plan's nodes are those of that name where there is any, else of that number")
            })
        };
        let between: (NodeIndex, NodeIndex) = (find(first)?, find(second)?);
        let link = match network.link_between(between) {
            Some(known) => known,
            None => {
                let kind = kind(document, entries, (path, (first, second), &pair))?;
                network
                    .add_link(between, None, &kind)
                    .map_err(|what| document.fault(line, what))?
            }
        };
        for (start, end) in pair.contacts {
            let contact = Contact {
                link,
                start,
                length: end.saturating_sub(start),
                every: None,
            };
            network
                .add_contact(contact)
                .map_err(|what| document.fault(line, what))?;
        }
    }
    Ok(())
}

/// The octets that a link is like that comes with a plan.
fn kind(
    document: &Document<'_>,
    entries: &Entries,
    (path, ends, pair): (&Path, (u32, u32), &Pair),
) -> Result<LinkKind, FileError> {
    let rate = if entries.has("rate") {
        read_rate(document, entries, "rate")?
    } else {
        let rate = pair
            .rate()
            .map_err(|differing| differ(path, ends, differing))?;
        Rate::from_octets_per_s(rate).map_err(|_| {
            document
                .fault(entries.line(), "the plan names no rate")
                .with_hint("for example: rate = \"1Mbit\"")
        })?
    };
    let delay = if entries.has("delay") {
        read_delay(document, entries, "delay")?
    } else {
        course(&pair.ranges)
    };
    LinkKind::with(document, entries, rate, delay)
}

/// Two contacts of one pair are not of one rate.
fn differ(path: &Path, (low, high): (u32, u32), (first, other): (Said, Said)) -> FileError {
    let what = format!(
        "nodes {low} and {high} have a contact of {} octets a second here, and one of {} in line {}; a link has one rate, in both directions",
        other.rate, first.rate, first.line
    );
    FileError::at(path, other.line, what).with_hint(
        "'rate' of [[contact_plan]] is the rate of all its links; a [[link]] of the two nodes has one of its own",
    )
}

/// Says the fate of contacts that are in one direction only.
fn note_one_way(path: &Path, plan: &Plan) -> Option<String> {
    let pairs = pairs_of(plan);
    let mut lines: Vec<usize> = pairs.values().flat_map(Pair::one_way).collect();
    lines.sort_unstable();
    let first = lines.first()?;
    let others = match lines.len() - 1 {
        0 => String::new(),
        1 => " (and of one other)".to_owned(),
        others => format!(" (and of {others} others)"),
    };
    let path = path.display();
    Some(format!(
        "{path}:{first}: the plan does not have all of this contact{others} in the other direction; links carry both ways in all contacts"
    ))
}

/// Delays that jump at the end of a range to that of the next.
fn course(ranges: &[(Duration, Duration, Duration)]) -> Delay {
    const JUMP: Duration = Duration::from_nanos(1);
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    let mut points: Vec<(Duration, Duration)> = Vec::new();
    for (start, end, delay) in ranges {
        let behind = points
            .last()
            .map_or(start, |(last, _)| start.max(*last + JUMP));
        let last = end.saturating_sub(JUMP);
        if last < behind {
            continue;
        }
        match points.last() {
            // As long as before: nothing changes until the end of this one.
            Some((_, before)) if *before == delay => {}
            _ => points.push((behind, delay)),
        }
        if points.last().is_some_and(|(at, _)| *at < last) {
            points.push((last, delay));
        }
    }
    Delay::course(points).unwrap_or(Delay::constant(Duration::ZERO))
}
