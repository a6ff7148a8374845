//! Bundles on their way through a few nodes, with crashes, cut links, small peers and odd clocks.

mod contacts;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use bytes::BytesMut;
use dhow_bundle::Reading;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::v7::admin::AdministrativeRecord;
use dhow_node::api::wire::{BundleAdu, STATUS_ERROR, STATUS_SUCCESS};
use dhow_node::config::{Enabled, Route};
use dhow_node::driver::{Event, Occurrence, OperatorCommand, Ticket};
use proptest::prelude::*;

fn payload(number: u32, octets: usize) -> Vec<u8> {
    (0..octets)
        .map(|place| {
            u8::try_from((place * 7 + usize::try_from(number).unwrap() * 13) % 251).unwrap()
        })
        .collect()
}

fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(600_000),
        ..BundleAdu::default()
    }
}

fn delivered(world: &mut World, at: usize, stream: dhow_node::driver::StreamId) -> usize {
    world.client(at, stream).received.len()
}

/// Everything has left all stores.
fn all_empty(world: &World) -> bool {
    world
        .machines
        .iter()
        .all(|machine| machine.store.kept.bundles.is_empty() && machine.store.is_clean())
}

#[test]
fn a_bundle_crosses_a_link_that_comes_up_later_and_leaves_nothing_behind() {
    let mut world = World::line(4, 1, |_, _| ());
    world.settle();
    world.cut(1, 2);
    let mut sender = Client::new("ipn:1.5", false);
    for number in 0..50 {
        sender.send(adu("ipn:4.42"), &payload(number, 5_000));
    }
    let sender = world.connect(0, sender);
    world.until("all are durable at the source", |world| {
        world.client(0, sender).responses.len() == 51
    });
    world.until("all wait at the cut", |world| {
        world.machines[1].node.as_ref().unwrap().stored().0 == 50
    });
    let receiver = world.connect(3, Client::new("ipn:4.42", true));
    world.join(1, 2);
    world.until("all are delivered", |world| {
        delivered(world, 3, receiver) == 50
    });
    world.until("nothing is left", |world| all_empty(world));
    let received = &world.client(3, receiver).received;
    for (number, (adu, octets)) in (0..).zip(received) {
        assert_eq!(adu.src_eid, "ipn:1.5");
        assert_eq!(
            adu.sequence_number,
            u64::from(number),
            "order and consecutive sequence numbers"
        );
        assert_eq!(*octets, payload(number, 5_000));
    }
}

#[test]
fn zero_octets_and_bundles_larger_than_a_segment_pass() {
    let mut world = World::line(3, 2, |_, _| ());
    let mut sender = Client::new("ipn:1.5", false);
    let sizes = [0, 1, 17_000, 3_000_000];
    for (number, size) in (0..).zip(sizes) {
        sender.send(adu("ipn:3.42"), &payload(number, size));
    }
    world.connect(0, sender);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("all are delivered", |world| {
        delivered(world, 2, receiver) == sizes.len()
    });
    for (number, (_, octets)) in (0..).zip(&world.client(2, receiver).received) {
        assert_eq!(
            *octets,
            payload(number, sizes[usize::try_from(number).unwrap()])
        );
    }
}

#[test]
fn bundles_in_segments_of_one_octet_are_read() {
    let mut world = World::line(2, 27, |_, config| {
        for link in &mut config.links {
            link.policy.segment_octets = 1;
        }
    });
    let mut sender = Client::new("ipn:1.5", false);
    for size in [0, 1, 30, 300] {
        sender.send(adu("ipn:2.42"), &payload(7, size));
    }
    world.connect(0, sender);
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.until("all are delivered", |world| {
        delivered(world, 1, receiver) == 4
    });
}

#[test]
fn bundles_for_an_endpoint_that_nobody_has_registered_wait() {
    let mut world = World::line(1, 3, |_, _| ());
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:1.42"), b"early");
    world.connect(0, sender);
    world.settle();
    world.crash(0);
    world.start(0);
    let receiver = world.connect(0, Client::new("ipn:1.42", true));
    world.until("it is delivered", |world| {
        delivered(world, 0, receiver) == 1
    });
    world.settle();
    assert!(all_empty(&world));
}

#[test]
fn what_was_not_confirmed_is_delivered_again_and_what_was_is_not() {
    let mut world = World::line(1, 4, |_, _| ());
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:1.42"), b"take me");
    world.connect(0, sender);
    let mut first = Client::new("ipn:1.42", true);
    first.confirms = false;
    let first = world.connect(0, first);
    world.until("it came", |world| delivered(world, 0, first) == 1);
    world.leave(0, first);
    let second = world.connect(0, Client::new("ipn:1.42", true));
    world.until("it came again", |world| delivered(world, 0, second) == 1);
    world.settle();
    world.leave(0, second);
    let third = world.connect(0, Client::new("ipn:1.42", true));
    world.settle();
    assert_eq!(delivered(&mut world, 0, third), 0);
}

/// RFC 9171 5.8, 5.9: the next hop takes only small transfers.
#[test]
fn a_small_transfer_mru_makes_fragments_that_become_one_again() {
    let mut world = World::line(3, 5, |number, config| {
        if number == 3 {
            config.listeners[0].policy.transfer_mru = 4_000;
        }
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:3.42"), &payload(9, 50_000));
    sender.send(
        BundleAdu {
            bundle_flags: Some(4),
            ..adu("ipn:3.42")
        },
        &payload(8, 50_000),
    );
    sender.send(adu("ipn:3.42"), &payload(7, 300));
    world.connect(0, sender);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("two are delivered", |world| {
        delivered(world, 2, receiver) == 2
    });
    world.settle();
    let mut octets: Vec<Vec<u8>> = world
        .client(2, receiver)
        .received
        .iter()
        .map(|(_, it)| it.clone())
        .collect();
    octets.sort_by_key(Vec::len);
    assert_eq!(octets, [payload(7, 300), payload(9, 50_000)]);
    let beta = world.machines[1].node.as_ref().unwrap();
    assert!(beta.counters().fragments >= 13);
    assert_eq!(
        beta.stored().0,
        1,
        "what must not be fragmented waits for another way"
    );
}

#[test]
fn bundles_that_are_cut_follow_each_other_without_a_pause() {
    let mut world = World::line(2, 20, |_, config| {
        for link in &mut config.links {
            link.policy.fragment_octets = Some(1_000);
        }
    });
    world.cut(0, 1);
    let mut sender = Client::new("ipn:1.9", false);
    for number in 0..50 {
        sender.send(adu("ipn:2.1"), &payload(number, 5_000));
    }
    world.connect(0, sender);
    world.settle();
    let receiver = world.connect(1, Client::new("ipn:2.1", true));
    world.join(0, 1);
    let begin = world.monotonic;
    world.until("all are delivered", |world| {
        delivered(world, 1, receiver) == 50
    });
    let taken = world.monotonic - begin;
    assert!(
        taken < Duration::from_secs(2),
        "{taken:?} for a line without delay"
    );
}

/// A previous-node block with a long name takes more than what a cut leaves for short ones.
#[test]
fn fragments_of_a_node_with_a_long_name_fit_a_small_transfer_mru() {
    let mut world = World::line(2, 21, |number, config| {
        if number == 1 {
            let name = format!("dtn://{}/", "long-name".repeat(40));
            config.node_ids.insert(0, name.parse().unwrap());
        } else {
            config.listeners[0].policy.transfer_mru = 3_000;
        }
    });
    let mut sender = Client::new("ipn:1.9", false);
    sender.send(adu("ipn:2.1"), &payload(1, 20_000));
    world.connect(0, sender);
    let receiver = world.connect(1, Client::new("ipn:2.1", true));
    world.until("it is delivered", |world| {
        delivered(world, 1, receiver) == 1
    });
}

#[test]
fn fragments_on_request_survive_a_crash_between_them() {
    let mut world = World::line(3, 6, |number, config| {
        if number == 2 {
            config.links[0].policy.fragment_octets = Some(1_000);
            config.links[0].policy.window_octets = 2_000;
        }
    });
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu("ipn:3.42"), &payload(1, 20_000));
    world.connect(0, sender);
    world.until("some fragments are there", |world| {
        world.machines[2].store.kept.bundles.len() >= 5
    });
    world.crash(2);
    world.pass(Duration::from_secs(1));
    world.start(2);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("it is delivered", |world| {
        delivered(world, 2, receiver) == 1
    });
    world.until("nothing is left", |world| all_empty(world));
    assert_eq!(world.client(2, receiver).received[0].1, payload(1, 20_000));
}

#[test]
fn echo_answers_to_whoever_asked_also_in_fragments() {
    for limit in [None, Some(100)] {
        let mut world = World::line(2, 7, |_, config| {
            for link in &mut config.links {
                link.policy.fragment_octets = limit;
            }
        });
        let asker = world.connect(0, Client::new("ipn:1.9", true));
        let mut sender = Client::new("ipn:1.9", false);
        sender.send(adu("ipn:2.7"), &payload(3, 1_000));
        world.connect(0, sender);
        world.until("the echo is back", |world| delivered(world, 0, asker) == 1);
        let (head, octets) = &world.client(0, asker).received[0];
        assert_eq!(
            (head.src_eid.as_str(), octets),
            ("ipn:2.7", &payload(3, 1_000))
        );
        world.settle();
        assert!(all_empty(&world));
    }
}

/// RFC 9171 6.1.1, 5.1: reports come from those nodes that are told to make them.
#[test]
fn status_reports_tell_of_every_step_with_times() {
    let mut world = World::line(3, 8, |number, config| {
        config.reports.generate = 0x7_4000;
        if number == 3 {
            // Back over the session that beta dialled.
            config.routes = vec![Route {
                to: "ipn:1.*".into(),
                via: "ipn:2.0".into(),
                priority: 0,
            }];
        }
    });
    let asker = world.connect(0, Client::new("ipn:1.9", true));
    let mut sender = Client::new("ipn:1.9", false);
    sender.send(
        BundleAdu {
            bundle_flags: Some(0x7_4040),
            ..adu("ipn:3.42")
        },
        b"where are you",
    );
    world.connect(0, sender);
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    world.until("it is delivered", |world| {
        delivered(world, 2, receiver) == 1
    });
    // Forwarded by 1 and 2, received by 2 and 3, delivered by 3.
    world.until("five reports came", |world| delivered(world, 0, asker) == 5);
    let mut kinds = BTreeMap::new();
    for (head, octets) in &world.client(0, asker).received {
        let record = AdministrativeRecord::decode(&octets.clone().into(), Reading::Strict).unwrap();
        let AdministrativeRecord::StatusReport(report) = record else {
            panic!("a status report")
        };
        let items = [
            report.received,
            report.forwarded,
            report.delivered,
            report.deleted,
        ];
        for (kind, item) in (0..).zip(items) {
            if let Some(assertion) = item {
                assert!(assertion.time.is_some(), "times were asked for");
                kinds.entry((kind, head.src_eid.clone())).or_insert(0);
            }
        }
    }
    let expected = [
        (0, "ipn:2.0"),
        (0, "ipn:3.0"),
        (1, "ipn:1.0"),
        (1, "ipn:2.0"),
        (2, "ipn:3.0"),
    ];
    let expected: Vec<(i32, String)> = expected
        .iter()
        .map(|(kind, node)| (*kind, (*node).into()))
        .collect();
    assert_eq!(kinds.into_keys().collect::<Vec<_>>(), expected);
}

/// RFC 9171 5.5: a bundle that nobody can take expires, with a report, and by the monotonic clock.
#[test]
fn a_bundle_expires_on_time_whatever_the_wall_clock_does() {
    let mut world = World::line(1, 9, |_, config| config.reports.generate = 0x4_0000);
    let mut sender = Client::new("ipn:1.9", false);
    sender.send(
        BundleAdu {
            bundle_flags: Some(0x4_0040),
            lifetime_ms: Some(10_000),
            ..adu("ipn:9.1")
        },
        b"x",
    );
    world.connect(0, sender);
    world.settle();
    world.machines[0].clock_ms = Some(3_600_000);
    world.pass(Duration::from_secs(9));
    assert_eq!(world.machines[0].node.as_ref().unwrap().stored().0, 1);
    let jumped = |it: &Occurrence| {
        matches!(
            it,
            Occurrence::ClockJumped {
                milliseconds: 3_600_000
            }
        )
    };
    assert!(world.machines[0].occurrences.iter().any(jumped));
    world.pass(Duration::from_secs(2));
    world.settle();
    let receiver = world.connect(0, Client::new("ipn:1.9", true));
    world.until("the deletion is reported", |world| {
        delivered(world, 0, receiver) == 1
    });
    assert_eq!(
        world.machines[0].node.as_ref().unwrap().counters().expired,
        1
    );
}

#[test]
fn without_a_clock_bundles_carry_their_age_and_still_expire() {
    let mut world = World::line(2, 10, |_, _| ());
    world.machines[0].clock_ms = None;
    let mut sender = Client::new("ipn:1.9", false);
    sender.send(
        BundleAdu {
            lifetime_ms: Some(30_000),
            ..adu("ipn:2.1")
        },
        b"aged",
    );
    world.cut(0, 1);
    world.connect(0, sender);
    world.settle();
    world.pass(Duration::from_secs(20));
    world.join(0, 1);
    world.until("it is at the next node", |world| {
        world.machines[1].store.kept.bundles.len() == 1
    });
    world.pass(Duration::from_secs(11));
    world.settle();
    assert_eq!(
        world.machines[1].node.as_ref().unwrap().counters().expired,
        1
    );
}

/// RFC 9171 4.4.2: the age is what a node without a clock has, and grows while a node is restarted.
#[test]
fn a_restart_is_part_of_the_age_that_a_bundle_carries() {
    let mut world = World::line(3, 22, |_, _| ());
    world.machines[0].clock_ms = None;
    world.settle();
    world.cut(1, 2);
    let mut sender = Client::new("ipn:1.9", false);
    sender.send(
        BundleAdu {
            lifetime_ms: Some(60_000),
            ..adu("ipn:3.1")
        },
        b"aged",
    );
    world.connect(0, sender);
    world.until("it is half way", |world| {
        world.machines[1].store.kept.bundles.len() == 1
    });
    world.settle();
    world.pass(Duration::from_secs(30));
    world.crash(1);
    world.pass(Duration::from_secs(10));
    world.start(1);
    world.join(1, 2);
    world.until("it is at the next node", |world| {
        world.machines[2].store.kept.bundles.len() == 1
    });
    world.pass(Duration::from_secs(21));
    world.settle();
    assert_eq!(
        world.machines[2].node.as_ref().unwrap().counters().expired,
        1
    );
}

/// RFC 9171 4.2.3: without a source there is no identity.
#[test]
fn bundles_of_two_nodes_without_source_are_not_taken_for_copies() {
    let mut world = World::line(3, 23, |_, _| ());
    world.until("both are neighbours", |world| {
        world.machines[1].node.as_ref().unwrap().sessions().len() == 2
            && world.machines[2].node.as_ref().unwrap().sessions().len() == 1
    });
    for at in [0, 2] {
        let mut sender = Client::new("", false);
        sender.send(
            BundleAdu {
                src_eid: "dtn:none".into(),
                bundle_flags: Some(4),
                ..adu("ipn:2.42")
            },
            &payload(u32::try_from(at).unwrap(), 100),
        );
        world.connect(at, sender);
    }
    world.settle();
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.settle();
    let heads = &world.client(1, receiver).received;
    let times: Vec<_> = heads
        .iter()
        .map(|(adu, _)| (adu.creation_timestamp_ms, adu.sequence_number))
        .collect();
    assert_eq!(times.len(), 2, "both are delivered");
    assert_eq!(times[0], times[1], "they look the same");
}

/// RFC 9171 5.9: a whole is as sound as each of its fragments.
#[test]
fn a_fragment_that_rotted_keeps_its_whole_back_until_a_sound_one_comes() {
    let mut world = World::line(2, 25, |_, config| {
        for link in &mut config.links {
            link.policy.fragment_octets = Some(100);
        }
    });
    let mut sender = Client::new("ipn:1.9", false);
    sender.send(adu("ipn:2.42"), &payload(1, 450));
    world.connect(0, sender);
    world.until("all fragments are stored", |world| {
        world.machines[1].store.kept.bundles.len() == 5
    });
    // The acknowledgments are lost with the node, whose third fragment has rotted.
    assert_eq!(world.machines[0].store.kept.bundles.len(), 1);
    world.crash(1);
    world.cut(0, 1);
    world.start(1);
    let rotten = dhow_bundle::storage::BundleKey(2);
    world.machines[1].store.rotten.push(rotten);
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.settle();
    world.pass(Duration::from_secs(100));
    world.settle();
    assert_eq!(delivered(&mut world, 1, receiver), 0);
    let counters = world.machines[1].node.as_ref().unwrap().counters();
    assert_eq!(counters.quarantined, 1);
    world.machines[1].store.rotten.clear();
    world.join(0, 1);
    world.until("the whole is delivered", |world| {
        delivered(world, 1, receiver) == 1
    });
    assert_eq!(world.client(1, receiver).received[0].1, payload(1, 450));
    world.until("nothing is left", |world| all_empty(world));
}

/// RFC 9171 5.9: fragments that were made on different ways make one whole, also while an application has it in hand.
#[test]
fn fragments_that_come_beside_their_whole_make_no_second_one() {
    for (cut_again, declines) in [
        (Some(70), false),
        (Some(70), true),
        (None, false),
        (None, true),
    ] {
        let mut world = World::line(2, 26, |_, config| {
            for link in &mut config.links {
                link.policy.fragment_octets = Some(100);
            }
        });
        let mut receiver = Client::new("ipn:2.42", true);
        receiver.confirms = false;
        let receiver = world.connect(1, receiver);
        let mut sender = Client::new("ipn:1.9", false);
        sender.send(adu("ipn:2.42"), &payload(1, 450));
        world.connect(0, sender);
        world.until("all fragments are stored", |world| {
            world.machines[1].store.kept.bundles.len() == 5
        });
        // The acknowledgments are lost with the sender, which cuts the bundle at other octets, or not at all.
        world.crash(0);
        world.until("the whole is handed over", |world| {
            delivered(world, 1, receiver) == 1
        });
        for link in &mut world.machines[0].config.links {
            link.policy.fragment_octets = cut_again;
        }
        world.start(0);
        world.until("the sender has left it", |world| {
            world.machines[0].store.kept.bundles.is_empty()
        });
        world.settle();
        assert_eq!(delivered(&mut world, 1, receiver), 1, "handed over once");
        let client = world.client(1, receiver);
        if declines {
            client.confirms = true;
            client.respond(STATUS_ERROR);
        } else {
            client.respond(STATUS_SUCCESS);
        }
        world.settle();
        world.pass(Duration::from_secs(10));
        world.until("nothing is left", |world| all_empty(world));
        assert_eq!(
            delivered(&mut world, 1, receiver),
            1 + usize::from(declines)
        );
        let counters = world.machines[1].node.as_ref().unwrap().counters();
        assert_eq!(counters.delivered, 1);
    }
}

#[test]
fn a_sound_copy_takes_the_place_of_a_bundle_that_rotted() {
    let mut world = World::line(2, 24, |_, _| ());
    let mut sender = Client::new("ipn:1.9", false);
    sender.send(adu("ipn:2.42"), &payload(1, 100));
    world.connect(0, sender);
    world.until("it is stored", |world| {
        world.machines[1].store.kept.bundles.len() == 1
    });
    // The acknowledgment is lost with the node; what it stored has rotted.
    assert_eq!(world.machines[0].store.kept.bundles.len(), 1);
    world.crash(1);
    world.start(1);
    world.machines[1]
        .store
        .rotten
        .push(dhow_bundle::storage::BundleKey(0));
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    world.until("it is known to be corrupt", |world| {
        let node = world.machines[1].node.as_ref().unwrap();
        node.counters().quarantined == 1
    });
    world.machines[1].store.rotten.clear();
    world.until("the copy is delivered", |world| {
        delivered(world, 1, receiver) == 1
    });
}

#[test]
fn a_full_store_refuses_and_the_sender_keeps_what_was_refused() {
    let mut world = World::line(2, 11, |number, config| {
        if number == 2 {
            config.quota_bundles = 3;
        }
    });
    let mut sender = Client::new("ipn:1.9", false);
    for number in 0..10 {
        sender.send(adu("ipn:2.1"), &payload(number, 100));
    }
    world.connect(0, sender);
    for _ in 0..40 {
        world.settle();
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(world.machines[1].node.as_ref().unwrap().stored().0, 3);
    assert_eq!(world.machines[0].node.as_ref().unwrap().stored().0, 7);
    let refusals = world.machines[0]
        .node
        .as_ref()
        .unwrap()
        .counters()
        .refused_by_peers;
    assert!(refusals < 100, "{refusals} refusals in 4 s: a hot loop");
    let receiver = world.connect(1, Client::new("ipn:2.1", true));
    world.until("all are delivered", |world| {
        delivered(world, 1, receiver) == 10
    });
}

#[test]
fn a_bundle_that_rotted_on_disk_is_kept_apart_and_the_others_go_on() {
    let places = ["ipn:1.42", "ipn:2.42"].into_iter();
    let cases = places.flat_map(|to| [100, 30_000].map(|size| (to, size)));
    for (destination, size) in cases
        .flat_map(|case| [true, false].map(|restart| (case, restart)))
        .map(|((destination, size), restart)| (destination, size + usize::from(restart)))
    {
        let restart = size % 2 == 1;
        let mut world = World::line(2, 17, |_, _| ());
        world.cut(0, 1);
        let mut sender = Client::new("ipn:1.9", false);
        for number in 0..5 {
            sender.send(adu(destination), &payload(number, size));
        }
        world.connect(0, sender);
        world.settle();
        if restart {
            world.crash(0);
            world.start(0);
        }
        world.pass(Duration::from_secs(2));
        world.machines[0].store.rot(BundleKey(2));
        world.join(0, 1);
        let at = usize::from(destination == "ipn:2.42");
        let receiver = world.connect(at, Client::new(destination, true));
        world.until("the sound ones are delivered", |world| {
            delivered(world, at, receiver) == 4
        });
        for _ in 0..50 {
            world.settle();
            world.pass(Duration::from_secs(2));
        }
        assert_eq!(delivered(&mut world, at, receiver), 4);
        assert_eq!(world.machines[0].store.kept.bundles.len(), 1);
        let counters = world.machines[0].node.as_ref().unwrap().counters();
        assert_eq!(counters.quarantined, 1, "{destination} {size}");
        world.pass(Duration::from_secs(600));
        world.settle();
        assert!(all_empty(&world), "it expires like any other");
    }
}

#[test]
fn a_bundle_that_goes_round_in_a_circle_is_not_taken_for_a_copy_and_arrives_in_the_end() {
    let mut world = World::circle(3, 18, |_, _| ());
    let mut sender = Client::new("ipn:1.9", false);
    for number in 0..20 {
        sender.send(adu("ipn:9.1"), &payload(number, 300));
    }
    world.connect(0, sender);
    for _ in 0..100 {
        world.settle();
        world.pass(Duration::from_secs(1));
    }
    let held: u64 = world
        .machines
        .iter()
        .map(|it| it.node.as_ref().unwrap().stored().0)
        .sum();
    assert_eq!(held, 20, "each is somewhere");
    let forwarded: u64 = world
        .machines
        .iter()
        .map(|it| it.node.as_ref().unwrap().counters().forwarded)
        .sum();
    assert!(
        forwarded < 20 * 30,
        "{forwarded} transfers in 100 s: a hot loop"
    );
    // Now one of them serves the destination.
    world.machines[1]
        .config
        .node_ids
        .push("ipn:9.0".parse().unwrap());
    world.crash(1);
    world.start(1);
    let receiver = world.connect(1, Client::new("ipn:9.1", true));
    world.until("all arrive", |world| delivered(world, 1, receiver) == 20);
    world.settle();
    assert_eq!(delivered(&mut world, 1, receiver), 20);
}

#[test]
fn a_transfer_that_died_in_silence_gives_way_to_another_copy() {
    let mut world = World::line(2, 19, |_, _| ());
    world.until("the session is up", |world| {
        !world.machines[0]
            .node
            .as_ref()
            .unwrap()
            .sessions()
            .is_empty()
    });
    let mut sender = Client::new("ipn:1.9", false);
    sender.send(adu("ipn:2.1"), &payload(1, 500_000));
    world.connect(0, sender);
    world.until("the transfer is half way", |world| {
        world.machines[1].node.as_ref().unwrap().stored().0 == 1
    });
    world.freeze(0, 1);
    world.crash(0);
    world.start(0);
    let receiver = world.connect(1, Client::new("ipn:2.1", true));
    let start = world.monotonic;
    world.until("it is delivered", |world| {
        delivered(world, 1, receiver) == 1
    });
    assert!(
        world.monotonic - start < Duration::from_secs(5),
        "long before the old session times out"
    );
}

#[test]
fn a_disk_that_refuses_loses_nothing_either() {
    let mut world = World::line(2, 12, |_, _| ());
    world.machines[1].store.capacity = Some(2);
    let mut sender = Client::new("ipn:1.9", false);
    for number in 0..6 {
        sender.send(adu("ipn:2.1"), &payload(number, 3_000));
    }
    world.connect(0, sender);
    for _ in 0..20 {
        world.settle();
        world.pass(Duration::from_millis(100));
    }
    let receiver = world.connect(1, Client::new("ipn:2.1", true));
    world.until("all are delivered", |world| {
        delivered(world, 1, receiver) == 6
    });
}

#[test]
fn a_bundle_never_goes_back_to_the_neighbour_it_came_from() {
    // Beta's only route for ipn:9.* leads back to alpha.
    let mut world = World::line(2, 13, |number, config| match number {
        1 => config.routes.push(Route {
            to: "ipn:9.*".into(),
            via: "next".into(),
            priority: 0,
        }),
        _ => {
            let mut back = crate::world::config(9);
            config.links.append(&mut back.links);
        }
    });
    let mut sender = Client::new("ipn:1.9", false);
    for number in 0..200 {
        sender.send(adu("ipn:9.1"), &payload(number, 20));
    }
    world.connect(0, sender);
    for _ in 0..30 {
        world.settle();
        world.pass(Duration::from_millis(500));
    }
    assert_eq!(world.machines[1].store.kept.bundles.len(), 200);
    assert_eq!(
        world.machines[1]
            .node
            .as_ref()
            .unwrap()
            .counters()
            .duplicates,
        0
    );
}

#[test]
fn destinations_with_a_better_hop_do_not_starve_those_without() {
    // Alpha has two links to beta; the first is better for all but one destination, and silent.
    let mut world = World::line(2, 26, |number, config| {
        if number == 1 {
            let mut second = config.links[0].clone();
            second.name = "second".into();
            second.enabled = Enabled::No;
            config.links[0].policy.window_bundles = 1;
            config.links.push(second);
            for (to, via, priority) in [("ipn:5.*", "next", 1), ("ipn:5.*", "second", 0)] {
                let (to, via) = (to.into(), via.into());
                config.routes.push(Route { to, via, priority });
            }
            let (to, via) = ("ipn:6.*".into(), "second".into());
            config.routes.push(Route {
                to,
                via,
                priority: 0,
            });
        }
    });
    world.until("the first link is up", |world| {
        world.machines[0].node.as_ref().unwrap().sessions().len() == 1
    });
    world.freeze(0, 1);
    operate(&mut world, 0, OperatorCommand::LinkUp("second".into()));
    world.until("the second link is up", |world| {
        world.machines[0].node.as_ref().unwrap().sessions().len() == 2
    });
    let mut sender = Client::new("ipn:1.9", false);
    for service in 0..200 {
        sender.send(adu(&format!("ipn:5.{service}")), b"by the first link");
    }
    sender.send(adu("ipn:6.1"), b"by the second link");
    world.connect(0, sender);
    world.settle();
    assert_eq!(world.machines[1].store.kept.bundles.len(), 1);
}

#[test]
fn an_operator_takes_links_down_and_up_changes_routes_and_drops_bundles() {
    let mut world = World::line(2, 14, |_, config| config.routes.clear());
    let operator = |world: &mut World, command| {
        world.handle(
            0,
            Event::Operator {
                ticket: Ticket(1),
                command,
            },
        );
        world.settle();
    };
    world.settle();
    operator(&mut world, OperatorCommand::LinkDown("next".into()));
    let mut sender = Client::new("ipn:1.9", false);
    for number in 0..3 {
        sender.send(adu("ipn:7.1"), &payload(number, 10));
    }
    sender.send(adu("ipn:2.1"), b"by the implicit route");
    world.connect(0, sender);
    world.pass(Duration::from_secs(5));
    world.settle();
    assert!(world.machines[1].store.kept.bundles.is_empty());
    operator(&mut world, OperatorCommand::LinkUp("next".into()));
    world.until("the implicit route serves", |world| {
        world.machines[1].store.kept.bundles.len() == 1
    });
    let id = world.machines[0]
        .store
        .kept
        .bundles
        .values()
        .next()
        .unwrap()
        .0
        .id
        .clone();
    operator(&mut world, OperatorCommand::BundleDrop(id));
    let route = Route {
        to: "ipn:7.*".into(),
        via: "next".into(),
        priority: 0,
    };
    operator(&mut world, OperatorCommand::RouteAdd(route));
    world.until("the new route serves what waited", |world| {
        world.machines[1].store.kept.bundles.len() == 3
    });
}

#[test]
fn a_session_that_lost_its_path_in_silence_is_replaced_when_the_network_changes() {
    let mut world = World::line(2, 16, |_, config| {
        for link in &mut config.links {
            link.policy.window_octets = 10_000;
        }
    });
    world.until("the session is up", |world| {
        !world.machines[0]
            .node
            .as_ref()
            .unwrap()
            .sessions()
            .is_empty()
    });
    world.freeze(0, 1);
    let mut sender = Client::new("ipn:1.9", false);
    for number in 0..20 {
        sender.send(adu("ipn:2.1"), &payload(number, 2_000));
    }
    world.connect(0, sender);
    world.settle();
    world.handle(0, Event::NetworkChanged);
    world.pass(Duration::from_millis(30));
    world.settle();
    assert_eq!(
        world.machines[0].node.as_ref().unwrap().sessions().len(),
        1,
        "not silent for long"
    );
    world.pass(Duration::from_millis(300));
    world.handle(0, Event::NetworkChanged);
    let receiver = world.connect(1, Client::new("ipn:2.1", true));
    // A bundle that the lost session had begun is sent again once that is given up.
    world.until("all are delivered", |world| {
        delivered(world, 1, receiver) == 20
    });
    world.until("one session is left", |world| {
        world.machines[0].node.as_ref().unwrap().links()[0].sessions == 1
            && world.machines[0].node.as_ref().unwrap().sessions().len() == 1
    });
}

#[test]
fn a_chunk_of_octets_with_many_refused_requests_does_not_exhaust_the_stack() {
    let mut world = World::line(1, 18, |_, config| config.quota_bundles = 0);
    let mut sender = Client::new("ipn:1.9", false);
    for _ in 0..20_000 {
        sender.send(adu("ipn:2.1"), b"");
    }
    let mut octets = BytesMut::new();
    for chunk in sender.to_node.drain(..) {
        octets.extend_from_slice(&chunk);
    }
    sender.to_node.push_back(octets.freeze());
    let sender = world.connect(0, sender);
    world.until("all are refused", |world| {
        world.client(0, sender).responses.len() == 20_001
    });
}

#[test]
fn a_chunk_of_octets_with_many_refused_bundles_does_not_exhaust_the_stack() {
    let mut world = World::line(2, 19, |number, config| {
        if number == 2 {
            config.quota_bundles = 0;
        }
    });
    world.cut(0, 1);
    let mut sender = Client::new("ipn:1.9", false);
    for _ in 0..10_000 {
        sender.send(adu("ipn:2.1"), b"");
    }
    world.connect(0, sender);
    world.settle();
    world.join(0, 1);
    world.until("a session is up", |world| {
        !world.machines[0]
            .node
            .as_ref()
            .unwrap()
            .sessions()
            .is_empty()
    });
    world.rush();
    let node = world.machines[1].node.as_ref().unwrap();
    assert!(node.counters().refused >= 5_000);
}

/// The number of the received bundles that some disk still has: had its node died, their confirmations would not be durable, however many
/// were under way.
fn still_held(world: &World, received: &[(u64, Vec<u8>)]) -> usize {
    let disks = world.machines.iter().map(|machine| &machine.store.kept);
    let held: BTreeSet<u64> = disks
        .flat_map(|kept| kept.bundles.values())
        .map(|(bundle, _)| bundle.id.creation.sequence)
        .collect();
    let is_held = |(sequence, _): &&(u64, Vec<u8>)| held.contains(sequence);
    received.iter().filter(is_held).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    /// Nodes are killed and links cut at any time: everything that was accepted arrives whole, and
    /// nothing arrives again after its confirmation was durable.
    #[test]
    fn crashes_and_cuts_at_any_moment_lose_and_repeat_nothing(seed in any::<u64>(), troubles in prop::collection::vec((1_u64..400, 0_usize..4, 0_u64..2), 1..8)) {
        let mut world = World::line(3, seed, |_, config| {
            for link in &mut config.links {
                link.policy.window_octets = 30_000;
            }
        });
        let mut sender = Client::new("ipn:1.5", false);
        let count = 30;
        for number in 0..count {
            let size = usize::try_from(world.random(20_000)).unwrap();
            sender.send(adu("ipn:3.42"), &payload(number, size));
        }
        let sender = world.connect(0, sender);
        world.until("all are accepted", |world| world.client(0, sender).responses.len() == usize::try_from(count).unwrap() + 1);
        let mut receiver = Some(world.connect(2, Client::new("ipn:3.42", true)));
        // Confirmations that the node may not have made durable when it died are allowed to be repeated.
        let mut received: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut unsure = 0;
        for (steps, place, wait) in troubles {
            for _ in 0..steps {
                if !world.step() {
                    world.pass(Duration::from_millis(25));
                }
            }
            match place {
                3 => {
                    world.cut(1, 2);
                    world.pass(Duration::from_millis(wait * 900));
                    world.join(1, 2);
                }
                at => {
                    if at == 2 {
                        let stream = receiver.take().unwrap();
                        let client = world.machines[2].clients.remove(&stream).unwrap();
                        received.extend(client.received.into_iter().map(|(adu, octets)| (adu.sequence_number, octets)));
                        unsure += still_held(&world, &received);
                    }
                    world.crash(at);
                    world.pass(Duration::from_millis(wait * 900));
                    world.start(at);
                    if at == 2 {
                        receiver = Some(world.connect(2, Client::new("ipn:3.42", true)));
                    }
                }
            }
        }
        world.until("nothing is left", |world| all_empty(world));
        let stream = receiver.unwrap();
        received.extend(world.client(2, stream).received.iter().map(|(adu, octets)| (adu.sequence_number, octets.clone())));
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for (sequence, octets) in received {
            let number = u32::try_from(sequence).unwrap();
            prop_assert_eq!(&octets, &payload(number, octets.len()));
            *counts.entry(sequence).or_default() += 1;
        }
        prop_assert_eq!(counts.len(), usize::try_from(count).unwrap());
        let repeats: usize = counts.values().map(|times| times - 1).sum();
        prop_assert!(repeats <= unsure, "{repeats} repeats, of which {unsure} may be");
    }
}

/// Events in a world in which everything goes wrong that can.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Crash(usize),
    Cut,
    LinkDown(usize),
    RouteGone,
    ReceiverLeaves,
    ReceiverDeclines,
    SenderVanishes,
    Silence,
    Time,
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        (0_usize..3).prop_map(Trouble::Crash),
        Just(Trouble::Cut),
        (0_usize..2).prop_map(Trouble::LinkDown),
        Just(Trouble::RouteGone),
        Just(Trouble::ReceiverLeaves),
        Just(Trouble::ReceiverDeclines),
        Just(Trouble::SenderVanishes),
        Just(Trouble::Silence),
        Just(Trouble::Time),
    ]
}

fn steps(world: &mut World, count: u64) {
    for _ in 0..count {
        if !world.step() {
            world.pass(Duration::from_millis(25));
        }
    }
}

fn operate(world: &mut World, at: usize, command: OperatorCommand) {
    let ticket = Ticket(1);
    world.handle(at, Event::Operator { ticket, command });
}

/// One receiver after the other, and what all of them got.
struct Receivers {
    stream: Option<dhow_node::driver::StreamId>,
    received: Vec<(u64, Vec<u8>)>,
    /// Confirmations that the node may not have made durable are allowed to be repeated.
    unsure: usize,
}

impl Receivers {
    fn leave(&mut self, world: &mut World) {
        let client = self.stream.take().map(|stream| world.leave(2, stream));
        let all = client.into_iter().flat_map(|client| client.received);
        self.received
            .extend(all.map(|(adu, octets)| (adu.sequence_number, octets)));
        self.unsure += 8;
    }

    fn come(&mut self, world: &mut World, confirms: bool) {
        let mut client = Client::new("ipn:3.42", true);
        client.confirms = confirms;
        self.stream = Some(world.connect(2, client));
    }
}

fn suffer(world: &mut World, trouble: Trouble, count: u64, receivers: &mut Receivers) {
    let route = || Route {
        to: "ipn:3.*".into(),
        via: "next".into(),
        priority: 0,
    };
    match trouble {
        Trouble::Crash(at) => {
            if at == 2 {
                receivers.leave(world);
                receivers.unsure += still_held(world, &receivers.received);
            }
            world.crash(at);
            steps(world, count);
            world.start(at);
            if at == 2 {
                receivers.come(world, true);
            }
        }
        Trouble::Cut => {
            world.cut(1, 2);
            steps(world, count);
            world.join(1, 2);
        }
        Trouble::LinkDown(at) => {
            operate(world, at, OperatorCommand::LinkDown("next".into()));
            steps(world, count);
            operate(world, at, OperatorCommand::LinkUp("next".into()));
        }
        Trouble::RouteGone => {
            let Route { to, via, .. } = route();
            operate(world, 1, OperatorCommand::RouteDelete { to, via });
            steps(world, count);
            operate(world, 1, OperatorCommand::RouteAdd(route()));
        }
        Trouble::ReceiverLeaves => {
            receivers.leave(world);
            steps(world, count);
            receivers.come(world, true);
        }
        Trouble::ReceiverDeclines => {
            receivers.leave(world);
            receivers.come(world, false);
            steps(world, count);
            receivers.leave(world);
            // A bundle that was not confirmed was not received.
            receivers.unsure += receivers.received.len();
            receivers.come(world, true);
        }
        Trouble::SenderVanishes => {
            let mut sender = Client::new("ipn:1.8", false);
            sender.send(adu("ipn:3.43"), &payload(1, 9_000));
            let rest = sender.to_node.back_mut().unwrap().split_off(4_000);
            drop(rest);
            let sender = world.connect(0, sender);
            steps(world, count);
            world.leave(0, sender);
        }
        Trouble::Silence => {
            world.freeze(0, 1);
            steps(world, count);
            world.pass(Duration::from_millis(300));
            for at in 0..3 {
                world.handle(at, Event::NetworkChanged);
            }
        }
        Trouble::Time => world.pass(Duration::from_millis(count * 10)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    /// Parallel sessions, fragments, echoes and bundles that expire, over disks that answer late, fail,
    /// refuse and move what they hold; neighbours, applications and operators come and go.
    #[test]
    fn whatever_goes_wrong_nothing_is_lost_repeated_stuck_or_left_behind(
        seed in any::<u64>(),
        sessions in 1_u8..4,
        cut in prop::option::of(700_u64..6_000),
        troubles in prop::collection::vec((0_u64..300, trouble(), 1_u64..120), 1..10),
    ) {
        let mut world = World::line(3, seed, |number, config| {
            for link in &mut config.links {
                link.policy.window_octets = 30_000;
                link.policy.fragment_octets = cut;
                link.sessions = sessions;
            }
            config.reports.generate = 0x7_4000;
            if number == 3 {
                config.routes.push(Route { to: "ipn:1.*".into(), via: "ipn:2.0".into(), priority: 0 });
            }
        });
        world.hostile = true;
        world.misled = true;
        let mut sender = Client::new("ipn:1.5", false);
        let count = 40;
        for number in 0..count {
            let size = usize::try_from(world.random(20_000)).unwrap();
            let flags = [0, 0x7_4000, 0, 0][usize::try_from(number % 4).unwrap()];
            let (to, lifetime_ms) = match number % 10 {
                3 => ("ipn:3.7", 600_000),
                5 => ("ipn:3.42", 1_000),
                _ => ("ipn:3.42", 6_000_000),
            };
            let (lifetime_ms, bundle_flags) = (Some(lifetime_ms), Some(flags));
            let aggregated_reports = number % 8 == 1;
            let asked = BundleAdu { lifetime_ms, bundle_flags, aggregated_reports, ..adu(to) };
            sender.send(asked, &payload(number, size));
        }
        let sender = world.connect(0, sender);
        world.until("all are answered", |world| world.client(0, sender).responses.len() == usize::try_from(count).unwrap() + 1);
        // A bundle that was accepted and does not expire soon must arrive.
        let mut wanted: BTreeMap<u64, u32> = BTreeMap::new();
        let mut optional: BTreeMap<u64, u32> = BTreeMap::new();
        // A bundle that left before the store refused it may arrive, and the answer says so.
        let mut possible: Vec<u32> = Vec::new();
        for (number, response) in (0..).zip(&world.client(0, sender).responses[1..]) {
            if let Some(head) = &response.bundle_headers {
                match number % 10 {
                    3 => {}
                    5 => drop(optional.insert(head.sequence_number, number)),
                    _ => drop(wanted.insert(head.sequence_number, number)),
                }
            } else if response.message.contains("may have left") {
                possible.push(number);
            }
        }
        world.connect(0, Client::new("ipn:1.5", true));
        let mut receivers = Receivers { stream: None, received: Vec::new(), unsure: 0 };
        receivers.come(&mut world, true);
        for (before, trouble, during) in troubles {
            steps(&mut world, before);
            suffer(&mut world, trouble, during, &mut receivers);
        }
        let needed: Vec<u64> = wanted.keys().copied().collect();
        let stream = receivers.stream.unwrap();
        let before: Vec<u64> = receivers.received.iter().map(|(sequence, _)| *sequence).collect();
        world.until("all are there", |world| {
            let now = world.client(2, stream).received.iter().map(|(adu, _)| adu.sequence_number);
            let there: BTreeSet<u64> = now.chain(before.iter().copied()).collect();
            needed.iter().all(|sequence| there.contains(sequence))
        });
        // The client that asked may have gone with its node.
        world.connect(0, Client::new("ipn:1.5", true));
        world.until("nothing is left", |world| all_empty(world));
        world.settle();
        receivers.leave(&mut world);
        for at in 0..3 {
            world.check(at);
            prop_assert!(world.machines[at].node.as_ref().unwrap().is_at_rest(), "node {}", at + 1);
        }
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for (sequence, octets) in receivers.received {
            let accepted = wanted.get(&sequence).or(optional.get(&sequence)).copied();
            let is_it = |number: &u32| octets == payload(*number, octets.len());
            let number = accepted.or_else(|| possible.iter().copied().find(is_it));
            prop_assert!(number.is_some(), "{sequence} was refused and arrived");
            prop_assert_eq!(&octets, &payload(number.unwrap(), octets.len()));
            *counts.entry(sequence).or_default() += 1;
        }
        let repeats: usize = counts.values().map(|times| times - 1).sum();
        prop_assert!(repeats <= receivers.unsure, "{repeats} repeats, of which {} may be", receivers.unsure);
    }
}

/// RFC 9171 4.4.3: the hop count is zero at first and is increased by one on each hop.
#[test]
fn a_bundle_leaves_its_source_with_a_hop_count_of_zero_and_each_node_adds_one() {
    let mut world = World::line(4, 90, |_, _| ());
    let mut client = Client::new("ipn:1.9", false);
    client.send(adu("ipn:4.1"), &payload(1, 100));
    world.connect(0, client);
    for last in 1..4 {
        if last < 3 {
            world.cut(last, last + 1);
        }
        if last > 1 {
            world.join(last - 1, last);
        }
        world.until("it is there", |world| {
            !world.machines[last].store.kept.bundles.is_empty()
        });
        let kept = world.machines[last].store.kept.bundles.values();
        let (_, octets) = kept.into_iter().next().unwrap();
        let octets = bytes::Bytes::from(octets.to_vec());
        let header = dhow_bundle::Header::decode(&octets, Reading::Strict);
        let hops = header.unwrap().unwrap().hop_count().unwrap();
        assert_eq!(hops.count, u64::try_from(last - 1).unwrap());
    }
}
