//! `[[traffic]]`: payloads from one node to another, by rules or by a [`list`], [`messages`] among many nodes, and the [`Schedule`] of them.

mod list;
mod messages;
mod schedule;

pub use schedule::{Due, Schedule};

use std::sync::Arc;
use std::time::Duration;

use dhow_bundle::BundleFlags;
use dhow_bundle::v6::Priority;
use dhow_document::{Document, Entries, FileError};

use crate::entropy::Entropy;
use crate::network::{Network, matches, within};
use crate::scenario::{Listed, NodeIndex, Pace, Service, Size, Traffic};

/// The purpose of the random numbers for destinations and starts.
const PURPOSE: u64 = Entropy::OURS;

/// Reads all traffic of a file; chance follows from the seed.
pub(crate) fn read(
    document: &Document<'_>,
    network: &Network,
    (seed, end): (u64, Duration),
) -> Result<Vec<Traffic>, FileError> {
    let mut traffic = Vec::new();
    let mut neighbours = Vec::new();
    for (number, entries) in document.all("traffic").enumerate() {
        let mut entropy = Entropy::new(seed, PURPOSE, number);
        if neighbours.is_empty() && entries.has("within") {
            neighbours = network.neighbours();
        }
        let from = network.nodes(document, entries, "from")?;
        let to = network.nodes(document, entries, "to")?;
        let (least, most) = entries.durations("start").unwrap_or_default();
        let list = list::read(document, entries)?.unwrap_or_default();
        let (pace, count, size) = match list.is_empty() {
            true => read_rules(document, entries)?,
            false => follow(&list),
        };
        let lifetime = entries.duration("lifetime");
        if lifetime.as_millis() == 0 {
            let what = "'lifetime' is at least 1 ms";
            return Err(document.fault(entries.line_of("lifetime"), what));
        }
        let service = read_service(document, entries, lifetime)?;
        for from in from {
            traffic.push(Traffic {
                from,
                to: draw(
                    document,
                    entries,
                    (network, &neighbours),
                    (from, &to),
                    &mut entropy,
                )?,
                count,
                size,
                list: Arc::clone(&list),
                start: entropy.between(least, most),
                pace,
                burst: entries.count("burst").unwrap_or(1),
                lifetime,
                at_once_octets: entries.size("at_once").unwrap_or(0),
                reports: read_reports(entries),
                aggregates: entries.is_true("aggregate"),
                must_not_fragment: entries.is_true("must_not_fragment"),
                service,
            });
        }
    }
    messages::read(document, network, (seed, end), &mut traffic)?;
    Ok(traffic)
}

/// One node of some, another than the one that sends, and within its reach.
fn draw(
    document: &Document<'_>,
    entries: &Entries,
    (network, neighbours): (&Network, &[Vec<NodeIndex>]),
    (from, to): (NodeIndex, &[NodeIndex]),
    entropy: &mut Entropy,
) -> Result<NodeIndex, FileError> {
    if to == [from] {
        let what = "[[traffic]] goes from one node to another";
        return Err(document.fault(entries.line_of("to"), what));
    }
    let Some(links) = entries.count("within") else {
        let own = to.binary_search(&from);
        let others = to.len() - usize::from(own.is_ok());
        let drawn = entropy.below(u64::try_from(others).unwrap_or(u64::MAX));
        let drawn = usize::try_from(drawn).unwrap_or(0);
        let place = drawn + usize::from(own.is_ok_and(|own| own <= drawn));
        return Ok(to.get(place).copied().unwrap_or(from));
    };
    let pattern = entries.text("to").unwrap_or_default();
    let named = |node: &NodeIndex| {
        let found = network.nodes.get(node.0);
        found.is_some_and(|node| matches(pattern, &node.name))
    };
    let near: Vec<NodeIndex> = within(neighbours, from, links)
        .into_iter()
        .filter(named)
        .collect();
    let drawn = entropy.below(u64::try_from(near.len()).unwrap_or(u64::MAX));
    let drawn = usize::try_from(drawn).unwrap_or(0);
    near.get(drawn).copied().ok_or_else(|| {
        let name = network.nodes.get(from.0).map_or("", |node| &node.name);
        let what = format!("no node '{pattern}' is within {links} links of '{name}'");
        document.fault(entries.line_of("within"), what)
    })
}

/// The pace, count and sizes of a list.
fn follow(list: &[Listed]) -> (Pace, Option<u64>, Size) {
    let sizes = list.iter().map(|listed| listed.octets);
    let size = Size {
        min: sizes.clone().min().unwrap_or(Size::MIN),
        max: sizes.max().unwrap_or(Size::MIN),
    };
    (Pace::Listed, u64::try_from(list.len()).ok(), size)
}

/// Reads the pace, count and sizes of a section.
fn read_rules(
    document: &Document<'_>,
    entries: &Entries,
) -> Result<(Pace, Option<u64>, Size), FileError> {
    let size = read_size(document, entries)?;
    let (pace, count) = read_pace(document, entries, size)?;
    Ok((pace, count, size))
}

fn read_pace(
    document: &Document<'_>,
    entries: &Entries,
    size: Size,
) -> Result<(Pace, Option<u64>), FileError> {
    let every = entries.duration_if_set("every");
    let mean = entries.duration_if_set("mean");
    let pace = match (every, mean) {
        (Some(every), None) if !every.is_zero() => Pace::Constant(every),
        (None, Some(mean)) if !mean.is_zero() => Pace::Mean(mean),
        (None, None) => Pace::AtOnce,
        (Some(_), Some(_)) => {
            let what = "[[traffic]] has 'every' or 'mean'";
            return Err(document.fault(entries.line_of("mean"), what));
        }
        _ => {
            let key = if every.is_some() { "every" } else { "mean" };
            let what = format!("'{key}' must be more than 0");
            return Err(document.fault(entries.line_of(key), what));
        }
    };
    let total = entries.size("total");
    if total.is_some() && entries.has("count") {
        let what = "[[traffic]] has 'count' or 'total'";
        return Err(document.fault(entries.line_of("total"), what));
    }
    let mean = size.min.midpoint(size.max);
    let count = entries
        .count("count")
        .or(total.map(|octets| octets.div_ceil(mean)));
    if count.is_none() && pace == Pace::AtOnce {
        let error = document.fault(entries.line(), "[[traffic]] lacks 'count'");
        return Err(error.with_hint("only with 'every' or 'mean' it can go on for ever"));
    }
    if pace == Pace::AtOnce && entries.count("burst").is_some_and(|burst| burst > 1) {
        let what = "'burst' goes with 'every' or 'mean'";
        let error = document.fault(entries.line_of("burst"), what);
        return Err(error.with_hint("without them all are sent at once"));
    }
    Ok((pace, count))
}

/// The reports that a section asks for, as bundle processing control flags (RFC 9171 4.2.3).
fn read_reports(entries: &Entries) -> u64 {
    let flag = |kind: &String| match kind.as_str() {
        "reception" => BundleFlags::REPORT_RECEPTION,
        "forwarding" => BundleFlags::REPORT_FORWARDING,
        "delivery" => BundleFlags::REPORT_DELIVERY,
        _ => BundleFlags::REPORT_DELETION,
    };
    let kinds = entries.list("reports").iter().map(flag);
    kinds.fold(0, |flags, kind| flags | kind.bits())
}

/// Keys that say something of bundles of version 6 only.
const OLDER_KEYS: &[&str] = &["custody"];

/// The version of a section's bundles, and what they ask for in it.
fn read_service(
    document: &Document<'_>,
    entries: &Entries,
    lifetime: Duration,
) -> Result<Service, FileError> {
    let class = match entries.text("class") {
        Some("bulk") => Priority::Bulk,
        Some("expedited") => Priority::Expedited,
        _ => Priority::Normal,
    };
    if entries.count("version") != Some(6) {
        return match OLDER_KEYS.iter().find(|key| entries.has(key)) {
            Some(key) => {
                let what = format!("bundles of version 7 have no '{key}'");
                let error = document.fault(entries.line_of(key), what);
                Err(error.with_hint("version = 6"))
            }
            None => Ok(Service::Newest { class }),
        };
    }
    if lifetime.subsec_nanos() > 0 {
        let what = "the lifetime of a bundle of version 6 is in whole seconds";
        return Err(document.fault(entries.line_of("lifetime"), what));
    }
    Ok(Service::Older {
        custody: entries.is_true("custody"),
        class,
    })
}

fn read_size(document: &Document<'_>, entries: &Entries) -> Result<Size, FileError> {
    let Some((min, max)) = entries.sizes("size") else {
        let error = document.fault(entries.line(), "[[traffic]] lacks 'size'");
        return Err(error.with_hint("for example: size = \"2kB..50kB\", or a 'list'"));
    };
    if min < Size::MIN {
        let what = format!(
            "'size' is at least {} octets, which say which payload it is",
            Size::MIN
        );
        return Err(document.fault(entries.line_of("size"), what));
    }
    Ok(Size { min, max })
}
