//! What was accepted is delivered, expired, or on a disk.
//!
//! Three looks at the same: a restart finds all that the store had said to be durable; no node decides to delete the
//! last copy of what is still wanted; and at the end the disks hold all that is neither delivered nor expired.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dhow_bundle::storage::{BundleKey, StoreCommand, StoreEvent};
use dhow_bundle::{BundleId, FragmentRange, Instant};

use crate::ledger::{BundleName, Ledger, UnitName};
use crate::queue::MachineIndex;

/// A bundle or fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    name: BundleName,
    part: Option<FragmentRange>,
}

impl Held {
    fn of(id: &BundleId) -> Self {
        Self {
            name: BundleName::of(id),
            part: id.fragment,
        }
    }
}

/// What one store has been asked to keep.
#[derive(Debug, Default)]
struct Holding {
    /// Said to be durable, and not to be deleted.
    held: BTreeMap<BundleKey, Held>,
    /// Not yet said to be durable.
    committing: BTreeMap<BundleKey, Held>,
}

/// A payload that is nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Which.
    pub unit: UnitName,
}

/// What all stores hold, as far as they have said so.
#[derive(Debug, Default)]
pub struct Kept {
    machines: Vec<Holding>,
}

impl Kept {
    /// Of so many machines.
    #[must_use]
    pub fn new(machines: usize) -> Self {
        let mut all = Vec::new();
        all.resize_with(machines, Holding::default);
        Self { machines: all }
    }

    /// A node asks its store for something. `tolerance` is how far clocks may be apart.
    pub fn handle_command(
        &mut self,
        at: MachineIndex,
        command: &StoreCommand,
        ledger: &mut Ledger,
        (now, tolerance): (Instant, Duration),
    ) -> Option<Lost> {
        let holding = self.machines.get_mut(at.at())?;
        match command {
            StoreCommand::Commit { key, bundle } => {
                holding.committing.insert(*key, Held::of(&bundle.id));
                None
            }
            StoreCommand::Abandon { key } => {
                holding.committing.remove(key);
                None
            }
            StoreCommand::Delete { key, .. } => {
                let held = holding.held.remove(key)?;
                let record = ledger.record_mut(held.name);
                record.copies = record.copies.saturating_sub(1);
                if record.copies > 0 || record.fragmented {
                    return None;
                }
                wanted(ledger, held.name, now, tolerance).map(|unit| Lost { unit })
            }
            _ => None,
        }
    }

    /// A store answers its node.
    pub fn handle_event(&mut self, at: MachineIndex, event: &StoreEvent, ledger: &mut Ledger) {
        let Some(holding) = self.machines.get_mut(at.at()) else {
            return;
        };
        match event {
            StoreEvent::Stored { key, .. } => {
                if let Some(held) = holding.committing.remove(key) {
                    hold(ledger, held);
                    holding.held.insert(*key, held);
                }
            }
            StoreEvent::Refused { key, .. } => {
                holding.committing.remove(key);
            }
            _ => {}
        }
    }

    /// A machine has started again and found these bundles, in the order of their keys: what is lost that had been said to
    /// be durable and is still wanted.
    pub fn handle_recovery<'a>(
        &mut self,
        at: MachineIndex,
        found: impl Iterator<Item = &'a BundleId>,
        ledger: &mut Ledger,
        (now, tolerance): (Instant, Duration),
    ) -> Vec<Lost> {
        let Some(holding) = self.machines.get_mut(at.at()) else {
            return Vec::new();
        };
        let before = std::mem::take(holding);
        for held in before.held.values() {
            let record = ledger.record_mut(held.name);
            record.copies = record.copies.saturating_sub(1);
        }
        for (key, id) in (0..).map(BundleKey).zip(found) {
            let held = Held::of(id);
            hold(ledger, held);
            holding.held.insert(key, held);
        }
        let there: BTreeSet<Held> = holding.held.values().copied().collect();
        let gone = before.held.values().filter(|held| !there.contains(held));
        gone.filter_map(|held| wanted(ledger, held.name, now, tolerance))
            .map(|unit| Lost { unit })
            .collect()
    }

    /// At the end: what is wanted and on none of the disks, which hold these bundles and fragments with the length of
    /// their wholes.
    #[must_use]
    pub fn missing<'a>(
        on_disks: impl Iterator<Item = (&'a BundleId, u64)>,
        ledger: &Ledger,
        (now, tolerance): (Instant, Duration),
    ) -> Vec<Lost> {
        let mut whole = BTreeSet::new();
        let mut parts: BTreeMap<BundleName, (u64, Vec<FragmentRange>)> = BTreeMap::new();
        for (id, total_octets) in on_disks {
            let held = Held::of(id);
            match held.part {
                None => drop(whole.insert(held.name)),
                Some(part) => {
                    let entry = parts.entry(held.name).or_default();
                    entry.0 = total_octets;
                    entry.1.push(part);
                }
            }
        }
        for (name, (total_octets, mut ranges)) in parts {
            ranges.sort_unstable();
            let mut reached = 0;
            for range in ranges {
                if range.offset <= reached {
                    reached = reached.max(range.offset.saturating_add(range.length));
                }
            }
            if reached >= total_octets {
                whole.insert(name);
            }
        }
        let units = ledger.units();
        units
            .filter(|(_, unit)| unit.bundle.is_none_or(|bundle| !whole.contains(&bundle)))
            .filter(|(name, _)| is_wanted(ledger, *name, now, tolerance))
            .map(|(unit, _)| Lost { unit })
            .collect()
    }
}

fn hold(ledger: &mut Ledger, held: Held) {
    let record = ledger.record_mut(held.name);
    if held.part.is_some() {
        record.fragmented = true;
    }
    record.copies += 1;
}

/// The payload of a bundle, where somebody still waits for it.
fn wanted(
    ledger: &Ledger,
    bundle: BundleName,
    now: Instant,
    tolerance: Duration,
) -> Option<UnitName> {
    let unit = ledger.carried(bundle)?;
    is_wanted(ledger, unit, now, tolerance).then_some(unit)
}

fn is_wanted(ledger: &Ledger, name: UnitName, now: Instant, tolerance: Duration) -> bool {
    ledger.unit(name).is_some_and(|unit| {
        unit.accepted.is_some() && unit.delivered.is_none() && now + tolerance < unit.expires()
    })
}
