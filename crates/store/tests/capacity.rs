//! A store tells the room that its disk has, and a node which goes by it is hardly ever refused.
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

use std::collections::VecDeque;
use std::sync::Arc;

use dhow_bundle::storage::{BundleKey, StoreCommand, StoreEvent};
use dhow_store::{Disk, Durability, FaultyDisk, MemoryDisk, Options, Store};
use world::{options, put};

const QUOTA: u64 = 4 * 1024 * 1024;
const TURNS: u64 = 1_000;

fn open(disk: &Arc<FaultyDisk>, options: Options) -> Store {
    let (store, _) = Store::open(Arc::clone(disk) as Arc<dyn Disk>, options).unwrap();
    store
}

/// The octets that the store tells now, if any.
fn told(store: &mut Store) -> Option<u64> {
    let mut events = Vec::new();
    store.tell_capacity(&mut events);
    assert!(events.len() <= 1, "{events:?}");
    events.pop().map(|event| match event {
        StoreEvent::Capacity { octets, .. } => octets,
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_disk_with_room_for_the_quota_is_not_spoken_of() {
    let disk = Arc::new(FaultyDisk::new());
    let mut store = open(&disk, options());
    assert_eq!(told(&mut store), None);
    disk.limit(3 * QUOTA);
    assert_eq!(told(&mut store), None);
    assert_eq!(store.capacity_octets(), Some(QUOTA));
}

#[test]
fn what_others_take_and_give_back_is_told_and_trifles_are_not() {
    let disk = Arc::new(FaultyDisk::new());
    let mut store = open(&disk, options());
    disk.limit(QUOTA);
    let first = told(&mut store).unwrap();
    assert!((QUOTA / 2..QUOTA).contains(&first), "{first}");
    assert_eq!(told(&mut store), None);
    for octets in [QUOTA - 40_000, QUOTA + 40_000, QUOTA] {
        disk.limit(octets);
        assert_eq!(told(&mut store), None, "{octets}");
    }
    disk.limit(QUOTA / 2);
    let second = told(&mut store).unwrap();
    assert!(second < first / 3 * 2, "{second} after {first}");
    disk.limit(0);
    let none = told(&mut store).unwrap();
    assert!(none < 300_000, "{none}: what the log has already");
    disk.limit(10 * QUOTA);
    assert_eq!(told(&mut store), Some(QUOTA));
    assert_eq!(told(&mut store), None);
}

/// A bound at the edge of the quota does not come and go.
#[test]
fn the_quota_itself_is_left_and_reached_once() {
    let disk = Arc::new(FaultyDisk::new());
    let mut store = open(&disk, options());
    // The room at which the whole quota can be kept.
    let mut edge = QUOTA;
    disk.limit(edge);
    while store.capacity_octets() != Some(QUOTA) {
        edge += 4096;
        disk.limit(edge);
    }
    assert_eq!(told(&mut store), None);
    let mut changes = 0;
    for _ in 0..100 {
        for octets in [edge - 20_000, edge + 20_000] {
            disk.limit(octets);
            changes += u64::from(told(&mut store).is_some());
        }
    }
    assert_eq!(changes, 1);
    disk.limit(edge + QUOTA);
    assert_eq!(told(&mut store), Some(QUOTA));
}

/// One commit; whether it refused something. Nobody reads where bundles were before they were moved.
fn commit(store: &mut Store) -> bool {
    let mut events = Vec::new();
    store.commit(&mut events);
    let moved = events.iter().filter_map(|it| match it {
        StoreEvent::Relocated { key, .. } => Some(StoreCommand::Released { key: *key }),
        _ => None,
    });
    store.handle(moved);
    events
        .iter()
        .any(|it| matches!(it, StoreEvent::Refused { .. }))
}

/// Bundles come and go at the edge of what is told; the store has room for almost each.
#[test]
fn a_node_that_goes_by_what_is_told_is_hardly_ever_refused() {
    let mut all = 0;
    for (segment, limit) in [
        (65_536, 2_000_000),
        (262_144, 3_000_000),
        (262_144, 6_000_000),
        (1 << 20, 9_000_000),
        (1 << 20, 16_000_000),
    ] {
        let disk = Arc::new(FaultyDisk::new());
        disk.limit(limit);
        let mut store = open(
            &disk,
            Options {
                segment_octets: segment,
                quota_octets: 1 << 30,
                ..options()
            },
        );
        let mut bound = told(&mut store).unwrap();
        let (mut held, mut taken) = (VecDeque::new(), 0);
        let mut free: VecDeque<u32> = (0..4_000).collect();
        let mut refused = 0_u64;
        for turn in 0..TURNS {
            let octets = [9_000, 40_000, 5_000, 120_000, 20_000][turn as usize % 5];
            bound = told(&mut store).unwrap_or(bound);
            // Every third has a long life; the others go in turn.
            while taken + octets > bound
                && let Some((key, octets)) = held.pop_front()
            {
                store.handle([StoreCommand::Delete {
                    key: BundleKey(key),
                    remember: None,
                }]);
                if turn % 3 == 0 {
                    commit(&mut store);
                }
                taken -= octets;
                free.push_back(key);
                if turn % 7 == 0
                    && let Some(kept) = held.pop_front()
                {
                    held.push_back(kept);
                }
            }
            if taken + octets > bound {
                continue;
            }
            let key = free.pop_front().unwrap();
            put(&mut store, key, octets as usize);
            if commit(&mut store) {
                refused += 1;
                store.handle([StoreCommand::Abandon {
                    key: BundleKey(key),
                }]);
                continue;
            }
            taken += octets;
            held.push_back((key, octets));
        }
        assert!(store.failure().is_none());
        // A segment that is being emptied may not be free yet when it is wanted, the more so the fewer there are.
        assert!(
            refused <= TURNS / 10,
            "{refused} refused in segments of {segment} on {limit} octets, of which {bound} are for bundles"
        );
        all += refused;
    }
    assert!(all <= TURNS / 8, "{all} in all");
}

/// A log in memory takes no more than it may, and what is told of it can be filled.
#[test]
fn a_log_in_memory_is_bounded_like_one_on_a_small_disk() {
    const BOUND: u64 = 4_000_000;
    let disk = Arc::new(MemoryDisk::new().with_bound(BOUND));
    let options = Options {
        durability: Durability::Memory,
        quota_octets: 1 << 30,
        ..options()
    };
    let (mut store, _) = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let told = told(&mut store).unwrap();
    assert!((BOUND / 2..BOUND).contains(&told), "{told}");
    let mut taken = 0;
    for key in 0..500 {
        put(&mut store, key, 9_000);
        if commit(&mut store) {
            break;
        }
        taken += 9_000;
    }
    assert!((told..BOUND).contains(&taken), "{taken} of {told}");
    assert!(store.statistics().log_octets <= BOUND + 8_192);
    // All of it can be emptied.
    for key in 0..400 {
        let (key, remember) = (BundleKey(key), None);
        store.handle([StoreCommand::Delete { key, remember }]);
    }
    commit(&mut store);
    assert!(store.failure().is_none());
}
