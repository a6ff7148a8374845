//! Octets that come in any order.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests"
)]

mod world;

use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, GAPS, StoreCommand, StoreEvent, StoreRefusal};
use dhow_store::{Disk, MemoryDisk, Options, Store};
use proptest::prelude::*;
use world::{append, commit, contents, octets, options, read, stored, sum};

fn at(key: u32, position: usize, octets: &[u8]) -> StoreCommand {
    StoreCommand::AppendAt {
        key: BundleKey(key),
        at: position as u64,
        octets: Bytes::copy_from_slice(octets),
    }
}

fn events(store: &mut Store) -> Vec<StoreEvent> {
    let mut events = Vec::new();
    store.commit(&mut events);
    events
}

#[test]
fn a_header_may_come_last() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    let all = octets(0, 200_000);
    store.handle([at(0, 30, &all[30..])]);
    let told = events(&mut store);
    let [
        StoreEvent::DurableParts {
            octets: 0, behind, ..
        },
    ] = told.as_slice()
    else {
        panic!("nothing is there from the first octet on: {told:?}");
    };
    assert_eq!(*behind, 199_970);
    store.handle([at(0, 0, &all[..30])]);
    let told = events(&mut store);
    let [StoreEvent::Durable { octets, .. }] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(*octets, 200_000);
    store.handle([commit(0, 200_000)]);
    events(&mut store);
    drop(store);
    let (store, recovered) = Store::open(disk, options()).unwrap();
    assert_eq!(contents(&store, recovered)[0].1, sum(&all));
}

#[test]
fn a_bundle_with_a_gap_is_not_kept() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
    store.handle([append(0, vec![1; 10]), at(0, 11, &[2; 5]), commit(0, 16)]);
    let gaps = StoreRefusal::Gaps;
    let told = events(&mut store);
    assert!(matches!(told.as_slice(), [StoreEvent::Refused { refusal, .. }] if *refusal == gaps));
    // So many gaps are nobody's.
    store.handle((0..=GAPS).map(|number| at(1, number * 2 + 1, &[3])));
    let told = events(&mut store);
    assert!(matches!(told.as_slice(), [StoreEvent::Refused { refusal, .. }] if *refusal == gaps));
    for key in [0, 1] {
        let key = BundleKey(key);
        store.handle([StoreCommand::Abandon { key }]);
    }
    events(&mut store);
    let free = store.statistics().free_octets;
    drop(store);
    let (_, recovered) = Store::open(disk, options()).unwrap();
    assert_eq!(recovered.bundles.count(), 0);
    assert!(free > 0);
}

/// A store whose segments have so many octets.
fn segmented(segment_octets: u32) -> Options {
    Options {
        segment_octets,
        quota_octets: 24 << 20,
        ..options()
    }
}

/// Gives a store all pieces of a bundle, each of so many octets, in an order that follows from a number, `batch` of them at a time.
fn give(store: &mut Store, key: u32, all: &[u8], piece: usize, order: u64, batch: usize) {
    let mut starts: Vec<usize> = (0..all.len()).step_by(piece).collect();
    let mut state = order | 1;
    for place in (1..starts.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        starts.swap(place, (state >> 33) as usize % (place + 1));
    }
    for group in starts.chunks(batch) {
        let piece_at = |from: &usize| at(key, *from, &all[*from..(*from + piece).min(all.len())]);
        store.handle(group.iter().map(piece_at));
        events(store);
    }
}

#[test]
fn places_that_somebody_reads_stay_until_they_are_released_and_none_is_held_for_ever() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), segmented(65_536)).unwrap();
    // Together they are more than the log has room for.
    for round in 0..12 {
        let (key, all) = (BundleKey(round), octets(round, 3_000_000));
        store.handle([at(round, 0, &all[..750]), StoreCommand::Watch { key }]);
        let mut places = Vec::new();
        for (number, piece) in all.chunks(750).enumerate() {
            store.handle([at(round, number * 750, piece)]);
            for event in events(&mut store) {
                if let StoreEvent::Written { extents, .. } = event {
                    places.extend(extents);
                }
            }
        }
        assert_eq!(places.len(), 4_000);
        store.handle([commit(round, all.len())]);
        let told = events(&mut store);
        let (_, extents) = told.iter().find_map(stored).expect("it fits into the log");
        assert!(extents.as_slice().len() < 3_000);
        let is_told = |it: &StoreEvent| matches!(it, StoreEvent::Relocated { extents: to, .. } if *to == extents);
        assert!(
            told.iter().any(is_told),
            "a reader is told of the new places"
        );
        let former = dhow_bundle::storage::Extents::Many(places.into());
        assert!(read(&store, &extents) == all && read(&store, &former) == all);
        if round % 2 == 0 {
            store.handle([StoreCommand::Released { key }]);
        }
        store.handle([StoreCommand::Delete {
            key,
            remember: None,
        }]);
        events(&mut store);
    }
}

#[test]
fn octets_that_are_not_what_was_written_get_no_checksum_of_their_own() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut store, _) = Store::open(Arc::clone(&disk), segmented(65_536)).unwrap();
    let all = octets(1, 3_000_000);
    let key = BundleKey(1);
    store.handle([at(1, 0, &all[..750]), StoreCommand::Watch { key }]);
    let mut places = Vec::new();
    for (number, piece) in all.chunks(750).enumerate() {
        store.handle([at(1, number * 750, piece)]);
        for event in events(&mut store) {
            if let StoreEvent::Written { extents, .. } = event {
                places.extend(extents);
            }
        }
    }
    let spoiled = std::io::IoSlice::new(b"other octets");
    disk.write_at(places[2_000].offset + 9, &[spoiled]).unwrap();
    store.handle([commit(1, all.len())]);
    let told = events(&mut store);
    let disk = StoreRefusal::Disk;
    assert!(matches!(told[..], [StoreEvent::Refused { refusal, .. }] if refusal == disk));
    // Only this bundle is refused.
    store.handle([StoreCommand::Abandon { key }]);
    events(&mut store);
    store.handle([append(2, octets(2, 100)), commit(2, 100)]);
    let told = events(&mut store);
    assert!(told.iter().any(|event| stored(event).is_some()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A bundle in thousands of parts is whole after a restart, however small the segments are that its commit record must fit into.
    #[test]
    fn thousands_of_parts_in_any_order_make_the_bundle(
        segment_octets in prop_oneof![Just(65_536_u32), Just(69_632), Just(131_072), Just(1 << 20)],
        piece in 200_usize..1_500,
        order in any::<u64>(),
        batch in 1_usize..9,
        is_watched in any::<bool>(),
    ) {
        let all = octets(1, piece * 4_500 + 7);
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let (mut store, _) = Store::open(Arc::clone(&disk), segmented(segment_octets)).unwrap();
        if is_watched {
            store.handle([at(1, 0, &all[..1]), StoreCommand::Watch { key: BundleKey(1) }]);
        }
        give(&mut store, 1, &all, piece, order, batch);
        store.handle([commit(1, all.len())]);
        let told = events(&mut store);
        prop_assert!(told.iter().any(|event| stored(event).is_some()), "{:?}", told);
        // The place of the record that it replaces, and another note, have room too.
        store.handle([StoreCommand::Note { key: BundleKey(1), note: vec![1; 1_024].into() }]);
        let told = events(&mut store);
        prop_assert!(matches!(told[..], [StoreEvent::Noted { refusal: None, .. }]), "{:?}", told);
        drop(store);
        let (store, recovered) = Store::open(disk, segmented(segment_octets)).unwrap();
        let found = contents(&store, recovered);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(found[0].1, sum(&all));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Pieces of any cut in any order, some twice and some over others, make the bundle.
    #[test]
    fn pieces_in_any_order_make_the_bundle(
        length in prop_oneof![1_usize..200, 1_usize..300_000],
        cuts in prop::collection::vec((0.0_f64..1.0, 0.0_f64..1.0), 0..40),
        order in any::<u64>(),
        batch in 1_usize..9,
    ) {
        let all = octets(5, length);
        let mut pieces: Vec<(usize, usize)> = cuts
            .iter()
            .map(|(from, to)| ((from * length as f64) as usize, (to * length as f64) as usize + 1))
            .map(|(from, to)| (from.min(to - 1), to.max(from + 1).min(length)))
            .collect();
        // And all that is between.
        pieces.extend((0..length).step_by((length / 7).max(1)).map(|from| (from, (from + (length / 7).max(1)).min(length))));
        let mut state = order | 1;
        for place in (1..pieces.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            pieces.swap(place, (state >> 33) as usize % (place + 1));
        }
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let (mut store, _) = Store::open(Arc::clone(&disk), options()).unwrap();
        let mut durable = (0, 0);
        for group in pieces.chunks(batch) {
            store.handle(group.iter().map(|(from, to)| at(5, *from, &all[*from..*to])));
            for event in events(&mut store) {
                let (octets, behind) = match event {
                    StoreEvent::Durable { octets, .. } => (octets, 0),
                    StoreEvent::DurableParts { octets, behind, .. } => (octets, behind),
                    event => panic!("{event:?}"),
                };
                prop_assert!(octets >= durable.0 && octets + behind > durable.0 + durable.1);
                durable = (octets, behind);
            }
        }
        prop_assert_eq!(durable, (length as u64, 0));
        store.handle([commit(5, length)]);
        let is_stored = matches!(events(&mut store).as_slice(), [StoreEvent::Stored { .. }]);
        prop_assert!(is_stored);
        drop(store);
        let (store, recovered) = Store::open(disk, options()).unwrap();
        let found = contents(&store, recovered);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(found[0].1, sum(&all));
    }
}
