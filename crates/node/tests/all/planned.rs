//! Links that are dialled during planned contacts alone.

use crate::world::{World, contact};
use dhow_node::config::{Config, DialTime};
use dhow_node::view::LinkState;

/// Node 1 dials node 2 during these contacts, seconds from when the world begins.
fn line(seed: u64, contacts: &[(u64, u64)], edit: impl Fn(u32, &mut Config)) -> World {
    World::line(2, seed, |number, config| {
        if number == 1 {
            config.links[0].dial = DialTime::Contacts;
            config.links[0].policy.peer = Some("ipn:2.0".parse().unwrap());
            for window in contacts {
                config.contacts.insert(contact((1, 2), *window)).unwrap();
            }
        }
        edit(number, config);
    })
}

fn state(world: &World) -> LinkState {
    world.machines[0].node.as_ref().unwrap().links()[0].state
}

#[test]
fn a_planned_link_is_dialled_when_its_contact_begins_and_not_after_its_end() {
    let mut world = line(41, &[(10, 20), (20, 30), (90, 100)], |_, _| ());
    world.stay(9);
    assert_eq!(state(&world), LinkState::Absent);
    world.stay(2);
    assert_eq!(state(&world), LinkState::Up);
    // One contact follows the other: nothing changes. A session that stands is left to itself.
    world.stay(22);
    assert_eq!(state(&world), LinkState::Up);
    world.cut(0, 1);
    world.stay(40);
    assert_eq!(state(&world), LinkState::Absent);
    world.stay(20);
    assert!(matches!(
        state(&world),
        LinkState::Waiting(_) | LinkState::Dialling
    ));
}

#[test]
fn contacts_of_others_and_of_the_other_direction_are_none_of_a_link() {
    let mut world = line(42, &[], |number, config| {
        if number == 1 {
            for (from, to) in [(2, 1), (1, 3), (3, 2)] {
                config
                    .contacts
                    .insert(contact((from, to), (0, 1_000)))
                    .unwrap();
            }
        }
    });
    world.stay(20);
    assert_eq!(state(&world), LinkState::Absent);
}

#[test]
fn a_clock_that_is_set_is_followed_within_a_minute() {
    let mut world = line(43, &[(100_000, 100_100)], |_, _| ());
    world.stay(5);
    world.machines[0].clock_ms = Some(100_010_000);
    world.stay(61);
    assert_eq!(state(&world), LinkState::Up);
}
