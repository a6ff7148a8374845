//! The reuse of the log: the room that a stream of bundles that come and go takes, and the copies made for it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::as_conversions,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod world;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Piece, StoreCommand, StoreEvent};
use dhow_store::{MemoryDisk, Options, Statistics, Store};
use world::{commit, options};

const SEGMENT: u64 = 65_536;

/// A store and the bundles in it, in the order in which they came.
struct Stream {
    store: Store,
    held: VecDeque<u32>,
    keys: Vec<u32>,
    next: u32,
    payload: Bytes,
}

impl Stream {
    fn new(quota_segments: u64) -> Self {
        let options = Options {
            quota_octets: quota_segments * SEGMENT,
            ..options()
        };
        let (store, _) = Store::open(Arc::new(MemoryDisk::new()), options).unwrap();
        Self {
            store,
            held: VecDeque::new(),
            keys: Vec::new(),
            next: 0,
            payload: vec![0x5a; 100_000].into(),
        }
    }

    fn put(&mut self, length: usize) {
        let key = self.keys.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let octets = Piece::Octets(self.payload.slice(..length));
        let append = StoreCommand::Append {
            key: BundleKey(key),
            octets,
            crc: None,
        };
        self.store.handle([append, commit(key, length)]);
        self.held.push_back(key);
    }

    /// The oldest goes.
    fn delete(&mut self) {
        let key = self.held.pop_front().unwrap();
        self.store.handle([StoreCommand::Delete {
            key: BundleKey(key),
            remember: None,
        }]);
    }

    /// Makes the batch durable, and answers as a node does.
    fn sync(&mut self) {
        let mut events = Vec::new();
        self.store.commit(&mut events);
        for event in events {
            match event {
                StoreEvent::Deleted { key } => self.keys.push(key.0),
                StoreEvent::Relocated { key, .. } => {
                    self.store.handle([StoreCommand::Released { key }]);
                }
                StoreEvent::Stored { .. } => {}
                other => unreachable!("{other:?}"),
            }
        }
    }

    fn log_segments(&self) -> u64 {
        self.store.statistics().log_octets / SEGMENT
    }

    fn statistics(&self) -> Statistics {
        self.store.statistics()
    }
}

/// Octets of a stream's bundles of one length that come and go, while some stay on their way.
fn stream(stream: &mut Stream, length: usize, held_octets: usize, octets: usize) {
    let held = held_octets / length;
    for count in 0..octets / length {
        stream.put(length);
        if stream.held.len() > held {
            stream.delete();
        }
        if count % 4 == 0 {
            stream.sync();
        }
    }
    stream.sync();
}

#[test]
fn steady_stream_stays_within_a_few_segments_and_copies_nothing() {
    for (length, held) in [(1_000, 20_000), (1_000, 300_000), (60_000, 300_000)] {
        let mut world = Stream::new(1000);
        stream(&mut world, length, held, 5_000_000);
        let statistics = world.statistics();
        let live = held as u64 / SEGMENT + 1;
        assert_eq!(statistics.moved, 0, "{length} {held}");
        assert!(
            world.log_segments() <= live + 10,
            "{} segments for {live}: {length} {held}",
            world.log_segments()
        );
    }
}

#[test]
fn store_that_drains_from_its_front_frees_segments_without_copying() {
    let mut world = Stream::new(1000);
    for _ in 0..6 {
        for _ in 0..3_000 {
            world.put(1_000);
        }
        world.sync();
        let full = world.log_segments();
        while !world.held.is_empty() {
            world.delete();
        }
        world.sync();
        assert!(full <= 60, "{full}");
    }
    // A round's first bundles may share a segment with the deletions of the round before.
    let moved = world.statistics().moved;
    assert!(moved <= 6 * 10, "{moved}");
}

#[test]
fn alternating_lengths_leave_the_log_no_longer_than_the_longest_needs() {
    let mut world = Stream::new(1000);
    let mut lengths = Vec::new();
    for round in 0..25 {
        let length = [100, 1_000, 20_000, 90_000, 300][round % 5];
        stream(&mut world, length, 400_000, 1_000_000);
        lengths.push(world.log_segments());
    }
    assert!(lengths[24] <= lengths[9] + 1, "{lengths:?}");
    assert_eq!(world.statistics().moved, 0);
}

#[test]
fn bundles_that_stay_do_not_hold_a_segment_each() {
    let mut world = Stream::new(1000);
    let mut stayed = 0;
    for count in 0..12_000 {
        world.put(1_000);
        if count % 40 == 0 {
            // Nobody asks for this one.
            world.held.pop_back();
            stayed += 1;
        }
        if world.held.len() > 50 {
            world.delete();
        }
        if count % 4 == 0 {
            world.sync();
        }
    }
    let live = stayed * 1_200 / SEGMENT + 2;
    let segments = world.log_segments();
    assert!(segments <= 4 * live + 10, "{segments} for {live}");
    let moved = world.statistics().moved;
    assert!(moved > 0 && moved < 12_000 / 8, "{moved} moved");
}

/// docs/store-format.md 7.1: nobody but the store counts what records take beside their bundles.
#[test]
fn log_stays_within_its_bound_however_many_bundles_are_offered() {
    const QUOTA: u64 = 8 << 20;
    for segment_octets in [65_536_u32, 4 << 20] {
        let options = Options {
            segment_octets,
            quota_octets: QUOTA,
            removed_bound: 1_000,
            ..options()
        };
        let (mut store, _) = Store::open(Arc::new(MemoryDisk::new()), options).unwrap();
        let octets = Bytes::from(vec![1; 200]);
        let (mut stored, mut refused) = (0_u64, 0);
        for key in 0.. {
            let octets = Piece::Octets(octets.clone());
            let append = StoreCommand::Append {
                key: BundleKey(key),
                octets,
                crc: None,
            };
            store.handle([append, commit(key, 200)]);
            if key % 50 == 0 {
                let mut events = Vec::new();
                store.commit(&mut events);
                let is_stored = |event: &&StoreEvent| matches!(event, StoreEvent::Stored { .. });
                stored += events.iter().filter(is_stored).count() as u64;
                let is_refused = |event: &&StoreEvent| matches!(event, StoreEvent::Refused { .. });
                refused += events.iter().filter(is_refused).count();
            }
            if refused > 5_000 || stored > 200_000 {
                break;
            }
        }
        let unit = u64::from(segment_octets).min(512 << 10);
        let largest = (QUOTA / 16).clamp(unit, u64::from(segment_octets));
        // 70 octets, 5 a bundle, 30 a segment, and identifiers of 64 octets; a part is an eighth of a unit, seven are a unit's.
        let checkpoint = 70 + stored * 5 + (QUOTA / unit + 100) * 60 + 64_000;
        let units = 2 * checkpoint.div_ceil(unit / 8).div_ceil(7) + 2;
        let bound = 8192 + QUOTA / 4 * 5 + units * unit + 3 * largest;
        let log_octets = store.statistics().log_octets;
        assert!(refused > 5_000, "{stored} stored");
        assert!(
            log_octets <= bound,
            "{log_octets} of {bound}, {stored} stored"
        );
        assert!(stored * 200 > QUOTA / 4, "{stored} stored");
    }
}
