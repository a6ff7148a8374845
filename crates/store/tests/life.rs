//! A bundle's life in the store, over a disk in memory and one in a file.
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
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Extents, Piece, StoreCommand, StoreEvent, StoreRefusal};
use dhow_bundle::{DtnTime, EndpointId};
use dhow_store::{
    CachingDisk, Disk, DiskError, Durability, FaultyDisk, FileDisk, History, LockError, MemoryDisk,
    OpenError, Options, Origin, Store, Verdict,
};
use world::{append, bundle, commit, contents, octets, options, put, read, stored, sum};

#[test]
fn small_bundles_come_back_in_order_after_reopening() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    for n in 0..100_u32 {
        put(&mut store, n, n as usize * 7);
    }
    let mut events = Vec::new();
    store.commit(&mut events);
    assert_eq!(events.len(), 100);
    drop(store);
    let (store, recovered) = Store::open(disk, options()).unwrap();
    assert_eq!(
        (
            recovered.loss.bundles,
            recovered.torn_octets,
            recovered.checkpoint_lost
        ),
        (0, 0, false)
    );
    let mut count = 0;
    for (key, found, extents) in recovered.bundles {
        assert_eq!(key, BundleKey(count));
        assert_eq!(found, bundle(count, count as usize * 7));
        assert_eq!(read(&store, &extents), octets(count, count as usize * 7));
        count += 1;
    }
    assert_eq!(count, 100);
}

#[test]
fn opening_without_memory_for_what_it_reads_finds_the_same() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    // Some in sealed segments, some of several segments, some behind the checkpoint; some are gone.
    for n in 0..400_u32 {
        put(
            &mut store,
            n,
            if n % 50 == 7 { 150_000 } else { n as usize * 3 },
        );
        if n % 9 == 0 {
            let key = BundleKey(n);
            store.handle([StoreCommand::Delete {
                key,
                remember: None,
            }]);
        }
        store.commit(&mut Vec::new());
    }
    drop(store);
    let found = |memory_octets| {
        let options = Options {
            memory_octets,
            ..options()
        };
        let (store, mut recovered) = Store::open(Arc::clone(&disk), options).unwrap();
        assert_eq!(recovered.loss.bundles, 0);
        let bundles = recovered.bundles.by_ref();
        let found: Vec<_> = bundles
            .map(|(key, bundle, extents)| (key, bundle, read(&store, &extents)))
            .collect();
        assert_eq!(recovered.bundles.unread(), 0);
        found
    };
    let all = found(u64::MAX);
    assert_eq!(all.len(), 400 - 45);
    for memory_octets in [0, 1_000, 20_000] {
        assert!(found(memory_octets) == all, "{memory_octets}");
    }
}

#[test]
fn a_full_summary_of_a_segment_keeps_its_room_beside_a_large_bundle() {
    // With one of these names and numbers of bundles, what a segment lists at its end is as long as it may be, to a few octets.
    for (name, small) in (0..100)
        .step_by(3)
        .flat_map(|name| (84..90_u32).map(move |small| (name, small)))
    {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
        let mut named = bundle(1, 10);
        named.id.source = EndpointId::Dtn("n".repeat(name).into());
        store.handle([
            append(0, octets(1, 10)),
            StoreCommand::Commit {
                key: BundleKey(0),
                bundle: Box::new(named),
            },
        ]);
        for key in 1..small {
            store.handle([append(key, octets(1, 10)), commit(key, 10)]);
        }
        put(&mut store, small, 130_000);
        let mut events = Vec::new();
        store.commit(&mut events);
        drop(store);
        let (_, recovered) = Store::open(disk, options()).unwrap();
        assert_eq!(
            recovered.bundles.count(),
            small as usize + 1,
            "{name} {small}"
        );
    }
}

#[test]
fn bundle_larger_than_a_segment_spans_several() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    put(&mut store, 3, 300_000);
    let mut events = Vec::new();
    store.commit(&mut events);
    let [
        StoreEvent::Stored {
            key: BundleKey(3),
            extents: Extents::Many(extents),
        },
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert!(extents.len() >= 5, "{extents:?}");
    assert_eq!(store.verify(BundleKey(3)).unwrap(), Verdict::Intact);
    drop(store);
    let (store, recovered) = Store::open(disk, options()).unwrap();
    assert_eq!(
        contents(&store, recovered),
        vec![(bundle(3, 300_000), sum(&octets(3, 300_000)))]
    );
}

#[test]
fn arriving_bundle_is_reported_durable_and_vanishes_without_commit() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    let mut events = Vec::new();
    store.handle([
        append(0, vec![1; 10]),
        append(1, vec![2; 20]),
        append(0, vec![3; 5]),
    ]);
    store.commit(&mut events);
    assert!(matches!(
        events.as_slice(),
        [
            StoreEvent::Durable {
                key: BundleKey(0),
                octets: 15
            },
            StoreEvent::Durable {
                key: BundleKey(1),
                octets: 20
            }
        ]
    ));
    events.clear();
    store.handle([append(0, vec![4; 5]), commit(0, 20)]);
    store.commit(&mut events);
    let [StoreEvent::Stored { extents, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(
        read(&store, extents),
        [vec![1; 10], vec![3; 5], vec![4; 5]].concat()
    );
    drop(store);
    let (_, recovered) = Store::open(disk, options()).unwrap();
    assert_eq!(recovered.bundles.count(), 1);
}

#[test]
fn deleted_bundle_stays_deleted_and_its_identity_is_remembered() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    put(&mut store, 0, 100);
    put(&mut store, 1, 100);
    let expiry = DtnTime::from_millis(77);
    let remember = Some((bundle(0, 100).id, expiry));
    store.handle([StoreCommand::Delete {
        key: BundleKey(0),
        remember,
    }]);
    store.handle([StoreCommand::Reserve {
        time: DtnTime::from_millis(5),
        sequence: 9,
    }]);
    let mut events = Vec::new();
    store.commit(&mut events);
    assert!(matches!(
        events.as_slice(),
        [
            StoreEvent::Stored { .. },
            StoreEvent::Stored { .. },
            StoreEvent::Deleted { key: BundleKey(0) },
            StoreEvent::Reserved { sequence: 9, .. }
        ]
    ));
    for _ in 0..3 {
        let (mut store, recovered) = Store::open(Arc::clone(&disk), options()).unwrap();
        assert_eq!(recovered.removed, vec![(bundle(0, 100).id, expiry)]);
        assert_eq!(
            (recovered.reserved_time, recovered.reserved_sequence),
            (DtnTime::from_millis(5), 9)
        );
        assert_eq!(
            contents(&store, recovered),
            vec![(bundle(1, 100), sum(&octets(1, 100)))]
        );
        store.forget_expired(DtnTime::from_millis(76));
        assert_eq!(store.remembered().len(), 1);
        store.forget_expired(expiry);
        assert_eq!(store.remembered().len(), 0);
    }
}

#[test]
fn stored_octets_can_be_appended_to_another_bundle() {
    let (mut store, _) = Store::open(Arc::new(MemoryDisk::new()), options()).unwrap();
    put(&mut store, 0, 200_000);
    let mut events = Vec::new();
    store.commit(&mut events);
    let StoreEvent::Stored { extents, .. } = events.remove(0) else {
        panic!()
    };
    for extent in extents.slice(10, 150_000) {
        store.handle([StoreCommand::Append {
            key: BundleKey(1),
            octets: Piece::Extent(extent),
            crc: None,
        }]);
    }
    store.handle([commit(1, 150_000)]);
    events.clear();
    store.commit(&mut events);
    let Some(StoreEvent::Stored { extents, .. }) = events.pop() else {
        panic!()
    };
    assert_eq!(read(&store, &extents), octets(0, 200_000)[10..150_010]);
}

#[test]
fn log_in_a_file_is_locked_and_comes_back() {
    let directory = std::env::temp_dir().join(format!("dhow-store-{}-life", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(&directory).unwrap());
    let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    let big = Bytes::from(octets(9, 20_000));
    let pieces = (0..2_000).map(|n| big.slice(n * 10..n * 10 + 10));
    let commands: Vec<_> = pieces
        .map(|octets| StoreCommand::Append {
            key: BundleKey(9),
            octets: Piece::Octets(octets),
            crc: None,
        })
        .collect();
    store.handle(commands);
    put(&mut store, 2, 9_000);
    store.handle([commit(9, 20_000)]);
    let mut events = Vec::new();
    store.commit(&mut events);
    let error = FileDisk::open(&directory).unwrap_err();
    let LockError::InUse { process, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*process, Some(std::process::id()));
    assert!(
        error.to_string().contains("is in use by process"),
        "{error}"
    );
    store.close(&mut events);
    drop(disk);
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(&directory).unwrap());
    let (store, recovered) = Store::open(Arc::clone(&disk), options()).unwrap();
    let found = contents(&store, recovered);
    assert_eq!(
        found,
        vec![
            (bundle(2, 9_000), sum(&octets(2, 9_000))),
            (bundle(9, 20_000), sum(&octets(9, 20_000)))
        ]
    );
    drop((store, disk));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn directory_whose_log_is_gone_is_told_from_a_new_one() {
    let directory = std::env::temp_dir().join(format!("dhow-store-{}-gone", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let open = || {
        let disk = FileDisk::open(&directory).unwrap();
        let history = disk.history();
        let (mut store, recovered) = Store::open(Arc::new(disk), options()).unwrap();
        put(&mut store, 1, 100);
        store.close(&mut Vec::new());
        (history, recovered.origin, recovered.bundles.count())
    };
    assert_eq!(open(), (History::Unused, Origin::New, 0));
    assert_eq!(open(), (History::Used, Origin::Existing, 1));
    let log = directory.join("log");
    std::fs::remove_file(&log).unwrap();
    assert_eq!(open(), (History::Used, Origin::New, 0));
    for octets in [0, 8192] {
        // Empty, and zeros where the superblocks were.
        std::fs::write(&log, vec![0; octets]).unwrap();
        assert_eq!(open(), (History::Used, Origin::New, 0));
    }
    assert_eq!(open(), (History::Used, Origin::Existing, 1));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn full_store_refuses_new_bundles_and_can_be_emptied() {
    let small = Options {
        quota_octets: 128 * 1024,
        ..options()
    };
    let (mut store, _) = Store::open(Arc::new(MemoryDisk::new()), small).unwrap();
    let mut kept = Vec::new();
    let mut refused = None;
    for n in 0..1000 {
        put(&mut store, n, 3_000);
        let mut events = Vec::new();
        store.commit(&mut events);
        kept.extend(events.iter().filter_map(stored).map(|(key, _)| key));
        if events.iter().any(|event| {
            matches!(
                event,
                StoreEvent::Refused {
                    refusal: StoreRefusal::Full,
                    ..
                }
            )
        }) {
            refused = Some(n);
            break;
        }
    }
    let refused = refused.expect("a store of 128 KiB does not hold 3 MB");
    assert!(kept.len() * 3_000 >= 128 * 1024, "{}", kept.len());
    assert!(store.failure().is_none());
    let mut events = Vec::new();
    store.handle([StoreCommand::Abandon {
        key: BundleKey(refused),
    }]);
    let count = kept.len();
    for key in kept {
        store.handle([StoreCommand::Delete {
            key,
            remember: None,
        }]);
        store.commit(&mut events);
    }
    let neither = |event: &&StoreEvent| {
        !matches!(
            event,
            StoreEvent::Deleted { .. } | StoreEvent::Relocated { .. }
        )
    };
    assert_eq!(events.iter().filter(neither).count(), 0);
    let deleted = events
        .iter()
        .filter(|event| matches!(event, StoreEvent::Deleted { .. }))
        .count();
    assert_eq!(deleted, count + 1);
    for n in 0..40 {
        put(&mut store, n, 3_000);
    }
    events.clear();
    store.commit(&mut events);
    assert_eq!(events.iter().filter_map(stored).count(), 40, "{events:?}");
}

#[test]
fn refused_key_takes_nothing_until_it_is_abandoned() {
    let disk = Arc::new(FaultyDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap();
    disk.fail_after(0, dhow_store::Failure::InputOutput);
    let mut events = Vec::new();
    store.handle([append(0, vec![1; 10])]);
    store.commit(&mut events);
    store.handle([append(0, vec![2; 10]), commit(0, 20)]);
    store.commit(&mut events);
    store.handle([StoreCommand::Abandon { key: BundleKey(0) }]);
    store.handle([append(0, vec![3; 10]), commit(0, 10)]);
    store.commit(&mut events);
    let shown: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
    assert!(
        matches!(
            events.as_slice(),
            [
                StoreEvent::Refused {
                    refusal: StoreRefusal::Disk,
                    ..
                },
                StoreEvent::Refused {
                    refusal: StoreRefusal::Disk,
                    ..
                },
                StoreEvent::Deleted { .. },
                StoreEvent::Stored { .. }
            ]
        ),
        "{shown:#?}"
    );
    let (_, extents) = stored(&events[3]).unwrap();
    assert_eq!(read(&store, &extents), vec![3; 10]);
}

#[test]
fn what_is_no_store_is_named_and_left_alone() {
    let open = |octets: Vec<u8>| {
        let disk = Arc::new(FaultyDisk::with_octets(octets.clone()));
        let result = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options());
        if result.is_err() {
            assert_eq!(disk.octets(), octets);
        }
        result.map(|_| ())
    };
    assert!(matches!(
        open(b"#!/bin/sh\n".to_vec()),
        Err(OpenError::NotAStore)
    ));
    assert!(matches!(open(vec![7; 100_000]), Err(OpenError::NotAStore)));
    assert!(open(vec![0; 8192]).is_ok());
    assert!(open(b"DHOW".to_vec()).is_ok());
    let mut newer = vec![0; 100_000];
    newer[..8].copy_from_slice(b"DHOWLOG\n");
    newer[8] = 3;
    let error = open(newer.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store was written by a newer version 3; this program reads up to version 2"
    );
    newer[8] = 1;
    assert!(matches!(open(newer), Err(OpenError::Damaged)));
    let wrong = Options {
        segment_octets: 65_537,
        ..options()
    };
    assert!(matches!(
        Store::open(Arc::new(MemoryDisk::new()), wrong),
        Err(OpenError::SegmentSize { .. })
    ));
}

#[test]
fn identifiers_remembered_stay_within_their_bound() {
    let bounded = Options {
        removed_bound: 10,
        ..options()
    };
    let (mut store, _) = Store::open(Arc::new(MemoryDisk::new()), bounded).unwrap();
    for n in 0..25 {
        put(&mut store, 0, 10);
        let remember = Some((bundle(n, 10).id, DtnTime::from_millis(1000)));
        store.handle([StoreCommand::Delete {
            key: BundleKey(0),
            remember,
        }]);
        store.commit(&mut Vec::new());
    }
    assert_eq!(store.remembered().first().unwrap().0, bundle(15, 10).id);
    assert_eq!(
        (
            store.statistics().remembered,
            store.statistics().remembered_dropped
        ),
        (10, 15)
    );
}

#[test]
fn store_without_durability_works_the_same() {
    let memory = Options {
        durability: Durability::Memory,
        ..options()
    };
    let (mut store, _) = Store::open(Arc::new(MemoryDisk::new()), memory).unwrap();
    put(&mut store, 0, 100_000);
    let mut events = Vec::new();
    store.commit(&mut events);
    let (_, extents) = stored(&events[0]).unwrap();
    assert_eq!(read(&store, &extents), octets(0, 100_000));
}

/// Prepares until there is nothing more to do; how many steps it took.
fn prepare_all(store: &mut Store) -> usize {
    let steps = (0..1000).take_while(|_| {
        let more = store.is_preparable();
        store.prepare();
        more
    });
    steps.count()
}

#[test]
fn idle_store_prepares_segments_once_and_uses_them_before_the_log_grows() {
    let disk = Arc::new(MemoryDisk::new());
    let ahead = Options {
        prepared_octets: 4 * 65_536,
        ..options()
    };
    let (mut store, _) = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, ahead.clone()).unwrap();
    assert_eq!(prepare_all(&mut store), 0, "nothing has come yet");
    for key in 0..6 {
        put(&mut store, key, 40_000);
        store.commit(&mut Vec::new());
    }
    assert!(prepare_all(&mut store) > 0);
    let prepared = store.statistics();
    assert_eq!(prepared.log_octets, disk.size().unwrap());
    for key in 6..9 {
        put(&mut store, key, 40_000);
        store.commit(&mut Vec::new());
    }
    assert_eq!(store.statistics().log_octets, prepared.log_octets);
    store.close(&mut Vec::new());

    let (mut store, recovered) = Store::open(disk, ahead).unwrap();
    assert_eq!(recovered.bundles.count(), 9);
    prepare_all(&mut store);
    let log_octets = store.statistics().log_octets;
    for key in 9..12 {
        put(&mut store, key, 40_000);
        store.commit(&mut Vec::new());
    }
    assert_eq!(store.statistics().log_octets, log_octets);
}

#[test]
fn preparation_keeps_within_the_quota_and_is_left_on_a_full_disk() {
    let greedy = Options {
        quota_octets: 4 * 65_536,
        prepared_octets: 1 << 30,
        ..options()
    };
    let (mut store, _) = Store::open(Arc::new(MemoryDisk::new()), greedy.clone()).unwrap();
    for key in 0..5 {
        put(&mut store, key, 40_000);
        store.commit(&mut Vec::new());
    }
    prepare_all(&mut store);
    // A quarter more than the quota, four segments that are set aside, and three.
    assert_eq!(store.statistics().log_octets, 8192 + 12 * 65_536);

    let disk = Arc::new(FaultyDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, greedy).unwrap();
    disk.limit(disk.size().unwrap() + 3 * 65_536 + 100_000);
    prepare_all(&mut store);
    assert!(store.failure().is_none(), "a full disk is no failure yet");
    put(&mut store, 0, 10_000);
    let mut events = Vec::new();
    store.commit(&mut events);
    assert_eq!(events.iter().filter_map(stored).count(), 1, "{events:?}");
}

#[test]
fn small_store_prepares_nothing_and_stays_small() {
    let small = Options {
        prepared_octets: 65_535,
        ..options()
    };
    let (mut store, _) = Store::open(Arc::new(MemoryDisk::new()), small).unwrap();
    let before = store.statistics().log_octets;
    prepare_all(&mut store);
    assert_eq!(store.statistics().log_octets, before);
}

#[test]
fn a_segment_that_is_used_again_in_the_batch_after_it_became_empty_keeps_what_it_gets() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(disk, options()).unwrap();
    let mut events = Vec::new();
    let mut held: std::collections::BTreeMap<u32, Extents> = std::collections::BTreeMap::new();
    for batch in 0..60_u32 {
        let gone: Vec<u32> = held.keys().copied().take(40).collect();
        let deletions = gone.iter().map(|key| StoreCommand::Delete {
            key: BundleKey(*key),
            remember: None,
        });
        let deletions: Vec<StoreCommand> = deletions.collect();
        let keys = batch * 40..batch * 40 + 40;
        let bundles = keys.flat_map(|key| {
            let append = StoreCommand::Append {
                key: BundleKey(key),
                octets: Piece::Octets(octets(key, 9_000).into()),
                crc: None,
            };
            [append, commit(key, 9_000)]
        });
        store.handle(deletions.into_iter().chain(bundles));
        store.commit(&mut events);
        gone.iter().for_each(|key| drop(held.remove(key)));
        for event in events.drain(..) {
            if let StoreEvent::Stored { key, extents } = event {
                held.insert(key.0, extents);
            }
        }
        for (key, extents) in &held {
            assert!(
                read(&store, extents) == octets(*key, 9_000),
                "bundle {key} after batch {batch}"
            );
        }
    }
}

/// Counts what is read.
struct Read {
    disk: FaultyDisk,
    octets: AtomicUsize,
}

impl Disk for Read {
    fn size(&self) -> Result<u64, DiskError> {
        self.disk.size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        self.octets.fetch_add(out.len(), Ordering::Relaxed);
        self.disk.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        self.disk.write_at(offset, octets)
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        self.disk.resize(octets)
    }

    fn reserve(&self, from: u64, until: u64) -> Result<(), DiskError> {
        self.disk.reserve(from, until)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.disk.sync()
    }

    fn caching(&self) -> Option<&dyn CachingDisk> {
        Some(self)
    }
}

impl CachingDisk for Read {
    fn grain(&self) -> Option<usize> {
        Some(4096)
    }
}

#[test]
fn a_store_of_large_bundles_is_opened_without_reading_them() {
    const BUNDLES: u32 = 60;
    const OCTETS: usize = 200_000;
    let disk = Arc::new(Read {
        disk: FaultyDisk::new(),
        octets: AtomicUsize::new(0),
    });
    let options = Options {
        segment_octets: 4 << 20,
        quota_octets: 64 << 20,
        ..options()
    };
    let open = || Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
    let (mut store, _) = open();
    for n in 0..BUNDLES {
        put(&mut store, n, OCTETS);
    }
    store.close(&mut Vec::new());
    disk.octets.store(0, Ordering::Relaxed);
    let (store, recovered) = open();
    let read_octets = disk.octets.load(Ordering::Relaxed);
    assert!(
        read_octets < BUNDLES as usize * OCTETS / 3,
        "{read_octets} octets were read"
    );
    let mut found = 0;
    for (key, _, extents) in recovered.bundles {
        let Extents::Many(parts) = &extents else {
            panic!("it did not lie as the disk's blocks: {extents:?}")
        };
        assert!(parts.iter().any(|part| part.offset.is_multiple_of(4096)));
        assert_eq!(read(&store, &extents), octets(key.0, OCTETS));
        found += 1;
    }
    assert_eq!(found, BUNDLES);
}
