//! What came of a run, in sentences.

use std::time::Duration;

use super::quantity::{count, percent, ratio, size, span, things};
use super::summary::Summary;
use crate::run::{LinkUse, NodeUse, Outcome};

/// A link of which so many hundredths were used has little left, and so has a store.
const FULL: u64 = 80;

/// Where links are there for fewer hundredths of the time, bundles wait for contacts.
const MOSTLY_THERE: u64 = 90;

/// What ran and what was delivered.
pub(crate) fn delivered(outcome: &Outcome) -> String {
    let sent = outcome.progress.sent;
    let octets: u64 = outcome.payloads.iter().map(|it| it.octets).sum();
    let mut words = format!(
        "{} of virtual time in a network of {} and {}. {} ({}) {} sent; ",
        span(outcome.progress.time),
        things(count(outcome.nodes.len()), "node", "nodes"),
        things(count(outcome.links.len()), "link", "links"),
        things(sent, "payload", "payloads"),
        size(octets),
        if sent == 1 { "was" } else { "were" },
    );
    let delivered = outcome.progress.delivered;
    words += &match delivered {
        0 => "none was delivered.".to_owned(),
        _ if delivered == sent => "<strong>all were delivered</strong>.".to_owned(),
        _ => format!(
            "<strong>{} delivered</strong> ({}).",
            things(delivered, "was", "were"),
            percent(delivered, sent)
        ),
    };
    let summary = Summary::of(outcome);
    if let (Some(half), Some(most), Some(last)) =
        (summary.delay(50), summary.delay(95), summary.delay(100))
    {
        words += &format!(
            " Half of them took at most {}, 95 % at most {}, and the slowest {}.",
            span(half),
            span(most),
            span(last)
        );
    }
    let waiting = (sent - delivered.min(sent)).saturating_sub(outcome.expired + outcome.refused);
    let others: Vec<String> = [
        (outcome.refused, "refused by the node that was to send them"),
        (outcome.expired, "of no use any more before they arrived"),
        (waiting, "on their way at the end"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(number, what)| format!("{} {what}", things(*number, "was", "were")))
    .collect();
    if !others.is_empty() {
        words += &format!(" Of the others, {}.", others.join(", "));
    }
    words
}

/// What limited it: links that were full, stores that were, or contacts that were waited for.
pub(crate) fn limits(outcome: &Outcome) -> String {
    let used = |link: &LinkUse| link.octets.0.max(link.octets.1);
    let share = |link: &LinkUse| hundredths(used(link), link.capacity);
    let filled = |node: &NodeUse| hundredths(node.most_octets, node.quota_octets);
    let busiest = outcome
        .links
        .iter()
        .max_by_key(|link| thousandths(used(link), link.capacity));
    let fullest = outcome.nodes.iter().max_by_key(|node| filled(node));
    let full_links = outcome.links.iter().filter(|link| share(link) >= FULL);
    let full_stores = outcome.nodes.iter().filter(|node| filled(node) >= FULL);
    let mut words = String::new();
    if let Some(link) = busiest.filter(|link| share(link) >= FULL) {
        words += &format!(
            "Links were the limit: {} used to four fifths and more in the time that they were there, {} to {}. ",
            things(count(full_links.count()), "was", "were"),
            escaped(&link.name),
            percent(used(link), link.capacity)
        );
    }
    let full_stores = count(full_stores.count());
    if let Some(node) = fullest.filter(|_| full_stores > 0 || outcome.refused > 0) {
        words += &format!(
            "Stores were the limit: {} filled to four fifths and more of what they may hold, and {} refused; the fullest was that of {}, with {}. ",
            things(full_stores, "was", "were"),
            things(outcome.refused, "payload", "payloads"),
            escaped(&node.name),
            percent(node.most_octets, node.quota_octets)
        );
    }
    if !words.is_empty() {
        return words;
    }
    let Some(link) = busiest else {
        return words;
    };
    let there: Duration = outcome.links.iter().map(|link| link.open).sum();
    let all = outcome.progress.time.as_nanos() * u128::from(count(outcome.links.len()));
    let there = u64::try_from(there.as_nanos() * 1_000 / all.max(1)).unwrap_or(u64::MAX);
    let busiest = format!(
        "the busiest, {}, carried {} of what it could have",
        escaped(&link.name),
        percent(used(link), link.capacity)
    );
    if there < MOSTLY_THERE * 10 {
        format!(
            "Contacts were the limit: links were there for {} of the time in the mean, and {busiest} in that time. \
             What was under way waited for contacts, and not for the rate of links or for room in stores.",
            percent(there, 1_000)
        )
    } else {
        format!("Neither links nor stores were full: {busiest}.")
    }
}

/// What it cost, and what befell the network.
pub(crate) fn cost(outcome: &Outcome) -> String {
    let summary = Summary::of(outcome);
    let mut words = String::new();
    if summary.delivered > 0 {
        words = format!(
            "Links carried {}: {} octets for each that was delivered, in {} from node to node ({} for each payload that was delivered). ",
            size(summary.carried_octets),
            ratio(summary.carried_octets, summary.delivered_octets),
            things(outcome.counts.forwarded, "transfer", "transfers"),
            ratio(outcome.counts.forwarded, summary.delivered),
        );
    }
    let counts = outcome.counts;
    let befell: Vec<String> = [
        (counts.contacts, "contact", "contacts"),
        (counts.connections, "connection", "connections"),
        (counts.crashes, "crash", "crashes"),
        (counts.stalls, "stalled disk", "stalled disks"),
        (
            counts.duplicates,
            "bundle that came again",
            "bundles that came again",
        ),
    ]
    .iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, one, many)| things(*count, one, many))
    .collect();
    if !befell.is_empty() {
        words += &format!("In its course: {}.", befell.join(", "));
    }
    words
}

fn hundredths(part: u64, whole: u64) -> u64 {
    thousandths(part, whole) / 10
}

fn thousandths(part: u64, whole: u64) -> u64 {
    let share = u128::from(part) * 1_000 / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// A text that cannot leave its place in the page.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
