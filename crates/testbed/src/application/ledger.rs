//! The account of a run's payloads: sent, accepted, refused and delivered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dhow_scenario::Scenario;

use super::payload::Name;
use crate::results;

/// Payloads of a run, at most: each takes some octets of memory and a line of a table.
const PAYLOADS_MAX: u64 = 10_000_000;

/// All payloads of a run, for the threads of all applications.
#[derive(Debug)]
pub struct Ledger {
    entries: Mutex<Entries>,
    /// Payloads that are to be sent in all; none where that has no end.
    total: Option<u64>,
    lifetimes: Vec<Duration>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Payloads by traffic.
    payloads: Vec<Vec<Entry>>,
    tally: Tally,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    octets: u64,
    sent: Duration,
    accepted: Option<Duration>,
    delivered: Option<Duration>,
}

/// Sums over all payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Given to nodes.
    pub sent: u64,
    /// Payloads that nodes accepted.
    pub accepted: u64,
    /// Payloads that nodes refused.
    pub refused: u64,
    /// Delivered.
    pub delivered: u64,
    /// Octets of the delivered payloads.
    pub delivered_octets: u64,
    /// Delivered otherwise than they were sent, or again.
    pub wrong: u64,
    /// Status reports that came.
    pub reports: u64,
}

impl Ledger {
    /// An empty one for a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let counts = scenario.traffic.iter().map(|traffic| traffic.count);
        let payloads = vec![Vec::new(); scenario.traffic.len()];
        let tally = Tally::default();
        Self {
            entries: Mutex::new(Entries { payloads, tally }),
            total: counts.sum(),
            lifetimes: scenario.traffic.iter().map(|it| it.lifetime).collect(),
        }
    }

    /// The sums so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.entries().tally
    }

    /// Payloads that are to be sent in all; none where that has no end.
    #[must_use]
    pub const fn total(&self) -> Option<u64> {
        self.total
    }

    /// True if all payloads that are to be sent have been delivered; false if their number has no end.
    #[must_use]
    pub fn is_all_delivered(&self) -> bool {
        self.total == Some(self.tally().delivered)
    }

    /// The next payload of a traffic is given to a node; its number comes back, none where there are too many.
    pub(super) fn send(&self, traffic: usize, octets: u64, sent: Duration) -> Option<u64> {
        let mut entries = self.entries();
        if entries.tally.sent >= PAYLOADS_MAX {
            return None;
        }
        let payloads = entries.payloads.get_mut(traffic)?;
        let number = u64::try_from(payloads.len()).ok()?;
        payloads.push(Entry {
            octets,
            sent,
            accepted: None,
            delivered: None,
        });
        entries.tally.sent += 1;
        Some(number)
    }

    /// The node said that it had a payload, or that it would not have it.
    pub(super) fn answer(&self, name: Name, accepted: Option<Duration>) {
        let mut entries = self.entries();
        match accepted {
            None => entries.tally.refused += 1,
            Some(at) => {
                if let Some(entry) = entries.entry(name)
                    && entry.accepted.is_none()
                {
                    entry.accepted = Some(at);
                    entries.tally.accepted += 1;
                }
            }
        }
    }

    /// Octets that a payload has; none where it was not sent.
    pub(super) fn octets(&self, name: Name) -> Option<u64> {
        self.entries().entry(name).map(|entry| entry.octets)
    }

    /// A payload was delivered, as it was sent or not.
    pub(super) fn deliver(&self, name: Option<Name>, is_right: bool, at: Duration) {
        let mut entries = self.entries();
        let entry = name.and_then(|name| entries.entry(name));
        match entry.filter(|entry| is_right && entry.delivered.is_none()) {
            Some(entry) => {
                entry.delivered = Some(at);
                let octets = entry.octets;
                entries.tally.delivered += 1;
                entries.tally.delivered_octets += octets;
            }
            None => entries.tally.wrong += 1,
        }
    }

    /// A status report came.
    pub(super) fn report(&self) {
        self.entries().tally.reports += 1;
    }

    /// Payloads that were accepted, not delivered, and by a time of no more use.
    #[must_use]
    pub fn expired(&self, now: Duration) -> u64 {
        self.undelivered(|end| end <= now)
    }

    /// Payloads that were accepted and not delivered, and at a time still should be.
    #[must_use]
    pub fn missing(&self, now: Duration) -> u64 {
        self.undelivered(|end| end > now)
    }

    /// Payloads that were accepted and not delivered, by the end of their lifetimes.
    fn undelivered(&self, is_meant: impl Fn(Duration) -> bool) -> u64 {
        let entries = self.entries();
        let each = entries.payloads.iter().zip(&self.lifetimes);
        // One by one: a delivered payload need not have been answered, and makes up for no other.
        let counts = each.map(|(payloads, lifetime)| {
            let open = payloads.iter().filter(|it| it.delivered.is_none());
            let ends = open.filter_map(|it| Some(it.accepted?.saturating_add(*lifetime)));
            ends.filter(|end| is_meant(*end)).count()
        });
        u64::try_from(counts.sum::<usize>()).unwrap_or(u64::MAX)
    }

    /// All payloads as lines of a table.
    #[must_use]
    pub fn rows(&self, scenario: &Scenario) -> Vec<results::Payload> {
        let entries = self.entries();
        let name = |node: dhow_scenario::scenario::NodeIndex| {
            let found = scenario.nodes.get(node.0);
            found.map_or_else(String::new, |node| node.name.clone())
        };
        let mut rows = Vec::new();
        for ((position, payloads), traffic) in (1..).zip(&entries.payloads).zip(&scenario.traffic) {
            rows.extend((1..).zip(payloads).map(|(number, it)| results::Payload {
                traffic: position,
                number,
                from: name(traffic.from),
                to: name(traffic.to),
                octets: it.octets,
                sent_s: it.sent.as_secs_f64(),
                accepted_s: it.accepted.as_ref().map(Duration::as_secs_f64),
                delivered_s: it.delivered.as_ref().map(Duration::as_secs_f64),
            }));
        }
        rows
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn entry(&mut self, name: Name) -> Option<&mut Entry> {
        let traffic = usize::try_from(name.traffic).ok()?;
        let number = usize::try_from(name.number).ok()?;
        self.payloads.get_mut(traffic)?.get_mut(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_delivered_without_an_answer_makes_up_for_nothing_that_is_missing() {
        let at = Duration::from_secs;
        let ledger = Ledger {
            entries: Mutex::new(Entries {
                payloads: vec![Vec::new()],
                tally: Tally::default(),
            }),
            total: None,
            lifetimes: vec![at(10)],
        };
        let name = |number| Name { traffic: 0, number };
        for _ in 0..2 {
            ledger.send(0, 100, at(0));
        }
        ledger.deliver(Some(name(0)), true, at(1));
        ledger.answer(name(1), Some(at(2)));
        assert_eq!((ledger.missing(at(3)), ledger.expired(at(3))), (1, 0));
        assert_eq!((ledger.missing(at(12)), ledger.expired(at(12))), (0, 1));
    }
}
