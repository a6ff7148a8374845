//! Payload blocks without checksums, for peers that refuse those that have one.

use std::collections::BTreeSet;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::v7::oracle::check_bundle;
use dhow_bundle::{BundleFlags, CrcType};
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Config, Enabled, PayloadChecksum};
use dhow_node::driver::StreamId;
use proptest::prelude::*;

fn payload(octets: usize) -> Vec<u8> {
    (0..octets)
        .map(|place| u8::try_from(place % 251).unwrap())
        .collect()
}

fn adu(destination: &str, flags: u64) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(6_000_000),
        bundle_flags: Some(flags),
        ..BundleAdu::default()
    }
}

/// A strict peer's view: how many bundles a node has on its disk whose payload block has no checksum, and how many with one.
fn on_disk(world: &World, at: usize) -> (usize, usize) {
    let kept = world.machines[at].store.kept.bundles.values();
    let none = |octets: &bytes::Bytes| {
        let header = check_bundle(octets).expect("it is a bundle").header;
        assert_eq!(
            header.primary.crc_type,
            CrcType::Crc32C,
            "the primary block keeps its own"
        );
        header.payload.crc_type == CrcType::None
    };
    let (bare, summed): (Vec<_>, Vec<_>) = kept.map(|(_, octets)| none(octets)).partition(|it| *it);
    (bare.len(), summed.len())
}

/// Three nodes, the second of which strips checksums on its link to the third, which nobody reads at.
fn stripping(seed: u64, edit: impl Fn(u32, &mut Config)) -> World {
    let mut world = World::line(3, seed, |number, config| {
        if number == 2 {
            config.links[0].policy.strip_checksum = Enabled::Yes;
        }
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    world.until("the sessions are up", |world| {
        let sessions = |at: usize| world.machines[at].node.as_ref().unwrap().sessions().len();
        [sessions(0), sessions(1), sessions(2)] == [1, 2, 1]
    });
    world
}

/// The payload is sent by node `from` and handed to an application of the third node.
fn crosses(world: &mut World, from: usize, octets: usize) -> StreamId {
    let mut sender = Client::new(&format!("ipn:{}.5", from + 1), false);
    sender.send(adu("ipn:3.42", 0), &payload(octets));
    world.connect(from, sender);
    world.until("the third node has it", |world| {
        let (bare, summed) = on_disk(world, 2);
        assert_eq!(summed, 0, "a strict peer refuses it");
        bare > 0 && world.machines[0].store.kept.bundles.is_empty() && held(world, 1) == 0
    });
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("it is delivered", |world| {
        assert_eq!(on_disk(world, 2).1, 0, "a strict peer refuses it");
        !world.client(2, receiver).received.is_empty()
    });
    assert!(world.client(2, receiver).received[0].1 == payload(octets));
    receiver
}

fn held(world: &World, at: usize) -> u64 {
    let node = world.machines[at].node.as_ref();
    node.map_or(0, |node| node.stored().0)
}

#[test]
fn bundles_of_every_size_leave_a_stripping_link_without_their_payloads_checksum() {
    for (seed, octets) in (0..).zip([0, 1, 900, 5_000, 17_000, 100_000, 600_000]) {
        for from in [0, 1] {
            let mut world = stripping(seed, |_, _| ());
            crosses(&mut world, from, octets);
            world.check(1);
        }
    }
}

#[test]
fn what_is_passed_on_while_it_comes_in_loses_its_checksum_too() {
    let mut passed = 0;
    for seed in 0..8 {
        let mut world = stripping(seed, |_, _| ());
        crosses(&mut world, 0, 600_000);
        let node = world.machines[1].node.as_ref().unwrap();
        passed += node.counters().passed;
    }
    assert!(passed >= 4, "{passed} of 8 were passed on");
}

#[test]
fn nothing_of_a_bundle_that_came_without_a_checksum_is_cut_off() {
    for octets in [0, 900, 100_000, 600_000] {
        let mut world = stripping(9, |number, config| {
            if number == 1 {
                config.payload_checksum = PayloadChecksum::None;
            }
        });
        crosses(&mut world, 0, octets);
    }
}

/// RFC 9171 4.2.1.
#[test]
fn all_that_a_node_makes_may_have_payloads_without_checksum() {
    let mut world = World::line(2, 1, |number, config| {
        config.reports.generate = BundleFlags::ALL_REPORTS.bits();
        if number == 1 {
            config.payload_checksum = PayloadChecksum::None;
        }
    });
    world.hostile = true;
    world.refusals = 0;
    let asks = BundleFlags::ALL_REPORTS.bits();
    let mut sender = Client::new("ipn:1.5", false);
    for octets in [0, 10, 50_000] {
        sender.send(adu("ipn:2.42", asks), &payload(octets));
    }
    world.connect(0, sender);
    // The other node's, to this one's echo service and to nobody.
    let mut asker = Client::new("ipn:2.6", false);
    asker.send(adu("ipn:1.7", 0), &payload(100));
    asker.send(adu("ipn:1.7", asks), &payload(50_000));
    world.connect(1, asker);
    let mut seen = BTreeSet::new();
    world.until("all are there", |world| {
        for (bundle, octets) in world.machines[1].store.kept.bundles.values() {
            if bundle.id.source.to_string().starts_with("ipn:1.") {
                let header = check_bundle(octets).unwrap().header;
                assert_eq!(header.payload.crc_type, CrcType::None, "{}", bundle.id);
                seen.insert((bundle.id.source.to_string(), bundle.id.creation));
            }
        }
        let of = |source: &str| seen.iter().filter(|(it, _)| it == source).count();
        // Bundles of the application, answers of the echo service, and reports of the node on a question.
        of("ipn:1.5") == 3 && of("ipn:1.7") == 2 && of("ipn:1.0") > 0
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// RFC 9171 5.8: fragments over a link that strips have none either, wherever the cut falls and whatever ends.
    #[test]
    fn fragments_leave_a_stripping_link_without_checksums(
        seed in any::<u64>(),
        octets in 2_000_usize..400_000,
        piece in 1_500_u64..200_000,
        cut_through in any::<bool>(),
        breaks in any::<bool>(),
    ) {
        let mut world = stripping(seed, |number, config| {
            if number == 2 {
                config.links[0].policy.fragment_octets = Some(piece);
                config.links[0].policy.cut_through =
                    if cut_through { Enabled::Yes } else { Enabled::No };
            }
        });
        if breaks {
            let mut sender = Client::new("ipn:1.5", false);
            sender.send(adu("ipn:3.41", 0), &payload(octets));
            world.connect(0, sender);
            world.until("some of it is there", |world| held(world, 2) > 0);
            world.cut(1, 2);
            world.join(1, 2);
        }
        crosses(&mut world, 0, octets);
    }
}
