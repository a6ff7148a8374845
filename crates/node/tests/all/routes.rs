//! Static routes: which of several serves a destination.

use crate::world::World;
use crate::world::client::Client;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::Route;

fn route(to: &str, via: &str, priority: i32) -> Route {
    Route {
        to: to.into(),
        via: via.into(),
        priority,
    }
}

/// Nodes 1 to 4 in a circle, of which node 1 has these routes and node 3 sends on to 4.
fn circle(seed: u64, routes: &[Route]) -> World {
    let mut world = World::circle(4, seed, |number, config| {
        config.routes = match number {
            1 => routes.to_vec(),
            _ => vec![route("ipn:**", "next", 0)],
        };
    });
    world.stay(1);
    world
}

/// Node 1 sends this many bundles to a node.
fn send(world: &mut World, to: &str, count: usize) {
    let mut sender = Client::new("ipn:1.5", false);
    for _ in 0..count {
        let adu = BundleAdu {
            dst_eid: to.into(),
            lifetime_ms: Some(86_400_000),
            ..BundleAdu::default()
        };
        sender.send(adu, b"goes some way");
    }
    let stream = world.connect(0, sender);
    world.stay(1);
    world.leave(0, stream);
}

/// Bundles that each node has received from neighbours.
fn received(world: &World) -> Vec<u64> {
    let nodes = world.machines.iter().map(|it| it.node.as_ref().unwrap());
    nodes.map(|node| node.counters().received).collect()
}

#[test]
fn a_live_neighbour_is_the_best_route_to_itself() {
    let mut world = circle(33, &[route("ipn:4.42", "next", 7)]);
    send(&mut world, "ipn:4.42", 5);
    assert_eq!(received(&world), [0, 0, 0, 5]);
    world.cut(3, 0);
    send(&mut world, "ipn:4.42", 5);
    assert_eq!(received(&world), [0, 5, 5, 10]);
}

#[test]
fn the_most_specific_route_whose_hop_is_up_serves_whatever_the_priority_of_others() {
    let routes = [
        route("ipn:**", "ipn:4.0", 9),
        route("ipn:3.*", "ipn:4.0", 5),
        route("ipn:3.42", "next", -1),
    ];
    let mut world = circle(34, &routes);
    send(&mut world, "ipn:3.42", 5);
    assert_eq!(received(&world), [0, 5, 5, 0]);
    send(&mut world, "ipn:3.43", 5);
    let by_both = received(&world);
    assert_eq!((by_both[1], by_both[3]), (5, 5));
    world.cut(0, 1);
    send(&mut world, "ipn:3.42", 5);
    assert_eq!((received(&world)[1], received(&world)[3]), (5, 10));
}
