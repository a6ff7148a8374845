//! Gateways between versions 6 and 7: bundles cross in either direction, in a line and in a ring of two worlds.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::v7::oracle::check_bundle;
use dhow_bundle::{BundleFlags, CrcType, Reading, v6, v7};
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{BundleVersions, Config, Enabled, Route};
use dhow_node::driver::{Occurrence, StreamId};
use proptest::prelude::*;

fn payload(number: usize, octets: usize) -> Vec<u8> {
    let octet = |place: usize| u8::try_from((place * 7 + number * 13) % 251).unwrap();
    (0..octets).map(octet).collect()
}

fn adu(version: u32, destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(6_000_000),
        bundle_version: Some(version),
        ..BundleAdu::default()
    }
}

fn reported(adu: BundleAdu, report_to: &str, flags: BundleFlags) -> BundleAdu {
    BundleAdu {
        report_to_eid: report_to.into(),
        bundle_flags: Some(flags.bits()),
        ..adu
    }
}

fn only(version: u32) -> BundleVersions {
    BundleVersions::of_numbers(&[version.into()]).unwrap()
}

/// Both directions between two nodes: the policy of the link, and of the listener at its other end.
fn speak(number: u32, config: &mut Config, link: Option<u32>, listener: Option<u32>) {
    let _ = number;
    if let (Some(version), Some(link)) = (link, config.links.first_mut()) {
        link.policy.bundle_versions = only(version);
    }
    if let Some(version) = listener {
        config.listeners[0].policy.bundle_versions = only(version);
    }
}

/// The versions of the bundles on a node's disk.
fn versions(world: &World, at: usize) -> Vec<u8> {
    let kept = world.machines[at].store.kept.bundles.values();
    kept.map(|(bundle, octets)| {
        let first = if octets[0] == 6 { 6 } else { 7 };
        assert_eq!(bundle.version, first);
        first
    })
    .collect()
}

fn counters(world: &World, at: usize) -> dhow_node::view::Counters {
    world.machines[at].node.as_ref().unwrap().counters()
}

/// Node 1 speaks `near` alone, node 3 the other version, and node 2 is the gateway.
fn line(near: u32, seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    let far = 13 - near;
    let mut world = World::line(3, seed, |number, config| {
        if number == 3 {
            config.routes.push(Route {
                to: "ipn:1.*".into(),
                via: "ipn:2.0".into(),
                priority: 0,
            });
        }
        match number {
            1 => speak(number, config, Some(near), None),
            2 => speak(number, config, Some(far), Some(near)),
            _ => speak(number, config, None, Some(far)),
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

/// A payload from node 1, in its version, comes to an application of node 3 in the other.
fn crosses(world: &mut World, near: u32, octets: usize) {
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu(near, "ipn:3.42"), &payload(0, octets));
    world.connect(0, sender);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("it is delivered", |world| {
        let (here, there) = (
            u8::try_from(near).unwrap(),
            u8::try_from(13 - near).unwrap(),
        );
        assert!(versions(world, 0).iter().all(|version| *version == here));
        assert!(versions(world, 2).iter().all(|version| *version == there));
        !world.client(2, receiver).received.is_empty()
    });
    let (adu, received) = &world.client(2, receiver).received[0];
    assert!(*received == payload(0, octets));
    assert_eq!(adu.bundle_version, (near == 7).then_some(6));
    assert_eq!(adu.src_eid, "ipn:1.5");
}

#[test]
fn bundles_of_every_size_cross_in_either_direction() {
    for near in [6, 7] {
        for (seed, octets) in (0..).zip([0, 1, 900, 5_000, 17_000, 100_000, 600_000]) {
            let mut world = line(near, seed, |_, _| ());
            crosses(&mut world, near, octets);
            world.until("all are gone", |world| {
                (0..3).all(|at| world.machines[at].store.kept.bundles.is_empty())
            });
            assert_eq!(
                counters(&world, 1).passed,
                0,
                "none leaves while it comes in"
            );
        }
    }
}

/// A small payload gets the checksum that version 6 has not, and loses it where the next hop takes none.
#[test]
fn a_payload_that_is_in_memory_gets_a_checksum() {
    for (octets, strips, expected) in [
        (900, false, CrcType::Crc32C),
        (900, true, CrcType::None),
        (100_000, false, CrcType::None),
    ] {
        let mut world = line(6, 5, |number, config| {
            if number == 2 && strips {
                config.links[0].policy.strip_checksum = Enabled::Yes;
            }
        });
        let mut sender = Client::new("ipn:1.5", false);
        sender.send(adu(6, "ipn:3.42"), &payload(0, octets));
        world.connect(0, sender);
        world.until("the third node has it", |world| {
            !world.machines[2].store.kept.bundles.is_empty()
        });
        let kept = world.machines[2].store.kept.bundles.values();
        for (_, octets) in kept {
            let header = check_bundle(octets).expect("it is a bundle").header;
            assert_eq!(header.payload.crc_type, expected);
            assert_eq!(header.hop_count().map(|hops| hops.count), Some(1));
        }
    }
}

/// RFC 5050 6.1.1, RFC 9171 6.1.1: a report is in the version of its subject where it was made, and crosses to the node that asked.
#[test]
fn reports_come_to_who_asked_in_the_version_that_is_spoken_there() {
    for near in [6, 7] {
        let mut world = line(near, 3, |_, config| {
            config.reports.generate = BundleFlags::ALL_REPORTS.bits();
        });
        let reader = world.connect(0, Client::new("ipn:1.6", true));
        let mut sender = Client::new("ipn:1.5", false);
        let asks = BundleFlags::ALL_REPORTS;
        let adu = reported(adu(near, "ipn:3.42"), "ipn:1.6", asks);
        sender.send(adu, &payload(0, 5_000));
        world.connect(0, sender);
        world.connect(2, Client::new("ipn:3.42", true));
        let mut seen = Vec::new();
        // Received by the second and the third, forwarded by the first and the second, delivered by the third.
        world.until("all have reported", |world| {
            let received = &world.client(0, reader).received;
            seen = received.iter().map(|it| report(near, it)).collect();
            seen.len() == 5
        });
        seen.sort();
        let told = |from: &str, what: [bool; 3]| (from.to_owned(), what);
        let mut all = [
            told("ipn:1.0", [false, true, false]),
            told("ipn:2.0", [true, false, false]),
            told("ipn:2.0", [false, true, false]),
            told("ipn:3.0", [true, false, false]),
            told("ipn:3.0", [false, false, true]),
        ];
        all.sort();
        assert_eq!(seen, all);
    }
}

/// RFC 5050 5.10: the gateway takes custody from the node before, and has it until the next hop has the bundle, in a version without custody.
#[test]
fn custody_ends_where_a_bundle_crosses() {
    let mut world = line(6, 4, |_, _| ());
    let mut sender = Client::new("ipn:1.5", false);
    for number in 0..6 {
        let asks = BundleFlags::from_bits(v6::BundleFlags::CUSTODY_REQUESTED.bits());
        let adu = reported(adu(6, "ipn:3.42"), "dtn:none", asks);
        sender.send(adu, &payload(number, 9_000 * number));
    }
    world.connect(0, sender);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("all are delivered and released", |world| {
        let is_empty = |at: usize| world.machines[at].store.kept.bundles.is_empty();
        (0..3).all(is_empty) && world.client(2, receiver).received.len() == 6
    });
    world.stay(120);
    assert_eq!(world.client(2, receiver).received.len(), 6);
    assert_eq!(counters(&world, 2).duplicates, 0, "none is sent again");
    assert!(counters(&world, 1).signals_sent > 0);
}

/// Its maker, and whether it says that its subject was received, forwarded, delivered.
fn report(version: u32, (adu, payload): &(BundleAdu, Vec<u8>)) -> (String, [bool; 3]) {
    let (subject, asserts) = match version {
        6 => {
            assert_eq!(adu.bundle_version, Some(6));
            let record = v6::admin::AdministrativeRecord::decode(payload).unwrap();
            let v6::admin::AdministrativeRecord::StatusReport(report) = record else {
                panic!("{record:?}")
            };
            let [received, _, forwarded, delivered, _] = report.times.map(|it| it.is_some());
            let source = report.subject.source.to_string();
            (source, [received, forwarded, delivered])
        }
        _ => {
            assert_eq!(adu.bundle_version, None);
            let payload = payload.clone().into();
            let record = v7::admin::AdministrativeRecord::decode(&payload, Reading::Strict);
            let v7::admin::AdministrativeRecord::StatusReport(report) = record.unwrap() else {
                panic!("no status report")
            };
            let asserts = [report.received, report.forwarded, report.delivered];
            let source = report.bundle.source.to_string();
            (source, asserts.map(|it| it.is_some()))
        }
    };
    assert_eq!(subject, "ipn:1.5");
    (adu.src_eid.clone(), asserts)
}

/// Version 6 has no `ipn` URI of three numbers.
#[test]
fn a_bundle_without_a_form_in_the_other_version_waits_and_others_pass() {
    let mut world = line(7, 8, |_, _| ());
    let mut sender = Client::new("ipn:1.5", false);
    let report_to = "ipn:977000.1.6";
    let asks = BundleFlags::REPORT_DELIVERY;
    sender.send(
        reported(adu(7, "ipn:3.42"), report_to, asks),
        &payload(0, 700),
    );
    sender.send(
        reported(adu(7, "ipn:3.42"), report_to, asks),
        &payload(1, 90_000),
    );
    for number in 2..12 {
        sender.send(adu(7, "ipn:3.42"), &payload(number, 600));
    }
    world.connect(0, sender);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("the others are delivered", |world| {
        world.client(2, receiver).received.len() == 10
    });
    world.stay(120);
    assert_eq!(counters(&world, 1).untranslatable, 2, "each is tried once");
    assert_eq!(versions(&world, 1), [7, 7], "and stays");
    let occurrences = world.machines[1].occurrences.iter();
    let told: Vec<String> = occurrences
        .filter_map(|it| match it {
            Occurrence::Untranslatable(it) => Some(format!("{}: {}", it.to, it.why)),
            _ => None,
        })
        .collect();
    let why = "ipn:3.0: the report-to endpoint ipn:977000.1.6 has no form in the other version";
    assert_eq!(told, [why, why]);
    // The operator lets it through as it is.
    world.crash(1);
    world.machines[1].config.links[0].policy.bundle_versions = BundleVersions::Both;
    world.start(1);
    world.until("all are delivered", |world| {
        world.client(2, receiver).received.len() == 12
    });
}

#[test]
fn a_bundle_without_a_form_takes_the_next_best_hop() {
    let mut world = World::circle(4, 9, |number, config| {
        config.routes.clear();
        let back = format!("ipn:{}.0", (number + 2) % 4 + 1);
        for (via, priority) in [("next", 1), (back.as_str(), 0)] {
            config.routes.push(Route {
                to: "ipn:3.*".into(),
                via: via.into(),
                priority,
            });
        }
        if number == 1 {
            speak(number, config, Some(6), None);
        }
    });
    world.hostile = true;
    all_are_up(&mut world);
    let mut sender = Client::new("ipn:1.5", false);
    let asks = BundleFlags::REPORT_DELIVERY;
    let asked = reported(adu(7, "ipn:3.42"), "ipn:977000.1.6", asks);
    for number in 0..5 {
        sender.send(asked.clone(), &payload(number, 700));
        sender.send(adu(7, "ipn:3.42"), &payload(number, 800));
    }
    world.connect(0, sender);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("all are delivered", |world| {
        world.client(2, receiver).received.len() == 10
    });
    let received = &world.client(2, receiver).received;
    for (adu, payload) in received {
        assert_eq!(adu.bundle_version == Some(6), payload.len() == 800);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// RFC 5050 5.8, RFC 9171 5.8: fragments cross one by one, and are cut before, at and behind the gateway.
    #[test]
    fn fragments_cross_and_make_the_whole(
        seed in any::<u64>(),
        near in 6_u32..8,
        octets in 2_000_usize..300_000,
        pieces in (600_u64..100_000, 600_u64..100_000),
        mru in 900_u64..50_000,
        is_cut_by_mru in any::<bool>(),
        breaks in any::<bool>(),
    ) {
        let mut world = line(near, seed, |number, config| {
            if number == 3 && is_cut_by_mru {
                config.listeners[0].policy.transfer_mru = mru;
            }
            let Some(link) = config.links.first_mut() else { return };
            let pieces = if number == 1 { pieces.0 } else { pieces.1 };
            link.policy.fragment_octets = (number == 1 || !is_cut_by_mru).then_some(pieces);
        });
        if breaks {
            let mut sender = Client::new("ipn:1.5", false);
            sender.send(adu(near, "ipn:3.41"), &payload(0, octets));
            world.connect(0, sender);
            world.settle_some(200);
            for (one, other) in [(1, 2), (0, 1)] {
                world.cut(one, other);
                world.join(one, other);
            }
            world.crash(1);
            world.start(1);
        }
        crosses(&mut world, near, octets);
    }
}

fn all_are_up(world: &mut World) {
    world.until("all sessions are up", |world| {
        world.machines.iter().all(|machine| {
            let sessions = machine.node.as_ref().unwrap().sessions();
            sessions.len() == 2
        })
    });
}

/// Two gateways, 1 and 3, with a node of version 6 and one of version 7 between them: 2 and 4.
fn ring(seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    let mut world = World::circle(4, seed, |number, config| {
        let peer = |number: u32| format!("ipn:{}.0", (number - 1) % 4 + 1);
        config.routes.clear();
        // Bundles for a neighbour go there, those for the other side by a gateway that the seed chooses, and all else goes round.
        let (after, before) = (peer(number + 1), peer(number + 3));
        let ahead = i32::from(!seed.is_multiple_of(3));
        let mut route = |to: String, via: &str, priority| {
            let via = via.into();
            config.routes.push(Route { to, via, priority });
        };
        for (node, priority) in [
            (number + 1, [1, 0]),
            (number + 2, [ahead, 1 - ahead]),
            (number + 3, [0, 1]),
        ] {
            let to = peer(node).replace(".0", ".*");
            route(to.clone(), &after, priority[0]);
            route(to, &before, priority[1]);
        }
        route("ipn:9.*".into(), "next", 0);
        config.reports.generate = BundleFlags::ALL_REPORTS.bits();
        match number {
            1 => speak(number, config, Some(6), Some(7)),
            2 => speak(number, config, Some(6), Some(6)),
            3 => speak(number, config, Some(7), Some(6)),
            _ => speak(number, config, Some(7), Some(7)),
        }
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    all_are_up(&mut world);
    world
}

/// Node 2 has bundles of version 6 alone, node 4 those of version 7.
fn check_worlds(world: &World) {
    assert!(versions(world, 1).iter().all(|version| *version == 6));
    assert!(versions(world, 3).iter().all(|version| *version == 7));
}

/// The applications of one side: its version, its place, and the streams of its receiver and of the reader of its reports.
struct Side {
    version: u32,
    at: usize,
    sizes: Vec<usize>,
    receiver: StreamId,
    reader: StreamId,
}

impl Side {
    fn begin(world: &mut World, version: u32, sizes: &[usize]) -> Self {
        let at = if version == 6 { 1 } else { 3 };
        let (here, there) = (at + 1, 7 - (at + 2));
        let receiver = world.connect(at, Client::new(&format!("ipn:{here}.42"), true));
        let reader = world.connect(at, Client::new(&format!("ipn:{here}.6"), true));
        let mut sender = Client::new(&format!("ipn:{here}.5"), false);
        for (number, size) in sizes.iter().enumerate() {
            let adu = adu(version, &format!("ipn:{there}.42"));
            let adu = reported(adu, &format!("ipn:{here}.6"), BundleFlags::REPORT_DELIVERY);
            sender.send(adu, &payload(number, *size));
        }
        world.connect(at, sender);
        Self {
            version,
            at,
            sizes: sizes.to_vec(),
            receiver,
            reader,
        }
    }

    /// Everything of the other side has come, and all reports on what was sent.
    fn is_served(&self, world: &mut World, other: &Self) -> bool {
        let received = world.client(self.at, self.receiver).received.len();
        self.subjects(world).len() == self.sizes.len() && received >= other.sizes.len()
    }

    fn subjects(&self, world: &mut World) -> BTreeMap<(u64, u64), usize> {
        let mut subjects = BTreeMap::new();
        for (_, payload) in &world.client(self.at, self.reader).received {
            let creation = match self.version {
                6 => match v6::admin::AdministrativeRecord::decode(payload).unwrap() {
                    v6::admin::AdministrativeRecord::StatusReport(report) => {
                        let creation = report.subject.creation;
                        (creation.seconds, creation.sequence)
                    }
                    other => panic!("{other:?}"),
                },
                _ => {
                    let payload = payload.clone().into();
                    match v7::admin::AdministrativeRecord::decode(&payload, Reading::Strict)
                        .unwrap()
                    {
                        v7::admin::AdministrativeRecord::StatusReport(report) => {
                            let creation = report.bundle.creation;
                            (creation.time.as_millis(), creation.sequence)
                        }
                        other => panic!("{other:?}"),
                    }
                }
            };
            *subjects.entry(creation).or_default() += 1;
        }
        subjects
    }

    fn check(&self, world: &mut World, other: &Self) {
        let received = &world.client(self.at, self.receiver).received;
        let mut sizes: Vec<usize> = received.iter().map(|(_, payload)| payload.len()).collect();
        let mut sent = other.sizes.clone();
        sizes.sort_unstable();
        sent.sort_unstable();
        assert_eq!(sizes, sent, "each is delivered once");
        for (adu, octets) in received {
            let version = (self.version == 6).then_some(6);
            assert_eq!(adu.bundle_version, version);
            let sent = other.sizes.iter().enumerate();
            let mut sent = sent.map(|(number, size)| payload(number, *size));
            assert!(sent.any(|sent| sent == *octets));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Flows both ways between two worlds with two gateways, which lose their links and crash: each bundle is delivered once, in the version
    /// of its destination's world, and in the end there is none left.
    #[test]
    fn two_worlds_with_two_gateways_lose_nothing_and_keep_nothing(
        seed in any::<u64>(),
        sizes in proptest::collection::vec(1_usize..40_000, 1..12),
        others in proptest::collection::vec(1_usize..40_000, 1..12),
        mrus in proptest::collection::vec(prop_oneof![700_u64..5_000, Just(1 << 30)], 4),
        breaks in proptest::collection::vec((0_usize..4, any::<bool>(), 0_u32..400), 0..6),
    ) {
        let mut world = ring(seed, |number, config| {
            let mru = mrus[usize::try_from(number - 1).unwrap()];
            config.listeners[0].policy.transfer_mru = mru;
            config.links[0].policy.transfer_mru = mru;
        });
        let six = Side::begin(&mut world, 6, &sizes);
        let seven = Side::begin(&mut world, 7, &others);
        for (at, crashes, steps) in breaks {
            world.settle_some(steps);
            check_worlds(&world);
            let gateway = at / 2 * 2;
            if crashes {
                world.crash(gateway);
                world.settle_some(steps);
                world.pass(Duration::from_secs(1));
                world.start(gateway);
            } else {
                world.cut(at, (at + 1) % 4);
                world.settle_some(steps);
                world.join(at, (at + 1) % 4);
            }
        }
        world.until("all is delivered and reported", |world| {
            check_worlds(world);
            six.is_served(world, &seven) && seven.is_served(world, &six)
        });
        world.until("all are gone", |world| {
            (0..4).all(|at| world.machines[at].store.kept.bundles.is_empty())
        });
        six.check(&mut world, &seven);
        seven.check(&mut world, &six);
        for at in 0..4 {
            if let Some(node) = &world.machines[at].node {
                prop_assert_eq!(node.counters().untranslatable, 0);
            }
        }
    }
}

/// RFC 9171 4.4.3: hops are counted across both worlds, so that a bundle for nobody ends.
#[test]
fn a_bundle_for_nobody_ends_when_its_hops_are_used_up() {
    for version in [6, 7] {
        let mut world = ring(1, |_, _| ());
        let at = if version == 6 { 1 } else { 3 };
        let here = at + 1;
        let mut sender = Client::new(&format!("ipn:{here}.5"), false);
        let reader = world.connect(at, Client::new(&format!("ipn:{here}.6"), true));
        let adu = BundleAdu {
            lifetime_ms: Some(600_000_000),
            ..adu(version, "ipn:9.1")
        };
        sender.send(
            reported(adu, &format!("ipn:{here}.6"), BundleFlags::REPORT_DELETION),
            &payload(0, 800),
        );
        world.connect(at, sender);
        // It rests longer each time that it is back.
        for _ in 0..9_000 {
            world.settle();
            check_worlds(&world);
            if !world.client(at, reader).received.is_empty() {
                break;
            }
            world.pass(Duration::from_secs(20));
        }
        let reason = match version {
            6 => {
                let record = &world.client(at, reader).received[0].1;
                match v6::admin::AdministrativeRecord::decode(record).unwrap() {
                    v6::admin::AdministrativeRecord::StatusReport(report) => report.reason.into(),
                    other => panic!("{other:?}"),
                }
            }
            _ => {
                let record = world.client(at, reader).received[0].1.clone().into();
                match v7::admin::AdministrativeRecord::decode(&record, Reading::Strict).unwrap() {
                    v7::admin::AdministrativeRecord::StatusReport(report) => report.reason.code(),
                    other => panic!("{other:?}"),
                }
            }
        };
        // Version 6 has no code for it.
        assert!(reason == 9 || reason == 0, "{reason}");
        let mut deleted = Vec::new();
        for machine in &world.machines {
            deleted.extend(machine.occurrences.iter().filter_map(|it| match it {
                Occurrence::Deleted { reason, .. } => Some(*reason),
                _ => None,
            }));
        }
        assert_eq!(deleted, [9]);
        let forwarded: u64 = (0..4).map(|at| counters(&world, at).forwarded).sum();
        // One that comes from version 6 has the hop limit that gateways give.
        let limit = if version == 6 { 60 } else { 260 };
        assert!(forwarded < limit, "{forwarded}");
        world.until("all are gone", |world| {
            (0..4).all(|at| world.machines[at].store.kept.bundles.is_empty())
        });
    }
}
