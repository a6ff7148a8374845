//! Links that an operator adds to a running node, and deletes.

use crate::world::World;
use crate::world::client::Client;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::Route;
use dhow_node::driver::{Event, OperatorCommand, OperatorRefusal, Ticket};
use dhow_node::view::LinkOrigin;

fn operate(world: &mut World, command: OperatorCommand) {
    let ticket = Ticket(1);
    world.handle(0, Event::Operator { ticket, command });
    world.settle();
}

fn add(world: &mut World, name: &str, to: usize) {
    world.machines[0].leads.push(to);
    operate(
        world,
        OperatorCommand::LinkAdd {
            name: name.into(),
            like: "next".into(),
            peer: None,
        },
    );
}

fn names(world: &World) -> Vec<(String, LinkOrigin)> {
    let links = world.machines[0].node.as_ref().unwrap().links();
    links.into_iter().map(|it| (it.name, it.origin)).collect()
}

fn route() -> Route {
    Route {
        to: "ipn:3.*".into(),
        via: "more".into(),
        priority: 0,
    }
}

/// Node 1 has a link to node 2 and none to node 3.
fn world(seed: u64) -> World {
    let mut world = World::line(3, seed, |number, config| {
        config.routes.clear();
        if number != 1 {
            config.links.clear();
        }
    });
    world.until("the first link is up", |world| {
        world.machines[0].node.as_ref().unwrap().sessions().len() == 1
    });
    world
}

#[test]
fn a_link_that_is_added_carries_bundles_until_it_is_deleted() {
    for seed in 0..8 {
        let mut world = world(seed);
        add(&mut world, "more", 2);
        operate(&mut world, OperatorCommand::RouteAdd(route()));
        let mut sender = Client::new("ipn:1.9", false);
        let adu = BundleAdu {
            dst_eid: "ipn:3.1".into(),
            lifetime_ms: Some(86_400_000),
            ..BundleAdu::default()
        };
        sender.send(adu, b"by the link that was added");
        world.connect(0, sender);
        let receiver = world.connect(2, Client::new("ipn:3.1", true));
        world.until("it is delivered", |world| {
            world.client(2, receiver).received.len() == 1
        });
        assert_eq!(
            names(&world),
            [
                ("next".to_owned(), LinkOrigin::Configured),
                ("more".to_owned(), LinkOrigin::Added)
            ]
        );
        let Route { to, via, .. } = route();
        operate(&mut world, OperatorCommand::RouteDelete { to, via });
        operate(&mut world, OperatorCommand::LinkDelete("more".into()));
        world.until("its session is gone", |world| {
            world.machines[0].node.as_ref().unwrap().sessions().len() == 1
        });
        world.pass(std::time::Duration::from_secs(3));
        world.settle();
        assert_eq!(world.machines[0].node.as_ref().unwrap().sessions().len(), 1);
        assert_eq!(names(&world).len(), 1);
        // Its name is free.
        add(&mut world, "more", 2);
        world.until("it is up again", |world| {
            world.machines[0].node.as_ref().unwrap().sessions().len() == 2
        });
        for at in 0..3 {
            world.check(at);
        }
    }
}

#[test]
fn a_run_adds_so_many_links_and_no_more() {
    let mut world = world(1);
    world.hostile = true;
    world.refusals = 0;
    for number in 0..4_100 {
        world.machines[0].leads.push(1);
        let command = OperatorCommand::LinkAdd {
            name: format!("link{number}"),
            like: "next".into(),
            peer: None,
        };
        let ticket = Ticket(1);
        world.handle(0, Event::Operator { ticket, command });
        let command = OperatorCommand::LinkDelete(format!("link{number}"));
        world.handle(0, Event::Operator { ticket, command });
    }
    add(&mut world, "one more", 1);
    assert_eq!(names(&world).len(), 1);
    world.check(0);
}

#[test]
fn this_node_is_no_neighbour_of_its_own() {
    let mut world = world(1);
    world.hostile = true;
    let own = Some(Err(OperatorRefusal::OwnNode("ipn:1.0".parse().unwrap())));
    operate(
        &mut world,
        OperatorCommand::LinkAdd {
            name: "me".into(),
            like: "next".into(),
            peer: Some("ipn:1.0".parse().unwrap()),
        },
    );
    assert_eq!(world.answer.take(), own);
    let via = "ipn:1.0".into();
    operate(
        &mut world,
        OperatorCommand::RouteAdd(Route { via, ..route() }),
    );
    assert_eq!(world.answer.take(), own);
    assert_eq!(names(&world).len(), 1);
}
