//! Sections that make whole networks: nodes, links between them, and when these can be used.
//!
//! Everything that is left to chance follows from the scenario's seed. The result is plain nodes, links and contacts: a program that
//! runs the scenario does not know that nobody wrote them.

mod bus;
mod chance;
mod field;
mod group;
mod habits;
mod lattice;
mod map;
mod meeting;
mod mission;
mod mover;
#[cfg(test)]
mod tests;
mod working_day;

use std::time::Duration;

use dhow_document::{Document, Entries, FileError};

use crate::kind::NodeKind;
use crate::network::Network;
use crate::scenario::NodeIndex;

/// Makes all that the sections of a file ask for; contacts that do not come again and again end by `end`.
pub(crate) fn expand(
    document: &Document<'_>,
    network: &mut Network,
    seed: u64,
    end: Duration,
) -> Result<(), FileError> {
    lattice::expand(document, network, seed)?;
    field::expand(document, network, seed, end)?;
    group::expand(document, network, seed, end)?;
    bus::expand(document, network)?;
    mission::expand(document, network, end)
}

/// Several nodes, whose names are numbered.
fn add_nodes(
    document: &Document<'_>,
    entries: &Entries,
    network: &mut Network,
) -> Result<Vec<NodeIndex>, FileError> {
    let (prefix, first) = (
        entries.text("name").unwrap_or_default(),
        entries.count("first").unwrap_or(1),
    );
    let count = entries.count("count").unwrap_or_default();
    let names = (first..first + count).map(|number| format!("{prefix}{number}"));
    add_named(document, entries, network, names)
}

fn add_named(
    document: &Document<'_>,
    entries: &Entries,
    network: &mut Network,
    names: impl Iterator<Item = String>,
) -> Result<Vec<NodeIndex>, FileError> {
    let kind = NodeKind::read(document, entries)?;
    names
        .map(|name| {
            network
                .add_node(name, None, &kind)
                .map_err(|what| document.fault(entries.line_of("name"), what))
        })
        .collect()
}
