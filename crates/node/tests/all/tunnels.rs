//! Bundles in bundles (draft-ietf-dtn-bibect-03): bundles that leave through a tunnel come out at its other end, whatever breaks on the way.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, StoredBundle};
use dhow_bundle::v7::admin::bibe::{BibeTypes, BpduHead};
use dhow_bundle::{BundleFlags, BundleId, EndpointId, Header, Reading, v6};
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{
    BibeDialect, BibePolicy, BundleVersions, Config, DialTime, Enabled, LinkConfig, Protocol,
    Route, SessionPolicy,
};
use dhow_node::driver::{Event, OperatorCommand, Ticket};
use dhow_node::view::{BundleState, Counters, LinkState};
use proptest::prelude::*;

const NODES: usize = 4;

fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(6_000_000),
        ..BundleAdu::default()
    }
}

fn payload(number: usize, octets: usize) -> Vec<u8> {
    let octet = |place: usize| u8::try_from((place * 7 + number * 13) % 251).unwrap();
    (0..octets).map(octet).collect()
}

fn tunnel(to: u32, policy: BibePolicy) -> LinkConfig {
    LinkConfig {
        dial: DialTime::Always,
        name: format!("tunnel{to}"),
        policy: SessionPolicy {
            peer: Some(format!("ipn:{to}.0").parse().unwrap()),
            ..SessionPolicy::default()
        },
        enabled: Enabled::Yes,
        sessions: 1,
        backoff_min_ms: 50,
        backoff_max_ms: 1_000,
        protocol: Protocol::Bibe(policy),
    }
}

fn route(to: &str, via: &str) -> Route {
    Route {
        to: to.into(),
        via: via.into(),
        priority: 0,
    }
}

fn custodial() -> BibePolicy {
    BibePolicy {
        custody: true,
        delay_ms: 1_000,
        ..BibePolicy::default()
    }
}

/// Nodes in a line, with routes both ways; between the first and the last there is a tunnel, for applications of both.
fn line(seed: u64, policy: BibePolicy, edit: impl Fn(u32, &mut Config)) -> World {
    let nodes = u32::try_from(NODES).unwrap();
    let mut world = World::line(nodes, seed, |number, config| {
        for back in 1..number {
            config.routes.push(route(
                &format!("ipn:{back}.*"),
                &format!("ipn:{}.0", number - 1),
            ));
        }
        if number == 1 || number == nodes {
            let other = nodes + 1 - number;
            config.links.push(tunnel(other, policy));
            let via = format!("tunnel{other}");
            config.routes.push(route(&format!("ipn:{other}.42"), &via));
        }
        config.custody.retry_ms = 5_000;
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    world.until("the sessions are up", |world| {
        let sessions = |at: usize| world.machines[at].node.as_ref().unwrap().sessions().len();
        (0..NODES).all(|at| sessions(at) >= 2)
    });
    world
}

fn counters(world: &World, at: usize) -> Counters {
    world.machines[at].node.as_ref().unwrap().counters()
}

fn headers(world: &World, at: usize) -> Vec<Header> {
    let kept = world.machines[at].store.kept.bundles.values();
    kept.map(|(_, octets)| Header::decode(octets, Reading::Strict).unwrap().unwrap())
        .collect()
}

fn is_empty(world: &World) -> bool {
    (0..NODES).all(|at| world.machines[at].store.kept.bundles.is_empty())
}

fn operate(world: &mut World, at: usize, command: OperatorCommand) {
    let ticket = Ticket(7_000);
    world.handle(at, Event::Operator { ticket, command });
}

/// The first node finds a bundle in its store.
fn put(world: &mut World, octets: &[u8]) -> BundleId {
    let header = Header::decode(&Bytes::copy_from_slice(octets), Reading::Strict)
        .unwrap()
        .unwrap();
    let bundle = StoredBundle {
        id: header.id(),
        destination: header.primary.destination.clone(),
        report_to: header.primary.report_to.clone(),
        version: 7,
        flags: header.primary.flags.bits(),
        lifetime_ms: header.primary.lifetime_ms,
        age_at_reception_ms: 0,
        received: crate::world::EPOCH,
        header_octets: header.header_octets(),
        payload_octets: header.payload_octets(),
        total_adu_octets: 0,
        previous: Some("ipn:2.0".parse().unwrap()),
        reads_aggregated_reports: false,
        priority: dhow_bundle::Priority::Normal,
        note: Bytes::new(),
    };
    world.crash(0);
    let kept = &mut world.machines[0].store.kept.bundles;
    kept.insert(1 << 40, (bundle, Bytes::copy_from_slice(octets)));
    world.start(0);
    header.id()
}

#[test]
fn a_bundle_comes_out_as_it_went_in_and_nobody_between_knows_it() {
    for policy in [BibePolicy::default(), custodial()] {
        let mut world = line(1, policy, |_, _| ());
        let mut sender = Client::new("ipn:1.5", false);
        let sizes = [0, 1, 100, 20_000, 66_000, 700_000];
        for (number, octets) in sizes.into_iter().enumerate() {
            sender.send(adu("ipn:4.42"), &payload(number, octets));
        }
        world.connect(0, sender);
        let receiver = world.connect(3, Client::new("ipn:4.42", true));
        let mut between = BTreeSet::new();
        world.until("all came", |world| {
            for at in 0..NODES {
                world.check(at);
            }
            for header in headers(world, 1).into_iter().chain(headers(world, 2)) {
                assert!(header.is_administrative());
                between.insert(header.primary.destination.to_string());
            }
            world.client(3, receiver).received.len() == sizes.len()
        });
        assert!(between.contains("ipn:4.0"), "{between:?}");
        let mut received: Vec<Vec<u8>> = world
            .client(3, receiver)
            .received
            .iter()
            .map(|it| it.1.clone())
            .collect();
        received.sort_by_key(Vec::len);
        for (number, octets) in sizes.into_iter().enumerate() {
            assert_eq!(received[number], payload(number, octets));
        }
        world.until("nothing is left", |world| is_empty(world));
        assert_eq!(between.contains("ipn:1.0"), policy.custody, "signals");
        for at in 0..NODES {
            assert_eq!(counters(&world, at).transitions_refused, 0);
        }
    }
}

#[test]
fn in_custody_a_bundle_stays_until_the_peer_has_it_and_leaves_again_where_what_carried_it_is_lost()
{
    let mut world = line(2, custodial(), |_, _| ());
    world.cut(1, 2);
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), &payload(0, 5_000));
    world.connect(0, sender);
    let state = |world: &World| {
        let node = world.machines[0].node.as_ref().unwrap();
        let now = world.now(0);
        let bundles: Vec<_> = node
            .bundles(now, BundleKey(0))
            .filter(|(_, it)| it.destination.to_string() == "ipn:4.42")
            .map(|(_, it)| (it.state, it.is_custodian))
            .collect();
        bundles
    };
    let sessions = world.machines[0].node.as_ref().unwrap().sessions();
    let tunnels = sessions.iter().filter(|it| it.stream.is_tunnel());
    assert_eq!((sessions.len(), tunnels.count()), (2, 1));
    world.until("it has left and stays", |world| {
        state(world) == [(BundleState::AwaitingSignal, true)] && headers(world, 1).len() == 1
    });
    let lost = headers(&world, 1)[0].id();
    operate(&mut world, 1, OperatorCommand::BundleDrop(lost));
    world.until("what carried it is lost", |world| {
        headers(world, 1).is_empty()
    });
    world.until("it leaves again", |world| headers(world, 1).len() == 1);
    world.join(1, 2);
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    world.until("it came, and nobody waits", |world| {
        world.client(3, receiver).received.len() == 1 && is_empty(world)
    });
}

/// Without custody a bundle is with the one that carries it, which the store has.
#[test]
fn without_custody_a_bundle_goes_once_what_carries_it_is_durable() {
    let mut world = line(3, BibePolicy::default(), |_, _| ());
    world.cut(0, 1);
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), &payload(0, 5_000));
    world.connect(0, sender);
    world.until("it is inside", |world| {
        let headers = headers(world, 0);
        headers.len() == 1 && headers[0].is_administrative()
    });
    let inside = &headers(&world, 0)[0].primary;
    assert_eq!(inside.destination.to_string(), "ipn:4.0");
    assert_eq!(inside.source.to_string(), "ipn:1.0");
    assert_eq!(inside.report_to, EndpointId::Null);
    assert!(inside.lifetime_ms <= 6_000_000 && inside.lifetime_ms > 5_900_000);
    world.crash(0);
    world.start(0);
    world.join(0, 1);
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    world.until("it came", |world| {
        world.client(3, receiver).received.len() == 1 && is_empty(world)
    });
}

/// A bundle of version 6 in custody comes out as one, or leaves translated: then the peer's signal is that of its custody.
#[test]
fn custody_of_version_6_goes_on_in_that_of_the_tunnel() {
    for versions in [BundleVersions::Both, BundleVersions::Seven] {
        let mut world = line(11, custodial(), |number, config| {
            if let Some(link) = config.links.iter_mut().find(|it| it.name == "tunnel4") {
                link.policy.bundle_versions = versions;
            }
            if number == 4 {
                config.routes.push(route("ipn:1.0", "ipn:3.0"));
            }
        });
        world.cut(1, 2);
        let mut sender = Client::new("ipn:1.5", false);
        let asked = BundleAdu {
            bundle_version: Some(6),
            bundle_flags: Some(v6::BundleFlags::CUSTODY_REQUESTED.bits()),
            ..adu("ipn:4.42")
        };
        sender.send(asked, &payload(0, 3_000));
        world.connect(0, sender);
        world.until("it is under way and stays", |world| {
            headers(world, 1).len() == 1 && headers(world, 0).len() == 1
        });
        let lost = headers(&world, 1)[0].id();
        operate(&mut world, 1, OperatorCommand::BundleDrop(lost));
        world.join(1, 2);
        let receiver = world.connect(3, Client::new("ipn:4.42", true));
        world.until("it came, and nobody waits", |world| {
            world.client(3, receiver).received.len() == 1 && is_empty(world)
        });
    }
}

/// All that is for the peer is routed through the tunnel: what carries it has to go by another way, and does.
#[test]
fn what_carries_a_bundle_never_goes_through_the_tunnel_itself() {
    for policy in [BibePolicy::default(), custodial()] {
        let mut world = line(4, policy, |number, config| {
            if number == 1 {
                let mut through = route("ipn:4.*", "tunnel4");
                through.priority = 9;
                config.routes.push(through);
            }
        });
        let mut sender = Client::new("ipn:1.5", false);
        for number in 0..5 {
            sender.send(adu("ipn:4.7777"), &payload(number, 300));
        }
        world.connect(0, sender);
        let receiver = world.connect(3, Client::new("ipn:4.7777", true));
        world.until("all came", |world| {
            world.client(3, receiver).received.len() == 5 && is_empty(world)
        });
        let made = counters(&world, 0).created;
        assert_eq!(made, 10, "five, and five that carried them");
    }
}

/// The tunnel is no way for what carries its bundles: that waits for the way there is, and leaves with the first contact.
#[test]
fn what_carries_a_bundle_waits_for_its_way_and_for_no_time() {
    let mut world = line(6, BibePolicy::default(), |number, config| {
        if number == 1 {
            config.routes.push(route("ipn:4.*", "tunnel4"));
        }
    });
    world.cut(0, 1);
    let mut sender = Client::new("ipn:1.5", false);
    for number in 0..3 {
        sender.send(adu("ipn:4.7777"), &payload(number, 300));
    }
    world.connect(0, sender);
    world.until("all are inside", |world| {
        let headers = headers(world, 0);
        headers.len() == 3 && headers.iter().all(Header::is_administrative)
    });
    for _ in 0..10 {
        world.stay(1);
        let node = world.machines[0].node.as_ref().unwrap();
        let now = world.now(0);
        let bundles = node.bundles(now, BundleKey(0));
        let states: Vec<BundleState> = bundles.map(|(_, it)| it.state).collect();
        assert_eq!(states, [BundleState::Waiting; 3]);
    }
    world.join(0, 1);
    let receiver = world.connect(3, Client::new("ipn:4.7777", true));
    world.until("all came", |world| {
        world.client(3, receiver).received.len() == 3 && is_empty(world)
    });
}

/// A contact that is long in coming: what carries a bundle in custody is made once, and not once for each time that no signal can come.
#[test]
fn a_bundle_in_custody_is_carried_once_while_its_carrier_waits_here() {
    let mut world = line(7, custodial(), |_, _| ());
    world.cut(0, 1);
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), &payload(0, 5_000));
    world.connect(0, sender);
    world.until("it is inside", |world| headers(world, 0).len() == 2);
    world.stay(120);
    assert_eq!(headers(&world, 0).len(), 2);
    assert_eq!(counters(&world, 0).created, 2);
    world.join(0, 1);
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    world.until("it came, and nobody waits", |world| {
        world.client(3, receiver).received.len() == 1 && is_empty(world)
    });
    assert_eq!(counters(&world, 0).created, 2);
}

/// Two tunnels lead through each other: the hops of what carries other carriers are used up, and nothing goes round for ever.
#[test]
fn tunnels_that_lead_through_each_other_end() {
    let mut world = line(5, BibePolicy::default(), |number, config| {
        if number == 1 {
            config
                .routes
                .retain(|it| it.to != "ipn:3.*" && it.to != "ipn:4.*");
            config.links.push(tunnel(3, BibePolicy::default()));
            config.routes.push(route("ipn:4.0", "tunnel3"));
            config.routes.push(route("ipn:3.*", "tunnel4"));
        }
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), &payload(0, 10));
    world.connect(0, sender);
    world.until("it is deleted", |world| {
        counters(world, 0).deleted == 1 && world.machines[0].store.kept.bundles.is_empty()
    });
    let made = counters(&world, 0).created;
    assert!((200..300).contains(&made), "{made} were made");
}

/// The same with custody: the bundle leaves again each time, longer and longer apart, and what carries it is in no custody.
#[test]
fn tunnels_with_custody_that_lead_through_each_other_do_not_grow() {
    let mut world = line(5, custodial(), |number, config| {
        if number == 1 {
            (config.routes).retain(|it| it.to != "ipn:3.*" && it.to != "ipn:4.*");
            config.links.push(tunnel(3, custodial()));
            config.routes.push(route("ipn:4.0", "tunnel3"));
            config.routes.push(route("ipn:3.*", "tunnel4"));
        }
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), &payload(0, 10));
    world.connect(0, sender);
    world.stay(120);
    // One way takes some seconds, and the next begins 5, 10, 20, 40, 80 s after the first carrier of the one before has left.
    let ends = counters(&world, 0).deleted;
    assert!((3..=6).contains(&ends), "{ends}");
    let made = counters(&world, 0).created;
    assert!(made <= 1 + 300 * (ends + 1), "{made} were made");
    assert!(headers(&world, 0).len() <= 3);
}

/// A bundle for whose carrier this node has no room: bundles to the same neighbour by itself are not kept back.
#[test]
fn a_carrier_without_room_keeps_nothing_else_back() {
    let mut world = line(12, BibePolicy::default(), |number, config| {
        if number == 1 {
            config.quota_octets = 400_000;
            config.links.push(tunnel(2, BibePolicy::default()));
            config.routes.push(route("ipn:9.42", "tunnel2"));
        }
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:9.42"), &payload(0, 250_000));
    world.connect(0, sender);
    world.stay(5);
    assert_eq!(headers(&world, 0).len(), 1, "it waits");
    let mut sender = Client::new("ipn:1.6", false);
    for number in 0..20 {
        sender.send(adu("ipn:2.43"), &payload(number, 100));
    }
    world.connect(0, sender);
    let receiver = world.connect(1, Client::new("ipn:2.43", true));
    let begin = world.now(0).monotonic;
    world.until("all others came", |world| {
        world.client(1, receiver).received.len() == 20
    });
    assert!(world.now(0).monotonic - begin < Duration::from_secs(1));
    assert_eq!(counters(&world, 0).refused_by_peers, 0);
    world.until("it waits alone", |world| headers(world, 0).len() == 1);
}

/// Bundles in bundles, for the same node: each is written to the store when it comes out, so that there is a bound.
#[test]
fn bundles_for_this_node_are_in_each_other_so_often_and_no_more() {
    for (depth, is_delivered) in [(1, true), (9, true), (10, false), (300, false)] {
        let mut world = line(13, BibePolicy::default(), |_, _| ());
        let creation = |sequence| dhow_bundle::CreationTimestamp {
            time: crate::world::EPOCH,
            sequence,
        };
        let builder = |from: &str, to: &str, sequence| {
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            dhow_bundle::BundleBuilder::new(from, to, creation(sequence), 6_000_000)
        };
        let mut octets = builder("ipn:4.5", "ipn:1.42", 1).bundle(b"hello").unwrap();
        for level in 0..depth {
            let length = u64::try_from(octets.len()).unwrap();
            let mut record = Vec::new();
            BpduHead::plain(BibeTypes::Draft, length).encode(&mut record);
            record.extend_from_slice(&octets);
            octets = builder("ipn:4.0", "ipn:1.0", level + 2)
                .with_flags(BundleFlags::ADMINISTRATIVE_RECORD)
                .bundle(&record)
                .unwrap();
        }
        put(&mut world, &octets);
        let receiver = world.connect(0, Client::new("ipn:1.42", true));
        world.until("nothing is left", |world| is_empty(world));
        let received = world.client(0, receiver).received.len();
        assert_eq!(received, usize::from(is_delivered), "{depth}");
    }
}

#[test]
fn a_node_that_is_no_peer_is_not_listened_to() {
    let mut world = line(6, BibePolicy::default(), |number, config| {
        if number == 4 {
            config
                .links
                .retain(|it| !matches!(it.protocol, Protocol::Bibe(_)));
            config.links.push(tunnel(9, BibePolicy::default()));
            config.routes.retain(|it| it.via != "tunnel1");
        }
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), b"hello");
    world.connect(0, sender);
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    world.until("the carrier is there", |world| {
        counters(world, 3).records_unread == 1
    });
    world.stay(30);
    assert!(world.client(3, receiver).received.is_empty() && is_empty(&world));
}

/// The receiver's link is down: the bundles wait for it.
#[test]
fn what_came_waits_while_the_link_is_down() {
    let mut world = line(7, custodial(), |_, _| ());
    operate(&mut world, 3, OperatorCommand::LinkDown("tunnel1".into()));
    let mut sender = Client::new("ipn:1.5", false);
    for number in 0..3 {
        sender.send(adu("ipn:4.42"), &payload(number, 70_000));
    }
    world.connect(0, sender);
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    world.until("it waits", |world| headers(world, 3).len() >= 3);
    let links = world.machines[3].node.as_ref().unwrap().links();
    assert_eq!(links[0].state, LinkState::Down);
    world.stay(20);
    assert!(world.client(3, receiver).received.is_empty());
    operate(&mut world, 3, OperatorCommand::LinkUp("tunnel1".into()));
    let begin = world.now(3).monotonic;
    world.until("all came, once", |world| {
        world.client(3, receiver).received.len() == 3
    });
    assert!(world.now(3).monotonic - begin < Duration::from_secs(1));
    world.until("nothing is left", |world| is_empty(world));
}

/// The store of the receiver is full of what carries bundles: it takes them out one after the other.
#[test]
fn a_store_that_is_full_of_carriers_does_not_wedge() {
    for policy in [BibePolicy::default(), custodial()] {
        let mut world = line(8, policy, |number, config| {
            if number == 4 {
                config.quota_octets = 400_000;
            }
        });
        operate(&mut world, 3, OperatorCommand::LinkDown("tunnel1".into()));
        let mut sender = Client::new("ipn:1.5", false);
        for number in 0..30 {
            sender.send(adu("ipn:4.42"), &payload(number, 20_000));
        }
        world.connect(0, sender);
        let receiver = world.connect(3, Client::new("ipn:4.42", true));
        world.until("it is full", |world| {
            let node = world.machines[3].node.as_ref().unwrap();
            node.taken_octets() > 300_000 && headers(world, 3).len() >= 15
        });
        world.stay(10);
        operate(&mut world, 3, OperatorCommand::LinkUp("tunnel1".into()));
        world.until("all came, once", |world| {
            world.client(3, receiver).received.len() == 30 && is_empty(world)
        });
    }
}

#[test]
fn every_dialect_is_understood() {
    for dialect in BibeDialect::ALL {
        let policy = BibePolicy {
            dialect,
            ..custodial()
        };
        let mut world = line(9, policy, |_, _| ());
        let mut sender = Client::new("ipn:1.5", false);
        sender.send(adu("ipn:4.42"), b"there");
        world.connect(0, sender);
        let mut back = Client::new("ipn:4.5", false);
        back.send(adu("ipn:1.42"), b"back");
        world.connect(3, back);
        let there = world.connect(3, Client::new("ipn:4.42", true));
        let here = world.connect(0, Client::new("ipn:1.42", true));
        world.until("both came", |world| {
            world.client(3, there).received.len() == 1
                && world.client(0, here).received.len() == 1
                && is_empty(world)
        });
    }
}

/// Records that are broken, from a peer: each is told of, and nothing else happens.
#[test]
fn broken_records_of_a_peer_are_refused() {
    let records: [&[u8]; 7] = [
        b"\x82\x03\x83\x00\x00\x44\x9f\x80\x00\xff",
        b"\x82\x03\x83\x00\x00\x5b\xff\xff\xff\xff\xff\xff\xff\xff\x9f",
        b"\x82\x03\x83\x00\x00\x40",
        b"\x82\x03",
        b"\x82\x04\x82\x00\x9f\xff",
        b"\x82\x04\x82\x00\x81\x82\x01\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"",
    ];
    let mut world = line(10, custodial(), |_, _| ());
    for (number, record) in records.into_iter().enumerate() {
        let creation = dhow_bundle::CreationTimestamp {
            time: crate::world::EPOCH,
            sequence: u64::try_from(number).unwrap(),
        };
        let header = dhow_bundle::BundleBuilder::new(
            "ipn:4.0".parse().unwrap(),
            "ipn:1.0".parse().unwrap(),
            creation,
            6_000_000,
        )
        .with_flags(BundleFlags::ADMINISTRATIVE_RECORD)
        .header(u64::try_from(record.len()).unwrap())
        .unwrap();
        let mut crc = header.payload_crc();
        crc.update(record);
        let octets = [&*header.octets, record, &crc.trailer()].concat();
        let id = put(&mut world, &octets);
        world.until("it is over", |world| {
            let node = world.machines[0].node.as_ref().unwrap();
            let mut held = node.bundles(world.now(0), BundleKey(0));
            held.all(|(_, it)| it.id != id)
        });
        world.check(0);
    }
    world.until("nothing is left", |world| is_empty(world));
    assert_eq!(counters(&world, 0).transitions_refused, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Nothing is lost, nothing is delivered twice, and every custody is resolved.
    #[test]
    fn whatever_breaks_bundles_come_out_once(
        seed in any::<u64>(),
        octets in prop::collection::vec(0_usize..200_000, 1..8),
        breaks in prop::collection::vec((0_usize..3, 0..4_u8, 0_u32..400), 0..12),
        custody in any::<bool>(),
        queue in 1_u64..300_000,
    ) {
        let policy = BibePolicy { custody, ..custodial() };
        let mut world = line(seed, policy, |_, config| config.store_queue_octets = queue);
        let mut sender = Client::new("ipn:1.5", false);
        for octets in &octets {
            sender.send(adu("ipn:4.42"), &vec![7; *octets]);
        }
        let sending = world.connect(0, sender);
        let count = octets.len();
        world.until("all are accepted", |world| world.client(0, sending).responses.len() > count);
        for (at, kind, steps) in breaks {
            world.settle_some(steps);
            match kind {
                0 => {
                    world.cut(at, at + 1);
                    world.join(at, at + 1);
                }
                1 => {
                    let (at, name) = if at == 0 { (0, "tunnel4") } else { (3, "tunnel1") };
                    operate(&mut world, at, OperatorCommand::LinkDown(name.into()));
                    operate(&mut world, at, OperatorCommand::LinkUp(name.into()));
                }
                _ => {
                    world.crash(at + usize::from(kind == 2));
                    world.start(at + usize::from(kind == 2));
                }
            }
        }
        let receiver = world.connect(3, Client::new("ipn:4.42", true));
        world.until("all is over", |world| {
            for at in 0..NODES {
                world.check(at);
            }
            world.client(3, receiver).received.len() >= count && is_empty(world)
        });
        prop_assert_eq!(world.client(3, receiver).received.len(), count);
    }
}
