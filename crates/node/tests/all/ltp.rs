//! Two nodes that speak LTP by datagrams which are lost, doubled and overtake each other.

use crate::world::World;
use crate::world::client::Client;
use bytes::Bytes;
use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime};
use dhow_link::stream::RefuseReason;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Aggregation, Config, LinkId, LtpPolicy, Protocol, RedPart};
use dhow_node::driver::{Carrier, Event};
use dhow_node::view::LinkState;
use dhow_node::why::Cause;

/// Nodes 1 and 2, each with a link over LTP to the other.
pub fn pair(seed: u64, policy: LtpPolicy, edit: impl Fn(u32, &mut Config)) -> World {
    let mut world = World::circle(2, seed, |number, config| {
        let link = &mut config.links[0];
        link.protocol = Protocol::Ltp(policy);
        link.policy.peer = Some(format!("ipn:{}.0", 3 - number).parse().unwrap());
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    world
}

pub fn payload(number: u32, octets: usize) -> Vec<u8> {
    let number = usize::try_from(number).unwrap();
    let octet = |place: usize| u8::try_from((place * 7 + number * 13) % 251).unwrap();
    (0..octets).map(octet).collect()
}

pub fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(3_600_000),
        ..BundleAdu::default()
    }
}

pub fn stored(world: &World, at: usize) -> u64 {
    world.machines[at].node.as_ref().unwrap().stored().0
}

/// Gives node 1 bundles of these sizes for node 2, and waits until they are durable there.
pub fn offer(world: &mut World, sizes: &[usize]) {
    let mut sender = Client::new("ipn:1.5", false);
    for (number, size) in (0..).zip(sizes) {
        sender.send(adu("ipn:2.42"), &payload(number, *size));
    }
    let sender = world.connect(0, sender);
    world.until("all are durable at the source", |world| {
        world.client(0, sender).responses.len() == sizes.len() + 1
    });
    world.leave(0, sender);
}

fn set_carrier(world: &mut World, carrier: Carrier) {
    let link = LinkId(0);
    for at in [0, 1] {
        world.handle(at, Event::CarrierChanged { link, carrier });
    }
}

#[test]
fn bundles_of_all_sizes_arrive_once_whatever_is_lost_and_leave_nothing_behind() {
    for (seed, lost, red) in [
        (1, 0, RedPart::All),
        (2, 50, RedPart::All),
        (3, 200, RedPart::All),
        (4, 0, RedPart::None),
        (5, 0, RedPart::Octets(1_000)),
    ] {
        let policy = LtpPolicy {
            red,
            ..LtpPolicy::default()
        };
        let mut world = pair(seed, policy, |_, _| ());
        world.air.shuffled = true;
        world.air.doubled = 100;
        world.air.lost = lost;
        let sizes = [0, 1, 1_000, 1_400, 3_000, 70_000, 2_000_000];
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        offer(&mut world, &sizes);
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
        world.until("nothing is left", |world| {
            stored(world, 0) + stored(world, 1) == 0
        });
        world.stay(30);
        assert_eq!(world.client(1, receiver).received.len(), sizes.len());
    }
}

#[test]
fn a_bundle_stays_until_the_peer_has_it_on_its_disk() {
    let mut world = pair(6, LtpPolicy::default(), |_, _| ());
    world.settle();
    world.machines[1].stalled = true;
    offer(&mut world, &[10, 30_000]);
    world.stay(5);
    assert_eq!((stored(&world, 0), stored(&world, 1)), (2, 2));
    world.crash(1);
    world.machines[1].stalled = false;
    world.start(1);
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.until("both are delivered", |world| {
        world.client(1, receiver).received.len() == 2
    });
    world.until("nothing is left", |world| stored(world, 0) == 0);
}

/// A sender has as many blocks under way as may be, of each of which the peer has the beginning, and dies.
#[test]
fn blocks_of_a_sender_that_died_give_way_to_those_that_it_begins_anew() {
    let policy = LtpPolicy {
        blocks: 8,
        ..LtpPolicy::default()
    };
    let mut world = pair(19, policy, |_, _| ());
    // The last segments of blocks are short.
    world.air.least = 1_000;
    offer(&mut world, &[2_000; 20]);
    world.stay(2);
    assert_eq!(stored(&world, 1), 8);
    world.crash(0);
    world.air.least = 0;
    // The numbers of its sessions are others.
    world.machines[0].config.seed = 99;
    world.start(0);
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.stay(60);
    assert_eq!(world.client(1, receiver).received.len(), 20);
    assert_eq!((stored(&world, 0), stored(&world, 1)), (0, 0));
}

/// A node that ends, and whose driver waits no longer for its transfers, leaves no part of them at its peer.
#[test]
fn a_node_that_ends_takes_back_blocks_that_it_gives_up() {
    let mut world = pair(23, LtpPolicy::default(), |_, _| ());
    world.air.least = 1_000;
    offer(&mut world, &[2_000; 5]);
    world.stay(2);
    assert_eq!(stored(&world, 1), 5);
    world.air.least = 0;
    world.handle(0, Event::Shutdown);
    world.handle(0, Event::Shutdown);
    world.settle();
    assert_eq!(stored(&world, 1), 0);
    assert!(world.machines[0].node.as_ref().unwrap().is_idle());
}

#[test]
fn a_session_stands_before_anything_is_heard_of_the_peer() {
    let mut world = pair(9, LtpPolicy::default(), |_, _| ());
    world.settle();
    let node = |world: &World| {
        let node = world.machines[0].node.as_ref().unwrap();
        (node.sessions()[0].heard, node.links()[0].heard)
    };
    assert_eq!(node(&world), (None, None));
    offer(&mut world, &[10]);
    world.until("an answer has come", |world| stored(world, 0) == 0);
    let (session, link) = node(&world);
    assert!(session.is_some() && session == link, "{session:?} {link:?}");
}

#[test]
fn green_data_is_not_acknowledged() {
    let policy = LtpPolicy {
        red: RedPart::None,
        ..LtpPolicy::default()
    };
    let mut world = pair(7, policy, |_, _| ());
    world.air.lost = 1_000;
    offer(&mut world, &[10, 3_000]);
    world.until("both have left", |world| stored(world, 0) == 0);
}

#[test]
fn transfers_outlast_the_loss_of_the_carrier_and_bundles_wait_for_it() {
    let mut world = pair(8, LtpPolicy::default(), |_, _| ());
    world.settle();
    world.air.lost = 1_000;
    // So much leaves at once.
    offer(&mut world, &[40_000]);
    world.settle();
    let sent = world.air.sent;
    set_carrier(&mut world, Carrier::Absent);
    offer(&mut world, &[10]);
    world.stay(600);
    let node = world.machines[0].node.as_ref().unwrap();
    assert_eq!((world.air.sent, stored(&world, 0)), (sent, 2));
    assert_eq!(node.links()[0].state, LinkState::Absent);
    assert!(!node.routes().iter().any(|it| it.usable));
    set_carrier(&mut world, Carrier::Present);
    world.air.lost = 0;
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.until("both are delivered", |world| {
        world.client(1, receiver).received.len() == 2
    });
    // All of it was lost, and went again once.
    assert!(
        world.air.sent < 2 * sent + 20,
        "{} of {sent}",
        world.air.sent
    );
}

/// Bundles of node 1 for node 2, as octets.
pub fn bundle(sequence: u64, octets: &[u8]) -> Vec<u8> {
    let [source, destination] = ["ipn:1.5", "ipn:2.42"].map(|id| id.parse().unwrap());
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(crate::world::EPOCH.as_millis()),
        sequence,
    };
    let builder = BundleBuilder::new(source, destination, creation, 60_000);
    builder.bundle(octets).unwrap().to_vec()
}

/// A number as an SDNV.
fn sdnv(number: usize, out: &mut Vec<u8>) {
    let mut digits = vec![u8::try_from(number & 0x7f).unwrap()];
    let mut rest = number >> 7;
    while rest > 0 {
        digits.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    out.extend(digits.iter().rev());
}

/// The segments of a red block of engine 1, of so many octets each (RFC 5326 3.2.1).
pub fn block(session: usize, octets: &[u8], size: usize) -> Vec<Bytes> {
    let count = octets.len().div_ceil(size);
    let segment = |(number, part): (usize, &[u8])| {
        let is_last = number + 1 == count;
        let mut out = vec![if is_last { 3 } else { 0 }, 1];
        sdnv(session, &mut out);
        out.extend([0, 1]);
        sdnv(number * size, &mut out);
        sdnv(part.len(), &mut out);
        if is_last {
            out.extend([7, 0]);
        }
        out.extend_from_slice(part);
        Bytes::from(out)
    };
    octets.chunks(size).enumerate().map(segment).collect()
}

#[test]
fn a_block_of_several_bundles_comes_apart_however_it_is_cut() {
    for (session, size) in [(10, 40), (11, 97), (12, 1_000), (13, 65_000)] {
        let mut world = pair(10, LtpPolicy::default(), |_, _| ());
        world.air.shuffled = true;
        world.settle();
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        let payloads = [0, 1, 300, 5_000, 7].map(|octets| payload(3, octets));
        let bundles = (1..).zip(&payloads).map(|(number, it)| bundle(number, it));
        let whole = bundles.collect::<Vec<_>>().concat();
        for octets in block(session, &whole, size) {
            world.air.inject(0, 1, octets);
        }
        world.until("all are delivered", |world| {
            world.client(1, receiver).received.len() == payloads.len()
        });
    }
}

/// A block of which the segments before this one come first, then those behind it, and it comes last, as of a peer that repairs a block once it has sent
/// all of it; the octets behind the gap are so many. Whether it was whole, and the octets that were placed in the store meanwhile.
fn is_kept_behind_a_gap(gap: usize, memory_octets: u64, octets: usize) -> (bool, u64) {
    let size = 60_000;
    let mut world = pair(16, LtpPolicy::default(), |_, config| {
        config.memory_octets = memory_octets;
    });
    world.hostile = false;
    world.settle();
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let around = bundle(1, &payload(1, 70_000)).len() - 70_000;
    let sent = payload(1, (gap + 1) * size + octets - around);
    let whole = bundle(1, &sent);
    assert_eq!(whole.len(), (gap + 1) * size + octets);
    let segments = block(9, &whole, size);
    let (before, behind) = (&segments[..gap], &segments[gap + 1..]);
    for octets in before.iter().chain(behind).chain([&segments[gap]]) {
        world.air.inject(0, 1, octets.clone());
        world.settle();
    }
    let received = &world.client(1, receiver).received;
    assert!(received.iter().all(|(_, octets)| *octets == sent));
    (received.len() == 1, world.machines[1].store.early_octets)
}

#[test]
fn a_large_block_whose_first_segment_comes_last_is_kept_meanwhile() {
    assert!(is_kept_behind_a_gap(0, u64::MAX, 60_000_000).0);
}

/// Once the node knows what bundle it is, the store has what comes behind a gap, but for the rest of the payload's last segment.
#[test]
fn octets_behind_a_gap_are_stored_at_their_place_and_take_no_memory() {
    let octets = 50 << 20;
    let (is_whole, placed) = is_kept_behind_a_gap(1, 32 << 20, octets);
    assert!(is_whole);
    assert!(
        placed >= u64::try_from(octets).unwrap() - (2 << 20),
        "{placed} of {octets}"
    );
    assert_eq!(is_kept_behind_a_gap(1, 64 << 20, 30_000), (true, 0));
}

/// A quarter of the memory is for early octets, and three of four parts of that for those of one neighbour.
#[test]
fn octets_behind_gaps_take_no_more_than_their_part_of_the_memory() {
    let most = (64_usize << 20) / 4 / 4 * 3;
    // Each piece takes 128 octets beside its own.
    let fitting = most - 128 * most.div_ceil(60_000);
    assert!(is_kept_behind_a_gap(0, 64 << 20, fitting).0);
    assert!(!is_kept_behind_a_gap(0, 64 << 20, most + 1).0);
}

/// The octets that close a gap, and more behind the next gap than memory has room for, come at once: the store has them at their place, also where much waits
/// for it.
#[test]
fn octets_that_come_at_once_find_room_behind_gaps() {
    for store_queue_octets in [64 << 10, 128 << 20] {
        comes_at_once(store_queue_octets);
    }
}

fn comes_at_once(store_queue_octets: u64) {
    let mut world = pair(17, LtpPolicy::default(), |_, config| {
        config.memory_octets = 8 << 20;
        config.store_queue_octets = store_queue_octets;
    });
    world.hostile = false;
    world.settle();
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let sent = payload(1, 10 << 20);
    let segments = block(9, &bundle(1, &sent), 1_300);
    let (first, second, third) = (1, 4_000, segments.len());
    for octets in segments[..first].iter().chain(&segments[first + 1..second]) {
        world.hear_at_once(0, 1, vec![octets.clone()]);
        world.settle();
    }
    assert!(world.machines[1].store.early_octets > 4 << 20);
    let closing = [&segments[first..=first], &segments[second + 1..third]];
    world.hear_at_once(0, 1, closing.concat());
    world.settle();
    world.hear_at_once(0, 1, vec![segments[second].clone()]);
    world.settle();
    let received = &world.client(1, receiver).received;
    assert_eq!(received.len(), 1);
    assert!(received[0].1 == sent);
}

/// Many blocks have a gap each, and none has much behind it: all of it together is more than there is memory for.
#[test]
fn octets_behind_the_gaps_of_many_blocks_find_room() {
    let mut world = pair(19, LtpPolicy::default(), |_, config| {
        config.memory_octets = 4 << 20;
    });
    world.hostile = false;
    world.settle();
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let sent = |number: u8| payload(number.into(), 60_000);
    let blocks = (0..100).map(|number| {
        let whole = bundle(number.into(), &sent(number));
        block(usize::from(number) + 1, &whole, 1_300)
    });
    let mut second = Vec::new();
    for mut segments in blocks {
        second.push(segments.remove(1));
        world.hear_at_once(0, 1, segments);
        world.settle();
    }
    world.hear_at_once(0, 1, second);
    world.settle();
    let received = &world.client(1, receiver).received;
    assert_eq!(received.len(), 100);
    for (adu, octets) in received {
        let number = u8::try_from(adu.sequence_number).unwrap();
        assert!(*octets == sent(number), "{number}");
    }
}

/// Two of three segments come: runs are short, and all of them together are more than there is memory for.
#[test]
fn short_runs_between_gaps_are_stored_where_memory_is_scarce() {
    let mut world = pair(20, LtpPolicy::default(), |_, config| {
        config.memory_octets = 4 << 20;
    });
    world.hostile = false;
    world.settle();
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let sent = payload(1, 3_000_000);
    let segments = block(9, &bundle(1, &sent), 1_300);
    let (mut first, mut missing) = (Vec::new(), Vec::new());
    for (number, octets) in segments.into_iter().enumerate() {
        match number % 3 {
            1 => missing.push(octets),
            _ => first.push(octets),
        }
    }
    world.hear_at_once(0, 1, first);
    world.settle();
    world.hear_at_once(0, 1, missing);
    world.settle();
    let received = &world.client(1, receiver).received;
    assert_eq!(received.len(), 1);
    assert!(received[0].1 == sent);
}

/// One of five segments is lost, so that a block has 3,000 gaps at once: what is between them is more than there is memory for, and all of it is kept.
#[test]
fn thousands_of_runs_between_the_gaps_of_one_block_are_kept() {
    let mut world = pair(21, LtpPolicy::default(), |_, config| {
        config.memory_octets = 16 << 20;
    });
    world.hostile = false;
    world.settle();
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let sent = payload(1, 20_000_000);
    let segments = block(9, &bundle(1, &sent), 1_300);
    let count = segments.len();
    assert!(count > 3_000 * 5);
    let part = |lost: bool| {
        let numbers = (0..count).filter(|it| (it % 5 == 1) == lost);
        numbers.map(|it| segments[it].clone()).collect()
    };
    for datagrams in [part(false), part(true)] {
        world.hear_at_once(0, 1, datagrams);
        world.settle();
    }
    let received = &world.client(1, receiver).received;
    assert_eq!(received.len(), 1);
    assert!(received[0].1 == sent);
}

/// Octets in the store take no memory while the peer, a minute away, has not said that it has them: the window keeps nothing from leaving.
#[test]
fn bundles_and_fragments_leave_without_a_pause_where_the_window_is_small() {
    for (block_octets, sizes) in [
        (64 << 10, vec![1_000_000]),
        (LtpPolicy::BLOCK_MAX, vec![100_000; 10]),
    ] {
        let policy = LtpPolicy {
            block_octets,
            light_time_ms: 60_000,
            ..LtpPolicy::default()
        };
        let mut world = pair(18, policy, |_, config| {
            config.links[0].policy.window_octets = 64 << 10;
        });
        world.air.lost = 1_000;
        offer(&mut world, &sizes);
        world.stay(5);
        assert!(world.air.sent > 1_000_000 / 1_400, "{}", world.air.sent);
        world.air.lost = 0;
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
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
    }
}

#[test]
fn a_block_is_reported_whole_once_each_bundle_in_it_is_durable() {
    let mut world = pair(11, LtpPolicy::default(), |_, _| ());
    world.hostile = false;
    world.settle();
    world.machines[1].stalled = true;
    let whole = [bundle(1, b"one"), bundle(2, &payload(1, 4_000))].concat();
    let segments = block(9, &whole, 1_300);
    for octets in &segments {
        world.air.inject(0, 1, octets.clone());
    }
    world.settle();
    assert_eq!((stored(&world, 1), world.air.sent), (2, 0));
    world.machines[1].stalled = false;
    world.until("it is reported", |world| world.air.sent > 0);
    world.settle();
    // A bundle that is here already is as good as one that comes.
    let again = [bundle(1, b"one"), bundle(3, b"three")].concat();
    let sent = world.air.sent;
    for octets in block(20, &again, 1_300) {
        world.air.inject(0, 1, octets);
    }
    world.until("it is reported, too", |world| world.air.sent > sent);
    assert_eq!(stored(&world, 1), 3);
}

#[test]
fn a_bundle_that_is_refused_for_good_costs_the_others_of_its_block_nothing() {
    let mut world = pair(12, LtpPolicy::default(), |_, config| {
        config.links[0].policy.accept_sources = vec!["ipn:1.*".into()];
    });
    world.settle();
    let [source, destination] = ["ipn:9.5", "ipn:2.42"].map(|id| id.parse().unwrap());
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(crate::world::EPOCH.as_millis()),
        sequence: 9,
    };
    let foreign = BundleBuilder::new(source, destination, creation, 60_000)
        .bundle(&payload(4, 2_000))
        .unwrap()
        .to_vec();
    let whole = [
        foreign.clone(),
        bundle(1, b"one"),
        foreign,
        bundle(2, b"two"),
    ]
    .concat();
    for octets in block(9, &whole, 700) {
        world.air.inject(0, 1, octets);
    }
    world.until("the others are there", |world| stored(world, 1) == 2);
    let node = world.machines[1].node.as_ref().unwrap();
    assert_eq!(node.counters().refused, 2);
}

/// The first segment, 60,000 octets, of a block of one bundle of 64 MB.
pub fn begins() -> Bytes {
    let whole = bundle(1, &payload(1, 64_000_000));
    block(9, &whole[..120_000], 60_000).swap_remove(0)
}

#[test]
fn octets_that_are_announced_take_no_memory() {
    let mut world = pair(13, LtpPolicy::default(), |_, _| ());
    world.hostile = false;
    world.settle();
    let memory = |world: &World| world.machines[1].node.as_ref().unwrap().memory_octets();
    let before = memory(&world);
    world.air.inject(0, 1, begins());
    world.settle();
    let node = world.machines[1].node.as_ref().unwrap();
    assert_eq!(node.counters().refused, 0);
    let taken = memory(&world) - before;
    assert!((1..16_000).contains(&taken), "{taken} octets");
}

#[test]
fn a_bundle_beyond_the_transfer_mru_is_refused_by_its_header() {
    let mut world = pair(14, LtpPolicy::default(), |_, config| {
        config.links[0].policy.transfer_mru = 100_000;
    });
    world.hostile = false;
    world.settle();
    world.air.inject(0, 1, begins());
    world.settle();
    let node = world.machines[1].node.as_ref().unwrap();
    assert_eq!(node.counters().refused, 1);
}

#[test]
fn a_bundle_beyond_the_largest_block_is_refused_by_its_header_and_why_names_the_cancellation() {
    let policy = |number| LtpPolicy {
        block_octets: if number == 2 { 100_000 } else { 1 << 30 },
        ..LtpPolicy::default()
    };
    let mut world = pair(15, LtpPolicy::default(), |number, config| {
        config.links[0].protocol = Protocol::Ltp(policy(number));
    });
    world.hostile = false;
    world.settle();
    offer(&mut world, &[2_000_000]);
    world.until("it is refused", |world| {
        world.machines[1].node.as_ref().unwrap().counters().refused > 0
    });
    let taken = world.machines[1].node.as_ref().unwrap().stored();
    assert_eq!(
        taken,
        (0, 0),
        "it has left 100,000 octets at most, and its header is in the first"
    );
    world.until("the sender knows", |world| {
        let (now, node) = (world.now(0), world.machines[0].node.as_ref().unwrap());
        let why = node.why_endpoint(now, &"ipn:2.42".parse().unwrap());
        why.causes.iter().any(|cause| {
            matches!(
                cause,
                Cause::Refused {
                    cancelled: Some("USR_CNCLD"),
                    reason: RefuseReason::Unknown,
                    ..
                }
            )
        })
    });
}

#[test]
fn a_slow_link_is_not_filled_for_minutes_at_once() {
    let policy = LtpPolicy {
        octets_per_s: 125,
        ..LtpPolicy::default()
    };
    let mut world = pair(10, policy, |_, _| ());
    world.air.lost = 1_000;
    offer(&mut world, &[100_000]);
    world.stay(5);
    assert_eq!(world.air.sent, 1, "a datagram takes eleven seconds");
}

/// One of several bundles in a block has no room at the peer, so all of them come back; the others arrive nevertheless, each in a block of its own.
#[test]
fn a_bundle_without_room_keeps_no_other_of_its_block_away() {
    for aggregation in [Aggregation::Shared, Aggregation::Alone] {
        // The first bundle takes the burst of the rate, so the others wait behind it.
        let policy = LtpPolicy {
            aggregation,
            octets_per_s: 50_000,
            ..LtpPolicy::default()
        };
        let mut world = pair(7, policy, |number, config| {
            if number == 2 {
                config.quota_octets = 92_000;
            }
        });
        world.stay(1);
        set_carrier(&mut world, Carrier::Absent);
        let mut sizes = [300; 11];
        (sizes[0], sizes[5]) = (80_000, 12_000);
        offer(&mut world, &sizes);
        set_carrier(&mut world, Carrier::Present);
        world.until("all but one are there", |world| {
            stored(world, 1) == 10 && stored(world, 0) == 1
        });
        world.stay(120);
        assert_eq!((stored(&world, 0), stored(&world, 1)), (1, 10));
        // Delivered bundles make room for it.
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        world.until("all are delivered", |world| {
            world.client(1, receiver).received.len() == 11
        });
    }
}

#[test]
fn bundles_that_wait_share_blocks_and_each_arrives_once() {
    let sessions = |aggregation| {
        let policy = LtpPolicy {
            aggregation,
            octets_per_s: 50_000,
            ..LtpPolicy::default()
        };
        let mut world = pair(9, policy, |_, _| ());
        world.stay(1);
        set_carrier(&mut world, Carrier::Absent);
        offer(&mut world, &[300; 400]);
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        set_carrier(&mut world, Carrier::Present);
        world.until("all are delivered", |world| {
            world.client(1, receiver).received.len() == 400
        });
        world.until("nothing is left", |world| {
            stored(world, 0) + stored(world, 1) == 0
        });
        let node = world.machines[0].node.as_ref().unwrap();
        let counts = node.sessions().into_iter().filter_map(|it| it.datagrams);
        counts.map(|it| it.sent).sum::<u64>()
    };
    let shared = sessions(Aggregation::Shared);
    let alone = sessions(Aggregation::Alone);
    assert!(shared * 3 < alone * 2, "{shared} and {alone} datagrams");
}
