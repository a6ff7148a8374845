//! Links of STCP and MTCP: either node dials, each connection carries bundles in one direction, and what dies with it is lost.

use std::time::Duration;

use crate::line::line;
use crate::world::{run, scenario};
use dhow_bundle::Instant;
use dhow_scenario::Scenario;
use dhow_scenario::scenario::Fidelity;

const PROTOCOLS: [&str; 4] = ["stcp", "stcp-draft", "mtcp", "encapsulation"];

/// So many bundles there and back over two links with these keys.
fn over(protocol: &str, link: &str, count: u64, more: &str) -> Scenario {
    let back = format!("[[traffic]]\nfrom = \"n3\"\nto = \"n1\"\ncount = {count}\n");
    let traffic = format!(
        "count = {count}\nsize = \"16B..90kB\"\n{back}size = \"16B..90kB\"\n{more}\n[stop]\nat = \"20min\"\nexpects_all = true\n"
    );
    let link = format!("rate = \"8Mbit\"\ndelay = \"50ms\"\nprotocol = \"{protocol}\"\n{link}");
    scenario(&line(3, &link, &traffic))
}

fn delivered(scenario: &Scenario, seed: u64) -> u64 {
    run(scenario, seed).ledger().delivered
}

#[test]
fn bundles_cross_in_both_directions_in_each_framing_and_at_either_fidelity() {
    for protocol in PROTOCOLS {
        let mut scenario = over(protocol, "loss = 0.01\njitter = \"20ms\"", 30, "");
        for seed in 1..4 {
            assert_eq!(delivered(&scenario, seed), 60, "{protocol}, seed {seed}");
        }
        scenario.fidelity = Fidelity::Bundle;
        for seed in 1..4 {
            assert_eq!(delivered(&scenario, seed), 60, "{protocol}, seed {seed}");
        }
    }
}

#[test]
fn a_stream_fills_the_link_though_nobody_acknowledges() {
    let traffic = "count = 50\nsize = \"100kB\"\n[stop]\nat = \"1h\"\nwhen_delivered = true\n";
    for protocol in PROTOCOLS {
        let link = format!("rate = \"8Mbit\"\ndelay = \"50ms\"\nprotocol = \"{protocol}\"");
        let world = run(&scenario(&line(2, &link, traffic)), 1);
        assert_eq!(world.ledger().delivered, 50);
        // 5 MB at 1 MB/s.
        let took = world.now().since(Instant::START);
        assert!(took < Duration::from_millis(6_500), "{took:?}");
    }
}

#[test]
fn what_waits_for_a_contact_is_sent_in_it_and_what_its_end_cuts_may_be_lost() {
    let contact = "mean = \"1s\"\n[[contact]]\nlink = \"n1-n2\"\nstart = \"10s\"\nfor = \"15s\"\nevery = \"40s\"\n";
    for (protocol, at_end) in [("stcp", "reset"), ("mtcp", "silence")] {
        let scenario = over(protocol, &format!("at_end = \"{at_end}\""), 60, contact);
        for seed in 1..4 {
            let delivered = delivered(&scenario, seed);
            assert!(delivered >= 110, "{protocol}, seed {seed}: {delivered}");
        }
    }
}

#[test]
fn nodes_that_crash_and_connections_that_are_reset_lose_no_more_than_was_on_its_way() {
    let faults = "mean = \"2s\"\n[faults]\ncrash_every = \"40s\"\ncrash_down = \"3s\"\ncrash_at_flush = 0.01\nstall_every = \"30s\"\nstall_for = \"500ms\"\nread_fails = 0.005\nreset_every = \"20s\"\nuntil = \"3min\"\n";
    let (mut all, mut crashes) = (0, 0);
    for seed in 0..12 {
        let protocol = PROTOCOLS[usize::try_from(seed % 3).unwrap()];
        let world = run(&over(protocol, "retry = \"1s\"", 60, faults), seed);
        crashes += world.counts().crashes;
        all += world.ledger().delivered;
    }
    assert!(crashes > 60, "{crashes}");
    // Bundles that are written to a machine that is down are lost, until the sender finds out.
    assert!(all > 12 * 75, "{all} of 1440");
}

#[test]
fn what_is_kept_leaves_by_sessions_that_appear_though_the_connection_died_with_it() {
    let text = r#"
        [[node]]
        name = "rover"
        [[node]]
        name = "base"
        [[node]]
        name = "orbiter"
        [[link]]
        between = ["rover", "base"]
        rate = "2Mbit"
        protocol = "mtcp"
        on_sent = "keep"
        [[link]]
        between = ["rover", "orbiter"]
        rate = "4Mbit"
        [[link]]
        between = ["orbiter", "base"]
        rate = "4Mbit"
        [[contact]]
        link = "rover-orbiter"
        start = "2min"
        for = "1min"
        [[route]]
        node = "rover"
        to = "base"
        via = "orbiter"
        priority = -1
        [[traffic]]
        from = "rover"
        to = "base"
        count = 50
        size = "16B..20kB"
        mean = "1s"
        [faults]
        reset_every = "3s"
        until = "1min"
        [stop]
        at = "6min"
        expects_all = true
    "#;
    for seed in 1..4 {
        assert_eq!(delivered(&scenario(text), seed), 50, "seed {seed}");
    }
}

#[test]
fn protocols_meet_in_one_node_and_each_has_its_listener() {
    let text = r#"
        [[node]]
        name = "hub"
        [[node]]
        name = "a"
        [[node]]
        name = "b"
        [[node]]
        name = "c"
        [[node]]
        name = "d"
        [[link]]
        between = ["a", "hub"]
        rate = "2Mbit"
        protocol = "stcp"
        [[link]]
        between = ["hub", "b"]
        rate = "2Mbit"
        protocol = "stcp-draft"
        [[link]]
        between = ["c", "hub"]
        rate = "2Mbit"
        protocol = "mtcp"
        [[link]]
        between = ["d", "hub"]
        rate = "2Mbit"
        [[traffic]]
        from = "a"
        to = "b"
        count = 10
        size = "20kB"
        [[traffic]]
        from = "b"
        to = "c"
        count = 10
        size = "20kB"
        [[traffic]]
        from = "c"
        to = "d"
        count = 10
        size = "20kB"
        [[traffic]]
        from = "d"
        to = "a"
        count = 10
        size = "20kB"
        [stop]
        at = "10min"
        expects_all = true
    "#;
    assert_eq!(delivered(&scenario(text), 1), 40);
}

#[test]
fn the_same_seed_does_the_same() {
    let scenario = over("stcp", "loss = 0.05", 10, "");
    let hash = |seed| run(&scenario, seed).trace().hash();
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}
