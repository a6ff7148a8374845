//! The parts that the store's tests share: bundles whose octets follow from their number.
#![allow(
    dead_code,
    clippy::unwrap_used,
    missing_docs,
    clippy::as_conversions,
    reason = "each test uses a part"
)]

use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Extents, Piece, StoreCommand, StoreEvent, StoredBundle};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId, FragmentRange};
use dhow_store::{Options, Recovered, Store};

pub fn options() -> Options {
    Options {
        segment_octets: 65_536,
        quota_octets: 4 * 1024 * 1024,
        seed: 0x5eed,
        ..Options::default()
    }
}

/// Octets that no other number or length gives.
pub fn octets(number: u32, length: usize) -> Vec<u8> {
    let mut state = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ length as u64;
    (0..length)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

pub fn bundle(number: u32, length: usize) -> StoredBundle {
    StoredBundle {
        id: BundleId {
            source: if number.is_multiple_of(3) {
                EndpointId::Dtn(Arc::from("//source/service"))
            } else {
                EndpointId::Ipn {
                    allocator: 0,
                    node: number,
                    service: 1,
                }
            },
            creation: CreationTimestamp {
                time: DtnTime::from_millis(1000),
                sequence: u64::from(number),
            },
            fragment: number.is_multiple_of(5).then_some(FragmentRange {
                offset: 5,
                length: length as u64,
            }),
        },
        destination: EndpointId::Ipn {
            allocator: 1,
            node: 4,
            service: 42,
        },
        report_to: EndpointId::Null,
        version: 7,
        flags: 1 << 20,
        lifetime_ms: u64::MAX,
        age_at_reception_ms: 3,
        received: DtnTime::from_millis(2000),
        header_octets: 30,
        payload_octets: length as u64,
        total_adu_octets: 0,
        previous: number.is_multiple_of(2).then_some(EndpointId::Null),
        reads_aggregated_reports: false,
        priority: dhow_bundle::Priority::Normal,
        note: Bytes::new(),
    }
}

pub fn append(key: u32, octets: Vec<u8>) -> StoreCommand {
    StoreCommand::Append {
        key: BundleKey(key),
        octets: Piece::Octets(octets.into()),
        crc: None,
    }
}

pub fn commit(key: u32, length: usize) -> StoreCommand {
    StoreCommand::Commit {
        key: BundleKey(key),
        bundle: Box::new(bundle(key, length)),
    }
}

/// Hands over a whole bundle whose number is its key.
pub fn put(store: &mut Store, key: u32, length: usize) {
    let octets = Piece::Octets(Bytes::from(octets(key, length)));
    store.handle([
        StoreCommand::Append {
            key: BundleKey(key),
            octets,
            crc: None,
        },
        commit(key, length),
    ]);
}

pub fn stored(event: &StoreEvent) -> Option<(BundleKey, Extents)> {
    match event {
        StoreEvent::Stored { key, extents } => Some((*key, extents.clone())),
        _ => None,
    }
}

pub fn read(store: &Store, extents: &Extents) -> Vec<u8> {
    let mut all = Vec::new();
    for extent in extents.as_slice() {
        let mut octets = vec![0; extent.length as usize];
        assert_eq!(
            store.reader().read(*extent, 0, &mut octets).unwrap(),
            octets.len()
        );
        all.extend(octets);
    }
    all
}

/// Length and a hash: what a failed comparison can print.
pub fn sum(octets: &[u8]) -> (usize, u64) {
    let hash = octets
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
            (hash ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3)
        });
    (octets.len(), hash)
}

pub fn contents(store: &Store, recovered: Recovered) -> Vec<(StoredBundle, (usize, u64))> {
    recovered
        .bundles
        .map(|(_, bundle, extents)| (bundle, sum(&read(store, &extents))))
        .collect()
}
