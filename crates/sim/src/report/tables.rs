//! Tables for other programs: CSV, times in seconds from the beginning of the run.

use std::fmt::Write as _;
use std::time::Duration;

use crate::run::Outcome;

/// Lines of each table, their headings apart.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The network over time.
    pub samples: String,
    /// Every payload.
    pub payloads: String,
    /// Every link.
    pub links: String,
    /// Every node.
    pub nodes: String,
    /// Every run.
    pub runs: String,
}

impl Tables {
    /// The headings of all tables.
    #[must_use]
    pub fn headings() -> Self {
        Self {
            samples: "seed,time_s,nodes_up,sent,delivered,stored_bundles,stored_octets\n"
                .to_owned(),
            payloads: "seed,traffic,number,from,to,octets,sent_s,accepted_s,delivered_s\n"
                .to_owned(),
            links: "seed,link,open_s,capacity_octets,octets_from_dialling,octets_from_accepting\n"
                .to_owned(),
            nodes: "seed,node,most_bundles,most_octets,quota_octets,open_octets,crashes,battery_j,silent_s\n".to_owned(),
            runs: "seed,trace_hash,interrupted,events,virtual_s,sent,accepted,refused,unaccepted,delivered,expired,crashes,duplicates,violations\n"
                .to_owned(),
        }
    }
}

/// One run's lines.
#[must_use]
pub fn tables(outcome: &Outcome) -> Tables {
    let seed = outcome.seed;
    let mut tables = Tables::default();
    for it in &outcome.samples {
        let time = seconds(it.at.since(dhow_bundle::Instant::START));
        // Writing into a text does not fail.
        let _ = writeln!(
            tables.samples,
            "{seed},{time},{},{},{},{},{}",
            it.up, it.sent, it.delivered, it.bundles, it.octets
        );
    }
    for it in &outcome.payloads {
        let _ = writeln!(
            tables.payloads,
            "{seed},{},{},{},{},{},{},{},{}",
            it.name.traffic + 1,
            it.name.number + 1,
            cell(&it.from),
            cell(&it.to),
            it.octets,
            seconds(it.sent),
            it.accepted.map_or_else(String::new, seconds),
            it.delivered.map_or_else(String::new, seconds)
        );
    }
    for it in &outcome.links {
        let _ = writeln!(
            tables.links,
            "{seed},{},{},{},{},{}",
            cell(&it.name),
            seconds(it.open),
            it.capacity,
            it.octets.0,
            it.octets.1
        );
    }
    for it in &outcome.nodes {
        let _ = writeln!(
            tables.nodes,
            "{seed},{},{},{},{},{},{},{},{}",
            cell(&it.name),
            it.most_bundles,
            it.most_octets,
            it.quota_octets,
            it.open_octets,
            it.crashes,
            it.battery.map(|(pj, _)| joules(pj)).unwrap_or_default(),
            it.battery
                .map(|(_, silent)| seconds(silent))
                .unwrap_or_default()
        );
    }
    let _ = writeln!(
        tables.runs,
        "{seed},{:016x},{},{},{},{},{},{},{},{},{},{},{},{}",
        outcome.trace_hash,
        outcome.interrupted,
        outcome.progress.events,
        seconds(outcome.progress.time),
        outcome.progress.sent,
        outcome.accepted,
        outcome.refused,
        outcome.unaccepted,
        outcome.progress.delivered,
        outcome.expired,
        outcome.counts.crashes,
        outcome.counts.duplicates,
        outcome.violations
    );
    tables
}

fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

/// A text as a cell (RFC 4180 2).
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
/// Joules of so many picojoules, to the microjoule.
fn joules(pj: u64) -> String {
    let uj = pj / 1_000_000;
    format!("{}.{:06}", uj / 1_000_000, uj % 1_000_000)
}
