//! Status reports on many bundles in one (`docs/aggregated-reports.md`): when they wait for each other, and
//! that none is lost.

#[allow(
    dead_code,
    reason = "each test program uses what it needs of the world"
)]
use std::collections::BTreeSet;
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::storage::{BundleKey, StoreEvent, StoreRefusal};
use dhow_bundle::v7::admin::{AdministrativeRecord, ReasonCode, StatusReport};
use dhow_bundle::{Now, Reading};
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Config, Route};
use dhow_node::driver::{Event, OperatorCommand, StreamId, Ticket};

const DELIVERY: u64 = 0x2_0040;

fn asking(aggregated_reports: bool, lifetime_ms: u64) -> BundleAdu {
    BundleAdu {
        dst_eid: "ipn:2.42".into(),
        lifetime_ms: Some(lifetime_ms),
        bundle_flags: Some(DELIVERY),
        aggregated_reports,
        ..BundleAdu::default()
    }
}

/// Two nodes, of which the second reports deliveries back over the session that the first dialled.
fn world(seed: u64, edit: impl Fn(&mut Config)) -> World {
    World::line(2, seed, |number, config| {
        config.reports.generate = 0x7_4000;
        if number == 2 {
            config.routes = vec![Route {
                to: "ipn:1.*".into(),
                via: "ipn:1.0".into(),
                priority: 0,
            }];
        }
        edit(config);
    })
}

/// Sends `count` bundles and has them delivered.
fn send(world: &mut World, count: usize, adu: &BundleAdu) -> StreamId {
    let mut sender = Client::new("ipn:1.9", false);
    for _ in 0..count {
        sender.send(adu.clone(), b"x");
    }
    world.connect(0, sender);
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.until("all are delivered", |world| {
        world.client(1, receiver).received.len() == count
    });
    receiver
}

/// The reports that came, by the bundles that carried them.
fn told(world: &mut World, at: usize, asker: StreamId) -> Vec<Vec<StatusReport>> {
    let received = &world.client(at, asker).received;
    received
        .iter()
        .map(|(_, octets)| {
            match AdministrativeRecord::decode(&octets.clone().into(), Reading::Strict).unwrap() {
                AdministrativeRecord::StatusReport(report) => vec![report],
                AdministrativeRecord::AggregatedReport(report) => report.reports().collect(),
                other => panic!("{other:?}"),
            }
        })
        .collect()
}

/// The sequence numbers of the bundles told of as delivered, each with a time.
fn delivered(told: &[Vec<StatusReport>]) -> Vec<u64> {
    let reports = told.iter().flatten();
    reports
        .map(|report| {
            assert!(report.delivered.unwrap().time.is_some());
            report.bundle.creation.sequence
        })
        .collect()
}

fn stored(world: &World, at: usize) -> u64 {
    world.machines[at].node.as_ref().unwrap().stored().0
}

#[test]
fn reports_on_many_bundles_travel_in_one() {
    let mut world = world(1, |_| ());
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    send(&mut world, 40, &asking(true, 600_000));
    world.until("all reports came", |world| {
        told(world, 0, asker).iter().flatten().count() == 40
    });
    let told = told(&mut world, 0, asker);
    assert_eq!(told.len(), 1, "one bundle carries them all");
    let sequences: BTreeSet<u64> = delivered(&told).into_iter().collect();
    assert_eq!(sequences.len(), 40);
    // The parts that lay in the store meanwhile are gone, and nothing rests.
    world.until("nothing is left", |world| stored(world, 1) == 0);
    let counters = world.machines[1].node.as_ref().unwrap().counters();
    assert_eq!((counters.reports, counters.reports_collected), (40, 40));
}

#[test]
fn who_does_not_announce_that_it_reads_them_gets_plain_reports() {
    let mut world = world(2, |_| ());
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    send(&mut world, 10, &asking(false, 600_000));
    world.until("all reports came", |world| {
        world.client(0, asker).received.len() == 10
    });
    assert_eq!(delivered(&told(&mut world, 0, asker)).len(), 10);
}

#[test]
fn a_node_told_not_to_collect_sends_plain_reports() {
    let mut world = world(3, |config| config.reports.collect_ms = 0);
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    send(&mut world, 10, &asking(true, 600_000));
    world.until("all reports came", |world| {
        world.client(0, asker).received.len() == 10
    });
}

#[test]
fn a_collection_is_sent_when_it_is_full() {
    let mut world = world(4, |config| {
        config.reports.collect_ms = 3_600_000;
        config.reports.collect_most = 10;
    });
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    send(&mut world, 25, &asking(true, 86_400_000));
    world.settle();
    assert_eq!(
        told(&mut world, 0, asker)
            .iter()
            .map(Vec::len)
            .collect::<Vec<_>>(),
        [10, 10]
    );
    world.pass(Duration::from_secs(3_600));
    world.until("the rest came", |world| {
        delivered(&told(world, 0, asker)).len() == 25
    });
}

#[test]
fn a_report_waits_no_longer_than_its_bundle_would_live() {
    let mut world = world(5, |config| config.reports.collect_ms = 3_600_000);
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    send(&mut world, 1, &asking(true, 5_000));
    world.settle();
    assert_eq!(told(&mut world, 0, asker).len(), 0);
    world.pass(Duration::from_secs(5));
    world.settle();
    assert_eq!(told(&mut world, 0, asker).len(), 1);
}

/// The octets that a crash finds is in the store as with plain reports: told of in the same batch as the deletions.
#[test]
fn reports_that_wait_at_a_crash_are_sent_after_it() {
    let mut world = world(6, |config| config.reports.collect_ms = 3_600_000);
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    send(&mut world, 30, &asking(true, 86_400_000));
    world.settle();
    assert_eq!(told(&mut world, 0, asker).len(), 0, "all wait");
    world.crash(1);
    world.start(1);
    world.until("all reports came", |world| {
        told(world, 0, asker).iter().flatten().count() == 30
    });
    let sequences: BTreeSet<u64> = delivered(&told(&mut world, 0, asker)).into_iter().collect();
    assert_eq!(sequences.len(), 30);
}

#[test]
fn a_shutdown_loses_no_report() {
    let mut world = world(7, |config| config.reports.collect_ms = 3_600_000);
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    send(&mut world, 30, &asking(true, 86_400_000));
    world.handle(1, Event::Shutdown);
    world.settle();
    assert!(world.machines[1].node.as_ref().unwrap().is_idle());
    world.crash(1);
    world.start(1);
    world.until("all reports came", |world| {
        told(world, 0, asker).iter().flatten().count() == 30
    });
}

/// An operator may drop what waits in the store; what it told is told all the same, by the whole.
#[test]
fn a_part_that_an_operator_drops_is_replaced_by_the_whole() {
    let mut world = world(8, |config| config.reports.collect_ms = 10_000);
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    send(&mut world, 3, &asking(true, 600_000));
    world.settle();
    let now = Now {
        monotonic: world.monotonic,
        dtn: crate::world::EPOCH,
    };
    let node = world.machines[1].node.as_ref().unwrap();
    let parts = node
        .bundles(now, BundleKey(0))
        .map(|(_, part)| part)
        .collect::<Vec<_>>();
    assert!(!parts.is_empty());
    for (ticket, part) in (0..).zip(parts) {
        world.handle(
            1,
            Event::Operator {
                ticket: Ticket(ticket),
                command: OperatorCommand::BundleDrop(part.id),
            },
        );
    }
    world.settle();
    world.pass(Duration::from_secs(10));
    world.until("all reports came", |world| {
        told(world, 0, asker).iter().flatten().count() == 3
    });
    world.until("nothing is left", |world| stored(world, 1) == 0);
}

/// A store that told of a bundle before it was durable tells when the disk did not keep it.
#[test]
fn a_bundle_that_the_disk_did_not_keep_as_promised_is_reported_deleted() {
    let mut world = World::line(1, 10, |_, config| config.reports.generate = 0x4_0000);
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    let mut sender = Client::new("ipn:1.9", false);
    let adu = BundleAdu {
        dst_eid: "ipn:9.1".into(),
        bundle_flags: Some(0x4_0000),
        ..asking(false, 600_000)
    };
    sender.send(adu, b"x");
    world.connect(0, sender);
    world.settle();
    assert_eq!(stored(&world, 0), 1);
    let refused = StoreEvent::Refused {
        key: BundleKey(0),
        refusal: StoreRefusal::Disk,
    };
    world.handle(0, Event::Store(refused));
    world.until("the report came", |world| told(world, 0, asker).len() == 1);
    let reason = told(&mut world, 0, asker)[0][0].reason;
    assert_eq!(reason, ReasonCode::DepletedStorage);
    world.until("nothing is left", |world| stored(world, 0) == 0);
}

/// RFC 9171 5.5, 5.10: bundles that expire together are told of together, and at once.
#[test]
fn bundles_that_expire_at_one_time_are_reported_in_one() {
    let mut world = World::line(1, 9, |_, config| config.reports.generate = 0x4_0000);
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    let mut sender = Client::new("ipn:1.8", false);
    for _ in 0..20 {
        sender.send(
            BundleAdu {
                dst_eid: "ipn:9.1".into(),
                report_to_eid: "ipn:1.9".into(),
                bundle_flags: Some(0x4_0000),
                ..asking(true, 10_000)
            },
            b"x",
        );
    }
    world.connect(0, sender);
    world.settle();
    world.pass(Duration::from_secs(10));
    world.settle();
    let told = told(&mut world, 0, asker);
    assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [20]);
    assert!(told.iter().flatten().all(|report| report.deleted.is_some()));
}
