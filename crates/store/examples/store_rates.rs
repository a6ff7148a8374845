//! Measures the store: records a second by batch and durability, the first use of its segments, and the recovery of a
//! million small bundles.
//!
//! `cargo run --release -p dhow-store --example store_rates -- DIRECTORY [memory|rates|first|recovery]`
#![allow(
    clippy::unwrap_used,
    clippy::as_conversions,
    reason = "a measurement that cannot go on had better stop"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Piece, StoreCommand, StoreEvent, StoredBundle};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId};
use dhow_store::{Disk, Durability, FileDisk, MemoryDisk, Options, Store};

const MILLION: u32 = 1_000_000;

fn bundle(number: u32, octets: usize) -> Box<StoredBundle> {
    let ipn = |node| EndpointId::Ipn {
        allocator: 0,
        node,
        service: 1,
    };
    Box::new(StoredBundle {
        id: BundleId {
            source: ipn(1),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(812_345_678_901),
                sequence: u64::from(number),
            },
            fragment: None,
        },
        destination: ipn(2),
        report_to: ipn(1),
        version: 7,
        flags: 0,
        lifetime_ms: 86_400_000,
        age_at_reception_ms: 0,
        received: DtnTime::from_millis(812_345_678_999),
        header_octets: 60,
        payload_octets: octets as u64,
        total_adu_octets: 0,
        previous: Some(ipn(3)),
        reads_aggregated_reports: false,
        priority: dhow_bundle::Priority::Normal,
        note: Bytes::new(),
    })
}

/// Time that this thread has been running, in the kernel too; zero where the system does not say.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Fills a new log, whose first segments are prepared or not.
fn first_use(directory: &Path, octets: usize, batch: u32, prepared_octets: u64) {
    const OCTETS: usize = 384 << 20;
    let path = directory.join(format!("first-{octets}-{prepared_octets}"));
    let options = Options {
        seed: 1,
        prepared_octets,
        ..Options::default()
    };
    let (mut store, _) = Store::open(Arc::new(FileDisk::open(&path).unwrap()), options).unwrap();
    let start = cpu();
    while store.is_preparable() {
        store.prepare();
    }
    let preparation = cpu() - start;
    let payload = Bytes::from(vec![0x5a; octets]);
    let mut events = Vec::new();
    let (start, start_cpu) = (Instant::now(), cpu());
    let count = u32::try_from(OCTETS / octets).unwrap();
    for first in (0..count).step_by(batch as usize) {
        store.handle((first..first + batch).flat_map(|number| put(number, &payload)));
        store.commit(&mut events);
        events.clear();
    }
    let megabytes = OCTETS as f64 / 1e6;
    println!(
        "first use, {:>3} MiB prepared {octets:>8} B x {batch:>5}: {:>9.1} Mbit/s, cpu {:.2} ms/MB (prepared in {:.2} s of it)",
        prepared_octets >> 20,
        megabytes * 8.0 / start.elapsed().as_secs_f64(),
        (cpu() - start_cpu).as_secs_f64() * 1e3 / megabytes,
        preparation.as_secs_f64(),
    );
    drop(store);
    std::fs::remove_dir_all(&path).unwrap();
}

fn put(number: u32, payload: &Bytes) -> [StoreCommand; 2] {
    let key = BundleKey(number);
    [
        StoreCommand::Append {
            key,
            octets: Piece::Octets(payload.clone()),
            crc: None,
        },
        StoreCommand::Commit {
            key,
            bundle: bundle(number, payload.len()),
        },
    ]
}

/// Stores `count` bundles in batches and, from the second round on, deletes the ones of the round before.
fn rate(
    name: &str,
    disk: Arc<dyn Disk>,
    durability: Durability,
    octets: usize,
    batch: u32,
    rounds: u32,
    hold: u32,
) {
    let (mut store, _) = Store::open(
        disk,
        Options {
            durability,
            seed: 1,
            ..Options::default()
        },
    )
    .unwrap();
    let payload = Bytes::from(vec![0x5a; octets]);
    let mut events = Vec::new();
    let mut commands = Vec::new();
    let (mut spent, mut spent_cpu) = (Duration::ZERO, Duration::ZERO);
    for round in 0..rounds {
        commands.clear();
        for n in 0..batch {
            let key = BundleKey((round % hold) * batch + n);
            if round >= hold {
                commands.push(StoreCommand::Delete {
                    key,
                    remember: None,
                });
            }
        }
        store.handle(commands.drain(..));
        store.commit(&mut events);
        events.clear();
        for n in 0..batch {
            commands.extend(put((round % hold) * batch + n, &payload));
        }
        let (start, start_cpu) = (Instant::now(), cpu());
        store.handle(commands.drain(..));
        store.commit(&mut events);
        if round >= rounds / 4 {
            spent += start.elapsed();
            spent_cpu += cpu() - start_cpu;
        }
        assert!(
            events
                .iter()
                .all(|event| matches!(event, StoreEvent::Stored { .. }))
        );
        events.clear();
    }
    let measured = f64::from((rounds - rounds / 4) * batch);
    let per_second = measured / spent.as_secs_f64();
    println!(
        "{name:<22} {octets:>8} B x {batch:>5}: {per_second:>10.0} bundles/s {:>9.1} Mbit/s, cpu {:.2} us/bundle; log {} MiB, {} checkpoints",
        per_second * octets as f64 * 8.0 / 1e6,
        spent_cpu.as_secs_f64() * 1e6 / measured,
        store.statistics().log_octets >> 20,
        store.statistics().checkpoints,
    );
}

fn recovery(directory: &Path) {
    let path = directory.join("million");
    let options = Options {
        seed: 1,
        ..Options::default()
    };
    {
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(&path).unwrap());
        let (mut store, _) = Store::open(disk, options.clone()).unwrap();
        let payload = Bytes::from(vec![0x5a; 100]);
        let mut events = Vec::new();
        for first in (0..MILLION).step_by(1000) {
            store.handle((first..first + 1000).flat_map(|number| put(number, &payload)));
            store.commit(&mut events);
            events.clear();
        }
        store.close(&mut events);
    }
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(&path).unwrap());
    let start = Instant::now();
    let (store, recovered) = Store::open(disk, options).unwrap();
    let opened = start.elapsed();
    let count = recovered.bundles.count();
    println!(
        "recovery of {count} bundles of 100 B: open {:.3} s, with metadata decoded {:.3} s; table {:.1} octets a bundle",
        opened.as_secs_f64(),
        start.elapsed().as_secs_f64(),
        store.table_octets() as f64 / count as f64,
    );
}

fn main() {
    let directory = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "store-rates".to_owned());
    let directory = Path::new(&directory);
    let only = std::env::args().nth(2);
    let wanted = |case: &str| only.as_ref().is_none_or(|only| only == case);
    if wanted("memory") {
        let disk = Arc::new(MemoryDisk::new());
        rate("memory", disk, Durability::Memory, 1000, 1000, 400, 40);
    }
    if wanted("first") {
        for (octets, batch) in [(1024, 1024), (1 << 20, 1), (1 << 20, 8)] {
            first_use(directory, octets, batch, 0);
            first_use(directory, octets, batch, 512 << 20);
        }
    }
    if wanted("rates") {
        rates(directory);
    }
    if wanted("recovery") {
        recovery(directory);
    }
    let _ = std::fs::remove_dir_all(directory);
}

fn rates(directory: &Path) {
    for (octets, batch, rounds) in [
        (100, 1000, 400),
        (1000, 1000, 400),
        (10_000, 1000, 60),
        (100_000, 100, 60),
        (1_000_000, 10, 60),
    ] {
        for (name, durability) in [
            ("file, os", Durability::Os),
            ("file, sync", Durability::Sync),
        ] {
            let path = directory.join(format!("{octets}-{durability:?}"));
            let disk = Arc::new(FileDisk::open(&path).unwrap());
            rate(name, disk, durability, octets, batch, rounds, 8);
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}
