//! Bundles of version 6 in a node: made, held, cut, passed on, delivered and reported on as those of version 7 are.

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::v6::admin::AdministrativeRecord;
use dhow_bundle::{BundleFlags, Version};
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Config, Enabled, Route};
use proptest::prelude::*;

fn payload(octets: usize) -> Vec<u8> {
    (0..octets)
        .map(|place| u8::try_from(place % 251).unwrap())
        .collect()
}

fn adu(destination: &str, flags: u64) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(6_000_000),
        bundle_flags: Some(flags),
        bundle_version: Some(6),
        ..BundleAdu::default()
    }
}

fn line(seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    let mut world = World::line(3, seed, |number, config| {
        if number == 3 {
            config.routes.push(Route {
                to: "ipn:1.*".into(),
                via: "ipn:2.0".into(),
                priority: 0,
            });
        }
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    world.until("the sessions are up", |world| {
        let sessions = |at: usize| world.machines[at].node.as_ref().unwrap().sessions().len();
        [sessions(0), sessions(1), sessions(2)] == [1, 2, 1]
    });
    world
}

/// The payload goes from node 1 to an application of node 3.
fn crosses(world: &mut World, octets: usize) {
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:3.42", 0), &payload(octets));
    world.connect(0, sender);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("it is delivered", |world| {
        for at in 0..3 {
            world.check(at);
            for (bundle, octets) in world.machines[at].store.kept.bundles.values() {
                assert_eq!((bundle.version, octets[0]), (6, 6), "version 6 all the way");
            }
        }
        !world.client(2, receiver).received.is_empty()
    });
    let (adu, received) = &world.client(2, receiver).received[0];
    assert!(*received == payload(octets));
    assert_eq!(adu.bundle_version, Some(6));
}

#[test]
fn bundles_of_every_size_cross_three_nodes() {
    for (seed, octets) in (0..).zip([0, 1, 900, 5_000, 17_000, 100_000, 600_000]) {
        let mut world = line(seed, |_, _| ());
        crosses(&mut world, octets);
        world.until("all are gone", |world| {
            (0..3).all(|at| world.machines[at].store.kept.bundles.is_empty())
        });
    }
}

/// RFC 5050 6.1.1: assertions have times; 5.6, 5.4, 5.7: each node reports what it did.
#[test]
fn reports_of_version_6_come_to_who_asked() {
    let mut world = line(3, |_, config| {
        config.reports.generate = BundleFlags::ALL_REPORTS.bits();
    });
    let reader = world.connect(0, Client::new("ipn:1.6", true));
    let mut sender = Client::new("ipn:1.5", false);
    let asks = BundleFlags::ALL_REPORTS.bits();
    sender.send(
        BundleAdu {
            report_to_eid: "ipn:1.6".into(),
            ..adu("ipn:3.42", asks)
        },
        &payload(5_000),
    );
    world.connect(0, sender);
    world.connect(2, Client::new("ipn:3.42", true));
    // Received by the second and the third, forwarded by the first and the second, delivered by the third.
    let mut seen = Vec::new();
    world.until("all have reported", |world| {
        seen = (world.client(0, reader).received.iter())
            .map(|(adu, payload)| {
                assert_eq!(adu.bundle_version, Some(6));
                let record = AdministrativeRecord::decode(payload).unwrap();
                let AdministrativeRecord::StatusReport(report) = record else {
                    panic!("{record:?}")
                };
                assert_eq!(report.subject.source.to_string(), "ipn:1.5");
                let times = report.times.map(|time| time.is_some());
                (adu.src_eid.clone(), times)
            })
            .collect();
        seen.len() == 5
    });
    seen.sort();
    let told = |from: &str, at: usize| {
        let mut times = [false; 5];
        times[at] = true;
        (from.to_owned(), times)
    };
    let mut all = [
        told("ipn:1.0", 2),
        told("ipn:2.0", 0),
        told("ipn:2.0", 2),
        told("ipn:3.0", 0),
        told("ipn:3.0", 3),
    ];
    all.sort();
    assert_eq!(seen, all);
}

#[test]
fn the_echo_service_answers_in_the_version_of_the_question() {
    for octets in [0, 100, 50_000] {
        let mut world = line(4, |_, _| ());
        let mut asker = Client::new("ipn:1.5", false);
        asker.send(adu("ipn:3.7", 0), &payload(octets));
        world.connect(0, asker);
        let reader = world.connect(0, Client::new("ipn:1.5", true));
        world.until("the answer is there", |world| {
            !world.client(0, reader).received.is_empty()
        });
        let (adu, received) = &world.client(0, reader).received[0];
        assert_eq!(adu.bundle_version, Some(u32::from(Version::V6.number())));
        assert!(*received == payload(octets));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// RFC 5050 5.8, 5.9.
    #[test]
    fn fragments_are_cut_anywhere_and_make_the_whole(
        seed in any::<u64>(),
        octets in 2_000_usize..400_000,
        pieces in (500_u64..200_000, 500_u64..200_000),
        cut_through in any::<bool>(),
        breaks in any::<bool>(),
    ) {
        let mut world = line(seed, |number, config| {
            let Some(link) = config.links.first_mut() else { return };
            link.policy.fragment_octets = Some(if number == 1 { pieces.0 } else { pieces.1 });
            link.policy.cut_through = if cut_through { Enabled::Yes } else { Enabled::No };
        });
        if breaks {
            let mut sender = Client::new("ipn:1.5", false);
            sender.send(adu("ipn:3.41", 0), &payload(octets));
            world.connect(0, sender);
            world.settle_some(200);
            for (one, other) in [(1, 2), (0, 1)] {
                world.cut(one, other);
                world.join(one, other);
            }
            world.crash(1);
            world.start(1);
        }
        crosses(&mut world, octets);
    }
}
