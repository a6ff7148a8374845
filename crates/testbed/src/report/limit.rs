//! Which resource a run had none left of.

use dhow_page::escaped;

use super::told::{Told, Wait};
use crate::number::float;
use crate::results::{Capacity, Limited};

/// A resource of which so much was used was the limit.
const FULL: f64 = 0.85;

/// A host that waited for so much of the time had a limit in what it waited for.
const WAITED: f64 = 0.5;

/// What limited a run, in a few words.
pub(crate) fn limit(told: &Told) -> String {
    let shares = shares(told).into_iter();
    let most = shares.max_by(|one, other| one.1.total_cmp(&other.1));
    let most = most.map(|(capacity, part)| {
        let name = escaped(&capacity.name);
        match capacity.resource {
            Limited::Link => (part, format!("link {name}")),
            Limited::Processor => (part, format!("processor of {name}")),
        }
    });
    let full = most.as_ref().is_some_and(|(part, _)| *part >= FULL);
    if let Some(waited) = waited(told).filter(|_| !full) {
        return waited;
    }
    match most {
        None => "–".to_owned(),
        Some((part, what)) if part >= FULL => format!("{what} ({})", percent(part)),
        Some((part, what)) if follows_trace(told) => format!(
            "not known, as a link follows a trace: most used of others was {what} ({})",
            percent(part)
        ),
        Some((part, what)) => format!("none: most used was {what} ({})", percent(part)),
    }
}

/// What a host waited for most of its time, where no link and no processor was full.
fn waited(told: &Told) -> Option<String> {
    let waits = told.days.iter().filter_map(|day| {
        let (part, what) = match day.waited_for()? {
            Wait::Disk => (day.disk?, "disk"),
            Wait::Memory => (day.memory, "memory"),
            Wait::Locks => (day.locks, "locks"),
            Wait::Processor | Wait::Network | Wait::NetworkOrDisk => return None,
        };
        Some((part, what, &day.node)).filter(|_| part >= WAITED)
    });
    let (part, what, node) = waits.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let node = escaped(node);
    Some(format!(
        "{what} of {node} (waited for {} of the time)",
        percent(part.min(1.0))
    ))
}

/// A link of which nothing was left.
pub(crate) fn full_link(told: &Told) -> Option<String> {
    let mut shares = shares(told).into_iter();
    let full = shares.find(|(it, part)| it.resource == Limited::Link && *part >= FULL);
    full.map(|(capacity, _)| capacity.name.clone())
}

/// A node that had nothing left of its processors, and how much of them it used.
pub(crate) fn full_processor(told: &Told) -> Option<(String, String)> {
    let mut shares = shares(told).into_iter();
    let full = shares.find(|(it, part)| it.resource == Limited::Processor && *part >= FULL);
    full.map(|(capacity, part)| (capacity.name.clone(), percent(part)))
}

/// The share of each resource that was used while payloads could pass, of 1. Without payloads that time is not known.
fn shares(told: &Told) -> Vec<(&Capacity, f64)> {
    let capacities = told.capacities.iter().filter(|_| told.run.sent > 0);
    let shares = capacities.filter_map(|capacity| {
        let used = match capacity.resource {
            Limited::Link => carried(told, &capacity.name),
            Limited::Processor => busy(told, &capacity.name),
        };
        // Counters are read before and after the time that they are for, and those of interfaces have Ethernet headers.
        let amount = capacity.amount.filter(|amount| amount.is_finite())?;
        Some((capacity, (used? / amount).min(1.0)))
    });
    shares.collect()
}

/// Whether there is a link of which no capacity is told.
fn follows_trace(told: &Told) -> bool {
    let known = |link: &str| {
        let mut capacities = told.capacities.iter();
        capacities.any(|it| it.name == link && it.amount.is_some())
    };
    told.links.iter().any(|it| !known(&it.link))
}

/// Octets a second that went over a link while it was there and payloads could pass, in the direction in which more did.
fn carried(told: &Told, link: &str) -> Option<f64> {
    let passed = told.passed.iter().find(|it| it.link == link)?;
    (passed.time_s > 0.0).then(|| float(passed.octets) / passed.time_s)
}

/// A share of 1 as it is read: what is less than a hundredth is not called nothing.
fn percent(part: f64) -> String {
    match part {
        0.0..0.005 if part > 0.0 => "under 1 %".to_owned(),
        _ => format!("{:.0} %", part * 100.0),
    }
}

/// Cores that a node used in the mean while its payloads could pass.
fn busy(told: &Told, node: &str) -> Option<f64> {
    let found = told.days.iter().find(|day| day.node == node);
    found.map(|day| day.busy)
}
