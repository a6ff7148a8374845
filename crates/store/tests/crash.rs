//! Random commands on a disk that crashes and fails: acknowledged bundles stay, deleted ones stay away.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::as_conversions,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod world;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::DtnTime;
use dhow_bundle::storage::{BundleKey, Extents, Piece, StoreCommand, StoreEvent, StoredBundle};
use dhow_store::{CachingDisk, Disk, Failure, FaultyDisk, Options, Store};
use proptest::prelude::*;
use world::{bundle, octets, options, read, sum};

#[derive(Clone, Debug)]
enum Op {
    /// A whole bundle of a length.
    Put(usize),
    /// Part of a bundle that arrives slowly.
    Part(usize),
    /// The end of the bundle that arrives slowly.
    Finish,
    /// The n-th of the stored bundles goes.
    Delete(usize, bool),
    Reserve(u64),
    /// The n-th of the stored bundles gets a note.
    Note(usize),
    /// Ends a batch.
    Handle,
    Commit,
    /// Nothing else is to do for so many steps.
    Prepare(usize),
    /// The power fails after some writes and syncs.
    Crash(u64, u64),
    /// One write or sync fails, some of them from now.
    Fail(u64, Failure),
    /// The process ends without closing the store, and it is opened again.
    Reopen,
    /// The store is closed, the power fails after some writes and syncs of that, and it is opened.
    Close(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let length =
        prop_oneof![6 => 0..3_000_usize, 2 => 3_000..20_000_usize, 1 => 60_000..200_000_usize];
    prop_oneof![
        12 => length.prop_map(Op::Put),
        3 => (1..30_000_usize).prop_map(Op::Part),
        2 => Just(Op::Finish),
        12 => (any::<usize>(), any::<bool>()).prop_map(|(which, remember)| Op::Delete(which, remember)),
        1 => any::<u32>().prop_map(|time| Op::Reserve(u64::from(time))),
        6 => any::<usize>().prop_map(Op::Note),
        6 => Just(Op::Handle),
        8 => Just(Op::Commit),
        2 => (1..4_usize).prop_map(Op::Prepare),
        2 => (0..12_u64, any::<u64>()).prop_map(|(after, seed)| Op::Crash(after, seed)),
        1 => (0..12_u64, prop_oneof![Just(Failure::Full), Just(Failure::InputOutput)])
            .prop_map(|(after, failure)| Op::Fail(after, failure)),
        1 => Just(Op::Reopen),
        2 => (0..12_u64, any::<u64>()).prop_map(|(after, seed)| Op::Close(after, seed)),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Arriving,
    Committing,
    Stored,
    Deleting,
    Refused,
}

#[derive(Clone, Debug)]
struct Entry {
    number: u32,
    length: usize,
    state: State,
    remember: bool,
    /// Its durable note, and those after it that are not.
    noted: Bytes,
    noting: VecDeque<Bytes>,
    /// Those that a failing disk may have, or not.
    doubtful: Vec<Bytes>,
}

struct World {
    disk: Arc<FaultyDisk>,
    store: Store,
    entries: BTreeMap<u32, Entry>,
    slow: Option<u32>,
    batch: Vec<StoreCommand>,
    numbers: u32,
    gone: BTreeSet<u32>,
    remembered: BTreeSet<u32>,
    /// Bundles that were handed over: number to length.
    sent: BTreeMap<u32, usize>,
    reserved: u64,
    moved: u32,
    crashes: u32,
}

fn small() -> Options {
    Options {
        quota_octets: 512 * 1024,
        prepared_octets: 3 * 65_536,
        ..options()
    }
}

impl World {
    fn new(grain: Option<usize>) -> Self {
        let disk = Arc::new(FaultyDisk::new().with_grain(grain));
        let (store, _) = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, small()).unwrap();
        Self {
            disk,
            store,
            entries: BTreeMap::new(),
            slow: None,
            batch: Vec::new(),
            numbers: 0,
            gone: BTreeSet::new(),
            remembered: BTreeSet::new(),
            sent: BTreeMap::new(),
            reserved: 0,
            moved: 0,
            crashes: 0,
        }
    }

    fn begin(&mut self, length: usize) -> u32 {
        let key = (0..).find(|key| !self.entries.contains_key(key)).unwrap();
        self.numbers += 1;
        self.entries.insert(
            key,
            Entry {
                number: self.numbers,
                length,
                state: State::Arriving,
                remember: false,
                noted: Bytes::new(),
                noting: VecDeque::new(),
                doubtful: Vec::new(),
            },
        );
        key
    }

    fn append(&mut self, key: u32, octets: Vec<u8>) {
        // In pieces, as segments come.
        let mut octets = Bytes::from(octets);
        while octets.len() > 40_000 {
            let octets = Piece::Octets(octets.split_to(30_001));
            self.batch.push(StoreCommand::Append {
                key: BundleKey(key),
                octets,
                crc: None,
            });
        }
        self.batch.push(StoreCommand::Append {
            key: BundleKey(key),
            crc: Some(dhow_bundle::crc::crc32c(&octets)),
            octets: Piece::Octets(octets),
        });
    }

    /// The end of a bundle first, and its middle twice.
    fn append_in_disorder(&mut self, key: u32, octets: Vec<u8>) {
        let octets = Bytes::from(octets);
        let third = octets.len() / 3;
        for range in [
            2 * third..octets.len(),
            third..2 * third,
            0..third + third / 2,
        ] {
            let at = range.start as u64;
            let octets = octets.slice(range);
            let key = BundleKey(key);
            self.batch.push(StoreCommand::AppendAt { key, at, octets });
        }
    }

    fn finish(&mut self, key: u32) {
        let entry = self.entries.get_mut(&key).unwrap();
        if entry.state == State::Arriving {
            entry.state = State::Committing;
        }
        let bundle = Box::new(bundle(entry.number, entry.length));
        self.sent.insert(entry.number, entry.length);
        self.batch.push(StoreCommand::Commit {
            key: BundleKey(key),
            bundle,
        });
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Put(length) => {
                let key = self.begin(length);
                match self.numbers % 4 {
                    3 => self.append_in_disorder(key, octets(self.numbers, length)),
                    _ => self.append(key, octets(self.numbers, length)),
                }
                self.finish(key);
            }
            Op::Part(length) => {
                // All octets of a bundle that arrives slowly come from its number and a length of 100 kB.
                let key = self.slow.unwrap_or_else(|| self.begin(0));
                self.slow = Some(key);
                let entry = self.entries.get_mut(&key).unwrap();
                let from = entry.length;
                entry.length = (from + length).min(100_000);
                let part = octets(entry.number, 100_000)[from..entry.length].to_vec();
                self.append(key, part);
            }
            Op::Finish => {
                if let Some(key) = self.slow.take() {
                    self.finish(key);
                }
            }
            Op::Delete(which, remember) => self.delete(which, remember),
            Op::Reserve(time) => {
                self.batch.push(StoreCommand::Reserve {
                    time: DtnTime::from_millis(time),
                    sequence: time,
                });
            }
            Op::Note(which) => self.note(which),
            Op::Handle => self.handle(),
            Op::Commit => self.commit(),
            Op::Prepare(steps) => {
                for _ in 0..steps {
                    self.store.prepare();
                }
            }
            Op::Crash(after, seed) => self.crash(after, seed),
            Op::Fail(after, failure) => self.disk.fail_after(after, failure),
            Op::Close(after, seed) => {
                self.commit();
                self.disk.power_off_after(after);
                let failed = self.store.failure().is_some();
                let spare: Arc<dyn Disk> = Arc::new(FaultyDisk::new());
                let (spare, _) = Store::open(spare, small()).unwrap();
                std::mem::replace(&mut self.store, spare).close(&mut Vec::new());
                self.reopen(Arc::new(self.disk.after_crash(seed)), failed || after < 8);
            }
            Op::Reopen => {
                self.handle();
                self.commit();
                let octets = self.disk.octets();
                // A record that a failed store could not cut off yet is cut by the next opening.
                let failed = self.store.failure().is_some();
                let disk = FaultyDisk::with_octets(octets).with_grain(self.disk.grain());
                self.reopen(Arc::new(disk), failed);
            }
        }
    }

    fn note(&mut self, which: usize) {
        let stored = self.entries.iter_mut();
        let mut stored: Vec<_> = stored.filter(|(_, it)| it.state == State::Stored).collect();
        let place = which % stored.len().max(1);
        if let Some((key, entry)) = stored.get_mut(place) {
            let note = Bytes::from(vec![which as u8; which % 70]);
            entry.noting.push_back(note.clone());
            let key = BundleKey(**key);
            self.batch.push(StoreCommand::Note { key, note });
        }
    }

    fn delete(&mut self, which: usize, remember: bool) {
        let stored: Vec<u32> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.state == State::Stored)
            .map(|(key, _)| *key)
            .collect();
        if stored.is_empty() {
            return;
        }
        let key = stored[which % stored.len()];
        let entry = self.entries.get_mut(&key).unwrap();
        entry.state = State::Deleting;
        entry.remember = remember;
        let remember = remember.then(|| {
            (
                bundle(entry.number, entry.length).id,
                DtnTime::from_millis(1),
            )
        });
        self.batch.push(StoreCommand::Delete {
            key: BundleKey(key),
            remember,
        });
    }

    fn handle(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.store.handle(batch);
    }

    fn commit(&mut self) {
        self.handle();
        let mut events = Vec::new();
        self.store.commit(&mut events);
        for event in events {
            match event {
                StoreEvent::Stored { key, extents } => {
                    let entry = self.entries.get_mut(&key.0).unwrap();
                    assert_eq!(entry.state, State::Committing);
                    entry.state = State::Stored;
                    self.check(key.0, &extents);
                }
                StoreEvent::Deleted { key } => {
                    let entry = self.entries.remove(&key.0).unwrap();
                    if entry.state == State::Deleting {
                        self.gone.insert(entry.number);
                        if entry.remember {
                            self.remembered.insert(entry.number);
                        }
                    }
                    if self.slow == Some(key.0) {
                        self.slow = None;
                    }
                }
                StoreEvent::Refused { key, .. } => {
                    let entry = self.entries.get_mut(&key.0).unwrap();
                    if entry.state != State::Refused {
                        entry.state = State::Refused;
                        self.slow = self.slow.filter(|slow| *slow != key.0);
                        self.batch.push(StoreCommand::Abandon { key });
                    }
                }
                StoreEvent::Relocated { key, extents } => {
                    self.moved += 1;
                    if self.entries[&key.0].state == State::Stored {
                        self.check(key.0, &extents);
                    }
                    self.batch.push(StoreCommand::Released { key });
                }
                StoreEvent::Noted { key, refusal } => {
                    // It may be deleted meanwhile, in the same batch.
                    if let Some(entry) = self.entries.get_mut(&key.0) {
                        let note = entry.noting.pop_front().unwrap();
                        match refusal {
                            None => {
                                entry.noted = note;
                                entry.doubtful.clear();
                            }
                            Some(_) => entry.doubtful.push(note),
                        }
                    }
                }
                StoreEvent::Reserved { time, .. } => {
                    self.reserved = self.reserved.max(time.as_millis())
                }
                StoreEvent::Durable { .. }
                | StoreEvent::DurableParts { .. }
                | StoreEvent::Written { .. }
                | StoreEvent::Capacity { .. } => {}
                StoreEvent::Verified { .. } => {}
                StoreEvent::Corrupt { key } => panic!("{key:?} is corrupt on a disk without rot"),
            }
        }
    }

    fn check(&self, key: u32, extents: &Extents) {
        let entry = &self.entries[&key];
        assert_eq!(
            sum(&read(&self.store, extents)),
            expected(entry.number, entry.length),
            "{entry:?}"
        );
    }

    fn crash(&mut self, after: u64, seed: u64) {
        self.crashes += 1;
        self.disk.power_off_after(after);
        for _ in 0..after / 3 {
            self.commit();
        }
        self.handle();
        let found = self.disk.after_crash(seed);
        if seed.is_multiple_of(3) {
            // The power fails again while the store is being opened.
            found.power_off_after(seed % 7);
            let found = Arc::new(found);
            let _ = Store::open(Arc::clone(&found) as Arc<dyn Disk>, small());
            self.reopen(Arc::new(found.after_crash(seed / 3)), true);
        } else {
            self.reopen(Arc::new(found), true);
        }
    }

    /// Opens what is on a disk and holds it against what was acknowledged.
    fn reopen(&mut self, disk: Arc<FaultyDisk>, torn: bool) {
        self.batch.clear();
        self.slow = None;
        let (store, recovered) = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, small()).unwrap();
        self.store = store;
        self.disk = disk;
        assert!(self.store.failure().is_none(), "{:?}", self.store.failure());
        assert!(!recovered.checkpoint_lost);
        assert!(recovered.loss.is_empty(), "{:?}", recovered.loss);
        assert!(recovered.reserved_time.as_millis() >= self.reserved);
        if !torn {
            assert_eq!(recovered.torn_octets, 0);
        }
        let removed: BTreeSet<u32> = recovered
            .removed
            .iter()
            .map(|(id, _)| id.creation.sequence as u32)
            .collect();
        assert!(
            self.remembered.is_subset(&removed),
            "{:?} {removed:?}",
            self.remembered
        );
        let mut found = BTreeMap::new();
        for (key, stored, extents) in recovered.bundles {
            let number = stored.id.creation.sequence as u32;
            let length = stored.payload_octets as usize;
            assert_eq!(self.sent.get(&number), Some(&length));
            let before = self.entries.values().find(|entry| entry.number == number);
            let said = before.is_none_or(|entry| {
                let (noting, doubtful) = (entry.noting.iter(), entry.doubtful.iter());
                let mut notes = noting.chain(doubtful).chain([&entry.noted]);
                notes.any(|note| *note == stored.note)
            });
            assert!(said, "{:?} beside {before:?}", stored.note);
            let note = stored.note.clone();
            let wanted = StoredBundle {
                note: note.clone(),
                ..bundle(number, length)
            };
            assert_eq!(stored, wanted);
            assert_eq!(sum(&read(&self.store, &extents)), expected(number, length));
            assert!(!self.gone.contains(&number), "bundle {number} was deleted");
            let entry = Entry {
                number,
                length,
                state: State::Stored,
                remember: false,
                noted: note,
                noting: VecDeque::new(),
                doubtful: Vec::new(),
            };
            assert!(found.insert(key.0, entry).is_none());
        }
        let numbers: BTreeSet<u32> = found.values().map(|entry| entry.number).collect();
        assert_eq!(numbers.len(), found.len(), "no bundle twice");
        for entry in self.entries.values() {
            assert!(
                entry.state != State::Stored || numbers.contains(&entry.number),
                "lost: {entry:?}"
            );
        }
        // A bundle that was under way and did not come back is gone for good.
        for number in self.sent.keys() {
            if !numbers.contains(number) {
                self.gone.insert(*number);
            }
        }
        self.entries = found;
    }
}

fn expected(number: u32, length: usize) -> (usize, u64) {
    let slow = SLOW.with(|numbers| numbers.borrow().contains(&number));
    if slow {
        sum(&octets(number, 100_000)[..length])
    } else {
        sum(&octets(number, length))
    }
}

thread_local! {
    /// Numbers of the bundles that came in parts.
    static SLOW: std::cell::RefCell<BTreeSet<u32>> = const { std::cell::RefCell::new(BTreeSet::new()) };
}

fn history(ops: Vec<Op>, grain: Option<usize>) -> World {
    SLOW.with(|numbers| numbers.borrow_mut().clear());
    let mut world = World::new(grain);
    for op in ops {
        let part = matches!(op, Op::Part(_));
        world.run(op);
        if let (true, Some(key)) = (part, world.slow) {
            SLOW.with(|numbers| numbers.borrow_mut().insert(world.entries[&key].number));
        }
    }
    world.commit();
    world.crash(2, 12_345);
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_holds_after_any_crash(
        ops in prop::collection::vec(op(), 1..160),
        grain in prop_oneof![Just(None), Just(Some(64_usize))],
    ) {
        history(ops, grain);
    }
}

#[test]
fn bundles_are_moved_and_segments_reused_under_load() {
    // Mostly short-lived bundles with a few that stay, until the log has been written over many times.
    let mut ops = Vec::new();
    let mut state = 7_usize;
    for round in 0..4_000 {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345) % (1 << 31);
        ops.push(Op::Put(state % 9_000));
        ops.push(if round % 3 == 0 {
            Op::Commit
        } else {
            Op::Handle
        });
        if round > 60 {
            ops.push(Op::Delete(state / 7, round % 10 == 0));
        }
        if round % 400 == 399 {
            ops.push(Op::Crash(4, state as u64));
        }
    }
    let world = history(ops, None);
    assert!(world.moved > 0, "nothing was moved");
    assert!(
        world.store.statistics().log_octets <= 8192 + 16 * 65_536,
        "{:?}",
        world.store.statistics()
    );
}
