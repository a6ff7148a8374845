//! Buses that go from stop to stop by a timetable.

use std::time::Duration;

use dhow_document::quantity::parse_duration;
use dhow_document::{Document, Entries, FileError};

use super::add_nodes;
use crate::kind::LinkKind;
use crate::network::Network;
use crate::scenario::{Contact, NodeIndex};

pub(super) fn expand(document: &Document<'_>, network: &mut Network) -> Result<(), FileError> {
    for entries in document.all("bus") {
        let table = Timetable::read(document, entries, network)?;
        let kind = LinkKind::read(document, entries)?;
        let wrong = |what| document.fault(entries.line_of("name"), what);
        let buses = add_nodes(document, entries, network)?;
        let apart = table.every / u32::try_from(buses.len()).unwrap_or(u32::MAX);
        for (number, bus) in (0_u32..).zip(buses) {
            let first = entries.duration("start") + apart * number;
            for &(stop, at) in &table.calls {
                let link = match network.link_between((bus, stop)) {
                    Some(link) => link,
                    None => network.add_link((bus, stop), None, &kind).map_err(wrong)?,
                };
                let contact = Contact {
                    link,
                    start: first + at,
                    length: table.stay,
                    every: Some(table.every),
                };
                network.add_contact(contact).map_err(wrong)?;
            }
        }
    }
    Ok(())
}

/// The stops of a bus and their times, from the beginning of a tour.
struct Timetable {
    /// Stops, and when it comes there.
    calls: Vec<(NodeIndex, Duration)>,
    stay: Duration,
    /// The time from one tour to the next.
    every: Duration,
}

impl Timetable {
    fn read(
        document: &Document<'_>,
        entries: &Entries,
        network: &Network,
    ) -> Result<Self, FileError> {
        let wrong = |key: &str, what: String| document.fault(entries.line_of(key), what);
        let names = entries.list("stops");
        let mut stops = Vec::with_capacity(names.len());
        for name in names {
            stops.push(network.node(document, entries, "stops", name)?);
        }
        if stops.len() < 2 {
            return Err(wrong("stops", "a bus has two stops at least".to_owned()));
        }
        if let Some(pair) = stops.windows(2).find(|pair| pair.first() == pair.last()) {
            let name = pair.first().and_then(|node| network.nodes.get(node.0));
            let name = name.map_or("", |node| &node.name);
            return Err(wrong("stops", format!("'{name}' follows itself")));
        }
        let back = entries.text("way") == Some("back");
        let ways = if back { stops.len() - 1 } else { stops.len() };
        let mut travel = Vec::with_capacity(ways);
        for text in entries.list("travel") {
            let time = parse_duration(text)
                .map_err(|error| wrong("travel", format!("'travel' is not a time: {error}")))?;
            travel.push(time);
        }
        match travel.as_slice() {
            [all] => travel = vec![*all; ways],
            several if several.len() == ways => {}
            several => {
                let what = format!("'travel' has {} times for {ways} ways", several.len());
                return Err(wrong("travel", what));
            }
        }
        if back {
            travel.extend(travel.clone().iter().rev());
            let returning: Vec<NodeIndex> = stops.iter().rev().skip(1).copied().collect();
            stops.extend(returning.iter().take(ways - 1));
        }
        let stay = entries.duration("stay");
        if stay.is_zero() {
            return Err(wrong("stay", "a contact ends before it begins".to_owned()));
        }
        let mut at = Duration::ZERO;
        let mut calls = Vec::with_capacity(stops.len());
        for (stop, way) in stops.into_iter().zip(travel) {
            calls.push((stop, at));
            at += stay + way;
        }
        let every = entries.duration_if_set("every").unwrap_or(at);
        if every < at {
            let what = format!("a tour takes {at:?}, longer than the time until the next");
            return Err(wrong("every", what));
        }
        Ok(Self { calls, stay, every })
    }
}
