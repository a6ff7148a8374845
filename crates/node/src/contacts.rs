//! The contact table of a node: which node can send to which, when, how fast and how far away.
//!
//! Contacts are planned by others and are of one direction each. Times are of the wall clock, since whoever plans a contact knows no
//! other; a node without a clock has no use for the table.

use alloc::collections::BTreeMap;
use core::ops::Bound;
use core::time::Duration;

use dhow_bundle::{DtnTime, NodeId};

use crate::memory::{text_octets, tree_octets};

/// Contacts of a table, at most: they take some megabytes.
pub const CONTACTS_BOUND: usize = 65_536;

/// Octets a second of a contact, at most: a petabit a second, far above any link there is.
pub const CONTACT_RATE_MAX: u64 = 125_000_000_000_000;

/// The time that light may take from one node to another, at most, milliseconds: a year.
pub const LIGHT_TIME_MAX_MS: u64 = 365 * 86_400_000;

/// A time in which one node can send to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlannedContact {
    /// The node that sends.
    pub from: NodeId,
    /// The node that receives.
    pub to: NodeId,
    /// Its beginning.
    pub start: DtnTime,
    /// Its end, after its beginning.
    pub end: DtnTime,
    /// Octets a second, 1 to [`CONTACT_RATE_MAX`].
    pub octets_per_s: u64,
    /// The time that an octet takes from the one node to the other, milliseconds, at most [`LIGHT_TIME_MAX_MS`].
    pub light_time_ms: u64,
}

/// The fault of a contact that a table does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContactError {
    /// Both ends are one node.
    #[error("a node needs no contact with itself")]
    Itself,
    /// The contact is over before it has begun.
    #[error("it ends before it begins")]
    Reversed,
    /// Nothing could be sent in it, or more than is possible.
    #[error("its rate of {0} octets a second is not one from 1 to {CONTACT_RATE_MAX}")]
    Rate(u64),
    /// Nobody is as far away.
    #[error("its light time of {0} ms is more than a year")]
    LightTime(u64),
    /// Another contact of the same direction has a part of its time: the one that begins then.
    #[error("it overlaps another contact of the same two nodes")]
    Overlaps(DtnTime),
    /// The table has no room.
    #[error("there are {CONTACTS_BOUND} contacts already, which is the most")]
    Full,
}

/// The state of a contact at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The contact has ended.
    Over,
    /// The contact is on.
    Now,
    /// The contact is the next one of its direction.
    Next,
    /// Other contacts of the direction begin before it.
    Later,
}

/// A contact beside its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    end: DtnTime,
    octets_per_s: u64,
    light_time_ms: u64,
}

/// The contacts of one direction by their beginning.
type Windows = BTreeMap<DtnTime, Window>;

/// A table of contacts. No two of one direction overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContactTable {
    ways: BTreeMap<(NodeId, NodeId), Windows>,
    count: usize,
}

impl ContactTable {
    /// Add a contact.
    ///
    /// # Errors
    /// When it makes no sense, overlaps another, or there are [`CONTACTS_BOUND`]: the table is as before.
    pub fn insert(&mut self, contact: PlannedContact) -> Result<(), ContactError> {
        let PlannedContact {
            from,
            to,
            start,
            end,
            octets_per_s,
            light_time_ms,
        } = contact;
        if from == to {
            return Err(ContactError::Itself);
        }
        if end <= start {
            return Err(ContactError::Reversed);
        }
        if !(1..=CONTACT_RATE_MAX).contains(&octets_per_s) {
            return Err(ContactError::Rate(octets_per_s));
        }
        if light_time_ms > LIGHT_TIME_MAX_MS {
            return Err(ContactError::LightTime(light_time_ms));
        }
        if self.count >= CONTACTS_BOUND {
            return Err(ContactError::Full);
        }
        let way = (from, to);
        if let Some(windows) = self.ways.get(&way)
            && let Some((other, window)) = windows.range(..end).next_back()
            && window.end > start
        {
            return Err(ContactError::Overlaps(*other));
        }
        let window = Window {
            end,
            octets_per_s,
            light_time_ms,
        };
        self.ways.entry(way).or_default().insert(start, window);
        self.count += 1;
        Ok(())
    }

    /// Take out the contact of the same two nodes that begins at the same time; false where there is none.
    pub fn remove(&mut self, contact: &PlannedContact) -> bool {
        let way = (contact.from.clone(), contact.to.clone());
        let Some(windows) = self.ways.get_mut(&way) else {
            return false;
        };
        let is_removed = windows.remove(&contact.start).is_some();
        if windows.is_empty() {
            self.ways.remove(&way);
        }
        self.count -= usize::from(is_removed);
        is_removed
    }

    /// All contacts, by their nodes and their beginning.
    pub fn iter(&self) -> impl Iterator<Item = PlannedContact> {
        let ways = self.ways.iter();
        ways.flat_map(|(way, windows)| windows.iter().map(|it| planned(way, it)))
    }

    /// All contacts in the same order, each with its state at a time.
    pub fn phases(&self, at: DtnTime) -> impl Iterator<Item = (PlannedContact, Phase)> {
        self.ways.iter().flat_map(move |(way, windows)| {
            let next = first_after(windows, at).map(|(start, _)| *start);
            windows.iter().map(move |(start, window)| {
                let phase = if window.end <= at {
                    Phase::Over
                } else if *start <= at {
                    Phase::Now
                } else if Some(*start) == next {
                    Phase::Next
                } else {
                    Phase::Later
                };
                (planned(way, (start, window)), phase)
            })
        })
    }

    /// The contact from one node to another that is on at a time.
    #[must_use]
    pub fn current(&self, from: &NodeId, to: &NodeId, at: DtnTime) -> Option<PlannedContact> {
        let way = (from.clone(), to.clone());
        let (start, window) = self.ways.get(&way)?.range(..=at).next_back()?;
        (window.end > at).then(|| planned(&way, (start, window)))
    }

    /// The first contact from one node to another that begins after a time.
    #[must_use]
    pub fn next(&self, from: &NodeId, to: &NodeId, after: DtnTime) -> Option<PlannedContact> {
        let way = (from.clone(), to.clone());
        let next = first_after(self.ways.get(&way)?, after)?;
        Some(planned(&way, next))
    }

    /// The last contact from one node to another that has ended at a time.
    #[must_use]
    pub fn last(&self, from: &NodeId, to: &NodeId, at: DtnTime) -> Option<PlannedContact> {
        let way = (from.clone(), to.clone());
        let begun = self.ways.get(&way)?.range(..at);
        let mut over = begun.rev().filter(|(_, window)| window.end <= at);
        over.next().map(|last| planned(&way, last))
    }

    /// Whether any contact is from one node to another.
    #[must_use]
    pub fn has_way(&self, from: &NodeId, to: &NodeId) -> bool {
        self.ways.contains_key(&(from.clone(), to.clone()))
    }

    /// The number of contacts.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// True without any.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Octets of memory that it takes.
    pub(crate) fn memory_octets(&self) -> usize {
        let texts = self.ways.keys();
        let texts =
            texts.map(|(from, to)| text_octets(from.endpoint()) + text_octets(to.endpoint()));
        tree_octets::<((NodeId, NodeId), Windows)>(self.ways.len())
            .saturating_add(tree_octets::<(DtnTime, Window)>(self.count))
            .saturating_add(texts.sum())
    }
}

/// The first that begins after a time.
fn first_after(windows: &Windows, at: DtnTime) -> Option<(&DtnTime, &Window)> {
    windows
        .range((Bound::Excluded(at), Bound::Unbounded))
        .next()
}

fn planned((from, to): &(NodeId, NodeId), (start, window): (&DtnTime, &Window)) -> PlannedContact {
    PlannedContact {
        from: from.clone(),
        to: to.clone(),
        start: *start,
        end: window.end,
        octets_per_s: window.octets_per_s,
        light_time_ms: window.light_time_ms,
    }
}

impl PlannedContact {
    /// The time that its octets take on their way.
    #[must_use]
    pub const fn light_time(&self) -> Duration {
        Duration::from_millis(self.light_time_ms)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use alloc::vec::Vec;

    use super::*;

    const fn at(seconds: u64) -> DtnTime {
        DtnTime::from_millis(seconds * 1_000)
    }

    fn contact(from: u32, to: u32, (start, end): (u64, u64)) -> PlannedContact {
        let node = |number: u32| alloc::format!("ipn:{number}.0").parse().unwrap();
        PlannedContact {
            from: node(from),
            to: node(to),
            start: at(start),
            end: at(end),
            octets_per_s: 1_000,
            light_time_ms: 3,
        }
    }

    #[test]
    fn contacts_are_found_by_their_direction_and_time() {
        let mut table = ContactTable::default();
        for planned in [
            contact(2, 1, (15, 25)),
            contact(1, 2, (30, 40)),
            contact(1, 2, (10, 20)),
            contact(1, 2, (20, 25)),
        ] {
            table.insert(planned).unwrap();
        }
        let (one, two) = (contact(1, 2, (0, 1)).from, contact(1, 2, (0, 1)).to);
        let on = |seconds| table.current(&one, &two, at(seconds)).map(|it| it.start);
        assert_eq!(
            [9, 10, 19, 20, 24, 25, 39, 40].map(on),
            [
                None,
                Some(10),
                Some(10),
                Some(20),
                Some(20),
                None,
                Some(30),
                None
            ]
            .map(|start| start.map(at))
        );
        let next = |seconds| table.next(&one, &two, at(seconds)).map(|it| it.start);
        assert_eq!(
            [0, 9, 10, 20, 29, 30].map(next),
            [Some(10), Some(10), Some(20), Some(30), Some(30), None].map(|start| start.map(at))
        );
        assert_eq!(table.current(&two, &one, at(10)), None);
        let phases: Vec<Phase> = table.phases(at(20)).map(|(_, phase)| phase).collect();
        assert_eq!(phases, [Phase::Over, Phase::Now, Phase::Next, Phase::Now]);
        let phases: Vec<Phase> = table.phases(at(3)).map(|(_, phase)| phase).collect();
        assert_eq!(
            phases,
            [Phase::Next, Phase::Later, Phase::Later, Phase::Next]
        );
        let starts: Vec<DtnTime> = table.iter().map(|it| it.start).collect();
        assert_eq!(
            (starts, table.len()),
            (Vec::from([10, 20, 30, 15].map(at)), 4)
        );
    }

    #[test]
    fn contacts_that_contradict_each_other_or_themselves_are_refused() {
        let mut table = ContactTable::default();
        table.insert(contact(1, 2, (10, 20))).unwrap();
        for window in [(5, 11), (19, 21), (12, 13), (10, 20), (0, 99)] {
            let overlaps = Err(ContactError::Overlaps(at(10)));
            assert_eq!(table.insert(contact(1, 2, window)), overlaps, "{window:?}");
        }
        assert_eq!(
            table.insert(contact(1, 1, (0, 1))),
            Err(ContactError::Itself)
        );
        for window in [(7, 7), (8, 7)] {
            assert_eq!(
                table.insert(contact(1, 2, window)),
                Err(ContactError::Reversed)
            );
        }
        let edited = |edit: fn(&mut PlannedContact)| {
            let mut planned = contact(3, 4, (10, 20));
            edit(&mut planned);
            ContactTable::default().insert(planned)
        };
        assert_eq!(edited(|it| it.octets_per_s = 0), Err(ContactError::Rate(0)));
        assert_eq!(edited(|it| it.octets_per_s = CONTACT_RATE_MAX), Ok(()));
        let over = CONTACT_RATE_MAX + 1;
        assert_eq!(
            edited(|it| it.octets_per_s = CONTACT_RATE_MAX + 1),
            Err(ContactError::Rate(over))
        );
        assert_eq!(edited(|it| it.light_time_ms = LIGHT_TIME_MAX_MS), Ok(()));
        let over = LIGHT_TIME_MAX_MS + 1;
        assert_eq!(
            edited(|it| it.light_time_ms = LIGHT_TIME_MAX_MS + 1),
            Err(ContactError::LightTime(over))
        );
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_full_table_takes_no_more() {
        let mut table = ContactTable::default();
        for number in 0..u64::try_from(CONTACTS_BOUND).unwrap() {
            table.insert(contact(1, 2, (number, number + 1))).unwrap();
        }
        assert_eq!(table.insert(contact(2, 1, (0, 1))), Err(ContactError::Full));
        assert!(table.memory_octets() < 8 << 20, "{}", table.memory_octets());
    }
}
