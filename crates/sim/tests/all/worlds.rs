//! Whole networks in virtual time.

use std::path::Path;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::storage::REMOVED_BOUND;
use dhow_scenario::Scenario;
use dhow_sim::{Run, World};

use crate::world::{run, scenario};

const TWO: &str = r#"
[[node]]
name = "east"
[[node]]
name = "west"
[[link]]
between = ["east", "west"]
rate = "1Mbit"
delay = "40ms"
"#;

#[test]
fn a_bundle_moves_from_one_node_to_the_other() {
    let more = r#"
        [[traffic]]
        from = "east"
        to = "west"
        count = 1
        size = "100kB"
        [stop]
        at = "1h"
        when_delivered = true
    "#;
    let world = run(&scenario(&format!("{TWO}{more}")), 1);
    assert_eq!(world.ledger().delivered, 1);
    // 100 kB at 125 kB/s, and the way of the last octet.
    let took = world.now().since(Instant::START);
    assert!(
        took > Duration::from_millis(840) && took < Duration::from_millis(2_000),
        "{took:?}"
    );
}

#[test]
fn a_payload_that_no_store_could_take_is_refused_without_being_made() {
    for fidelity in ["octet", "bundle"] {
        let more = r#"
            [[traffic]]
            from = "east"
            to = "west"
            count = 3
            size = "1000000TB"
            [[traffic]]
            from = "east"
            to = "west"
            count = 3
            size = "1kB"
            [stop]
            at = "1min"
        "#;
        let text = format!("fidelity = \"{fidelity}\"\n{TWO}{more}");
        let world = run(&scenario(&text), 1);
        let ledger = world.ledger();
        let told = (ledger.sent(), ledger.refused, ledger.delivered);
        assert_eq!(told, (6, 3, 3), "{fidelity}");
    }
}

#[test]
fn nodes_remember_as_many_removed_bundles_as_real_ones_unless_they_are_told_another_number() {
    let text = |hub: &str| {
        format!(
            r#"
            [[node]]
            name = "hub"
            {hub}
            [[star]]
            name = "s"
            count = 60
            hub = "hub"
            rate = "100kbit"
            delay = "10ms"
            contact_every = "1min"
            contact_for = "5s"
            [[traffic]]
            from = "s*"
            to = "hub"
            size = "1kB"
            count = 40
            mean = "10s"
            [stop]
            at = "20min"
            "#
        )
    };
    let bounds = |hub: &str| -> Vec<usize> {
        let nodes = scenario(&text(hub)).nodes;
        nodes[..2].iter().map(|node| node.removed_bound).collect()
    };
    assert_eq!(bounds(""), [REMOVED_BOUND; 2]);
    assert_eq!(bounds("removed_bound = 10"), [10, REMOVED_BOUND]);
    run(&scenario(&text("")), 1);
    let forgetful = scenario(&text("removed_bound = 10"));
    let mut forgetful = Run::new(&forgetful, 1).unwrap();
    while forgetful.advance(100_000) {}
    let found = forgetful.finish().findings;
    assert_eq!(found.first().map(|found| found.oracle), Some("once"));
}

const STORM: &str = r#"
    [[node]]
    name = "a"
    [[node]]
    name = "b"
    clock_offset = "-3s"
    [[node]]
    name = "c"
    clock = "none"
    read = "4ms"
    [[link]]
    between = ["a", "b"]
    rate = "2Mbit"
    delay = "30ms"
    at_end = "silence"
    keepalive = "10s"
    [[link]]
    between = ["c", "b"]
    rate = "8Mbit"
    delay = "5ms"
    [[contact]]
    link = "a-b"
    start = "5s"
    for = "40s"
    every = "1min"
    [[contact]]
    link = "c-b"
    start = "20s"
    for = "30s"
    every = "1min"
    [[traffic]]
    from = "a"
    to = "c"
    count = 40
    size = "100B..300kB"
    mean = "5s"
    [[traffic]]
    from = "c"
    to = "a"
    count = 150
    size = "16B..20kB"
    mean = "1s"
    [faults]
    crash_every = "90s"
    crash_down = "5s"
    crash_at_flush = 0.01
    stall_every = "30s"
    stall_for = "500ms"
    reset_every = "1min"
    until = "6min"
    [stop]
    at = "12min"
    expects_all = true
"#;

#[test]
fn nothing_is_lost_in_a_storm() {
    let scenario = scenario(STORM);
    let mut crashes = 0;
    for seed in 0..12 {
        let world = run(&scenario, seed);
        crashes += world.counts().crashes;
        assert!(
            world.ledger().delivered > 120,
            "{}",
            world.ledger().delivered
        );
    }
    assert!(crashes > 60, "{crashes}");
}

#[test]
fn a_seed_tells_everything_that_happens() {
    let scenario = scenario(STORM);
    let trace = |seed| {
        let world = run(&scenario, seed);
        (world.trace().hash(), world.trace().steps(), world.events())
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn disks_that_lie_are_found_out() {
    let text = STORM.replace(
        "until = \"6min\"",
        "until = \"6min\"\n    lying_disks = true",
    );
    let scenario = scenario(&text);
    let found = (0..8).any(|seed| {
        let mut world = World::new(&scenario, seed).expect("the network can be built");
        while world.run(Instant::START + Duration::from_secs(86_400), 1_000_000) {}
        world
            .violations()
            .iter()
            .any(|violation| violation.oracle == "kept")
    });
    assert!(found, "eight seeds lose nothing on disks that keep nothing");
}

#[test]
fn the_bus_makes_its_rounds() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/village-bus.toml");
    let mut scenario = Scenario::open(&path).expect("the scenario is one");
    // The first day, before what was sent on it must have arrived.
    scenario.stop.at = Duration::from_secs(86_400);
    scenario.stop.expects_all = false;
    let world = run(&scenario, 1);
    assert!(
        world.ledger().delivered > 50,
        "{}",
        world.ledger().delivered
    );
}

#[test]
fn traffic_without_a_way_is_refused() {
    let text = format!(
        "{TWO}[[node]]\nname = \"far\"\n[[traffic]]\nfrom = \"east\"\nto = \"far\"\ncount = 1\nsize = \"1kB\"\n[stop]\nat = \"1h\"\n"
    );
    let error = World::new(&scenario(&text), 1).expect_err("there is no way");
    assert_eq!(error.to_string(), "no links lead from 'east' to 'far'");
    // A router that makes copies has no way to know: what nobody fetches does not arrive.
    let copied = format!("{text}[[routing]]\nnode = \"*\"\nrouter = \"epidemic\"\n");
    let mut scenario = scenario(&copied);
    scenario.stop.expects_all = false;
    assert_eq!(run(&scenario, 1).ledger().delivered, 0);
}
