//! A store of the plainest kind: synced octets survive a crash, nothing else does.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dhow_bundle::storage::{
    BundleKey, Extent, Extents, Piece, StoreCommand, StoreEvent, StoreRefusal, StoredBundle,
};
use dhow_bundle::{BundleId, DtnTime};

#[derive(Clone, Default)]
pub struct Kept {
    pub bundles: BTreeMap<u64, (StoredBundle, Bytes)>,
    pub reserved: (DtnTime, u64),
    pub removed: Vec<(BundleId, DtnTime)>,
}

#[derive(Default)]
pub struct Store {
    /// The octets on the disk.
    pub kept: Kept,
    /// Octets that came with their checksum.
    pub summed_octets: usize,
    log: Vec<u8>,
    arriving: BTreeMap<BundleKey, Vec<Extent>>,
    /// Octets behind gaps, by their positions.
    early: BTreeMap<BundleKey, BTreeMap<u64, Extent>>,
    /// Octets that were placed behind gaps.
    pub early_octets: u64,
    committed: BTreeMap<BundleKey, (u64, Vec<Extent>, StoredBundle)>,
    next: u64,
    waiting: Vec<StoreCommand>,
    /// Bundles whose octets are damaged.
    pub rotten: Vec<BundleKey>,
    /// Commits beyond this many bundles are refused.
    pub capacity: Option<usize>,
    /// Whether every append and commit is refused.
    pub refusing: bool,
    /// Bundles refused until they are abandoned.
    refused: BTreeSet<BundleKey>,
    /// The places that bundles had before they were moved.
    old: BTreeMap<BundleKey, Vec<Extent>>,
    moved: Vec<StoreEvent>,
    /// The number of extents of watched bundles that were told.
    watched: BTreeMap<BundleKey, usize>,
    /// The number of extents of a bundle before its division.
    divided: BTreeMap<BundleKey, usize>,
}

impl Store {
    /// The octets that a restart finds.
    pub fn recover(kept: Kept) -> (Self, Vec<(StoredBundle, Extents)>) {
        let mut store = Self {
            kept: kept.clone(),
            ..Self::default()
        };
        let mut found = Vec::new();
        for (key, (number, (bundle, octets))) in (0_u32..).zip(kept.bundles) {
            let extent = store.write(&octets);
            store
                .committed
                .insert(BundleKey(key), (number, vec![extent], bundle.clone()));
            store.next = store.next.max(number + 1);
            found.push((bundle, Extents::One(extent)));
        }
        (store, found)
    }

    pub fn handle(&mut self, command: StoreCommand) {
        self.waiting.push(command);
    }

    /// Damage the payload of a bundle where it lies.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn rot(&mut self, key: BundleKey) {
        let (_, extents, bundle) = self.committed.get(&key).expect("only what is held rots");
        let place = extents[0].offset + u64::from(bundle.header_octets) + 1;
        self.log[usize::try_from(place).unwrap()] ^= 0x10;
        self.rotten.push(key);
    }

    pub fn is_clean(&self) -> bool {
        self.waiting.is_empty() && self.moved.is_empty()
    }

    /// Move one bundle that is held, unless it has just been moved.
    pub fn relocate(&mut self, which: u64) {
        let still: Vec<BundleKey> = self
            .committed
            .keys()
            .copied()
            .filter(|key| !self.old.contains_key(key))
            .collect();
        let Some(&key) = still.get(usize::try_from(which).unwrap() % still.len().max(1)) else {
            return;
        };
        let before = self.committed[&key].1.clone();
        let octets = self.read(&before);
        let extent = self.write(&octets);
        self.committed.get_mut(&key).unwrap().1 = vec![extent];
        self.old.insert(key, before);
        let extents = Extents::One(extent);
        self.moved.push(StoreEvent::Relocated { key, extents });
    }

    /// A reader of these places now reads octets of another bundle.
    fn scribble(&mut self, extents: Vec<Extent>) {
        for extent in extents {
            let arriving = self.arriving.values().flatten();
            let held = self.committed.values().flat_map(|(_, extents, _)| extents);
            let left = self.old.values().flatten();
            if arriving
                .chain(held)
                .chain(left)
                .any(|other| *other == extent)
            {
                // Another bundle shares it.
                continue;
            }
            let start = usize::try_from(extent.offset).unwrap();
            let end = start + usize::try_from(extent.length).unwrap();
            self.log[start..end].fill(0xEE);
        }
    }

    pub fn read(&self, extents: &[Extent]) -> Bytes {
        let mut out = Vec::new();
        for extent in extents {
            let start = usize::try_from(extent.offset).unwrap();
            out.extend_from_slice(
                &self.log[start..start + usize::try_from(extent.length).unwrap()],
            );
        }
        out.into()
    }

    /// Carry out all that waits and make it durable.
    pub fn sync(&mut self) -> Vec<StoreEvent> {
        let mut events = std::mem::take(&mut self.moved);
        for command in std::mem::take(&mut self.waiting) {
            match command {
                StoreCommand::Append { key, octets, crc } => {
                    assert!(
                        !self.committed.contains_key(&key),
                        "a key in use was appended to"
                    );
                    if self.refusing && self.refused.insert(key) {
                        events.push(StoreEvent::Refused {
                            key,
                            refusal: StoreRefusal::Disk,
                        });
                    }
                    if self.refused.contains(&key) {
                        continue;
                    }
                    let extent = match octets {
                        Piece::Octets(octets) => {
                            if let Some(crc) = crc {
                                assert_eq!(crc, dhow_bundle::crc::crc32c(&octets));
                                self.summed_octets += octets.len();
                            }
                            self.write(&octets)
                        }
                        Piece::Extent(extent) => {
                            let octets = self.read(&[extent]);
                            self.write(&octets)
                        }
                    };
                    self.arriving.entry(key).or_default().push(extent);
                    events.push(self.join(key));
                }
                StoreCommand::AppendAt { key, at, octets } => {
                    if self.refusing && self.refused.insert(key) {
                        let refusal = StoreRefusal::Disk;
                        events.push(StoreEvent::Refused { key, refusal });
                    }
                    if self.refused.contains(&key) {
                        continue;
                    }
                    let extent = self.write(&octets);
                    self.early_octets += extent.length;
                    let before = self.early.entry(key).or_default().insert(at, extent);
                    assert!(before.is_none(), "octets are placed once");
                    events.push(self.join(key));
                }
                StoreCommand::Note { key, note } => {
                    let number = self.committed.get(&key).map(|(number, ..)| *number);
                    let kept = number.and_then(|number| self.kept.bundles.get_mut(&number));
                    if let Some((bundle, _)) = kept {
                        bundle.note = note;
                        let refusal = None;
                        events.push(StoreEvent::Noted { key, refusal });
                    }
                }
                StoreCommand::Watch { key } => {
                    if self.arriving.contains_key(&key) {
                        self.watched.insert(key, 0);
                    }
                }
                StoreCommand::Divide { key } => {
                    if let Some(extents) = self.arriving.get(&key) {
                        self.divided.insert(key, extents.len());
                    }
                }
                StoreCommand::Share { key, from } => {
                    let division = self.divided.get(&from).copied().unwrap_or(0);
                    let shared = self.arriving.get(&from);
                    let Some(extents) = shared.map(|extents| extents[division..].to_vec()) else {
                        self.refused.insert(key);
                        let refusal = StoreRefusal::Disk;
                        events.push(StoreEvent::Refused { key, refusal });
                        continue;
                    };
                    self.arriving.entry(key).or_default().extend(extents);
                }
                StoreCommand::Commit { key, bundle } => {
                    self.watched.remove(&key);
                    self.divided.remove(&key);
                    if self.refused.contains(&key) {
                        events.push(StoreEvent::Refused {
                            key,
                            refusal: StoreRefusal::Disk,
                        });
                        continue;
                    }
                    let extents = self
                        .arriving
                        .remove(&key)
                        .expect("octets come before their commit");
                    let early = self.early.remove(&key).unwrap_or_default();
                    assert!(early.is_empty(), "nothing is missing");
                    if self
                        .capacity
                        .is_some_and(|capacity| self.committed.len() >= capacity)
                    {
                        events.push(StoreEvent::Refused {
                            key,
                            refusal: StoreRefusal::Full,
                        });
                        continue;
                    }
                    let octets = self.read(&extents);
                    let named = u64::from(bundle.header_octets) + bundle.payload_octets;
                    // A break ends those of version 7.
                    let least = named + u64::from(bundle.version == 7);
                    assert!(
                        u64::try_from(octets.len()).unwrap() >= least,
                        "a bundle is as long as its parts"
                    );
                    self.kept
                        .bundles
                        .insert(self.next, (*bundle.clone(), octets));
                    self.committed
                        .insert(key, (self.next, extents.clone(), *bundle));
                    self.next += 1;
                    events.push(StoreEvent::Stored {
                        key,
                        extents: Extents::Many(extents.into()),
                    });
                }
                StoreCommand::Abandon { key } => {
                    let mut extents = self.arriving.remove(&key);
                    let early = self.early.remove(&key).unwrap_or_default();
                    extents.get_or_insert_default().extend(early.into_values());
                    self.watched.remove(&key);
                    self.divided.remove(&key);
                    self.scribble(extents.unwrap_or_default());
                    self.refused.remove(&key);
                    events.push(StoreEvent::Deleted { key });
                }
                StoreCommand::Delete { key, remember } => {
                    if let Some((number, extents, _)) = self.committed.remove(&key) {
                        self.kept.bundles.remove(&number);
                        self.scribble(extents);
                    } else {
                        // One that could not be kept, and is remembered all the same.
                        assert!(remember.is_some(), "only what is held is deleted");
                        let extents = self.arriving.remove(&key);
                        self.scribble(extents.unwrap_or_default());
                        self.refused.remove(&key);
                    }
                    if let Some(extents) = self.old.remove(&key) {
                        self.scribble(extents);
                    }
                    self.kept.removed.extend(remember);
                    events.push(StoreEvent::Deleted { key });
                }
                StoreCommand::Reserve { time, sequence } => {
                    self.kept.reserved = (time, sequence);
                    events.push(StoreEvent::Reserved { time, sequence });
                }
                StoreCommand::Verify { key } => {
                    let rotten = self.rotten.contains(&key);
                    events.push(if rotten {
                        StoreEvent::Corrupt { key }
                    } else {
                        StoreEvent::Verified { key }
                    });
                }
                StoreCommand::Released { key } => {
                    let extents = self.old.remove(&key);
                    self.scribble(extents.unwrap_or_default());
                }
            }
        }
        for (key, told) in &mut self.watched {
            let extents = self.arriving.get(key).map_or(&[][..], |all| &all[*told..]);
            if !extents.is_empty() {
                *told += extents.len();
                let (key, extents) = (*key, extents.to_vec());
                events.push(StoreEvent::Written { key, extents });
            }
        }
        events
    }

    /// Join what follows the octets of an arriving bundle without a gap, and tell how many are there.
    fn join(&mut self, key: BundleKey) -> StoreEvent {
        let extents = self.arriving.entry(key).or_default();
        let early = self.early.entry(key).or_default();
        let mut octets = extents.iter().map(|extent| extent.length).sum();
        while let Some(next) = early.remove(&octets) {
            octets += next.length;
            extents.push(next);
        }
        match early.values().map(|extent| extent.length).sum() {
            0 => StoreEvent::Durable { key, octets },
            behind => StoreEvent::DurableParts {
                key,
                octets,
                behind,
            },
        }
    }

    fn write(&mut self, octets: &[u8]) -> Extent {
        let offset = u64::try_from(self.log.len()).unwrap();
        self.log.extend_from_slice(octets);
        Extent {
            offset,
            length: u64::try_from(octets.len()).unwrap(),
        }
    }
}
