//! Custody, told as stories (`bundles`, `owed`, `bibe`), against a naive model (`model`), and as two nodes with a link that loses (`pair`).

mod bibe;
mod bundles;
mod model;
mod owed;
mod pair;

use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::v6::CreationTime;
use dhow_bundle::v6::admin::{AdministrativeRecord, Subject};
use dhow_bundle::{DtnTime, EndpointId, Instant, Now};

use super::{Custodian, Custody, OwedSignal};

/// So many seconds after the start.
fn at(seconds: u64) -> Instant {
    Instant::START + Duration::from_secs(seconds)
}

/// The time by both clocks.
fn now(seconds: u64) -> Now {
    Now {
        monotonic: at(seconds),
        dtn: DtnTime::from_millis(800_000_000_250 + seconds * 1_000),
    }
}

fn node(number: u32) -> EndpointId {
    EndpointId::from_ipn_numbers(0, number, 0).unwrap()
}

fn subject(sequence: u64) -> Subject {
    Subject {
        source: node(77),
        creation: CreationTime {
            seconds: 800_000_000,
            sequence,
        },
        fragment: None,
    }
}

fn custodian(number: u32, id: Option<u64>) -> Custodian {
    Custodian {
        endpoint: node(number),
        id,
        subject: subject(id.unwrap_or_default()),
    }
}

/// A bundle with custody that nobody had before, durable here: its custody ID.
fn made_here(custody: &mut Custody, key: u32) -> u64 {
    let acceptance = custody.handle_request(BundleKey(key), None).unwrap();
    custody.handle_accepted(at(0), BundleKey(key));
    acceptance.given.id
}

/// A bundle whose custody a node had before, durable here at a time: its custody ID.
fn taken_from(custody: &mut Custody, seconds: u64, key: u32, before: Custodian) -> u64 {
    let acceptance = custody.handle_request(BundleKey(key), Some(before));
    custody.handle_accepted(at(seconds), BundleKey(key));
    acceptance.unwrap().given.id
}

fn signals(custody: &mut Custody, seconds: u64) -> Vec<OwedSignal> {
    core::iter::from_fn(|| custody.poll_signal(now(seconds))).collect()
}

/// The runs of an aggregate custody signal.
fn runs(signal: &OwedSignal) -> &[(u64, u64)] {
    match &signal.record {
        AdministrativeRecord::AggregateSignal(signal) => &signal.runs,
        other => panic!("{other:?} is no aggregate"),
    }
}
