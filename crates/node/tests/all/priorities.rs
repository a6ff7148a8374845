//! Priorities: bundles that are to leave first do, after a restart too, and no more than a neighbour or an application may say.

use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::Priority;
use dhow_bundle::storage::{BundleKey, REMOVED_BOUND};
use dhow_node::api::wire::{BundleAdu, STATUS_UNAUTHORIZED};
use dhow_node::config::{
    Acknowledgments, COPIES, Config, DropPolicy, RouterKind, Routing, SendOrder,
};
use dhow_node::driver::Occurrence;

const EACH: usize = 40;

/// Priorities in the order in which their bundles come.
const COMES: [Priority; 5] = [
    Priority::Bulk,
    Priority::Normal,
    Priority::Expedited(3),
    Priority::EXPEDITED,
    Priority::MOST,
];

fn adu(destination: &str, priority: Priority, version: u32) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(6_000_000),
        priority: Some(priority.level().into()),
        bundle_version: Some(version),
        ..BundleAdu::default()
    }
}

/// Gives a node bundles, the least urgent first, from a service that says their priority.
fn give(world: &mut World, version: u32) {
    for (priority, service) in COMES.into_iter().zip(10..) {
        let mut client = Client::new(&format!("ipn:1.{service}"), false);
        for number in 0..EACH {
            let destination = format!("ipn:2.{}", 42 + number % 2);
            client.send(adu(&destination, priority, version), &[7; 1_000]);
        }
        world.connect(0, client);
    }
    world.until("all are held", |world| {
        world.machines[0].store.kept.bundles.len() == EACH * COMES.len()
    });
}

/// The priorities of what a node received, in order.
fn received(world: &World, at: usize) -> Vec<Priority> {
    let occurrences = world.machines[at].occurrences.iter();
    let services = occurrences.filter_map(|it| match it {
        Occurrence::Received { id, .. } => id.source.service()?.parse::<usize>().ok(),
        _ => None,
    });
    services
        .filter_map(|it| COMES.get(it.checked_sub(10)?).copied())
        .collect()
}

fn in_order(received: &[Priority]) -> bool {
    received.is_sorted_by(|one, other| one >= other)
}

fn routed(router: RouterKind) -> impl Fn(u32, &mut Config) {
    move |_, config| {
        config.removed_bound = REMOVED_BOUND;
        if router != RouterKind::Static {
            config.routes.clear();
            config.routing = vec![Routing {
                to: "ipn:*".into(),
                router,
                copies: COPIES,
                acknowledgments: Acknowledgments::None,
                drop: DropPolicy::None,
            }];
        }
    }
}

// RFC 5050 4.2: expedited bundles are dispatched before all others, and bulk ones behind all others.
#[test]
fn bundles_leave_by_their_priority_whatever_chooses_them() {
    for router in [
        RouterKind::Static,
        RouterKind::Flood,
        RouterKind::Epidemic,
        RouterKind::SprayAndWait,
        RouterKind::Prophet,
        RouterKind::MaxProp,
    ] {
        for version in [6, 7] {
            let mut world = World::line(2, 7, routed(router));
            world.cut(0, 1);
            give(&mut world, version);
            world.join(0, 1);
            world.until("all are there", |world| {
                received(world, 1).len() == EACH * COMES.len()
            });
            let received = received(&world, 1);
            assert!(
                in_order(&received),
                "{router:?}, version {version}: {received:?}"
            );
        }
    }
}

#[test]
fn a_link_that_sends_by_expiry_does_so_within_a_priority() {
    let mut world = World::line(2, 7, |_, config| {
        for link in &mut config.links {
            link.policy.order = SendOrder::Expiry;
        }
    });
    world.cut(0, 1);
    give(&mut world, 7);
    world.join(0, 1);
    world.until("all are there", |world| {
        received(world, 1).len() == EACH * COMES.len()
    });
    assert!(in_order(&received(&world, 1)));
}

/// The bundles are of any sizes, and some do not fit the next hop's transfers.
#[test]
fn a_relay_sends_by_priority_also_what_it_has_to_cut() {
    for version in [6, 7] {
        let mut world = World::line(3, 14, |node, config| {
            if node == 3 {
                config.listeners[0].policy.transfer_mru = 9_000;
            }
        });
        world.pace = Duration::from_micros(50);
        world.cut(1, 2);
        for (priority, service) in COMES.into_iter().zip(10..) {
            let mut client = Client::new(&format!("ipn:1.{service}"), false);
            for octets in [100, 12_000, 3_000, 25_000, 8_900] {
                client.send(adu("ipn:3.42", priority, version), &vec![7; octets]);
            }
            world.connect(0, client);
        }
        world.until("all wait at the relay", |world| {
            world.machines[1].store.kept.bundles.len() == 5 * COMES.len()
        });
        world.join(1, 2);
        world.until("the relay has none left", |world| {
            world.machines[1].store.kept.bundles.is_empty()
        });
        let received = received(&world, 2);
        assert!(in_order(&received), "version {version}: {received:?}");
    }
}

#[test]
fn a_restart_forgets_no_priority() {
    for version in [6, 7] {
        let mut world = World::line(2, 8, |_, _| ());
        world.cut(0, 1);
        give(&mut world, version);
        world.crash(0);
        world.start(0);
        world.join(0, 1);
        world.until("all are there", |world| {
            received(world, 1).len() == EACH * COMES.len()
        });
        assert!(in_order(&received(&world, 1)), "version {version}");
    }
}

#[test]
fn an_application_is_given_what_is_urgent_first() {
    let mut world = World::line(1, 9, |_, _| ());
    for (priority, service) in COMES.into_iter().zip(10..) {
        let mut client = Client::new(&format!("ipn:1.{service}"), false);
        client.send(adu("ipn:1.42", priority, 7), &[7; 100]);
        world.connect(0, client);
    }
    world.until("all are held", |world| {
        world.machines[0].store.kept.bundles.len() == COMES.len()
    });
    let receiver = world.connect(0, Client::new("ipn:1.42", true));
    world.until("all are delivered", |world| {
        world.client(0, receiver).received.len() == COMES.len()
    });
    let received = &world.client(0, receiver).received;
    let levels: Vec<u32> = received
        .iter()
        .map(|it| it.0.priority.unwrap_or(2))
        .collect();
    assert_eq!(levels, [257, 6, 3, 2, 1]);
}

/// A neighbour that marks everything expedited has no more than it may; others that are modest are not behind it.
#[test]
fn a_neighbour_that_marks_everything_expedited_is_held_to_what_it_may() {
    let mut world = World::line(3, 10, |node, config| {
        if node == 2 {
            for listener in &mut config.listeners {
                listener.policy.highest_priority = Some(Priority::Normal);
            }
            for link in &mut config.links {
                link.policy.highest_priority = Some(Priority::Normal);
            }
        }
    });
    world.cut(1, 2);
    let send = |world: &mut World, at: usize, source: &str, priority| {
        let mut client = Client::new(source, false);
        for _ in 0..EACH {
            client.send(adu("ipn:3.42", priority, 7), &[7; 1_000]);
        }
        world.connect(at, client);
    };
    send(&mut world, 0, "ipn:1.14", Priority::MOST);
    world.until("the loud ones wait", |world| {
        world.machines[1].store.kept.bundles.len() == EACH
    });
    let node = world.machines[1].node.as_ref().unwrap();
    let views = node.bundles(world.now(1), BundleKey(0));
    let all: Vec<Priority> = views.map(|(_, it)| it.priority).collect();
    assert_eq!(all, [Priority::Normal; EACH]);
    send(&mut world, 1, "ipn:2.13", Priority::EXPEDITED);
    world.until("both wait", |world| {
        world.machines[1].store.kept.bundles.len() == 2 * EACH
    });
    world.join(1, 2);
    world.until("all are there", |world| {
        received(world, 2).len() == 2 * EACH
    });
    let received = received(&world, 2);
    let last = received.iter().rposition(|it| *it == Priority::EXPEDITED);
    assert!(last.is_some_and(|last| last < EACH + 2), "{received:?}");
}

#[test]
fn an_application_that_asks_for_more_than_it_may_is_told_so() {
    let mut world = World::line(1, 11, |_, config| {
        config.highest_priority = Some(Priority::Normal);
    });
    let mut client = Client::new("ipn:1.5", false);
    client.send(adu("ipn:2.42", Priority::Normal, 7), b"may");
    client.send(adu("ipn:2.42", Priority::EXPEDITED, 7), b"may not");
    client.send(adu("ipn:2.42", Priority::EXPEDITED, 6), b"may not");
    let stream = world.connect(0, client);
    world.until("all are answered", |world| {
        world.client(0, stream).responses.len() == 4
    });
    let responses = &world.client(0, stream).responses;
    let statuses: Vec<i32> = responses.iter().map(|it| it.response_status).collect();
    assert_eq!(statuses[2..], [STATUS_UNAUTHORIZED; 2]);
    assert!(responses[2].message.contains("highest_priority"));
}

#[test]
fn the_answer_of_the_echo_service_has_the_priority_of_its_question() {
    for version in [6, 7] {
        let mut world = World::line(2, 12, |_, _| ());
        let receiver = world.connect(0, Client::new("ipn:1.6", true));
        let mut asking = Client::new("ipn:1.6", false);
        for priority in COMES {
            // Two questions with one payload look as if the asker answered answers.
            let question = priority.level().to_be_bytes();
            asking.send(adu("ipn:2.7", priority, version), &question);
        }
        world.connect(0, asking);
        world.until("all are answered", |world| {
            world.client(0, receiver).received.len() == COMES.len()
        });
        for (adu, payload) in &world.client(0, receiver).received {
            let level = adu.priority.unwrap_or(2);
            assert_eq!(level.to_be_bytes()[2..], **payload, "version {version}");
        }
    }
}

/// Fragments of a large bundle let an expedited one pass.
#[test]
fn an_expedited_bundle_goes_between_the_fragments_of_another() {
    let mut world = World::line(2, 13, |_, config| {
        for link in &mut config.links {
            link.policy.fragment_octets = Some(10_000);
            link.policy.window_octets = 20_000;
        }
    });
    world.pace = Duration::from_micros(50);
    world.cut(0, 1);
    let mut client = Client::new("ipn:1.10", false);
    client.send(adu("ipn:2.42", Priority::Bulk, 7), &vec![7; 1_000_000]);
    world.connect(0, client);
    world.until("the large one waits", |world| {
        world.machines[0].store.kept.bundles.len() == 1
    });
    world.join(0, 1);
    world.until("it begins to leave", |world| received(world, 1).len() > 5);
    let mut client = Client::new("ipn:1.14", false);
    client.send(adu("ipn:2.42", Priority::MOST, 7), &[7; 100]);
    world.connect(0, client);
    world.until("the small one is there", |world| {
        received(world, 1).contains(&Priority::MOST)
    });
    let before = received(&world, 1).len();
    assert!(before < 50, "{before} fragments of another were before it");
}

/// Before the peer has said how fast it is, little goes ahead of what comes next.
#[test]
fn a_session_begins_with_little_that_waits_for_its_socket() {
    let mut world = World::line(2, 5, |_, _| ());
    world.until("the session is up", |world| {
        world.machines[0].node.as_ref().unwrap().sessions().len() == 1
    });
    world.machines[0].stuffed = true;
    let mut client = Client::new("ipn:1.10", false);
    for _ in 0..200 {
        client.send(adu("ipn:2.42", Priority::Normal, 7), &[7; 10_000]);
    }
    world.connect(0, client);
    world.until("all are held", |world| {
        world.machines[0].store.kept.bundles.len() == 200
    });
    let under_way = world.machines[0].node.as_ref().unwrap().sessions()[0].in_flight;
    assert!((5..=20).contains(&under_way), "{under_way} of 10 kB");
    world.unstuff(0);
    world.until("all have left", |world| {
        world.machines[0].store.kept.bundles.is_empty()
    });
}
