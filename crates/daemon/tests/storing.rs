//! The store's thread: group commit, in steps where the disk is slow.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it finds something else than expected"
)]

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dhow_bundle::storage::{BundleKey, Piece, StoreCommand, StoreEvent, StoredBundle};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId};
use dhow_daemon::clock::Clock;
use dhow_daemon::config::file::ClockSetting;
use dhow_daemon::contact::Flushing;
use dhow_daemon::storing::StoreThread;
use dhow_store::{Disk, DiskError, MemoryDisk, Options, Store};

/// How long a thread may take for what it does at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a write takes: longer than a batch is written without a flush between.
const WRITE_TIME: Duration = Duration::from_millis(20);

/// Octets of a payload: a flush is thought of after each.
const PAYLOAD_OCTETS: usize = 5 << 20;

/// A disk that takes its time for each large write, and counts flushes.
#[derive(Default)]
struct TardyDisk {
    disk: MemoryDisk,
    flushes: AtomicUsize,
}

impl Disk for TardyDisk {
    fn size(&self) -> Result<u64, DiskError> {
        self.disk.size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        self.disk.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        if octets.iter().map(|slice| slice.len()).sum::<usize>() >= PAYLOAD_OCTETS {
            std::thread::sleep(WRITE_TIME);
        }
        self.disk.write_at(offset, octets)
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        self.disk.resize(octets)
    }

    fn reserve(&self, octets: u64) -> Result<(), DiskError> {
        self.disk.reserve(octets)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn bundle(sequence: u32) -> StoredBundle {
    let source: EndpointId = "ipn:1.1".parse().unwrap();
    StoredBundle {
        id: BundleId {
            source: source.clone(),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(1000),
                sequence: u64::from(sequence),
            },
            fragment: None,
        },
        destination: source.clone(),
        report_to: source,
        version: 7,
        flags: 0,
        lifetime_ms: 60_000,
        age_at_reception_ms: 0,
        received: DtnTime::UNKNOWN,
        header_octets: 0,
        payload_octets: PAYLOAD_OCTETS.try_into().unwrap(),
        total_adu_octets: 0,
        previous: None,
    }
}

#[tokio::test]
async fn a_batch_that_takes_long_to_write_is_flushed_and_answered_in_steps() {
    let options = Options {
        segment_octets: 64 << 20,
        quota_octets: 256 << 20,
        ..Options::default()
    };
    let disk = Arc::new(TardyDisk::default());
    let (store, _) = Store::open(disk.clone(), options).unwrap();
    let before = disk.flushes.load(Ordering::Relaxed);
    let clock = Clock::start(ClockSetting::System);
    let thread = StoreThread::start(store, clock, Flushing::AtOnce).unwrap();
    let answers = thread.answers();
    let bundles: u32 = 4;
    let commands = (0..bundles).flat_map(|number| {
        let key = BundleKey(number);
        let octets = Piece::Octets(vec![0; PAYLOAD_OCTETS].into());
        let bundle = Box::new(bundle(number));
        [
            StoreCommand::Append { key, octets },
            StoreCommand::Commit { key, bundle },
        ]
    });
    thread.send(&mut commands.collect());
    let mut stored = Vec::new();
    let mut events = Vec::new();
    while stored.len() < 4 {
        let more = tokio::time::timeout(PATIENCE, answers.next(&mut events)).await;
        assert!(more.unwrap(), "the store's thread ended");
        for event in events.drain(..) {
            if let StoreEvent::Stored { key, .. } = event {
                stored.push(key.0);
            }
        }
    }
    assert_eq!(stored, [0, 1, 2, 3], "each once, in their order");
    let flushes = disk.flushes.load(Ordering::Relaxed) - before;
    assert!(flushes >= 3, "{flushes} flushes for {bundles} slow writes");
}
