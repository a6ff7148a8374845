//! A store that keeps header octets and lengths: a machine has it at bundle fidelity in place of a log on a disk.
//!
//! Nothing is written anywhere. Changes that no flush covers are in a list, which a power failure takes back from
//! the end to some point, as a torn log ends at one.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use dhow_bundle::storage::{
    BundleKey, Extent, Extents, Piece, StoreCommand, StoreEvent, StoredBundle,
};
use dhow_bundle::{BundleId, DtnTime};

use crate::disk::Blow;
use crate::entropy::Entropy;
use crate::sparse::Sparse;

/// A committed bundle.
#[derive(Debug)]
struct Kept {
    bundle: Box<StoredBundle>,
    octets: Sparse,
}

/// A bundle that is coming in.
#[derive(Debug, Default)]
struct Arriving {
    octets: Sparse,
    /// Octets behind a gap, by their positions.
    early: BTreeMap<u64, Sparse>,
    /// Octets of its header, where parts of it are kept.
    division: u64,
    /// Whether octets came since the last flush.
    grew: bool,
}

impl Arriving {
    /// Adds what came behind a gap that is closed.
    fn join(&mut self) {
        while let Some(next) = self.early.first_entry() {
            let there = self.octets.octets();
            if *next.key() > there {
                return;
            }
            let (at, piece) = next.remove_entry();
            self.octets.append(piece.part(there - at, u64::MAX));
        }
    }
}

/// Something that a flush makes durable, and what takes it back.
#[derive(Debug)]
enum Change {
    /// A bundle was committed at this place.
    Commit(u64),
    /// A bundle was deleted at this place, and remembered or not.
    Delete(u64, Kept, bool),
    /// The note beside the bundle at this place was replaced; the one before.
    Note(u64, Bytes),
    /// Creation timestamps were reserved; the reservation before.
    Reserve(DtnTime, u64),
}

/// The bundles that one machine keeps.
#[derive(Debug, Default)]
pub struct SparseStore {
    /// Committed bundles by the place of their first octet, in the order in which they came.
    kept: BTreeMap<u64, Kept>,
    /// Their places by what the node calls them.
    places: BTreeMap<BundleKey, u64>,
    arriving: BTreeMap<BundleKey, Arriving>,
    /// Identities of bundles that are gone, with their expiries, oldest first.
    removed: VecDeque<(BundleId, DtnTime)>,
    /// The bound of `removed`.
    removed_bound: usize,
    reserved: (DtnTime, u64),
    /// The offset of the next bundle.
    end: u64,
    /// Changes that no flush covers, oldest first.
    changes: VecDeque<Change>,
    /// So many of them the flush covers that is under way.
    covered: usize,
    /// Events that are true after the next flush, and events that are true now.
    waiting: Vec<StoreEvent>,
    ready: Vec<StoreEvent>,
    /// Whether flushes make nothing durable.
    lies: bool,
}

impl SparseStore {
    /// An empty one that remembers at most so many identities.
    #[must_use]
    pub fn new(removed_bound: usize) -> Self {
        Self {
            removed_bound,
            ..Self::default()
        }
    }

    /// From now on flushes make nothing durable.
    pub const fn lie(&mut self) {
        self.lies = true;
    }

    /// The process that used it is gone, and what it had not committed with it.
    pub fn strike(&mut self, blow: Blow, entropy: &mut Entropy) {
        if blow == Blow::Power {
            let all = self.changes.len();
            let most = u64::try_from(all).unwrap_or(u64::MAX).saturating_add(1);
            let left = usize::try_from(entropy.below(most)).unwrap_or(0);
            for change in self.changes.split_off(left).into_iter().rev() {
                self.take_back(change);
            }
        }
        self.changes.clear();
        self.covered = 0;
        self.arriving.clear();
        self.waiting.clear();
        self.ready.clear();
    }

    fn take_back(&mut self, change: Change) {
        match change {
            Change::Commit(place) => drop(self.kept.remove(&place)),
            Change::Delete(place, kept, remembered) => {
                let id = &kept.bundle.id;
                if remembered && self.removed.back().is_some_and(|(last, _)| last == id) {
                    self.removed.pop_back();
                }
                self.kept.insert(place, kept);
            }
            Change::Note(place, note) => {
                if let Some(kept) = self.kept.get_mut(&place) {
                    kept.bundle.note = note;
                }
            }
            Change::Reserve(time, sequence) => self.reserved = (time, sequence),
        }
    }

    /// A process uses it from now on: it calls the bundles 0, 1, 2, … in this order.
    pub fn open(&mut self) -> Vec<(StoredBundle, Extents)> {
        let keys = (0..).map(BundleKey);
        self.places = keys.zip(self.kept.keys().copied()).collect();
        let kept = self.kept.iter().map(|(&offset, kept)| {
            let length = kept.octets.octets();
            let extents = Extents::One(Extent { offset, length });
            (StoredBundle::clone(&kept.bundle), extents)
        });
        kept.collect()
    }

    /// The committed bundles.
    pub fn bundles(&self) -> impl Iterator<Item = &StoredBundle> {
        self.kept.values().map(|kept| &*kept.bundle)
    }

    /// Creation timestamps that have been reserved.
    #[must_use]
    pub const fn reserved(&self) -> (DtnTime, u64) {
        self.reserved
    }

    /// Identities of bundles that are gone, with their expiries, oldest first.
    #[must_use]
    pub fn removed(&self) -> Vec<(BundleId, DtnTime)> {
        self.removed.iter().cloned().collect()
    }

    /// Forgets identities that have expired.
    pub fn forget_expired(&mut self, now: DtnTime) {
        if now.is_known() {
            self.removed.retain(|(_, expiry)| *expiry > now);
        }
    }

    /// Does what a batch of commands says; a flush makes it durable.
    pub fn handle(&mut self, commands: impl IntoIterator<Item = StoreCommand>) {
        for command in commands {
            match command {
                StoreCommand::Append { key, octets, .. } => self.handle_append(key, &octets),
                StoreCommand::AppendAt { key, at, octets } => {
                    self.handle_append_at(key, at, &octets);
                }
                StoreCommand::Note { key, note } => self.handle_note(key, note),
                StoreCommand::Divide { key } => {
                    let arriving = self.arriving.entry(key).or_default();
                    arriving.division = arriving.octets.octets();
                }
                StoreCommand::Share { key, from } => self.handle_share(key, from),
                StoreCommand::Commit { key, bundle } => self.handle_commit(key, bundle),
                StoreCommand::Abandon { key } => {
                    self.arriving.remove(&key);
                    self.waiting.push(StoreEvent::Deleted { key });
                }
                StoreCommand::Delete { key, remember } => self.handle_delete(key, remember),
                StoreCommand::Reserve { time, sequence } => {
                    let (before, earlier) = self.reserved;
                    self.reserved = (before.max(time), earlier.max(sequence));
                    self.changes.push_back(Change::Reserve(before, earlier));
                    self.waiting.push(StoreEvent::Reserved { time, sequence });
                }
                StoreCommand::Verify { key } => self.waiting.push(StoreEvent::Verified { key }),
                // Nothing moves, and nothing is passed on while it comes in.
                StoreCommand::Watch { .. } | StoreCommand::Released { .. } => {}
            }
        }
        for (&key, arriving) in &mut self.arriving {
            if std::mem::take(&mut arriving.grew) {
                let octets = arriving.octets.octets();
                let behind = arriving.early.values().map(Sparse::octets).sum();
                self.waiting.push(match behind {
                    0 => StoreEvent::Durable { key, octets },
                    _ => StoreEvent::DurableParts {
                        key,
                        octets,
                        behind,
                    },
                });
            }
        }
    }

    fn handle_append(&mut self, key: BundleKey, piece: &Piece) {
        if self.places.contains_key(&key) {
            return;
        }
        let stored = match piece {
            Piece::Extent(extent) => self.read(&[*extent]),
            Piece::Octets(_) => None,
        };
        let arriving = self.arriving.entry(key).or_default();
        arriving.grew = true;
        match (piece, stored) {
            (Piece::Octets(octets), _) => arriving.octets.push(octets),
            (Piece::Extent(_), stored) => arriving.octets.append(stored.unwrap_or_default()),
        }
        arriving.join();
    }

    fn handle_append_at(&mut self, key: BundleKey, at: u64, octets: &[u8]) {
        if self.places.contains_key(&key) {
            return;
        }
        let mut piece = Sparse::default();
        piece.push(octets);
        let arriving = self.arriving.entry(key).or_default();
        arriving.grew = true;
        let there = arriving.early.get(&at).map_or(0, Sparse::octets);
        if piece.octets() > there {
            arriving.early.insert(at, piece);
        }
        arriving.join();
    }

    fn handle_note(&mut self, key: BundleKey, note: Bytes) {
        let place = self.places.get(&key).copied();
        let kept = place.and_then(|place| Some((place, self.kept.get_mut(&place)?)));
        if let Some((place, kept)) = kept {
            let before = std::mem::replace(&mut kept.bundle.note, note);
            self.changes.push_back(Change::Note(place, before));
            let refusal = None;
            self.waiting.push(StoreEvent::Noted { key, refusal });
        }
    }

    fn handle_share(&mut self, key: BundleKey, from: BundleKey) {
        let shared = self.arriving.get(&from).map(|source| {
            let octets = &source.octets;
            octets.part(source.division, u64::MAX)
        });
        let Some(shared) = shared else {
            let refusal = dhow_bundle::storage::StoreRefusal::Disk;
            self.arriving.remove(&key);
            return self.waiting.push(StoreEvent::Refused { key, refusal });
        };
        let arriving = self.arriving.entry(key).or_default();
        arriving.octets.append(shared);
        arriving.grew = true;
    }

    fn handle_commit(&mut self, key: BundleKey, bundle: Box<StoredBundle>) {
        let arriving = self.arriving.remove(&key).unwrap_or_default();
        if !arriving.early.is_empty() {
            let refusal = dhow_bundle::storage::StoreRefusal::Gaps;
            return self.waiting.push(StoreEvent::Refused { key, refusal });
        }
        let octets = arriving.octets;
        let (offset, length) = (self.end, octets.octets());
        self.end = offset.saturating_add(length.max(1));
        self.kept.insert(offset, Kept { bundle, octets });
        self.places.insert(key, offset);
        self.changes.push_back(Change::Commit(offset));
        let extents = Extents::One(Extent { offset, length });
        self.waiting.push(StoreEvent::Stored { key, extents });
    }

    fn handle_delete(&mut self, key: BundleKey, remember: Option<(BundleId, DtnTime)>) {
        let place = self.places.remove(&key);
        let kept = place.and_then(|place| Some((place, self.kept.remove(&place)?)));
        if let Some((place, kept)) = kept {
            let change = Change::Delete(place, kept, remember.is_some());
            self.changes.push_back(change);
        }
        self.removed.extend(remember);
        while self.removed.len() > self.removed_bound {
            self.removed.pop_front();
        }
        self.waiting.push(StoreEvent::Deleted { key });
    }

    /// A flush begins, if there is anything for one; how many do.
    pub fn sync(&mut self) -> u64 {
        let is_needed = !self.changes.is_empty() || !self.waiting.is_empty();
        self.covered = self.changes.len();
        self.ready.append(&mut self.waiting);
        u64::from(is_needed)
    }

    /// The flush has ended: what it covers is durable.
    pub fn finish_flush(&mut self) {
        if !self.lies {
            self.changes.drain(..self.covered.min(self.changes.len()));
            self.covered = 0;
        }
    }

    /// Adds the events that the flush has made true to `out`.
    pub fn settle(&mut self, out: &mut Vec<StoreEvent>) {
        out.append(&mut self.ready);
    }

    /// The octets of some extents; `None` where they are not those of bundles.
    #[must_use]
    pub fn read(&self, extents: &[Extent]) -> Option<Sparse> {
        let mut all = Sparse::default();
        for extent in extents {
            let (&offset, kept) = self.kept.range(..=extent.offset).next_back()?;
            let part = kept.octets.part(extent.offset - offset, extent.length);
            if part.octets() < extent.length {
                return None;
            }
            all.append(part);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use dhow_bundle::{CreationTimestamp, EndpointId};

    use super::*;
    use crate::entropy::Purpose;

    fn bundle(number: u64) -> Box<StoredBundle> {
        Box::new(StoredBundle {
            id: BundleId {
                source: EndpointId::Null,
                creation: CreationTimestamp {
                    time: DtnTime::from_millis(number),
                    sequence: 0,
                },
                fragment: None,
            },
            destination: EndpointId::Null,
            report_to: EndpointId::Null,
            version: 7,
            flags: 0,
            lifetime_ms: 1,
            age_at_reception_ms: 0,
            received: DtnTime::from_millis(number),
            header_octets: 1,
            payload_octets: 1,
            total_adu_octets: 0,
            previous: None,
            reads_aggregated_reports: false,
            priority: dhow_bundle::Priority::Normal,
            note: Bytes::new(),
        })
    }

    /// The commands that store a bundle of this number under this key.
    fn brought(number: u32) -> [StoreCommand; 2] {
        let key = BundleKey(number);
        let octets = Piece::Octets(Bytes::from(vec![1; 10]));
        let bundle = bundle(number.into());
        [
            StoreCommand::Append {
                key,
                octets,
                crc: None,
            },
            StoreCommand::Commit { key, bundle },
        ]
    }

    fn flush(sparse_store: &mut SparseStore) {
        sparse_store.sync();
        sparse_store.finish_flush();
        sparse_store.settle(&mut Vec::new());
    }

    fn numbers(sparse_store: &SparseStore) -> Vec<u64> {
        let bundles = sparse_store.bundles();
        bundles.map(|it| it.id.creation.time.as_millis()).collect()
    }

    #[test]
    fn a_power_failure_takes_back_what_no_flush_covers_and_from_the_end_on() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let mut sparse_store = SparseStore::new(10);
            sparse_store.handle(brought(0));
            flush(&mut sparse_store);
            let remember = Some((bundle(0).id, DtnTime::from_millis(9)));
            let key = BundleKey(0);
            sparse_store.handle([StoreCommand::Delete { key, remember }]);
            sparse_store.handle(brought(1));
            sparse_store.sync();
            sparse_store.handle(brought(2));
            let mut entropy = Entropy::new(seed, Purpose::Disk, 0);
            sparse_store.strike(Blow::Power, &mut entropy);
            let found = numbers(&sparse_store);
            assert_eq!(
                sparse_store.removed().is_empty(),
                found.contains(&0),
                "{found:?}"
            );
            seen.insert(found);
        }
        let expected: [&[u64]; 4] = [&[], &[0], &[1], &[1, 2]];
        assert_eq!(seen, expected.map(<[u64]>::to_vec).into());
    }

    #[test]
    fn a_killed_process_leaves_what_it_committed_and_nothing_else() {
        let mut sparse_store = SparseStore::new(10);
        sparse_store.handle(brought(3));
        let [append, _] = brought(4);
        sparse_store.handle([append]);
        sparse_store.strike(Blow::Kill, &mut Entropy::new(1, Purpose::Disk, 0));
        assert_eq!(numbers(&sparse_store), [3]);
        let [(_, extents)] = &sparse_store.open()[..] else {
            panic!("one bundle is there");
        };
        let read = sparse_store.read(extents).expect("its octets are there");
        assert_eq!(&read.join()[..], [1; 10]);
    }

    #[test]
    fn a_bundle_is_durable_when_its_flush_has_ended_and_not_before() {
        let mut sparse_store = SparseStore::new(10);
        sparse_store.handle(brought(5));
        assert_eq!(sparse_store.sync(), 1);
        let mut told = Vec::new();
        sparse_store.finish_flush();
        sparse_store.settle(&mut told);
        assert!(
            matches!(
                &told[..],
                [StoreEvent::Stored {
                    key: BundleKey(5),
                    ..
                }]
            ),
            "{told:?}"
        );
        sparse_store.strike(Blow::Power, &mut Entropy::new(1, Purpose::Disk, 0));
        assert_eq!(numbers(&sparse_store), [5]);
        assert_eq!(sparse_store.sync(), 0, "nothing is left to be flushed");
    }

    #[test]
    fn a_lying_store_keeps_nothing_for_sure() {
        let lost = (0..50).any(|seed| {
            let mut sparse_store = SparseStore::new(10);
            sparse_store.lie();
            sparse_store.handle(brought(6));
            flush(&mut sparse_store);
            let mut entropy = Entropy::new(seed, Purpose::Disk, 0);
            sparse_store.strike(Blow::Power, &mut entropy);
            numbers(&sparse_store).is_empty()
        });
        assert!(lost);
    }

    #[test]
    fn a_part_shares_what_its_whole_has_behind_the_header() {
        let mut sparse_store = SparseStore::new(10);
        let (whole, part) = (BundleKey(0), BundleKey(1));
        let append = |key, octets: &'static [u8]| StoreCommand::Append {
            key,
            octets: Piece::Octets(Bytes::from_static(octets)),
            crc: None,
        };
        sparse_store.handle([
            append(whole, b"old"),
            StoreCommand::Divide { key: whole },
            append(whole, b"payload"),
            append(part, b"new"),
            StoreCommand::Share {
                key: part,
                from: whole,
            },
            append(part, b"end"),
            StoreCommand::Commit {
                key: part,
                bundle: bundle(1),
            },
        ]);
        let [(_, extents)] = &sparse_store.open()[..] else {
            panic!("one bundle is there");
        };
        let read = sparse_store.read(extents).expect("its octets are there");
        assert_eq!(&read.join()[..], b"newpayloadend");
    }
}
