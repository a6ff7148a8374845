//! Routers at the mercy of arbitrary programs: what fuzzing calls, and the replay of its corpus.
//!
//! Everything here panics when a router breaks its word; it is no part of the interface.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{CreationTimestamp, DtnTime, Instant, NodeId};
use dhow_link::external::frame::FrameReader;

use super::router::{External, Wish};
use super::wire::{Question, Said};
use crate::config::ExternalPolicy;
use crate::driver::StreamId;
use crate::routing::{BundleChange, Contact, Facts, Passage, Router};

/// Bundles that the router holds; their numbers begin at 1.
const BUNDLES: u32 = 8;

/// Neighbours, `ipn:2.0` and so on.
const PEERS: [&str; 3] = ["ipn:2.0", "ipn:3.0", "ipn:4.0"];

/// Let a program say these octets while neighbours take bundles; the number of messages that could be read.
///
/// # Panics
/// A router does what it must not.
#[must_use]
pub fn check_program(octets: &[u8]) -> usize {
    let policy = ExternalPolicy {
        questions: 3,
        answer_ms: 1_000,
        fallback_ms: 500,
    };
    let mut router = External::new("fuzz", policy);
    let peers: Vec<NodeId> = PEERS.iter().filter_map(|it| it.parse().ok()).collect();
    for peer in &peers {
        router.handle_contact(Instant::START, peer, Contact::Up);
    }
    let mut held: BTreeSet<BundleKey> = (0..BUNDLES).map(BundleKey).collect();
    for &key in &held {
        router.handle_bundle(key, BundleChange::Held(Facts::for_test()));
    }
    router.begin(StreamId(1), &peers);
    let mut reader = FrameReader::default();
    reader.push(Bytes::copy_from_slice(octets));
    let (mut now, mut count) = (Instant::START, 0);
    while let Ok(Some(frame)) = reader.take() {
        let Ok(said) = Said::read(&frame) else {
            break;
        };
        let mut again = Vec::new();
        said.put(&mut again);
        assert_eq!(
            Said::read(again.get(4..).unwrap_or_default()),
            Ok(said.clone())
        );
        count += 1;
        ask(&mut router, now);
        router.hear(now, said);
        now = now + Duration::from_millis(100);
        router.attend(now);
        grant(&mut router, &mut held);
        for peer in &peers {
            offer(&mut router, now, peer, &held, count);
        }
        grant(&mut router, &mut held);
        router.check(&held);
    }
    router.end();
    for key in held {
        router.handle_bundle(key, BundleChange::Removed);
    }
    router.check(&BTreeSet::new());
    count
}

fn ask(router: &mut External, now: Instant) {
    while let Some((number, _)) = router.poll_question() {
        let question = Question {
            number,
            destination: "ipn:9.1".into(),
            source: "ipn:1.1".into(),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(1),
                sequence: 0,
            },
            fragment: None,
            octets: 100,
            lifetime_ms: 1_000,
            previous: "".into(),
            given: Vec::new(),
        };
        router.ask(now, question);
    }
}

fn grant(router: &mut External, held: &mut BTreeSet<BundleKey>) {
    while let Some(wish) = router.poll_wish() {
        match wish {
            Wish::Leave(key) | Wish::FallBack(key) => router.left(key),
            Wish::Return(_) => {}
            Wish::Spent(key) | Wish::Discard(key, _) => {
                if held.remove(&key) {
                    router.handle_bundle(key, BundleChange::Removed);
                }
            }
        }
    }
}

/// A neighbour takes a bundle, and has it, has it not, or is to have none.
fn offer(
    router: &mut External,
    now: Instant,
    peer: &NodeId,
    held: &BTreeSet<BundleKey>,
    count: usize,
) {
    let Some(key) = router.next(now, peer, &|_| Passage::Open) else {
        return;
    };
    assert!(held.contains(&key), "{key:?} is not held");
    router.handle_bundle(key, BundleChange::Taken(peer));
    let twice = router.next(now, peer, &|_| Passage::Open);
    assert_ne!(twice, Some(key), "it is on its way");
    let change = match count % 3 {
        0 => BundleChange::Given(peer),
        1 => BundleChange::Returned(peer, now + Duration::from_millis(150)),
        _ => BundleChange::Barred(peer),
    };
    router.handle_bundle(key, change);
}
