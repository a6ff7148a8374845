//! Disks that rot, that are full for a while, and that are small.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test"
)]

mod world;

use world::{run, scenario};

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
    for seed in 0..3 {
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
    let text = r#"
        [[node]]
        name = "a"
        [[node]]
        name = "b"
        [[link]]
        between = ["a", "b"]
        rate = "20Mbit"
        [[traffic]]
        from = "a"
        to = "b"
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
    let scenario = scenario(text);
    for seed in 0..3 {
        let world = run(&scenario, seed);
        assert!(world.counts().stalls > 5, "{}", world.counts().stalls);
    }
}
