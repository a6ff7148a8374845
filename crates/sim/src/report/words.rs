//! The results of a run, in sentences.

use std::time::Duration;

use dhow_page::escaped;
use dhow_page::quantity::{count, percent, ratio, size, span, things, thousands};

use super::summary::Summary;
use crate::run::{LinkUse, NodeUse, Outcome};

/// A link of which so many hundredths were used has little left, and so has a store.
const FULL: u64 = 80;

/// On links that are there for fewer hundredths of the time, bundles wait for contacts.
const MOSTLY_THERE: u64 = 90;

/// The cost of losses where the scenario names no congestion control.
const LOSSES: &str = "Packets were lost as TCP with BBR would see it: the time to send them again is there, and nothing slows down for them. \
     With reno or cubic such links carry less: congestion_control in the scenario says which is simulated.";

/// The network that ran and the payloads that were delivered.
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
            " The median delay was {}, the 95th percentile {}, and the longest {}.",
            span(half),
            span(most),
            span(last)
        );
    }
    let others: Vec<String> = [
        (
            outcome.refused,
            "was refused",
            "were refused",
            " by the node that was to send them",
        ),
        (
            outcome.unaccepted,
            "was not accepted",
            "were not accepted",
            " (the node crashed, or the run ended, before it answered)",
        ),
        (outcome.expired, "expired", "expired", ""),
        (
            outcome.on_their_way(),
            "was",
            "were",
            " on their way at the end",
        ),
    ]
    .iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(number, one, many, what)| format!("{}{what}", things(*number, one, many)))
    .collect();
    if !others.is_empty() {
        words += &format!(" Of the others, {}.", others.join(", "));
    }
    if outcome.untold > 0 {
        words += &format!(
            " For {} of those delivered the sending application never heard of the acceptance: its node crashed in between.",
            thousands(outcome.untold)
        );
    }
    words
}

/// The limits of the network: links that were full, stores that were, or contacts that were waited for.
pub(crate) fn limits(outcome: &Outcome) -> String {
    let used = |link: &LinkUse| link.octets.0.max(link.octets.1);
    let share = |link: &LinkUse| hundredths(used(link), link.capacity);
    let filled = |node: &NodeUse| hundredths(node.most_octets, node.open_octets);
    let busiest = outcome
        .links
        .iter()
        .max_by_key(|link| thousandths(used(link), link.capacity));
    let fullest = outcome
        .nodes
        .iter()
        .max_by_key(|node| thousandths(node.most_octets, node.open_octets));
    let full_links = outcome.links.iter().filter(|link| share(link) >= FULL);
    let full_stores = outcome.nodes.iter().filter(|node| filled(node) >= FULL);
    let mut words = String::new();
    if let Some(link) = busiest.filter(|link| share(link) >= FULL) {
        words += &format!(
            "Links were the limit: {} at a utilisation of 80 % and more in the time that they were available, {} at {}. ",
            things(count(full_links.count()), "was", "were"),
            escaped(&link.name),
            percent(used(link), link.capacity)
        );
    }
    let full_stores = count(full_stores.count());
    if let Some(node) = fullest.filter(|_| full_stores > 0 || outcome.refused > 0) {
        words += &format!(
            "Stores were the limit: {}. The fullest was that of {}, with {} of what applications may fill. ",
            full(full_stores, outcome.refused),
            escaped(&node.name),
            percent(node.most_octets, node.open_octets)
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
    if outcome.counts.forwarded == 0 {
        return idle(outcome);
    }
    let utilisation = match percent(used(link), link.capacity).as_str() {
        "0.0 %" => "under 0.1 %".to_owned(),
        percent => percent.to_owned(),
    };
    let busiest = format!(
        "the busiest, {}, had a utilisation of {utilisation}",
        escaped(&link.name),
    );
    if there < MOSTLY_THERE * 10 {
        format!(
            "Contacts were the limit: the mean availability of links was {}, and {busiest} in that time. \
             What was under way waited for contacts, and not for the rate of links or for room in stores.",
            percent(there, 1_000)
        )
    } else {
        format!("Neither links nor stores were full: {busiest}.")
    }
}

/// Why no bundle went over a link.
fn idle(outcome: &Outcome) -> String {
    let counts = outcome.counts;
    let was_there = outcome.links.iter().any(|link| !link.open.is_zero());
    let why = if outcome.accepted == 0 {
        "as no node accepted one".to_owned()
    } else if !was_there {
        "as no contact began before the end".to_owned()
    } else {
        format!(
            "in {} with {}: either no session was ready before its contact ended, for which it takes some round trips of its link, or no \
             bundle waited for that neighbour",
            things(counts.contacts, "contact", "contacts"),
            things(counts.connections, "connection", "connections"),
        )
    };
    format!("No bundle went over a link, {why}.")
}

/// Words on stores as the limit.
fn full(stores: u64, refused: u64) -> String {
    let filled = things(
        stores,
        "was filled to 80 % and more of what applications may fill",
        "were filled to 80 % and more of what applications may fill",
    );
    let refused_words = format!(
        "{} refused",
        things(refused, "payload was", "payloads were")
    );
    match (stores, refused) {
        (_, 0) => filled,
        (0, _) => refused_words,
        _ => format!("{filled}, and {refused_words}"),
    }
}

/// The cost of the run, and the faults of the network.
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
        words += &format!("In its course: {}. ", befell.join(", "));
    }
    if let Some(control) = outcome.control {
        words += &format!("Connections resemble TCP with {}.", control.name());
    } else if outcome.links.iter().any(|link| link.is_lossy) {
        words += LOSSES;
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
