//! Neighbours that say of bundles that they are where they were to go, by hand: those that a node believes, and the fate of its copies (docs/adverts.md).

#[allow(
    dead_code,
    reason = "each test program uses what it needs of the world"
)]
use std::time::Duration;

use crate::world::client::Client;
use crate::world::{Program, World};
use bytes::{BufMut, Bytes, BytesMut};
use dhow_bundle::cbor::{write_array, write_byte_string, write_text, write_unsigned};
use dhow_bundle::{BundleBuilder, BundleFlags, CreationTimestamp, EndpointId};
use dhow_link::stream::PeerIdentities;
use dhow_node::config::{
    Acknowledgments, COPIES, DropPolicy, ListenerConfig, ListenerId, RouterKind, Routing,
    SessionPolicy, Tls,
};
use dhow_node::driver::{Event, Purpose, StreamId};
use dhow_node::view::Counters;

const YEAR_MS: u64 = 366 * 86_400_000;

/// The lifetime of bundles.
const LIFETIME_MS: u64 = 2 * YEAR_MS;

/// Whether TLS has proven a neighbour's node ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Certificate {
    /// There is no TLS.
    Missing,
    /// The certificate names no node.
    Nameless,
    /// The certificate names the neighbour.
    Own,
}

/// Node `ipn:1.0`, which gives bundles to every neighbour, and believes these of what they say.
fn node(trust: Acknowledgments) -> World {
    World::line(1, 7, |_, config| {
        config.routing = vec![Routing {
            to: "*:**".into(),
            router: RouterKind::Epidemic,
            copies: COPIES,
            acknowledgments: trust,
            drop: DropPolicy::None,
        }];
        config.listeners = vec![ListenerConfig {
            policy: SessionPolicy {
                tls: Tls::Preferred,
                ..SessionPolicy::default()
            },
            ..ListenerConfig::default()
        }];
    })
}

/// A neighbour over TCPCLv4 that acknowledges nothing and reads nothing.
struct Peer {
    stream: StreamId,
    number: u64,
    transfer: u64,
    sequence: u64,
}

impl Peer {
    /// Node `ipn:NUMBER.0`.
    fn meet(world: &mut World, number: u64, certificate: Certificate) -> Self {
        let stream = StreamId(1_000 + number);
        world.machines[0]
            .programs
            .insert(stream, Program::default());
        let listener = ListenerId(0);
        let purpose = Purpose::Accepted { listener };
        world.handle(0, Event::Connected { stream, purpose });
        let peer = Self {
            stream,
            number,
            transfer: 0,
            sequence: 0,
        };
        let flags = u8::from(certificate != Certificate::Missing);
        peer.write(world, &[b'd', b't', b'n', b'!', 4, flags]);
        let id = format!("ipn:{number}.0");
        if certificate != Certificate::Missing {
            let names = match certificate {
                Certificate::Own => vec![id.parse().unwrap()],
                Certificate::Missing | Certificate::Nameless => vec![],
            };
            let identities = PeerIdentities {
                node_ids: names,
                dns_matches: Some(true),
                address_matches: Some(true),
            };
            world.handle(0, Event::Secured { stream, identities });
        }
        let mut init = BytesMut::from(&[7, 0, 0][..]);
        init.put_u64(1 << 24);
        init.put_u64(1 << 40);
        init.put_u16(u16::try_from(id.len()).unwrap());
        init.put_slice(id.as_bytes());
        init.put_u32(0);
        peer.write(world, &init);
        world.settle();
        peer
    }

    fn write(&self, world: &mut World, octets: &[u8]) {
        let (stream, octets) = (self.stream, Bytes::copy_from_slice(octets));
        world.handle(0, Event::Octets { stream, octets });
    }

    fn give(&mut self, world: &mut World, bundle: &[u8]) {
        let mut segment = BytesMut::from(&[1, 3][..]);
        segment.put_u64(self.transfer);
        segment.put_u32(0);
        segment.put_u64(u64::try_from(bundle.len()).unwrap());
        segment.put_slice(bundle);
        self.transfer += 1;
        self.write(world, &segment);
        world.settle();
    }

    /// Says in an advert that these bundles are where they were to go.
    fn acknowledge(&mut self, world: &mut World, all: &[Named<'_>]) {
        let mut body = Vec::new();
        write_array(&mut body, u64::try_from(all.len()).unwrap());
        for it in all {
            it.write(&mut body);
        }
        let mut advert = Vec::new();
        write_array(&mut advert, 3);
        write_unsigned(&mut advert, 1);
        write_text(&mut advert, "acknowledgments");
        write_byte_string(&mut advert, &body);
        self.sequence += 1;
        let source = format!("ipn:{}.5202", self.number);
        let bundle = bundle(&source, "ipn:1.5202", 1_000_000 + self.sequence, &advert);
        self.give(world, &bundle);
    }

    /// Its session ends.
    fn part(self, world: &mut World) {
        let stream = self.stream;
        world.machines[0].programs.remove(&stream);
        world.handle(0, Event::Disconnected { stream });
        world.settle();
    }
}

/// An acknowledgment of a bundle of `ipn:9.5`.
#[derive(Clone, Copy)]
struct Named<'a> {
    sequence: u64,
    destination: &'a str,
    left_ms: u64,
}

impl Named<'_> {
    fn write(self, out: &mut Vec<u8>) {
        write_array(out, 5);
        eid("ipn:9.5").encode(out);
        write_unsigned(out, crate::world::EPOCH.as_millis());
        write_unsigned(out, self.sequence);
        eid(self.destination).encode(out);
        write_unsigned(out, self.left_ms);
    }
}

fn named(sequence: u64, destination: &str) -> Named<'_> {
    Named {
        sequence,
        destination,
        left_ms: LIFETIME_MS,
    }
}

fn eid(text: &str) -> EndpointId {
    text.parse().unwrap()
}

fn bundle(source: &str, destination: &str, sequence: u64, payload: &[u8]) -> Bytes {
    let creation = CreationTimestamp {
        time: crate::world::EPOCH,
        sequence,
    };
    BundleBuilder::new(eid(source), eid(destination), creation, LIFETIME_MS)
        .with_flags(BundleFlags::MUST_NOT_FRAGMENT)
        .bundle(payload)
        .unwrap()
}

/// A node that holds bundles of `ipn:9.5` with these numbers and destinations, of which the neighbour that brought them has gone.
fn holding(trust: Acknowledgments, bundles: &[(u64, &str)]) -> World {
    let mut world = node(trust);
    let mut source = Peer::meet(&mut world, 9, Certificate::Missing);
    for (sequence, destination) in bundles {
        source.give(
            &mut world,
            &bundle("ipn:9.5", destination, *sequence, b"it"),
        );
    }
    source.part(&mut world);
    assert_eq!(held(&world), sequences(bundles));
    world
}

fn sequences(bundles: &[(u64, &str)]) -> Vec<u64> {
    bundles.iter().map(|(sequence, _)| *sequence).collect()
}

/// The numbers of the bundles of `ipn:9.5` that it holds.
fn held(world: &World) -> Vec<u64> {
    let kept = world.machines[0].store.kept.bundles.values();
    let ids = kept.map(|(stored, _)| &stored.id);
    let of_source = ids.filter(|id| id.source == eid("ipn:9.5"));
    let mut held: Vec<u64> = of_source.map(|id| id.creation.sequence).collect();
    held.sort_unstable();
    held
}

fn counters(world: &World) -> Counters {
    world.machines[0].node.as_ref().unwrap().counters()
}

const FAR: [(u64, &str); 3] = [(1, "ipn:7.42"), (2, "ipn:7.42"), (3, "dtn://far/in")];

#[test]
fn a_stranger_that_acknowledges_everything_ends_nothing_where_it_must_be_verified() {
    let everything = FAR.map(|(sequence, destination)| named(sequence, destination));
    for (certificate, left) in [
        (Certificate::Missing, vec![1, 2, 3]),
        (Certificate::Nameless, vec![1, 2, 3]),
        (Certificate::Own, vec![]),
    ] {
        let mut world = holding(Acknowledgments::Verified, &FAR);
        let mut peer = Peer::meet(&mut world, 66, certificate);
        peer.acknowledge(&mut world, &everything);
        assert_eq!(held(&world), left, "{certificate:?}");
        assert_eq!(counters(&world).adverts_taken, 1);
    }
}

#[test]
fn a_neighbour_speaks_for_its_own_bundles() {
    let mut world = holding(Acknowledgments::Verified, &FAR);
    let mut peer = Peer::meet(&mut world, 7, Certificate::Missing);
    let everything = FAR.map(|(sequence, destination)| named(sequence, destination));
    peer.acknowledge(&mut world, &everything);
    assert_eq!(held(&world), [3]);
    assert_eq!(counters(&world).purged, 2);
}

#[test]
fn where_nobody_is_believed_nobody_is() {
    let mut world = holding(Acknowledgments::None, &FAR);
    for number in [7, 66] {
        let mut peer = Peer::meet(&mut world, number, Certificate::Own);
        let everything = FAR.map(|(sequence, destination)| named(sequence, destination));
        peer.acknowledge(&mut world, &everything);
    }
    assert_eq!(held(&world), [1, 2, 3]);
}

#[test]
fn an_acknowledgment_of_another_destination_says_nothing_and_keeps_no_true_one_out() {
    let mut world = holding(Acknowledgments::Anyone, &FAR);
    let mut peer = Peer::meet(&mut world, 66, Certificate::Missing);
    peer.acknowledge(
        &mut world,
        &FAR.map(|(sequence, _)| named(sequence, "ipn:66.1")),
    );
    assert_eq!(held(&world), [1, 2, 3]);
    let mut other = Peer::meet(&mut world, 67, Certificate::Missing);
    other.acknowledge(&mut world, &[named(2, "ipn:7.42")]);
    assert_eq!(held(&world), [1, 3]);
}

#[test]
fn a_bundle_for_this_node_or_for_a_group_or_a_router_is_nobodys_to_acknowledge() {
    const HERE: [(u64, &str); 3] = [
        (1, "ipn:1.42"),
        (2, "dtn://far/~all"),
        (3, "dtn://far/routing"),
    ];
    let mut world = node(Acknowledgments::Anyone);
    let mut peer = Peer::meet(&mut world, 66, Certificate::Own);
    let all = HERE.map(|(sequence, destination)| named(sequence, destination));
    peer.acknowledge(&mut world, &all);
    let mut source = Peer::meet(&mut world, 9, Certificate::Missing);
    for (sequence, destination) in HERE {
        source.give(&mut world, &bundle("ipn:9.5", destination, sequence, b"it"));
    }
    assert_eq!(held(&world), [1, 2, 3]);
    world.pass(Duration::from_secs(2));
    peer.acknowledge(&mut world, &all);
    world.settle();
    assert_eq!(held(&world), [1, 2, 3]);
    let receiver = world.connect(0, Client::new("ipn:1.42", true));
    world.settle();
    assert_eq!(world.client(0, receiver).received.len(), 1);
}

#[test]
fn one_for_centuries_counts_for_a_year() {
    let mut world = node(Acknowledgments::Anyone);
    let mut peer = Peer::meet(&mut world, 66, Certificate::Missing);
    // It was never sent, and is then.
    peer.acknowledge(
        &mut world,
        &[Named {
            left_ms: u64::MAX,
            ..named(1, "ipn:7.42")
        }],
    );
    peer.part(&mut world);
    for (after_ms, expected) in [(0, vec![]), (YEAR_MS - 2, vec![]), (2, vec![1])] {
        world.pass(Duration::from_millis(after_ms));
        let mut source = Peer::meet(&mut world, 9, Certificate::Missing);
        source.give(&mut world, &bundle("ipn:9.5", "ipn:7.42", 1, b"it"));
        assert_eq!(held(&world), expected, "{after_ms} ms later");
        source.part(&mut world);
    }
}

#[test]
fn a_flood_of_them_is_read_once_a_second_and_takes_so_much_memory_and_no_more() {
    let mut world = holding(Acknowledgments::Anyone, &FAR);
    let memory = |world: &World| world.machines[0].node.as_ref().unwrap().memory_octets();
    let before = memory(&world);
    let long = format!("dtn://{}/in", "n".repeat(900));
    let mut peer = Peer::meet(&mut world, 66, Certificate::Missing);
    for step in 0..200 {
        let many: Vec<Named<'_>> = (0..60)
            .map(|it| named(100 + step * 60 + it, &long))
            .collect();
        peer.acknowledge(&mut world, &many);
        peer.acknowledge(&mut world, &[named(1, "ipn:7.42")]);
        assert_eq!(counters(&world).adverts_refused, step + 1);
        world.pass(Duration::from_secs(1));
    }
    assert!(
        memory(&world) - before < 16 << 20,
        "{}",
        memory(&world) - before
    );
    assert_eq!(held(&world), [1, 2, 3]);
    // Copies are on their way to the neighbour itself: the bundle ends with its session.
    peer.acknowledge(&mut world, &[named(1, "ipn:7.42")]);
    peer.part(&mut world);
    assert_eq!(held(&world), [2, 3]);
}

#[test]
fn neighbours_that_have_nothing_to_say_say_nothing() {
    let mut world = World::line(2, 7, |_, config| {
        config.routing = vec![Routing {
            to: "*:**".into(),
            router: RouterKind::Epidemic,
            copies: COPIES,
            acknowledgments: Acknowledgments::Anyone,
            drop: DropPolicy::None,
        }];
    });
    world.stay(120);
    for machine in &world.machines {
        let sent = machine.node.as_ref().unwrap().counters().adverts_sent;
        assert_eq!(sent, 1, "each tells once which bundles it has");
    }
}
