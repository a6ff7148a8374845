//! The bundles that this node holds: one small entry each, found by key or by identity.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};

use dhow_bundle::storage::{BundleKey, Extents};
use dhow_bundle::{CreationTimestamp, DtnTime, FragmentRange, Instant};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::endpoints::EndpointIndex;

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

/// What a held bundle is going through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its octets are coming in, or its commit is not durable yet.
    Arriving,
    /// It waits in its destination's queue for a hop or a subscriber.
    Waiting,
    /// It is with a session or a subscriber.
    InFlight,
    /// A fragment for an endpoint here that waits for the others.
    Reassembling,
    /// A neighbour refused it, or the store is asked whether it is intact; a timer wakes it at the latest.
    Resting {
        /// When the timer does.
        until: Instant,
    },
    /// Its octets are damaged on disk: it is neither sent nor delivered, and kept for whoever can mend it.
    Quarantined,
    /// Its deletion was asked for and is not durable yet.
    Deleting,
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
    pub(crate) state: State,
    /// Until when its octets are trusted: they came, or were compared with their checksums, a moment ago.
    pub(crate) sound_until: Instant,
    /// How often it has come back to this node after it had left.
    pub(crate) returns: u8,
    /// Its hop count when it was received, if it carries one and this run saw it (RFC 9171 4.4.3).
    pub(crate) hops: Option<u8>,
    /// Delete it as soon as it is back from where it is.
    pub(crate) doomed: Option<u64>,
    pub(crate) removal: Removal,
}

impl Entry {
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            source: self.source,
            creation: self.creation,
            fragment: self.fragment.as_ref().map(|fragment| fragment.range),
        }
    }
}

/// The table of held bundles.
pub(crate) struct Bundles {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_identity: HashTable<u32>,
    hasher: FixedState,
    count: u64,
    octets: u64,
}

impl Bundles {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            by_identity: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            count: 0,
            octets: 0,
        }
    }

    /// Hold a bundle; its identity must be new.
    pub(crate) fn insert(&mut self, entry: Entry) -> BundleKey {
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        let hash = hash(&self.hasher, &entry.identity());
        self.count += 1;
        self.octets = self.octets.saturating_add(entry.octets);
        if let Some(slot) = usize::try_from(place)
            .ok()
            .and_then(|place| self.entries.get_mut(place))
        {
            *slot = Some(entry);
        }
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_identity
            .insert_unique(hash, place, |&other| hash_place(entries, hasher, other));
        BundleKey(place)
    }

    /// Find a bundle by its identity no longer: another copy takes its place while it goes.
    pub(crate) fn disown(&mut self, key: BundleKey) {
        let Some(identity) = self.entry(key).map(Entry::identity) else {
            return;
        };
        let hash = hash(&self.hasher, &identity);
        if let Ok(found) = self.by_identity.find_entry(hash, |&place| place == key.0) {
            found.remove();
        }
    }

    /// Let a bundle go; its key may be used again.
    pub(crate) fn remove(&mut self, key: BundleKey) -> Option<Entry> {
        let slot = usize::try_from(key.0)
            .ok()
            .and_then(|place| self.entries.get_mut(place))?;
        let entry = slot.take()?;
        let hash = hash(&self.hasher, &entry.identity());
        if let Ok(found) = self.by_identity.find_entry(hash, |&place| place == key.0) {
            found.remove();
        }
        self.free.push(key.0);
        self.count -= 1;
        self.octets = self.octets.saturating_sub(entry.octets);
        Some(entry)
    }

    pub(crate) fn entry(&self, key: BundleKey) -> Option<&Entry> {
        usize::try_from(key.0)
            .ok()
            .and_then(|place| self.entries.get(place))
            .and_then(Option::as_ref)
    }

    pub(crate) fn entry_mut(&mut self, key: BundleKey) -> Option<&mut Entry> {
        usize::try_from(key.0)
            .ok()
            .and_then(|place| self.entries.get_mut(place))
            .and_then(Option::as_mut)
    }

    /// The key under which a bundle of this identity is held.
    pub(crate) fn find(&self, identity: &Identity) -> Option<BundleKey> {
        let hash = hash(&self.hasher, identity);
        self.by_identity
            .find(hash, |&place| {
                self.entry(BundleKey(place))
                    .is_some_and(|entry| entry.identity() == *identity)
            })
            .copied()
            .map(BundleKey)
    }

    /// Bundles held.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Octets of them.
    pub(crate) fn octets(&self) -> u64 {
        self.octets
    }

    /// All held bundles in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BundleKey, &Entry)> {
        self.entries
            .iter()
            .zip(0_u32..)
            .filter_map(|(slot, place)| Some((BundleKey(place), slot.as_ref()?)))
    }
}

fn hash(hasher: &FixedState, identity: &Identity) -> u64 {
    let mut state = hasher.build_hasher();
    identity.hash(&mut state);
    core::hash::Hasher::finish(&state)
}

fn hash_place(entries: &[Option<Entry>], hasher: &FixedState, place: u32) -> u64 {
    usize::try_from(place)
        .ok()
        .and_then(|place| entries.get(place))
        .and_then(Option::as_ref)
        .map_or(0, |entry| hash(hasher, &entry.identity()))
}
