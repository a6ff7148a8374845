//! The resource of which a run had nothing left.

use std::collections::BTreeSet;

use dhow_page::escaped;
use dhow_page::quantity::things;

use super::study::{Cell, Study};
use super::summary::{RunSummary, Wait};
use crate::number::float;
use crate::results::{Capacity, Limited, LinkSample};

/// A resource of which so much was used was the limit.
const FULL: f64 = 0.85;

/// A host that waited for so much of the time had a limit in what it waited for.
const WAITED: f64 = 0.5;

/// A link that comes and goes and carried less than so much of all octets is one of many, and not the limit of a run.
const OF_MANY: f64 = 0.1;

/// Contacts are the limit where links are there for less of the time in the mean.
const MOSTLY_THERE: f64 = 0.9;

/// The limit of the first run of a cell, in a few words.
pub(crate) fn of_cell(cell: &Cell<'_>) -> String {
    let first = cell.runs.first();
    first.map_or_else(
        || "no run came to its end".to_owned(),
        |summary| limit(summary),
    )
}

/// True if a run has anything that could be limited: payloads, or programs.
pub(crate) fn is_known(summary: &RunSummary) -> bool {
    summary.run.sent > 0 || !summary.programs.is_empty()
}

/// The limit of a run, in a few words.
pub(crate) fn limit(summary: &RunSummary) -> String {
    let waits = waited_for_contacts(summary);
    let most = most_used(summary).filter(|_| waits.is_none());
    let most = most.map(|(capacity, part)| (part, named(capacity)));
    let full = most.as_ref().is_some_and(|(part, _)| *part >= FULL);
    if let Some((part, what)) = waited(summary).filter(|_| !full) {
        return format!("{what} (waited for {} of the time)", percent(part));
    }
    if let Some(there) = waits {
        let there = percent(there);
        return format!("contacts (links were there for {there} of the time)");
    }
    match most {
        None => "–".to_owned(),
        Some((part, what)) if part >= FULL => format!("{what} ({})", percent(part)),
        Some((part, what)) if follows_trace(summary) => format!(
            "not known, as a link follows a trace: most used of others was {what} ({})",
            percent(part)
        ),
        Some((part, what)) => format!("none: most used was {what} ({})", percent(part)),
    }
}

/// True if a run had nothing left of some resource.
pub(crate) fn is_reached(summary: &RunSummary) -> bool {
    let full = most_used(summary).is_some_and(|(_, part)| part >= FULL);
    full || waited(summary).is_some()
}

/// Limits of the runs of a study that came to their end, those with the same limit together; nothing of runs without payloads and programs.
pub(crate) fn sentence(study: &Study) -> String {
    let mut limits: Vec<(String, u64)> = Vec::new();
    for summary in study.done().filter(|summary| is_known(summary)) {
        let waits = waited_for_contacts(summary).is_some();
        let full = most_used(summary).filter(|(_, part)| !waits && *part >= FULL);
        let name = full.map(|(capacity, _)| named(capacity));
        let name = name.or_else(|| waited(summary).map(|(_, what)| what));
        let name = name.or_else(|| waits.then(|| "contacts".to_owned()));
        let name = name.unwrap_or_else(|| "no resource that was measured".to_owned());
        match limits.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => limits.push((name, 1)),
        }
    }
    limits.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let each = limits.iter();
    let each = each.map(|(name, count)| format!("{name} ({})", things(*count, "run", "runs")));
    match each.collect::<Vec<_>>().join(", ") {
        all if all.is_empty() => String::new(),
        all => format!("The limit was {all}."),
    }
}

/// The resource of which the largest part was used, and that part.
fn most_used(summary: &RunSummary) -> Option<(&Capacity, f64)> {
    let shares = shares(summary).into_iter();
    shares.max_by(|one, other| one.1.total_cmp(&other.1))
}

/// The part of the time for which links that come and go were there in the mean, where payloads waited for them: the fullest of the links
/// carried little of all, as among hosts that meet.
fn waited_for_contacts(summary: &RunSummary) -> Option<f64> {
    let (fullest, _) = most_used(summary)?;
    let all: u64 = summary.passed.iter().map(|it| it.octets).sum();
    let own = summary.passed.iter().find(|it| it.link == fullest.name)?;
    if !fullest.planned || float(own.octets) >= OF_MANY * float(all) {
        return None;
    }
    let planned = summary.capacities.iter().filter(|it| it.planned);
    let planned: BTreeSet<&str> = planned.map(|it| it.name.as_str()).collect();
    let whole = summary.run.duration_s * float(u64::try_from(planned.len()).ok()?);
    let contacts = summary.contacts.iter();
    let contacts = contacts.filter(|it| planned.contains(it.link.as_str()));
    let there = contacts.map(|it| it.end_s.min(summary.run.duration_s) - it.start_s);
    let there = there.sum::<f64>() / whole;
    (there < MOSTLY_THERE).then_some(there)
}

fn named(capacity: &Capacity) -> String {
    let name = escaped(&capacity.name);
    match capacity.resource {
        Limited::Link => format!("link {name}"),
        Limited::Processor => format!("processor of {name}"),
    }
}

/// The disk, memory or locks that a host waited for most, and for which part of the time; nothing where that is small.
fn waited(summary: &RunSummary) -> Option<(f64, String)> {
    let waits = summary.days.iter().filter_map(|day| {
        let (part, what) = match day.waited_for()? {
            Wait::Disk => (day.disk?, "disk"),
            Wait::Memory => (day.memory, "memory"),
            Wait::Locks => (day.locks, "locks"),
            Wait::Processor | Wait::Network | Wait::NetworkOrDisk => return None,
        };
        let what = format!("{what} of {}", escaped(&day.node));
        Some((part.min(1.0), what)).filter(|_| part >= WAITED)
    });
    waits.max_by(|one, other| one.0.total_cmp(&other.0))
}

/// A link of which nothing was left.
pub(crate) fn full_link(summary: &RunSummary) -> Option<String> {
    let mut shares = shares(summary).into_iter();
    let full = shares.find(|(it, part)| it.resource == Limited::Link && *part >= FULL);
    full.map(|(capacity, _)| capacity.name.clone())
}

/// The share of each resource that was used while payloads could pass or programs ran together, of 1. Without either that time is not known.
fn shares(summary: &RunSummary) -> Vec<(&Capacity, f64)> {
    let is_known = summary.run.sent > 0 || summary.together().is_some();
    let capacities = summary.capacities.iter().filter(|_| is_known);
    let shares = capacities.filter_map(|capacity| {
        let used = match capacity.resource {
            Limited::Link => carried(summary, &capacity.name),
            Limited::Processor => busy(summary, &capacity.name),
        };
        // Counters are read before and after the time that they are for, and those of interfaces have Ethernet headers.
        let amount = capacity.amount.filter(|amount| amount.is_finite())?;
        Some((capacity, (used? / amount).min(1.0)))
    });
    shares.collect()
}

/// True if octets passed a link of which no capacity is known.
fn follows_trace(summary: &RunSummary) -> bool {
    let known = |link: &str| {
        let mut capacities = summary.capacities.iter();
        capacities.any(|it| it.name == link && it.amount.is_some())
    };
    let is_used = |it: &&LinkSample| it.octets_forward + it.octets_back > 0;
    let mut used = summary.links.iter().filter(is_used);
    used.any(|it| !known(&it.link))
}

/// Octets a second that went over a link while it was there and payloads could pass, in the direction in which more did.
fn carried(summary: &RunSummary, link: &str) -> Option<f64> {
    let passed = summary.passed.iter().find(|it| it.link == link)?;
    (passed.time_s > 0.0).then(|| float(passed.octets) / passed.time_s)
}

/// A share of 1 as it is read: less than a hundredth is not called nothing.
fn percent(part: f64) -> String {
    match part {
        0.0..0.005 if part > 0.0 => "under 1 %".to_owned(),
        _ => format!("{:.0} %", part * 100.0),
    }
}

/// The share of its processor that a node used; of one core where it has no limit.
pub(crate) fn processor_share(summary: &RunSummary, node: &str) -> Option<f64> {
    let mut capacities = summary.capacities.iter();
    let own = capacities.find(|it| it.resource == Limited::Processor && it.name == node);
    let cores = own.and_then(|it| it.amount).unwrap_or(1.0);
    busy(summary, node).map(|busy| busy / cores)
}

/// Cores that a node used in the mean while its payloads could pass, or programs ran together.
fn busy(summary: &RunSummary, node: &str) -> Option<f64> {
    let found = summary.days.iter().find(|day| day.node == node);
    found.map(|day| day.busy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::Passed;
    use crate::results::{Contact, Run};

    /// A run of 100 s with links of 1,000 octets a second: the octets of each in its only contact, of 10 s.
    fn met(octets: &[u64]) -> RunSummary {
        let run = Run {
            duration_s: 100.0,
            sent: 9,
            ..Run::default()
        };
        let links = || {
            (0..octets.len()).map(|number| (format!("w{number}-w{}", number + 1), octets[number]))
        };
        RunSummary {
            capacities: links()
                .map(|(name, _)| Capacity {
                    name,
                    amount: Some(1_000.0),
                    planned: true,
                    ..Capacity::default()
                })
                .collect(),
            contacts: links()
                .map(|(link, _)| Contact {
                    link,
                    start_s: 20.0,
                    end_s: 30.0,
                })
                .collect(),
            passed: links()
                .map(|(link, octets)| Passed {
                    link,
                    octets,
                    time_s: 10.0,
                })
                .collect(),
            ..RunSummary::bare(run)
        }
    }

    #[test]
    fn contacts_are_the_limit_where_the_fullest_of_many_links_carried_little() {
        for fullest in [9_500, 7_000] {
            let mut octets = [5_000; 20];
            octets[3] = fullest;
            let expected = "contacts (links were there for 10 % of the time)";
            assert_eq!(limit(&met(&octets)), expected, "{fullest}");
        }
    }

    #[test]
    fn link_that_carried_a_tenth_of_all_is_the_limit() {
        // 9,000 of 90,000, and one octet less.
        let mut octets = vec![9_000];
        octets.extend([4_500; 18]);
        assert_eq!(limit(&met(&octets)), "link w0-w1 (90 %)");
        octets[0] = 8_999;
        assert!(limit(&met(&octets)).starts_with("contacts"));
        // Links that are always there have no contacts to wait for.
        let mut always = met(&octets);
        always.contacts.clear();
        always
            .capacities
            .iter_mut()
            .for_each(|it| it.planned = false);
        assert_eq!(limit(&always), "link w0-w1 (90 %)");
    }
}
