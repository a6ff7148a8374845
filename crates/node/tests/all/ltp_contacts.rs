//! Planned contacts of nodes that speak LTP: the link state cues of RFC 5326 5.

use crate::ltp::{offer, pair, stored};
use crate::world::World;
use crate::world::client::Client;
use dhow_node::config::{Config, DialTime, Enabled, LtpPolicy};
use dhow_node::driver::{Event, OperatorCommand, Ticket};
use dhow_node::view::LinkState;

/// Contacts in both directions, from node 1 in the first seconds, and a minute of light between the two.
fn planned(number: u32, config: &mut Config) {
    config.links[0].dial = DialTime::Contacts;
    for (way, time) in [
        ((1, 2), (10, 20)),
        ((2, 1), (200, 210)),
        ((1, 2), (400, 410)),
    ] {
        let mut contact = crate::world::contact(way, time);
        contact.light_time_ms = 60_000;
        config.contacts.insert(contact).unwrap();
    }
    assert!(number < 3);
}

#[test]
fn nothing_goes_again_while_the_plan_says_that_the_peer_cannot_answer() {
    let mut world = pair(9, LtpPolicy::default(), planned);
    world.air.lost = 1_000;
    offer(&mut world, &[10]);
    world.stay(30);
    assert_eq!((stored(&world, 0), world.air.sent), (1, 1));
    // The peer may answer from 200 to 210, and that takes a minute. Contacts of this node begin again at 400.
    world.stay(350);
    assert_eq!(world.air.sent, 1);
    world.air.lost = 0;
    world.stay(40);
    assert_eq!(
        (stored(&world, 1), world.air.sent),
        (1, 2),
        "the checkpoint again"
    );
}

/// RFC 5326 6.5, 6.6: a cue that nothing can leave stops what leaves, and a segment that comes is taken at any time.
#[test]
fn a_peer_is_heard_before_the_first_contact_of_this_node_which_answers_in_it() {
    let mut world = pair(10, LtpPolicy::default(), planned);
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    offer(&mut world, &[10]);
    world.stay(5);
    assert_eq!(world.air.sent, 0, "no contact is on");
    let node = world.machines[1].node.as_ref().unwrap();
    assert_eq!(node.links()[0].state, LinkState::Absent);
    assert!(!node.routes().iter().any(|it| it.usable));
    world.stay(25);
    assert_eq!(world.client(1, receiver).received.len(), 1);
    // The report waits for the contact of node 2, which begins at 200.
    world.stay(160);
    assert_eq!((stored(&world, 0), world.air.sent), (1, 1));
    world.stay(20);
    assert_eq!(stored(&world, 0), 0);
}

/// Nodes that look at their plan before the links are there, as those do that dial them a moment later.
fn dialled_later(seed: u64, plan: impl Fn(&mut Config)) -> World {
    let mut world = pair(seed, LtpPolicy::default(), |_, config| {
        config.links[0].enabled = Enabled::No;
        plan(config);
    });
    world.stay(1);
    for at in [0, 1] {
        let command = OperatorCommand::LinkUp("next".into());
        let ticket = Ticket(1);
        world.handle(at, Event::Operator { ticket, command });
    }
    world
}

/// A link that is dialled at any time is told of its peer's contacts from the start of its node on (RFC 5326 6.5, 6.6).
#[test]
fn a_contact_of_the_peer_right_after_the_start_starts_the_timers_again() {
    let mut world = dialled_later(17, |config| {
        let contact = crate::world::contact((2, 1), (10, 50));
        config.contacts.insert(contact).unwrap();
    });
    world.air.lost = 1_000;
    offer(&mut world, &[10]);
    world.stay(8);
    assert_eq!((stored(&world, 0), world.air.sent), (1, 1));
    world.air.lost = 0;
    world.stay(10);
    assert_eq!((stored(&world, 0), stored(&world, 1)), (0, 1));
}

#[test]
fn a_light_time_that_changes_right_after_the_start_counts_for_what_leaves_then() {
    let mut world = dialled_later(18, |config| {
        for (time, light_time_ms) in [((0, 5), 0), ((5, 60), 20_000)] {
            let mut contact = crate::world::contact((1, 2), time);
            contact.light_time_ms = light_time_ms;
            config.contacts.insert(contact).unwrap();
        }
    });
    world.stay(5);
    world.air.lost = 1_000;
    offer(&mut world, &[10]);
    world.stay(30);
    assert_eq!(world.air.sent, 1, "its answer takes 40 s");
    world.air.lost = 0;
    world.stay(20);
    assert_eq!((stored(&world, 0), stored(&world, 1)), (0, 1));
}
