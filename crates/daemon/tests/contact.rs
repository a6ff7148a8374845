//! `durability = "contact"`: answers before flushes while a contact is on, flushes when it is over.
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
use dhow_store::{Disk, DiskError, MemoryDisk, Options, Store};

/// How long a thread may take for what it does at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// A disk that tells of each flush.
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
        self.disk.write_at(offset, octets)
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        self.disk.resize(octets)
    }

    fn reserve(&self, octets: u64) -> Result<(), DiskError> {
        self.disk.reserve(octets)
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
    let options = Options {
        segment_octets: 65_536,
        quota_octets: 4 << 20,
        ..Options::default()
    };
    let (store, _) = Store::open(Arc::new(disk), options).unwrap();
    let clock = Clock::start(ClockSetting::System);
    let thread = StoreThread::start(store, clock, flushing).unwrap();
    // What opening flushed is not of interest.
    while flushes.try_recv().is_ok() {}
    (thread, flushes)
}

fn keep(thread: &StoreThread, key: u32) {
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
        header_octets: 2,
        payload_octets: 3,
        total_adu_octets: 0,
        previous: None,
    };
    let key = BundleKey(key);
    let octets = Piece::Octets(b"hello".as_slice().into());
    thread.send(&mut vec![
        StoreCommand::Append { key, octets },
        StoreCommand::Commit {
            key,
            bundle: Box::new(bundle),
        },
    ]);
}

/// The next answers, of which one says that the bundle is kept.
async fn kept(answers: &Answers, key: u32) {
    let mut events = Vec::new();
    while !events.iter().any(
        |event| matches!(event, StoreEvent::Stored { key: BundleKey(found), .. } if *found == key),
    ) {
        let more = tokio::time::timeout(PATIENCE, answers.next(&mut events)).await;
        assert!(more.unwrap(), "the store's thread ended");
    }
}

#[tokio::test]
async fn a_contact_is_answered_before_it_is_flushed_and_flushed_when_it_is_over() {
    let (thread, flushes) = start(Flushing::AfterContact);
    let answers = thread.answers();
    keep(&thread, 0);
    kept(&answers, 0).await;
    assert!(flushes.try_recv().is_ok(), "no contact is on");
    while flushes.try_recv().is_ok() {}
    thread.tell_contact(Contact::On);
    for key in 1..20 {
        keep(&thread, key);
        kept(&answers, key).await;
    }
    assert!(flushes.try_recv().is_err(), "the contact is on");
    thread.tell_contact(Contact::Over);
    flushes.recv_timeout(PATIENCE).unwrap();
}

#[tokio::test]
async fn a_store_that_is_to_flush_at_once_does_whatever_contact_there_is() {
    let (thread, flushes) = start(Flushing::AtOnce);
    thread.tell_contact(Contact::On);
    keep(&thread, 0);
    kept(&thread.answers(), 0).await;
    assert!(flushes.try_recv().is_ok());
}
