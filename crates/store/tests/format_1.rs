//! A store that the last program of format 1 wrote (docs/store-format.md 10), with what that program found in it when it opened it again.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::as_conversions,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod world;

use std::io::IoSlice;
use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, StoreCommand};
use dhow_store::{Disk, MemoryDisk, OpenError, Store};
use world::{contents, options, put, read};

const LOG: &[u8] = include_bytes!("data/format-1.log");
const FOUND: &str = include_str!("data/format-1.txt");

/// The flag by which format 1 said that aggregated reports are read.
const MARK: u64 = 1 << 63;

fn disk() -> Arc<dyn Disk> {
    let disk = MemoryDisk::new();
    let octets = FOUND.lines().next().unwrap().rsplit(' ').next().unwrap();
    disk.resize(octets.parse().unwrap()).unwrap();
    disk.write_at(0, &[IoSlice::new(LOG)]).unwrap();
    Arc::new(disk)
}

fn lines(disk: Arc<dyn Disk>) -> Vec<String> {
    let (store, recovered) = Store::open(disk, options()).unwrap();
    assert_eq!(
        (recovered.loss.bundles, recovered.checkpoint_lost),
        (0, false)
    );
    let head = format!(
        "# reserved {} {}, remembered {}, octets 532480",
        recovered.reserved_time.as_millis(),
        recovered.reserved_sequence,
        recovered.removed.len()
    );
    let bundles = contents(&store, recovered).into_iter();
    let bundles = bundles.map(|(bundle, (length, hash))| {
        assert_eq!(bundle.note, Bytes::new());
        let mark = u64::from(bundle.reads_aggregated_reports) * MARK;
        let flags = bundle.flags | mark;
        assert_eq!(bundle.flags & MARK, 0);
        let from = bundle.previous.is_some();
        format!("{} {flags:#x} {from} {length} {hash:#018x}", bundle.id)
    });
    std::iter::once(head).chain(bundles).collect()
}

#[test]
fn a_store_of_format_1_is_carried_over() {
    let disk = disk();
    let wanted: Vec<String> = FOUND.lines().map(String::from).collect();
    assert_eq!(lines(Arc::clone(&disk)), wanted);
    // And is one of format 2 from then on, twice.
    for copy in [0, 4096] {
        let mut version = [0; 4];
        disk.read_at(copy + 8, &mut version).unwrap();
        assert_eq!(version, [2, 0, 0, 0]);
    }
    assert_eq!(lines(disk), wanted);
}

#[test]
fn bundles_of_both_formats_live_beside_each_other() {
    let disk = disk();
    let (mut store, recovered) = Store::open(Arc::clone(&disk), options()).unwrap();
    let marked: Vec<u64> = recovered
        .bundles
        .filter(|(_, bundle, _)| bundle.reads_aggregated_reports)
        .map(|(_, bundle, _)| bundle.id.creation.sequence)
        .collect();
    assert!(marked.len() > 3);
    // Old ones are noted, moved and deleted.
    let note = Bytes::from_static(b"note");
    for key in (0..10).map(BundleKey) {
        let note = note.clone();
        store.handle([StoreCommand::Note { key, note }]);
    }
    for key in 100..200 {
        put(&mut store, key, 20_000);
        let mut events = Vec::new();
        store.commit(&mut events);
        let remember = None;
        let key = BundleKey(key);
        store.handle([StoreCommand::Delete { key, remember }]);
        store.commit(&mut events);
    }
    drop(store);
    let (store, recovered) = Store::open(disk, options()).unwrap();
    let (mut noted, mut still) = (0, Vec::new());
    for (_, bundle, extents) in recovered.bundles {
        noted += usize::from(bundle.note == note);
        if bundle.reads_aggregated_reports {
            still.push(bundle.id.creation.sequence);
        }
        assert_eq!(read(&store, &extents).len() as u64, bundle.payload_octets);
    }
    assert_eq!((noted, still), (10, marked));
}

#[test]
fn a_crash_while_it_is_carried_over_leaves_a_store() {
    let (old, new) = (disk(), disk());
    drop(Store::open(Arc::clone(&new), options()).unwrap());
    let mut copies = [[0; 4096]; 2];
    for (copy, octets) in (0..).zip(&mut copies) {
        new.read_at(copy * 4096, octets).unwrap();
    }
    let mut wanted = None;
    for copy in 0..2_u64 {
        for torn in [0, 1, 8, 12, 40, 63, 64, 4096] {
            let crashed = disk();
            let octets = &copies[usize::try_from(copy).unwrap()];
            crashed
                .write_at(copy * 4096, &[IoSlice::new(&octets[..torn])])
                .unwrap();
            // A copy that is torn is not one that the checkpoint needs, unless it was the last of the two to be written.
            if matches!(
                Store::open(Arc::clone(&crashed), options()),
                Err(OpenError::Damaged)
            ) {
                continue;
            }
            let found = lines(crashed);
            assert_eq!(*wanted.get_or_insert_with(|| found.clone()), found);
        }
    }
    assert_eq!(wanted.unwrap(), lines(old));
}
