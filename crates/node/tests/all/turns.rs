//! Sources take turns: somebody's bulk does not stand before a small bundle of another.

use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_node::api::wire::BundleAdu;
use dhow_node::driver::Occurrence;

const BULK: usize = 3_000;
const BULK_OCTETS: usize = 10_000;

/// Gives a node bundles of one application.
fn give(world: &mut World, source: &str, destination: &str, bundles: usize, octets: usize) {
    let mut client = Client::new(source, false);
    for _ in 0..bundles {
        let adu = BundleAdu {
            dst_eid: destination.into(),
            lifetime_ms: Some(6_000_000),
            ..BundleAdu::default()
        };
        client.send(adu, &vec![7; octets]);
    }
    world.connect(0, client);
}

/// Bundles of the bulk that the second node has received, and those of them before the small one.
fn received(world: &World) -> (usize, Option<usize>) {
    let occurrences = world.machines[1].occurrences.iter();
    let sources: Vec<String> = occurrences
        .filter_map(|it| match it {
            Occurrence::Received { id, .. } => Some(id.source.to_string()),
            _ => None,
        })
        .collect();
    let small = sources.iter().position(|source| source == "ipn:1.6");
    (sources.len() - usize::from(small.is_some()), small)
}

fn held(world: &World) -> usize {
    world.machines[0].store.kept.bundles.len()
}

#[test]
fn a_small_bundle_is_not_behind_all_that_waited_for_the_neighbour_before_it() {
    for destination in ["ipn:2.42", "ipn:2.43"] {
        let mut world = World::line(2, 3, |_, _| ());
        world.cut(0, 1);
        give(&mut world, "ipn:1.5", "ipn:2.42", BULK, BULK_OCTETS);
        world.until("the bulk waits", |world| held(world) == BULK);
        give(&mut world, "ipn:1.6", destination, 1, 100);
        world.until("both wait", |world| held(world) == BULK + 1);
        world.join(0, 1);
        world.until("the small one is there", |world| {
            received(world).1.is_some()
        });
        let before = received(&world).1.unwrap();
        assert!(before <= 2, "{before} bundles of another were before it");
    }
}

#[test]
fn a_small_bundle_waits_for_what_is_in_flight_alone() {
    let mut world = World::line(2, 4, |_, config| {
        config.store_queue_octets = 1 << 26;
    });
    world.pace = Duration::from_micros(50);
    world.cut(0, 1);
    give(&mut world, "ipn:1.5", "ipn:2.42", BULK, BULK_OCTETS);
    world.until("the bulk waits", |world| held(world) == BULK);
    world.join(0, 1);
    world.until("a third of it is there", |world| {
        received(world).0 >= BULK / 3
    });
    let (then, _) = received(&world);
    give(&mut world, "ipn:1.6", "ipn:2.42", 1, 100);
    world.until("the small one is there", |world| {
        received(world).1.is_some()
    });
    let before = received(&world).1.unwrap() - then;
    // All of the bulk, were it in flight at once.
    assert!(
        before < BULK / 4,
        "{before} bundles of another were before it"
    );
}

#[test]
fn no_more_waits_for_a_socket_than_one_write_takes() {
    let mut world = World::line(2, 5, |_, _| ());
    world.cut(0, 1);
    give(&mut world, "ipn:1.5", "ipn:2.42", BULK, BULK_OCTETS);
    world.until("the bulk waits", |world| held(world) == BULK);
    world.machines[1].stalled = true;
    world.join(0, 1);
    let in_flight = |world: &World| {
        let sessions = world.machines[0].node.as_ref().unwrap().sessions();
        sessions.iter().map(|it| it.in_flight).sum::<usize>()
    };
    world.until("it begins to leave", |world| in_flight(world) > 0);
    world.machines[0].stuffed = true;
    // For as long as nobody answers, what may be under way doubles again and again.
    for _ in 0..40 {
        world.pass(Duration::from_millis(50));
    }
    let waiting = in_flight(&world);
    assert!(
        waiting * BULK_OCTETS <= 3 << 20,
        "{waiting} bundles are under way to a socket that takes nothing"
    );
    world.unstuff(0);
    world.machines[1].stalled = false;
    world.until("all is there", |world| received(world).0 == BULK);
}
