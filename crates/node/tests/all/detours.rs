//! Bundles that may not go over the best hop of their destination, and another hop that takes them.

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::BundleFlags;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Config, Route};

fn route(via: &str, priority: i32) -> Route {
    Route {
        to: "ipn:4.*".into(),
        via: via.into(),
        priority,
    }
}

/// Nodes 1 to 4 in a circle. Node 1 reaches 4 by 2, and 2 does by 1, or else by 3.
fn circle(seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    World::circle(4, seed, |number, config| {
        config.routes = match number {
            1 => vec![route("next", 0)],
            2 => vec![route("ipn:1.0", 1), route("next", 0)],
            _ => vec![route("next", 0)],
        };
        edit(number, config);
    })
}

fn adu(bundle_flags: u64) -> BundleAdu {
    BundleAdu {
        dst_eid: "ipn:4.42".into(),
        lifetime_ms: Some(86_400_000),
        bundle_flags: Some(bundle_flags),
        ..BundleAdu::default()
    }
}

/// The number of bundles, of so many that a node sends, that come to an application of node 4 within three seconds.
fn arrive(mut world: World, from: usize, count: usize, octets: usize, flags: u64) -> usize {
    world.stay(1);
    // Node 1 has a session with node 4, which would be its best way: it is not to be used.
    world.cut(3, 0);
    let reader = world.connect(3, Client::new("ipn:4.42", true));
    let mut sender = Client::new(&format!("ipn:{}.5", from + 1), false);
    for _ in 0..count {
        sender.send(adu(flags), &vec![7; octets]);
    }
    world.connect(from, sender);
    world.stay(3);
    world.client(3, reader).received.len()
}

#[test]
fn what_came_from_the_best_hop_goes_over_the_next_one() {
    let world = circle(31, |_, _| ());
    assert_eq!(arrive(world, 0, 200, 300, 0), 200);
}

#[test]
fn what_the_best_hop_cannot_take_goes_over_the_next_one() {
    let flags = BundleFlags::MUST_NOT_FRAGMENT.bits();
    let world = circle(32, |number, config| {
        if number == 1 {
            config.links[0].policy.transfer_mru = 10_000;
        }
    });
    assert_eq!(arrive(world, 1, 20, 100_000, flags), 20);
}
