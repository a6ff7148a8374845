//! Nodes that find each other by their beacons.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use bytes::Bytes;
use dhow_bundle::NodeId;
use dhow_link::discovery::{Beacon, Format, Host, Service, ServiceProtocol};
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Config, DiscoverConfig, DiscoverId, Enabled, LinkConfig};
use dhow_node::discovery::origin::BeaconOrigin;
use dhow_node::discovery::refused::Refused;
use dhow_node::driver::{BeaconTo, Event, LinkAddress, Occurrence, OperatorCommand, Ticket};
use dhow_node::view::{LinkOrigin, NeighbourView};

fn configure(config: &mut Config) {
    config.routes.clear();
    config.links.clear();
    config.discover = vec![DiscoverConfig::usual(LinkConfig::usual(String::new()))];
}

fn nodes(count: u32, seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    World::line(count, seed, |number, config| {
        configure(config);
        edit(number, config);
    })
}

fn address(at: usize) -> SocketAddr {
    let last = u8::try_from(at + 1).unwrap();
    SocketAddr::from(([192, 0, 2, last], 4551))
}

/// The port says at which machine a service is.
fn service(at: usize) -> Service {
    Service {
        protocol: ServiceProtocol::Tcpcl,
        host: Host::Sender,
        port: u16::try_from(at + 1).unwrap(),
    }
}

fn id(node: u64) -> NodeId {
    format!("ipn:{node}.0").parse().unwrap()
}

fn say(world: &mut World, to: usize, from: SocketAddr, beacon: &Beacon) {
    let mut octets = Vec::new();
    beacon.encode(Format::Ipnd4, &mut octets);
    let (place, octets) = (DiscoverId(0), Bytes::from(octets));
    world.handle(
        to,
        Event::Beacon {
            place,
            from,
            octets,
        },
    );
}

fn beacon(node: u64, services: Vec<Service>) -> Beacon {
    Beacon {
        node: id(node),
        period: Some(Duration::from_secs(1)),
        sequence: 0,
        services,
    }
}

/// Carry the beacons that nodes have to send to those that can hear them.
fn carry(world: &mut World) {
    loop {
        let mut carried = 0;
        for at in 0..world.machines.len() {
            for announcement in std::mem::take(&mut world.machines[at].beacons) {
                carried += 1;
                let beacon = Beacon {
                    period: Some(Duration::from_millis(announcement.period_ms)),
                    sequence: announcement.sequence,
                    ..beacon(u64::try_from(at).unwrap() + 1, vec![service(at)])
                };
                for to in 0..world.machines.len() {
                    let is_cut = world.cut.contains(&(at.min(to), at.max(to)));
                    let is_meant = match announcement.to {
                        BeaconTo::Destination(_) => to != at,
                        BeaconTo::Address(it) => it == address(to),
                    };
                    if is_meant && !is_cut && world.machines[to].node.is_some() {
                        say(world, to, address(at), &beacon);
                    }
                }
            }
        }
        if carried == 0 {
            return;
        }
    }
}

/// Let so many tenths of a second pass.
fn pass(world: &mut World, tenths: u32) {
    for _ in 0..tenths {
        carry(world);
        world.settle_some(200);
        world.pass(Duration::from_millis(100));
    }
    carry(world);
    world.settle_some(200);
}

fn found(world: &World, at: usize) -> Vec<NeighbourView> {
    world.machines[at].node.as_ref().unwrap().neighbours_found()
}

fn sessions(world: &World, at: usize) -> usize {
    world.machines[at].node.as_ref().unwrap().sessions().len()
}

fn links(world: &World, at: usize) -> Vec<(String, LinkOrigin)> {
    let links = world.machines[at].node.as_ref().unwrap().links();
    links.into_iter().map(|it| (it.name, it.origin)).collect()
}

fn refused(world: &World, at: usize, reason: Refused) -> u64 {
    let node = world.machines[at].node.as_ref().unwrap();
    node.beacon_counts().refused(reason)
}

#[test]
fn three_nodes_find_each_other_and_exchange_bundles() {
    for seed in 0..8 {
        let mut world = nodes(3, seed, |_, _| {});
        pass(&mut world, 3);
        for at in 0..3 {
            assert_eq!(found(&world, at).len(), 2, "seed {seed}");
            assert_eq!(sessions(&world, at), 2, "one dials, and that is enough");
        }
        let made = |at: usize| links(&world, at).len();
        assert_eq!((made(0), made(1), made(2)), (2, 1, 0), "the smaller dials");
        let mut sender = Client::new("ipn:1.9", false);
        let adu = BundleAdu {
            dst_eid: "ipn:3.1".into(),
            lifetime_ms: Some(86_400_000),
            ..BundleAdu::default()
        };
        sender.send(adu, b"to somebody who was found");
        world.connect(0, sender);
        let receiver = world.connect(2, Client::new("ipn:3.1", true));
        world.until("it is delivered", |world| {
            world.client(2, receiver).received.len() == 1
        });
        for at in 0..3 {
            world.check(at);
        }
    }
}

#[test]
fn a_neighbour_that_falls_silent_is_lost_and_found_again() {
    let mut world = nodes(2, 1, |_, _| {});
    pass(&mut world, 3);
    assert_eq!(
        links(&world, 0),
        [("found-ipn-2".into(), LinkOrigin::Found)]
    );
    world.crash(1);
    pass(&mut world, 16);
    assert_eq!(found(&world, 0).len(), 1, "not yet");
    pass(&mut world, 5);
    assert_eq!((found(&world, 0).len(), links(&world, 0).len()), (0, 0));
    let is_lost =
        |it: &Occurrence| matches!(it, Occurrence::NeighbourLost { node } if *node == id(2));
    assert!(world.machines[0].occurrences.iter().any(is_lost));
    world.start(1);
    pass(&mut world, 15);
    assert_eq!((found(&world, 0).len(), sessions(&world, 0)), (1, 1));
}

#[test]
fn a_neighbour_that_says_no_period_is_waited_for_longer() {
    let mut world = nodes(1, 1, |_, config| config.discover[0].announce = Enabled::No);
    let silent = Beacon {
        period: None,
        ..beacon(9, vec![service(80)])
    };
    say(&mut world, 0, address(7), &silent);
    pass(&mut world, 110);
    assert_eq!(found(&world, 0).len(), 1);
    pass(&mut world, 4);
    assert_eq!(found(&world, 0).len(), 0);
}

#[test]
fn a_neighbour_whose_session_lives_is_not_lost() {
    let mut world = nodes(2, 1, |_, _| {});
    pass(&mut world, 3);
    for _ in 0..100 {
        world.machines[1].beacons.clear();
        world.pass(Duration::from_millis(100));
        world.settle_some(100);
    }
    assert_eq!((found(&world, 0).len(), sessions(&world, 0)), (1, 1));
}

#[test]
fn the_larger_node_dials_when_the_smaller_does_not() {
    // The first hears nobody.
    let mut world = nodes(2, 1, |number, config| {
        if number == 1 {
            config.discover[0].listen = Enabled::No;
        }
    });
    pass(&mut world, 4);
    assert_eq!(sessions(&world, 0), 0);
    // In the second in which it was heard.
    pass(&mut world, 4);
    assert_eq!(sessions(&world, 0), 1);
    assert_eq!(
        links(&world, 1),
        [("found-ipn-1".into(), LinkOrigin::Found)]
    );
}

#[test]
fn a_neighbour_that_dials_and_cannot_be_dialled_is_dialled_no_more() {
    let mut world = nodes(2, 1, |number, config| {
        config.discover[0].announce = Enabled::No;
        if number == 2 {
            let link = LinkConfig::usual("first".into());
            config.links = vec![LinkConfig {
                enabled: Enabled::No,
                ..link
            }];
        }
    });
    // Nobody is at the port that it names.
    let wrong = Service {
        port: 80,
        ..service(1)
    };
    let lasting = beacon(2, vec![wrong]);
    for tenth in 0..40 {
        say(&mut world, 0, address(1), &lasting);
        pass(&mut world, 1);
        if tenth == 10 {
            assert_eq!((links(&world, 0).len(), sessions(&world, 0)), (1, 0));
            world.machines[1].leads = vec![0];
            let ticket = Ticket(1);
            let command = OperatorCommand::LinkUp("first".into());
            world.handle(1, Event::Operator { ticket, command });
        }
    }
    assert_eq!((links(&world, 0).len(), sessions(&world, 0)), (0, 1));
    assert_eq!(found(&world, 0)[0].sessions, 1);
}

#[test]
fn a_node_that_goes_says_so_and_is_lost_at_once() {
    let mut world = nodes(2, 1, |_, _| {});
    pass(&mut world, 3);
    world.handle(1, Event::Shutdown);
    pass(&mut world, 2);
    assert_eq!(found(&world, 0).len(), 0);
    assert_eq!(links(&world, 0), []);
}

#[test]
fn somebody_else_at_an_address_is_found_out_and_not_tried_again_for_a_while() {
    let mut world = nodes(2, 1, |_, config| config.discover[0].announce = Enabled::No);
    // Node 2 is where node 9 is said to be.
    let lie = beacon(9, vec![service(1)]);
    for _ in 0..50 {
        say(&mut world, 0, address(7), &lie);
        pass(&mut world, 1);
    }
    assert_eq!((links(&world, 0).len(), sessions(&world, 0)), (0, 0));
    assert_eq!(found(&world, 0).len(), 0);
    assert_eq!(world.machines[0].found.len(), 1, "it is tried once");
    assert!(refused(&world, 0, Refused::Identity) >= 40);
    // The one who has the name is found where it is.
    let truth = beacon(2, vec![service(1)]);
    say(&mut world, 0, address(1), &truth);
    pass(&mut world, 2);
    assert_eq!(sessions(&world, 0), 1);
    // After a minute the address counts again.
    for _ in 0..60 {
        say(&mut world, 0, address(7), &lie);
        pass(&mut world, 10);
    }
    assert_eq!(world.machines[0].found.len(), 3);
}

#[test]
fn addresses_at_which_nobody_can_be_are_refused() {
    let mut world = nodes(1, 1, |_, config| config.discover[0].announce = Enabled::No);
    let at = |host: &str| {
        beacon(
            9,
            vec![Service {
                host: Host::Address(host.parse().unwrap()),
                ..service(1)
            }],
        )
    };
    let refused_hosts = [
        "224.0.0.142",
        "255.255.255.255",
        "127.0.0.1",
        "::1",
        "ff02::142",
        "::ffff:127.0.0.1",
        "::ffff:224.0.0.142",
        "::ffff:0.0.0.0",
    ];
    for host in refused_hosts {
        say(&mut world, 0, address(7), &at(host));
    }
    for name in ["127.0.0.1", "224.0.0.142", "0.0.0.0"] {
        let service = Service {
            host: Host::Name(name.into()),
            ..service(1)
        };
        say(&mut world, 0, address(7), &beacon(2, vec![service]));
    }
    assert_eq!(refused(&world, 0, Refused::Address), 11);
    assert_eq!(found(&world, 0).len(), 0);
    let loopback = SocketAddr::from(([127, 0, 0, 1], 4551));
    say(&mut world, 0, loopback, &at("127.0.0.1"));
    world.settle_some(10);
    let LinkAddress { host, port, .. } = world.machines[0].found[0].clone();
    assert_eq!((host.as_str(), port), ("127.0.0.1", 2));
}

#[test]
fn the_driver_is_told_from_where_the_name_of_a_host_came_and_a_form_of_an_address_is_no_other_one()
{
    let mut world = nodes(1, 1, |_, _| {});
    let hosts = [
        Host::Name("localhost".into()),
        Host::Address("::ffff:192.0.2.9".parse().unwrap()),
    ];
    let services = hosts.map(|host| Service { host, ..service(1) });
    let loopback = SocketAddr::from(([127, 0, 0, 1], 4551));
    for (node, from, service) in [(2, address(7), 0), (3, loopback, 0), (4, address(7), 1)] {
        let services = vec![services[service].clone()];
        say(&mut world, 0, from, &beacon(node, services));
    }
    world.settle_some(10);
    let told = world.machines[0].found.iter();
    let told: Vec<_> = told.map(|it| (it.host.as_str(), it.origin)).collect();
    assert_eq!(
        told,
        [
            ("localhost", BeaconOrigin::Elsewhere),
            ("localhost", BeaconOrigin::ThisMachine),
            ("192.0.2.9", BeaconOrigin::Elsewhere),
        ]
    );
}

#[test]
fn own_names_unwanted_names_and_beacons_without_a_use_are_counted() {
    let mut world = nodes(1, 1, |_, config| {
        config.discover[0].announce = Enabled::No;
        config.discover[0].accept = vec!["ipn:[2-5].*".into()];
    });
    say(&mut world, 0, address(7), &beacon(1, vec![service(1)]));
    say(&mut world, 0, address(7), &beacon(6, vec![service(1)]));
    say(&mut world, 0, address(7), &beacon(5, vec![]));
    let (place, octets) = (DiscoverId(0), Bytes::from_static(b"\x09 nothing"));
    let from = address(7);
    world.handle(
        0,
        Event::Beacon {
            place,
            from,
            octets,
        },
    );
    for reason in [
        Refused::Own,
        Refused::NotAccepted,
        Refused::NoService,
        Refused::Malformed,
    ] {
        assert_eq!(refused(&world, 0, reason), 1, "{reason:?}");
    }
    assert_eq!(found(&world, 0).len(), 0);
}

#[test]
fn a_flood_of_names_is_bounded_by_sender_by_second_and_at_all() {
    let mut world = nodes(1, 1, |_, config| {
        config.discover[0].announce = Enabled::No;
        config.discover[0].neighbours = 40;
    });
    let mut most = 0;
    for name in 0..3_000_u64 {
        // Ten senders, 100 names a second.
        let from = SocketAddr::from(([198, 51, 100, u8::try_from(name % 10).unwrap()], 4551));
        let lasting = Beacon {
            period: Some(Duration::from_secs(60)),
            ..beacon(1_000 + name, vec![service(1)])
        };
        say(&mut world, 0, from, &lasting);
        world.pass(Duration::from_millis(10));
        if name == 99 {
            most = found(&world, 0).len();
        }
    }
    assert!(most <= 32, "{most} in the first second");
    assert_eq!(found(&world, 0).len(), 40);
    assert!(refused(&world, 0, Refused::TooMany) > 2_000);
    assert!(refused(&world, 0, Refused::TooFast) > 50);
    let one = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 3));
    assert!(one.is_ipv4() && links(&world, 0).len() <= 40);
    world.check(0);
}

#[test]
fn a_neighbour_that_moves_is_dialled_at_its_new_address() {
    let mut world = nodes(2, 1, |_, config| config.discover[0].announce = Enabled::No);
    // Nobody is there.
    world.machines.iter_mut().for_each(|it| it.leads.clear());
    world.cut.push((0, 1));
    say(&mut world, 0, address(1), &beacon(2, vec![service(1)]));
    pass(&mut world, 10);
    assert_eq!(sessions(&world, 0), 0);
    world.cut.clear();
    let moved = beacon(2, vec![service(1)]);
    let elsewhere = SocketAddr::from(([203, 0, 113, 9], 4551));
    for _ in 0..4 {
        say(&mut world, 0, elsewhere, &moved);
        pass(&mut world, 10);
    }
    let last = world.machines[0].found.last().unwrap();
    assert_eq!(last.host, "203.0.113.9");
    assert_eq!(sessions(&world, 0), 1);
}

#[test]
fn numbers_of_links_are_used_again() {
    let mut world = nodes(1, 1, |_, config| config.discover[0].announce = Enabled::No);
    for round in 0..6_000_u64 {
        let node = 10 + round;
        world.machines[0].leads = vec![0; 8_192];
        say(&mut world, 0, address(7), &beacon(node, vec![service(80)]));
        world.pass(Duration::from_millis(300));
        world.handle(0, Event::NetworkChanged);
        let gone = Beacon {
            period: Some(Duration::ZERO),
            ..beacon(node, vec![])
        };
        say(&mut world, 0, address(7), &gone);
        world.settle_some(2);
    }
    let links = &world.machines[0].found;
    assert_eq!(links.len(), 6_000);
    let highest = links.iter().map(|it| it.link.0).max().unwrap();
    assert!(highest < 200, "{highest}");
}

#[test]
fn an_operator_does_not_delete_a_link_that_was_found_and_a_route_keeps_it() {
    let mut world = nodes(2, 1, |_, _| {});
    pass(&mut world, 3);
    let ticket = Ticket(1);
    world.hostile = true;
    let command = OperatorCommand::LinkDelete("found-ipn-2".into());
    world.handle(0, Event::Operator { ticket, command });
    world.settle_some(50);
    assert!(world.answer.take().unwrap().is_err());
    world.hostile = false;
    let route = dhow_node::config::Route {
        to: "ipn:3.*".into(),
        via: "found-ipn-2".into(),
        priority: 0,
    };
    let command = OperatorCommand::RouteAdd(route);
    world.handle(0, Event::Operator { ticket, command });
    world.crash(1);
    pass(&mut world, 50);
    assert_eq!(links(&world, 0).len(), 1, "bundles wait for it");
}
