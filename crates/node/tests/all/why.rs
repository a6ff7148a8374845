//! The answers of a node when an operator asks why something waits.

use crate::world::client::Client;
use crate::world::{World, contact};
use dhow_bundle::router::{Acknowledgments, DropPolicy};
use dhow_bundle::{BundleFlags, EndpointId};
use dhow_link::stream::RefuseReason;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{
    Config, DialTime, Enabled, ListenerConfig, RouterKind, Routing, SessionPolicy,
};
use dhow_node::view::{BundleState, LinkState};
use dhow_node::why::{Bar, Cause, Way, Why};

fn line(count: u32, edit: impl Fn(u32, &mut Config)) -> World {
    let mut world = World::line(count, 7, edit);
    world.stay(1);
    world
}

/// Node 1 sends so many octets to an endpoint.
fn send(world: &mut World, to: &str, flags: u64, octets: usize) {
    let mut sender = Client::new("ipn:1.9", false);
    let adu = BundleAdu {
        dst_eid: to.into(),
        lifetime_ms: Some(86_400_000),
        bundle_flags: Some(flags),
        ..BundleAdu::default()
    };
    sender.send(adu, &vec![7; octets]);
    world.connect(0, sender);
    world.stay(1);
}

fn of_endpoint(world: &World, to: &str) -> Why {
    let to: EndpointId = to.parse().unwrap();
    let node = world.machines[0].node.as_ref().unwrap();
    node.why_endpoint(world.now(0), &to)
}

fn listeners(policy: SessionPolicy) -> Vec<ListenerConfig> {
    Vec::from([ListenerConfig {
        policy,
        ..ListenerConfig::default()
    }])
}

/// The answer about the only bundle of node 1.
fn of_bundle(world: &World) -> Why {
    let node = world.machines[0].node.as_ref().unwrap();
    let now = world.now(0);
    let mut all = node.bundles(now, dhow_bundle::storage::BundleKey(0));
    let (_, only) = all.next().expect("it is here");
    assert!(all.next().is_none());
    node.why_bundle(now, &only.id).unwrap()
}

fn way(why: &Why) -> &Way {
    match &why.causes[..] {
        [Cause::Way(way), ..] => way,
        causes => panic!("{causes:?}"),
    }
}

#[test]
fn without_a_route_that_is_the_cause_before_and_after_something_is_sent() {
    let mut world = line(2, |_, config| config.routes.clear());
    assert!(matches!(
        of_endpoint(&world, "ipn:9.1").causes[..],
        [Cause::NoRoute]
    ));
    send(&mut world, "ipn:9.1", 0, 10);
    let why = of_endpoint(&world, "ipn:9.1");
    assert!(matches!(why.causes[..], [Cause::NoRoute]), "{why:?}");
    assert_eq!(why.present.waiting, 1);
    let why = of_bundle(&world);
    assert!(matches!(why.causes[..], [Cause::NoRoute]), "{why:?}");
    assert_eq!(why.bundle.unwrap().state, BundleState::Waiting);
    let node = world.machines[0].node.as_ref().unwrap();
    assert!(!node.destinations(world.now(0), 0, 9)[0].1.is_routed);
}

#[test]
fn a_link_that_is_down_is_told_with_who_took_it_down() {
    let mut world = line(2, |_, config| {
        for link in &mut config.links {
            link.enabled = Enabled::No;
        }
    });
    send(&mut world, "ipn:2.1", 0, 10);
    let why = of_bundle(&world);
    let link = way(&why).link.as_ref().unwrap();
    assert_eq!((way(&why).sessions, link.state), (0, LinkState::Down));
}

#[test]
fn the_next_hop_of_what_is_on_its_way_is_told_too() {
    let mut world = line(2, |_, _| {});
    world.machines[1].stalled = true;
    send(&mut world, "ipn:2.1", 0, 10);
    let node = world.machines[0].node.as_ref().unwrap();
    assert_eq!(node.waiting().iter().map(|it| it.bundles).sum::<u64>(), 0);
    let view = &node.destinations(world.now(0), 0, 9)[0].1;
    assert_eq!(view.bundles, 1);
    assert!(view.next_hop.is_some(), "{view:?}");
    let why = of_endpoint(&world, "ipn:2.1");
    assert_eq!((why.present.waiting, why.present.in_flight), (0, 1));
}

#[test]
fn the_next_planned_contact_is_told() {
    let mut world = line(2, |_, config| {
        for link in &mut config.links {
            link.dial = DialTime::Contacts;
            link.policy.peer = Some("ipn:2.0".parse().unwrap());
        }
        config
            .contacts
            .insert(contact((1, 2), (3_600, 3_660)))
            .unwrap();
    });
    send(&mut world, "ipn:2.1", 0, 10);
    let why = of_bundle(&world);
    let way = way(&why);
    assert_eq!(way.link.as_ref().unwrap().state, LinkState::Absent);
    assert!((3_500_000..3_600_000).contains(&way.contact_begins_in_ms.unwrap()));
    assert_eq!(
        (way.contact_ends_in_ms, way.contact_ended_ago_ms),
        (None, None)
    );
}

#[test]
fn the_last_planned_contact_is_told_when_none_comes() {
    let mut world = line(2, |_, config| {
        for link in &mut config.links {
            link.dial = DialTime::Contacts;
            link.policy.peer = Some("ipn:2.0".parse().unwrap());
        }
        for times in [(10, 20), (30, 40)] {
            config.contacts.insert(contact((1, 2), times)).unwrap();
        }
    });
    let ended = |world: &World| way(&of_endpoint(world, "ipn:2.1")).contact_ended_ago_ms;
    world.stay(25);
    assert_eq!(ended(&world), None);
    world.stay(25);
    let ago = ended(&world).unwrap();
    assert!((5_000..20_000).contains(&ago), "{ago}");
}

#[test]
fn an_application_that_is_missing_is_told_from_one_that_is_away() {
    let mut world = line(1, |_, _| {});
    assert!(matches!(
        of_endpoint(&world, "ipn:1.3").causes[..],
        [Cause::NotRegistered]
    ));
    send(&mut world, "ipn:1.3", 0, 10);
    assert!(matches!(
        of_bundle(&world).causes[..],
        [Cause::NotRegistered]
    ));
    world.connect(0, Client::new("ipn:1.3", false));
    world.stay(1);
    assert!(matches!(
        of_bundle(&world).causes[..],
        [Cause::NoSubscriber]
    ));
}

#[test]
fn a_neighbour_that_refused_is_named_with_its_reason_while_the_bundle_rests() {
    let mut world = line(2, |number, config| {
        if number == 2 {
            config.links.clear();
            config.listeners = listeners(SessionPolicy {
                accept_sources: vec!["ipn:8.*".into()],
                ..SessionPolicy::default()
            });
        }
    });
    send(&mut world, "ipn:2.1", 0, 10);
    let why = of_bundle(&world);
    let [Cause::Resting(ms), Cause::Refused { by, reason, .. }] = &why.causes[..] else {
        panic!("{why:?}");
    };
    assert!((1..=60_000).contains(ms));
    assert_eq!(by.to_string(), "ipn:2.0");
    assert_eq!(*reason, RefuseReason::NotAcceptable);
    let why = of_endpoint(&world, "ipn:2.1");
    let present = (why.present.waiting, why.present.resting);
    assert_eq!((present, why.present.retry_in_ms), ((0, 1), Some(*ms)));
    assert!(matches!(
        &why.causes[..],
        [Cause::Way(_), Cause::Refused { .. }]
    ));
}

#[test]
fn a_bundle_too_large_for_its_only_neighbour_says_so() {
    let mut world = line(2, |_, config| {
        config.listeners = listeners(SessionPolicy {
            transfer_mru: 1_000,
            ..SessionPolicy::default()
        });
        for link in &mut config.links {
            link.policy.transfer_mru = 1_000;
        }
    });
    let whole = BundleFlags::MUST_NOT_FRAGMENT.bits();
    send(&mut world, "ipn:2.1", whole, 5_000);
    let is_too_large = |why: &Why| {
        let found = why.causes.iter().find_map(|cause| match cause {
            Cause::Way(way) => Some(way),
            _ => None,
        });
        let bars = found.map(|way| (way.sessions, &way.bars[..]));
        matches!(bars, Some((1, [Bar::TooLarge { octets, transfer_mru: 1_000 }])) if *octets > 5_000)
    };
    let mut rested = false;
    for _ in 0..20 {
        let (bundle, endpoint) = (of_bundle(&world), of_endpoint(&world, "ipn:2.1"));
        let rests = matches!(bundle.causes[0], Cause::Resting(_));
        assert!(is_too_large(&bundle), "{bundle:?}");
        assert!(!rests || is_too_large(&endpoint), "{endpoint:?}");
        rested |= rests;
        world.stay(1);
    }
    assert!(rested);
}

#[test]
fn of_an_endpoint_with_fragments_it_is_told_how_much_of_the_whole_is_here() {
    let mut world = line(2, |number, config| {
        config.listeners = listeners(SessionPolicy {
            transfer_mru: 1_000,
            ..SessionPolicy::default()
        });
        if number == 2 {
            config.links.clear();
        }
    });
    let there = |world: &World| {
        let node = world.machines[1].node.as_ref().unwrap();
        node.why_endpoint(world.now(1), &"ipn:2.1".parse().unwrap())
    };
    let mut sender = Client::new("ipn:1.9", false);
    let adu = BundleAdu {
        dst_eid: "ipn:2.1".into(),
        ..BundleAdu::default()
    };
    sender.send(adu, &vec![7; 50_000]);
    world.connect(0, sender);
    world.until("a fragment has come", |world| {
        there(world).present.fragments > 0
    });
    let why = there(&world);
    let [
        Cause::Fragments {
            octets,
            total_octets: 50_000,
        },
        Cause::NotRegistered,
    ] = why.causes[..]
    else {
        panic!("{why:?}");
    };
    assert!((1..50_000).contains(&octets), "{why:?}");
}

#[test]
fn of_a_router_it_is_told_that_it_has_nobody_or_chose_none() {
    let routed = |config: &mut Config| {
        config.routing = vec![Routing {
            to: "ipn:9.*".into(),
            router: RouterKind::Flood,
            copies: 8,
            acknowledgments: Acknowledgments::None,
            drop: DropPolicy::None,
        }];
    };
    let mut alone = line(1, |_, config| routed(config));
    send(&mut alone, "ipn:9.1", 0, 10);
    let why = of_bundle(&alone);
    assert_eq!(why.router.as_deref(), Some("flood"));
    assert!(matches!(why.causes[..], [Cause::NoNeighbour]), "{why:?}");
    let mut pair = line(2, |_, config| routed(config));
    send(&mut pair, "ipn:9.1", 0, 10);
    let why = of_bundle(&pair);
    assert!(matches!(why.causes[..], [Cause::NotChosen(1)]), "{why:?}");
}
