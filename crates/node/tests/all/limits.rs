//! Limits of neighbours and sources: one that has used up theirs is refused, keeps what it has, and takes nothing from others.

use crate::world::World;
use crate::world::client::Client;
use dhow_node::api::wire::BundleAdu;
use dhow_node::changes::{ChangedLink, Changes};
use dhow_node::config::{Limits, LinkConfig, SourceLimits};
use dhow_node::driver::{Event, OperatorCommand, Ticket};
use dhow_node::view::{Counters, LinkOrigin};

fn send(world: &mut World, from: usize, to: &str, count: usize) {
    let mut sender = Client::new(&format!("ipn:{}.9", from + 1), false);
    for _ in 0..count {
        let adu = BundleAdu {
            dst_eid: to.into(),
            lifetime_ms: Some(86_400_000),
            ..BundleAdu::default()
        };
        sender.send(adu, &[7; 1_000]);
    }
    world.connect(from, sender);
}

fn held(world: &World, at: usize) -> (u64, u64) {
    world.machines[at].node.as_ref().unwrap().stored()
}

fn counters(world: &World, at: usize) -> Counters {
    world.machines[at].node.as_ref().unwrap().counters()
}

/// Nodes 1 and 3 dial node 2, at whose listener these limits hold.
fn world(seed: u64, limits: Limits, sources: SourceLimits) -> World {
    let mut world = World::line(3, seed, |number, config| {
        config.listeners[0].policy.limits = limits;
        config.source_limits = sources;
        if number == 2 {
            config.links.clear();
            config.routes.clear();
        }
    });
    world.machines[2].leads = vec![1];
    let changes = Changes {
        links: vec![ChangedLink {
            origin: LinkOrigin::Added,
            config: LinkConfig::usual("next".into()),
        }],
        ..Changes::default()
    };
    let (ticket, command) = (Ticket(1), OperatorCommand::Change(Box::new(changes)));
    world.handle(2, Event::Operator { ticket, command });
    world.until("both are up", |world| {
        world.machines[1].node.as_ref().unwrap().sessions().len() == 2
    });
    world
}

#[test]
fn a_neighbour_that_floods_has_its_share_and_another_all_the_rest() {
    for seed in 0..8 {
        let limits = Limits {
            held_bundles: Some(5),
            ..Limits::default()
        };
        let mut world = world(seed, limits, SourceLimits::default());
        world.refusals = 1_000_000;
        send(&mut world, 0, "ipn:2.1", 50);
        world.until("the share is full", |world| held(world, 1).0 == 5);
        world.stay(5);
        assert_eq!(held(&world, 1).0, 5);
        assert!(counters(&world, 1).limited_share > 0);
        assert_eq!(held(&world, 0).0, 45, "what is refused stays there");
        send(&mut world, 2, "ipn:2.1", 5);
        world.until("the other's are here", |world| held(world, 1).0 == 10);
        // Delivered bundles make room: all of them arrive, each once.
        let receiver = world.connect(1, Client::new("ipn:2.1", true));
        world.until("all is delivered", |world| {
            world.client(1, receiver).received.len() == 55
        });
        for at in 0..3 {
            world.check(at);
        }
    }
}

#[test]
fn octets_are_counted_to_the_last() {
    // A bundle's octets are known once one is here.
    let mut free = world(1, Limits::default(), SourceLimits::default());
    send(&mut free, 0, "ipn:2.1", 1);
    free.until("it is here", |world| held(world, 1).0 == 1);
    let octets = held(&free, 1).1;
    for (most, expected) in [(3 * octets, 3), (3 * octets - 1, 2), (octets - 1, 0)] {
        let limits = Limits {
            held_octets: Some(most),
            ..Limits::default()
        };
        let mut world = world(1, limits, SourceLimits::default());
        world.refusals = 1_000_000;
        send(&mut world, 0, "ipn:2.1", 6);
        world.stay(20);
        assert_eq!(held(&world, 1).0, expected, "{most} of {octets}");
        world.check(1);
    }
}

#[test]
fn a_source_has_its_share_and_a_restart_counts_it_again() {
    let sources = SourceLimits {
        octets: None,
        bundles: Some(3),
    };
    let mut world = world(2, Limits::default(), sources);
    world.refusals = 1_000_000;
    send(&mut world, 0, "ipn:2.1", 6);
    world.until("the share is full", |world| held(world, 1).0 == 3);
    assert!(counters(&world, 1).limited_source > 0);
    world.crash(1);
    world.start(1);
    world.stay(20);
    assert_eq!(held(&world, 1).0, 3);
    send(&mut world, 2, "ipn:2.1", 2);
    world.until("another source's are here", |world| held(world, 1).0 == 5);
    world.check(1);
}

#[test]
fn a_rate_slows_a_neighbour_and_loses_nothing() {
    let limits = Limits {
        bundles_per_s: Some(10),
        ..Limits::default()
    };
    let mut world = world(3, limits, SourceLimits::default());
    world.refusals = 1_000_000;
    send(&mut world, 0, "ipn:2.1", 40);
    let receiver = world.connect(1, Client::new("ipn:2.1", true));
    let begun = world.now(1).monotonic;
    world.until("all is delivered", |world| {
        world.client(1, receiver).received.len() == 40
    });
    let took = world.now(1).monotonic - begun;
    assert!(took.as_secs_f64() > 2.8, "{took:?}");
    assert!(counters(&world, 1).limited_rate > 0);
    world.check(1);
}

/// As many bundles of one source as are looked at, and many times that.
const FLOOD: usize = 1_000;

#[test]
fn a_source_that_has_used_up_its_share_holds_nobody_else_back() {
    let sources = SourceLimits {
        octets: None,
        bundles: Some(3),
    };
    let mut world = world(3, Limits::default(), sources);
    world.refusals = 1_000_000;
    send(&mut world, 0, "ipn:2.1", FLOOD);
    world.until("the flood is refused", |world| {
        held(world, 0).0 >= 997 && counters(world, 0).refused_by_peers > 0
    });
    world.stay(5);
    // Another source at the same node, behind the flood and for the same destination.
    let mut other = Client::new("ipn:1.8", false);
    for _ in 0..3 {
        let adu = BundleAdu {
            dst_eid: "ipn:2.1".into(),
            lifetime_ms: Some(86_400_000),
            ..BundleAdu::default()
        };
        other.send(adu, &[8; 1_100]);
    }
    world.connect(0, other);
    let tried = counters(&world, 0).refused_by_peers;
    world.until("the other source's are here", |world| held(world, 1).0 == 6);
    // The flood is tried now and then, and all of it arrives once there is room.
    world.stay(20);
    let more = counters(&world, 0).refused_by_peers - tried;
    assert!((1..=8).contains(&more), "{more} bundles were tried");
    let receiver = world.connect(1, Client::new("ipn:2.1", true));
    world.until("all is delivered", |world| {
        world.client(1, receiver).received.len() == FLOOD + 3
    });
    for at in 0..3 {
        world.check(at);
    }
}
