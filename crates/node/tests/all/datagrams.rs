//! Two nodes that speak by datagrams, which are lost, doubled and overtake each other.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use bytes::Bytes;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime};
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Config, DialTime, Enabled, LinkId, OnSent, Protocol, Route, UdpPolicy};
use dhow_node::driver::{Carrier, Event, Occurrence, OperatorCommand, StreamId, Ticket};
use proptest::prelude::*;

/// Nodes 1 and 2, each with a link over UDP to the other.
fn pair(seed: u64, edit: impl Fn(&mut Config)) -> World {
    let mut world = World::circle(2, seed, |number, config| {
        let link = &mut config.links[0];
        link.protocol = Protocol::Udp(UdpPolicy::default());
        link.policy.peer = Some(format!("ipn:{}.0", 3 - number).parse().unwrap());
        edit(config);
    });
    world.hostile = true;
    world.refusals = 0;
    world
}

fn payload(number: u32, octets: usize) -> Vec<u8> {
    let number = usize::try_from(number).unwrap();
    let octet = |place: usize| u8::try_from((place * 7 + number * 13) % 251).unwrap();
    (0..octets).map(octet).collect()
}

fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(60_000),
        ..BundleAdu::default()
    }
}

fn stored(world: &World, at: usize) -> u64 {
    world.machines[at].node.as_ref().unwrap().stored().0
}

/// Sends bundles of these sizes from node 1 to node 2, and waits until all have left it.
fn send(world: &mut World, sizes: &[usize]) {
    let mut sender = Client::new("ipn:1.5", false);
    for (number, size) in (0..).zip(sizes) {
        sender.send(adu("ipn:2.42"), &payload(number, *size));
    }
    let sender = world.connect(0, sender);
    world.until("all are durable at the source", |world| {
        world.client(0, sender).responses.len() == sizes.len() + 1
    });
    world.until("all have left", |world| stored(world, 0) == 0);
    world.settle();
}

#[test]
fn bundles_of_all_sizes_arrive_by_datagrams_and_leave_nothing_behind() {
    for shuffled in [false, true] {
        let mut world = pair(3, |_| ());
        world.air.shuffled = shuffled;
        world.air.doubled = 200;
        let sizes = [0, 1, 1_000, 1_232, 3_000, 70_000, 5_000_000];
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        send(&mut world, &sizes);
        world.until("all are delivered", |world| {
            world.client(1, receiver).received.len() == sizes.len()
        });
        let mut received: Vec<_> = (world.client(1, receiver).received.iter())
            .map(|(adu, octets)| (adu.sequence_number, octets.clone()))
            .collect();
        received.sort();
        for (number, (_, octets)) in (0..).zip(received) {
            let size = sizes[usize::try_from(number).unwrap()];
            assert!(octets == payload(number, size), "bundle {number} of {size}");
        }
        world.until("nothing is left", |world| stored(world, 1) == 0);
    }
}

#[test]
fn a_bundle_that_is_lost_is_sent_only_once_and_others_arrive() {
    let mut world = pair(4, |_| ());
    world.air.lost = 1_000;
    send(&mut world, &[10, 3_000]);
    assert!(world.air.is_empty());
    world.air.lost = 0;
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    send(&mut world, &[20]);
    world.until("one is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
    world.settle();
    assert_eq!(world.client(1, receiver).received[0].1, payload(0, 20));
}

#[test]
fn bundles_wait_while_there_is_no_carrier_and_for_the_rate() {
    let mut world = pair(5, |config| {
        config.links[0].protocol = Protocol::Udp(UdpPolicy {
            octets_per_s: 100_000,
            ..UdpPolicy::default()
        });
    });
    world.settle();
    let link = LinkId(0);
    let carrier = Carrier::Absent;
    world.handle(0, Event::CarrierChanged { link, carrier });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:2.42"), &payload(0, 300_000));
    world.connect(0, sender);
    world.settle();
    world.pass(Duration::from_secs(5));
    world.settle();
    assert_eq!(stored(&world, 0), 1);
    let carrier = Carrier::Present;
    world.handle(0, Event::CarrierChanged { link, carrier });
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let began = world.monotonic;
    world.until("it is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
    // 65,507 octets may leave at once.
    let took = world.monotonic - began;
    assert!(took >= Duration::from_millis(2_300), "{took:?}");
}

#[test]
fn datagrams_that_are_none_are_told_once_and_end_nothing() {
    let mut world = pair(7, |_| ());
    world.settle();
    for octets in [&[0x20][..], &[0xff; 50], &[0xa1, 0x02]] {
        world.air.inject(0, 1, Bytes::from_static(octets));
    }
    world.settle();
    world.pass(Duration::from_secs(2));
    let dropped = world.machines[1].occurrences.iter().map(|it| match it {
        Occurrence::DatagramsDropped { count, .. } => *count,
        _ => 0,
    });
    assert_eq!(dropped.sum::<u64>(), 3);
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    send(&mut world, &[20]);
    world.until("it is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
}

#[test]
fn octets_that_come_early_have_one_bound_and_let_go_of_it() {
    // A quarter of the memory: 256 KiB.
    let mut world = pair(6, |config| config.memory_octets = 1 << 20);
    world.settle();
    // All but the first segment, of several transfers.
    let mut peak = 0;
    for transfer in 0..64_u8 {
        for number in 1..20_u16 {
            let octets = segment(transfer, number * 1_000, 20_000, 1_000);
            world.air.inject(0, 1, octets);
        }
        world.settle();
        peak = peak.max(world.machines[1].node.as_ref().unwrap().memory_octets());
    }
    assert!(peak < 400_000, "{peak} octets");
    let node = world.machines[1].node.as_ref().unwrap();
    assert!(node.counters().refused > 0, "it is counted");
    world.pass(Duration::from_secs(61));
    world.settle();
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.air.shuffled = true;
    send(&mut world, &[30_000]);
    world.until("it is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
}

/// Nodes 1 and 2, which keep what they have sent, and over whose link nothing arrives.
fn keeping_pair(seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    let mut world = World::circle(2, seed, |number, config| {
        let link = &mut config.links[0];
        link.protocol = Protocol::Udp(UdpPolicy {
            on_sent: OnSent::Keep,
            ..UdpPolicy::default()
        });
        link.policy.peer = Some(format!("ipn:{}.0", 3 - number).parse().unwrap());
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    world.air.lost = 1_000;
    world
}

/// Gives node 1 bundles of these sizes for node 2, and waits until nothing more happens.
fn offer(world: &mut World, sizes: &[usize]) {
    let mut sender = Client::new("ipn:1.5", false);
    for (number, size) in (0..).zip(sizes) {
        sender.send(adu("ipn:2.42"), &payload(number, *size));
    }
    let sender = world.connect(0, sender);
    world.until("all are durable at the source", |world| {
        world.client(0, sender).responses.len() == sizes.len() + 1
    });
    world.settle();
}

fn set_carrier(world: &mut World, carrier: Carrier) {
    let link = LinkId(0);
    world.handle(0, Event::CarrierChanged { link, carrier });
    world.pass(Duration::from_secs(1));
    world.settle();
}

#[test]
fn what_is_kept_leaves_once_and_stays_until_it_expires() {
    // The longest leaves in two fragments.
    let mut world = keeping_pair(8, |_, _| ());
    offer(&mut world, &[10, 3_000, 5_000_000]);
    for _ in 0..100 {
        world.pass(Duration::from_millis(60));
        world.settle();
    }
    let sent = world.air.sent;
    world.air.lost = 0;
    for _ in 0..3 {
        set_carrier(&mut world, Carrier::Absent);
        set_carrier(&mut world, Carrier::Present);
    }
    world.pass(Duration::from_secs(10));
    world.settle();
    assert_eq!((stored(&world, 0), world.air.sent), (3, sent));
    world.pass(Duration::from_secs(60));
    world.settle();
    assert_eq!((stored(&world, 0), world.air.sent), (0, sent));
}

#[test]
fn what_is_kept_goes_when_it_is_reported_to_be_delivered() {
    // Only a report to this node, from the destination's, says so.
    for (report_to, left) in [("ipn:1.6", 0), ("ipn:1.0", 0), ("ipn:3.6", 1)] {
        let mut world = keeping_pair(12, |_, config| config.reports.generate = 0x2_0000);
        world.air.lost = 0;
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        let mut sender = Client::new("ipn:1.5", false);
        let adu = BundleAdu {
            bundle_flags: Some(0x2_0000),
            report_to_eid: report_to.into(),
            ..adu("ipn:2.42")
        };
        sender.send(adu, &payload(0, 3_000));
        world.connect(0, sender);
        world.until("it is delivered", |world| {
            world.client(1, receiver).received.len() == 1
        });
        world.pass(Duration::from_secs(2));
        world.settle();
        // The report itself waits for an application, or another way.
        let others = u64::from(report_to != "ipn:1.0");
        assert_eq!(stored(&world, 0), left + others, "{report_to}");
    }
}

#[test]
fn a_restart_sends_what_is_kept_once_more() {
    let mut world = keeping_pair(9, |_, _| ());
    offer(&mut world, &[10, 20]);
    assert_eq!(world.air.sent, 2);
    world.crash(0);
    world.air.lost = 0;
    world.start(0);
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.until("both are delivered", |world| {
        world.client(1, receiver).received.len() == 2
    });
    set_carrier(&mut world, Carrier::Absent);
    set_carrier(&mut world, Carrier::Present);
    assert_eq!((stored(&world, 0), world.air.sent), (2, 4));
}

#[test]
fn what_is_kept_leaves_by_another_link_that_appears() {
    // The second node dials the first by TCP, once it is told to.
    let mut world = keeping_pair(10, |number, config| {
        if number == 2 {
            config.links[0].protocol = Protocol::Tcpcl4;
            config.links[0].enabled = Enabled::No;
        } else {
            config.routes.push(Route {
                to: "ipn:2.*".into(),
                via: "ipn:2.0".into(),
                priority: -1,
            });
        }
    });
    offer(&mut world, &[10, 3_000, 200_000]);
    world.until("all have left", |world| world.air.sent > 160);
    assert_eq!(stored(&world, 0), 3);
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let command = OperatorCommand::LinkUp("next".into());
    let ticket = Ticket(7);
    world.handle(1, Event::Operator { ticket, command });
    world.until("all are delivered", |world| {
        world.client(1, receiver).received.len() == 3
    });
    world.until("the neighbour has them", |world| stored(world, 0) == 0);
}

#[test]
fn bundles_leave_only_while_a_planned_contact_is_on() {
    let mut world = pair(12, |config| {
        if config.node_ids[0].to_string() == "ipn:1.0" {
            config.links[0].dial = DialTime::Contacts;
            for (start_s, end_s) in [(10, 20), (40, 50)] {
                let contact = crate::world::contact((1, 2), (start_s, end_s));
                config.contacts.insert(contact).unwrap();
            }
        }
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:2.42"), b"before the first contact");
    let stream = world.connect(0, sender);
    world.stay(8);
    assert_eq!(world.air.sent, 0);
    world.stay(5);
    assert_eq!((stored(&world, 0), world.air.sent), (0, 1));
    world.leave(0, stream);
    world.stay(10);
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:2.42"), b"between contacts");
    world.connect(0, sender);
    world.stay(12);
    assert_eq!((stored(&world, 0), world.air.sent), (1, 1));
    world.stay(10);
    assert_eq!((stored(&world, 0), world.air.sent), (0, 2));
}

/// Node 2 has no link of its own, so that datagrams from node 1 are a stranger's.
fn with_stranger(seed: u64) -> (World, StreamId) {
    let mut world = pair(seed, |config| {
        if config.node_ids[0].to_string() == "ipn:2.0" {
            config.links[0].enabled = Enabled::No;
        }
    });
    world.settle();
    let stream = world.hear(1, 0);
    world.settle();
    (world, stream)
}

#[test]
fn strangers_bring_bundles_and_none_are_sent_to_them() {
    let (mut world, stream) = with_stranger(8);
    world.air.shuffled = true;
    let sizes = [0, 1, 1_000, 3_000, 70_000];
    send(&mut world, &sizes);
    let node = world.machines[1].node.as_ref().unwrap();
    assert_eq!(node.strangers(), [stream]);
    let counters = node.counters();
    assert_eq!((counters.created, counters.received), (0, 5));
    assert!(node.sessions().is_empty() && !node.routes().iter().any(|it| it.implicit));
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.until("all are delivered", |world| {
        world.client(1, receiver).received.len() == sizes.len()
    });
    let mut answer = Client::new("ipn:2.5", false);
    answer.send(adu("ipn:1.42"), b"answer");
    world.connect(1, answer);
    world.pass(Duration::from_secs(5));
    world.settle();
    assert_eq!(stored(&world, 1), 1, "it waits");
}

#[test]
fn bundles_of_strangers_are_nobodys_also_after_a_restart() {
    let (mut world, _) = with_stranger(9);
    send(&mut world, &[20]);
    let previous = |world: &World| {
        let node = world.machines[1].node.as_ref().unwrap();
        let (_, bundle) = node.bundles(world.now(1), BundleKey(0)).next().unwrap();
        bundle.previous.map(|previous| previous.to_string())
    };
    assert_eq!(previous(&world).as_deref(), Some("dtn:none"));
    world.crash(1);
    world.start(1);
    world.settle();
    assert_eq!(previous(&world).as_deref(), Some("dtn:none"));
}

#[test]
fn a_stranger_that_goes_leaves_nothing_of_its_transfer_and_had_no_session() {
    let (mut world, stream) = with_stranger(10);
    world.air.inject(0, 1, segment(1, 0, 20_000, 1_000));
    world.air.inject(0, 1, segment(2, 2_000, 20_000, 1_000));
    world.settle();
    world.air.forget(1, Some(stream));
    world.handle(1, Event::Disconnected { stream });
    world.settle();
    let node = world.machines[1].node.as_ref().unwrap();
    assert!(node.strangers().is_empty());
    assert_eq!(stored(&world, 1), 0);
    let told = world.machines[1].occurrences.iter();
    let is_session = |it: &&Occurrence| matches!(it, Occurrence::SessionDown { .. });
    assert_eq!(told.filter(is_session).count(), 0);
}

#[test]
fn no_datagram_is_longer_than_the_path_takes() {
    let mut world = pair(11, |_| ());
    world.settle();
    let stream = world.machines[0].node.as_ref().unwrap().sessions()[0].stream;
    send(&mut world, &[5_000]);
    assert_eq!(std::mem::take(&mut world.air.longest), 1_232);
    for octets in [600, 9_000] {
        world.handle(0, Event::Narrowed { stream, octets });
        send(&mut world, &[5_000]);
        let expected = octets.min(1_232);
        assert_eq!(u64::try_from(world.air.longest).unwrap(), expected);
    }
    let counts = world.machines[0].node.as_ref().unwrap().sessions()[0].datagrams;
    let counts = counts.unwrap();
    assert_eq!(
        (counts.sent > 15, counts.received, counts.faults),
        (true, 0, 0)
    );
}

/// A map with one Transfer item of zeros (draft-ietf-dtn-udpcl-04 3.5.2).
fn segment(transfer: u8, offset: u16, length: u16, octets: u16) -> Bytes {
    let mut out = vec![0xa1, 0x02, 0x84, 0x18, 100 + transfer];
    for number in [length, offset] {
        out.push(0x19);
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.push(0x59);
    out.extend_from_slice(&octets.to_be_bytes());
    out.resize(out.len() + usize::from(octets), 0);
    Bytes::from(out)
}

/// The datagrams of a bundle with this payload from node 1 to node 2, by their transfer and number.
fn parts(octets: &[u8]) -> impl Fn(u8, usize) -> Bytes + use<> {
    let [source, destination] = ["ipn:1.5", "ipn:2.42"].map(|id| id.parse().unwrap());
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(crate::world::EPOCH.as_millis()),
        sequence: 1,
    };
    let bundle = BundleBuilder::new(source, destination, creation, 60_000)
        .bundle(octets)
        .unwrap();
    move |transfer, number| {
        let offset = number * 1_000;
        let octets = &bundle[offset..bundle.len().min(offset + 1_000)];
        let [offset, total, length] = [offset, bundle.len(), octets.len()];
        let [offset, total, length] = [offset, total, length].map(|it| u16::try_from(it).unwrap());
        let mut datagram = segment(transfer, offset, total, length).to_vec();
        let head = datagram.len() - octets.len();
        datagram[head..].copy_from_slice(octets);
        Bytes::from(datagram)
    }
}

#[test]
fn a_bundle_is_taken_again_while_what_came_of_it_before_is_removed() {
    let mut world = pair(13, |_| ());
    world.hostile = false;
    world.settle();
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let octets = payload(1, 3_000);
    let part = parts(&octets);
    for number in 0..2 {
        world.air.inject(0, 1, part(1, number));
    }
    world.settle();
    // The conversation ends with what came over it, which its disk takes some time to remove.
    world.machines[1].stalled = true;
    let link = LinkId(0);
    for carrier in [Carrier::Absent, Carrier::Present] {
        world.handle(1, Event::CarrierChanged { link, carrier });
    }
    world.pass(Duration::from_millis(100));
    for number in 0..4 {
        world.air.inject(0, 1, part(2, number));
    }
    world.settle();
    world.machines[1].stalled = false;
    world.until("it is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
}

#[test]
fn an_older_transfer_that_begins_late_does_not_displace_a_newer_one_of_the_same_bundle() {
    let mut world = pair(11, |_| ());
    world.settle();
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let octets = payload(1, 3_000);
    let part = parts(&octets);
    // Its sender gave the first up, and made another in its place.
    for (transfer, number) in [(1, 1), (2, 0), (2, 1), (1, 0), (2, 2), (2, 3)] {
        world.air.inject(0, 1, part(transfer, number));
        world.settle();
    }
    world.until("it is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
    assert_eq!(world.client(1, receiver).received[0].1, octets);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The octets that arrives is as it was sent, and comes once.
    #[test]
    fn what_arrives_is_unaltered_and_comes_once(
        seed: u64,
        lost in 0..200_u64,
        doubled in 0..300_u64,
        crash: bool,
    ) {
        let mut world = pair(seed, |_| ());
        world.air.shuffled = true;
        (world.air.lost, world.air.doubled) = (lost, doubled);
        let sizes: Vec<usize> = (0..30_usize).map(|number| number * number * 40).collect();
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        send(&mut world, &sizes[..15]);
        if crash {
            world.crash(0);
            // As a daemon's, whose transfer IDs begin elsewhere.
            world.machines[0].config.seed += 1;
            world.start(0);
        }
        send(&mut world, &sizes);
        world.pass(Duration::from_secs(11));
        world.settle();
        let received = &world.client(1, receiver).received;
        let mut names = BTreeSet::new();
        for (adu, octets) in received {
            prop_assert!(names.insert((adu.creation_timestamp_ms, adu.sequence_number)));
            let is_sent = (0..).zip(&sizes).any(|(number, size)| *octets == payload(number, *size));
            prop_assert!(is_sent);
        }
        prop_assert!(lost > 0 || names.len() == sizes.len() + 15);
    }
}
