//! Copies that make room for others in a full store, where a policy says so (docs/routing.md).

use crate::world::World;
use crate::world::client::Client;
#[allow(
    dead_code,
    reason = "each test program uses what it needs of the world"
)]
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Acknowledgments, COPIES, Config, DropPolicy, RouterKind, Routing};

/// Octets of a payload that is larger than others.
const LARGE: usize = 20_000;

/// Two nodes, of which the second has room for ten bundles, one of them for exchanges.
fn two(router: RouterKind, drop: DropPolicy) -> World {
    two_with(router, drop, |config| config.quota_bundles = 10)
}

/// Two nodes, of which the second has little room.
fn two_with(router: RouterKind, drop: DropPolicy, room: impl Fn(&mut Config)) -> World {
    let mut world = World::line(2, 3, |number, config| {
        config.routes.clear();
        config.routing = vec![Routing {
            to: "ipn:*".into(),
            router,
            copies: COPIES,
            acknowledgments: Acknowledgments::None,
            drop,
        }];
        if number == 2 {
            room(config);
        }
    });
    world.refusals = 0;
    world.until("the session is up", |world| {
        let mut machines = world.machines.iter();
        machines.all(|machine| machine.node.as_ref().unwrap().sessions().len() == 1)
    });
    world
}

/// Gives a node bundles for somebody who is not there: octets and lifetime in hours of each.
fn send(world: &mut World, from: usize, bundles: &[(usize, u64)]) {
    let mut sender = Client::new(&format!("ipn:{}.5", from + 1), false);
    for (octets, hours) in bundles {
        let adu = BundleAdu {
            dst_eid: "ipn:99.42".into(),
            lifetime_ms: Some(hours * 3_600_000),
            ..BundleAdu::default()
        };
        sender.send(adu, &vec![7; *octets]);
    }
    world.connect(from, sender);
    world.stay(30);
}

/// The payload octets and lifetimes in hours of bundles that a node holds, and which node made them.
fn held(world: &World, at: usize) -> Vec<(u64, u64, String)> {
    let kept = world.machines[at].store.kept.bundles.values();
    let of_app = kept.filter(|(it, _)| it.id.source.service().as_deref() == Some("5"));
    let held = of_app.map(|(it, _)| {
        let node = it.id.source.node_id().unwrap().to_string();
        (it.payload_octets, it.lifetime_ms / 3_600_000, node)
    });
    held.collect()
}

fn dropped(world: &World, at: usize) -> u64 {
    let node = world.machines[at].node.as_ref().unwrap();
    node.counters().dropped
}

#[test]
fn a_full_store_refuses_where_no_policy_says_more() {
    let mut world = two(RouterKind::Flood, DropPolicy::None);
    let many: Vec<_> = (0..20).map(|it| (100, 10 + it)).collect();
    send(&mut world, 0, &many);
    assert_eq!(held(&world, 0).len(), 20);
    let first = held(&world, 1);
    assert!((8..=10).contains(&first.len()), "{first:?}");
    world.stay(600);
    assert_eq!(held(&world, 1), first);
    assert_eq!(dropped(&world, 1), 0);
}

#[test]
fn each_policy_keeps_others() {
    for router in [RouterKind::Flood, RouterKind::MaxProp] {
        for (policy, stays) in [
            (DropPolicy::FirstIn, 1),
            (DropPolicy::Last, 1),
            (DropPolicy::NearestExpiry, 30),
            (DropPolicy::Largest, 2),
            (DropPolicy::MostCopied, 0),
        ] {
            let mut world = two(router, policy);
            // The first expires last, the second is small, all others are large.
            let mut many = vec![(LARGE, 30), (10, 2)];
            many.extend([(LARGE, 1); 8]);
            send(&mut world, 0, &many);
            send(&mut world, 0, &[(LARGE, 1); 4]);
            world.stay(600);
            let left = held(&world, 1);
            let has = |hours| left.iter().any(|(_, it, _)| *it == hours);
            assert!(dropped(&world, 1) > 0, "{router:?}, {policy:?}");
            assert!(left.len() <= 10, "{router:?}, {policy:?}");
            assert!(stays == 0 || has(stays), "{router:?}, {policy:?}: {left:?}");
            assert_eq!(held(&world, 0).len(), 14, "the source keeps its own");
        }
    }
}

#[test]
fn with_a_policy_of_all_what_was_made_here_makes_room_for_what_an_application_gives() {
    let mut world = two(RouterKind::Epidemic, DropPolicy::FirstOfAll);
    let bundles: Vec<(usize, u64)> = (1..=24).map(|hours| (10, hours)).collect();
    for bundle in bundles.chunks(1) {
        send(&mut world, 1, bundle);
    }
    let mut hours: Vec<u64> = held(&world, 1).iter().map(|it| it.1).collect();
    hours.sort_unstable();
    // One place of the ten is for exchanges.
    assert_eq!(hours, (16..=24).collect::<Vec<u64>>());
    assert_eq!(dropped(&world, 1), 15);
}

#[test]
fn what_was_made_here_stays_whatever_comes() {
    let mut world = two(RouterKind::Epidemic, DropPolicy::FirstIn);
    let own = |world: &World| {
        let held = held(world, 1).into_iter();
        held.filter(|(_, _, node)| node == "ipn:2.0").count()
    };
    send(&mut world, 1, &[(10, 50); 6]);
    assert_eq!(own(&world), 6);
    send(&mut world, 0, &[(10, 9); 10]);
    world.stay(600);
    assert_eq!(own(&world), 6);
    // The applications of a full node are refused, and what came makes room for their next try.
    let before = dropped(&world, 1);
    send(&mut world, 1, &[(10, 50); 3]);
    assert!(dropped(&world, 1) > before || held(&world, 1).len() < 10);
}

#[test]
fn a_bundle_that_fits_no_empty_store_makes_no_copy_go() {
    let mut world = two_with(RouterKind::Flood, DropPolicy::FirstIn, |config| {
        config.quota_octets = 100_000;
    });
    send(&mut world, 0, &[(100, 10); 8]);
    assert_eq!(held(&world, 1).len(), 8);
    send(&mut world, 1, &[(150_000, 10)]);
    assert_eq!((held(&world, 1).len(), dropped(&world, 1)), (8, 0));
}

#[test]
fn copies_behind_many_bundles_of_this_node_are_found() {
    const OWN: usize = 4_200;
    let mut world = two_with(RouterKind::Flood, DropPolicy::FirstIn, |config| {
        config.quota_bundles = 5_000;
    });
    world.cut(0, 1);
    send(&mut world, 1, &[(10, 50); OWN]);
    assert_eq!(held(&world, 1).len(), OWN);
    world.join(0, 1);
    send(&mut world, 0, &[(10, 9); 1_000]);
    world.stay(600);
    // As many found room as came after the store was full, and not the one or two whose copies came first.
    let dropped = dropped(&world, 1);
    assert!(dropped > 100, "{dropped}");
}
