//! The bundles that this node holds: one small entry each, found by key or by identity.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::hash::{BuildHasher, Hash, Hasher};

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{CreationTimestamp, DtnTime};
use foldhash::fast::FixedState;

pub(crate) use crate::held::entry::{
    Entry, Fragment, HeldTime, Identity, NewEntry, Received, Removal,
};

use crate::held::chain::{END, Links};
use crate::held::endpoints::EndpointIndex;
use crate::held::entry::Rare;
use crate::held::index::Index;
use crate::held::shares::Shares;

/// Entries that are allocated at once: a table that is copied when it grows stops the node for as long.
const SHEET: usize = 256;

/// An identity's hash, as much of it as tables keep so that they need not look at their entries. Bundles that were made one
/// after the other have neighbouring ones: they mostly come and go together, and then lie together in a table that no
/// cache holds. The neighbours of a source's bundle are fixed; where they lie nobody can foresee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u32);

/// Sequence numbers that differ in these bits alone are neighbours.
const NEIGHBOUR_BITS: u32 = 6;

/// Computes digests. Most are of a bundle that was made right after the one before, and have its hash.
pub(crate) struct Digests {
    hasher: FixedState,
    last: Cell<Hashed>,
}

/// The part of an identity that neighbours share, and its hash.
#[derive(Clone, Copy)]
struct Hashed {
    source: EndpointIndex,
    time: DtnTime,
    /// Sequence numbers without the bits in which neighbours differ.
    sequence: u64,
    hash: u32,
}

impl Digests {
    pub(crate) fn new(seed: u64) -> Self {
        let digests = Self {
            hasher: FixedState::with_seed(seed),
            last: Cell::new(Hashed {
                source: EndpointIndex::FIRST,
                time: DtnTime::UNKNOWN,
                sequence: 0,
                hash: 0,
            }),
        };
        digests.last.set(digests.hash_shared(digests.last.get()));
        digests
    }

    pub(crate) fn of(&self, identity: &Identity) -> Digest {
        let CreationTimestamp { time, sequence } = identity.creation;
        let block = sequence >> NEIGHBOUR_BITS;
        let mut last = self.last.get();
        let is_next = last.sequence == block && last.time == time && last.source == identity.source;
        let hash = match identity.fragment {
            Some(_) => self.hash(identity),
            None if is_next => last.hash,
            None => {
                last = self.hash_shared(Hashed {
                    source: identity.source,
                    time,
                    sequence: block,
                    hash: 0,
                });
                self.last.set(last);
                last.hash
            }
        };
        let place = u32::try_from(sequence & ((1 << NEIGHBOUR_BITS) - 1)).unwrap_or(0);
        Digest(hash.wrapping_add(place))
    }

    fn hash_shared(&self, shared: Hashed) -> Hashed {
        let creation = CreationTimestamp {
            time: shared.time,
            sequence: shared.sequence << NEIGHBOUR_BITS,
        };
        let hash = self.hash(&Identity {
            source: shared.source,
            creation,
            fragment: None,
        });
        Hashed { hash, ..shared }
    }

    fn hash(&self, identity: &Identity) -> u32 {
        let mut state = self.hasher.build_hasher();
        identity.source.hash(&mut state);
        state.write_u64(identity.creation.time.as_millis());
        state.write_u64(identity.creation.sequence >> NEIGHBOUR_BITS);
        if let Some(fragment) = identity.fragment {
            fragment.hash(&mut state);
        }
        u32::try_from(state.finish() >> 32).unwrap_or(0)
    }
}

impl Digest {
    /// The hash for a table, which looks for a place by the lowest bits, and compares the highest.
    pub(crate) fn spread(self) -> u64 {
        const ODD: u32 = 0x9e37_79b1;
        u64::from(self.0.wrapping_mul(ODD)) << 32 | u64::from(self.0)
    }

    /// All bits of the digest.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }
}

/// The table of held bundles.
pub(crate) struct Bundles {
    /// The first grows with what it holds: most nodes of a simulation hold few bundles.
    sheets: Vec<Vec<Entry>>,
    /// Entries on all sheets that have been in use.
    used: u32,
    /// The first vacant place; each knows the next.
    vacant: u32,
    index: Index,
    digests: Digests,
    count: u64,
    octets: u64,
    /// Bundles that had something rare when they began to be held.
    rare: usize,
    /// Counted once somebody asks.
    shares: Option<Box<Shares>>,
}

impl Bundles {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            sheets: Vec::new(),
            used: 0,
            vacant: END,
            index: Index::default(),
            digests: Digests::new(seed),
            count: 0,
            octets: 0,
            rare: 0,
            shares: None,
        }
    }

    /// The share of each neighbour and source; counted from the first call on.
    pub(crate) fn shares(&mut self) -> &Shares {
        if self.shares.is_none() {
            let mut shares = Shares::default();
            self.iter().for_each(|(_, entry)| shares.add(entry));
            self.shares = Some(Box::new(shares));
        }
        self.shares.get_or_insert_default()
    }

    /// Hold a bundle; its identity must be new.
    pub(crate) fn insert(&mut self, new: NewEntry) -> BundleKey {
        let place = self.vacant_place();
        let mut entry = Entry::new(new);
        self.count += 1;
        self.octets = self.octets.saturating_add(entry.octets());
        if let Some(shares) = &mut self.shares {
            shares.add(&entry);
        }
        if let Some(rare) = &mut entry.rare {
            rare.is_counted = true;
            self.rare += 1;
        }
        self.split_list();
        let digest = self.digests.of(&entry.identity());
        if let Some(first) = self.index.first_mut(digest) {
            entry.next = core::mem::replace(first, place);
        }
        if let Some(slot) = self.slot(place) {
            *slot = entry;
        }
        BundleKey(place)
    }

    fn vacant_place(&mut self) -> u32 {
        let place = self.vacant;
        match self.slot(place) {
            Some(slot) => {
                self.vacant = slot.next;
                place
            }
            None => self.fresh(),
        }
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
            sheet.push(Entry::vacant(END));
        }
        self.used += 1;
        self.used - 1
    }

    /// The index has a list for two bundles: one of its lists is divided for every two that come, so that it never stops the node to grow.
    fn split_list(&mut self) {
        if self.index.lists() * 2 >= self.count {
            return;
        }
        let (mut place, halves) = self.index.split();
        for list in halves {
            self.index.set_first(list, END);
        }
        while let Some(entry) = self.slot(place) {
            let (this, identity) = (place, entry.identity());
            place = entry.next;
            let digest = self.digests.of(&identity);
            let first = self.index.first_mut(digest);
            let next = first.map_or(END, |first| core::mem::replace(first, this));
            if let Some(entry) = self.slot(this) {
                entry.next = next;
            }
        }
    }

    /// Find a bundle by its identity no longer: another copy takes its place while it goes.
    pub(crate) fn disown(&mut self, key: BundleKey) {
        if let Some(identity) = self.entry(key).map(Entry::identity) {
            self.unlist(key, &identity);
        }
    }

    /// Find a bundle by its identity again.
    pub(crate) fn own(&mut self, key: BundleKey) {
        let Some(identity) = self.entry(key).map(Entry::identity) else {
            return;
        };
        self.unlist(key, &identity);
        let first = self.index.first_mut(self.digests.of(&identity));
        let next = first.map_or(END, |first| core::mem::replace(first, key.0));
        if let Some(entry) = self.entry_mut(key) {
            entry.next = next;
        }
    }

    fn unlist(&mut self, BundleKey(key): BundleKey, identity: &Identity) {
        let digest = self.digests.of(identity);
        let next = self.entry(BundleKey(key)).map_or(END, |entry| entry.next);
        let mut place = self.index.first(digest);
        if place == key {
            if let Some(first) = self.index.first_mut(digest) {
                *first = next;
            }
            return;
        }
        while let Some(entry) = self.slot(place) {
            if entry.next == key {
                entry.next = next;
                return;
            }
            place = entry.next;
        }
    }

    /// Blocks behind the payload of a bundle that was coming in make it this long.
    pub(crate) fn lengthen(&mut self, key: BundleKey, octets: u64) {
        let Some(entry) = self.entry_mut(key) else {
            return;
        };
        let more = octets.saturating_sub(entry.octets());
        entry.set_octets(entry.octets().saturating_add(more));
        self.octets = self.octets.saturating_add(more);
        self.resized(key, |octets| octets.saturating_sub(more));
    }

    /// A bundle has other octets than before, when they were `before` of those that they are now.
    fn resized(&mut self, key: BundleKey, before: impl Fn(u64) -> u64) {
        if let Some(mut shares) = self.shares.take() {
            if let Some(entry) = self.entry(key) {
                shares.resize(entry, before(entry.octets()));
            }
            self.shares = Some(shares);
        }
    }

    /// A bundle that was coming in stays this small.
    pub(crate) fn shrink(&mut self, key: BundleKey, octets: u64) {
        let Some(entry) = self.entry_mut(key) else {
            return;
        };
        let less = entry.octets().saturating_sub(octets);
        entry.set_octets(entry.octets() - less);
        self.octets = self.octets.saturating_sub(less);
        self.resized(key, |octets| octets.saturating_add(less));
    }

    /// Let a bundle go; its key may be used again.
    pub(crate) fn remove(&mut self, key: BundleKey) -> Option<Entry> {
        let entry = self.entry(key)?;
        let (identity, octets) = (entry.identity(), entry.octets());
        debug_assert!(
            entry.in_bag == Links::OUT && entry.in_queue == Links::OUT,
            "a bundle that goes waits for nothing"
        );
        let is_counted = entry.rare.as_ref().is_some_and(|rare| rare.is_counted);
        self.rare -= usize::from(is_counted);
        self.unlist(key, &identity);
        self.count -= 1;
        self.octets = self.octets.saturating_sub(octets);
        let next = core::mem::replace(&mut self.vacant, key.0);
        let slot = self.slot(key.0)?;
        let gone = core::mem::replace(slot, Entry::vacant(next));
        if let Some(shares) = &mut self.shares {
            shares.remove(&gone);
        }
        Some(gone)
    }

    pub(crate) fn entry(&self, key: BundleKey) -> Option<&Entry> {
        let (sheet, row) = split(key.0);
        let entry = self.sheets.get(sheet)?.get(row)?;
        (!entry.is_vacant()).then_some(entry)
    }

    pub(crate) fn entry_mut(&mut self, key: BundleKey) -> Option<&mut Entry> {
        self.slot(key.0).filter(|entry| !entry.is_vacant())
    }

    fn slot(&mut self, place: u32) -> Option<&mut Entry> {
        let (sheet, row) = split(place);
        self.sheets.get_mut(sheet)?.get_mut(row)
    }

    /// The key under which a bundle of this identity is held.
    pub(crate) fn find(&self, identity: &Identity) -> Option<BundleKey> {
        let digest = self.digests.of(identity);
        let mut place = self.index.first(digest);
        while let Some(entry) = self.entry(BundleKey(place)) {
            if entry.is(identity) {
                return Some(BundleKey(place));
            }
            place = entry.next;
        }
        None
    }

    /// Bundles held.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Octets of the bundles.
    pub(crate) fn octets(&self) -> u64 {
        self.octets
    }

    /// Octets of memory that the table takes.
    pub(crate) fn memory_octets(&self) -> usize {
        let entries = usize::try_from(self.count).unwrap_or(usize::MAX);
        entries
            .saturating_mul(size_of::<Entry>() + size_of::<u32>() / 2)
            .saturating_add(self.rare * size_of::<Rare>())
            .saturating_add(self.shares.as_ref().map_or(0, |it| it.memory_octets()))
    }

    /// All held bundles in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BundleKey, &Entry)> {
        self.iter_from(BundleKey(0))
    }

    /// The bundles from this key on.
    pub(crate) fn iter_from(&self, from: BundleKey) -> impl Iterator<Item = (BundleKey, &Entry)> {
        let (sheet, _) = split(from.0);
        let first = u32::try_from(sheet * SHEET).unwrap_or(u32::MAX);
        let sheets = self.sheets.get(sheet..).unwrap_or_default();
        let slots = sheets.iter().flat_map(|sheet| sheet.iter());
        slots
            .zip(first..)
            .filter(|(entry, _)| !entry.is_vacant())
            .map(|(entry, place)| (BundleKey(place), entry))
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
    use dhow_bundle::Instant;

    use super::*;
    use crate::held::endpoints::tests::endpoints;

    /// A small bundle without source.
    pub(crate) fn entry(sequence: u64, expires: Instant) -> NewEntry {
        let nobody = endpoints().acquire(&dhow_bundle::EndpointId::Null);
        NewEntry {
            source: nobody,
            destination: nobody,
            report_to: nobody,
            previous: None,
            creation: CreationTimestamp {
                time: DtnTime::UNKNOWN,
                sequence,
            },
            fragment: None,
            version: dhow_bundle::Version::V7,
            flags: 0,
            reads_aggregated_reports: false,
            priority: dhow_bundle::Priority::Normal,
            lifetime_ms: 0,
            held: HeldTime::Arriving(Received {
                at: Instant::START,
                dtn: DtnTime::UNKNOWN,
                age_ms: 0,
            }),
            expires,
            header_octets: 1,
            payload_octets: 0,
            octets: 2,
            sound_until: Instant::START,
            returns: 0,
            hops: None,
        }
    }

    fn identity(sequence: u64) -> Identity {
        Entry::new(entry(sequence, Instant::START)).identity()
    }

    /// There may be ten million of them: rare fields are behind a pointer.
    #[test]
    fn an_entry_has_no_more_octets_than_it_needs() {
        assert_eq!(size_of::<Entry>(), 128);
    }

    #[test]
    fn bundles_are_found_by_key_and_identity_until_they_go() {
        let mut bundles = Bundles::new(7);
        let entries = (0..1_000).map(|sequence| entry(sequence, Instant::START));
        let keys: Vec<BundleKey> = entries.map(|entry| bundles.insert(entry)).collect();
        assert!((0..).zip(&keys).all(|(place, key)| key.0 == place), "dense");
        for (sequence, &key) in (0..).zip(&keys) {
            let identity = identity(sequence);
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
        let odd = identity(1);
        bundles.disown(keys[1]);
        assert_eq!(bundles.find(&odd), None);
        let again = bundles.insert(entry(1, Instant::START));
        assert_eq!(bundles.find(&odd), Some(again));
        bundles.remove(keys[1]);
        assert_eq!(bundles.find(&odd), Some(again), "the other copy stays");
    }
}
