//! Custody of bundles of version 6: each custodian keeps a bundle until it is told that the next one has it, whatever breaks.

use std::collections::BTreeMap;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::v6::{self, BlockType};
use dhow_bundle::{Header, Reading};
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{AgeDialect, Config, Enabled, Route};
use proptest::prelude::*;

const NODES: usize = 4;

fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(6_000_000),
        bundle_flags: Some(v6::BundleFlags::CUSTODY_REQUESTED.bits()),
        bundle_version: Some(6),
        ..BundleAdu::default()
    }
}

/// Nodes in a line, with routes both ways.
fn line(seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    let nodes = u32::try_from(NODES).unwrap();
    let mut world = World::line(nodes, seed, |number, config| {
        for back in 1..number {
            config.routes.push(Route {
                to: format!("ipn:{back}.*"),
                via: format!("ipn:{}.0", number - 1),
                priority: 0,
            });
        }
        config.custody.delay_ms = 1_000;
        config.custody.retry_ms = 5_000;
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    world.until("the sessions are up", |world| {
        (0..NODES).all(|at| {
            !world.machines[at]
                .node
                .as_ref()
                .unwrap()
                .sessions()
                .is_empty()
        })
    });
    world
}

/// The custodian of each bundle on the disk of a node, and its number there.
fn custodians(world: &World, at: usize) -> Vec<(String, Option<u64>)> {
    let kept = world.machines[at].store.kept.bundles.values();
    kept.map(|(_, octets)| {
        let header = Header::decode(octets, Reading::Strict).unwrap().unwrap();
        let old = header.as_v6().unwrap();
        let blocks = old.blocks.iter();
        let mut ids = blocks.filter(|block| block.block_type == BlockType::CUSTODY_OR_AGE);
        let id = ids.find_map(|block| block.custody_id());
        (old.primary.custodian.to_string(), id.map(|(id, _)| id))
    })
    .collect()
}

fn is_empty(world: &World) -> bool {
    (0..NODES).all(|at| world.machines[at].store.kept.bundles.is_empty())
}

#[test]
fn custody_goes_from_node_to_node_and_ends_at_the_destination() {
    for aggregate in [Enabled::Yes, Enabled::No] {
        let mut world = line(1, |_, config| config.custody.aggregate = aggregate);
        let mut sender = Client::new("ipn:1.5", false);
        for octets in [0, 100, 20_000, 600_000] {
            sender.send(adu("ipn:4.42"), &vec![7; octets]);
        }
        world.connect(0, sender);
        let mut seen = BTreeMap::new();
        world.until("all are at the last node", |world| {
            for at in 0..NODES {
                world.check(at);
                for (custodian, id) in custodians(world, at) {
                    if custodian != "dtn:none" {
                        seen.insert((at, custodian), id);
                    }
                }
            }
            custodians(world, 3).len() == 4
        });
        // Each node but the first one got bundles whose custodian was the node before it.
        for at in 1..NODES {
            let id = seen.get(&(at, format!("ipn:{at}.0"))).expect("it came");
            assert_eq!(id.is_some(), aggregate == Enabled::Yes);
        }
        let receiver = world.connect(3, Client::new("ipn:4.42", true));
        world.until("all is over", |world| {
            world.client(3, receiver).received.len() == 4 && is_empty(world)
        });
    }
}

/// RFC 5050 5.12: the destination has it, and the custodian is not told: it sends again, and again later, until the bundle expires.
#[test]
fn a_custodian_that_hears_nothing_sends_again() {
    let mut world = line(2, |number, config| {
        if number == 4 {
            config.routes.clear();
        }
        if number == 3 {
            config.custody.accept = Enabled::No;
        }
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), b"hello");
    world.connect(0, sender);
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    world.until("it is delivered", |world| {
        !world.client(3, receiver).received.is_empty()
    });
    let duplicates = |world: &World| {
        world.machines[3]
            .node
            .as_ref()
            .unwrap()
            .counters()
            .duplicates
    };
    world.until("it came again", |world| duplicates(world) >= 2);
    assert_eq!(world.client(3, receiver).received.len(), 1);
    assert_eq!(custodians(&world, 1).len(), 1, "the second node keeps it");
    world.until("the third node, no custodian, has passed it on", |world| {
        custodians(world, 2).is_empty()
    });
}

#[test]
fn a_node_that_takes_no_custody_passes_the_bundle_on_as_it_is() {
    let mut world = line(3, |number, config| {
        if number == 2 || number == 3 {
            config.custody.accept = Enabled::No;
        }
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), b"hello");
    world.connect(0, sender);
    world.until("it is at the last node", |world| {
        custodians(world, 3) == [("ipn:1.0".to_owned(), Some(1))]
    });
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    world.until("all is over", |world| {
        world.client(3, receiver).received.len() == 1 && is_empty(world)
    });
}

/// A neighbour that takes type 10 for a bundle's age gets no block of a custody ID, neither this node's nor another custodian's.
#[test]
fn a_neighbour_that_has_the_age_in_type_10_gets_no_custody_id() {
    for (accept, custodian) in [(Enabled::Yes, "ipn:2.0"), (Enabled::No, "ipn:1.0")] {
        let mut world = line(5, |number, config| {
            if number == 2 {
                config.custody.accept = accept;
                config.links[0].policy.age_dialect = AgeDialect::Type10;
            }
        });
        let mut sender = Client::new("ipn:1.5", false);
        sender.send(adu("ipn:3.42"), b"hello");
        sender.send(adu("ipn:3.42"), &[7; 100_000]);
        world.connect(0, sender);
        let mut seen = false;
        world.until("both are at the third node", |world| {
            let of_second = custodians(world, 1);
            seen |= of_second.contains(&("ipn:1.0".to_owned(), Some(1)));
            custodians(world, 2) == [(custodian.to_owned(), None), (custodian.to_owned(), None)]
        });
        assert!(seen, "the second node got a custody ID");
        let receiver = world.connect(2, Client::new("ipn:3.42", true));
        world.until("all is over", |world| {
            world.client(2, receiver).received.len() == 2 && is_empty(world)
        });
    }
}

/// RFC 5050 5.12: all fragments of a bundle are acknowledged, and lost with the next hop's disk before the custodian heard a word. All of the bundle
/// leaves again, and not the last octet alone.
#[test]
fn a_bundle_whose_fragments_nobody_told_of_leaves_again_as_a_whole() {
    let mut world = line(5, |number, config| match number {
        3 => {
            config.listeners[0].policy.transfer_mru = 5_000;
            config.custody.accept = Enabled::No;
        }
        // Its signals have no way to the custodian.
        4 => config.routes.clear(),
        _ => {}
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), &[7; 12_000]);
    world.connect(0, sender);
    let before = world.connect(3, Client::new("ipn:4.42", true));
    world.until("it is delivered", |world| {
        world.client(3, before).received.len() == 1 && custodians(world, 2).is_empty()
    });
    assert_eq!(custodians(&world, 1).len(), 1, "nobody was told");
    world.crash(3);
    world.machines[3].store.kept = crate::world::store::Kept::default();
    world.machines[3].config.routes = world.machines[2].config.routes.clone();
    for route in &mut world.machines[3].config.routes {
        route.via = "ipn:3.0".into();
    }
    world.start(3);
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    world.until("all is over", |world| {
        world.client(3, receiver).received.len() == 1 && is_empty(world)
    });
}

/// RFC 5050 5.8, 6.1.2: a node that is no custodian cuts a bundle, and each fragment has the number that the custodian gave the whole. The next
/// custodian tells of each fragment by its own name: of the number it could only tell once it has them all.
#[test]
fn custody_of_a_fragment_is_told_by_its_name_whatever_number_it_has() {
    let mut world = line(6, |number, config| match number {
        2 => config.custody.accept = Enabled::No,
        3 => config.listeners[0].policy.transfer_mru = 5_000,
        _ => {}
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), &[7; 12_000]);
    world.connect(0, sender);
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    world.until("all is over", |world| {
        world.client(3, receiver).received.len() == 1 && is_empty(world)
    });
    let counters = world.machines[2].node.as_ref().unwrap().counters();
    assert!(counters.signals_sent >= 3, "one for each fragment");
}

/// RFC 5050 6.3: a signal for what was never sent means nothing.
#[test]
fn signals_about_nothing_change_nothing() {
    let mut world = line(4, |_, _| ());
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:4.42"), b"hello");
    world.connect(0, sender);
    world.until("it is at the last node", |world| {
        custodians(world, 3).len() == 1
    });
    world.until("the others have let go", |world| {
        (0..3).all(|at| world.machines[at].store.kept.bundles.is_empty())
    });
    assert!((0..NODES).all(|at| {
        let counters = world.machines[at].node.as_ref().unwrap().counters();
        counters.signals_ignored == 0 && counters.transitions_refused == 0
    }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Nothing in custody is lost, nothing is delivered twice, and every custody is resolved.
    #[test]
    fn whatever_breaks_bundles_arrive_once_and_nobody_stays_custodian(
        seed in any::<u64>(),
        octets in prop::collection::vec(0_usize..120_000, 1..8),
        breaks in prop::collection::vec((0_usize..3, 0..3_u8, 0_u32..400), 0..12),
        piece in prop::option::of(5_000_u64..60_000),
        aggregate in any::<bool>(),
    ) {
        let mut world = line(seed, |_, config| {
            config.custody.aggregate = if aggregate { Enabled::Yes } else { Enabled::No };
            if let Some(link) = config.links.first_mut() {
                link.policy.fragment_octets = piece;
            }
        });
        let mut sender = Client::new("ipn:1.5", false);
        for octets in &octets {
            sender.send(adu("ipn:4.42"), &vec![7; *octets]);
        }
        let sending = world.connect(0, sender);
        let count = octets.len();
        world.until("all are accepted", |world| world.client(0, sending).responses.len() > count);
        for (at, kind, steps) in breaks {
            world.settle_some(steps);
            match kind {
                0 => {
                    world.cut(at, at + 1);
                    world.join(at, at + 1);
                }
                _ => {
                    world.crash(at + usize::from(kind == 1));
                    world.start(at + usize::from(kind == 1));
                }
            }
        }
        let receiver = world.connect(3, Client::new("ipn:4.42", true));
        world.until("all is over", |world| {
            for at in 0..NODES {
                world.check(at);
            }
            world.client(3, receiver).received.len() >= count && is_empty(world)
        });
        prop_assert_eq!(world.client(3, receiver).received.len(), count);
    }
}
