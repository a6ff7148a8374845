//! Nodes that speak STCP and MTCP: each connection carries bundles in one direction, and nobody acknowledges any.

use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use bytes::Bytes;
use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime};
use dhow_link::stream::DownReason;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{
    Config, DialTime, Enabled, Framing, LinkId, ListenerId, OnSent, Protocol, Route, StcpPolicy,
};
use dhow_node::driver::{Carrier, Event, Occurrence, Purpose, StreamId};

const FRAMINGS: [Framing; 4] = Framing::ALL;

/// Nodes 1 and 2, each of which dials the other.
fn pair(framing: Framing, seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    let mut world = World::circle(2, seed, |number, config| {
        let protocol = Protocol::framed(framing);
        config.links[0].protocol = protocol;
        config.listeners[0].protocol = protocol;
        config.links[0].policy.peer = Some(node_id(3 - number));
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    world
}

fn node_id(number: u32) -> dhow_bundle::NodeId {
    format!("ipn:{number}.0").parse().unwrap()
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

/// Gives a node bundles of these sizes for an endpoint, and waits until all are durable there.
fn offer(world: &mut World, at: usize, to: &str, sizes: &[usize]) {
    let mut sender = Client::new(&format!("ipn:{}.5", at + 1), false);
    for (number, size) in (0..).zip(sizes) {
        sender.send(adu(to), &payload(number, *size));
    }
    let sender = world.connect(at, sender);
    world.until("all are durable at the source", |world| {
        world.client(at, sender).responses.len() == sizes.len() + 1
    });
}

/// The payloads that a receiver has, in the order in which they were made.
fn received(world: &mut World, at: usize, receiver: StreamId) -> Vec<Vec<u8>> {
    let mut received: Vec<_> = (world.client(at, receiver).received.iter())
        .map(|(adu, octets)| (adu.sequence_number, octets.clone()))
        .collect();
    received.sort();
    received.into_iter().map(|(_, octets)| octets).collect()
}

fn ends(world: &World, at: usize) -> Vec<DownReason> {
    let occurrences = world.machines[at].occurrences.iter();
    let ends = occurrences.filter_map(|it| match it {
        Occurrence::SessionDown { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    ends.collect()
}

#[test]
fn bundles_of_all_sizes_arrive_in_each_framing_both_ways_and_leave_nothing_behind() {
    let sizes = [0, 1, 23, 24, 255, 1_000, 3_000, 70_000, 5_000_000];
    for framing in FRAMINGS {
        let mut world = pair(framing, 3, |_, _| ());
        for (from, to) in [(0, 1), (1, 0)] {
            let endpoint = format!("ipn:{}.42", to + 1);
            let receiver = world.connect(to, Client::new(&endpoint, true));
            offer(&mut world, from, &endpoint, &sizes);
            world.until("all are delivered", |world| {
                world.client(to, receiver).received.len() == sizes.len()
            });
            let received = received(&mut world, to, receiver);
            for ((number, size), octets) in (0..).zip(sizes).zip(received) {
                assert!(octets == payload(number, size), "{framing:?}: {size}");
            }
        }
        world.until("nothing is left", |world| {
            stored(world, 0) + stored(world, 1) == 0
        });
        assert_eq!(ends(&world, 0), []);
    }
}

#[test]
fn many_bundles_do_not_wait_for_acknowledgments() {
    let mut world = pair(Framing::Stcp, 4, |_, config| {
        config.links[0].policy.window_bundles = 4;
    });
    world.hostile = false;
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    offer(&mut world, 0, "ipn:2.42", &[3_000; 500]);
    let began = world.monotonic;
    world.until("all are delivered", |world| {
        world.client(1, receiver).received.len() == 500
    });
    assert!(
        world.monotonic - began < Duration::from_secs(1),
        "no timer is waited for"
    );
}

#[test]
fn what_the_socket_has_not_taken_is_sent_again() {
    for framing in FRAMINGS {
        let mut world = pair(framing, 5, |_, _| ());
        world.cut(0, 1);
        offer(&mut world, 0, "ipn:2.42", &[10, 3_000, 300_000]);
        world.settle();
        world.machines[0].stuffed = true;
        world.join(0, 1);
        world.pass(Duration::from_secs(2));
        world.settle();
        assert_eq!(stored(&world, 0), 3, "none has left");
        world.cut(0, 1);
        world.machines[0].stuffed = false;
        world.join(0, 1);
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        world.until("all are delivered", |world| {
            world.client(1, receiver).received.len() == 3
        });
        world.until("nothing is left", |world| stored(world, 0) == 0);
    }
}

#[test]
fn a_connection_that_dies_loses_what_it_had_and_nothing_else() {
    let mut world = pair(Framing::Mtcp, 6, |_, _| ());
    world.hostile = false;
    world.settle();
    // Nothing that is written arrives any more.
    world.freeze(0, 1);
    offer(&mut world, 0, "ipn:2.42", &[10, 20]);
    world.until("both have left", |world| stored(world, 0) == 0);
    world.cut(0, 1);
    world.join(0, 1);
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.pass(Duration::from_secs(10));
    world.settle();
    offer(&mut world, 0, "ipn:2.42", &[30]);
    world.until("one is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
    world.settle();
    assert_eq!(received(&mut world, 1, receiver), [payload(0, 30)]);
}

#[test]
fn nothing_is_queued_for_a_neighbour_that_only_brings_bundles() {
    // The second node dials nobody, and its route leads to the first.
    let mut world = pair(Framing::Stcp, 7, |number, config| {
        if number == 2 {
            config.links[0].enabled = Enabled::No;
            config.listeners[0].policy.peer = Some(node_id(1));
            config.routes = vec![Route {
                to: "ipn:1.*".into(),
                via: "ipn:1.0".into(),
                priority: 0,
            }];
        }
    });
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    offer(&mut world, 0, "ipn:2.42", &[10]);
    world.until("it is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
    offer(&mut world, 1, "ipn:1.42", &[10]);
    world.settle();
    let node = world.machines[1].node.as_ref().unwrap();
    assert!(
        node.sessions().is_empty(),
        "there is no session to send over"
    );
    assert_eq!(node.stored().0, 1);
    let from = world.machines[1]
        .occurrences
        .iter()
        .find_map(|it| match it {
            Occurrence::Received { from, .. } => Some(from.clone()),
            _ => None,
        });
    assert_eq!(from, Some(node_id(1)), "the listener's policy names it");
}

#[test]
fn whose_bundles_are_taken_alone_has_to_be_named() {
    for (named, delivered) in [(None, 0), (Some(node_id(1)), 1), (Some(node_id(3)), 0)] {
        let mut world = pair(Framing::Mtcp, 8, |number, config| {
            if number == 2 {
                config.listeners[0].policy.accept_relayed = Enabled::No;
                config.listeners[0].policy.peer = named.clone();
            }
        });
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        offer(&mut world, 0, "ipn:2.42", &[10]);
        world.pass(Duration::from_secs(2));
        world.settle();
        let count = world.client(1, receiver).received.len();
        assert_eq!(count, delivered, "{named:?}");
        // The bundle is skipped, and the connection stays.
        assert_eq!(ends(&world, 1), []);
    }
}

/// A bundle from a node that nobody knows.
fn foreign(destination: &str, octets: &[u8]) -> Bytes {
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(crate::world::EPOCH.as_millis()),
        sequence: octets.len().try_into().unwrap(),
    };
    let source = "ipn:9.1".parse().unwrap();
    let builder = BundleBuilder::new(source, destination.parse().unwrap(), creation, 60_000);
    builder.bundle(octets).unwrap()
}

/// A connection to a node, of which the test is the other end.
fn accepted(world: &mut World, at: usize, number: u64) -> StreamId {
    let stream = StreamId(1_000_000 + number);
    let listener = ListenerId(0);
    let purpose = Purpose::Accepted { listener };
    world.handle(at, Event::Connected { stream, purpose });
    stream
}

fn say(world: &mut World, at: usize, stream: StreamId, octets: &[&[u8]]) {
    let octets = Bytes::from(octets.concat());
    world.handle(at, Event::Octets { stream, octets });
}

#[test]
fn a_broken_stream_ends_its_connection_alone() {
    let mut world = pair(Framing::Mtcp, 9, |_, _| ());
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let bundle = foreign("ipn:2.42", b"before");
    let length = |bundle: &Bytes| u8::try_from(bundle.len()).unwrap();
    let broken = accepted(&mut world, 1, 0);
    let sound = accepted(&mut world, 1, 1);
    let torn = accepted(&mut world, 1, 2);
    let silent = accepted(&mut world, 1, 3);
    say(
        &mut world,
        1,
        broken,
        &[&[0x58, length(&bundle)], &bundle, b"dtn!"],
    );
    let bundle = foreign("ipn:2.42", b"in two parts");
    say(
        &mut world,
        1,
        sound,
        &[&[0x58, length(&bundle)], &bundle[..20]],
    );
    say(&mut world, 1, torn, &[&[0x59, 1, 0], &bundle[..20]]);
    world.handle(1, Event::Disconnected { stream: torn });
    world.handle(1, Event::Disconnected { stream: silent });
    say(&mut world, 1, sound, &[&bundle[20..]]);
    world.until("the sound ones are delivered", |world| {
        world.client(1, receiver).received.len() == 2
    });
    let ends = ends(&world, 1);
    let rules: Vec<_> = ends.iter().map(ToString::to_string).collect();
    assert_eq!(rules.len(), 2, "{rules:?}");
    assert!(rules[0].contains("0x64, which begins no CBOR byte string"));
    assert!(rules[1].contains("after 20 of a bundle's 256 octets"));
}

/// Octets that a connection of STCP brings of a bundle, in pieces.
struct Copy {
    stream: StreamId,
    octets: Vec<u8>,
    /// Octets after which it is cut.
    end: usize,
    said: usize,
}

#[test]
fn of_copies_that_come_at_a_time_the_first_that_is_whole_is_kept() {
    for seed in 0..300 {
        let mut world = pair(Framing::Stcp, seed, |_, _| ());
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        let remote = seed % 3 == 0;
        let destination = if remote { "ipn:1.42" } else { "ipn:2.42" };
        let payload: Vec<u8> = (0..=250).cycle().take(1_000).collect();
        let bundle = foreign(destination, &payload);
        let length = u32::try_from(bundle.len()).unwrap().to_be_bytes();
        let octets = [&length[..], &bundle].concat();
        let mut left = Vec::new();
        let elsewhere = world.connect(0, Client::new("ipn:1.42", true));
        for number in 0..=world.random(5) {
            let cut = world.random(u64::try_from(octets.len()).unwrap());
            let is_cut = world.random(2) == 0;
            left.push(Copy {
                stream: accepted(&mut world, 1, number),
                octets: octets.clone(),
                end: if is_cut {
                    usize::try_from(cut).unwrap()
                } else {
                    octets.len()
                },
                said: 0,
            });
        }
        let is_whole = left.iter().any(|copy| copy.end == octets.len());
        while !left.is_empty() {
            let at = usize::try_from(world.random(u64::try_from(left.len()).unwrap())).unwrap();
            let more = usize::try_from(1 + world.random(400)).unwrap();
            let copy = &mut left[at];
            let said = copy.said.saturating_add(more).min(copy.end);
            let (stream, piece) = (copy.stream, copy.octets[copy.said..said].to_vec());
            copy.said = said;
            say(&mut world, 1, stream, &[&piece]);
            if said == left[at].end {
                if said < octets.len() {
                    world.handle(1, Event::Disconnected { stream });
                }
                left.swap_remove(at);
            }
            for _ in 0..world.random(4) {
                world.step();
            }
        }
        world.settle();
        // A copy that came when the bundle had left waits before it goes, and so does one that could not be read.
        for _ in 0..4 {
            world.pass(Duration::from_secs(10));
            world.settle();
        }
        let (at, receiver) = if remote {
            (0, elsewhere)
        } else {
            (1, receiver)
        };
        let received = received(&mut world, at, receiver);
        let expected = if is_whole { vec![payload] } else { vec![] };
        assert!(
            received == expected,
            "seed {seed}: {} delivered",
            received.len()
        );
        assert_eq!(
            (stored(&world, 0), stored(&world, 1)),
            (0, 0),
            "seed {seed}"
        );
    }
}

#[test]
fn of_copies_that_come_at_a_time_there_is_a_limit() {
    let mut world = pair(Framing::Stcp, 12, |_, _| ());
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let bundle = foreign("ipn:2.42", &[7; 500]);
    let length = u32::try_from(bundle.len()).unwrap().to_be_bytes();
    for number in 0..20 {
        let stream = accepted(&mut world, 1, number);
        say(&mut world, 1, stream, &[&length, &bundle[..200]]);
    }
    let refused = world.machines[1].node.as_ref().unwrap().counters().refused;
    assert_eq!(refused, 12);
    say(&mut world, 1, StreamId(1_000_003), &[&bundle[200..]]);
    world.until("it is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
    world.settle();
    assert_eq!(stored(&world, 1), 0);
}

#[test]
fn a_bundle_that_is_refused_is_skipped() {
    let mut world = pair(Framing::Stcp, 10, |number, config| {
        if number == 2 {
            config.listeners[0].policy.accept_sources = vec!["ipn:9.*".into()];
        }
    });
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    offer(&mut world, 0, "ipn:2.42", &[10, 200_000, 20]);
    world.until("all have left", |world| stored(world, 0) == 0);
    world.settle();
    let stream = accepted(&mut world, 1, 0);
    let none = foreign("ipn:2.42", &[0; 20])[..30].to_vec();
    let bundle = foreign("ipn:2.42", b"wanted");
    let length = |octets: &[u8]| u32::try_from(octets.len()).unwrap().to_be_bytes();
    for octets in [&none[..], b"no bundle", &bundle] {
        say(&mut world, 1, stream, &[&length(octets), octets]);
    }
    world.until("one is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
    let node = world.machines[1].node.as_ref().unwrap();
    assert_eq!(node.counters().refused, 5);
    assert_eq!(ends(&world, 1), []);
}

#[test]
fn a_peer_that_talks_back_is_told_of_and_dialled_again() {
    // The second node answers with TCPCL, once it has been spoken to.
    let mut world = pair(Framing::Stcp, 11, |number, config| {
        if number == 2 {
            config.listeners[0].protocol = Protocol::Tcpcl4;
            config.links[0].enabled = Enabled::No;
        }
    });
    offer(&mut world, 0, "ipn:2.42", &[10]);
    world.pass(Duration::from_secs(1));
    world.settle();
    let view = &world.machines[0].node.as_ref().unwrap().links()[0];
    assert!(view.last_error.is_some(), "{view:?}");
}

#[test]
fn nothing_is_given_to_the_socket_while_there_is_no_carrier_or_contact() {
    let mut world = pair(Framing::Stcp, 13, |number, config| {
        if number == 1 {
            config.links[0].dial = DialTime::Contacts;
            let contact = crate::world::contact((1, 2), (10, 20));
            config.contacts.insert(contact).unwrap();
        }
    });
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let delivered = |world: &mut World| {
        world.settle();
        world.client(1, receiver).received.len()
    };
    offer(&mut world, 0, "ipn:2.42", &[10]);
    assert_eq!(delivered(&mut world), 0);
    world.pass(Duration::from_secs(11));
    assert_eq!(delivered(&mut world), 1);
    let link = LinkId(0);
    let carrier = Carrier::Absent;
    world.handle(0, Event::CarrierChanged { link, carrier });
    world.settle();
    offer(&mut world, 0, "ipn:2.42", &[20]);
    assert_eq!((delivered(&mut world), stored(&world, 0)), (1, 1));
    let carrier = Carrier::Present;
    world.handle(0, Event::CarrierChanged { link, carrier });
    world.pass(Duration::from_secs(2));
    assert_eq!(delivered(&mut world), 2);
    world.pass(Duration::from_secs(10));
    world.settle();
    offer(&mut world, 0, "ipn:2.42", &[30]);
    assert_eq!((delivered(&mut world), stored(&world, 0)), (2, 1));
}

#[test]
fn what_is_kept_leaves_once_and_stays_until_it_expires() {
    let mut world = pair(Framing::Mtcp, 12, |_, config| {
        config.links[0].protocol = Protocol::Stcp(StcpPolicy {
            framing: Framing::Mtcp,
            on_sent: OnSent::Keep,
        });
    });
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    offer(&mut world, 0, "ipn:2.42", &[10, 3_000, 200_000]);
    world.until("all are delivered", |world| {
        world.client(1, receiver).received.len() == 3
    });
    world.settle();
    world.cut(0, 1);
    world.join(0, 1);
    world.pass(Duration::from_secs(5));
    world.settle();
    assert_eq!(stored(&world, 0), 3);
    assert_eq!(world.client(1, receiver).received.len(), 3);
    world.pass(Duration::from_secs(60));
    world.settle();
    assert_eq!(stored(&world, 0), 0);
}

#[test]
fn nodes_that_crash_lose_at_most_what_was_on_its_way() {
    for seed in 0..12 {
        let framing = FRAMINGS[usize::try_from(seed % 4).unwrap()];
        let mut world = pair(framing, seed, |_, _| ());
        let sizes = [10, 3_000, 100, 200_000, 50, 7];
        for at in [0, 1] {
            offer(&mut world, at, &format!("ipn:{}.42", 2 - at), &sizes);
        }
        for _ in 0..world.random(60) {
            world.step();
        }
        let at = usize::try_from(world.random(2)).unwrap();
        world.crash(at);
        world.start(at);
        world.until("all have left", |world| {
            let own = |at: usize| {
                let node = world.machines[at].node.as_ref().unwrap();
                node.links()[0].sessions > 0
            };
            own(0) && own(1)
        });
        world.pass(Duration::from_secs(2));
        world.settle();
        for at in [0, 1] {
            let receiver = world.connect(at, Client::new(&format!("ipn:{}.42", at + 1), true));
            world.settle();
            for octets in received(&mut world, at, receiver) {
                let number = sizes.iter().position(|size| *size == octets.len()).unwrap();
                assert!(octets == payload(number.try_into().unwrap(), octets.len()));
            }
        }
        world.until("nothing is left", |world| {
            stored(world, 0) + stored(world, 1) == 0
        });
        let link = LinkId(0);
        world.dial(0, link);
        world.settle();
    }
}
