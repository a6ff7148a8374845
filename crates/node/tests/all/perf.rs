//! The perf service over whole nodes: what it counts and tells, on links and nodes that come and go.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::BundleFlags;
use dhow_node::api::wire::BundleAdu;
use dhow_node::driver::StreamId;
use dhow_node::perf::wire::{Probe, Summary};

const SERVICE: &str = "ipn:2.5201";

fn probe(run: u8, sequence: u64, total: u64) -> Vec<u8> {
    let probe = Probe {
        run: [run; 16],
        streams: 1,
        interval_ms: 1_000,
        stream: 0,
        sequence,
        total,
    };
    let mut payload = probe.encode().to_vec();
    payload.resize(1_000, 7);
    payload
}

fn adu() -> BundleAdu {
    BundleAdu {
        dst_eid: SERVICE.into(),
        lifetime_ms: Some(86_400_000),
        ..BundleAdu::default()
    }
}

/// Sends these from ipn:1.9.
fn send(world: &mut World, payloads: impl IntoIterator<Item = Vec<u8>>) {
    let mut sender = Client::new("ipn:1.9", false);
    for payload in payloads {
        sender.send(adu(), &payload);
    }
    world.connect(0, sender);
}

fn listen(world: &mut World) -> StreamId {
    world.connect(0, Client::new("ipn:1.9", true))
}

/// The newest summary of each count of a run.
fn told(world: &mut World, at: StreamId, run: u8) -> BTreeMap<[u64; 2], Summary> {
    let mut counts = BTreeMap::<_, Summary>::new();
    for (adu, payload) in &world.client(0, at).received {
        assert_eq!(adu.src_eid, SERVICE);
        let summary = Summary::decode(payload).expect("a summary");
        if summary.run != [run; 16] {
            continue;
        }
        let newest = counts.entry(summary.count).or_insert(summary);
        if summary.number > newest.number {
            *newest = summary;
        }
    }
    counts
}

fn bundles(counts: &BTreeMap<[u64; 2], Summary>) -> u64 {
    counts.values().map(|summary| summary.bundles).sum()
}

fn all_empty(world: &World) -> bool {
    world
        .machines
        .iter()
        .all(|machine| machine.store.kept.bundles.is_empty())
}

#[test]
fn a_summary_tells_what_came_and_the_bundles_are_gone() {
    let mut world = World::line(2, 1, |_, _| {});
    world.hostile = true;
    let listener = listen(&mut world);
    send(&mut world, (0..300).map(|number| probe(1, number, 300)));
    world.until("all are told of", |world| {
        bundles(&told(world, listener, 1)) == 300
    });
    let counts = told(&mut world, listener, 1);
    let summary = counts.values().next().unwrap();
    assert_eq!(counts.len(), 1);
    assert_eq!(
        (
            summary.octets,
            summary.repeated,
            summary.uncertain,
            summary.delays.count
        ),
        (300_000, 0, 0, 300)
    );
    assert!(summary.delays.min_ms >= 0 && summary.span_us > 0);
    world.until("nothing is left", |world| all_empty(world));
    let summaries = world.client(0, listener).received.len();
    assert!(
        summaries < 300,
        "not one summary for each bundle: {summaries}"
    );
}

#[test]
fn bundles_that_waited_an_hour_for_their_link_are_counted_once() {
    let mut world = World::line(2, 2, |_, _| {});
    let listener = listen(&mut world);
    send(&mut world, (0..20).map(|number| probe(1, number, 0)));
    world.until("the first are told of", |world| {
        bundles(&told(world, listener, 1)) == 20
    });
    world.cut(0, 1);
    // 30 to 39 never leave, and 20 to 24 are sent twice.
    let late = (20..30).chain(20..25).chain(40..50);
    send(&mut world, late.map(|number| probe(1, number, 0)));
    world.settle();
    world.pass(Duration::from_secs(3_600));
    world.join(0, 1);
    world.until("the others are told of", |world| {
        bundles(&told(world, listener, 1)) == 40
    });
    let counts = told(&mut world, listener, 1);
    let summary = counts.values().next().unwrap();
    assert_eq!(counts.len(), 1, "an hour of silence ends no count");
    assert_eq!((summary.repeated, summary.uncertain), (5, 0));
    assert!(summary.span_us >= 3_600_000_000);
    assert!(summary.delays.max_ms >= 3_600_000);
}

#[test]
fn what_a_killed_node_had_not_told_of_it_tells_of_when_it_is_back() {
    let mut world = World::line(2, 3, |_, _| {});
    let listener = listen(&mut world);
    send(&mut world, (0..10).map(|number| probe(1, number, 0)));
    world.until("all are at the service", |world| {
        world.machines[1].store.kept.bundles.len() >= 9
    });
    world.settle();
    let before = bundles(&told(&mut world, listener, 1));
    assert!(before < 10, "the service waits for its interval");
    world.crash(1);
    world.start(1);
    world.until("all are told of", |world| {
        bundles(&told(world, listener, 1)) == 10
    });
    world.pass(Duration::from_secs(10));
    world.settle();
    let counts = told(&mut world, listener, 1);
    assert_eq!((counts.len(), bundles(&counts)), (2, 10));
    assert!(counts.values().all(|summary| summary.repeated == 0));
}

#[test]
fn what_is_no_probe_is_taken_and_not_answered() {
    let mut world = World::line(2, 4, |_, _| {});
    let listener = listen(&mut world);
    let mut other = probe(1, 0, 1);
    other[8] = 9;
    send(&mut world, [b"hello".to_vec(), Vec::new(), other]);
    let mut nobody = Client::new("ipn:1.10", false);
    let anonymous = BundleAdu {
        src_eid: "dtn:none".into(),
        bundle_flags: Some(BundleFlags::MUST_NOT_FRAGMENT.bits()),
        ..adu()
    };
    nobody.send(anonymous, &probe(1, 0, 1));
    world.connect(0, nobody);
    world.until("nothing is left", |world| all_empty(world));
    world.pass(Duration::from_secs(10));
    world.settle();
    assert!(world.client(0, listener).received.is_empty());
}

#[test]
fn sources_that_are_not_accepted_are_not_answered() {
    let mut world = World::line(2, 5, |_, config| {
        config.perf_sources = vec!["ipn:7.*".into()];
    });
    let listener = listen(&mut world);
    send(&mut world, [probe(1, 0, 1)]);
    world.until("it has arrived", |world| {
        !world.machines[1].occurrences.is_empty() && all_empty(world)
    });
    world.pass(Duration::from_secs(10));
    world.settle();
    assert!(world.client(0, listener).received.is_empty());
}

#[test]
fn more_measurements_than_are_counted_end_the_one_that_was_silent_longest() {
    let mut world = World::line(2, 6, |_, _| {});
    let listener = listen(&mut world);
    for run in 0..40 {
        send(&mut world, (0..3).map(|number| probe(run, number, 0)));
        world.settle();
        world.pass(Duration::from_millis(10));
    }
    world.until("all are told of", |world| {
        (0..40).all(|run| bundles(&told(world, listener, run)) == 3)
    });
    world.until("nothing is left", |world| all_empty(world));
}

#[test]
fn a_service_without_room_for_its_summary_tells_later() {
    let mut world = World::line(2, 7, |number, config| {
        if number == 2 {
            config.quota_bundles = 5;
        }
    });
    let listener = listen(&mut world);
    send(&mut world, (0..5).map(|number| probe(1, number, 5)));
    world.until("all are told of", |world| {
        bundles(&told(world, listener, 1)) == 5
    });
    world.until("nothing is left", |world| all_empty(world));
}
