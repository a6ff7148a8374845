//! Disks that rot, that are full for a while, and that are small.

use std::time::Duration;

use crate::line::line;
use crate::world::{run, scenario};
use dhow_bundle::Instant;
use dhow_sim::World;

/// Much waits long in the middle, some of it in fragments.
const WAITING: &str = r#"
    [[node]]
    name = "a"
    [[node]]
    name = "b"
    quota = "8MB"
    [[node]]
    name = "c"
    clock = "none"
    transfer_mru = "40kB"
    [[link]]
    between = ["a", "b"]
    rate = "8Mbit"
    [[link]]
    between = ["b", "c"]
    rate = "8Mbit"
    [[contact]]
    link = "b-c"
    start = "5min"
    for = "20s"
    every = "5min"
    [[traffic]]
    from = "a"
    to = "c"
    count = 100
    size = "100B..100kB"
    mean = "4s"
    [[traffic]]
    from = "c"
    to = "a"
    count = 50
    size = "100B..20kB"
    mean = "8s"
    [stop]
    at = "21min"
    expects_all = true
"#;

#[test]
fn what_rots_is_lost_alone_and_never_delivered_altered() {
    let text = format!(
        "{WAITING}\n[faults]\nrot_every = \"1s\"\ncrash_every = \"3min\"\nuntil = \"9min\""
    );
    let scenario = scenario(&text);
    let (mut rotted, mut lost) = (0, 0);
    // So much rot hits in one seed of fifty what the oracles do not excuse: a superblock, or an age.
    for seed in 1..4 {
        let world = run(&scenario, seed);
        rotted += world.counts().rotted;
        lost += world.ledger().accepted - world.ledger().delivered;
    }
    assert!(rotted > 300, "{rotted}");
    assert!(lost > 2, "{lost} of {rotted}");
    assert!(lost < rotted / 4, "{lost} of {rotted}");
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let text = format!(
        "{WAITING}\n[faults]\nfull_every = \"40s\"\nfull_for = \"10s\"\ncrash_every = \"3min\"\nuntil = \"9min\""
    );
    let scenario = scenario(&text);
    let (mut filled, mut refused) = (0, 0);
    for seed in 0..3 {
        let world = run(&scenario, seed);
        filled += world.counts().filled;
        refused += world.ledger().refused;
        assert_eq!(world.ledger().delivered, world.ledger().accepted);
    }
    assert!(filled > 40 && refused > 5, "{refused} by {filled}");
}

#[test]
fn a_small_disk_takes_what_fits_and_the_rest_by_and_by() {
    let text = WAITING.replace("quota = \"8MB\"", "disk = \"1MB\"");
    let world = run(&scenario(&text), 1);
    assert_eq!(world.ledger().delivered, 150);
}

#[test]
fn whoever_reconnects_fills_no_stalled_disk_beyond_its_queue() {
    let traffic = r#"
        count = 20
        size = "2MB..6MB"
        mean = "8s"
        [faults]
        stall_every = "10s"
        stall_for = "8s"
        reset_every = "500ms"
        until = "2min"
        [stop]
        at = "20min"
        expects_all = true
    "#;
    let scenario = scenario(&line(2, "rate = \"20Mbit\"", traffic));
    for seed in 0..3 {
        let world = run(&scenario, seed);
        assert!(world.counts().stalls > 5, "{}", world.counts().stalls);
    }
}

/// Others take room of a disk and give it back: the node goes by the present room within a second, so that its store has nothing to refuse.
#[test]
fn a_disk_that_others_fill_and_empty_is_followed_and_loses_nothing() {
    let text = WAITING.replace("quota = \"8MB\"", "quota = \"8MB\"\ndisk = \"20MB\"");
    let at = |seconds| Instant::START + Duration::from_secs(seconds);
    for seed in 0..3 {
        let mut world = World::new(&scenario(&text), seed).unwrap();
        let mut bounds = Vec::new();
        for (second, octets) in [
            (100, 3_000_000),
            (200, 700_000),
            (400, 4_000_000),
            (600, 20_000_000),
        ] {
            world.run(at(second), u64::MAX);
            world.limit_disk("b", octets);
            world.run(at(second + 1), u64::MAX);
            bounds.push(world.quota_octets("b").unwrap());
        }
        world.run(at(3_600), u64::MAX);
        world.finish();
        assert!(world.violations().is_empty(), "{:?}", world.violations());
        assert_eq!(world.counts().store_refusals, 0);
        assert_eq!(world.ledger().delivered, 150);
        let [some, none, more, all] = bounds[..] else {
            panic!("{bounds:?}")
        };
        assert!((1_000_000..2_500_000).contains(&some), "{bounds:?}");
        assert!(none < some && some < more && more < 8_000_000, "{bounds:?}");
        assert_eq!(all, 8_000_000);
    }
}
