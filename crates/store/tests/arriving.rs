//! Bundles that arrive slowly: where they lie meanwhile, and what others share with them.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::as_conversions,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod world;

use std::sync::Arc;

use dhow_bundle::storage::{BundleKey, Extents, StoreCommand, StoreEvent};
use dhow_store::{Disk, FaultyDisk, MemoryDisk, Store, Verdict};
use world::{append, bundle, commit, contents, octets, options, put, read, stored, sum};

fn open() -> (Arc<dyn Disk>, Store) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    (disk, store)
}

fn share(key: u32, from: u32) -> StoreCommand {
    StoreCommand::Share {
        key: BundleKey(key),
        from: BundleKey(from),
    }
}

fn events(store: &mut Store) -> Vec<StoreEvent> {
    let mut events = Vec::new();
    store.commit(&mut events);
    events
}

#[test]
fn what_is_watched_can_be_read_before_it_is_durable() {
    let (_, mut store) = open();
    let whole = octets(1, 90_000);
    store.handle([
        append(1, whole[..10_000].to_vec()),
        StoreCommand::Watch { key: BundleKey(1) },
        append(2, octets(2, 10)),
    ]);
    let mut told = Vec::new();
    let mut written = Vec::new();
    store.written(&mut written);
    let mut take = |store: &Store, written: &mut Vec<StoreEvent>| {
        for event in written.drain(..) {
            let StoreEvent::Written { key, extents } = event else {
                panic!("{event:?}")
            };
            assert_eq!(key, BundleKey(1), "nobody watches the other");
            told.extend(read(store, &Extents::Many(extents.into())));
        }
        told.clone()
    };
    assert_eq!(take(&store, &mut written), whole[..10_000]);
    let synced = events(&mut store);
    assert!(
        synced
            .iter()
            .all(|event| matches!(event, StoreEvent::Durable { .. })),
        "{synced:?}"
    );
    store.handle([append(1, whole[10_000..80_000].to_vec())]);
    store.written(&mut written);
    assert_eq!(take(&store, &mut written), whole[..80_000]);
    store.handle([append(1, whole[80_000..].to_vec()), commit(1, 90_000)]);
    store.written(&mut written);
    assert!(
        written.is_empty(),
        "what is written with the commit is told by it"
    );
    let (_, extents) = events(&mut store).iter().find_map(stored).unwrap();
    assert_eq!(read(&store, &extents), whole);
}

/// A part of an arriving bundle is kept beside it, and outlives it or gives way to it.
#[test]
fn shared_octets_stay_as_long_as_one_bundle_has_them() {
    for whole_stays in [true, false] {
        let (disk, mut store) = open();
        let (head, payload) = (octets(1, 50), octets(2, 150_000));
        store.handle([
            append(1, head.clone()),
            StoreCommand::Divide { key: BundleKey(1) },
            append(1, payload[..100_000].to_vec()),
        ]);
        events(&mut store);
        let prefix = [
            octets(3, 60),
            payload[..100_000].to_vec(),
            octets(4, 6).clone(),
        ]
        .concat();
        store.handle([
            append(5, octets(3, 60)),
            share(5, 1),
            append(5, octets(4, 6)),
            commit(5, prefix.len()),
        ]);
        let (_, extents) = events(&mut store).iter().find_map(stored).unwrap();
        assert_eq!(read(&store, &extents), prefix);
        let kept = if whole_stays {
            store.handle([
                append(1, payload[100_000..].to_vec()),
                commit(1, 150_050),
                StoreCommand::Delete {
                    key: BundleKey(5),
                    remember: None,
                },
            ]);
            let whole = [head, payload].concat();
            (bundle(1, 150_050), sum(&whole))
        } else {
            store.handle([
                append(1, payload[100_000..].to_vec()),
                StoreCommand::Abandon { key: BundleKey(1) },
            ]);
            (bundle(5, prefix.len()), sum(&prefix))
        };
        events(&mut store);
        // Others come and go, so that what is free is written over.
        for number in 10..300 {
            put(&mut store, number, 30_000);
            events(&mut store);
            store.handle([StoreCommand::Delete {
                key: BundleKey(number),
                remember: None,
            }]);
            for event in events(&mut store) {
                if let StoreEvent::Relocated { key, .. } = event {
                    store.handle([StoreCommand::Released { key }]);
                }
            }
        }
        let key = BundleKey(if whole_stays { 1 } else { 5 });
        assert_eq!(store.verify(key).unwrap(), Verdict::Intact);
        drop(store);
        let (store, recovered) = Store::open(disk, options()).unwrap();
        assert_eq!(contents(&store, recovered), vec![kept]);
    }
}

#[test]
fn a_crash_leaves_the_kept_part_of_a_bundle_that_was_arriving() {
    let disk = Arc::new(FaultyDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap();
    let payload = octets(2, 70_000);
    store.handle([
        append(1, octets(1, 50)),
        StoreCommand::Divide { key: BundleKey(1) },
        append(1, payload.clone()),
        append(5, octets(3, 60)),
        share(5, 1),
        append(5, octets(4, 6)),
        commit(5, 70_066),
    ]);
    events(&mut store);
    store.handle([append(1, octets(9, 30_000))]);
    drop(store);
    let disk = Arc::new(disk.after_crash(7));
    let (store, recovered) = Store::open(disk, options()).unwrap();
    let prefix = [octets(3, 60), payload, octets(4, 6)].concat();
    assert_eq!(
        contents(&store, recovered),
        vec![(bundle(5, 70_066), sum(&prefix))]
    );
}

#[test]
fn what_is_shared_with_nothing_is_refused() {
    let (_, mut store) = open();
    store.handle([append(5, octets(3, 60)), share(5, 1), commit(5, 60)]);
    let told = events(&mut store);
    assert!(
        told.iter()
            .all(|event| matches!(event, StoreEvent::Refused { key, .. } if *key == BundleKey(5)))
            && !told.is_empty(),
        "{told:?}"
    );
}
