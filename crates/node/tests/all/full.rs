//! A neighbour that is full: the octets sent to it in vain, and how soon it gets more once it has room.

use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_node::api::wire::BundleAdu;

/// Time that passes where nothing else can.
const TICK: Duration = Duration::from_millis(25);

fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(86_400_000),
        ..BundleAdu::default()
    }
}

/// Node 1 has these for an application of node 2 that is not there.
fn send(world: &mut World, payloads: impl IntoIterator<Item = usize>) {
    let mut sender = Client::new("ipn:1.5", false);
    for octets in payloads {
        sender.send(adu("ipn:2.42"), &vec![7; octets]);
    }
    world.connect(0, sender);
}

fn stay(world: &mut World, seconds: u32) {
    for _ in 0..seconds * 40 {
        world.settle();
        world.pass(TICK);
    }
}

fn stored(world: &World, at: usize) -> u64 {
    world.machines[at].node.as_ref().unwrap().taken_bundles()
}

fn refused(world: &World) -> u64 {
    let node = world.machines[0].node.as_ref().unwrap();
    node.counters().refused_by_peers
}

fn delivered(world: &World) -> u64 {
    let node = world.machines[1].node.as_ref().unwrap();
    node.counters().delivered
}

fn with_a_full_node(seed: u64, sessions: u8, bundles: u64) -> World {
    World::line(2, seed, |number, config| {
        for link in &mut config.links {
            link.sessions = sessions;
        }
        if number == 2 {
            config.quota_bundles = bundles;
            config.quota_octets = 1 << 20;
        }
    })
}

/// Time until another bundle comes to node 2.
fn until_more(world: &mut World) -> Duration {
    let begun = world.monotonic;
    let node = world.machines[1].node.as_ref().unwrap();
    let before = node.counters().received;
    world.until("another bundle comes", |world| {
        let node = world.machines[1].node.as_ref().unwrap();
        node.counters().received > before
    });
    world.monotonic - begun
}

#[test]
fn room_that_appears_is_used_within_a_second_however_long_there_was_none() {
    for (seed, sessions, empty_s) in [(1, 1, 3), (2, 1, 60), (3, 4, 60), (4, 1, 601)] {
        let mut world = with_a_full_node(seed, sessions, 20);
        send(&mut world, std::iter::repeat_n(100, 200));
        stay(&mut world, empty_s);
        assert_eq!(stored(&world, 1), 20);
        let reader = world.connect(1, Client::new("ipn:2.42", true));
        let took = until_more(&mut world);
        assert!(took <= Duration::from_secs(1), "{took:?} after {empty_s} s");
        // And all others follow: there is room for each of them.
        let begun = world.monotonic;
        world.until("all are delivered", |world| delivered(world) == 200);
        let took = world.monotonic - begun;
        assert!(took <= Duration::from_secs(5), "{took:?} for the others");
        world.leave(1, reader);
    }
}

#[test]
fn one_bundle_in_half_a_second_goes_in_vain_to_a_full_neighbour_over_all_its_sessions() {
    for sessions in [1, 4] {
        let mut world = with_a_full_node(5, sessions, 20);
        send(&mut world, std::iter::repeat_n(1_000, 200));
        stay(&mut world, 5);
        let (before, carried) = (refused(&world), world.carried[&1]);
        stay(&mut world, 60);
        let (more, octets) = (refused(&world) - before, world.carried[&1] - carried);
        assert!(
            (60..=121).contains(&more),
            "{more} over {sessions} sessions"
        );
        assert!(octets <= 121 * 1_500, "{octets} octets");
    }
}

/// The bound that was met is the one that the refusal names.
#[test]
fn a_refusal_for_the_number_of_bundles_names_their_quota() {
    let mut world = World::line(1, 7, |_, config| config.quota_bundles = 80);
    let mut sender = Client::new("ipn:1.9", false);
    for _ in 0..72 {
        sender.send(adu("ipn:7.1"), b"of no size to speak of");
    }
    let sender = world.connect(0, sender);
    world.until("all are answered", |world| {
        world.client(0, sender).responses.len() == 73
    });
    let last = world.client(0, sender).responses.last().unwrap();
    let said = format!("{last:?}");
    assert!(
        said.contains("the rest of its quota of 80 bundles"),
        "{said}"
    );
}

/// One that does not fit stands in front of many that do.
#[test]
fn a_bundle_that_is_too_large_for_the_room_that_is_left_holds_no_smaller_ones_up() {
    let mut world = with_a_full_node(6, 1, 1_000);
    // All but some 300 kB of a mebibyte.
    send(&mut world, [700_000]);
    stay(&mut world, 1);
    send(&mut world, [500_000]);
    stay(&mut world, 3);
    send(&mut world, std::iter::repeat_n(100, 50));
    let begun = world.monotonic;
    world.until("the small ones are there", |world| stored(world, 1) == 51);
    let took = world.monotonic - begun;
    assert!(took <= Duration::from_secs(20), "{took:?}");
    let before = world.carried[&1];
    stay(&mut world, 30);
    let octets = world.carried[&1] - before;
    // It goes whole once, after the small ones were taken, and then its header alone.
    assert!(octets <= 510_000, "{octets} octets go in vain");
    world.connect(1, Client::new("ipn:2.42", true));
    world.until("all are delivered", |world| delivered(world) == 52);
}
