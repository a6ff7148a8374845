//! The store's thread: when it writes, flushes and answers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails where it finds something else than expected"
)]

use std::io::IoSlice;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dhow_bundle::storage::{BundleKey, Piece, StoreCommand, StoreEvent, StoredBundle};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId};
use dhow_daemon::clock::Clock;
use dhow_daemon::config::file::ClockSetting;
use dhow_daemon::contact::{Contact, Flushing};
use dhow_daemon::storing::{Answers, StoreThread};
use dhow_store::{Disk, DiskError, Failure, FaultyDisk, MemoryDisk, Options, Store};

/// The time that a thread may take for work that it does at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// Octets that take their time to write: a flush is thought of after as many.
const LARGE_OCTETS: usize = 5 << 20;

/// The time that a write of so many takes: longer than a batch is written without a flush between.
const LARGE_TIME: Duration = Duration::from_millis(20);

/// A disk that tells of each flush and takes its time for large writes.
struct TellingDisk {
    disk: MemoryDisk,
    flushed: Mutex<Sender<()>>,
}

impl Disk for TellingDisk {
    fn size(&self) -> Result<u64, DiskError> {
        self.disk.size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        self.disk.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        if octets.iter().map(|slice| slice.len()).sum::<usize>() >= LARGE_OCTETS {
            std::thread::sleep(LARGE_TIME);
        }
        self.disk.write_at(offset, octets)
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        self.disk.resize(octets)
    }

    fn reserve(&self, from: u64, until: u64) -> Result<(), DiskError> {
        self.disk.reserve(from, until)
    }

    fn sync(&self) -> Result<(), DiskError> {
        // Nobody may listen any more when the store is closed.
        let _ = self.flushed.lock().unwrap().send(());
        Ok(())
    }
}

fn start(flushing: Flushing) -> (StoreThread, Receiver<()>) {
    let (flushed, flushes) = channel();
    let disk = TellingDisk {
        disk: MemoryDisk::new(),
        flushed: Mutex::new(flushed),
    };
    let thread = start_on(Arc::new(disk), flushing);
    // The flushes of opening are not of interest.
    while flushes.try_recv().is_ok() {}
    (thread, flushes)
}

fn start_on(disk: Arc<dyn Disk>, flushing: Flushing) -> StoreThread {
    let options = Options {
        segment_octets: 8 << 20,
        quota_octets: 96 << 20,
        ..Options::default()
    };
    let (store, _) = Store::open(disk, options).unwrap();
    let clock = Clock::start(ClockSetting::System);
    StoreThread::start(store, clock, flushing).unwrap()
}

/// The commands that keep a bundle of these octets.
fn keep(key: u32, octets: Vec<u8>) -> [StoreCommand; 2] {
    let source: EndpointId = "ipn:1.1".parse().unwrap();
    let bundle = StoredBundle {
        id: BundleId {
            source: source.clone(),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(1000),
                sequence: u64::from(key),
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
        payload_octets: octets.len().try_into().unwrap(),
        total_adu_octets: 0,
        previous: None,
        reads_aggregated_reports: false,
        priority: dhow_bundle::Priority::Normal,
        note: bytes::Bytes::new(),
    };
    let key = BundleKey(key);
    let (octets, bundle) = (Piece::Octets(octets.into()), Box::new(bundle));
    [
        StoreCommand::Append {
            key,
            octets,
            crc: None,
        },
        StoreCommand::Commit { key, bundle },
    ]
}

/// Waits for the next answers until `count` have come; what they say of which bundle: that it is kept, or deleted.
async fn told(answers: &Answers, count: usize) -> Vec<(&'static str, u32)> {
    let mut told = Vec::new();
    let mut events = Vec::new();
    while told.len() < count {
        let more = tokio::time::timeout(PATIENCE, answers.next(&mut events)).await;
        assert!(more.unwrap(), "the store's thread ended");
        told.extend(events.drain(..).filter_map(|event| match event {
            StoreEvent::Stored { key, .. } => Some(("stored", key.0)),
            StoreEvent::Deleted { key } => Some(("deleted", key.0)),
            StoreEvent::Refused { key, .. } => Some(("refused", key.0)),
            _ => None,
        }));
    }
    told
}

#[tokio::test]
async fn a_batch_that_takes_long_to_write_is_flushed_and_answered_in_steps() {
    let (thread, flushes) = start(Flushing::AtOnce);
    let batch = (0..4).flat_map(|key| keep(key, vec![0; LARGE_OCTETS]));
    thread.send(&mut batch.collect());
    let answers = [("stored", 0), ("stored", 1), ("stored", 2), ("stored", 3)];
    assert_eq!(told(&thread.answers(), 4).await, answers);
    let flushes = flushes.try_iter().count();
    assert!(flushes >= 3, "{flushes} flushes for four slow writes");
}

#[tokio::test]
async fn a_contact_is_answered_before_it_is_flushed_and_flushed_when_it_is_over() {
    let (thread, flushes) = start(Flushing::AfterContact);
    let answers = thread.answers();
    thread.send(&mut keep(0, vec![0; 5]).into());
    assert_eq!(told(&answers, 1).await, [("stored", 0)]);
    assert!(flushes.try_recv().is_ok(), "no contact is on");
    while flushes.try_recv().is_ok() {}
    thread.tell_contact(Contact::On);
    for key in 1..20 {
        thread.send(&mut keep(key, vec![0; 5]).into());
        assert_eq!(told(&answers, 1).await, [("stored", key)]);
    }
    assert!(flushes.try_recv().is_err(), "the contact is on");
    thread.tell_contact(Contact::Over);
    flushes.recv_timeout(PATIENCE).unwrap();
}

#[tokio::test]
async fn a_store_that_is_to_flush_at_once_does_whatever_contact_there_is() {
    let (thread, flushes) = start(Flushing::AtOnce);
    thread.tell_contact(Contact::On);
    thread.send(&mut keep(0, vec![0; 5]).into());
    assert_eq!(told(&thread.answers(), 1).await, [("stored", 0)]);
    assert!(flushes.try_recv().is_ok());
}

/// A node whose quota is full asks nothing of its store until a deletion is answered.
#[tokio::test]
async fn what_the_disk_refused_is_done_later_though_nothing_more_is_asked() {
    let disk = Arc::new(FaultyDisk::new());
    let thread = start_on(disk.clone(), Flushing::AtOnce);
    let answers = thread.answers();
    thread.send(&mut keep(0, vec![0; 5]).into());
    assert_eq!(told(&answers, 1).await, [("stored", 0)]);
    disk.fail_after(0, Failure::Full);
    let (key, remember) = (BundleKey(0), None);
    thread.send(&mut vec![StoreCommand::Delete { key, remember }]);
    assert_eq!(told(&answers, 1).await, [("deleted", 0)]);
}
