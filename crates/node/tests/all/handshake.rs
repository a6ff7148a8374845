//! Neighbours that are IBR-DTNs, by hand: what they ask and answer, and what becomes of it (docs/ibr-dtn.md).

#[allow(
    dead_code,
    reason = "each test program uses what it needs of the world"
)]
use std::collections::BTreeMap;
use std::time::Duration;

use crate::world::{Program, World};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use dhow_bundle::v6::{self, CreationTime, sdnv};
use dhow_node::config::{Acknowledgments, COPIES, DropPolicy, ListenerId, RouterKind, Routing};
use dhow_node::driver::{Event, Purpose, StreamId};
use proptest::prelude::*;

const HERE: &str = "dtn://here";

const NOTHING: [Bytes; 0] = [];

/// Octets of a segment of a neighbour, at most.
const SEGMENT_OCTETS: usize = 60_000;

/// A node that decides by this router about all destinations.
fn node(router: RouterKind) -> World {
    believing(router, router.acknowledgments())
}

fn believing(router: RouterKind, acknowledgments: Acknowledgments) -> World {
    World::line(1, 7, |_, config| {
        config.node_ids = vec!["dtn://here/".parse().unwrap()];
        config.routing = vec![Routing {
            to: "dtn:**".into(),
            router,
            copies: COPIES,
            acknowledgments,
            drop: DropPolicy::None,
        }];
    })
}

/// A neighbour over TCPCLv4, of which all that it hears is kept.
struct Peer {
    stream: StreamId,
    name: &'static str,
    transfer: u64,
    sequence: u64,
    /// Octets of what it heard that are read.
    read: usize,
    part: BytesMut,
}

/// A bundle of version 6: destination, source, sequence number and payload.
type Heard = (String, String, u64, Bytes);

impl Peer {
    fn meet(world: &mut World, number: u64, name: &'static str) -> Self {
        let stream = StreamId(1_000 + number);
        world.machines[0]
            .programs
            .insert(stream, Program::default());
        let listener = ListenerId(0);
        let purpose = Purpose::Accepted { listener };
        world.handle(0, Event::Connected { stream, purpose });
        let mut hello = BytesMut::from(&b"dtn!\x04\x00"[..]);
        hello.put_slice(&[7, 0, 0]);
        hello.put_u64(1 << 24);
        hello.put_u64(1 << 40);
        let id = format!("{name}/");
        hello.put_u16(u16::try_from(id.len()).unwrap());
        hello.put_slice(id.as_bytes());
        hello.put_u32(0);
        let mut peer = Self {
            stream,
            name,
            transfer: 0,
            sequence: (number - 1) * 100,
            read: 0,
            part: BytesMut::new(),
        };
        peer.write(world, &hello);
        peer
    }

    fn write(&mut self, world: &mut World, octets: &[u8]) {
        let (stream, octets) = (self.stream, Bytes::copy_from_slice(octets));
        world.handle(0, Event::Octets { stream, octets });
    }

    /// Gives the node a bundle.
    fn give(&mut self, world: &mut World, source: &str, destination: &str, payload: &[u8]) {
        self.sequence += 1;
        let octets = bundle(source, destination, (848_000_000, self.sequence), payload);
        let last = (octets.len() - 1) / SEGMENT_OCTETS;
        for (place, part) in octets.chunks(SEGMENT_OCTETS).enumerate() {
            let (start, end) = (place == 0, place == last);
            let mut segment = BytesMut::from(&[1, u8::from(start) << 1 | u8::from(end)][..]);
            segment.put_u64(self.transfer);
            if start {
                segment.put_u32(0);
            }
            segment.put_u64(u64::try_from(part.len()).unwrap());
            segment.put_slice(part);
            self.write(world, &segment);
            world.settle();
        }
        self.transfer += 1;
    }

    /// Says something to the node's router, in the name of its own.
    fn say(&mut self, world: &mut World, message: &[u8]) {
        let source = format!("{}/routing", self.name);
        self.give(world, &source, &format!("{HERE}/routing"), message);
    }

    /// The bundles that it was given since it was last asked; it acknowledges them.
    fn hear(&mut self, world: &mut World) -> Vec<Heard> {
        let mut bundles = Vec::new();
        loop {
            world.settle();
            let program = &world.machines[0].programs[&self.stream];
            let mut octets = Bytes::copy_from_slice(&program.from_node[self.read..]);
            self.read = program.from_node.len();
            if octets.is_empty() {
                return bundles;
            }
            let mut acknowledged = BytesMut::new();
            while octets.has_remaining() {
                match octets.get_u8() {
                    b'd' => octets.advance(5),
                    7 => {
                        octets.advance(18);
                        let length = usize::from(octets.get_u16());
                        octets.advance(length);
                        let length = usize::try_from(octets.get_u32()).unwrap();
                        octets.advance(length);
                    }
                    1 => self.take_segment(&mut octets, &mut acknowledged, &mut bundles),
                    2 => octets.advance(17),
                    3 => octets.advance(9),
                    4 => {}
                    other => panic!("message {other}"),
                }
            }
            self.write(world, &acknowledged);
        }
    }

    fn take_segment(&mut self, octets: &mut Bytes, out: &mut BytesMut, bundles: &mut Vec<Heard>) {
        let (flags, transfer) = (octets.get_u8(), octets.get_u64());
        if flags & 2 != 0 {
            let length = usize::try_from(octets.get_u32()).unwrap();
            octets.advance(length);
            self.part.clear();
        }
        let length = usize::try_from(octets.get_u64()).unwrap();
        self.part.extend_from_slice(&octets.split_to(length));
        out.put_slice(&[2, flags]);
        out.put_u64(transfer);
        out.put_u64(u64::try_from(self.part.len()).unwrap());
        if flags & 1 != 0 && self.part[0] == 6 {
            let octets = self.part.split().freeze();
            let header = v6::Header::decode(&octets).unwrap().unwrap();
            let primary = &header.primary;
            let (to, from) = (primary.destination.to_string(), primary.source.to_string());
            let payload = octets.slice(header.octets.len()..);
            bundles.push((to, from, primary.creation.sequence, payload));
        }
    }

    /// The messages that it heard, and the payloads of other bundles.
    fn heard(&mut self, world: &mut World) -> (Vec<Bytes>, Vec<Bytes>) {
        let heard = self.hear(world).into_iter();
        let endpoint = format!("{}/routing", self.name);
        let (messages, others): (Vec<_>, Vec<_>) =
            heard.partition(|(to, from, ..)| *to == endpoint && from == "dtn://here/routing");
        let payload = |it: Heard| it.3;
        let messages = messages.into_iter().map(payload).collect();
        (messages, others.into_iter().map(payload).collect())
    }

    fn part(self, world: &mut World) {
        let stream = self.stream;
        world.machines[0].programs.remove(&stream);
        world.handle(0, Event::Disconnected { stream });
    }
}

fn bundle(
    source: &str,
    destination: &str,
    (seconds, sequence): (u64, u64),
    payload: &[u8],
) -> Bytes {
    let now = crate::world::EPOCH.as_millis() / 1_000;
    let primary = v6::PrimaryBlock {
        flags: v6::BundleFlags::SINGLETON_DESTINATION,
        destination: destination.parse().unwrap(),
        source: source.parse().unwrap(),
        report_to: "dtn:none".parse().unwrap(),
        custodian: "dtn:none".parse().unwrap(),
        creation: CreationTime { seconds, sequence },
        lifetime_s: 600 + now.saturating_sub(seconds),
        fragment: None,
    };
    let octets = u64::try_from(payload.len()).unwrap();
    let header = v6::Header::new(primary, octets).unwrap();
    [&header.encode(), payload].concat().into()
}

/// The bits of a bundle in a filter, by the rules of the document and not by the code of the node.
fn bits(source: &str, (seconds, sequence): (u64, u64), octets: usize) -> [usize; 2] {
    let mut key = Vec::new();
    key.put_u64(seconds);
    key.put_u64(sequence);
    key.put_slice(&[0; 17]);
    key.put_slice(source.as_bytes());
    [0xaaaa_aaaa_u32, 0x5555_5555].map(|salt| {
        let mut hash = salt;
        for pair in key.chunks(2) {
            hash ^= (hash << 7) ^ u32::from(pair[0]).wrapping_mul(hash >> 3);
            if let Some(odd) = pair.get(1) {
                hash ^= !((hash << 11).wrapping_add(u32::from(*odd) ^ (hash >> 5)));
            }
        }
        usize::try_from(hash).unwrap() % (8 * octets)
    })
}

/// A response with a summary vector, and more items.
fn response(filter: &[u8], more: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![2, 60, u8::try_from(1 + more.len()).unwrap(), 1];
    let mut item = Vec::new();
    sdnv::write(&mut item, u64::try_from(filter.len()).unwrap());
    item.extend_from_slice(filter);
    sdnv::write(&mut out, u64::try_from(item.len()).unwrap());
    out.extend_from_slice(&item);
    for (number, item) in more {
        out.push(*number);
        sdnv::write(&mut out, u64::try_from(item.len()).unwrap());
        out.extend_from_slice(item);
    }
    out
}

/// A filter with these bundles of one source and time.
fn filter(source: &str, seconds: u64, sequences: &[u64]) -> Vec<u8> {
    let mut filter = vec![0; 1_024];
    for sequence in sequences {
        for bit in bits(source, (seconds, *sequence), filter.len()) {
            filter[bit / 8] |= 1 << (bit % 8);
        }
    }
    filter
}

/// The items of a response.
fn items(message: &Bytes) -> BTreeMap<u64, Bytes> {
    let mut reader = sdnv::Reader::new(message);
    assert_eq!((reader.number(), reader.number()), (Ok(2), Ok(60)));
    let count = reader.number().unwrap();
    let item = |_| {
        let number = reader.number().unwrap();
        let length = reader.number().unwrap();
        let octets = reader.octets(length).unwrap();
        (number, message.slice_ref(octets))
    };
    (0..count).map(item).collect()
}

/// Whether the summary vector of a response has a bundle.
fn tells_of(message: &Bytes, source: &str, creation: (u64, u64)) -> bool {
    let item = &items(message)[&1];
    let mut reader = sdnv::Reader::new(item);
    let length = usize::try_from(reader.number().unwrap()).unwrap();
    let filter = item.slice(reader.position()..);
    assert_eq!(filter.len(), length);
    let bits = bits(source, creation, length);
    bits.iter()
        .all(|bit| filter[bit / 8] & (1 << (bit % 8)) != 0)
}

fn counters(world: &World) -> dhow_node::view::Counters {
    world.machines[0].node.as_ref().unwrap().counters()
}

const REQUEST: &[u8] = &[1, 3, 1, 2, 5];
const OWN_REQUEST: &[u8] = &[1, 2, 1, 2];

#[test]
fn a_request_is_answered_and_asked_in_turn() {
    let mut world = node(RouterKind::Flood);
    let mut source = Peer::meet(&mut world, 1, "dtn://source");
    source.give(&mut world, "dtn://source/app", "dtn://far/sink", b"one");
    source.give(&mut world, "dtn://source/app", "dtn://far/sink", b"two");
    let mut ibr = Peer::meet(&mut world, 2, "dtn://ibr");
    ibr.hear(&mut world);
    ibr.say(&mut world, REQUEST);
    let (messages, others) = ibr.heard(&mut world);
    assert_eq!(others, NOTHING, "its answer is waited for");
    let [answer, request] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(request, OWN_REQUEST);
    assert_eq!(items(answer).keys().copied().collect::<Vec<_>>(), [1, 2, 5]);
    assert_eq!(items(answer)[&5], [4, 0, 0, 1, 0, 2, 0, 3, 0][..]);
    for sequence in [1, 2] {
        assert!(tells_of(
            answer,
            "dtn://source/app",
            (848_000_000, sequence)
        ));
    }
    assert!(!tells_of(answer, "dtn://source/app", (848_000_000, 3)));
    // It has the first bundle, and gets the second.
    let has = filter("dtn://source/app", 848_000_000, &[1]);
    ibr.say(&mut world, &response(&has, &[]));
    let (_, others) = ibr.heard(&mut world);
    assert_eq!(others, [&b"two"[..]]);
    assert_eq!(counters(&world).adverts_refused, 0);
}

#[test]
fn at_the_next_contact_it_is_asked_at_once_until_it_sends_adverts() {
    let mut world = node(RouterKind::Flood);
    let mut ibr = Peer::meet(&mut world, 1, "dtn://ibr");
    ibr.say(&mut world, REQUEST);
    ibr.heard(&mut world);
    ibr.part(&mut world);
    world.pass(Duration::from_secs(5));
    let mut ibr = Peer::meet(&mut world, 2, "dtn://ibr");
    let (messages, _) = ibr.heard(&mut world);
    assert_eq!(messages, [OWN_REQUEST]);
    // A flooding router's advert: [1, "flood", [[key, no hashes]]].
    let body = [&[0x82, 0x50][..], &[7; 16], &[0x40]].concat();
    let advert = [b"\x83\x01\x65flood\x53".as_slice(), &body].concat();
    ibr.say(&mut world, &advert);
    assert_eq!(counters(&world).adverts_taken, 2);
    ibr.part(&mut world);
    world.pass(Duration::from_secs(5));
    let sent = counters(&world).adverts_sent;
    let mut other = Peer::meet(&mut world, 3, "dtn://ibr");
    let (messages, _) = other.heard(&mut world);
    assert_eq!(messages, NOTHING, "an advert is of version 7");
    assert_eq!(counters(&world).adverts_sent, sent + 1);
}

#[test]
fn messages_come_and_go_once_a_second() {
    let mut world = node(RouterKind::Flood);
    let mut ibr = Peer::meet(&mut world, 1, "dtn://ibr");
    for _ in 0..10 {
        ibr.say(&mut world, REQUEST);
    }
    let (messages, _) = ibr.heard(&mut world);
    assert_eq!(messages.len(), 2, "an answer and a request");
    assert_eq!(counters(&world).adverts_refused, 9);
    world.pass(Duration::from_secs(1));
    for _ in 0..10 {
        ibr.say(&mut world, &[3, 1, 1]);
    }
    let (messages, _) = ibr.heard(&mut world);
    assert_eq!(messages, [OWN_REQUEST], "a notification is a reason to ask");
}

#[test]
fn a_notification_soon_after_a_request_is_a_reason_to_ask_again() {
    let mut world = node(RouterKind::Prophet);
    let mut ibr = Peer::meet(&mut world, 1, "dtn://ibr");
    ibr.say(&mut world, REQUEST);
    ibr.heard(&mut world);
    world.pass(Duration::from_millis(900));
    ibr.say(&mut world, &response(&[0], &[]));
    ibr.say(&mut world, &[3, 1, 1]);
    ibr.say(&mut world, &[3, 1, 1]);
    assert_eq!(ibr.heard(&mut world).0, NOTHING);
    world.pass(Duration::from_millis(200));
    let (messages, _) = ibr.heard(&mut world);
    assert_eq!(messages.len(), 1, "{messages:?}");
    // The answer to it comes within a second of the last one, and is heard.
    ibr.say(&mut world, &response(&[0], &[]));
    assert_eq!(counters(&world).adverts_refused, 0);
    world.pass(Duration::from_secs(5));
    assert_eq!(ibr.heard(&mut world).0, NOTHING);
}

#[test]
fn a_notification_to_all_is_heard_and_goes_no_further() {
    let mut world = node(RouterKind::Flood);
    let mut ibr = Peer::meet(&mut world, 1, "dtn://ibr");
    let mut other = Peer::meet(&mut world, 2, "dtn://other");
    ibr.heard(&mut world);
    other.heard(&mut world);
    let (source, group) = ("dtn://ibr/routing", "dtn://broadcast.dtn/routing");
    ibr.give(&mut world, source, group, &[3, 1, 3]);
    assert_eq!(ibr.heard(&mut world).0, [OWN_REQUEST]);
    world.pass(Duration::from_secs(1));
    ibr.give(&mut world, source, group, REQUEST);
    let (messages, _) = ibr.heard(&mut world);
    let [answer, _] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(items(answer).len(), 3, "it comes from this node's endpoint");
    world.pass(Duration::from_secs(5));
    assert_eq!(other.hear(&mut world), []);
    let (stored, _) = world.machines[0].node.as_ref().unwrap().stored();
    assert_eq!(stored, 0);
}

#[test]
fn a_filter_of_ones_costs_its_sender_copies_and_nobody_else() {
    let mut world = node(RouterKind::Flood);
    let mut source = Peer::meet(&mut world, 1, "dtn://source");
    source.give(&mut world, "dtn://source/app", "dtn://far/sink", b"one");
    let mut liar = Peer::meet(&mut world, 2, "dtn://liar");
    let mut honest = Peer::meet(&mut world, 3, "dtn://honest");
    let ones = vec![0xff; 512 << 10];
    let purge = [&[0xa0, 0x80, 0x00][..], &ones].concat();
    liar.say(&mut world, &response(&ones, &[(2, purge)]));
    honest.say(&mut world, &response(&[0], &[]));
    assert_eq!(counters(&world).adverts_taken, 2);
    assert_eq!(liar.heard(&mut world).1, NOTHING);
    assert_eq!(honest.heard(&mut world).1, [&b"one"[..]]);
    world.pass(Duration::from_secs(10));
    assert_eq!(liar.heard(&mut world).1, NOTHING);
    source.hear(&mut world);
    let (stored, _) = world.machines[0].node.as_ref().unwrap().stored();
    assert_eq!(stored, 1, "the node keeps its own");
}

#[test]
fn a_message_of_another_node_or_version_is_none() {
    let mut world = node(RouterKind::Flood);
    let mut ibr = Peer::meet(&mut world, 1, "dtn://ibr");
    ibr.heard(&mut world);
    let routing = format!("{HERE}/routing");
    ibr.give(&mut world, "dtn://other/routing", &routing, REQUEST);
    ibr.give(&mut world, "dtn://ibr/app", &routing, REQUEST);
    ibr.say(&mut world, &[1, 2, 1]);
    ibr.say(&mut world, &[0x78, 0x9c, 0x63, 0x60]);
    assert_eq!(ibr.heard(&mut world).0, NOTHING);
    assert_eq!(counters(&world).adverts_refused, 4);
    let (stored, _) = world.machines[0].node.as_ref().unwrap().stored();
    assert_eq!(stored, 0);
}

/// A table of PRoPHET: nodes and predictabilities.
fn table(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut out = vec![u8::try_from(entries.len()).unwrap()];
    for (node, predictability) in entries {
        for text in [node, predictability] {
            out.push(u8::try_from(text.len()).unwrap());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

#[test]
fn tables_of_prophet_lead_bundles_both_ways() {
    let mut world = node(RouterKind::Prophet);
    let mut source = Peer::meet(&mut world, 1, "dtn://source");
    source.give(&mut world, "dtn://source/app", "dtn://far/sink", b"far");
    source.give(&mut world, "dtn://source/app", "dtn://lost/sink", b"lost");
    let mut ibr = Peer::meet(&mut world, 2, "dtn://ibr");
    ibr.say(&mut world, &[1, 5, 1, 2, 3, 4, 5]);
    let (messages, others) = ibr.heard(&mut world);
    assert_eq!(others, NOTHING);
    let [answer, request] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(request[..], [1, 4, 1, 2, 3, 4]);
    let answer = items(answer);
    let met = [("dtn://ibr", "0.5"), ("dtn://source", "0.5")];
    assert_eq!(answer[&3], table(&met));
    assert_eq!(answer[&4], [0][..]);
    let more = [(3, table(&[("dtn://ibr", "1"), ("dtn://far", "0.493247")]))];
    ibr.say(&mut world, &response(&[0; 1_024], &more));
    assert_eq!(ibr.heard(&mut world).1, [&b"far"[..]]);
    // The neighbour's acquaintance is this node's, through it: 0.5 x 0.493247 x 0.9.
    world.pass(Duration::from_secs(2));
    source.say(&mut world, &[1, 1, 3]);
    let (messages, _) = source.heard(&mut world);
    let told = items(&messages[0]);
    let expected = [("dtn://far", "0.221961"), met[0], met[1]];
    assert_eq!(told[&3], table(&expected));
}

/// Bundles that a neighbour says to be delivered are not copied to it; this node keeps them.
#[test]
fn delivered_bundles_are_not_given_and_not_deleted() {
    let mut world = node(RouterKind::Prophet);
    let mut source = Peer::meet(&mut world, 1, "dtn://source");
    for payload in [b"one", b"two"] {
        source.give(&mut world, "dtn://source/app", "dtn://far/sink", payload);
    }
    let mut ibr = Peer::meet(&mut world, 2, "dtn://ibr");
    ibr.heard(&mut world);
    let mut acknowledged = vec![1];
    sdnv::write(&mut acknowledged, 848_000_000);
    acknowledged.extend_from_slice(&[1, 0, 16]);
    acknowledged.extend_from_slice(b"dtn://source/app");
    sdnv::write(&mut acknowledged, 848_000_600);
    sdnv::write(&mut acknowledged, 600);
    let more = [
        (3, table(&[("dtn://far", "0.9")])),
        (4, acknowledged.clone()),
    ];
    ibr.say(&mut world, &response(&[0; 1_024], &more));
    assert_eq!(ibr.heard(&mut world).1, [&b"two"[..]]);
    source.hear(&mut world);
    let (stored, _) = world.machines[0].node.as_ref().unwrap().stored();
    assert_eq!(stored, 2);
}

/// A set of acknowledgments of bundles of one source, created at 848,000,000 s.
fn acknowledgments(source: &str, sequences: &[u8]) -> Vec<u8> {
    let mut out = vec![u8::try_from(sequences.len()).unwrap()];
    for sequence in sequences {
        sdnv::write(&mut out, 848_000_000);
        out.extend_from_slice(&[*sequence, 0, u8::try_from(source.len()).unwrap()]);
        out.extend_from_slice(source.as_bytes());
        sdnv::write(&mut out, 848_000_600);
        sdnv::write(&mut out, 600);
    }
    out
}

/// Two bundles for another node and one for the neighbour `dtn://ibr`, from a source that has gone.
fn three_held(acknowledgments: Acknowledgments) -> World {
    let mut world = believing(RouterKind::Epidemic, acknowledgments);
    let mut source = Peer::meet(&mut world, 1, "dtn://source");
    for destination in ["dtn://far/sink", "dtn://far/sink", "dtn://ibr/sink"] {
        source.give(&mut world, "dtn://source/app", destination, b"it");
    }
    source.hear(&mut world);
    source.part(&mut world);
    world
}

/// Bundles of applications; messages that wait for neighbours are others.
fn held(world: &World) -> Vec<u64> {
    let kept = world.machines[0].store.kept.bundles.values();
    let ids = kept.map(|(stored, _)| &stored.id);
    let app = "dtn://source/app".parse().unwrap();
    let of_app = ids.filter(|id| id.source == app);
    // 848,000,000 s and number 1 to 3 in version 6: milliseconds of the second (docs/gateway.md).
    of_app
        .map(|id| id.creation.time.as_millis() % 1_000)
        .collect()
}

#[test]
fn identities_that_a_believed_neighbour_acknowledges_end_copies_and_are_told_on() {
    for (trust, left, told) in [
        (Acknowledgments::None, vec![1, 2, 3], 0),
        (Acknowledgments::Verified, vec![1, 2], 1),
        (Acknowledgments::Anyone, vec![1], 2),
    ] {
        let mut world = three_held(trust);
        let mut ibr = Peer::meet(&mut world, 2, "dtn://ibr");
        let more = [(4, acknowledgments("dtn://source/app", &[2, 3, 77]))];
        ibr.say(&mut world, &response(&[0; 1_024], &more));
        ibr.hear(&mut world);
        // It reads what it was given, so that nothing is on its way.
        assert_eq!(held(&world), left, "{trust:?}");
        let mut other = Peer::meet(&mut world, 3, "dtn://other");
        other.say(&mut world, &[1, 2, 2, 4]);
        let (messages, _) = other.heard(&mut world);
        let told_there = items(&messages[0]);
        assert_eq!(told_there[&4][0], told, "{trust:?}");
        let mut reader = sdnv::Reader::new(&told_there[&2]);
        let length = reader.number().unwrap();
        let filter = reader.octets(length).unwrap();
        let ones: u32 = filter.iter().map(|octet| octet.count_ones()).sum();
        assert_eq!(ones, 2 * u32::from(told), "{trust:?}");
    }
}

#[test]
fn a_bundle_that_is_delivered_here_is_told() {
    let mut world = node(RouterKind::Prophet);
    let mut source = Peer::meet(&mut world, 1, "dtn://source");
    source.give(&mut world, "dtn://source/app", "dtn://here/sink", b"one");
    source.say(&mut world, &[1, 2, 2, 4]);
    let (messages, _) = source.heard(&mut world);
    let told = items(&messages[0]);
    assert_eq!(
        told[&4][..6],
        acknowledgments("dtn://source/app", &[1])[..6]
    );
    let bits = bits("dtn://source/app", (848_000_000, 1), 1_024);
    // The filter's length, 1,024 in two octets, stands before it.
    assert!(
        bits.iter()
            .all(|bit| told[&2][2 + bit / 8] & (1 << (bit % 8)) != 0)
    );
}

#[test]
fn a_filter_ends_copies_of_others_bundles_where_anyone_is_believed_and_is_not_told_on() {
    for (trust, left) in [
        (Acknowledgments::Verified, vec![1, 2, 3]),
        (Acknowledgments::Anyone, vec![1]),
    ] {
        let mut world = three_held(trust);
        let mut ibr = Peer::meet(&mut world, 2, "dtn://ibr");
        let filter = filter("dtn://source/app", 848_000_000, &[2, 3]);
        let purge = [&[0x88, 0x00][..], &filter].concat();
        ibr.say(&mut world, &response(&[0; 1_024], &[(2, purge)]));
        ibr.hear(&mut world);
        assert_eq!(held(&world), left, "{trust:?}");
        let mut other = Peer::meet(&mut world, 3, "dtn://other");
        other.say(&mut world, &[1, 2, 2, 4]);
        assert_eq!(items(&other.heard(&mut world).0[0])[&4], [0][..]);
    }
    // So many bits that it tells of nothing.
    let mut world = three_held(Acknowledgments::Anyone);
    let mut ibr = Peer::meet(&mut world, 2, "dtn://ibr");
    let purge = [&[0x88, 0x00][..], &[0xff; 1_024]].concat();
    ibr.say(&mut world, &response(&[0; 1_024], &[(2, purge)]));
    ibr.hear(&mut world);
    assert_eq!(held(&world), [1, 2, 3]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_message_leaves_a_node_that_works(
        messages in proptest::collection::vec((1_u8..4, proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()), 1..6),
    ) {
        let mut world = node(RouterKind::Prophet);
        // Reads come late, and fail; every invariant is checked.
        (world.hostile, world.refusals) = (true, 0);
        let mut ibr = Peer::meet(&mut world, 1, "dtn://ibr");
        for (first, rest, is_compressed) in messages {
            let head: &[u8] = if is_compressed { &[0x78, 0x9c] } else { &[] };
            ibr.say(&mut world, &[head, &[first], &rest].concat());
            world.pass(Duration::from_millis(500));
        }
        world.pass(Duration::from_secs(2));
        ibr.heard(&mut world);
        // Requests before may have been read late, and answered just now: a neighbour that gets no answer asks again.
        let mut messages = Vec::new();
        for _ in 0..5 {
            ibr.say(&mut world, REQUEST);
            messages.extend(ibr.heard(&mut world).0);
            world.pass(Duration::from_millis(1_500));
        }
        prop_assert!(messages.iter().any(|it| it[0] == 2), "{messages:?}");
    }
}
