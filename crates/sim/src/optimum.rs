//! The bound that no router beats: the earliest arrival of each payload over a scenario's contacts.
//!
//! Each payload goes by the temporal shortest path, as if all contacts were known ahead, each node kept everything, and links carried any
//! number of octets at once: only their delays count. A payload that cannot arrive so arrives by no router.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use dhow_scenario::scenario::{Contact, Link, Presence};
use dhow_scenario::{Scenario, Schedule};

/// Times of contacts that are looked at, each of one that comes again and again by itself.
const WINDOWS_MAX: usize = 50_000_000;

/// Payloads that are looked at.
const PAYLOADS_MAX: u64 = 10_000_000;

/// Too much to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    /// Contacts.
    #[error("more than {WINDOWS_MAX} contacts")]
    Contacts,
    /// Payloads.
    #[error("more than {PAYLOADS_MAX} payloads")]
    Payloads,
}

/// The best that can become of a scenario's traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Optimum {
    /// Payloads that are sent before the end.
    pub sent: u64,
    /// Delays of those that can arrive in their lifetimes and before the end, the shortest first.
    pub delays: Vec<Duration>,
    /// Links that these go over, all together.
    pub hops: u64,
}

impl Optimum {
    /// The optimum of a scenario's traffic as a seed has it.
    ///
    /// # Errors
    /// When there is too much to look at.
    pub fn of(scenario: &Scenario, seed: u64) -> Result<Self, TooMany> {
        let network = Temporal::of(scenario)?;
        let end = scenario.stop.at;
        let mut optimum = Self::default();
        for (position, traffic) in scenario.traffic.iter().enumerate() {
            let ends = (traffic.from.0, traffic.to.0);
            for due in Schedule::new(traffic, position, seed).take_while(|due| due.at < end) {
                optimum.sent += 1;
                if optimum.sent > PAYLOADS_MAX {
                    return Err(TooMany::Payloads);
                }
                let until = end.min(due.at.saturating_add(traffic.lifetime));
                if let Some((at, hops)) = network.earliest(ends, (due.at, until)) {
                    optimum.delays.push(at.saturating_sub(due.at));
                    optimum.hops += hops;
                }
            }
        }
        optimum.delays.sort_unstable();
        Ok(optimum)
    }
}

/// The links of each node, and when they can be used.
struct Temporal<'a> {
    /// The other end of each link of each node, and the link's position.
    links: Vec<Vec<(usize, usize)>>,
    /// The beginnings and ends of each link, in order.
    windows: Vec<(&'a Link, Vec<(Duration, Duration)>)>,
}

impl<'a> Temporal<'a> {
    fn of(scenario: &'a Scenario) -> Result<Self, TooMany> {
        let end = scenario.stop.at;
        let mut links = vec![Vec::new(); scenario.nodes.len()];
        let mut windows: Vec<(&Link, Vec<(Duration, Duration)>)> = Vec::new();
        for (position, link) in scenario.links.iter().enumerate() {
            for (here, there) in [link.between, (link.between.1, link.between.0)] {
                if let Some(links) = links.get_mut(here.0) {
                    links.push((there.0, position));
                }
            }
            let always = (link.presence == Presence::Always).then_some((Duration::ZERO, end));
            windows.push((link, always.into_iter().collect()));
        }
        let mut count = 0_usize;
        for contact in &scenario.contacts {
            let Some((_, windows)) = windows.get_mut(contact.link.0) else {
                continue;
            };
            for window in times(contact, end) {
                windows.push(window);
                count += 1;
                if count > WINDOWS_MAX {
                    return Err(TooMany::Contacts);
                }
            }
        }
        for (_, windows) in &mut windows {
            windows.sort_unstable();
            *windows = united(windows);
        }
        // A link over another's wire has that one's contacts.
        for position in 0..windows.len() {
            let over = windows.get(position).and_then(|(link, _)| link.over);
            let shared = over.and_then(|over| Some(windows.get(over.0)?.1.clone()));
            if let Some((shared, (_, own))) = shared.zip(windows.get_mut(position)) {
                *own = shared;
            }
        }
        Ok(Self { links, windows })
    }

    /// When a payload can be at its destination at the earliest, and over how many links; nothing where it cannot by `until`.
    fn earliest(
        &self,
        (from, to): (usize, usize),
        (at, until): (Duration, Duration),
    ) -> Option<(Duration, u64)> {
        let mut arrived = vec![false; self.links.len()];
        let mut ahead = BinaryHeap::from([Reverse((at, 0_u64, from))]);
        while let Some(Reverse((now, hops, node))) = ahead.pop() {
            if node == to {
                return Some((now, hops));
            }
            match arrived.get_mut(node) {
                Some(arrived) if !*arrived => *arrived = true,
                _ => continue,
            }
            for (next, link) in self.links.get(node).into_iter().flatten() {
                let is_there = arrived.get(*next).copied().unwrap_or(true);
                let Some((link, windows)) = self.windows.get(*link).filter(|_| !is_there) else {
                    continue;
                };
                let first = windows.partition_point(|(_, end)| *end <= now);
                if let Some((start, _)) = windows.get(first) {
                    let leaves = now.max(*start);
                    let arrives = leaves.saturating_add(link.delay.at(leaves));
                    if arrives < until {
                        ahead.push(Reverse((arrives, hops + 1, *next)));
                    }
                }
            }
        }
        None
    }
}

/// The beginnings and ends of a contact before the end of a run.
fn times(contact: &Contact, end: Duration) -> impl Iterator<Item = (Duration, Duration)> {
    let (length, every) = (contact.length, contact.every);
    let starts = std::iter::successors(Some(contact.start), move |start| {
        start.checked_add(every.filter(|every| !every.is_zero())?)
    });
    starts
        .take_while(move |start| *start < end)
        .map(move |start| (start, start.saturating_add(length)))
}

/// Sorted times as such that do not touch each other.
fn united(times: &[(Duration, Duration)]) -> Vec<(Duration, Duration)> {
    let mut united: Vec<(Duration, Duration)> = Vec::new();
    for (start, end) in times {
        match united.last_mut() {
            Some(last) if *start <= last.1 => last.1 = last.1.max(*end),
            _ => united.push((*start, *end)),
        }
    }
    united
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn optimum(contacts: &str, lifetime: &str) -> (u64, Vec<u64>, u64) {
        let text = format!(
            "[[nodes]]\nname = \"n\"\ncount = 3\n[[link]]\nbetween = [\"n1\", \"n2\"]\nrate = \"1Mbit\"\ndelay = \"1s\"\n[[link]]\nbetween = [\"n2\", \"n3\"]\nrate = \"1Mbit\"\n[[link]]\nbetween = [\"n1\", \"n3\"]\nrate = \"1Mbit\"\n{contacts}[[traffic]]\nfrom = \"n1\"\nto = \"n3\"\nsize = 100\ncount = 2\nevery = \"100s\"\nlifetime = \"{lifetime}\"\n[stop]\nat = \"1000s\"\n"
        );
        let scenario = Scenario::parse(Path::new("s.toml"), &text).expect("a scenario");
        let found = Optimum::of(&scenario, 1).expect("few");
        let seconds = found.delays.iter().map(Duration::as_secs).collect();
        (found.sent, seconds, found.hops)
    }

    fn contact(link: &str, start: u64, length: u64) -> String {
        format!("[[contact]]\nlink = \"{link}\"\nstart = \"{start}s\"\nfor = \"{length}s\"\n")
    }

    #[test]
    fn payloads_go_by_the_contacts_that_bring_them_there_first() {
        let contacts = [
            contact("n1-n2", 10, 5),
            contact("n2-n3", 50, 5),
            contact("n1-n3", 700, 5),
        ]
        .concat();
        // The first over n2; the second, sent at 100 s, has missed that.
        assert_eq!(optimum(&contacts, "1d"), (2, vec![50, 600], 3));
        assert_eq!(optimum(&contacts, "300s"), (2, vec![50], 2));
    }

    #[test]
    fn contacts_in_the_wrong_order_bring_nothing() {
        let contacts = [
            contact("n2-n3", 10, 5),
            contact("n1-n2", 50, 5),
            contact("n1-n3", 1, 1).replace("for", "every = \"2000s\"\nfor"),
        ]
        .concat();
        // The first waits for the contact at 1 s, the second for ever.
        assert_eq!(optimum(&contacts, "1d"), (2, vec![1], 1));
    }
}
