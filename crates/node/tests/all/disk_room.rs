//! A disk that has room for less than the quota: the node follows it down and up, and says which bound it met.

use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::storage::{Medium, StoreEvent};
use dhow_node::Node;
use dhow_node::api::wire::BundleAdu;
use dhow_node::driver::{Event, Occurrence};

const QUOTA: u64 = 1 << 20;

fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(86_400_000),
        ..BundleAdu::default()
    }
}

/// Two nodes, of which the second has a quota of a mebibyte.
fn world(seed: u64) -> World {
    World::line(2, seed, |number, config| {
        if number == 2 {
            config.quota_octets = QUOTA;
        }
    })
}

/// Node 1 has these for an application of node 2 that is not there.
fn send(world: &mut World, payloads: impl IntoIterator<Item = usize>) {
    let mut sender = Client::new("ipn:1.5", false);
    for octets in payloads {
        sender.send(adu("ipn:2.42"), &vec![7; octets]);
    }
    world.connect(0, sender);
}

fn limit(world: &mut World, octets: u64) {
    world.handle(
        1,
        Event::Store(StoreEvent::Capacity {
            octets,
            medium: Medium::Disk,
        }),
    );
}

fn stay(world: &mut World, seconds: u32) {
    for _ in 0..seconds * 40 {
        world.settle();
        world.pass(Duration::from_millis(25));
    }
}

fn second(world: &World) -> &Node {
    world.machines[1].node.as_ref().unwrap()
}

fn reasons(world: &World) -> Vec<&str> {
    let occurrences = world.machines[1].occurrences.iter();
    let reasons = occurrences.filter_map(|it| match it {
        Occurrence::RefusedIncoming { why, .. } => Some(why.as_str()),
        _ => None,
    });
    reasons.collect()
}

fn told(world: &World) -> Vec<u64> {
    let occurrences = world.machines[1].occurrences.iter();
    let told = occurrences.filter_map(|it| match it {
        Occurrence::QuotaChanged {
            effective, quota, ..
        } => {
            assert_eq!(*quota, QUOTA);
            Some(*effective)
        }
        _ => None,
    });
    told.collect()
}

#[test]
fn the_room_of_the_disk_bounds_what_is_taken_and_is_named() {
    let mut world = world(1);
    limit(&mut world, 100_000);
    assert_eq!(second(&world).quota_octets(), 100_000);
    send(&mut world, std::iter::repeat_n(9_000, 40));
    stay(&mut world, 3);
    let (bundles, octets) = (
        second(&world).taken_bundles(),
        second(&world).taken_octets(),
    );
    assert_eq!(
        bundles,
        11 - u64::from(octets / bundles > 9_090),
        "{octets}"
    );
    let reasons = reasons(&world);
    let bound =
        "the room that the disk has for 100000 octets of the quota of 1048576 leaves no room for";
    assert!(
        !reasons.is_empty() && reasons.iter().all(|why| why.contains(bound)),
        "{reasons:?}"
    );
}

#[test]
fn a_bound_below_what_is_held_drops_nothing_and_is_followed_up_again_within_a_second() {
    let mut world = world(2);
    send(&mut world, std::iter::repeat_n(9_000, 40));
    world.until("all are there", |world| second(world).taken_bundles() == 40);
    stay(&mut world, 1);
    for octets in [300_000, 0] {
        limit(&mut world, octets);
        send(&mut world, [1_000]);
        stay(&mut world, 2);
        assert_eq!(second(&world).taken_bundles(), 40);
    }
    // Held bundles are delivered and deleted whatever the bound.
    let reader = world.connect(1, Client::new("ipn:2.42", true));
    world.until("they are delivered", |world| {
        second(world).counters().delivered == 40
    });
    stay(&mut world, 2);
    assert_eq!(second(&world).taken_bundles(), 0);
    limit(&mut world, QUOTA);
    let begun = world.monotonic;
    world.until("the others are delivered", |world| {
        second(world).counters().delivered == 42
    });
    let took = world.monotonic - begun;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    world.leave(1, reader);
    assert_eq!(told(&world), [300_000, 0, QUOTA]);
}

#[test]
fn a_bundle_larger_than_the_bound_is_refused_at_its_header() {
    let mut world = world(3);
    world.until("a session is up", |world| {
        second(world).sessions().len() == 1
    });
    limit(&mut world, 100_000);
    send(&mut world, [500_000]);
    stay(&mut world, 2);
    assert_eq!(second(&world).taken_bundles(), 0);
    assert!(!reasons(&world).is_empty());
    let octets = second(&world).quota_octets();
    limit(&mut world, QUOTA);
    stay(&mut world, 2);
    assert_eq!((octets, second(&world).taken_bundles()), (100_000, 1));
}

/// The transfer MRU goes by what the disk has room for, and a session that was told too little is replaced.
#[test]
fn fragments_of_a_whole_that_never_has_room_do_not_fill_the_store() {
    let mut world = world(5);
    send(&mut world, [3 << 20]);
    stay(&mut world, 20);
    assert_eq!(second(&world).stored().0, 0);
    let whys = reasons(&world);
    let is_named =
        |why: &&str| why.contains("it is a fragment of 3145728 octets for an endpoint here");
    assert!(whys.iter().any(is_named), "{whys:?}");
    assert!(whys.len() < 5, "{}", whys.len());
    send(&mut world, [1_000]);
    world.until("a smaller one is stored", |world| {
        second(world).stored().0 == 1
    });
}

#[test]
fn a_peer_is_told_what_the_disk_has_room_for_and_is_told_anew_when_that_grows() {
    let mru = |world: &World| {
        let occurrences = world.machines[0].occurrences.iter();
        let up = occurrences.filter_map(|it| match it {
            Occurrence::SessionUp { parameters, .. } => Some(parameters.transfer_mru),
            _ => None,
        });
        up.collect::<Vec<_>>()
    };
    let mut world = world(4);
    limit(&mut world, 0);
    send(&mut world, [10, 20_000, 200_000]);
    stay(&mut world, 3);
    assert_eq!(second(&world).taken_bundles(), 0);
    // A peer that is told less than a header takes would send nothing for a while.
    assert_eq!(mru(&world), [65_536]);
    limit(&mut world, 100_000);
    stay(&mut world, 2);
    // Less than twice as much is not worth another session.
    assert_eq!(mru(&world), [65_536]);
    assert!(second(&world).taken_bundles() >= 2);
    limit(&mut world, 150_000);
    stay(&mut world, 2);
    assert_eq!(mru(&world), [65_536, 150_000]);
    limit(&mut world, QUOTA);
    world.connect(1, Client::new("ipn:2.42", true));
    world.until("all are delivered", |world| {
        second(world).counters().delivered == 3
    });
    assert_eq!(mru(&world), [65_536, 150_000, QUOTA]);
}

#[test]
fn an_application_is_told_the_bound() {
    let mut world = world(5);
    limit(&mut world, 10_000);
    let mut sender = Client::new("ipn:2.5", false);
    sender.send(adu("ipn:2.42"), &[7; 20_000]);
    let stream = world.connect(1, sender);
    stay(&mut world, 1);
    let response = format!("{:?}", world.client(1, stream).responses);
    assert!(
        response.contains("the disk has for 10000 octets of the quota of 1048576"),
        "{response}"
    );
}

/// Changes are told when they are notable, however often the store says something.
#[test]
fn small_changes_are_followed_and_not_told() {
    let mut world = world(6);
    for octets in [
        500_000, 510_000, 490_000, 400_000, 380_000, 370_000, 300_000,
    ] {
        limit(&mut world, octets);
        assert_eq!(second(&world).quota_octets(), octets);
    }
    assert_eq!(told(&world), [500_000, 370_000]);
}
