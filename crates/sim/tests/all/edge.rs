//! A store at the edge of its room: hours of bundles that come and go where the quota, or the disk, is full.
//!
//! Nothing here takes the store's word for what has room. The tenant counts what it has stored, and claims what
//! `docs/store-format.md` 7 promises: room that was made is given, deletions need none, and opening needs none.
//!
//!     cargo test --release -p dhow-sim --features mutants --test all edge:: -- --nocapture     (EDGE_SEEDS=200 EDGE_OCTETS=2147483648)

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::{
    BundleKey, Extents, Piece, StoreCommand, StoreEvent, StoreRefusal, StoredBundle,
};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId, Instant};
use dhow_sim::disk::{Blow, Hand, SimDisk};
use dhow_sim::entropy::{Entropy, Purpose};
use dhow_store::{Disk, Options, Store};

/// Octets that a tenant stores in a seed, unless `EDGE_OCTETS` says otherwise.
const SEED_OCTETS: u64 = 96 << 20;

/// Seeds, unless `EDGE_SEEDS` says otherwise.
const SEEDS: u64 = 40;

/// Turns of a store with nothing else to do after which room that was made is given: with a flush of 10 ms that is a second.
const TURNS: u32 = 100;

/// Turns after which a bundle that was refused is offered again.
const PAUSE: u32 = 8;

/// A flush takes so long.
const FLUSH: Duration = Duration::from_millis(10);

/// Octets of a note, fewer than.
const NOTE_OCTETS: u64 = 64;

/// Octets that a bundle takes more once it was noted: a record of its own, and a place.
const NOTED_OCTETS: u64 = 256;

/// Octets of the log that a bundle takes beside its own, at most: a commit record, and a record for each portion.
const FRAME_OCTETS: u64 = 512;

/// A payload arrives in portions of at most so many octets.
const PORTION_OCTETS: u64 = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many of its octets have been given.
    Arriving(u64),
    Committing,
    Stored,
    Deleting,
}

#[derive(Clone, Debug)]
struct Held {
    number: u64,
    octets: u64,
    state: State,
    /// The turn in which it is deleted, where that is settled.
    until: Option<u64>,
    /// Whether somebody reads its octets where they were.
    is_read: bool,
}

struct Tenant {
    name: String,
    entropy: Entropy,
    hand: Hand,
    disk: Arc<SimDisk>,
    store: Option<Store>,
    options: Options,
    held: BTreeMap<u32, Held>,
    places: BTreeMap<u32, Extents>,
    /// Bundles for a reader, in the order in which they came.
    read_next: VecDeque<u32>,
    /// Moved bundles that somebody reads, and the turn in which their former places are let go of.
    releases: Vec<(u64, u32)>,
    free_keys: Vec<u32>,
    numbers: u64,
    most_held: u64,
    stored_octets: u64,
    zeros: Bytes,
    batch: Vec<StoreCommand>,
    turn: u64,
    now: Duration,
    /// Octets that others have on the disk, where it is shared.
    capacity: Option<u64>,
    refused: u64,
    crashes: u64,
    moved: u64,
}

fn bundle(number: u64, octets: u64) -> StoredBundle {
    let endpoint = |node: u64| EndpointId::Ipn {
        allocator: 0,
        node: u32::try_from(node).unwrap(),
        service: 1,
    };
    StoredBundle {
        id: BundleId {
            source: endpoint(number % 100),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(1000),
                sequence: number,
            },
            fragment: None,
        },
        destination: endpoint(4),
        report_to: EndpointId::Null,
        version: 7,
        flags: 0,
        lifetime_ms: 1_000_000,
        age_at_reception_ms: 0,
        received: DtnTime::from_millis(2000),
        header_octets: 0,
        payload_octets: octets,
        total_adu_octets: 0,
        previous: None,
        reads_aggregated_reports: false,
        priority: dhow_bundle::Priority::Normal,
        note: Bytes::new(),
    }
}

impl Tenant {
    fn new(seed: u64, octets: u64) -> Self {
        let mut entropy = Entropy::new(seed, Purpose::Disk, 0);
        let segment_octets = [
            64 << 10,
            128 << 10,
            256 << 10,
            1 << 20,
            4 << 20,
            16 << 20,
            64 << 20,
        ][entropy.below(7) as usize];
        let most = (octets / 2 / segment_octets).clamp(3, 1000);
        let most = most.min(1 << entropy.below(11));
        let segments = 3 + entropy.below(most.max(1));
        let quota = segments * segment_octets + entropy.below(segment_octets);
        let capacity = match entropy.below(3) {
            0 => None,
            1 => Some(quota / 2 + entropy.below(quota) + (6 << 20)),
            _ => Some(quota + quota / 2 + (8 << 20)),
        };
        let hand = Hand::default();
        let disk = Arc::new(SimDisk::new(hand.clone(), capacity.unwrap_or(u64::MAX)));
        let options = Options {
            segment_octets: segment_octets as u32,
            quota_octets: quota,
            removed_bound: [100, 10_000, 100_000][entropy.below(3) as usize],
            seed,
            ..Options::default()
        };
        let name =
            format!("seed {seed}: segments of {segment_octets}, quota {quota}, disk {capacity:?}");
        let mut tenant = Self {
            name,
            entropy,
            hand,
            disk,
            store: None,
            options,
            held: BTreeMap::new(),
            places: BTreeMap::new(),
            read_next: VecDeque::new(),
            releases: Vec::new(),
            free_keys: (0..100_000).rev().collect(),
            numbers: 0,
            most_held: 0,
            stored_octets: 0,
            zeros: Bytes::from(vec![0; PORTION_OCTETS as usize]),
            batch: Vec::new(),
            turn: 0,
            now: Duration::ZERO,
            capacity,
            refused: 0,
            crashes: 0,
            moved: 0,
        };
        tenant.open();
        tenant
    }

    fn fail(&self, what: &str) -> ! {
        panic!("{}: turn {}: {what}", self.name, self.turn)
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().expect("the store is open")
    }

    fn open(&mut self) {
        let disk: Arc<dyn Disk> = Arc::<SimDisk>::clone(&self.disk);
        let (store, recovered) = match Store::open(disk, self.options.clone()) {
            Ok(opened) => opened,
            Err(error) => self.fail(&format!("cannot open: {error}")),
        };
        self.disk.finish_flush();
        if let Some(error) = store.failure() {
            let error = error.to_string();
            self.fail(&format!("opened, and refuses everything: {error}"));
        }
        self.store = Some(store);
        // A restart numbers anew.
        let mut before: BTreeMap<u64, Held> = std::mem::take(&mut self.held)
            .into_values()
            .map(|held| (held.number, held))
            .collect();
        let order: Vec<u64> = recovered
            .bundles
            .map(|(key, bundle, at)| {
                self.places.insert(key.0, at);
                bundle.id.creation.sequence
            })
            .collect();
        self.free_keys = (order.len() as u32..100_000).rev().collect();
        self.read_next.clear();
        self.releases.clear();
        for (key, number) in (0_u32..).zip(&order) {
            let Some(mut held) = before.remove(number) else {
                self.fail(&format!("bundle {number} is back"));
            };
            held.is_read = false;
            match held.state {
                State::Stored | State::Committing | State::Deleting => held.state = State::Stored,
                State::Arriving(_) => self.fail(&format!("bundle {number} was never committed")),
            }
            if held.until.is_none() {
                self.read_next.push_back(key);
            }
            self.held.insert(key, held);
        }
        for held in before.values() {
            if held.state == State::Stored {
                self.fail(&format!("bundle {} is lost", held.number));
            }
        }
        let keys: Vec<u32> = self.held.keys().copied().collect();
        for key in keys {
            self.check(key);
        }
    }

    /// The octets of a stored bundle are its own.
    fn check(&mut self, key: u32) {
        let (held, at) = (&self.held[&key], &self.places[&key]);
        if at.length() != held.octets {
            self.fail(&format!(
                "bundle {} has {} octets",
                held.number,
                at.length()
            ));
        }
        let mut first = [0; 8];
        let extents = at.slice(0, 8.min(held.octets));
        let mut to = 0;
        for extent in extents {
            let end = to + extent.length as usize;
            self.disk
                .read_at(extent.offset, &mut first[to..end])
                .unwrap();
            to = end;
        }
        if to == 8 && u64::from_le_bytes(first) != held.number {
            self.fail(&format!("bundle {} has another's octets", held.number));
        }
    }

    /// Octets of the log that the tenant's bundles take at most, as it counts them.
    fn live_octets(&self) -> u64 {
        let octets = self.held.values().map(|held| self.frame(held.octets));
        octets.sum()
    }

    fn frame(&self, octets: u64) -> u64 {
        let portion = PORTION_OCTETS.min(u64::from(self.options.segment_octets) / 2);
        octets + FRAME_OCTETS + NOTED_OCTETS + octets / portion * 96
    }

    /// Octets that bundles may take for sure, with their records: three quarters of what the log may take and the disk has, less the reserve.
    fn promised_octets(&self) -> u64 {
        let quota = self.options.quota_octets;
        let segment = u64::from(self.options.segment_octets);
        let unit = segment.min(512 << 10);
        let checkpoint = 1024
            + self.held.len() as u64 * 8
            + (self.options.removed_bound as u64 * 48)
                .min(segment / 2)
                .min(self.numbers * 48)
            + quota / unit * 30;
        let units = 2 * (checkpoint.div_ceil(unit * 3 / 4) + 1) + 3;
        let largest = (quota / 16).clamp(unit, segment);
        let reserve = units * unit + 3 * largest;
        let log = (quota + quota / 4 + reserve).min(self.capacity.unwrap_or(u64::MAX));
        log.saturating_sub(reserve) / 4 * 3
    }

    /// Whether a node would admit so many octets more.
    fn admits(&self, octets: u64) -> bool {
        let held: u64 = self.held.values().map(|held| held.octets).sum();
        held + octets <= self.options.quota_octets
            && self.live_octets() + self.frame(octets) <= self.promised_octets()
    }

    fn begin(&mut self, octets: u64) -> Option<u32> {
        let key = self.free_keys.pop()?;
        self.numbers += 1;
        self.stored_octets += octets;
        let held = Held {
            number: self.numbers,
            octets,
            state: State::Arriving(0),
            until: None,
            is_read: false,
        };
        self.held.insert(key, held);
        self.most_held = self.most_held.max(self.held.len() as u64);
        Some(key)
    }

    /// Gives so many octets more of a bundle, and the commit at its end.
    fn give(&mut self, key: u32, most: u64) {
        let Some(held) = self.held.get(&key) else {
            return;
        };
        let State::Arriving(given) = held.state else {
            return;
        };
        let end = held.octets.min(given.saturating_add(most));
        let number = held.number;
        let total = held.octets;
        let mut at = given;
        while at < end {
            let count = (end - at).min(PORTION_OCTETS);
            let octets = if at == 0 {
                let mut octets = vec![0; count as usize];
                let mark = number.to_le_bytes();
                let marked = count.min(8) as usize;
                octets[..marked].copy_from_slice(&mark[..marked]);
                Bytes::from(octets)
            } else {
                self.zeros.slice(..count as usize)
            };
            self.batch.push(StoreCommand::Append {
                key: BundleKey(key),
                octets: Piece::Octets(octets),
                crc: None,
            });
            at += count;
            if self.batch.len() >= 16 {
                self.flush();
                if self.held.get(&key).is_none_or(|held| held.number != number) {
                    return;
                }
            }
        }
        let held = self.held.get_mut(&key).unwrap();
        held.state = State::Arriving(end);
        if end == total {
            held.state = State::Committing;
            self.batch.push(StoreCommand::Commit {
                key: BundleKey(key),
                bundle: Box::new(bundle(number, total)),
            });
        }
    }

    fn delete(&mut self, key: u32) {
        let Some(held) = self.held.get_mut(&key) else {
            return;
        };
        if held.state != State::Stored {
            return;
        }
        held.state = State::Deleting;
        let remember = (held.number % 2 == 0)
            .then(|| (bundle(held.number, 0).id, DtnTime::from_millis(9_999_999)));
        self.batch.push(StoreCommand::Delete {
            key: BundleKey(key),
            remember,
        });
    }

    /// One of the bundles here gets a note, of another length each time.
    fn note(&mut self) {
        let from = u32::try_from(self.entropy.below(1 << 20)).unwrap();
        let held = self.held.range(from..).chain(self.held.range(..from));
        let mut stored = held.filter(|(_, held)| held.state == State::Stored);
        if let Some((key, _)) = stored.next() {
            let key = BundleKey(*key);
            let octets = self.entropy.below(NOTE_OCTETS) as usize;
            let note = self.zeros.slice(..octets);
            self.batch.push(StoreCommand::Note { key, note });
        }
    }

    /// One turn of the store: a batch, a flush, the answers.
    fn flush(&mut self) {
        self.turn += 1;
        self.now += FLUSH;
        self.hand.set(Instant::START + self.now);
        if self.entropy.below(8) == 0 {
            self.note();
        }
        let batch = std::mem::take(&mut self.batch);
        self.store().handle(batch);
        let crash = self.entropy.below(4_000) == 0;
        if crash && self.entropy.below(2) == 0 {
            return self.crash();
        }
        self.store().sync();
        if crash {
            // Within the flush.
            return self.crash();
        }
        self.disk.finish_flush();
        let mut events = Vec::new();
        self.store().settle(&mut events);
        for event in events {
            self.take(event);
        }
        if let Some(error) = self.store().failure() {
            let error = error.to_string();
            self.fail(&format!("the store refuses everything: {error}"));
        }
        let due: Vec<u32> = self
            .releases
            .iter()
            .filter(|(at, _)| *at <= self.turn)
            .map(|(_, key)| *key)
            .collect();
        self.releases.retain(|(at, _)| *at > self.turn);
        for key in due {
            self.batch.push(StoreCommand::Released {
                key: BundleKey(key),
            });
        }
        self.check_log();
    }

    fn check_log(&self) {
        let quota = self.options.quota_octets;
        let segment = u64::from(self.options.segment_octets);
        let unit = segment.min(512 << 10);
        // The most bundles that were here at a time set what a checkpoint takes: what is set aside does not shrink.
        let removed = (self.options.removed_bound as u64 * 64).min(segment / 2);
        let segments = quota * 2 / unit + 64;
        let checkpoint = 1024 + self.most_held * 8 + removed.min(self.numbers * 64) + segments * 60;
        let units = 2 * (checkpoint.div_ceil(unit * 3 / 4) + 1) + 4;
        let most = 8192 + quota + quota / 4 + 3 * (quota / 16).clamp(unit, segment) + units * unit;
        if self.disk.taken_octets() > most {
            self.fail(&format!(
                "the log takes {} octets of {most}",
                self.disk.taken_octets()
            ));
        }
    }

    fn take(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::Stored { key, extents } => {
                self.places.insert(key.0, extents);
                let held = self.held.get_mut(&key.0).unwrap();
                held.state = State::Stored;
                if held.until.is_none() {
                    self.read_next.push_back(key.0);
                }
            }
            StoreEvent::Deleted { key } => {
                self.held.remove(&key.0);
                self.free_keys.push(key.0);
                self.read_next.retain(|it| *it != key.0);
            }
            StoreEvent::Relocated { key, extents } => {
                self.moved += 1;
                self.places.insert(key.0, extents);
                let busy = self.held.get(&key.0).is_some_and(|held| held.is_read);
                let after = if busy { 1 + self.entropy.below(200) } else { 0 };
                self.releases.push((self.turn + after, key.0));
            }
            StoreEvent::Refused { key, refusal } => {
                assert_eq!(refusal, StoreRefusal::Full);
                self.refused += 1;
                self.held.remove(&key.0);
                self.batch.push(StoreCommand::Abandon { key });
            }
            StoreEvent::Durable { .. }
            | StoreEvent::DurableParts { .. }
            | StoreEvent::Reserved { .. }
            | StoreEvent::Written { .. }
            | StoreEvent::Noted { .. }
            | StoreEvent::Capacity { .. } => {}
            StoreEvent::Verified { .. } | StoreEvent::Corrupt { .. } => {
                self.fail("octets are corrupt")
            }
        }
    }

    fn crash(&mut self) {
        self.crashes += 1;
        self.store = None;
        self.batch.clear();
        let blow = if self.entropy.below(2) == 0 {
            Blow::Kill
        } else {
            Blow::Power
        };
        self.disk.strike(blow, &mut self.entropy);
        // Bundles of which nothing was answered may be there or not.
        self.held
            .retain(|_, held| !matches!(held.state, State::Arriving(_)));
        let unsure: Vec<u32> = self
            .held
            .iter()
            .filter(|(_, held)| matches!(held.state, State::Committing | State::Deleting))
            .map(|(key, _)| *key)
            .collect();
        self.reopen(&unsure);
    }

    fn reopen(&mut self, _unsure: &[u32]) {
        // Crashes within the flushes of opening, several in a row.
        for _ in 0..self.entropy.below(6) {
            let disk: Arc<dyn Disk> = Arc::<SimDisk>::clone(&self.disk);
            if self.entropy.below(3) == 0 {
                // All flushes of the opening but for the last.
                if let Err(error) = Store::open(disk, self.options.clone()) {
                    self.fail(&format!("cannot open: {error}"));
                }
            } else {
                let cut = Arc::new(Cut {
                    disk,
                    left: self.entropy.below(8).into(),
                });
                let _ = Store::open(cut, self.options.clone());
            }
            self.disk.strike(Blow::Power, &mut self.entropy);
        }
        self.open();
    }

    /// A size from nothing to half the quota, small ones most often.
    fn size(&mut self) -> u64 {
        let most = self.options.quota_octets / 2;
        let bits = 1 + self.entropy.below(64 - u64::from(most.leading_zeros()));
        self.entropy.below(1 << bits).min(most)
    }

    fn step(&mut self) {
        match self.entropy.below(20) {
            // For a destination that is away, small.
            0..=6 => {
                let octets = self.entropy.below(2_000);
                let away = 200 + self.entropy.below(5_000);
                self.offer(octets, Some(away));
            }
            // For a reader.
            7..=9 => {
                let octets = self.size();
                self.offer(octets, None);
            }
            // A short lifetime.
            10..=12 => {
                let (octets, turns) = (self.entropy.below(20_000), self.entropy.below(20));
                self.offer(octets, Some(turns));
            }
            // Some that arrive slowly get a little more.
            13..=15 => {
                let slow: Vec<u32> = self.arriving();
                if slow.len() < 6 {
                    let octets = self.size();
                    if self.admits(octets) {
                        self.begin(octets);
                    }
                }
                for key in slow {
                    let octets = self.entropy.below(100_000);
                    self.give(key, octets);
                }
            }
            // The reader takes some.
            16..=17 => {
                for _ in 0..self.entropy.below(12) {
                    if let Some(key) = self.read_next.pop_front() {
                        self.delete(key);
                    }
                }
                if let Some(key) = self.read_next.front()
                    && let Some(held) = self.held.get_mut(key)
                {
                    held.is_read = true;
                }
            }
            18 => {
                let time = DtnTime::from_millis(self.numbers);
                self.batch.push(StoreCommand::Reserve {
                    time,
                    sequence: self.numbers,
                });
            }
            // Others take room on the disk, or give some back.
            _ => {
                if let Some(capacity) = self.capacity
                    && self.entropy.below(4) == 0
                {
                    let taken = self.disk.taken_octets();
                    let quota = self.options.quota_octets;
                    let now = match self.entropy.below(3) {
                        0 => taken,
                        1 => taken + self.entropy.below(quota),
                        _ => capacity.max(quota),
                    };
                    self.capacity = Some(now);
                    self.disk.limit(now);
                }
            }
        }
        let turn = self.turn;
        let expired: Vec<u32> = self
            .held
            .iter()
            .filter(|(_, held)| held.until.is_some_and(|until| until <= turn))
            .map(|(key, _)| *key)
            .collect();
        for key in expired {
            self.delete(key);
        }
        if self.entropy.below(3) > 0 {
            self.flush();
        }
        if self.held.len() > 60_000 {
            self.empty();
        }
    }

    fn arriving(&self) -> Vec<u32> {
        self.held
            .iter()
            .filter(|(_, held)| matches!(held.state, State::Arriving(_)))
            .map(|(key, _)| *key)
            .collect()
    }

    /// A whole bundle; where it is refused though there is room, it is offered again until it must be taken.
    fn offer(&mut self, octets: u64, turns: Option<u64>) {
        if !self.admits(octets) {
            // The store may take it or not; it must bear it.
            if self.entropy.below(4) == 0 && octets < self.options.quota_octets / 8 {
                self.put(octets, turns);
            }
            return;
        }
        let mut refused = self.put(octets, turns);
        let mut waited = 0;
        while refused {
            if waited > TURNS {
                let statistics = self.store().statistics();
                let text = format!(
                    "room was made and is not given: {octets} octets beside {} of {} promised, {} arriving, {} read, capacity {:?}, taken {}, {:?}",
                    self.live_octets(),
                    self.promised_octets(),
                    self.arriving().len(),
                    self.releases.len(),
                    self.capacity,
                    self.disk.taken_octets(),
                    statistics,
                );
                self.fail(&text);
            }
            // A bundle that is read for long holds its former places.
            for (at, _) in &mut self.releases {
                *at = (*at).min(self.turn);
            }
            for _ in 0..PAUSE {
                self.flush();
            }
            waited += PAUSE;
            if !self.admits(octets) {
                return;
            }
            refused = self.put(octets, turns);
        }
    }

    /// Puts a bundle; whether it was refused.
    fn put(&mut self, octets: u64, turns: Option<u64>) -> bool {
        let Some(key) = self.begin(octets) else {
            return false;
        };
        let number = self.held[&key].number;
        self.held.get_mut(&key).unwrap().until = turns.map(|turns| self.turn + turns);
        self.give(key, u64::MAX);
        let crashes = self.crashes;
        self.flush();
        crashes == self.crashes && self.held.get(&key).is_none_or(|held| held.number != number)
    }

    /// Everything goes, however full the store is.
    fn empty(&mut self) {
        while !self.batch.is_empty() || !self.held.is_empty() {
            for key in self.arriving() {
                self.batch.push(StoreCommand::Abandon {
                    key: BundleKey(key),
                });
            }
            let keys: Vec<u32> = self.held.keys().copied().collect();
            for part in keys.chunks(100) {
                for key in part {
                    self.delete(*key);
                }
                self.flush();
            }
        }
        let before = self.turn;
        let half = self.options.quota_octets / 2;
        if self.admits(half) {
            self.offer(half, Some(0));
        }
        if self.turn - before > 5_000 {
            self.fail("an empty store takes half its quota slowly");
        }
    }
}

/// A disk whose power fails after some writes and syncs.
struct Cut {
    disk: Arc<dyn Disk>,
    left: std::sync::atomic::AtomicU64,
}

impl Cut {
    fn spend(&self) -> Result<(), dhow_store::DiskError> {
        use std::sync::atomic::Ordering::Relaxed;
        let spent = self
            .left
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        spent
            .map(|_| ())
            .map_err(|_| std::io::Error::other("the power is off").into())
    }
}

impl Disk for Cut {
    fn size(&self) -> Result<u64, dhow_store::DiskError> {
        self.disk.size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), dhow_store::DiskError> {
        self.disk.read_at(offset, out)
    }

    fn write_at(
        &self,
        offset: u64,
        octets: &[std::io::IoSlice<'_>],
    ) -> Result<(), dhow_store::DiskError> {
        self.spend()?;
        self.disk.write_at(offset, octets)
    }

    fn resize(&self, octets: u64) -> Result<(), dhow_store::DiskError> {
        self.spend()?;
        self.disk.resize(octets)
    }

    fn reserve(&self, from: u64, until: u64) -> Result<(), dhow_store::DiskError> {
        self.spend()?;
        self.disk.reserve(from, until)
    }

    fn sync(&self) -> Result<(), dhow_store::DiskError> {
        self.spend()?;
        self.disk.sync()
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn full_store_can_be_emptied_and_gives_the_room_that_was_made() {
    let octets = number("EDGE_OCTETS", SEED_OCTETS);
    let first = number("EDGE_FROM", 1);
    let mut virtual_time = Duration::ZERO;
    let (mut refused, mut crashes, mut moved) = (0, 0, 0);
    let seeds = first..first + number("EDGE_SEEDS", SEEDS);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let mut tenant = Tenant::new(seed, octets);
        let mut steps = 0;
        while tenant.stored_octets < octets && steps < 60_000 {
            tenant.step();
            steps += 1;
        }
        tenant.empty();
        virtual_time += tenant.now;
        refused += tenant.refused;
        crashes += tenant.crashes;
        moved += tenant.moved;
    }
    println!(
        "{count} seeds, {:.1} hours of virtual time: {refused} refusals, {moved} moves, {crashes} crashes",
        virtual_time.as_secs_f64() / 3600.0
    );
    assert!(
        refused > 0 && moved > 0 && crashes > 0,
        "the edge was reached"
    );
}
