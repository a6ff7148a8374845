//! Notes beside bundles: they change, move with their bundles, and outlast what happens to the store.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::as_conversions,
    reason = "tests"
)]

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Extents, NOTE_OCTETS, StoreCommand, StoreEvent};
use dhow_store::{Disk, MemoryDisk, Options, Store};
use world::{append, commit, octets, options, put, read};

fn note(store: &mut Store, key: u32, note: &[u8]) {
    store.handle([StoreCommand::Note {
        key: BundleKey(key),
        note: Bytes::copy_from_slice(note),
    }]);
}

fn delete(store: &mut Store, key: u32) {
    let key = BundleKey(key);
    let remember = None;
    store.handle([StoreCommand::Delete { key, remember }]);
}

fn events(store: &mut Store) -> Vec<StoreEvent> {
    let mut events = Vec::new();
    store.commit(&mut events);
    for event in &events {
        match event {
            StoreEvent::Relocated { key, .. } => {
                let key = *key;
                store.handle([StoreCommand::Released { key }]);
            }
            StoreEvent::Refused { key, .. } => {
                let key = *key;
                store.handle([StoreCommand::Abandon { key }]);
            }
            _ => {}
        }
    }
    events
}

/// Number and note of each bundle, whose octets are looked at.
fn notes(disk: Arc<dyn Disk>, options: Options) -> BTreeMap<u64, Bytes> {
    let (store, recovered) = Store::open(disk, options).unwrap();
    assert_eq!(recovered.loss.bundles, 0);
    let of_bundle = |(_, bundle, extents): (_, dhow_bundle::storage::StoredBundle, Extents)| {
        let number = bundle.id.creation.sequence;
        let payload = octets(number as u32, bundle.payload_octets as usize);
        assert!(read(&store, &extents) == payload, "bundle {number}");
        (number, bundle.note)
    };
    recovered.bundles.map(of_bundle).collect()
}

#[test]
fn the_newest_note_is_there_after_a_crash() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    // In one record, without octets, in several, and in none but extents.
    for (key, length) in [(0, 100), (1, 0), (2, 200_000)] {
        put(&mut store, key, length);
    }
    store.handle([append(3, octets(3, 900))]);
    store.handle([commit(3, 900)]);
    events(&mut store);
    for key in 0..4 {
        note(&mut store, key, b"first");
    }
    let told = events(&mut store);
    let noted = |event: &StoreEvent| matches!(event, StoreEvent::Noted { refusal: None, .. });
    assert_eq!(told.iter().filter(|event| noted(event)).count(), 4);
    note(&mut store, 0, b"second");
    note(&mut store, 0, &[7; NOTE_OCTETS]);
    note(&mut store, 2, b"");
    note(&mut store, 9, b"nobody");
    events(&mut store);
    drop(store);
    let wanted = [&[7; NOTE_OCTETS][..], b"first", b"", b"first"];
    let found = notes(Arc::clone(&disk), options());
    assert_eq!(found.values().map(|it| &**it).collect::<Vec<_>>(), wanted);
    assert_eq!(notes(disk, options()), found);
}

#[test]
fn a_bundle_that_goes_in_the_batch_of_its_note_leaves_nothing() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    for round in 0..400 {
        put(&mut store, 0, 30_000);
        note(&mut store, 0, b"a");
        events(&mut store);
        note(&mut store, 0, b"b");
        note(&mut store, 0, &[round as u8; 100]);
        delete(&mut store, 0);
        let told = events(&mut store);
        assert!(matches!(told.last(), Some(StoreEvent::Deleted { .. })));
    }
    // Twelve megabytes went through a store of four.
    assert_eq!(store.statistics().bundles, 0);
    put(&mut store, 0, 3_000_000);
    let told = events(&mut store);
    assert!(matches!(told.last(), Some(StoreEvent::Stored { .. })));
    drop(store);
    assert_eq!(notes(disk, options()).len(), 1);
}

#[test]
fn a_full_store_refuses_a_note_and_keeps_the_one_before() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let options = Options {
        quota_octets: 300_000,
        ..options()
    };
    let (mut store, _) = Store::open(Arc::clone(&disk), options.clone()).unwrap();
    let mut kept = 0;
    'full: loop {
        put(&mut store, kept, 2_000);
        for event in events(&mut store) {
            if let StoreEvent::Refused { .. } = event {
                break 'full;
            }
        }
        kept += 1;
    }
    let mut wanted = BTreeMap::new();
    let mut refused = 0;
    for round in 0..40_u8 {
        for key in 0..kept {
            note(&mut store, key, &[round; NOTE_OCTETS]);
            for event in events(&mut store) {
                match event {
                    StoreEvent::Noted { refusal: None, .. } => {
                        wanted.insert(u64::from(key), round);
                    }
                    StoreEvent::Noted { .. } => refused += 1,
                    _ => {}
                }
            }
        }
    }
    assert!(refused > 0, "some had no room");
    // A full store is emptied all the same.
    for key in 0..kept / 2 {
        delete(&mut store, key);
        events(&mut store);
    }
    events(&mut store);
    put(&mut store, kept, 2_000);
    let told = events(&mut store);
    let stored = |event: &StoreEvent| matches!(event, StoreEvent::Stored { .. });
    assert!(told.iter().any(stored), "{told:?}");
    drop(store);
    let found = notes(disk, options);
    for (number, note) in found {
        let wanted = wanted.get(&number).filter(|_| number < u64::from(kept));
        assert_eq!(note.first(), wanted, "bundle {number}");
    }
}
