//! Networks with a plain shape: nodes alone, lines, rings, stars and grids.

use std::time::Duration;

use dhow_document::{Document, Entries, FileError};

use super::{add_named, add_nodes};
use crate::entropy::Entropy;
use crate::kind::LinkKind;
use crate::network::{NODES_MAX, Network};
use crate::scenario::{Contact, NodeIndex};

/// The purpose of the random numbers for contacts, to which the number of a shape is added.
const PURPOSE: u64 = Entropy::OURS + 1;

/// The interval between contacts, and the shortest and the longest of them.
type Rhythm = (Duration, (Duration, Duration));

/// Two ends of a link.
type Ends = (NodeIndex, NodeIndex);

pub(super) fn expand(
    document: &Document<'_>,
    network: &mut Network,
    seed: u64,
) -> Result<(), FileError> {
    for entries in document.all("nodes") {
        add_nodes(document, entries, network)?;
    }
    for (shape, name) in (0..).zip(["line", "ring", "star", "grid"]) {
        for (number, entries) in document.all(name).enumerate() {
            let links = match name {
                "line" => in_a_row(&add_nodes(document, entries, network)?),
                "ring" => in_a_ring(document, entries, network)?,
                "star" => around(document, entries, network)?,
                _ => side_by_side(document, entries, network)?,
            };
            let entropy = Entropy::new(seed, PURPOSE + shape, number);
            add_links(document, entries, network, &links, entropy)?;
        }
    }
    Ok(())
}

fn in_a_row(nodes: &[NodeIndex]) -> Vec<Ends> {
    nodes
        .iter()
        .copied()
        .zip(nodes.iter().skip(1).copied())
        .collect()
}

fn in_a_ring(
    document: &Document<'_>,
    entries: &Entries,
    network: &mut Network,
) -> Result<Vec<Ends>, FileError> {
    let nodes = add_nodes(document, entries, network)?;
    let mut links = in_a_row(&nodes);
    match nodes.as_slice() {
        [first, _, .., last] => links.push((*last, *first)),
        _ => {
            let what = "a ring has three nodes at least";
            return Err(document.fault(entries.line_of("count"), what));
        }
    }
    Ok(links)
}

fn around(
    document: &Document<'_>,
    entries: &Entries,
    network: &mut Network,
) -> Result<Vec<Ends>, FileError> {
    let hub = match entries.text("hub") {
        Some(name) => network.node(document, entries, "hub", name)?,
        None => {
            let name = format!("{}hub", entries.text("name").unwrap_or_default());
            let own = add_named(document, entries, network, std::iter::once(name))?;
            own.first().copied().unwrap_or(NodeIndex(0))
        }
    };
    let nodes = add_nodes(document, entries, network)?;
    Ok(nodes.into_iter().map(|node| (node, hub)).collect())
}

fn side_by_side(
    document: &Document<'_>,
    entries: &Entries,
    network: &mut Network,
) -> Result<Vec<Ends>, FileError> {
    let prefix = entries.text("name").unwrap_or_default();
    let width = entries.count("width").unwrap_or_default();
    let height = entries.count("height").unwrap_or_default();
    if u128::from(width) * u128::from(height) > u128::try_from(NODES_MAX).unwrap_or(u128::MAX) {
        let what = format!("a scenario has at most {NODES_MAX} nodes");
        return Err(document.fault(entries.line_of("height"), what));
    }
    let names = (1..=height)
        .flat_map(|row| (1..=width).map(move |column| format!("{prefix}{column}-{row}")));
    let nodes = add_named(document, entries, network, names)?;
    let width = usize::try_from(width).unwrap_or(usize::MAX);
    let rows: Vec<&[NodeIndex]> = nodes.chunks(width).collect();
    let mut links = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        links.extend(in_a_row(row));
        if let Some(below) = rows.get(number + 1) {
            links.extend(row.iter().copied().zip(below.iter().copied()));
        }
    }
    Ok(links)
}

/// Links of a section, each with contacts of its own where it has some.
fn add_links(
    document: &Document<'_>,
    entries: &Entries,
    network: &mut Network,
    links: &[Ends],
    mut entropy: Entropy,
) -> Result<(), FileError> {
    let kind = LinkKind::read(document, entries)?;
    let contacts = read_contacts(document, entries)?;
    let wrong = |what| document.fault(entries.line_of("name"), what);
    for between in links {
        let link = network.add_link(*between, None, &kind).map_err(wrong)?;
        let Some((every, (least, most))) = contacts else {
            continue;
        };
        let last_start = every.saturating_sub(Duration::from_millis(1));
        let contact = Contact {
            link,
            start: entropy.between(Duration::ZERO, last_start),
            length: entropy.between(least, most),
            every: Some(every),
        };
        network.add_contact(contact).map_err(wrong)?;
    }
    Ok(())
}

/// Reads the interval between contacts and their lengths.
fn read_contacts(document: &Document<'_>, entries: &Entries) -> Result<Option<Rhythm>, FileError> {
    let (every, lengths) = match (
        entries.duration_if_set("contact_every"),
        entries.durations("contact_for"),
    ) {
        (None, None) => return Ok(None),
        (Some(every), Some(lengths)) => (every, lengths),
        (every, _) => {
            let (there, missing) = match every {
                Some(_) => ("contact_every", "contact_for"),
                None => ("contact_for", "contact_every"),
            };
            let what = format!("'{there}' says nothing without '{missing}'");
            return Err(document.fault(entries.line_of(there), what));
        }
    };
    if lengths.0.is_zero() {
        let what = "a contact ends before it begins";
        return Err(document.fault(entries.line_of("contact_for"), what));
    }
    if every < lengths.1 {
        let what = "a contact lasts longer than the time until the next";
        return Err(document.fault(entries.line_of("contact_every"), what));
    }
    Ok(Some((every, lengths)))
}
