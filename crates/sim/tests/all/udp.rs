//! Links over UDP: the bundles that cross them, those that do not, and the verdicts about that.

use std::time::Duration;

use crate::line::line;
use crate::world::{run, scenario};
use dhow_bundle::Instant;
use dhow_scenario::Scenario;
use dhow_scenario::scenario::Fidelity;

/// So many bundles over a link with these keys.
fn over(link: &str, count: u64, more: &str) -> Scenario {
    let traffic = format!("count = {count}\n{more}\n[stop]\nat = \"10min\"\nexpects_all = true\n");
    let link = format!("rate = \"8Mbit\"\ndelay = \"50ms\"\nprotocol = \"udp\"\n{link}");
    scenario(&line(2, &link, &traffic))
}

fn delivered(scenario: &Scenario, seed: u64) -> u64 {
    run(scenario, seed).ledger().delivered
}

#[test]
fn what_is_not_lost_is_delivered_once_whatever_else_befalls_datagrams() {
    // Nodes send faster than the line carries: the rest waits, and is not lost.
    let link = "duplicate = 0.2\nreorder = 0.2\nreorder_by = \"80ms\"\njitter = \"20ms\"";
    for mtu in ["", "mtu = \"128B\"", "mtu = \"65507B\""] {
        let scenario = over(&format!("{link}\n{mtu}"), 30, "size = \"16B..90kB\"");
        for seed in 1..4 {
            assert_eq!(delivered(&scenario, seed), 30, "{mtu}, seed {seed}");
        }
    }
}

#[test]
fn what_a_link_loses_is_lost_without_a_finding() {
    let scenario = over("loss = 0.2", 100, "size = \"16B..3kB\"");
    for seed in 1..4 {
        let delivered = delivered(&scenario, seed);
        assert!((30..90).contains(&delivered), "{delivered}");
    }
}

#[test]
fn at_bundle_fidelity_the_same_datagrams_are_delivered_or_lost() {
    let mut safe = over("duplicate = 0.2\nreorder = 0.2", 30, "size = \"16B..90kB\"");
    safe.fidelity = Fidelity::Bundle;
    let mut lossy = over("loss = 0.2", 100, "size = \"16B..3kB\"");
    lossy.fidelity = Fidelity::Bundle;
    for seed in 1..4 {
        assert_eq!(delivered(&safe, seed), 30, "seed {seed}");
        let delivered = delivered(&lossy, seed);
        assert!((30..90).contains(&delivered), "{delivered}");
    }
}

#[test]
fn a_bundle_longer_than_a_transfer_crosses_in_fragments() {
    let scenario = over("send_rate = \"80Mbit\"", 1, "size = \"9MB\"");
    assert_eq!(delivered(&scenario, 1), 1);
}

#[test]
fn nodes_that_know_of_contacts_wait_for_them_and_others_send_for_nothing() {
    let contacts = |at_end: &str| {
        let contact =
            "[[contact]]\nlink = \"n1-n2\"\nstart = \"10s\"\nfor = \"5s\"\nevery = \"20s\"\n";
        let traffic = format!("mean = \"1s\"\nsize = \"1kB\"\n{contact}");
        over(&format!("at_end = \"{at_end}\""), 100, &traffic)
    };
    let known = delivered(&contacts("reset"), 1);
    assert!(
        known >= 98,
        "{known}: what is on its way at the end is lost"
    );
    let unknown = delivered(&contacts("silence"), 1);
    assert!((10..50).contains(&unknown), "{unknown}");
}

#[test]
fn what_is_kept_leaves_by_sessions_that_appear_though_the_datagrams_were_lost() {
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
        loss = 0.3
        protocol = "udp"
        on_sent = "keep"
        [[link]]
        between = ["rover", "orbiter"]
        rate = "4Mbit"
        [[link]]
        between = ["orbiter", "base"]
        rate = "4Mbit"
        [[contact]]
        link = "rover-orbiter"
        start = "1min"
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
        [stop]
        at = "5min"
        expects_all = true
    "#;
    for seed in 1..4 {
        assert_eq!(delivered(&scenario(text), seed), 50, "seed {seed}");
    }
}

#[test]
fn what_is_kept_is_delivered_once_and_leaves_the_store_when_it_expires() {
    let keys = "on_sent = \"keep\"\nduplicate = 0.1\nreorder = 0.1";
    let keeping = over(keys, 30, "size = \"16B..50kB\"\nlifetime = \"2min\"");
    let world = run(&keeping, 1);
    assert_eq!(world.ledger().delivered, 30);
    let stored = |at: u64| {
        let samples = world.samples().iter();
        let mut samples = samples.filter(|it| it.at >= Instant::START + Duration::from_secs(at));
        samples.next().unwrap().bundles
    };
    assert_eq!((stored(60), stored(200)), (30, 0));
}

#[test]
fn the_same_seed_does_the_same_to_the_same_datagrams() {
    let scenario = over("loss = 0.1\nduplicate = 0.1", 20, "size = \"16B..20kB\"");
    let hash = |seed| run(&scenario, seed).trace().hash();
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
    assert!(run(&scenario, 1).now() > Instant::START);
}
