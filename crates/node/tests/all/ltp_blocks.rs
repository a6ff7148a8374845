//! Blocks of LTP with bundles that cannot be read, and many that are begun.

use crate::ltp::{block, bundle, pair, payload, stored};
use dhow_node::config::LtpPolicy;

/// A bundle with a wrong checksum of its primary block.
fn spoilt(sequence: u64, octets: &[u8]) -> Vec<u8> {
    let mut bundle = bundle(sequence, octets);
    let source = [0x82, 2, 0x82, 1, 5];
    let at = bundle.windows(5).position(|it| it == source).unwrap();
    bundle[at + 4] = 6;
    bundle
}

#[test]
fn bundles_with_a_wrong_checksum_cost_the_others_of_their_block_nothing() {
    for (session, size) in [(9, 40), (10, 701), (11, 65_000)] {
        let mut world = pair(20, LtpPolicy::default(), |_, _| ());
        world.settle();
        let bundles = (1..=20).map(|number| match number % 2 {
            0 => bundle(number, &payload(4, 700)),
            _ => spoilt(number, &payload(4, 900)),
        });
        for octets in block(session, &bundles.collect::<Vec<_>>().concat(), size) {
            world.air.inject(0, 1, octets);
        }
        world.until("the others are there", |world| stored(world, 1) == 10);
        let node = world.machines[1].node.as_ref().unwrap();
        assert_eq!(node.counters().refused, 10);
    }
}

/// Octets behind a bundle without a known end are not acknowledged: their sender gets a cancellation.
#[test]
fn a_block_that_cannot_be_read_to_its_end_is_cancelled() {
    let mut world = pair(21, LtpPolicy::default(), |_, _| ());
    world.settle();
    let whole = [bundle(1, b"one"), vec![0; 30], bundle(2, b"two")].concat();
    world.air.longest = 0;
    for octets in block(9, &whole, 100) {
        world.air.inject(0, 1, octets);
    }
    world.until("the first is there", |world| stored(world, 1) == 1);
    world.stay(1);
    assert!(world.air.sent > 0);
    // A report has a scope and claims.
    assert!(world.air.longest < 8, "{}", world.air.longest);
}

/// Many blocks are begun of which little comes: together they keep little of the quota from others.
#[test]
fn octets_that_are_announced_take_little_room() {
    let mut world = pair(22, LtpPolicy::default(), |_, _| ());
    world.hostile = false;
    world.settle();
    let octets = payload(1, 2_000_000);
    for number in 1..=400 {
        let whole = bundle(u64::try_from(number).unwrap(), &octets);
        let first = block(number, &whole[..2_000], 1_000).swap_remove(0);
        world.air.inject(0, 1, first);
    }
    world.settle();
    let node = world.machines[1].node.as_ref().unwrap();
    let (bundles, octets) = node.stored();
    assert_eq!((bundles, node.counters().refused), (400, 0));
    assert!(
        octets < world.machines[1].config.quota_octets / 5,
        "{octets} octets"
    );
}
