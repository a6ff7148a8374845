//! Large bundles that leave a node while they come in, and everything that may go wrong with that.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Acknowledge, Config, Enabled, Route};
use dhow_node::driver::{Occurrence, StreamId};
use proptest::prelude::*;

const LARGE: usize = 600_000;

fn payload(number: u32, octets: usize) -> Vec<u8> {
    (0..octets)
        .map(|place| {
            u8::try_from((place * 7 + usize::try_from(number).unwrap() * 13) % 251).unwrap()
        })
        .collect()
}

fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(6_000_000),
        ..BundleAdu::default()
    }
}

fn delivered(world: &mut World, at: usize, stream: StreamId) -> usize {
    world.client(at, stream).received.len()
}

fn held(world: &World, at: usize) -> u64 {
    world.machines[at]
        .node
        .as_ref()
        .map_or(0, |node| node.stored().0)
}

fn passed(world: &World, at: usize) -> u64 {
    let node = world.machines[at].node.as_ref();
    node.map_or(0, |node| node.counters().passed)
}

fn all_empty(world: &World) -> bool {
    world
        .machines
        .iter()
        .all(|machine| machine.store.kept.bundles.is_empty() && machine.store.is_clean())
}

/// Three nodes with their sessions up, and a large bundle at the first that is about to leave.
fn about_to_leave(seed: u64, edit: impl Fn(u32, &mut Config)) -> (World, StreamId) {
    let mut world = World::line(3, seed, edit);
    world.hostile = true;
    world.refusals = 0;
    world.until("the sessions are up", |world| {
        let sessions = |at: usize| world.machines[at].node.as_ref().unwrap().sessions().len();
        [sessions(0), sessions(1), sessions(2)] == [1, 2, 1]
    });
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:3.42"), &payload(1, LARGE));
    world.connect(0, sender);
    (world, receiver)
}

/// The bundle is coming in at the second node, and at the third.
fn half_way(seed: u64, edit: impl Fn(u32, &mut Config)) -> (World, StreamId) {
    let (mut world, receiver) = about_to_leave(seed, edit);
    world.until("the bundle is on both hops", |world| {
        held(world, 2) == 1 && world.machines[1].store.kept.bundles.is_empty()
    });
    (world, receiver)
}

fn arrives(world: &mut World, receiver: StreamId) {
    world.until("it is delivered", |world| {
        delivered(world, 2, receiver) >= 1
    });
    world.until("nothing is left", all_empty_of);
    world.settle();
    let received = &world.client(2, receiver).received;
    assert_eq!(received.len(), 1);
    assert!(received[0].1 == payload(1, LARGE), "as it was sent");
    for at in 0..3 {
        world.check(at);
        assert!(world.machines[at].node.as_ref().unwrap().is_at_rest());
    }
}

fn all_empty_of(world: &mut World) -> bool {
    all_empty(world)
}

/// RFC 9174 5.2.5.1: the length of the whole goes out with the first segment.
#[test]
fn a_large_bundle_leaves_while_it_comes_in_and_is_acknowledged_once_it_is_durable() {
    let (mut world, receiver) = half_way(1, |_, _| ());
    assert_eq!(passed(&world, 1), 1);
    assert_eq!(world.machines[0].store.kept.bundles.len(), 1);
    let mut stored_here = false;
    world.until("the source has let go of it", |world| {
        stored_here |= !world.machines[1].store.kept.bundles.is_empty();
        world.machines[0].store.kept.bundles.is_empty()
    });
    assert!(stored_here, "nothing is acknowledged before it is durable");
    arrives(&mut world, receiver);
    let gamma = world.machines[2].node.as_ref().unwrap().counters();
    assert_eq!((gamma.received, gamma.refused), (1, 0));
    // Nearly all octets came in pieces of which the checksum was known from their passing by.
    for machine in &world.machines {
        assert!(
            machine.store.summed_octets > LARGE / 2,
            "{}",
            machine.store.summed_octets
        );
    }
}

#[test]
fn small_bundles_and_those_for_a_busy_session_are_stored_first() {
    let mut world = World::line(3, 2, |_, _| ());
    world.settle();
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:3.42"), &payload(1, 200_000));
    world.connect(0, sender);
    world.until("it is delivered", |world| {
        delivered(world, 2, receiver) == 1
    });
    assert_eq!(passed(&world, 1), 0);
}

#[test]
fn a_node_that_is_told_not_to_passes_nothing_on() {
    let (mut world, receiver) = about_to_leave(3, |_, config| {
        for link in &mut config.links {
            link.policy.cut_through = Enabled::No;
        }
    });
    arrives(&mut world, receiver);
    assert_eq!(passed(&world, 1), 0);
}

/// RFC 9174 5.2.3 by policy: a sender waits for the next hop's acknowledgment, but not for a hop that is
/// gone.
#[test]
fn by_policy_the_acknowledgment_waits_for_the_next_hop() {
    for is_cut in [false, true] {
        let (mut world, receiver) = half_way(4, |_, config| {
            config.listeners[0].policy.acknowledge = Acknowledge::NextHop;
        });
        if is_cut {
            world.cut(1, 2);
        }
        world.until("the source has let go of it", |world| {
            world.machines[0].store.kept.bundles.is_empty()
        });
        let there = world.machines[2].node.as_ref().unwrap().counters().received;
        assert_eq!(there, u64::from(!is_cut));
        world.join(1, 2);
        arrives(&mut world, receiver);
    }
}

/// RFC 9174 5.2.5.1: what turns out wrong at its end has ended early at the next hop, which refuses it.
#[test]
fn a_bundle_with_a_wrong_checksum_never_comes_to_its_end_at_the_next_hop() {
    for seed in 0..10 {
        let (mut world, receiver) = half_way(seed, |_, _| ());
        assert!(world.spoil(0, 1), "much of it is still under way");
        world.until("it is refused", |world| {
            world.machines[1].node.as_ref().unwrap().counters().refused == 1
        });
        world.settle();
        let gamma = world.machines[2].node.as_ref().unwrap();
        assert_eq!((gamma.stored().0, gamma.counters().received), (0, 0));
        arrives(&mut world, receiver);
        let ended = |it: &Occurrence| matches!(it, Occurrence::SessionDown { .. });
        for machine in &world.machines {
            assert!(!machine.occurrences.iter().any(ended), "sessions go on");
        }
    }
}

#[test]
fn a_full_store_ends_what_it_passed_on_early() {
    let (mut world, receiver) = half_way(5, |_, _| ());
    world.machines[1].store.capacity = Some(0);
    world.until("it is refused", |world| {
        world.machines[0]
            .node
            .as_ref()
            .unwrap()
            .counters()
            .refused_by_peers
            == 1
    });
    world.settle();
    assert_eq!(held(&world, 2), 0);
    world.machines[1].store.capacity = None;
    arrives(&mut world, receiver);
}

/// A bundle that is passed on is cut short by each trouble at each moment.
fn at_any_moment(trouble: impl Fn(&mut World), repair: impl Fn(&mut World)) {
    let mut late = 0;
    for moment in (0..).step_by(7) {
        let (mut world, receiver) = about_to_leave(moment, |_, _| ());
        for _ in 0..moment {
            world.step();
        }
        let over = world.client(2, receiver).received.len() == 1;
        trouble(&mut world);
        for _ in 0..moment % 40 {
            world.step();
        }
        repair(&mut world);
        arrives(&mut world, receiver);
        late += usize::from(over);
        if late == 2 {
            return;
        }
    }
}

#[test]
fn the_first_hop_is_cut_at_any_moment() {
    at_any_moment(|world| world.cut(0, 1), |world| world.join(0, 1));
}

#[test]
fn the_second_hop_is_cut_at_any_moment() {
    at_any_moment(|world| world.cut(1, 2), |world| world.join(1, 2));
}

#[test]
fn the_node_in_the_middle_dies_at_any_moment() {
    at_any_moment(|world| world.crash(1), |world| world.start(1));
}

#[test]
fn the_source_dies_at_any_moment() {
    // A request that was not answered dies with its node.
    let answered = |world: &mut World| {
        world.until("it is accepted", |world| {
            let clients = &world.machines[0].clients;
            clients.values().all(|client| client.responses.len() == 2)
        });
        world.crash(0);
    };
    at_any_moment(answered, |world| world.start(0));
}

/// A bundle that comes in slowly must not keep a contact from other work.
#[test]
fn others_get_a_session_of_their_own_while_a_bundle_comes_in_slowly() {
    let (mut world, receiver) = half_way(6, |_, _| ());
    world.freeze(0, 1);
    let mut other = Client::new("ipn:2.5", false);
    for number in 0..5 {
        other.send(adu("ipn:3.42"), &payload(number, 3_000));
    }
    world.connect(1, other);
    let begin = world.monotonic;
    world.until("the others are delivered", |world| {
        delivered(world, 2, receiver) == 5
    });
    assert!(world.monotonic - begin <= Duration::from_millis(600));
    // The one that came in slowly is not lost by it.
    world.until("it is delivered", |world| {
        delivered(world, 2, receiver) == 6
    });
    assert_eq!(world.client(2, receiver).received[5].1, payload(1, LARGE));
    world.until("one session is left", |world| {
        world.machines[1].node.as_ref().unwrap().links()[0].sessions == 1
    });
}

#[test]
fn a_bundle_that_stands_still_gives_way_where_no_session_can_be_dialled() {
    // Backwards: nobody in the middle or at the end has dialled.
    let mut world = World::line(3, 7, |number, config| {
        if number == 3 {
            config.routes = vec![Route {
                to: "ipn:1.*".into(),
                via: "ipn:2.0".into(),
                priority: 0,
            }];
        }
    });
    world.hostile = true;
    world.refusals = 0;
    world.settle();
    let receiver = world.connect(0, Client::new("ipn:1.42", true));
    let mut sender = Client::new("ipn:3.5", false);
    sender.send(adu("ipn:1.42"), &payload(1, LARGE));
    world.connect(2, sender);
    world.until("the bundle is on both hops", |world| {
        held(world, 0) == 1 && world.machines[1].store.kept.bundles.is_empty()
    });
    world.freeze(1, 2);
    let mut other = Client::new("ipn:2.5", false);
    other.send(adu("ipn:1.42"), b"quick");
    world.connect(1, other);
    let begin = world.monotonic;
    world.until("the other is delivered", |world| {
        delivered(world, 0, receiver) == 1
    });
    assert!(world.monotonic - begin <= Duration::from_millis(2_500));
    world.until("both are delivered", |world| {
        delivered(world, 0, receiver) == 2
    });
    assert_eq!(world.client(0, receiver).received[1].1, payload(1, LARGE));
}

/// Events while large bundles pass.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Crash(usize),
    Cut(usize),
    Silence(usize),
    Spoil(usize),
    Full(usize),
    Others(usize),
    Time,
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        (0_usize..3).prop_map(Trouble::Crash),
        (0_usize..2).prop_map(Trouble::Cut),
        (0_usize..2).prop_map(Trouble::Silence),
        (0_usize..2).prop_map(Trouble::Spoil),
        (0_usize..3).prop_map(Trouble::Full),
        (0_usize..2).prop_map(Trouble::Others),
        Just(Trouble::Time),
    ]
}

fn steps(world: &mut World, count: u64) {
    for _ in 0..count {
        if !world.step() {
            world.pass(Duration::from_millis(25));
        }
    }
}

/// The receiver's application comes back whenever its node does.
fn suffer(
    world: &mut World,
    trouble: Trouble,
    count: u64,
    receiver: &mut StreamId,
    received: &mut Vec<(String, u64, Vec<u8>)>,
) {
    match trouble {
        Trouble::Crash(at) => {
            if at == 2 {
                let client = world.leave(2, *receiver);
                received.extend(taken(&client));
            }
            world.crash(at);
            steps(world, count);
            world.start(at);
            if at == 2 {
                *receiver = world.connect(2, Client::new("ipn:3.42", true));
            }
        }
        Trouble::Cut(at) => {
            world.cut(at, at + 1);
            steps(world, count);
            world.join(at, at + 1);
        }
        Trouble::Silence(at) => {
            world.freeze(at, at + 1);
            steps(world, count);
        }
        Trouble::Spoil(at) => {
            // If parts are kept, nothing but the transport tells that one is damaged.
            let policy = &world.machines[at].config.links[0].policy;
            if policy.resume == Enabled::No {
                world.spoil(at, at + 1);
            }
        }
        Trouble::Full(at) => {
            world.machines[at].store.capacity = Some(0);
            steps(world, count);
            world.machines[at].store.capacity = None;
        }
        Trouble::Others(at) => {
            let mut other = Client::new(&format!("ipn:{}.6", at + 1), false);
            other.send(adu("ipn:3.43"), &payload(9, 400_000));
            other.send(adu("ipn:3.43"), &payload(9, 4_000));
            world.connect(at, other);
        }
        Trouble::Time => world.pass(Duration::from_millis(count * 10)),
    }
}

fn taken(client: &Client) -> Vec<(String, u64, Vec<u8>)> {
    let all = client.received.iter();
    all.map(|(adu, octets)| (adu.src_eid.clone(), adu.sequence_number, octets.clone()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Large and small bundles, over disks that answer late, refuse and move what they hold; hops are cut, fall
    /// silent and damage what they carry, nodes die.
    #[test]
    fn whatever_goes_wrong_large_bundles_arrive_whole_once_and_leave_nothing_behind(
        seed in any::<u64>(),
        waits in any::<bool>(),
        resumes in any::<bool>(),
        segment in 20_000_u64..500_000,
        troubles in prop::collection::vec((0_u64..300, trouble(), 1_u64..120), 1..8),
    ) {
        let mut world = World::line(3, seed, |_, config| {
            for link in &mut config.links {
                link.policy.segment_octets = segment;
                link.policy.resume = if resumes { Enabled::Yes } else { Enabled::No };
            }
            if waits {
                config.listeners[0].policy.acknowledge = Acknowledge::NextHop;
            }
        });
        world.hostile = true;
        world.refusals = 2;
        world.pace = Duration::from_millis(1);
        let mut sender = Client::new("ipn:1.5", false);
        let sizes = [400_000, 10, LARGE, 20_000, 300_000];
        for (number, size) in (0..).zip(sizes) {
            sender.send(adu("ipn:3.42"), &payload(number, size));
        }
        let sender = world.connect(0, sender);
        world.until("all are answered", |world| world.client(0, sender).responses.len() == sizes.len() + 1);
        let mut wanted = BTreeMap::new();
        // A bundle that left before the store refused it may arrive, and the answer says so.
        let mut possible = Vec::new();
        for (number, response) in (0_u32..).zip(&world.client(0, sender).responses[1..]) {
            if let Some(head) = &response.bundle_headers {
                wanted.insert(head.sequence_number, number);
            } else if response.message.contains("may have left") {
                possible.push(number);
            }
        }
        let mut receiver = world.connect(2, Client::new("ipn:3.42", true));
        let mut received = Vec::new();
        let mut crashes = 0;
        for (before, trouble, during) in troubles {
            steps(&mut world, before);
            crashes += usize::from(matches!(trouble, Trouble::Crash(2)));
            suffer(&mut world, trouble, during, &mut receiver, &mut received);
        }
        world.connect(2, Client::new("ipn:3.43", true));
        world.until("nothing is left", all_empty_of);
        world.settle();
        received.extend(taken(world.client(2, receiver)));
        for at in 0..3 {
            world.check(at);
            prop_assert!(world.machines[at].node.as_ref().unwrap().is_at_rest(), "node {}", at + 1);
        }
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, sequence, octets) in received {
            let is_it = |number: &u32| octets == payload(*number, sizes[usize::try_from(*number).unwrap()]);
            match wanted.get(&sequence) {
                Some(number) => prop_assert!(is_it(number)),
                None => prop_assert!(possible.iter().any(is_it), "{sequence} was refused and arrived"),
            }
            *counts.entry(sequence).or_default() += 1;
        }
        let arrived = counts.keys().filter(|sequence| wanted.contains_key(sequence)).count();
        prop_assert_eq!(arrived, wanted.len());
        let repeats: usize = counts.values().map(|times| times - 1).sum();
        prop_assert!(repeats <= crashes * 8, "{} repeats after {} crashes", repeats, crashes);
    }
}

/// RFC 9174 4.6: a bundle longer than the next hop's whole store goes as fragments that it has room for.
#[test]
fn a_bundle_that_is_longer_than_the_next_hop_has_room_for_passes_it_in_fragments() {
    for seed in 0..8 {
        let (mut world, receiver) = about_to_leave(seed, |number, config| {
            if number == 2 {
                config.quota_octets = 400_000;
            }
        });
        world.until("it is delivered", |world| {
            delivered(world, 2, receiver) >= 1
        });
        world.until("nothing is left", all_empty_of);
        let received = &world.client(2, receiver).received;
        assert!(received[0].1 == payload(1, LARGE), "as it was sent");
    }
}
