//! A payload that was accepted is delivered, expired, or on a disk.
//!
//! Three looks at the same: a restart finds all bundles that the store had said to be durable, with their notes; no node decides to
//! delete the last copy of a payload that is still wanted; and at the end the disks hold all payloads that are neither delivered nor expired.
//!
//! Rot excuses the loss of the bundles that it hit and of no others. If an octet rots that was no bundle's, at most one bundle may be
//! lost, whose record the octet may have been of; a store that starts without that bundle has to say that it lost one.
//!
//! A link over UDP promises nothing. A node may let go of a bundle that has left over one as a whole, as its socket saw it, unless the scenario says
//! that the node keeps it; and bundles that nobody has made durable since may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dhow_bundle::storage::{BundleKey, Extents, StoreCommand, StoreEvent, StoredBundle};
use dhow_bundle::{BundleId, EndpointId, FragmentRange, Instant};
use dhow_scenario::scenario::OnSent;
use dhow_store::{Count, Loss};

use crate::ledger::{BundleName, Ledger, UnitName};
use crate::machine::Found;
use crate::queue::MachineIndex;
use crate::storage::Storage;

use super::noted::Notes;
use super::voyage::covers;

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

/// The bundles that one store has been asked to keep.
#[derive(Debug, Default)]
struct Holding {
    /// Said to be durable, and not to be deleted.
    held: BTreeMap<BundleKey, Held>,
    /// The places of their octets.
    places: BTreeMap<BundleKey, Extents>,
    /// The facts about them from when they were given to the store.
    facts: BTreeMap<BundleKey, Fact>,
    /// Not yet said to be durable.
    committing: BTreeMap<BundleKey, (Held, Fact)>,
    /// Octets that the store was given for each bundle that it was not said to have deleted, and of all.
    given: BTreeMap<BundleKey, u64>,
    given_octets: u64,
    /// Bundles that it was asked to delete and has not said to have.
    deleting: BTreeSet<BundleKey>,
    /// The notes beside those that have had one.
    notes: BTreeMap<BundleKey, Notes>,
    /// Rotten octets that were no bundle's and may yet turn out to have cost one.
    strays: u64,
}

/// The facts about a stored bundle.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Its name.
    pub name: BundleName,
    /// The octets of its payload that are here, of a fragment.
    pub part: Option<FragmentRange>,
    /// The destination endpoint.
    pub destination: EndpointId,
    /// The neighbour that it came from.
    pub previous: Option<EndpointId>,
    /// When it was created, milliseconds of DTN time; 0 for not known.
    pub created_ms: u64,
    /// Its lifetime, milliseconds.
    pub lifetime_ms: u64,
    /// The time since which it has been stored there.
    pub since: Instant,
}

impl Fact {
    fn of(bundle: &StoredBundle, since: Instant) -> Self {
        Self {
            name: BundleName::of(&bundle.id),
            part: bundle.id.fragment,
            destination: bundle.destination.clone(),
            previous: bundle.previous.clone(),
            created_ms: bundle.id.creation.time.as_millis(),
            lifetime_ms: bundle.lifetime_ms,
            since,
        }
    }
}

/// The kind of place that rot hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// Octets of one bundle, or of several that share them.
    Bundle,
    /// Octets of no bundle: perhaps a record that tells of one, perhaps of nothing.
    Record,
}

/// When the room of a bundle that a store was asked to delete is there for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The room is free once the store has deleted the bundle.
    OnceDeleted,
    /// The room is free at once: the store deletes the bundle before it is given others.
    AtOnce,
}

/// Whether a node has given octets of a bundle on: a neighbour has acknowledged them, or they have left over a link that promises nothing.
pub type Given<'a> = &'a dyn Fn(BundleName, FragmentRange) -> bool;

/// The losses of a machine, of what its store had said to be durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Payloads that are still wanted.
    pub payloads: Vec<Lost>,
    /// Bundles that are there with a note from before the durable one.
    pub notes: Vec<BundleId>,
}

/// A payload that is nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The payload's name.
    pub unit: UnitName,
}

/// The bundles that all stores hold, as far as they have said so.
#[derive(Debug, Default)]
pub struct Kept {
    machines: Vec<Holding>,
}

impl Kept {
    /// The oracle of so many machines.
    #[must_use]
    pub fn new(machines: usize) -> Self {
        let mut all = Vec::new();
        all.resize_with(machines, Holding::default);
        Self { machines: all }
    }

    /// A node gives its store octets.
    pub fn handle_append(&mut self, at: MachineIndex, key: BundleKey, octets: u64) {
        if let Some(holding) = self.machines.get_mut(at.at()) {
            *holding.given.entry(key).or_default() += octets;
            holding.given_octets += octets;
        }
    }

    /// The facts about the bundles that a store has said to be durable and was not asked to delete.
    pub fn facts(&self, at: MachineIndex) -> impl Iterator<Item = &Fact> {
        let holding = self.machines.get(at.at()).into_iter();
        holding.flat_map(|holding| holding.facts.values())
    }

    /// The facts about one of the bundles.
    #[must_use]
    pub fn fact(&self, at: MachineIndex, key: BundleKey) -> Option<&Fact> {
        self.machines.get(at.at())?.facts.get(&key)
    }

    /// The facts about those of one bundle, fragments included.
    pub fn named(
        &self,
        at: MachineIndex,
        name: BundleName,
    ) -> impl Iterator<Item = (BundleKey, &Fact)> {
        let holding = self.machines.get(at.at()).into_iter();
        let facts = holding.flat_map(|holding| &holding.facts);
        let facts = facts.filter(move |(_, fact)| fact.name == name);
        facts.map(|(key, fact)| (*key, fact))
    }

    /// Octets that a store was given and has not deleted; those that it was asked to delete are not among them where their room is given away at once.
    #[must_use]
    pub fn given_octets(&self, at: MachineIndex, room: Room) -> u64 {
        let Some(holding) = self.machines.get(at.at()) else {
            return 0;
        };
        let going = || {
            let octets = holding.deleting.iter();
            octets.filter_map(|key| holding.given.get(key)).sum()
        };
        holding.given_octets.saturating_sub(match room {
            Room::OnceDeleted => 0,
            Room::AtOnce => going(),
        })
    }

    /// Octets of the bundles that a store has, those in common once; `None` while something comes or goes.
    #[must_use]
    pub fn octets(&self, at: MachineIndex) -> Option<u64> {
        let holding = self.machines.get(at.at())?;
        let is_quiet = holding.committing.is_empty() && holding.deleting.is_empty();
        let all_held = (holding.given.keys()).all(|key| holding.held.contains_key(key));
        if !is_quiet || !all_held {
            return None;
        }
        let extents = holding.places.values().flat_map(Extents::as_slice);
        let mut all: Vec<(u64, u64)> = extents.map(|it| (it.offset, it.length)).collect();
        all.sort_unstable();
        let (mut sum, mut reached) = (0_u64, 0_u64);
        for (offset, length) in all {
            let end = offset.saturating_add(length);
            sum += end.saturating_sub(reached.max(offset));
            reached = reached.max(end);
        }
        Some(sum)
    }

    /// A node asks its store for something. `given` says of octets of bundles whether the node has given them on, and `tolerance` how far clocks
    /// may be apart.
    pub fn handle_command(
        &mut self,
        at: MachineIndex,
        command: &StoreCommand,
        (ledger, given): (&mut Ledger, Given<'_>),
        (now, tolerance): (Instant, Duration),
    ) -> Option<Lost> {
        let holding = self.machines.get_mut(at.at())?;
        match command {
            StoreCommand::Commit { key, bundle } => {
                let fact = Fact::of(bundle, now);
                if !bundle.note.is_empty() {
                    (holding.notes).insert(*key, Notes::new(bundle.note.clone()));
                }
                holding
                    .committing
                    .insert(*key, (Held::of(&bundle.id), fact));
                None
            }
            StoreCommand::Abandon { key } => {
                holding.notes.remove(key);
                holding.committing.remove(key);
                holding.deleting.insert(*key);
                None
            }
            StoreCommand::Note { key, note } => {
                let none = || Notes::new(Default::default());
                let notes = holding.notes.entry(*key).or_insert_with(none);
                notes.give(note.clone());
                None
            }
            StoreCommand::Delete { key, .. } => {
                holding.notes.remove(key);
                holding.places.remove(key);
                holding.facts.remove(key);
                holding.deleting.insert(*key);
                let held = holding.held.remove(key)?;
                let record = ledger.record_mut(held.name);
                record.copies = record.copies.saturating_sub(1);
                let record = *record;
                if record.copies > 0 && !record.fragmented {
                    return None;
                }
                if lets_go(held, ledger, given) || record.fragmented {
                    return None;
                }
                wanted(ledger, held.name, now, tolerance).map(|unit| Lost { unit })
            }
            _ => None,
        }
    }

    /// The bundle that a store says it has, which was given to it and not said to be durable before.
    #[must_use]
    pub fn committed(&self, at: MachineIndex, event: &StoreEvent) -> Option<BundleName> {
        let StoreEvent::Stored { key, .. } = event else {
            return None;
        };
        let (held, _) = self.machines.get(at.at())?.committing.get(key)?;
        Some(held.name)
    }

    /// A store answers its node; bundles that it says to be damaged and that cannot be come back.
    pub fn handle_event(
        &mut self,
        at: MachineIndex,
        event: &StoreEvent,
        (storage, ledger): (&Storage, &mut Ledger),
        now: Instant,
    ) -> Option<Lost> {
        let holding = self.machines.get_mut(at.at())?;
        match event {
            StoreEvent::Stored { key, extents } => {
                if let Some((held, fact)) = holding.committing.remove(key) {
                    hold(ledger, held);
                    holding.held.insert(*key, held);
                    holding.facts.insert(*key, Fact { since: now, ..fact });
                    holding.place(*key, extents, storage, ledger);
                }
            }
            StoreEvent::Noted { key, refusal } => {
                if let Some(notes) = holding.notes.get_mut(key) {
                    notes.settle(refusal.as_ref());
                }
            }
            StoreEvent::Relocated { key, extents } => {
                holding.place(*key, extents, storage, ledger);
            }
            StoreEvent::Refused { key, .. } => {
                holding.notes.remove(key);
                holding.committing.remove(key);
                holding.forget_given(*key);
            }
            StoreEvent::Deleted { key } => {
                holding.deleting.remove(key);
                holding.forget_given(*key);
            }
            StoreEvent::Corrupt { key } => {
                let held = holding.held.get(key)?;
                let record = ledger.record_mut(held.name);
                if !record.rotten {
                    record.rotten = holding.strays > 0;
                    holding.strays = holding.strays.saturating_sub(1);
                }
                let unit = record.unit.filter(|_| !record.rotten)?;
                return Some(Lost { unit });
            }
            _ => {}
        }
        None
    }

    /// An octet of a store's log rots.
    pub fn handle_rot(&mut self, at: MachineIndex, place: u64, ledger: &mut Ledger) -> Hit {
        let mut hit = Hit::Record;
        let Some(holding) = self.machines.get_mut(at.at()) else {
            return hit;
        };
        for (key, extents) in &holding.places {
            let inside = |extent: &dhow_bundle::storage::Extent| {
                (extent.offset..extent.offset.saturating_add(extent.length)).contains(&place)
            };
            if extents.iter().any(inside)
                && let Some(held) = holding.held.get(key)
            {
                ledger.record_mut(held.name).rotten = true;
                hit = Hit::Bundle;
            }
        }
        if hit == Hit::Record {
            holding.strays += 1;
        }
        hit
    }

    /// A machine has started again and found these bundles: what is lost that had been said to be durable and is still wanted.
    pub fn handle_recovery(
        &mut self,
        at: MachineIndex,
        found: Found,
        (ledger, given): (&mut Ledger, Given<'_>),
        (now, tolerance): (Instant, Duration),
    ) -> Losses {
        let Some(holding) = self.machines.get_mut(at.at()) else {
            return Losses::default();
        };
        let before = std::mem::take(holding);
        holding.strays = before.strays;
        for held in before.held.values() {
            let record = ledger.record_mut(held.name);
            record.copies = record.copies.saturating_sub(1);
        }
        let mut counted = BTreeSet::new();
        let mut losses = Losses::default();
        // Rot in a bundle's newest record leaves the one before.
        let noted = if before.strays == 0 {
            before.noted()
        } else {
            BTreeMap::new()
        };
        for (key, (bundle, extents)) in (0..).map(BundleKey).zip(found.bundles) {
            let held = Held::of(&bundle.id);
            hold(ledger, held);
            if (noted.get(&held)).is_some_and(|notes| !notes.allow(&bundle.note)) {
                losses.notes.push(bundle.id.clone());
            }
            if !bundle.note.is_empty() {
                (holding.notes).insert(key, Notes::new(bundle.note.clone()));
            }
            holding.facts.insert(key, Fact::of(&bundle, now));
            // Octets that several have in common are counted with the first of them.
            let places = extents.iter().map(|it| (it.offset, it.length));
            let fresh = places.filter(|(offset, _)| counted.insert(*offset));
            let octets = fresh.map(|(_, length)| length).sum();
            holding.given.insert(key, octets);
            holding.given_octets += octets;
            holding.held.insert(key, held);
            holding.places.insert(key, extents);
        }
        let there: BTreeSet<Held> = holding.held.values().copied().collect();
        let gone = before.held.values().filter(|held| !there.contains(held));
        let mut excused = told(&found.loss).min(holding.strays);
        for held in gone {
            let Some(unit) = wanted(ledger, held.name, now, tolerance) else {
                continue;
            };
            if lets_go(*held, ledger, given) {
                continue;
            }
            if excused == 0 {
                losses.payloads.push(Lost { unit });
                continue;
            }
            excused -= 1;
            holding.strays -= 1;
            ledger.record_mut(held.name).rotten = true;
        }
        losses
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
        for (name, gone) in ledger.gone() {
            let entry = parts.entry(name).or_default();
            entry.0 = gone.total_octets;
            entry.1.extend(&gone.free);
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

impl Holding {
    /// The notes of bundles that it has and was not asked to delete.
    fn noted(&self) -> BTreeMap<Held, &Notes> {
        let held = |(key, notes)| Some((*self.held.get(key)?, notes));
        self.notes.iter().filter_map(held).collect()
    }

    fn forget_given(&mut self, key: BundleKey) {
        let octets = self.given.remove(&key).unwrap_or(0);
        self.given_octets = self.given_octets.saturating_sub(octets);
    }

    /// The octets of a bundle lie here, of which some may have rotted before it was whole.
    fn place(&mut self, key: BundleKey, extents: &Extents, storage: &Storage, ledger: &mut Ledger) {
        let Some((held, is_rotten)) = self.held.get(&key).zip(storage.is_rotten(extents)) else {
            return;
        };
        if is_rotten {
            ledger.record_mut(held.name).rotten = true;
        }
        self.places.insert(key, extents.clone());
    }
}

/// Whether a node may let go of the last copy of what has left over a link that promises nothing, here or elsewhere: nobody has made it durable
/// since, or this is a copy of what the node has given on already. The network has it then.
fn lets_go(held: Held, ledger: &mut Ledger, given: Given<'_>) -> bool {
    let Some(gone) = ledger.gone_of(held.name) else {
        return false;
    };
    let whole = FragmentRange {
        offset: 0,
        length: gone.total_octets,
    };
    let range = held.part.unwrap_or(whole);
    if gone.was_free && given(held.name, range) {
        let how = (whole.length, OnSent::Forget);
        ledger.let_go(held.name, range, how);
        return true;
    }
    covers(gone.free.iter().copied(), range)
}

/// The number of bundles that a store says it has lost, at most.
fn told(loss: &Loss) -> u64 {
    match loss.count {
        Count::Exact => loss.bundles,
        Count::AtLeast => u64::MAX,
    }
}

fn hold(ledger: &mut Ledger, held: Held) {
    ledger.take_up(held.name, held.part);
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
        let is_rotten = unit.bundle.is_some_and(|it| ledger.record(it).rotten);
        let is_wanted = unit.accepted.is_some() && unit.delivered.is_none() && !is_rotten;
        is_wanted && now + tolerance < unit.expires()
    })
}
