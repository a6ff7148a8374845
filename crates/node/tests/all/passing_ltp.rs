//! Large bundles that leave over LTP while they come in, over TCPCL or over LTP.

use crate::world::World;
use crate::world::client::Client;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{
    Config, DialTime, Enabled, LinkConfig, LtpPolicy, Protocol, RedPart, SessionPolicy,
};
use dhow_node::driver::StreamId;

const LARGE: usize = 600_000;

/// The first hop is one of LTP, or of TCPCL; the second is one of LTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Ltp,
    Tcpcl,
}

fn payload(octets: usize) -> Vec<u8> {
    let octet = |place: usize| u8::try_from(place * 7 % 251).unwrap();
    (0..octets).map(octet).collect()
}

fn adu() -> BundleAdu {
    BundleAdu {
        dst_eid: "ipn:3.42".into(),
        lifetime_ms: Some(6_000_000),
        ..BundleAdu::default()
    }
}

fn line(first: First, seed: u64, policy: LtpPolicy) -> World {
    line_of(first, seed, [policy; 2])
}

/// The same with a policy of each hop.
fn line_of(first: First, seed: u64, policies: [LtpPolicy; 2]) -> World {
    let edit = |number: u32, config: &mut Config| {
        let policy_of = |hop: u32| policies[usize::from(hop == 2)];
        let is_ltp = |hop: u32| hop == 2 || first == First::Ltp;
        let is_next = is_ltp(number) && number < 3;
        if let Some(link) = config.links.first_mut().filter(|_| is_next) {
            link.protocol = Protocol::Ltp(policy_of(number));
            link.policy.peer = Some(format!("ipn:{}.0", number + 1).parse().unwrap());
        }
        if number > 1 && is_ltp(number - 1) {
            config.links.push(LinkConfig {
                dial: DialTime::Always,
                name: "back".into(),
                policy: SessionPolicy {
                    peer: Some(format!("ipn:{}.0", number - 1).parse().unwrap()),
                    ..SessionPolicy::default()
                },
                enabled: Enabled::Yes,
                sessions: 1,
                backoff_min_ms: 50,
                backoff_max_ms: 1_000,
                protocol: Protocol::Ltp(policy_of(number - 1)),
            });
        }
    };
    let mut world = World::line(3, seed, edit);
    world.hostile = true;
    world.refusals = 0;
    world.air.shuffled = true;
    world
}

fn offer(world: &mut World, sizes: &[usize]) {
    let mut sender = Client::new("ipn:1.5", false);
    for size in sizes {
        sender.send(adu(), &payload(*size));
    }
    world.connect(0, sender);
}

fn passed(world: &World) -> u64 {
    let node = world.machines[1].node.as_ref();
    node.map_or(0, |node| node.counters().passed)
}

fn all_empty(world: &mut World) -> bool {
    world
        .machines
        .iter()
        .all(|machine| machine.store.kept.bundles.is_empty() && machine.store.is_clean())
}

fn arrive(world: &mut World, receiver: StreamId, sizes: &[usize]) {
    world.until("all are delivered", |world| {
        world.client(2, receiver).received.len() >= sizes.len()
    });
    world.until("nothing is left", all_empty);
    world.stay(30);
    let received = world.client(2, receiver).received.iter();
    let mut received: Vec<_> = received.map(|(_, octets)| octets.clone()).collect();
    received.sort();
    let mut expected: Vec<_> = sizes.iter().map(|size| payload(*size)).collect();
    expected.sort();
    assert!(
        received == expected,
        "{} of {}",
        received.len(),
        expected.len()
    );
    for at in 0..3 {
        world.check(at);
        assert!(world.machines[at].node.as_ref().unwrap().is_at_rest());
    }
}

#[test]
fn a_large_bundle_leaves_while_it_comes_in_whatever_is_lost() {
    for first in [First::Tcpcl, First::Ltp] {
        for (seed, lost) in [(1, 0), (2, 50), (3, 200)] {
            let mut world = line(first, seed, LtpPolicy::default());
            world.air.lost = lost;
            world.air.doubled = lost;
            let receiver = world.connect(2, Client::new("ipn:3.42", true));
            offer(&mut world, &[LARGE]);
            world.until("some of it is at its destination", |world| {
                world.machines[2].node.as_ref().unwrap().stored().0 == 1
            });
            if lost < 200 {
                let relay = &world.machines[1].store.kept.bundles;
                assert!(relay.is_empty(), "{first:?}, {seed}");
            }
            assert_eq!(passed(&world), 1);
            arrive(&mut world, receiver, &[LARGE]);
            let counters = world.machines[2].node.as_ref().unwrap().counters();
            assert_eq!((counters.received, counters.refused), (1, 0));
        }
    }
}

#[test]
fn what_is_not_red_is_stored_first() {
    for red in [RedPart::None, RedPart::Octets(1_000)] {
        let policy = LtpPolicy {
            red,
            ..LtpPolicy::default()
        };
        let mut world = line(First::Tcpcl, 4, policy);
        let receiver = world.connect(2, Client::new("ipn:3.42", true));
        offer(&mut world, &[LARGE]);
        arrive(&mut world, receiver, &[LARGE]);
        assert_eq!(passed(&world), 0);
    }
}

/// One transfer waits for its octets, and others leave meanwhile.
#[test]
fn a_bundle_that_comes_in_slowly_keeps_no_other_from_leaving() {
    let mut world = line(First::Ltp, 5, LtpPolicy::default());
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    offer(&mut world, &[LARGE]);
    world.until("some of it is at its destination", |world| {
        world.machines[2].node.as_ref().unwrap().stored().0 == 1
    });
    // Nothing comes from the source any more.
    world.air.forget(0, None);
    let mut sender = Client::new("ipn:2.5", false);
    sender.send(adu(), &payload(100));
    sender.send(adu(), &payload(LARGE / 2));
    world.connect(1, sender);
    world.until("the others are delivered", |world| {
        world.client(2, receiver).received.len() == 2
    });
    assert_eq!(passed(&world), 1);
}

/// Policies of which the first has shorter datagrams.
fn narrow(mtu_octets: u64) -> [LtpPolicy; 2] {
    let first = LtpPolicy {
        mtu_octets,
        ..LtpPolicy::default()
    };
    [first, LtpPolicy::default()]
}

/// The store is given a large bundle's first octets before it is asked to tell of them, also where these are few.
#[test]
fn a_large_bundle_in_small_segments_leaves_while_it_comes_in() {
    let mut world = line_of(First::Ltp, 7, narrow(400));
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    offer(&mut world, &[LARGE]);
    world.until("some of it is at its destination", |world| {
        world.machines[2].node.as_ref().unwrap().stored().0 == 1
    });
    assert!(world.machines[1].store.kept.bundles.is_empty());
    arrive(&mut world, receiver, &[LARGE]);
}

/// Of a bundle of 3 MB only the first segment comes, which is less than a datagram of the next hop.
#[test]
fn all_others_leave_beside_a_bundle_that_has_no_octets_for_a_datagram() {
    let mut world = line_of(First::Ltp, 8, narrow(700));
    world.air.shuffled = false;
    world.settle();
    offer(&mut world, &[3_000_000]);
    world.until("its start is at the relay", |world| passed(world) == 1);
    world.air.forget(0, None);
    world.air.lose_all();
    world.settle();
    // The next hop answers nothing.
    world.air.forget(2, None);
    let mut sender = Client::new("ipn:2.5", false);
    for _ in 0..40 {
        sender.send(adu(), &payload(5_000));
    }
    world.connect(1, sender);
    world.stay(1);
    let sessions = world.machines[1].node.as_ref().unwrap().sessions();
    let in_flight = sessions.iter().map(|it| it.in_flight).max();
    assert_eq!(in_flight, Some(41));
}

#[test]
fn nodes_that_crash_lose_nothing() {
    let sizes = [LARGE, 100, 300_000, 2_000];
    let mut all_passes = 0;
    for seed in 0..24 {
        let first = [First::Tcpcl, First::Ltp][usize::from(seed % 2 == 1)];
        let mut passes = 0;
        let mut world = line(first, 100 + seed, LtpPolicy::default());
        world.air.lost = 20 * (seed % 4);
        let receiver = world.connect(2, Client::new("ipn:3.42", true));
        offer(&mut world, &sizes);
        world.until("all are durable at the source", |world| {
            world.machines[0].store.kept.bundles.len() >= 2
        });
        for _ in 0..3 {
            for _ in 0..world.random(1_200) {
                world.step();
            }
            passes += passed(&world);
            let at = usize::try_from(world.random(2)).unwrap();
            world.crash(at);
            world.start(at);
        }
        arrive(&mut world, receiver, &sizes);
        all_passes += passes + passed(&world);
    }
    assert!(all_passes > 24, "{all_passes}");
}
