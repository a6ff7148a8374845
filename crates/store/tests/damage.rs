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
use dhow_store::{
    Cause, Count, Disk, DiskError, FaultyDisk, Loss, LostPlace, MemoryDisk, Store, Verdict,
};
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
            (recovered.loss.bundles, recovered.torn_octets),
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
        assert_eq!((recovered.loss.bundles, recovered.bundles.count()), (0, 2));
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
    disk.limit(8192 + 10 * 65_536);
    let capacity = store.capacity_octets().unwrap();
    assert!((100_000..300_000).contains(&capacity), "{capacity}");
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

    fn reserve(&self, from: u64, until: u64) -> Result<(), DiskError> {
        self.disk.reserve(from, until)
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

/// A store that was closed with bundles 0 to `count` - 1, and where their commit records begin.
fn closed(count: u32, length: usize) -> (Vec<u8>, Vec<u64>) {
    let (disk, mut store) = faulty();
    let mut events = Vec::new();
    for key in 0..count {
        put(&mut store, key, length);
        store.commit(&mut events);
    }
    let places = events
        .iter()
        .filter_map(stored)
        .map(|(_, extents)| extents.as_slice()[0].offset - 32)
        .collect();
    store.close(&mut Vec::new());
    (disk.octets(), places)
}

fn opened(octets: Vec<u8>) -> (Store, dhow_store::Recovered) {
    Store::open(Arc::new(FaultyDisk::with_octets(octets)), options()).unwrap()
}

#[test]
fn each_damaged_commit_is_counted_once_and_told_by_its_place() {
    let (log, places) = closed(5, 700);
    let body = places[2] as usize + 32 + 700;
    for octets in [1, 2, 8, 20] {
        let mut log = log.clone();
        log[body..body + octets]
            .iter_mut()
            .for_each(|octet| *octet ^= 0x5a);
        let (_, recovered) = opened(log);
        let place = LostPlace {
            id: None,
            position: places[2],
            cause: Cause::Commit,
        };
        let expected = Loss {
            bundles: 1,
            places: vec![place],
            ..Loss::default()
        };
        assert_eq!(recovered.loss, expected);
        assert_eq!(recovered.bundles.count(), 4);
    }
}

#[test]
fn damage_to_a_deleted_bundle_or_a_mark_loses_nothing() {
    let (disk, mut store) = faulty();
    let mut events = Vec::new();
    for key in 0..3 {
        put(&mut store, key, 700);
        store.commit(&mut events);
    }
    store.handle([StoreCommand::Delete {
        key: BundleKey(1),
        remember: None,
    }]);
    store.commit(&mut Vec::new());
    store.close(&mut Vec::new());
    let (_, extents) = stored(&events[1]).unwrap();
    let own = extents.as_slice()[0];
    disk.rot(own.offset + own.length + 3, 1);
    // The mark between the second bundle and the third: its body is behind a header of 32 octets.
    let (_, third) = stored(&events[2]).unwrap();
    disk.rot(third.as_slice()[0].offset - 32 - 8, 1);
    let (_, recovered) = opened(disk.octets());
    assert!(recovered.loss.is_empty(), "{:?}", recovered.loss);
    assert_eq!(recovered.bundles.count(), 2);
}

#[test]
fn log_that_ends_before_it_was_closed_is_noticed() {
    let (log, places) = closed(5, 700);
    for (cut, left) in [
        (places[3] + 100, 3),
        (places[0] + 1, 0),
        (places[4] + 32 + 700 + 5, 4),
        (8192 + 40, 0),
        (8192, 0),
    ] {
        for zeros in [false, true] {
            let mut log = log.clone();
            if zeros {
                log[cut as usize..].fill(0);
            } else {
                log.truncate(cut as usize);
            }
            let (_, recovered) = opened(log);
            assert_eq!(recovered.loss.bundles, 5 - left, "cut at {cut}");
            let end = recovered.loss.early_end.unwrap();
            assert!(end.found <= cut && end.expected > places[4], "{end:?}");
            assert_eq!(recovered.bundles.count() as u64, left);
        }
    }
    let (store, recovered) = opened(log);
    assert!(recovered.loss.is_empty(), "{:?}", recovered.loss);
    drop((store, recovered));
}

#[test]
fn loss_is_told_once_and_the_store_goes_on() {
    let (mut log, places) = closed(5, 700);
    log.truncate(places[3] as usize);
    let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::with_octets(log));
    let (mut store, recovered) = Store::open(Arc::clone(&disk), options()).unwrap();
    assert_eq!(recovered.loss.bundles, 2);
    put(&mut store, 7, 700);
    store.commit(&mut Vec::new());
    drop(store);
    let (store, recovered) = Store::open(Arc::clone(&disk), options()).unwrap();
    assert!(recovered.loss.is_empty(), "{:?}", recovered.loss);
    assert_eq!(recovered.bundles.count(), 4);
    store.close(&mut Vec::new());
    let (_, recovered) = Store::open(disk, options()).unwrap();
    assert!(recovered.loss.is_empty(), "{:?}", recovered.loss);
}

#[test]
fn loss_is_noticed_beyond_the_first_run_and_segment() {
    // Three runs of several segments each, the last of which closes.
    let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::new());
    for run in 0..3 {
        let (mut store, recovered) = Store::open(Arc::clone(&disk), options()).unwrap();
        assert!(recovered.loss.is_empty(), "{:?}", recovered.loss);
        for key in 0..20 {
            put(&mut store, 100 * (run + 1) + key, 9_000);
            store.commit(&mut Vec::new());
        }
        store.close(&mut Vec::new());
    }
    let mut log = vec![0; disk.size().unwrap() as usize];
    disk.read_at(0, &mut log).unwrap();
    let mut cut = 8192;
    while cut < log.len() {
        let (_, recovered) = opened(log[..cut].to_vec());
        let (lost, early) = (recovered.loss.bundles, recovered.loss.early_end);
        let left = recovered.bundles.count() as u64;
        assert_eq!(lost + left, 60, "cut at {cut}");
        // A segment that lies behind others in the file may have come before them in the log.
        assert_eq!(lost > 0, left < 60, "cut at {cut}");
        assert!(lost > 0 || early.is_none(), "cut at {cut}");
        cut += 30_000;
    }
    // A segment in the middle is nothing but zeros.
    for segment in 0..(log.len() - 8192) / 65_536 {
        let mut log = log.clone();
        let start = 8192 + segment * 65_536;
        let end = log.len().min(start + 65_536);
        log[start..end].fill(0);
        let (_, recovered) = opened(log);
        let lost = recovered.loss.bundles;
        assert_eq!(
            lost + recovered.bundles.count() as u64,
            60,
            "segment {segment}"
        );
    }
}

#[test]
fn bundle_whose_octets_are_gone_is_named() {
    let (disk, mut store) = faulty();
    let mut events = Vec::new();
    put(&mut store, 3, 150_000);
    put(&mut store, 4, 700);
    store.commit(&mut events);
    store.close(&mut Vec::new());
    let (_, extents) = stored(&events[0]).unwrap();
    let [_, second, ..] = extents.as_slice() else {
        panic!("{extents:?}")
    };
    let mut log = disk.octets();
    let segment = 8192 + (second.offset as usize - 8192) / 65_536 * 65_536;
    log[segment..segment + 65_536].fill(0);
    let (_, recovered) = opened(log);
    assert_eq!(recovered.loss.bundles, 1);
    let named: Vec<_> = recovered
        .loss
        .places
        .iter()
        .filter(|place| place.cause == Cause::Octets)
        .map(|place| place.id.clone())
        .collect();
    assert_eq!(named, vec![Some(bundle(3, 150_000).id)]);
}

#[test]
fn damage_before_the_last_durable_mark_is_told_after_a_crash() {
    let (disk, mut store) = faulty();
    let mut events = Vec::new();
    for key in 0..5 {
        put(&mut store, key, 700);
        store.commit(&mut events);
    }
    drop(store);
    let (_, extents) = stored(&events[1]).unwrap();
    let own = extents.as_slice()[0];
    disk.rot(own.offset + own.length + 3, 1);
    let (_, extents) = stored(&events[2]).unwrap();
    disk.rot(extents.as_slice()[0].offset - 32, 1);
    let (_, recovered) = opened(disk.octets());
    let causes: Vec<Cause> = recovered
        .loss
        .places
        .iter()
        .map(|place| place.cause)
        .collect();
    assert_eq!(causes, [Cause::Commit, Cause::Stretch]);
    assert_eq!(
        (recovered.loss.bundles, recovered.loss.count),
        (1, Count::AtLeast)
    );
    assert_eq!(recovered.bundles.count(), 3);
}

#[test]
fn log_cut_before_its_checkpoint_is_noticed_after_a_crash() {
    let (disk, mut store) = faulty();
    put(&mut store, 0, 700);
    store.commit(&mut Vec::new());
    drop(store);
    let mut log = disk.octets();
    log.truncate(8192 + 8);
    let (_, recovered) = opened(log);
    assert!(recovered.checkpoint_lost);
    assert!(recovered.loss.early_end.is_some());
}
