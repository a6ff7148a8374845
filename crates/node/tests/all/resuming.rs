//! Transfers that a cut ends, and that go on where they stopped (docs/tcpcl-extensions.md).

use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Config, Enabled};
use dhow_node::driver::StreamId;
use dhow_node::view::Counters;

const LARGE: usize = 600_000;

/// The octets that may come twice with one cut: a segment, the step from one part to the next, and what was on its
/// way.
const TWICE: u64 = 200_000;

fn payload(octets: usize) -> Vec<u8> {
    (0..octets)
        .map(|place| u8::try_from(place * 7 % 251).unwrap())
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

fn counters(world: &World, at: usize) -> Counters {
    world.machines[at].node.as_ref().unwrap().counters()
}

fn carried(world: &World, at: usize) -> u64 {
    world.carried.get(&at).copied().unwrap_or(0)
}

fn all_empty(world: &mut World) -> bool {
    world
        .machines
        .iter()
        .all(|machine| machine.store.kept.bundles.is_empty() && machine.store.is_clean())
}

/// A line of nodes with small segments; a large bundle for the last one's application is about to leave the first.
fn begin(count: u32, seed: u64, flags: u64, edit: impl Fn(u32, &mut Config)) -> (World, StreamId) {
    let mut world = World::line(count, seed, |number, config| {
        for link in &mut config.links {
            link.policy.segment_octets = 30_000;
        }
        edit(number, config);
    });
    world.hostile = true;
    world.refusals = 0;
    world.pace = Duration::from_millis(2);
    let last = usize::try_from(count - 1).unwrap();
    world.until("the last session is up", |world| {
        let node = world.machines[last].node.as_ref().unwrap();
        !node.sessions().is_empty()
    });
    let destination = format!("ipn:{count}.42");
    let receiver = world.connect(last, Client::new(&destination, true));
    let mut sender = Client::new("ipn:1.5", false);
    sender.send(adu(&destination, flags), &payload(LARGE));
    world.connect(0, sender);
    (world, receiver)
}

/// So much has come to a node.
fn until_carried(world: &mut World, at: usize, octets: u64) {
    world.until("much has come", |world| carried(world, at) >= octets);
}

fn arrives(world: &mut World, at: usize, receiver: StreamId) {
    world.until("it is delivered", |world| {
        !world.client(at, receiver).received.is_empty()
    });
    world.until("nothing is left", all_empty);
    world.settle();
    let received = &world.client(at, receiver).received;
    assert_eq!(received.len(), 1);
    assert!(received[0].1 == payload(LARGE), "as it was sent");
    for machine in 0..world.machines.len() {
        world.check(machine);
        assert!(world.machines[machine].node.as_ref().unwrap().is_at_rest());
    }
}

/// RFC 9174 3.2, RFC 9171 5.8.
#[test]
fn a_transfer_that_was_cut_goes_on_behind_what_was_acknowledged() {
    for seed in 0..5 {
        let (mut world, receiver) = begin(2, seed, 0, |_, _| ());
        until_carried(&mut world, 1, 450_000);
        world.cut(0, 1);
        world.settle();
        let fragments: Vec<u64> = (world.machines[1].store.kept.bundles.values())
            .filter_map(|(bundle, _)| bundle.id.fragment)
            .map(|range| range.length)
            .collect();
        assert!(
            matches!(fragments[..], [length] if length > 300_000),
            "{fragments:?}"
        );
        world.join(0, 1);
        arrives(&mut world, 1, receiver);
        let twice = carried(&world, 1) - u64::try_from(LARGE).unwrap();
        assert!(twice < TWICE, "{twice} octets came twice");
        assert_eq!(
            (counters(&world, 1).kept, counters(&world, 0).resumed),
            (1, 1)
        );
        assert_eq!(counters(&world, 1).delivered, 1);
    }
}

/// The parts of a bundle share its octets, until they are deleted, and then without it.
#[test]
fn parts_that_are_kept_take_no_room_beside_the_bundle() {
    let quota = u64::try_from(LARGE).unwrap() + TWICE;
    for seed in 0..5 {
        let edit = |number, config: &mut Config| {
            if number == 2 {
                config.quota_octets = quota;
            }
        };
        let (mut world, receiver) = begin(2, seed, 0, edit);
        let fits = |world: &World| {
            let taken = world.machines[1].node.as_ref().unwrap().taken_octets();
            assert!(taken <= quota, "{taken} octets in a store for {quota}");
        };
        world.until("much has come", |world| {
            fits(world);
            carried(world, 1) >= 450_000
        });
        world.cut(0, 1);
        world.until("the bundle is gone", |world| {
            fits(world);
            world.machines[1].node.as_ref().unwrap().stored().0 == 1
        });
        world.join(0, 1);
        world.until("it is delivered", |world| {
            fits(world);
            !world.client(1, receiver).received.is_empty()
        });
        arrives(&mut world, 1, receiver);
        assert_eq!(counters(&world, 1).kept, 1);
    }
}

#[test]
fn a_transfer_that_is_cut_again_and_again_comes_to_its_end() {
    let (mut world, receiver) = begin(2, 7, 0, |_, _| ());
    let mut cuts = 0;
    while world.client(1, receiver).received.is_empty() && cuts < 40 {
        // Each contact carries less than the bundle has.
        let before = carried(&world, 1);
        world.until("a contact's worth has come, or all", |world| {
            carried(world, 1) >= before + 180_000 || !world.client(1, receiver).received.is_empty()
        });
        world.cut(0, 1);
        world.settle();
        world.join(0, 1);
        cuts += 1;
    }
    assert!((3..40).contains(&cuts), "{cuts} cuts");
    arrives(&mut world, 1, receiver);
}

/// An acknowledged bundle outlives the node that acknowledged it.
#[test]
fn a_receiver_that_dies_has_what_it_acknowledged() {
    for seed in 0..5 {
        let (mut world, _) = begin(2, seed, 0, |_, _| ());
        until_carried(&mut world, 1, 450_000);
        world.crash(1);
        world.start(1);
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        arrives(&mut world, 1, receiver);
        let twice = carried(&world, 1) - u64::try_from(LARGE).unwrap();
        assert!(twice < TWICE + 50_000, "{twice} octets came twice");
    }
}

#[test]
fn a_sender_that_dies_sends_all_again_and_the_part_is_no_burden() {
    let (mut world, receiver) = begin(2, 3, 0, |_, _| ());
    world.until("it is accepted", |world| {
        world.machines[0]
            .clients
            .values()
            .all(|client| client.responses.len() == 2)
    });
    until_carried(&mut world, 1, 300_000);
    world.crash(0);
    world.start(0);
    arrives(&mut world, 1, receiver);
    assert_eq!(counters(&world, 1).delivered, 1);
}

/// RFC 9171 4.2.3: a bundle that must not be fragmented goes as a whole again; so does one for a peer that keeps no
/// part.
#[test]
fn what_must_stay_whole_goes_again_as_a_whole() {
    let cases = [
        (4, Enabled::Yes, Enabled::Yes),
        (0, Enabled::No, Enabled::Yes),
        (0, Enabled::Yes, Enabled::No),
    ];
    for (flags, sender_resumes, receiver_resumes) in cases {
        let (mut world, receiver) = begin(2, 4, flags, |number, config| {
            for link in &mut config.links {
                link.policy.resume = sender_resumes;
            }
            if number == 2 {
                config.listeners[0].policy.resume = receiver_resumes;
            }
        });
        until_carried(&mut world, 1, 450_000);
        world.cut(0, 1);
        world.settle();
        assert!(world.machines[1].store.kept.bundles.is_empty());
        world.join(0, 1);
        arrives(&mut world, 1, receiver);
        assert!(carried(&world, 1) >= 450_000 + u64::try_from(LARGE).unwrap());
        assert_eq!(
            (counters(&world, 1).kept, counters(&world, 0).resumed),
            (0, 0)
        );
    }
}

/// A part goes its own way to the next hop, and what comes later follows it.
#[test]
fn a_part_that_was_kept_is_forwarded_like_any_fragment() {
    let (mut world, receiver) = begin(3, 5, 0, |_, config| {
        for link in &mut config.links {
            link.policy.cut_through = Enabled::No;
        }
    });
    until_carried(&mut world, 1, 450_000);
    world.cut(0, 1);
    world.until("the part is at the last node", |world| {
        !world.machines[2].store.kept.bundles.is_empty()
            && world.machines[1].store.kept.bundles.is_empty()
    });
    world.join(0, 1);
    arrives(&mut world, 2, receiver);
}

/// Each trouble at each moment of the transfer, until it is over.
fn at_any_moment(count: u32, trouble: impl Fn(&mut World), repair: impl Fn(&mut World)) {
    let last = usize::try_from(count - 1).unwrap();
    for moment in (0..).step_by(7) {
        let (mut world, mut receiver) = begin(count, moment, 0, |_, _| ());
        world.until("it is accepted", |world| {
            world.machines[0]
                .clients
                .values()
                .all(|client| client.responses.len() == 2)
        });
        for _ in 0..moment {
            world.step();
        }
        let over = !world.client(last, receiver).received.is_empty();
        trouble(&mut world);
        for _ in 0..moment % 30 {
            world.step();
        }
        repair(&mut world);
        if over {
            return;
        }
        if !world.machines[last].clients.contains_key(&receiver) {
            receiver = world.connect(last, Client::new(&format!("ipn:{count}.42"), true));
        }
        arrives(&mut world, last, receiver);
    }
}

#[test]
fn the_contact_is_cut_at_any_moment() {
    at_any_moment(2, |world| world.cut(0, 1), |world| world.join(0, 1));
}

#[test]
fn the_receiver_dies_at_any_moment() {
    at_any_moment(2, |world| world.crash(1), |world| world.start(1));
}

#[test]
fn the_sender_dies_at_any_moment() {
    at_any_moment(2, |world| world.crash(0), |world| world.start(0));
}

#[test]
fn the_first_contact_is_cut_at_any_moment_while_the_bundle_is_passed_on() {
    at_any_moment(3, |world| world.cut(0, 1), |world| world.join(0, 1));
}

#[test]
fn the_second_contact_is_cut_at_any_moment_while_the_bundle_is_passed_on() {
    at_any_moment(3, |world| world.cut(1, 2), |world| world.join(1, 2));
}

/// The session falls silent, and the rest comes over another before the first is given up.
#[test]
fn a_session_that_died_without_a_word_gives_way_to_the_rest() {
    let (mut world, receiver) = begin(2, 6, 0, |_, _| ());
    until_carried(&mut world, 1, 450_000);
    world.settle_some(30);
    world.freeze(0, 1);
    world.pass(Duration::from_millis(300));
    let begin = world.monotonic;
    world.handle(0, dhow_node::driver::Event::NetworkChanged);
    arrives(&mut world, 1, receiver);
    assert!(
        world.monotonic - begin < Duration::from_secs(10),
        "long before the session times out"
    );
}

/// A part that was acknowledged and then turns out to be of a damaged bundle is asked for again, also when its sender
/// does not hear of the refusal.
#[test]
fn a_part_of_a_damaged_bundle_reaches_nobody_and_is_sent_again() {
    let mut asked = 0;
    for moment in 0..30 {
        let (mut world, receiver) = begin(2, moment, 0, |_, _| ());
        until_carried(&mut world, 1, 200_000);
        assert!(world.spoil(0, 1));
        world.until("it is refused", |world| counters(world, 1).refused == 1);
        world.settle_some(u32::try_from(moment % 10).unwrap());
        world.cut(0, 1);
        world.settle();
        assert!(world.machines[1].store.kept.bundles.is_empty());
        world.join(0, 1);
        arrives(&mut world, 1, receiver);
        asked += usize::from(counters(&world, 1).refused > 1);
    }
    assert!(asked > 0, "the refusal is lost once at least");
}
