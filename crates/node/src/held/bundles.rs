//! The bundles that this node holds: one small entry each, found by key or by identity.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash, Hasher};

use dhow_bundle::storage::{BundleKey, Extents};
use dhow_bundle::{CreationTimestamp, DtnTime, FragmentRange, Instant};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::held::endpoints::EndpointIndex;
use crate::held::expiries::Timed;
use crate::held::retention::{Retention, State};
use crate::memory::table_octets;

/// Entries that are allocated at once: a table that is copied when it grows stops the node for as long.
const SHEET: usize = 256;

/// What identifies a bundle inside the node: [`dhow_bundle::BundleId`] with its source interned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) source: EndpointIndex,
    pub(crate) creation: CreationTimestamp,
    pub(crate) fragment: Option<FragmentRange>,
}

/// A fragment's place in its application data unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) range: FragmentRange,
    pub(crate) total_octets: u64,
}

/// Why a bundle was removed, when a copy that comes later must be known for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// An application has it.
    Delivered,
    /// The next hop has it.
    Forwarded,
    /// Expired, dropped or corrupt.
    Deleted,
}

/// One held bundle.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) source: EndpointIndex,
    pub(crate) destination: EndpointIndex,
    pub(crate) report_to: EndpointIndex,
    /// The neighbour that it came from.
    pub(crate) previous: Option<EndpointIndex>,
    pub(crate) creation: CreationTimestamp,
    pub(crate) fragment: Option<Box<Fragment>>,
    pub(crate) flags: u64,
    pub(crate) lifetime_ms: u64,
    /// Age when it was received, milliseconds.
    pub(crate) age_ms: u64,
    /// How long earlier runs of this node held it, as far as the wall clock tells, milliseconds.
    pub(crate) held_ms: u64,
    /// When it was received by the monotonic clock of this run.
    pub(crate) received: Instant,
    pub(crate) received_dtn: DtnTime,
    pub(crate) expires: Instant,
    pub(crate) extents: Extents,
    pub(crate) header_octets: u32,
    pub(crate) payload_octets: u64,
    pub(crate) octets: u64,
    /// Its place in its queue; set once it is dispatched.
    pub(crate) order: u64,
    pub(crate) retention: Retention,
    /// Until when its octets are trusted: they came, or were compared with their checksums, a moment ago.
    pub(crate) sound_until: Instant,
    /// How often it has come back to this node after it had left.
    pub(crate) returns: u8,
    /// The place among its destination's hops of the first that it may go over, as far as was looked.
    pub(crate) detour: u8,
    /// Its hop count when it was received, if it carries one and this run saw it (RFC 9171 4.4.3).
    pub(crate) hops: Option<u8>,
    /// Delete it as soon as it is back from where it is.
    pub(crate) doomed: Option<u8>,
    pub(crate) removal: Removal,
    /// Where its expiry is noted.
    pub(crate) timed: Timed,
}

impl Entry {
    pub(crate) const fn state(&self) -> State {
        self.retention.state()
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity {
            source: self.source,
            creation: self.creation,
            fragment: self.fragment.as_ref().map(|fragment| fragment.range),
        }
    }
}

/// An identity's hash, as much of it as tables keep so that they need not look at what they hold. Bundles that were made one
/// after the other have neighbouring ones: they mostly come and go together, and then lie together in a table that no
/// cache holds. Which of a source's bundles are neighbours is fixed; where they lie nobody can foresee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u32);

/// Sequence numbers that differ in these bits alone are neighbours.
const NEIGHBOUR_BITS: u32 = 6;

impl Digest {
    pub(crate) fn of(hasher: &FixedState, identity: &Identity) -> Self {
        let mut state = hasher.build_hasher();
        let sequence = identity.creation.sequence;
        identity.source.hash(&mut state);
        state.write_u64(identity.creation.time.as_millis());
        state.write_u64(sequence >> NEIGHBOUR_BITS);
        if let Some(fragment) = identity.fragment {
            fragment.hash(&mut state);
        }
        let hash = u32::try_from(state.finish() >> 32).unwrap_or(0);
        let place = u32::try_from(sequence & ((1 << NEIGHBOUR_BITS) - 1)).unwrap_or(0);
        Self(hash.wrapping_add(place))
    }

    /// The hash for a table, which looks for a place by the lowest bits, and compares the highest.
    pub(crate) fn spread(self) -> u64 {
        const ODD: u32 = 0x9e37_79b1;
        u64::from(self.0.wrapping_mul(ODD)) << 32 | u64::from(self.0)
    }
}

/// The table of held bundles.
pub(crate) struct Bundles {
    /// The first grows with what it holds: most nodes of a simulation hold few bundles.
    sheets: Vec<Vec<Option<Entry>>>,
    /// Entries on all sheets that have been in use.
    used: u32,
    free: Vec<u32>,
    by_identity: HashTable<(Digest, u32)>,
    hasher: FixedState,
    count: u64,
    octets: u64,
    fragments: usize,
}

impl Bundles {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            sheets: Vec::new(),
            used: 0,
            free: Vec::new(),
            by_identity: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            count: 0,
            octets: 0,
            fragments: 0,
        }
    }

    /// Hold a bundle; its identity must be new.
    pub(crate) fn insert(&mut self, entry: Entry) -> BundleKey {
        let place = self.free.pop().unwrap_or_else(|| self.fresh());
        let digest = Digest::of(&self.hasher, &entry.identity());
        self.count += 1;
        self.octets = self.octets.saturating_add(entry.octets);
        self.fragments += usize::from(entry.fragment.is_some());
        if let Some(slot) = self.slot(place) {
            *slot = Some(entry);
        }
        self.by_identity
            .insert_unique(digest.spread(), (digest, place), |(digest, _)| {
                digest.spread()
            });
        BundleKey(place)
    }

    /// A place that was never in use.
    fn fresh(&mut self) -> u32 {
        let (sheet, row) = split(self.used);
        if sheet == self.sheets.len() {
            assert!(row == 0, "sheets are filled one after the other");
            let room = if sheet == 0 { 0 } else { SHEET };
            self.sheets.push(Vec::with_capacity(room));
        }
        if let Some(sheet) = self.sheets.last_mut() {
            sheet.push(None);
        }
        self.used += 1;
        self.used - 1
    }

    /// Find a bundle by its identity no longer: another copy takes its place while it goes.
    pub(crate) fn disown(&mut self, key: BundleKey) {
        if let Some(identity) = self.entry(key).map(Entry::identity) {
            self.unlist(key, &identity);
        }
    }

    fn unlist(&mut self, key: BundleKey, identity: &Identity) {
        let digest = Digest::of(&self.hasher, identity);
        let found = self
            .by_identity
            .find_entry(digest.spread(), |&(_, place)| place == key.0);
        if let Ok(found) = found {
            found.remove();
        }
    }

    /// A bundle that was coming in stays this small.
    pub(crate) fn shrink(&mut self, key: BundleKey, octets: u64) {
        let Some(entry) = self.entry_mut(key) else {
            return;
        };
        let less = entry.octets.saturating_sub(octets);
        entry.octets -= less;
        self.octets = self.octets.saturating_sub(less);
    }

    /// Let a bundle go; its key may be used again.
    pub(crate) fn remove(&mut self, key: BundleKey) -> Option<Entry> {
        let entry = self.entry(key)?;
        let (identity, octets) = (entry.identity(), entry.octets);
        self.fragments -= usize::from(entry.fragment.is_some());
        self.unlist(key, &identity);
        self.free.push(key.0);
        self.count -= 1;
        self.octets = self.octets.saturating_sub(octets);
        self.slot(key.0)?.take()
    }

    pub(crate) fn entry(&self, key: BundleKey) -> Option<&Entry> {
        let (sheet, row) = split(key.0);
        self.sheets.get(sheet)?.get(row)?.as_ref()
    }

    pub(crate) fn entry_mut(&mut self, key: BundleKey) -> Option<&mut Entry> {
        self.slot(key.0)?.as_mut()
    }

    fn slot(&mut self, place: u32) -> Option<&mut Option<Entry>> {
        let (sheet, row) = split(place);
        self.sheets.get_mut(sheet)?.get_mut(row)
    }

    /// The key under which a bundle of this identity is held.
    pub(crate) fn find(&self, identity: &Identity) -> Option<BundleKey> {
        let digest = Digest::of(&self.hasher, identity);
        let is_it = |&(other, place): &(Digest, u32)| {
            other == digest
                && self
                    .entry(BundleKey(place))
                    .is_some_and(|entry| entry.identity() == *identity)
        };
        let found = self.by_identity.find(digest.spread(), is_it)?;
        Some(BundleKey(found.1))
    }

    /// Bundles held.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Octets of them.
    pub(crate) fn octets(&self) -> u64 {
        self.octets
    }

    /// Octets of memory that the table takes.
    pub(crate) fn memory_octets(&self) -> usize {
        let entries = usize::try_from(self.count).unwrap_or(usize::MAX);
        entries
            .saturating_mul(size_of::<Option<Entry>>())
            .saturating_add(table_octets::<(Digest, u32)>(entries))
            .saturating_add(self.fragments * size_of::<Fragment>())
    }

    /// All held bundles in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BundleKey, &Entry)> {
        self.iter_from(BundleKey(0))
    }

    /// Those of them from this key on.
    pub(crate) fn iter_from(&self, from: BundleKey) -> impl Iterator<Item = (BundleKey, &Entry)> {
        let (sheet, _) = split(from.0);
        let first = u32::try_from(sheet * SHEET).unwrap_or(u32::MAX);
        let sheets = self.sheets.get(sheet..).unwrap_or_default();
        let slots = sheets.iter().flat_map(|sheet| sheet.iter());
        slots
            .zip(first..)
            .filter_map(|(slot, place)| Some((BundleKey(place), slot.as_ref()?)))
            .skip_while(move |(key, _)| *key < from)
    }
}

/// A place's sheet, and its row there.
fn split(place: u32) -> (usize, usize) {
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    (place / SHEET, place % SHEET)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::held::endpoints::tests::endpoints;

    /// A small bundle without source.
    pub(crate) fn entry(sequence: u64, expires: Instant) -> Entry {
        let nobody = endpoints().acquire(&dhow_bundle::EndpointId::Null);
        Entry {
            source: nobody,
            destination: nobody,
            report_to: nobody,
            previous: None,
            creation: CreationTimestamp {
                time: DtnTime::UNKNOWN,
                sequence,
            },
            fragment: None,
            flags: 0,
            lifetime_ms: 0,
            age_ms: 0,
            held_ms: 0,
            received: Instant::START,
            received_dtn: DtnTime::UNKNOWN,
            expires,
            extents: Extents::Many(Box::default()),
            header_octets: 1,
            payload_octets: 0,
            octets: 2,
            order: 0,
            retention: Retention::RECOVERED,
            sound_until: Instant::START,
            returns: 0,
            detour: 0,
            hops: None,
            doomed: None,
            removal: Removal::Deleted,
            timed: Timed::No,
        }
    }

    /// There may be a million of them: what is rare is behind a pointer.
    #[test]
    fn an_entry_has_no_more_octets_than_it_needs() {
        assert!(
            size_of::<Option<Entry>>() <= 192,
            "{}",
            size_of::<Option<Entry>>()
        );
    }

    #[test]
    fn bundles_are_found_by_key_and_identity_until_they_go() {
        let mut bundles = Bundles::new(7);
        let entries = (0..1_000).map(|sequence| entry(sequence, Instant::START));
        let keys: Vec<BundleKey> = entries.map(|entry| bundles.insert(entry)).collect();
        assert!((0..).zip(&keys).all(|(place, key)| key.0 == place), "dense");
        for (sequence, &key) in (0..).zip(&keys) {
            let identity = entry(sequence, Instant::START).identity();
            assert_eq!(bundles.find(&identity), Some(key));
        }
        for &key in keys.iter().step_by(2) {
            let gone = bundles.remove(key).unwrap();
            assert_eq!(bundles.find(&gone.identity()), None);
            assert!(bundles.entry(key).is_none() && bundles.remove(key).is_none());
        }
        assert_eq!((bundles.count(), bundles.octets()), (500, 1_000));
        assert!(
            bundles
                .iter()
                .map(|(key, _)| key)
                .eq(keys.iter().skip(1).step_by(2).copied())
        );
        let odd = entry(1, Instant::START).identity();
        bundles.disown(keys[1]);
        assert_eq!(bundles.find(&odd), None);
        let again = bundles.insert(entry(1, Instant::START));
        assert_eq!(bundles.find(&odd), Some(again));
        bundles.remove(keys[1]);
        assert_eq!(bundles.find(&odd), Some(again), "the other copy stays");
    }
}
