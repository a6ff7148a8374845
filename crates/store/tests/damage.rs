//! Damage to octets that were durable, and the order of writes, syncs and events.
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

use std::io::IoSlice;
use std::sync::{Arc, Mutex};

use dhow_bundle::DtnTime;
use dhow_bundle::storage::{BundleKey, StoreCommand, StoreEvent};
use dhow_store::{Disk, DiskError, FaultyDisk, MemoryDisk, Store, Verdict};
use world::{bundle, contents, octets, options, put, read, stored, sum};

fn faulty() -> (Arc<FaultyDisk>, Store) {
    let disk = Arc::new(FaultyDisk::new());
    let (store, _) = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap();
    (disk, store)
}

#[test]
fn rotten_payload_is_found_by_verification_and_the_rest_stays() {
    let (disk, mut store) = faulty();
    put(&mut store, 0, 500);
    put(&mut store, 1, 500);
    let mut events = Vec::new();
    store.commit(&mut events);
    let (_, extents) = stored(&events[0]).unwrap();
    disk.rot(extents.as_slice()[0].offset + 7, 1);
    assert_eq!(store.verify(BundleKey(0)).unwrap(), Verdict::Corrupt);
    assert_eq!(store.verify(BundleKey(1)).unwrap(), Verdict::Intact);
    assert_eq!(store.verify(BundleKey(2)).unwrap(), Verdict::Absent);
    events.clear();
    store.commit(&mut events);
    assert!(
        matches!(
            events.as_slice(),
            [StoreEvent::Corrupt { key: BundleKey(0) }]
        ),
        "{events:?}"
    );
}

#[test]
fn rotten_commit_in_the_tail_is_quarantined_and_later_bundles_stay() {
    for reach in [8, 700 + 32 + 3] {
        // The header, then the body.
        let (disk, mut store) = faulty();
        let mut events = Vec::new();
        for key in 0..3 {
            put(&mut store, key, 700);
            store.commit(&mut events);
        }
        store.close(&mut Vec::new());
        let (_, extents) = stored(&events[1]).unwrap();
        disk.rot(extents.as_slice()[0].offset - 32 + reach, 0x10);
        let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::with_octets(disk.octets()));
        let (store, recovered) = Store::open(Arc::clone(&disk), options()).unwrap();
        assert_eq!(
            (recovered.quarantined, recovered.torn_octets),
            (1, 0),
            "octet {reach}"
        );
        let left = vec![
            (bundle(0, 700), sum(&octets(0, 700))),
            (bundle(2, 700), sum(&octets(2, 700))),
        ];
        assert_eq!(contents(&store, recovered), left);
        // The opened store has settled the matter.
        let (_, recovered) = Store::open(disk, options()).unwrap();
        assert_eq!((recovered.quarantined, recovered.bundles.count()), (0, 2));
    }
}

#[test]
fn damaged_checkpoint_loses_no_bundle() {
    let (disk, mut store) = faulty();
    for key in 0..3 {
        put(&mut store, key, 700);
    }
    store.commit(&mut Vec::new());
    drop(store);
    let (_, before) = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap();
    assert_eq!(before.bundles.count(), 3);
    // The checkpoint of that opening is the second record of a segment; its superblock is one of the two.
    let octets = disk.octets();
    let newest = if octets[24] > octets[4096 + 24] {
        0
    } else {
        4096
    };
    let segment = u32::from_le_bytes(octets[newest + 40..newest + 44].try_into().unwrap());
    let offset = u32::from_le_bytes(octets[newest + 44..newest + 48].try_into().unwrap());
    disk.rot(
        8192 + u64::from(segment) * 65_536 + u64::from(offset) + 33,
        4,
    );
    let (store, recovered) = Store::open(disk, options()).unwrap();
    assert!(recovered.checkpoint_lost);
    assert_eq!(contents(&store, recovered).len(), 3);
}

#[test]
fn one_superblock_is_enough() {
    let (disk, mut store) = faulty();
    put(&mut store, 0, 700);
    store.commit(&mut Vec::new());
    drop(store);
    let octets = disk.octets();
    let older = if octets[24] > octets[4096 + 24] {
        4096
    } else {
        0
    };
    disk.rot(older + 30, 1);
    let (_, recovered) = Store::open(disk, options()).unwrap();
    assert_eq!(recovered.bundles.count(), 1);
}

#[test]
fn failed_sync_refuses_new_bundles_and_keeps_deletions() {
    let (disk, mut store) = faulty();
    put(&mut store, 0, 100);
    store.commit(&mut Vec::new());
    put(&mut store, 1, 100);
    let remember = Some((bundle(0, 100).id, DtnTime::from_millis(9)));
    store.handle([StoreCommand::Delete {
        key: BundleKey(0),
        remember,
    }]);
    disk.fail_after(0, dhow_store::Failure::InputOutput);
    let mut events = Vec::new();
    store.commit(&mut events);
    assert!(store.failure().is_some());
    assert!(
        matches!(
            events.as_slice(),
            [StoreEvent::Refused {
                key: BundleKey(1),
                ..
            }]
        ),
        "{events:?}"
    );
    events.clear();
    store.commit(&mut events);
    assert!(store.failure().is_none());
    assert!(
        matches!(
            events.as_slice(),
            [StoreEvent::Deleted { key: BundleKey(0) }]
        ),
        "{events:?}"
    );
    let disk = Arc::new(disk.after_crash(0));
    let (_, recovered) = Store::open(disk, options()).unwrap();
    assert_eq!((recovered.bundles.count(), recovered.removed.len()), (0, 1));
}

#[test]
fn disk_that_cannot_grow_refuses_bundles_and_lets_them_be_deleted() {
    let (disk, mut store) = faulty();
    disk.limit(8192 + 5 * 65_536);
    let mut kept = Vec::new();
    for key in 0..200 {
        put(&mut store, key, 5_000);
        let mut events = Vec::new();
        store.commit(&mut events);
        kept.extend(events.iter().filter_map(stored));
    }
    assert!(store.failure().is_none());
    assert!((20..80).contains(&kept.len()), "{}", kept.len());
    for (key, extents) in &kept {
        assert_eq!(sum(&read(&store, extents)), sum(&octets(key.0, 5_000)));
        store.handle([StoreCommand::Delete {
            key: *key,
            remember: None,
        }]);
    }
    let mut events = Vec::new();
    store.commit(&mut events);
    assert_eq!(
        events
            .iter()
            .filter(|event| matches!(event, StoreEvent::Deleted { .. }))
            .count(),
        kept.len()
    );
    put(&mut store, 300, 5_000);
    events.clear();
    store.commit(&mut events);
    assert_eq!(events.iter().filter_map(stored).count(), 1, "{events:?}");
}

/// Says what is done, in order.
struct Recording {
    disk: MemoryDisk,
    log: Arc<Mutex<Vec<String>>>,
}

impl Disk for Recording {
    fn size(&self) -> Result<u64, DiskError> {
        self.disk.size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        self.disk.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        self.log.lock().unwrap().push("write".to_owned());
        self.disk.write_at(offset, octets)
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        self.disk.resize(octets)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.log.lock().unwrap().push("sync".to_owned());
        self.disk.sync()
    }
}

#[test]
fn one_write_and_one_sync_come_before_the_events_of_a_batch() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let disk = Recording {
        disk: MemoryDisk::new(),
        log: Arc::clone(&log),
    };
    let (mut store, _) = Store::open(Arc::new(disk), options()).unwrap();
    log.lock().unwrap().clear();
    let commands: Vec<StoreCommand> = (0..50)
        .flat_map(|key| [world::append(key, octets(key, 90)), world::commit(key, 90)])
        .collect();
    store.handle(commands);
    log.lock().unwrap().push("handled".to_owned());
    let mut events = Vec::new();
    store.settle(&mut events);
    assert!(events.is_empty(), "no event before the sync");
    store.sync();
    store.settle(&mut events);
    assert_eq!(events.iter().filter_map(stored).count(), 50);
    assert_eq!(*log.lock().unwrap(), ["write", "handled", "sync"]);
}

#[test]
fn batch_of_verify_or_released_alone_needs_no_sync() {
    let (_, mut store) = faulty();
    let mut events = Vec::new();
    for key in 0..3 {
        put(&mut store, key, 700);
        store.commit(&mut events);
    }
    let before = store.statistics().syncs;
    for _ in 0..3 {
        for key in 0..3 {
            let key = BundleKey(key);
            events.clear();
            store.handle([StoreCommand::Verify { key }, StoreCommand::Released { key }]);
            store.commit(&mut events);
            assert!(
                matches!(events.as_slice(), [StoreEvent::Verified { key: of }] if *of == key),
                "{events:?}"
            );
        }
    }
    assert_eq!(store.statistics().syncs, before);
}
