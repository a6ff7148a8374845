//! Custody over layers where nobody acknowledges a transfer, UDP and STCP: only a signal says that the next node has a bundle.

use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::v6;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{
    BundleVersions, Config, Enabled, Framing, OnSent, Protocol, Route, UdpPolicy,
};
use dhow_node::driver::{Event, OperatorCommand, Ticket};
use proptest::prelude::*;

fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(6_000_000),
        bundle_flags: Some(v6::BundleFlags::CUSTODY_REQUESTED.bits()),
        bundle_version: Some(6),
        ..BundleAdu::default()
    }
}

fn payload(number: usize, octets: usize) -> Vec<u8> {
    let octet = |place: usize| u8::try_from((place * 7 + number * 13) % 251).unwrap();
    (0..octets).map(octet).collect()
}

/// Nodes 1 and 2, each with a link of this kind to the other.
fn pair(protocol: Protocol, seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    let mut world = World::circle(2, seed, |number, config| {
        config.links[0].protocol = protocol;
        config.links[0].policy.peer = Some(format!("ipn:{}.0", 3 - number).parse().unwrap());
        if !matches!(protocol, Protocol::Udp(_)) {
            config.listeners[0].protocol = protocol;
        }
        config.custody.delay_ms = 1_000;
        config.custody.retry_ms = 5_000;
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    world
}

fn udp(on_sent: OnSent) -> Protocol {
    Protocol::Udp(UdpPolicy {
        on_sent,
        ..UdpPolicy::default()
    })
}

fn stored(world: &World, at: usize) -> u64 {
    world.machines[at].node.as_ref().unwrap().stored().0
}

/// Bundles of these sizes for node 2, and their number once all are durable at node 1.
fn offer(world: &mut World, sizes: &[usize]) {
    let mut sender = Client::new("ipn:1.5", false);
    for (number, size) in sizes.iter().enumerate() {
        sender.send(adu("ipn:2.42"), &payload(number, *size));
    }
    let sender = world.connect(0, sender);
    world.until("all are durable at the source", |world| {
        world.client(0, sender).responses.len() == sizes.len() + 1
    });
}

#[test]
fn what_datagrams_lose_is_sent_again_until_its_signal_comes() {
    for on_sent in [OnSent::Forget, OnSent::Keep] {
        let mut world = pair(udp(OnSent::Forget), 1, |number, config| {
            if number == 1 {
                config.links[0].protocol = udp(on_sent);
            }
        });
        world.air.lost = 1_000;
        offer(&mut world, &[0, 10, 1_100]);
        world.stay(12);
        assert_eq!(stored(&world, 0), 3, "none is let go");
        world.air.lost = 0;
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        world.until("all is over", |world| {
            world.client(1, receiver).received.len() == 3
                && stored(world, 0) + stored(world, 1) == 0
        });
        world.stay(120);
        assert_eq!(world.client(1, receiver).received.len(), 3);
    }
}

/// A bundle that leaves once more leaves as a whole: nobody has said which of its fragments came.
#[test]
fn a_bundle_in_fragments_of_which_some_are_lost_is_sent_again_as_a_whole() {
    let mut world = pair(udp(OnSent::Forget), 2, |_, config| {
        config.links[0].policy.fragment_octets = Some(1_000);
    });
    world.air.lost = 1_000;
    offer(&mut world, &[5_000]);
    world.stay(4);
    assert_eq!(stored(&world, 0), 1, "it is not let go");
    world.air.lost = 0;
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.until("all is over", |world| {
        world.client(1, receiver).received.len() == 1 && stored(world, 0) + stored(world, 1) == 0
    });
    assert!(world.client(1, receiver).received[0].1 == payload(0, 5_000));
}

#[test]
fn what_a_connection_loses_that_nobody_acknowledges_is_sent_again() {
    let mut world = pair(Protocol::framed(Framing::Stcp), 3, |_, _| ());
    let sizes = [10, 3_000, 200_000, 900_000];
    offer(&mut world, &sizes);
    for steps in [10, 30, 60, 90, 200] {
        world.settle_some(steps);
        world.cut(0, 1);
        world.join(0, 1);
    }
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.until("all is over", |world| {
        world.client(1, receiver).received.len() == sizes.len()
            && stored(world, 0) + stored(world, 1) == 0
    });
    world.stay(120);
    assert_eq!(world.client(1, receiver).received.len(), sizes.len());
}

/// Nobody in version 7 signals custody, and nobody acknowledges here: a bundle in custody that crosses stays, and goes by a link where a next hop says
/// that it has it.
#[test]
fn a_bundle_in_custody_that_crosses_over_such_a_layer_stays_until_another_link_takes_it() {
    for on_sent in [OnSent::Forget, OnSent::Keep] {
        let mut world = pair(udp(on_sent), 4, |number, config| {
            if number == 1 {
                config.links[0].policy.bundle_versions = BundleVersions::of_numbers(&[7]).unwrap();
                config.routes.push(Route {
                    to: "ipn:2.*".into(),
                    via: "ipn:2.0".into(),
                    priority: -1,
                });
            } else {
                config.links[0].protocol = Protocol::Tcpcl4;
                config.links[0].enabled = Enabled::No;
            }
        });
        world.air.lost = 1_000;
        offer(&mut world, &[10, 1_100]);
        world.stay(60);
        assert_eq!(
            (stored(&world, 0), world.air.sent),
            (2, 2),
            "each left once"
        );
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        let command = OperatorCommand::LinkUp("next".into());
        let ticket = Ticket(7);
        world.handle(1, Event::Operator { ticket, command });
        world.until("all are delivered", |world| {
            world.client(1, receiver).received.len() == 2
        });
        world.until("the neighbour has them", |world| stored(world, 0) == 0);
    }
}

/// A bundle in custody that crosses there is held no longer than its lifetime.
#[test]
fn a_bundle_in_custody_that_crossed_over_such_a_layer_ends_with_its_lifetime() {
    let mut world = pair(udp(OnSent::Forget), 5, |number, config| {
        if number == 1 {
            config.links[0].policy.bundle_versions = BundleVersions::of_numbers(&[7]).unwrap();
        }
    });
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    offer(&mut world, &[10]);
    world.until("it is delivered", |world| {
        world.client(1, receiver).received.len() == 1
    });
    world.pass(Duration::from_secs(5_900));
    world.settle();
    assert_eq!((stored(&world, 0), world.air.sent), (1, 1));
    world.pass(Duration::from_secs(200));
    world.settle();
    assert_eq!((stored(&world, 0), world.air.sent), (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Nothing in custody is lost, nothing is delivered twice, and every custody is resolved.
    #[test]
    fn whatever_datagrams_do_bundles_arrive_once_and_nobody_stays_custodian(
        seed in any::<u64>(),
        sizes in prop::collection::vec(0_usize..20_000, 1..6),
        piece in prop::option::of(1_000_u64..8_000),
        lost in 0_u64..500,
        doubled in 0_u64..300,
        shuffled in any::<bool>(),
        aggregate in any::<bool>(),
    ) {
        let mut world = pair(udp(OnSent::Forget), seed, |_, config| {
            config.custody.aggregate = if aggregate { Enabled::Yes } else { Enabled::No };
            config.links[0].policy.fragment_octets = piece;
        });
        world.air.lost = lost;
        world.air.doubled = doubled;
        world.air.shuffled = shuffled;
        offer(&mut world, &sizes);
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        for _ in 0..10 {
            world.stay(30);
        }
        world.air.lost = 0;
        world.until("all is over", |world| {
            world.client(1, receiver).received.len() == sizes.len()
                && stored(world, 0) + stored(world, 1) == 0
        });
    }
}
