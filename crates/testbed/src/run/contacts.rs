//! Contacts in their order: the times at which links come and go.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dhow_scenario::Scenario;
use dhow_scenario::scenario::{Contact, LinkIndex, Presence};

use super::clock::Clock;
use crate::failure::LabError;
use crate::place::Network;
use crate::results;

/// A link comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switching {
    /// When, from the start of the run.
    pub at: Duration,
    /// The link.
    pub link: LinkIndex,
    /// True if its contact begins.
    pub up: bool,
}

/// All comings and goings before an end, in order. Contacts of one link that overlap or touch are one.
#[derive(Clone, Debug)]
pub struct Contacts<'a> {
    contacts: &'a [Contact],
    /// When contacts begin and end, whether it is the end, which of all it is, and its how many-eth time. Beginnings come before
    /// ends of the same moment, so that what touches is not cut.
    next: BinaryHeap<Reverse<(Duration, bool, usize, u32)>>,
    /// The number of contacts under way of each link.
    depths: BTreeMap<LinkIndex, u32>,
    end: Duration,
}

impl<'a> Contacts<'a> {
    /// The contacts of a scenario before an end.
    #[must_use]
    pub fn new(contacts: &'a [Contact], end: Duration) -> Self {
        let starts = contacts.iter().enumerate();
        let next = starts.map(|(which, contact)| Reverse((contact.start, false, which, 0)));
        Self {
            contacts,
            next: next.collect(),
            depths: BTreeMap::new(),
            end,
        }
    }
}

impl Iterator for Contacts<'_> {
    type Item = Switching;

    fn next(&mut self) -> Option<Switching> {
        loop {
            let Reverse((at, is_end, which, round)) = self.next.pop()?;
            let contact = self.contacts.get(which)?;
            if at >= self.end {
                continue;
            }
            let link = contact.link;
            let depth = self.depths.entry(link).or_default();
            let changed = match is_end {
                true => {
                    *depth = depth.saturating_sub(1);
                    *depth == 0
                }
                false => {
                    *depth += 1;
                    self.next
                        .push(Reverse((at + contact.length, true, which, round)));
                    if let Some(every) = contact.every {
                        let again = contact.start + every * (round + 1);
                        self.next.push(Reverse((again, false, which, round + 1)));
                    }
                    *depth == 1
                }
            };
            if changed {
                let up = !is_end;
                return Some(Switching { at, link, up });
            }
        }
    }
}

/// When the last contact ends.
pub(super) fn last_contact(scenario: &Scenario) -> Duration {
    let end = scenario.stop.at;
    if scenario
        .links
        .iter()
        .any(|link| link.presence == Presence::Always)
    {
        return end;
    }
    let mut up = BTreeSet::new();
    let mut last = Duration::ZERO;
    for switching in Contacts::new(&scenario.contacts, end) {
        last = switching.at;
        match switching.up {
            true => up.insert(switching.link),
            false => up.remove(&switching.link),
        };
    }
    if up.is_empty() { last } else { end }
}

/// Has links come and go, and writes down when they did.
pub(super) fn follow_contacts(
    scenario: &Scenario,
    network: &Network,
    clock: &Clock,
    contacts: &Mutex<Vec<results::Contact>>,
) -> Result<(), LabError> {
    let name = |link: LinkIndex| {
        let found = scenario.links.get(link.0);
        found.map_or_else(String::new, |link| link.name.clone())
    };
    let begin = |link: LinkIndex, at: Duration| results::Contact {
        link: name(link),
        start_s: at.as_secs_f64(),
        end_s: f64::NAN,
    };
    let lock = || contacts.lock().unwrap_or_else(PoisonError::into_inner);
    for switching in Contacts::new(&scenario.contacts, scenario.stop.at) {
        clock.sleep_until(switching.at);
        if clock.is_over() {
            break;
        }
        // The time of the switching itself counts as contact, at either end.
        let before = clock.now();
        network.set(switching.link.0, switching.up)?;
        let now = clock.now();
        let mut contacts = lock();
        if switching.up {
            contacts.push(begin(switching.link, before));
            continue;
        }
        let link = name(switching.link);
        let open = contacts.iter_mut().rev();
        if let Some(contact) = open
            .into_iter()
            .find(|it| it.link == link && it.end_s.is_nan())
        {
            contact.end_s = now.as_secs_f64();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(contacts: &[(usize, u64, u64, Option<u64>)], end: u64) -> Vec<(u64, usize, bool)> {
        let contacts: Vec<Contact> = contacts
            .iter()
            .map(|(link, start, length, every)| Contact {
                link: LinkIndex(*link),
                start: Duration::from_secs(*start),
                length: Duration::from_secs(*length),
                every: every.map(Duration::from_secs),
            })
            .collect();
        let all = Contacts::new(&contacts, Duration::from_secs(end));
        all.map(|it| (it.at.as_secs(), it.link.0, it.up)).collect()
    }

    #[test]
    fn contacts_come_again_until_the_end() {
        let expected = [(2, 0, true), (3, 1, true), (4, 0, false), (7, 0, true)];
        assert_eq!(told(&[(0, 2, 2, Some(5)), (1, 3, 90, None)], 9), expected);
    }

    #[test]
    fn contacts_that_overlap_or_touch_are_one() {
        let expected = [(1, 0, true), (6, 0, false)];
        assert_eq!(
            told(&[(0, 1, 2, None), (0, 2, 2, None), (0, 4, 2, None)], 99),
            expected
        );
    }
}
