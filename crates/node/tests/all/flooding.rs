//! Copies: nodes in a circle that give every neighbour what it has not had.

#[allow(
    dead_code,
    reason = "each test program uses what it needs of the world"
)]
use std::collections::BTreeMap;
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::storage::{BundleKey, REMOVED_BOUND};
use dhow_bundle::{BundleFlags, BundleId};
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Acknowledgments, COPIES, Config, DropPolicy, RouterKind, Routing};
use dhow_node::driver::{Occurrence, StreamId};
use proptest::prelude::*;

/// Nodes in a circle, each with a session to the next, which flood everything.
fn circle(count: u32, seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    let mut world = World::circle(count, seed, |number, config| {
        config.routes.clear();
        config.routing = vec![Routing {
            to: "ipn:*".into(),
            router: RouterKind::Flood,
            copies: COPIES,
            acknowledgments: Acknowledgments::None,
            drop: DropPolicy::None,
        }];
        config.removed_bound = REMOVED_BOUND;
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    world.until("all sessions are up", |world| {
        world.machines.iter().all(|machine| {
            let sessions = machine.node.as_ref().unwrap().sessions();
            sessions.len() == 2
        })
    });
    world
}

fn payload(number: usize, octets: usize) -> Vec<u8> {
    let octet = |place: usize| u8::try_from((place * 7 + number * 13) % 251).unwrap();
    (0..octets).map(octet).collect()
}

fn adu(destination: &str, lifetime: Duration, flags: BundleFlags) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(u64::try_from(lifetime.as_millis()).unwrap()),
        bundle_flags: Some(flags.bits()),
        ..BundleAdu::default()
    }
}

/// Sends bundles of these sizes.
fn send(world: &mut World, from: usize, to: &str, sizes: &[usize], lifetime: Duration) {
    let mut sender = Client::new(&format!("ipn:{}.5", from + 1), false);
    for (number, size) in sizes.iter().enumerate() {
        let adu = adu(to, lifetime, BundleFlags::NONE);
        sender.send(adu, &payload(number, *size));
    }
    let sender = world.connect(from, sender);
    world.until("all are durable at the source", |world| {
        world.client(from, sender).responses.len() == sizes.len() + 1
    });
}

/// Bundles of applications that a node holds.
fn stored(world: &World, at: usize) -> u64 {
    let node = world.machines[at].node.as_ref().unwrap();
    let adverts = node.bundles(world.now(at), BundleKey(0));
    let adverts = adverts.filter(|(_, bundle)| is_advert(&bundle.id)).count();
    node.stored().0 - u64::try_from(adverts).unwrap()
}

fn is_advert(id: &BundleId) -> bool {
    id.source.service().as_deref() == Some("5202")
}

/// Lets adverts, which may have been refused, go or expire.
fn let_adverts_go(world: &mut World) {
    world.until("no advert is left", |world| {
        (world.machines.iter()).all(|machine| machine.node.as_ref().unwrap().stored().0 == 0)
    });
}

fn delivered(world: &mut World, at: usize, receiver: StreamId) -> usize {
    world.client(at, receiver).received.len()
}

/// The number of times that each node gave each bundle of an application to each neighbour.
fn given(world: &World) -> BTreeMap<(usize, String, BundleId), u32> {
    let mut given = BTreeMap::new();
    for (at, machine) in world.machines.iter().enumerate() {
        for occurrence in &machine.occurrences {
            if let Occurrence::Forwarded { id, to, .. } = occurrence
                && !is_advert(id)
            {
                *given.entry((at, to.to_string(), id.clone())).or_insert(0) += 1;
            }
        }
    }
    given
}

fn check_all(world: &World) {
    for at in 0..world.machines.len() {
        world.check(at);
    }
}

#[test]
fn every_node_gets_a_copy_and_the_destination_delivers_one() {
    let mut world = circle(6, 1, |_, _| ());
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    send(
        &mut world,
        0,
        "ipn:4.42",
        &[0, 10, 20_000, 300_000],
        Duration::from_secs(600),
    );
    world.until("all are delivered", |world| {
        delivered(world, 3, receiver) == 4
    });
    // Neighbours of the destination gave it all and have none left; those behind keep their copies.
    world.until("all have had theirs", |world| {
        let held: Vec<u64> = (0..6).map(|at| stored(world, at)).collect();
        held == [4, 4, 0, 0, 0, 4]
    });
    world.pass(Duration::from_secs(5));
    world.settle();
    check_all(&world);
    assert_eq!(delivered(&mut world, 3, receiver), 4);
    for ((at, to, id), times) in given(&world) {
        assert_eq!(times, 1, "{at} gave {id} to {to} so often");
    }
    world.pass(Duration::from_secs(601));
    world.settle();
    let_adverts_go(&mut world);
    check_all(&world);
    for at in 0..6 {
        assert_eq!(stored(&world, at), 0);
        assert!(world.machines[at].node.as_ref().unwrap().is_at_rest());
    }
}

#[test]
fn a_neighbour_that_comes_later_gets_what_it_has_not_had() {
    let mut world = circle(4, 2, |_, _| ());
    // Node 4 is away; the others flood among themselves.
    world.cut(2, 3);
    world.cut(3, 0);
    send(
        &mut world,
        0,
        "ipn:9.1",
        &[100; 50],
        Duration::from_secs(900),
    );
    world.until("they have all", |world| {
        (stored(world, 1), stored(world, 2)) == (50, 50)
    });
    assert_eq!(stored(&world, 3), 0);
    let before = given(&world);
    world.join(2, 3);
    world.until("it has all", |world| stored(world, 3) == 50);
    world.pass(Duration::from_secs(5));
    world.settle();
    // A contact that brings nothing new costs nothing.
    for _ in 0..3 {
        world.cut(2, 3);
        world.settle();
        world.join(2, 3);
        world.pass(Duration::from_secs(3));
        world.settle();
    }
    let after = given(&world);
    let to_last = |((_, to, _), times): (&(usize, String, BundleId), &u32)| match to.as_str() {
        "ipn:4.0" => *times,
        _ => 0,
    };
    assert_eq!(before.iter().map(to_last).sum::<u32>(), 0);
    let new: u32 = after.iter().map(to_last).sum();
    assert_eq!(new, 50, "each is given once");
    check_all(&world);
}

#[test]
fn a_restart_does_not_give_neighbours_what_they_have_had() {
    let mut world = circle(4, 3, |_, _| ());
    world.cut(3, 0);
    send(
        &mut world,
        0,
        "ipn:9.1",
        &[100; 50],
        Duration::from_secs(900),
    );
    world.until("all have all", |world| {
        (1..4).all(|at| stored(world, at) == 50)
    });
    world.settle();
    let before = given(&world).values().sum::<u32>();
    for at in [0, 1] {
        world.crash(at);
        world.start(at);
    }
    world.until("sessions are up again", |world| {
        [0, 1, 2].iter().all(|&at: &usize| {
            let node = world.machines[at].node.as_ref().unwrap();
            node.sessions().len() == if at == 0 { 1 } else { 2 }
        })
    });
    world.pass(Duration::from_secs(5));
    world.settle();
    assert_eq!(given(&world).values().sum::<u32>(), before);
    // One that was away gets them all the same.
    world.join(3, 0);
    world.pass(Duration::from_secs(5));
    world.settle();
    check_all(&world);
    assert!((0..4).all(|at| stored(&world, at) == 50));
}

#[test]
fn a_bundle_that_two_neighbours_take_in_fragments_arrives_whole_at_both() {
    for seed in 0..8 {
        // Node 1 has node 2 as its next, and node 4 before it; both take small transfers, and one is cut in the middle.
        let mut world = circle(4, seed, |_, config| {
            for link in &mut config.links {
                link.policy.segment_octets = 20_000;
                link.policy.fragment_octets = Some(100_000);
            }
        });
        world.pace = Duration::from_millis(2);
        send(
            &mut world,
            0,
            "ipn:3.42",
            &[900_000],
            Duration::from_secs(900),
        );
        let carried = world.carried.get(&1).copied().unwrap_or(0);
        world.until("much has come", |world| {
            world.carried.get(&1).copied().unwrap_or(0) > carried + 300_000
        });
        world.cut(0, 1);
        world.settle();
        let receiver = world.connect(2, Client::new("ipn:3.42", true));
        world.join(0, 1);
        world.until("it is delivered", |world| {
            delivered(world, 2, receiver) == 1
        });
        world.settle();
        assert!(world.client(2, receiver).received[0].1 == payload(0, 900_000));
        check_all(&world);
    }
}

#[test]
fn destinations_of_other_patterns_go_by_routes() {
    let mut world = circle(4, 5, |number, config| {
        config.routing.push(Routing {
            to: "ipn:2.*".into(),
            router: RouterKind::Static,
            copies: COPIES,
            acknowledgments: Acknowledgments::None,
            drop: DropPolicy::None,
        });
        if number == 1 {
            config.routes.push(dhow_node::config::Route {
                to: "ipn:2.*".into(),
                via: "next".into(),
                priority: 0,
            });
        }
    });
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    send(
        &mut world,
        0,
        "ipn:2.42",
        &[10, 100_000],
        Duration::from_secs(600),
    );
    world.until("both are delivered", |world| {
        delivered(world, 1, receiver) == 2
    });
    world.settle();
    assert_eq!(given(&world).len(), 2, "nobody else had one");
    let routes = world.machines[0].node.as_ref().unwrap().routes();
    let shown = &routes[0];
    assert_eq!(
        (
            &*shown.route.to,
            &*shown.route.via,
            shown.router.clone(),
            shown.usable
        ),
        ("ipn:*", "*", Some("flood".into()), true)
    );
    assert_eq!(stored(&world, 0), 0);
    check_all(&world);
}

/// RFC 9171 4.2.3: nothing identifies them, so each copy would be another bundle, and each node would multiply them.
#[test]
fn bundles_without_a_source_go_by_routes() {
    let mut world = circle(4, 6, |_, _| ());
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    let mut sender = Client::new("ipn:1.5", false);
    for number in 0..5 {
        let adu = BundleAdu {
            src_eid: "dtn:none".into(),
            ..adu(
                "ipn:3.42",
                Duration::from_secs(60),
                BundleFlags::MUST_NOT_FRAGMENT,
            )
        };
        sender.send(adu, &payload(number, 100));
    }
    let sender = world.connect(0, sender);
    world.until("all are durable at the source", |world| {
        world.client(0, sender).responses.len() == 6
    });
    let responses: Vec<String> = (world.client(0, sender).responses.iter())
        .map(|response| format!("{response:?}"))
        .collect();
    world.pass(Duration::from_secs(20));
    world.settle();
    assert_eq!(stored(&world, 0), 5, "{responses:?}");
    let others: Vec<u64> = (1..4).map(|at| stored(&world, at)).collect();
    assert_eq!(
        (others, delivered(&mut world, 2, receiver)),
        (vec![0; 3], 0)
    );
    world.pass(Duration::from_secs(61));
    world.settle();
    assert_eq!(stored(&world, 0), 0);
    check_all(&world);
}

/// Bundles that two nodes have from a third each, and would give each other.
#[test]
fn neighbours_tell_each_other_what_they_hold() {
    let mut world = circle(4, 7, |_, _| ());
    world.cut(1, 2);
    world.cut(2, 3);
    send(
        &mut world,
        0,
        "ipn:9.1",
        &[100; 200],
        Duration::from_secs(900),
    );
    world.join(2, 3);
    world.until("all have all", |world| {
        (1..4).all(|at| stored(world, at) == 200)
    });
    // And have told each other what they have to say of them.
    world.pass(Duration::from_secs(5));
    world.settle();
    let counters = |world: &World, at: usize| world.machines[at].node.as_ref().unwrap().counters();
    let refused = counters(&world, 1).refused_by_peers + counters(&world, 2).refused_by_peers;
    let before = given(&world).len();
    let told: Vec<u64> = (0..4)
        .map(|at| counters(&world, at).adverts_taken)
        .collect();
    world.join(1, 2);
    world.until("each has told the other", |world| {
        [1, 2].map(|at| counters(world, at).adverts_taken > told[at]) == [true; 2]
    });
    world.pass(Duration::from_secs(5));
    world.settle();
    assert_eq!(given(&world).len(), before, "nobody needed anything");
    assert_eq!(
        [1, 2].map(|at| counters(&world, at).adverts_taken - told[at]),
        [1, 1],
        "each has told the other"
    );
    let now = counters(&world, 1).refused_by_peers + counters(&world, 2).refused_by_peers;
    assert_eq!(now, refused, "nobody was offered anything");
    assert!((0..4).all(|at| counters(&world, at).adverts_refused == 0));
    assert!((0..4).all(|at| stored(&world, at) == 200));
    check_all(&world);
}

#[test]
fn an_advert_of_anybody_but_the_neighbour_is_dropped() {
    let mut world = circle(3, 8, |_, _| ());
    send(
        &mut world,
        0,
        "ipn:2.5202",
        &[0, 1, 30, 70_000],
        Duration::from_secs(600),
    );
    send(&mut world, 1, "ipn:2.5202", &[30], Duration::from_secs(600));
    world.pass(Duration::from_secs(5));
    world.settle();
    let node = world.machines[1].node.as_ref().unwrap();
    assert_eq!(node.counters().adverts_refused, 5);
    assert!((0..3).all(|at| stored(&world, at) == 0));
    check_all(&world);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With crashes, cuts, disks that answer late and stores that refuse.
    #[test]
    fn what_is_flooded_arrives_unaltered_and_once(
        seed: u64,
        sizes in proptest::collection::vec(prop_oneof![0_usize..2_000, 20_000..400_000_usize], 1..12),
        troubles in proptest::collection::vec((0_usize..5, any::<bool>()), 0..8),
        limit in prop_oneof![Just(None), Just(Some(60_000_u64))],
        mru in prop_oneof![Just(1_u64 << 40), Just(100_000_u64)],
    ) {
        let mut world = circle(5, seed, |number, config| {
            for link in &mut config.links {
                link.policy.segment_octets = 20_000;
                link.policy.fragment_octets = limit.filter(|_| number % 2 == 0);
            }
            for listener in &mut config.listeners {
                listener.policy.transfer_mru = mru;
            }
        });
        world.pace = Duration::from_millis(1);
        let receiver = world.connect(2, Client::new("ipn:3.42", true));
        send(&mut world, 0, "ipn:3.42", &sizes, Duration::from_secs(6_000));
        world.refusals = 20;
        for (at, crashes) in troubles {
            world.settle_some(200);
            let next = (at + 1) % 5;
            if crashes && at != 2 {
                world.crash(at);
                world.settle_some(50);
                world.start(at);
            } else {
                world.cut(at, next);
                world.settle_some(100);
                world.join(at, next);
            }
        }
        world.until("all are delivered", |world| delivered(world, 2, receiver) == sizes.len());
        world.pass(Duration::from_secs(30));
        world.settle();
        let received = &world.client(2, receiver).received;
        prop_assert_eq!(received.len(), sizes.len());
        for (number, size) in sizes.iter().enumerate() {
            prop_assert!(received.iter().any(|(_, octets)| *octets == payload(number, *size)));
        }
        // A bundle of which a session had the first octets comes when that has ended, and is found to have expired at the turn after.
        for seconds in [3_100, 3_100, 1] {
            world.pass(Duration::from_secs(seconds));
            world.settle();
        }
        for at in 0..5 {
            world.check(at);
            prop_assert_eq!(stored(&world, at), 0, "node {} keeps some", at + 1);
        }
    }
}
