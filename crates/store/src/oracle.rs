//! Invariants for any octets that are opened as a log: the fuzz target and the replay of its corpus share it.

use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::crc::crc32c;
use dhow_bundle::storage::{BundleKey, Piece, StoreCommand, StoreEvent, StoredBundle};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId};

use crate::record::{Header, Layout, SEGMENTS_START, put};
use crate::store::{Options, Store};
use crate::wire::{index, length};
use crate::{Disk, FaultyDisk};

const SEED: u64 = 0x0dd5;

fn options() -> Options {
    Options {
        segment_octets: 65_536,
        quota_octets: 512 * 1024,
        seed: SEED,
        ..Options::default()
    }
}

fn bundle(number: u64) -> StoredBundle {
    let endpoint = EndpointId::Ipn {
        allocator: 0,
        node: 2,
        service: 1,
    };
    StoredBundle {
        id: BundleId {
            source: EndpointId::Dtn(Arc::from("//source/")),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(9),
                sequence: number,
            },
            fragment: None,
        },
        destination: endpoint.clone(),
        report_to: EndpointId::Null,
        version: 7,
        flags: 0,
        lifetime_ms: 1,
        age_at_reception_ms: 0,
        received: DtnTime::UNKNOWN,
        header_octets: 1,
        payload_octets: 1,
        total_adu_octets: 0,
        previous: Some(endpoint),
        reads_aggregated_reports: false,
        priority: dhow_bundle::Priority::Normal,
        note: Bytes::new(),
    }
}

fn stored(key: u32, octets: usize) -> [StoreCommand; 2] {
    let key = BundleKey(key);
    let octets = Piece::Octets(Bytes::from(vec![7; octets]));
    [
        StoreCommand::Append {
            key,
            octets,
            crc: None,
        },
        StoreCommand::Commit {
            key,
            bundle: Box::new(bundle(u64::from(key.0))),
        },
    ]
}

/// A small log with every kind of record in it.
#[must_use]
pub fn sample_log() -> Vec<u8> {
    let disk = Arc::new(FaultyDisk::new());
    let Ok((mut store, _)) = Store::open(Arc::<FaultyDisk>::clone(&disk), options()) else {
        return Vec::new();
    };
    let mut events = Vec::new();
    for round in 0..4 {
        store.handle((0..8).flat_map(|key| stored(round * 8 + key, 40)));
        store.handle(stored(100 + round, 40_000));
        let remember = Some((bundle(u64::from(round)).id, DtnTime::from_millis(5)));
        store.handle([StoreCommand::Delete {
            key: BundleKey(round * 8),
            remember,
        }]);
        store.handle([StoreCommand::Reserve {
            time: DtnTime::from_millis(3),
            sequence: u64::from(round),
        }]);
        store.commit(&mut events);
    }
    disk.octets()
}

/// The places of the records of a log, with their headers.
fn records(log: &[u8], layout: Layout) -> Vec<(u64, Header)> {
    let mut found = Vec::new();
    let mut position = SEGMENTS_START;
    while position < length(log.len()) {
        let octets = log.get(index(position)..).unwrap_or_default();
        match Header::decode(octets, layout.seed, position, None) {
            Some(header) => {
                found.push((position, header));
                position += header.record_octets();
            }
            None => position += 8,
        }
    }
    found
}

/// Makes records whose octets were changed valid again, so that what reads their bodies is reached.
fn mend(log: &mut [u8], records: &[(u64, Header)]) {
    for (position, header) in records {
        let payload = index(*position) + 32;
        let body = payload + index(header.payload_octets);
        let end = body + index(header.body_octets);
        let (Some(payload), Some(octets)) = (log.get(payload..body), log.get(body..end)) else {
            continue;
        };
        let header = Header {
            payload_crc: crc32c(payload),
            body_crc: crc32c(octets),
            ..*header
        };
        let encoded = header.encode(SEED, *position);
        put(log, index(*position), &encoded);
    }
}

/// Opens what `input` describes: its first octet says whether the rest is a log (0), or changes to a real one, each of four octets (place and value), made valid
/// again (1) or not (others). With any input, opening ends, and the recovered bundles can be read; a damaged store that opened takes another bundle and has it,
/// and all the others, when it is opened again. Returns whether it opened.
///
/// # Panics
/// One of that does not hold.
#[must_use]
pub fn check_recovery(input: &[u8]) -> bool {
    let Some((mode, rest)) = input.split_first() else {
        return false;
    };
    let log = if *mode == 0 {
        rest.to_vec()
    } else {
        let mut log = sample_log();
        let layout = Layout {
            segment_octets: 65_536,
            seed: SEED,
        };
        let records = records(&log, layout);
        for change in rest.as_chunks::<4>().0 {
            let [low, middle, high, value] = *change;
            let place = index(u32::from_le_bytes([low, middle, high, 0])) % log.len().max(1);
            put(&mut log, place, &[value]);
        }
        if *mode == 1 {
            mend(&mut log, &records);
        }
        log
    };
    let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::with_octets(log));
    let Ok((mut store, recovered)) = Store::open(Arc::clone(&disk), options()) else {
        return false;
    };
    let reader = store.reader();
    let mut count = 0;
    for (_, _, extents) in recovered.bundles {
        count += 1;
        for extent in extents.as_slice() {
            let mut octets = vec![0; index(extent.length)];
            assert!(
                reader.read(*extent, 0, &mut octets).is_ok(),
                "a recovered bundle can be read"
            );
        }
    }
    let mut events = Vec::new();
    store.handle(stored(5_000, 50));
    store.commit(&mut events);
    let taken = events
        .iter()
        .filter(|event| matches!(event, StoreEvent::Stored { .. }))
        .count();
    drop(store);
    let Ok((_, again)) = Store::open(disk, options()) else {
        return false;
    };
    let again = again.bundles.count();
    // Records made valid again may contradict one another, which no damage makes them do.
    assert!(
        *mode < 2 || again == count + taken,
        "{count} recovered and {taken} taken are {again} after opening again"
    );
    true
}
