//! Changes to the configuration of a running node.

use std::time::Duration;

use crate::world::client::Client;
use crate::world::{World, contact};
use dhow_node::Node;
use dhow_node::api::wire::BundleAdu;
use dhow_node::changes::{ChangedLink, ChangedListener, Changes, LiveSettings};
use dhow_node::config::{Enabled, LinkConfig, ListenerConfig, ListenerId, Reports, Route};
use dhow_node::driver::{Event, OperatorCommand, StreamId, Ticket};
use dhow_node::view::LinkOrigin;

fn node(world: &World) -> &Node {
    world.machines[0].node.as_ref().unwrap()
}

fn change(world: &mut World, changes: Changes) {
    let (ticket, command) = (Ticket(1), OperatorCommand::Change(Box::new(changes)));
    world.handle(0, Event::Operator { ticket, command });
    assert_eq!(world.answer.take(), Some(Ok(())));
    world.settle();
}

fn streams(world: &World) -> Vec<StreamId> {
    let sessions = node(world).sessions().into_iter();
    sessions.map(|it| it.stream).collect()
}

/// Node 1 has a link "next" to node 2, and one "more" to node 3 that is added by a change.
fn world(seed: u64) -> World {
    let mut world = World::line(3, seed, |number, config| {
        config.routes.clear();
        if number != 1 {
            config.links.clear();
        }
    });
    world.machines[0].leads.push(2);
    change(
        &mut world,
        Changes {
            links: vec![configured("more", |_| {})],
            routes: vec![to_3("more", 0)],
            ..Changes::default()
        },
    );
    world.until("both links are up", |world| streams(world).len() == 2);
    world
}

fn configured(name: &str, edit: impl Fn(&mut LinkConfig)) -> ChangedLink {
    let mut config = LinkConfig::usual(name.into());
    edit(&mut config);
    ChangedLink {
        origin: LinkOrigin::Configured,
        config,
    }
}

fn to_3(via: &str, priority: i32) -> Route {
    Route {
        to: "ipn:3.*".into(),
        via: via.into(),
        priority,
    }
}

#[test]
fn settings_of_dialling_change_and_the_session_stays() {
    for seed in 0..4 {
        let mut world = world(seed);
        let before = streams(&world);
        let changes = Changes {
            links: vec![configured("more", |config| config.backoff_max_ms = 9_000)],
            ..Changes::default()
        };
        change(&mut world, changes.clone());
        change(&mut world, changes);
        world.pass(Duration::from_secs(1));
        world.settle();
        assert_eq!(streams(&world), before);
        world.check(0);
    }
}

#[test]
fn another_policy_ends_the_session_of_its_link_alone_and_routes_follow() {
    for seed in 0..8 {
        let mut world = world(seed);
        let before = streams(&world);
        let of_next = node(&world)
            .sessions()
            .into_iter()
            .find(|it| it.link.as_deref() == Some("next"))
            .unwrap();
        world.machines[0].leads.push(2);
        let mut sender = Client::new("ipn:1.9", false);
        let adu = BundleAdu {
            dst_eid: "ipn:3.1".into(),
            lifetime_ms: Some(86_400_000),
            ..BundleAdu::default()
        };
        sender.send(adu, &[7; 100_000]);
        world.connect(0, sender);
        let receiver = world.connect(2, Client::new("ipn:3.1", true));
        change(
            &mut world,
            Changes {
                links: vec![configured("more", |config| config.policy.keepalive_s = 7)],
                ..Changes::default()
            },
        );
        world.until("it is delivered once", |world| {
            world.client(2, receiver).received.len() == 1
        });
        world.until("its session is up again", |world| {
            streams(world).len() == 2 && streams(world) != before
        });
        assert!(
            streams(&world).contains(&of_next.stream),
            "it had no change"
        );
        let routes = node(&world).routes();
        assert!(
            routes
                .iter()
                .any(|it| it.route.to == "ipn:3.*" && it.route.via == "more")
        );
        world.check(0);
    }
}

#[test]
fn a_link_goes_and_its_bundles_wait_for_another_way() {
    for seed in 0..8 {
        let mut world = world(seed);
        change(
            &mut world,
            Changes {
                links_deleted: vec!["more".into(), "no such link".into()],
                routes_deleted: vec![to_3("more", 0), to_3("never", 0)],
                ..Changes::default()
            },
        );
        world.until("its session is gone", |world| streams(world).len() == 1);
        let mut sender = Client::new("ipn:1.9", false);
        let adu = BundleAdu {
            dst_eid: "ipn:3.1".into(),
            lifetime_ms: Some(86_400_000),
            ..BundleAdu::default()
        };
        sender.send(adu, b"waits");
        world.connect(0, sender);
        let receiver = world.connect(2, Client::new("ipn:3.1", true));
        world.pass(Duration::from_secs(11));
        world.settle();
        assert_eq!(streams(&world).len(), 1, "nobody dials it");
        // It comes back, with the number of the one that has gone.
        change(
            &mut world,
            Changes {
                links: vec![configured("again", |_| {})],
                routes: vec![to_3("again", 2), to_3("again", 2)],
                ..Changes::default()
            },
        );
        world.until("it is delivered", |world| {
            world.client(2, receiver).received.len() == 1
        });
        world.check(0);
    }
}

#[test]
fn a_link_is_taken_down_and_up() {
    let mut world = world(1);
    let enabled = |enabled| Changes {
        links: vec![configured("more", |config| config.enabled = enabled)],
        ..Changes::default()
    };
    change(&mut world, enabled(Enabled::No));
    world.until("it is down", |world| streams(world).len() == 1);
    change(&mut world, enabled(Enabled::Yes));
    world.until("it is up", |world| streams(world).len() == 2);
    world.check(0);
}

#[test]
fn a_listener_that_is_closed_ends_its_sessions() {
    let mut world = world(3);
    let of_2 = |world: &World| world.machines[1].node.as_ref().unwrap().sessions().len();
    assert_eq!(of_2(&world), 1);
    let changes = |closed, listeners| Changes {
        listeners_closed: closed,
        listeners,
        ..Changes::default()
    };
    let operate = |world: &mut World, changes| {
        let (ticket, command) = (Ticket(1), OperatorCommand::Change(Box::new(changes)));
        world.handle(1, Event::Operator { ticket, command });
    };
    let closed = vec![ListenerId(0)];
    operate(&mut world, changes(closed, Vec::new()));
    let lost = |world: &mut World| of_2(world) == 0;
    world.until("the session ends", lost);
    // Positions without a gap are taken, others are not.
    let listener = |id| ChangedListener {
        id: ListenerId(id),
        config: ListenerConfig::default(),
    };
    world.answer = None;
    operate(&mut world, changes(Vec::new(), vec![listener(1)]));
    assert_eq!(world.answer.take(), Some(Ok(())));
    world.hostile = true;
    operate(&mut world, changes(Vec::new(), vec![listener(7)]));
    assert!(matches!(world.answer.take(), Some(Err(_))));
}

#[test]
fn contacts_and_settings_are_taken_up() {
    let mut world = world(1);
    let (one, two) = (contact((1, 2), (10, 20)), contact((2, 1), (10, 20)));
    change(
        &mut world,
        Changes {
            contacts: vec![one.clone(), two.clone()],
            settings: Some(LiveSettings {
                reports: Reports::default(),
                payload_checksum: Default::default(),
                default_lifetime_ms: 5,
                highest_priority: None,
            }),
            ..Changes::default()
        },
    );
    assert_eq!(node(&world).contacts().len(), 2);
    change(
        &mut world,
        Changes {
            contacts_deleted: vec![one.clone(), one],
            ..Changes::default()
        },
    );
    assert_eq!(node(&world).contacts().iter().collect::<Vec<_>>(), [two]);
}
