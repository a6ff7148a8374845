//! The page's tables: traffic, links, nodes and runs.

use std::time::Duration;

use dhow_page::quantity::{count, size, span, thousands};
use dhow_page::{Cell, List, escaped, text};

use super::summary::Summary;
use crate::run::{Fate, Outcome};

/// Lines of a table beside that of all; the tables beside the page have every one.
const LINES_MAX: usize = 40;

fn time(time: Option<&Duration>) -> Cell {
    text(time.map_or_else(|| "–".to_owned(), |it| span(*it)))
}

/// Payloads that belong together.
#[derive(Default)]
struct Flow<'a> {
    name: String,
    sent: u64,
    octets: u64,
    expired: u64,
    refused: u64,
    unaccepted: u64,
    delays: Vec<Duration>,
    first: Option<&'a Fate>,
}

impl<'a> Flow<'a> {
    fn add(&mut self, fate: &'a Fate, end: Duration) {
        self.sent += 1;
        self.first.get_or_insert(fate);
        match fate.delay() {
            Some(delay) => {
                self.octets += fate.octets;
                self.delays.push(delay);
            }
            None if fate.is_refused => self.refused += 1,
            None if fate.accepted.is_none() => self.unaccepted += 1,
            None => self.expired += u64::from(fate.expires <= end),
        }
    }

    fn line(&mut self, list: &mut List) {
        self.delays.sort_unstable();
        let most = self.delays.len() * 95 / 100;
        list.line(&[
            text(self.name.as_str()),
            text(thousands(self.sent)),
            Cell::Part(count(self.delays.len()), self.sent),
            text(thousands(self.expired)),
            text(thousands(self.refused)),
            text(thousands(self.unaccepted)),
            time(self.delays.get(self.delays.len() / 2)),
            time(self.delays.get(most)),
            time(self.delays.last()),
            text(size(self.octets)),
        ]);
    }
}

/// A line for all traffic, and one for each kind; of many, those of which the smallest share was delivered.
pub(crate) fn traffic(outcome: &Outcome) -> String {
    let mut all = Flow {
        name: "<strong>all</strong>".to_owned(),
        ..Flow::default()
    };
    let mut flows: Vec<Flow> = Vec::new();
    let end = outcome.progress.time;
    for fate in &outcome.payloads {
        all.add(fate, end);
        // Payloads come in the order of the traffic.
        let same = |flow: &&mut Flow| {
            flow.first
                .is_some_and(|it| it.name.traffic == fate.name.traffic)
        };
        match flows.last_mut().filter(same) {
            Some(flow) => flow.add(fate, end),
            None => {
                let mut flow = Flow {
                    name: format!("{} to {}", escaped(&fate.from), escaped(&fate.to)),
                    ..Flow::default()
                };
                flow.add(fate, end);
                flows.push(flow);
            }
        }
    }
    let kinds = flows.len();
    if kinds > LINES_MAX {
        let share = |flow: &Flow| count(flow.delays.len()) * 10_000 / flow.sent.max(1);
        flows.sort_by_key(share);
        flows.truncate(LINES_MAX);
    }
    let mut list = List::new(&[
        "from – to",
        "sent",
        "delivered",
        "expired",
        "refused",
        "not accepted",
        "median delay",
        "95th percentile",
        "longest",
        "octets delivered",
    ]);
    all.line(&mut list);
    if kinds > 1 {
        flows.iter_mut().for_each(|flow| flow.line(&mut list));
    }
    list.end(
        flows.len(),
        kinds,
        "those of which least was delivered. All are in payloads.csv.",
    )
}

/// The use of links; of many, the busiest.
pub(crate) fn links(outcome: &Outcome) -> String {
    let mut list = List::new(&[
        "link",
        "available for",
        "availability",
        "sent",
        "utilisation",
        "sent back",
        "utilisation",
    ]);
    let mut links: Vec<_> = outcome.links.iter().collect();
    if links.len() > LINES_MAX {
        links.sort_by_key(|it| std::cmp::Reverse(it.octets.0.max(it.octets.1)));
        links.truncate(LINES_MAX);
    }
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    for it in &links {
        list.line(&[
            text(escaped(&it.name)),
            text(span(it.open)),
            Cell::Part(milliseconds(it.open), milliseconds(outcome.progress.time)),
            text(size(it.octets.0)),
            Cell::Part(it.octets.0, it.capacity),
            text(size(it.octets.1)),
            Cell::Part(it.octets.1, it.capacity),
        ]);
    }
    list.end(
        links.len(),
        outcome.links.len(),
        "those that carried most. All are in links.csv.",
    )
}

/// The filling of stores; of many, the fullest.
pub(crate) fn nodes(outcome: &Outcome) -> String {
    let mut list = List::new(&[
        "node",
        "most bundles",
        "most octets",
        "of its quota",
        "crashes",
    ]);
    let mut nodes: Vec<_> = outcome.nodes.iter().collect();
    if nodes.len() > LINES_MAX {
        nodes.sort_by_key(|it| std::cmp::Reverse(it.most_octets));
        nodes.truncate(LINES_MAX);
    }
    for it in &nodes {
        list.line(&[
            text(escaped(&it.name)),
            text(thousands(it.most_bundles)),
            text(size(it.most_octets)),
            Cell::Part(it.most_octets, it.quota_octets),
            text(thousands(it.crashes)),
        ]);
    }
    list.end(
        nodes.len(),
        outcome.nodes.len(),
        "those that held most. All are in nodes.csv.",
    )
}

/// Every run, with its hash.
pub(crate) fn runs(runs: &[Summary]) -> String {
    let mut list = List::new(&[
        "seed",
        "hash",
        "events",
        "delivered",
        "expired",
        "median delay",
        "longest",
        "crashes",
        "duplicates",
        "violations",
    ]);
    for it in runs {
        list.line(&[
            text(if it.interrupted {
                format!("{} (interrupted)", it.seed)
            } else {
                it.seed.to_string()
            }),
            text(format!("<code>{:016x}</code>", it.trace_hash)),
            text(thousands(it.events)),
            Cell::Part(it.delivered, it.sent),
            text(thousands(it.expired)),
            time(it.delay(50).as_ref()),
            time(it.delay(100).as_ref()),
            text(thousands(it.counts.crashes)),
            text(thousands(it.counts.duplicates)),
            text(match it.findings.first() {
                None => "0".to_owned(),
                Some(first) => format!(
                    "<span class=\"bad\">{}, {}</span>",
                    thousands(it.violations),
                    first.oracle
                ),
            }),
        ]);
    }
    list.whole()
}

/// Values of all runs: the least, the one in the middle and the greatest.
pub(crate) fn spread(lines: &[(&str, [String; 3])]) -> String {
    let mut list = List::new(&["of each seed", "least", "median", "most"]);
    for (name, [least, median, most]) in lines {
        list.line(&[text(*name), text(least), text(median), text(most)]);
    }
    list.whole()
}
