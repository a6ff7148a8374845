//! The beginnings of contacts: paths that were lost in silence, sessions that outlived them, and the attempts
//! to connect meanwhile.

use std::time::Duration;

use dhow_bundle::Instant;
use dhow_node::config::LinkId;
use dhow_node::driver::{Carrier, Event, Path, StreamId};
use dhow_node::view::LinkState;

use super::{adu, delivered, payload};
use crate::world::World;
use crate::world::client::Client;

/// The longest interval at which links dial (`backoff_max_ms` of the world).
const CAP: Duration = Duration::from_secs(1);

/// Two nodes with a session between them that no longer carries anything; node `sender` gets bundles for an
/// endpoint of the other, and the receiver's registration comes back.
fn silenced(sender: usize) -> (World, StreamId) {
    let mut world = World::line(2, 77, |_, _| {});
    world.until("the session is up", |world| {
        (0..2).all(|at| sessions(world, at) == 1)
    });
    let receiver = 1 - sender;
    let stream = world.connect(
        receiver,
        Client::new(&format!("ipn:{}.1", receiver + 1), true),
    );
    world.settle();
    world.pass(Duration::from_secs(3));
    world.silence(0, 1);
    let mut client = Client::new(&format!("ipn:{}.9", sender + 1), false);
    for number in 0..5 {
        client.send(
            adu(&format!("ipn:{}.1", receiver + 1)),
            &payload(number, 2_000),
        );
    }
    world.connect(sender, client);
    world.settle();
    (world, stream)
}

fn sessions(world: &World, at: usize) -> usize {
    world.machines[at].node.as_ref().unwrap().sessions().len()
}

/// Lets time pass in small steps, and whatever can happen meanwhile.
fn live(world: &mut World, duration: Duration) {
    let end = world.monotonic + duration;
    while world.monotonic < end {
        world.pass(Duration::from_millis(10));
        world.settle();
    }
}

#[test]
fn a_path_lost_in_silence_is_dialled_at_the_cap_and_the_new_session_carries_what_the_old_one_had() {
    for sender in [0, 1] {
        let (mut world, receiver) = silenced(sender);
        live(&mut world, Duration::from_secs(20));
        assert_eq!(delivered(&mut world, 1 - sender, receiver), 0);
        // Once it is known: the path is checked every second.
        let dials: Vec<Instant> = world.dials.iter().copied().skip(2).collect();
        assert!((17..=20).contains(&dials.len()), "{dials:?}");
        for pair in dials.windows(2) {
            assert!(pair[1] - pair[0] <= CAP + Duration::from_millis(10));
        }
        world.end_silence(0, 1);
        live(&mut world, CAP + Duration::from_millis(20));
        assert_eq!(
            delivered(&mut world, 1 - sender, receiver),
            5,
            "node {} sends",
            sender + 1
        );
        assert_eq!(sessions(&world, 0), 1, "the lost session is cut");
        assert_eq!(sessions(&world, 1), 1, "on both sides");
        let before = world.dials.len();
        live(&mut world, Duration::from_secs(20));
        assert_eq!(world.dials.len(), before, "one session is enough");
    }
}

#[test]
fn a_peer_that_is_slow_to_acknowledge_is_not_dialled_beside() {
    let mut world = World::line(2, 78, |_, _| {});
    world.until("the session is up", |world| sessions(world, 0) == 1);
    let before = world.dials.len();
    let mut client = Client::new("ipn:1.9", false);
    client.send(adu("ipn:2.1"), &payload(1, 100_000));
    world.connect(0, client);
    for _ in 0..25 {
        world.step();
    }
    for _ in 0..20 {
        // Nothing arrives, but the path is sound.
        world.pass(Duration::from_secs(1));
        world.handle(0, Event::NetworkChanged);
    }
    assert_eq!(world.dials.len(), before);
}

#[test]
fn a_changed_network_makes_the_accepting_side_cut_a_lost_session_that_has_bundles_under_way() {
    let (mut world, _) = silenced(1);
    world.pass(Duration::from_millis(300));
    assert_eq!(sessions(&world, 1), 1, "it may come back by itself");
    world.handle(1, Event::NetworkChanged);
    world.pass(Duration::from_millis(30));
    // The peer is told by the reset, and dials anew.
    assert_eq!(sessions(&world, 1), 0);
}

#[test]
fn a_changed_network_is_dialled_into_again_and_again_at_first() {
    let (mut world, receiver) = silenced(0);
    live(&mut world, Duration::from_secs(10));
    let before = world.dials.len();
    world.handle(0, Event::NetworkChanged);
    live(&mut world, Duration::from_millis(250));
    let dials = world.dials.len() - before;
    assert!((3..=5).contains(&dials), "{dials} attempts in 250 ms");
    world.end_silence(0, 1);
    live(&mut world, Duration::from_millis(400));
    assert_eq!(delivered(&mut world, 1, receiver), 5);
}

#[test]
fn a_connection_that_comes_after_another_was_quicker_is_dropped() {
    let mut world = World::line(2, 79, |_, _| {});
    world.until("the session is up", |world| sessions(world, 0) == 1);
    world.dial(0, dhow_node::config::LinkId(0));
    live(&mut world, Duration::from_secs(2));
    assert_eq!((sessions(&world, 0), sessions(&world, 1)), (1, 1));
}

#[test]
fn a_session_without_a_carrier_is_cut_when_that_lasts_and_does_not_hold_its_bundles() {
    let (mut world, receiver) = silenced(0);
    world.appearance = Path::Dark;
    world.handle(0, Event::NetworkChanged);
    world.pass(Duration::from_millis(30));
    assert_eq!(sessions(&world, 0), 1, "it may be back in a moment");
    live(&mut world, Duration::from_secs(2));
    assert_eq!(sessions(&world, 0), 0);
    world.end_silence(0, 1);
    world.handle(0, Event::NetworkChanged);
    live(&mut world, Duration::from_millis(50));
    assert_eq!(delivered(&mut world, 1, receiver), 5);
}

#[test]
fn a_path_that_was_lost_is_dialled_also_when_its_idle_connection_seems_open_again() {
    let (mut world, _) = silenced(1);
    live(&mut world, Duration::from_secs(3));
    world.appearance = Path::Open;
    let before = world.dials.len();
    live(&mut world, Duration::from_secs(4));
    assert!(world.dials.len() >= before + 3, "nothing has come back");
}

#[test]
fn a_driver_that_tells_of_lost_paths_is_asked_about_none_that_is_idle() {
    let (mut world, receiver) = silenced(1);
    world.handle(0, Event::TellsPaths);
    let before = world.dials.len();
    live(&mut world, Duration::from_secs(10));
    assert_eq!(world.dials.len(), before, "the driver would have said so");
    let stream = world.machines[0].node.as_ref().unwrap().sessions()[0].stream;
    let path = Path::Lost;
    world.handle(0, Event::PathChecked { stream, path });
    live(&mut world, Duration::from_secs(3));
    assert!(world.dials.len() >= before + 3, "it is dialled at the cap");
    world.end_silence(0, 1);
    live(&mut world, CAP + Duration::from_millis(20));
    assert_eq!(delivered(&mut world, 0, receiver), 5);
}

#[test]
fn a_link_without_a_carrier_is_dialled_when_it_is_back_and_not_before() {
    let mut world = World::line(2, 80, |_, _| {});
    let link = LinkId(0);
    let told = |world: &mut World, carrier| {
        world.handle(0, Event::CarrierChanged { link, carrier });
    };
    let state = |world: &World| world.machines[0].node.as_ref().unwrap().links()[0].state;
    world.until("the session is up", |world| sessions(world, 0) == 1);
    told(&mut world, Carrier::Absent);
    assert_eq!(state(&world), LinkState::Up, "it is in nobody's way");
    world.cut(0, 1);
    let before = world.dials.len();
    live(&mut world, Duration::from_secs(30));
    world.handle(0, Event::NetworkChanged);
    live(&mut world, Duration::from_secs(30));
    assert_eq!(world.dials.len(), before);
    assert_eq!(state(&world), LinkState::Absent);
    world.join(0, 1);
    told(&mut world, Carrier::Present);
    live(&mut world, Duration::from_millis(50));
    assert_eq!(sessions(&world, 0), 1);
    assert_eq!(world.dials.len(), before + 1);
}

#[test]
fn a_carrier_that_goes_ends_the_attempts_under_way_and_one_that_succeeds_all_the_same_is_taken() {
    let mut world = World::line(2, 81, |_, _| {});
    world.until("the session is up", |world| sessions(world, 0) == 1);
    world.cut(0, 1);
    let (link, carrier) = (LinkId(0), Carrier::Absent);
    world.handle(0, Event::CarrierChanged { link, carrier });
    world.join(0, 1);
    world.dial(0, link);
    live(&mut world, Duration::from_secs(2));
    assert_eq!((sessions(&world, 0), sessions(&world, 1)), (1, 1));
}
