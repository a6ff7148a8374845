//! Limits of the bundles that a neighbour brings, and of a source's share of the store.

use dhow_document::schema::{Absent, Key, Kind, key};
use dhow_document::{Document, Entries, FileError};
use dhow_node::config::{Limits, SourceLimits};

pub(super) const ACCEPT_RATE: Key = key(
    "accept_rate",
    Kind::Rate,
    Absent::Means("no limit"),
    "\"10Mbit\"",
    "Octets of bundles that are taken from a neighbour a second, written in bits, over all its sessions; a burst of one second's octets is allowed. Bundles above it are refused for lack of resources, and come again later; where nothing can be refused (UDP, STCP, MTCP) it is lost.",
);

pub(super) const ACCEPT_BUNDLES: Key = key(
    "accept_bundles",
    Kind::Integer(1, 1_000_000_000),
    Absent::Means("no limit"),
    "1000",
    "Bundles that are taken from a neighbour a second, likewise.",
);

pub(super) const HELD: Key = key(
    "held",
    Kind::Size,
    Absent::Means("no limit but the quota"),
    "\"1GiB\"",
    "Octets that bundles of a neighbour may have in the store together. Bundles beyond it are refused for lack of resources until some have left: other neighbours have the rest of the quota.",
);

pub(super) const HELD_BUNDLES: Key = key(
    "held_bundles",
    Kind::Integer(1, 1_000_000_000_000),
    Absent::Means("no limit but the quota"),
    "100000",
    "Bundles of a neighbour that may be in the store at a time, likewise.",
);

pub(super) const SOURCE_HELD: Key = key(
    "source_held",
    Kind::Size,
    Absent::Means("no limit but the quota"),
    "\"100MiB\"",
    "Octets that bundles of one source endpoint that neighbours bring may have in the store together; bundles beyond it are refused for lack of resources.",
);

pub(super) const SOURCE_HELD_BUNDLES: Key = key(
    "source_held_bundles",
    Kind::Integer(1, 1_000_000_000_000),
    Absent::Means("no limit but the quota"),
    "10000",
    "Bundles of one source endpoint that may be in the store at a time, likewise.",
);

/// Reads the limits of a listener or link.
pub(super) fn read_limits(document: &Document<'_>, entries: &Entries) -> Result<Limits, FileError> {
    Ok(Limits {
        octets_per_s: above_0(
            document,
            entries,
            "accept_rate",
            entries.rate("accept_rate"),
        )?,
        bundles_per_s: count(entries, "accept_bundles"),
        held_octets: above_0(document, entries, "held", entries.size("held"))?,
        held_bundles: count(entries, "held_bundles"),
    })
}

/// Reads the limits of sources.
pub(super) fn read_source_limits(
    document: &Document<'_>,
    store: &Entries,
) -> Result<SourceLimits, FileError> {
    let held = store.size("source_held");
    Ok(SourceLimits {
        octets: above_0(document, store, "source_held", held)?,
        bundles: count(store, "source_held_bundles"),
    })
}

fn count(entries: &Entries, key: &str) -> Option<u64> {
    entries.integer(key).and_then(|it| u64::try_from(it).ok())
}

fn above_0(
    document: &Document<'_>,
    entries: &Entries,
    key: &str,
    value: Option<u64>,
) -> Result<Option<u64>, FileError> {
    match value {
        Some(0) => Err(document.fault_of(entries, key, format!("'{key}' must not be 0"))),
        value => Ok(value),
    }
}
