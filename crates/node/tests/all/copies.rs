//! Routers that choose who gets a copy: spray and wait, and PRoPHET (RFC 6693).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::{Header, Reading};
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Acknowledgments, Config, DropPolicy, RouterKind, Routing};
use dhow_node::driver::Occurrence;
use proptest::prelude::*;

/// Nodes in a circle, each with a session to the next.
fn circle(count: u32, seed: u64, router: RouterKind, copies: u32) -> World {
    believing(count, seed, (router, router.acknowledgments()), copies)
}

fn believing(
    count: u32,
    seed: u64,
    (router, acknowledgments): (RouterKind, Acknowledgments),
    copies: u32,
) -> World {
    let mut world = World::circle(count, seed, |_, config: &mut Config| {
        config.routes.clear();
        config.routing = vec![Routing {
            to: "ipn:*".into(),
            router,
            copies,
            acknowledgments,
            drop: DropPolicy::None,
        }];
    });
    world.refusals = 0;
    world.until("all sessions are up", |world| {
        let mut machines = world.machines.iter();
        machines.all(|machine| machine.node.as_ref().unwrap().sessions().len() == 2)
    });
    world
}

fn send(world: &mut World, from: usize, to: &str, bundles: usize) {
    let mut sender = Client::new(&format!("ipn:{}.5", from + 1), false);
    for number in 0..bundles {
        let adu = BundleAdu {
            dst_eid: to.into(),
            lifetime_ms: Some(86_400_000),
            ..BundleAdu::default()
        };
        sender.send(adu, format!("bundle {number}").as_bytes());
    }
    let sender = world.connect(from, sender);
    world.until("all are durable at the source", |world| {
        world.client(from, sender).responses.len() == bundles + 1
    });
}

/// The headers of bundles of applications that a node has in its store.
fn headers(world: &World, at: usize) -> Vec<Header> {
    let kept = world.machines[at].store.kept.bundles.values();
    let headers = kept.map(|(_, octets)| Header::decode(octets, Reading::Strict));
    let headers = headers.map(|header| header.unwrap().unwrap());
    headers
        .filter(|header| header.primary.source.service().as_deref() == Some("5"))
        .collect()
}

fn holders(world: &World) -> Vec<usize> {
    let all = 0..world.machines.len();
    all.filter(|at| !headers(world, *at).is_empty()).collect()
}

#[test]
fn copies_that_meet_are_refused_as_doubles_where_a_router_makes_them() {
    let mut refused = 0;
    for seed in 0..8 {
        let mut world = circle(4, seed, RouterKind::Epidemic, 8);
        send(&mut world, 0, "ipn:9.1", 50);
        world.settle_some(20_000);
        for occurrence in world.machines.iter().flat_map(|it| &it.occurrences) {
            if let Occurrence::RefusedIncoming { why, is_double, .. } = occurrence {
                assert!(*is_double, "{why}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn there_are_so_many_copies_and_no_more() {
    for (copies, expected) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (64, 8)] {
        let mut world = circle(8, 1, RouterKind::SprayAndWait, copies);
        send(&mut world, 0, "ipn:99.42", 1);
        world.stay(300);
        assert_eq!(holders(&world).len(), expected, "{copies} copies");
        // A bundle that a neighbour got says how many copies it may make, where that is more than one.
        let permits = (0..8).flat_map(|at| headers(&world, at));
        let permits: Vec<u64> = permits.filter_map(|header| header.permits()).collect();
        assert!(
            permits
                .iter()
                .all(|it| (2..=u64::from(copies / 2)).contains(it)),
            "{permits:?}"
        );
        assert_eq!(permits.is_empty(), copies < 4, "{permits:?}");
    }
}

#[test]
fn who_may_make_no_more_copies_meets_the_destination() {
    let mut world = circle(4, 2, RouterKind::SprayAndWait, 2);
    world.cut(2, 3);
    world.cut(1, 2);
    world.cut(0, 3);
    send(&mut world, 0, "ipn:3.42", 3);
    world.stay(60);
    assert_eq!(holders(&world), [0, 1]);
    world.join(0, 3);
    world.stay(60);
    assert_eq!(
        holders(&world),
        [0, 1],
        "each of both has one, and is no more to give it"
    );
    world.join(1, 2);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("all came", |world| {
        world.client(2, receiver).received.len() == 3
    });
}

#[test]
fn a_restart_neither_adds_copies_nor_takes_them_away() {
    let mut world = circle(6, 3, RouterKind::SprayAndWait, 4);
    world.cut(1, 2);
    world.cut(0, 5);
    send(&mut world, 0, "ipn:99.42", 1);
    world.stay(60);
    // The second node may make two, and has nobody to give one.
    assert_eq!(headers(&world, 1)[0].permits(), Some(2));
    assert_eq!(holders(&world), [0, 1]);
    for at in [0, 1] {
        world.crash(at);
        world.start(at);
    }
    world.join(0, 1);
    world.stay(60);
    assert_eq!(
        holders(&world),
        [0, 1],
        "nobody new is there to be given one"
    );
    world.join(1, 2);
    world.join(0, 5);
    world.stay(120);
    assert_eq!(holders(&world), [0, 1, 2, 5]);
    assert_eq!(headers(&world, 2)[0].permits(), None);
}

/// RFC 6693 2.1: a node that met the destination is given the bundle, and one that did not is not.
#[test]
fn those_who_met_the_destination_are_given_its_bundles() {
    let mut world = circle(4, 4, RouterKind::Prophet, 1);
    // The second and the last node have met the third, which is the destination. The first has met both, and heard of it.
    world.stay(30);
    world.cut(2, 3);
    world.cut(1, 2);
    world.stay(10);
    send(&mut world, 0, "ipn:3.42", 2);
    world.stay(30);
    assert_eq!(holders(&world), [0, 1, 3]);
    send(&mut world, 0, "ipn:99.42", 2);
    world.stay(30);
    assert_eq!(headers(&world, 1).len(), 2, "nobody has met node 99");
    world.join(1, 2);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("both came", |world| {
        world.client(2, receiver).received.len() == 2
    });
}

/// A bundle goes to all six nodes of a circle; once its destination, the fourth, has it, copies end where somebody is believed who says so.
#[test]
fn copies_end_as_far_as_somebody_is_believed() {
    for router in [RouterKind::Epidemic, RouterKind::MaxProp] {
        // Nobody has proven its name: only the destination's neighbours hear from it itself.
        for (trust, left) in [
            (Acknowledgments::None, vec![0, 1, 5]),
            (Acknowledgments::Verified, vec![0, 1, 5]),
            (Acknowledgments::Anyone, vec![]),
        ] {
            let mut world = believing(6, 5, (router, trust), 1);
            let receiver = world.connect(3, Client::new("ipn:4.42", true));
            send(&mut world, 0, "ipn:4.42", 3);
            world.stay(60);
            assert_eq!(world.client(3, receiver).received.len(), 3);
            assert_eq!(holders(&world), left, "{router:?}, {trust:?}");
            // A node that comes later is given none either, where they have ended.
            world.stay(60);
            assert_eq!(holders(&world), left, "{router:?}, {trust:?}");
        }
    }
}

/// Two bundles that have gone far wait for a contact; the one leaves first whose destination that neighbour's neighbour meets.
#[test]
fn likelihoods_travel_and_say_which_bundle_is_first() {
    let mut world = circle(6, 8, RouterKind::MaxProp, 1);
    world.cut(3, 4);
    world.cut(0, 5);
    // The fourth node has bundles of three hops from the first.
    send(&mut world, 0, "ipn:99.42", 1);
    send(&mut world, 0, "ipn:6.42", 1);
    world.stay(30);
    assert_eq!(holders(&world), [0, 1, 2, 3]);
    world.join(3, 4);
    let first = |world: &World| {
        let kept = world.machines[4].store.kept.bundles.values();
        let of_app = kept.filter(|(it, _)| it.id.source.service().as_deref() == Some("5"));
        let destinations: Vec<String> = of_app.map(|(it, _)| it.destination.to_string()).collect();
        destinations.first().cloned()
    };
    let mut came = None;
    world.until("the first comes", |world| {
        came = first(world);
        came.is_some()
    });
    assert_eq!(came.as_deref(), Some("ipn:6.42"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Links break and nodes crash; each bundle is delivered once, whatever chooses.
    #[test]
    fn whatever_breaks_bundles_are_delivered_once(
        seed in 0_u64..1_000,
        is_prophet in any::<bool>(),
        copies in 1_u32..9,
        troubles in prop::collection::vec((prop::sample::select(vec![0_usize, 1, 3, 4]), any::<bool>()), 0..6),
    ) {
        let router = if is_prophet { RouterKind::Prophet } else { RouterKind::SprayAndWait };
        let mut world = circle(5, seed, router, copies);
        send(&mut world, 0, "ipn:3.42", 4);
        let receiver = world.connect(2, Client::new("ipn:3.42", true));
        for (at, is_crash) in troubles {
            if is_crash {
                world.crash(at);
                world.start(at);
            } else {
                world.cut(at, (at + 1) % 5);
                world.join(at, (at + 1) % 5);
            }
            world.pass(Duration::from_secs(3));
        }
        world.stay(600);
        for at in 0..5 {
            world.check(at);
        }
        let received = &world.client(2, receiver).received;
        let payloads: BTreeSet<&Vec<u8>> = received.iter().map(|it| &it.1).collect();
        prop_assert_eq!(payloads.len(), received.len(), "each once");
        if copies == 8 && !is_prophet {
            prop_assert_eq!(received.len(), 4, "there are copies for all");
        }
    }
}
