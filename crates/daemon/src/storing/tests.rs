//! A store's thread whose disk refuses.

use std::sync::Arc;

use dhow_bundle::storage::{BundleKey, StoreCommand, StoreEvent, StoredBundle};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId};
use dhow_store::{Failure, FaultyDisk, Options};

use super::*;
use crate::config::file::ClockSetting;

/// As long as no machine is slow enough to take.
const PATIENCE: Duration = Duration::from_secs(60);

fn bundle() -> Box<StoredBundle> {
    Box::new(StoredBundle {
        id: BundleId {
            source: EndpointId::Null,
            creation: CreationTimestamp {
                time: DtnTime::from_millis(1),
                sequence: 1,
            },
            fragment: None,
        },
        destination: EndpointId::Null,
        report_to: EndpointId::Null,
        version: 7,
        flags: 0,
        lifetime_ms: 1,
        age_at_reception_ms: 0,
        received: DtnTime::UNKNOWN,
        header_octets: 0,
        payload_octets: 0,
        total_adu_octets: 0,
        previous: None,
    })
}

/// A node whose quota is full asks nothing of its store until a deletion is answered.
#[tokio::test]
async fn what_the_disk_refused_is_done_later_though_nothing_more_is_asked() {
    let disk = Arc::new(FaultyDisk::new());
    let (store, _) = Store::open(Arc::<FaultyDisk>::clone(&disk), Options::default()).unwrap();
    let clock = Clock::start(ClockSetting::System);
    let thread = StoreThread::start(store, clock, Flushing::AtOnce).unwrap();
    let answers = thread.answers();
    let next = async || {
        let mut events = Vec::new();
        let answered = tokio::time::timeout(PATIENCE, answers.next(&mut events)).await;
        assert_eq!(answered, Ok(true));
        events
    };
    let key = BundleKey(0);
    thread.send(&mut vec![StoreCommand::Commit {
        key,
        bundle: bundle(),
    }]);
    let stored = next().await;
    assert!(
        matches!(stored[..], [StoreEvent::Stored { .. }]),
        "{stored:?}"
    );
    disk.fail_after(0, Failure::Full);
    let remember = None;
    thread.send(&mut vec![StoreCommand::Delete { key, remember }]);
    let deleted = next().await;
    assert!(
        matches!(deleted[..], [StoreEvent::Deleted { .. }]),
        "{deleted:?}"
    );
}
