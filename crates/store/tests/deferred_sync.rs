//! Events given out before their sync: what a crash and a failing disk take back, and what they do not.
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

use std::collections::BTreeSet;
use std::sync::Arc;

use dhow_bundle::storage::{BundleKey, StoreCommand, StoreEvent};
use dhow_store::{Disk, Failure, FaultyDisk, Store};
use proptest::prelude::*;
use world::{append, commit, octets, options, put, read};

fn open(disk: &Arc<FaultyDisk>) -> Store {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    Store::open(disk, options()).unwrap().0
}

fn syncs(store: &Store) -> u64 {
    store.statistics().syncs
}

fn stored(events: &[StoreEvent]) -> Vec<u32> {
    let keys = events.iter().filter_map(|event| match event {
        StoreEvent::Stored { key, .. } => Some(key.0),
        _ => None,
    });
    keys.collect()
}

#[test]
fn promises_come_without_a_sync_and_a_commit_makes_them_durable() {
    let disk = Arc::new(FaultyDisk::new());
    let mut store = open(&disk);
    let before = syncs(&store);
    let mut events = Vec::new();
    for number in 0..50 {
        put(&mut store, number, 500);
        assert!(store.defer_sync(&mut events));
    }
    assert_eq!(stored(&events), (0..50).collect::<Vec<_>>());
    assert_eq!(syncs(&store), before);
    assert!(store.owes_sync());
    events.clear();
    store.commit(&mut events);
    assert_eq!(events.len(), 0, "nothing is told twice");
    assert_eq!(syncs(&store), before + 1);
    assert!(!store.owes_sync());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// A bundle that was durable at the last sync is there after any crash, and every bundle that is there is whole.
    #[test]
    fn a_crash_takes_back_nothing_that_a_sync_covered(
        rounds in prop::collection::vec((1_u32..20, prop::bool::ANY), 1..20),
        length in 1_usize..6_000,
        seed: u64,
    ) {
        let disk = Arc::new(FaultyDisk::new());
        let mut store = open(&disk);
        let (mut next, mut durable, mut gone) = (0, BTreeSet::new(), BTreeSet::new());
        let mut held = BTreeSet::new();
        for (count, synced) in rounds {
            let mut events = Vec::new();
            for _ in 0..count {
                put(&mut store, next, length);
                held.insert(next);
                next += 1;
            }
            // Every other round lets go of what is oldest, so that the space of promised deletions would be wanted.
            if next % 2 == 0 && let Some(oldest) = held.pop_first() {
                store.handle([StoreCommand::Delete { key: BundleKey(oldest), remember: None }]);
                gone.insert(oldest);
            }
            if synced || !store.defer_sync(&mut events) {
                store.commit(&mut events);
                durable = held.clone();
            }
        }
        let crashed = Arc::new(disk.after_crash(seed));
        let (store, recovered) = Store::open(crashed as Arc<dyn Disk>, options()).unwrap();
        let loss = recovered.loss.bundles;
        let mut found = BTreeSet::new();
        for (_, bundle, extents) in recovered.bundles {
            let number = u32::try_from(bundle.id.creation.sequence).unwrap();
            prop_assert_eq!(read(&store, &extents), octets(number, length));
            found.insert(number);
        }
        let lost: Vec<_> = durable.iter().filter(|it| !found.contains(it) && !gone.contains(it)).collect();
        prop_assert!(lost.is_empty(), "lost {lost:?}");
        prop_assert_eq!(loss, 0);
    }
}

#[test]
fn what_a_failing_disk_does_not_keep_of_its_promises_is_told() {
    let disk = Arc::new(FaultyDisk::new());
    let mut store = open(&disk);
    let mut events = Vec::new();
    put(&mut store, 0, 500);
    store.commit(&mut events);
    put(&mut store, 1, 500);
    put(&mut store, 2, 500);
    store.handle([StoreCommand::Delete {
        key: BundleKey(2),
        remember: None,
    }]);
    assert!(store.defer_sync(&mut events));
    events.clear();
    disk.fail_after(0, Failure::InputOutput);
    store.handle([append(3, octets(3, 500)), commit(3, 500)]);
    assert!(store.failure().is_some() || store.owes_sync());
    store.commit(&mut events);
    store.commit(&mut events);
    let refused: BTreeSet<u32> = events
        .iter()
        .filter_map(|event| match event {
            StoreEvent::Refused { key, .. } => Some(key.0),
            _ => None,
        })
        .collect();
    assert_eq!(
        refused,
        BTreeSet::from([1, 3]),
        "0 was durable and 2 deleted"
    );
    assert!(store.failure().is_none(), "the disk works again");
    // The node lets go of it like of any other, and the key serves again.
    events.clear();
    store.handle([StoreCommand::Delete {
        key: BundleKey(1),
        remember: None,
    }]);
    store.commit(&mut events);
    assert!(matches!(
        events[..],
        [StoreEvent::Deleted { key: BundleKey(1) }]
    ));
    put(&mut store, 1, 700);
    store.commit(&mut events);
    assert_eq!(stored(&events), [1]);
}
