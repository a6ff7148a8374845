//! A store of the plainest kind: what has been synced survives a crash, nothing else does.

use std::collections::BTreeMap;

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
    /// What is on the disk.
    pub kept: Kept,
    log: Vec<u8>,
    arriving: BTreeMap<BundleKey, Vec<Extent>>,
    committed: BTreeMap<BundleKey, (u64, Vec<Extent>, StoredBundle)>,
    next: u64,
    waiting: Vec<StoreCommand>,
    /// Bundles whose octets are damaged.
    pub rotten: Vec<BundleKey>,
    /// Commits beyond this many bundles are refused.
    pub capacity: Option<usize>,
}

impl Store {
    /// What a restart finds.
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

    pub fn is_clean(&self) -> bool {
        self.waiting.is_empty()
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
        let mut events = Vec::new();
        for command in std::mem::take(&mut self.waiting) {
            match command {
                StoreCommand::Append { key, octets } => {
                    assert!(
                        !self.committed.contains_key(&key),
                        "a key in use was appended to"
                    );
                    let extent = match octets {
                        Piece::Octets(octets) => self.write(&octets),
                        Piece::Extent(extent) => {
                            let octets = self.read(&[extent]);
                            self.write(&octets)
                        }
                    };
                    let extents = self.arriving.entry(key).or_default();
                    extents.push(extent);
                    let octets = extents.iter().map(|extent| extent.length).sum();
                    events.push(StoreEvent::Durable { key, octets });
                }
                StoreCommand::Commit { key, bundle } => {
                    let extents = self
                        .arriving
                        .remove(&key)
                        .expect("octets come before their commit");
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
                    assert!(
                        u64::try_from(octets.len()).unwrap() > named,
                        "a bundle is longer than its parts"
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
                    self.arriving.remove(&key);
                    events.push(StoreEvent::Deleted { key });
                }
                StoreCommand::Delete { key, remember } => {
                    let (number, ..) = self
                        .committed
                        .remove(&key)
                        .expect("only what is held is deleted");
                    self.kept.bundles.remove(&number);
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
                StoreCommand::Released { .. } => {}
            }
        }
        events
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
