//! Links that lose and jitter, clocks that jump, and traffic in bursts.

use std::time::Duration;

use crate::line::line;
use crate::world::{run, scenario};
use dhow_bundle::Instant;
use dhow_channel::RateTrace;
use dhow_scenario::{Scenario, Schedule};
use dhow_sim::Run;

/// Bundles of 100 kB over a link with these keys.
fn over(link: &str, count: u64) -> Scenario {
    let traffic = format!(
        r#"
        count = {count}
        size = "100kB"
        [stop]
        at = "1h"
        when_delivered = true
        expects_all = true
        "#
    );
    scenario(&line(2, &format!("rate = \"8Mbit\"\n{link}"), &traffic))
}

/// The time until all has come, and the hash of its trace.
fn time_of(scenario: &Scenario, count: u64, seed: u64) -> (Duration, u64) {
    let world = run(scenario, seed);
    assert_eq!(world.ledger().delivered, count);
    (world.now().since(Instant::START), world.trace().hash())
}

/// The time until all has come over a link with these keys.
fn taken(link: &str, seed: u64) -> (Duration, u64) {
    let scenario = over(&format!("delay = \"50ms\"\n{link}"), 50);
    time_of(&scenario, 50, seed)
}

#[test]
fn lost_packets_cost_time_and_nothing_else() {
    // 5 MB at 1 MB/s.
    let (sound, _) = taken("", 1);
    assert!(
        sound > Duration::from_secs(5) && sound < Duration::from_secs(7),
        "{sound:?}"
    );
    let lossy = "loss = 0.01";
    let (late, hash) = taken(lossy, 1);
    assert!(
        late > sound + Duration::from_millis(250),
        "{late:?} {sound:?}"
    );
    // As many packets in longer bursts stop the stream less often.
    let (bursts, _) = taken("loss = 0.01\nloss_burst = 20", 1);
    assert!(bursts > sound && bursts < late, "{bursts:?} {late:?}");
    assert_eq!(taken(lossy, 1).1, hash, "a seed tells which are lost");
    assert_ne!(taken(lossy, 2).1, hash);
}

#[test]
fn octets_leave_when_the_trace_of_a_rate_lets_them() {
    let mut scenario = over("", 10);
    // A tenth of each second has all but one of the moments: 101 × 1504 octets a second.
    let moments = (1..=100).chain([1000]).collect();
    scenario.links[0].rate_trace = Some(RateTrace::new(moments).unwrap());
    let (taken, _) = time_of(&scenario, 10, 1);
    let sixth = Duration::from_secs(6)..Duration::from_millis(6_200);
    assert!(sixth.contains(&taken), "{taken:?}");
}

#[test]
fn octets_that_are_late_stay_in_order() {
    let (sound, _) = taken("", 1);
    let (late, _) = taken("jitter = \"300ms\"", 1);
    assert!(late > sound && late < sound * 4, "{late:?} {sound:?}");
}

#[test]
fn what_a_node_holds_does_not_expire_when_its_clock_jumps() {
    for by in ["5h", "-5h"] {
        let keys = format!(
            r#"
            rate = "8Mbit"
            [[clock_step]]
            node = "n2"
            at = "5min"
            by = "{by}"
            [[contact]]
            link = "n2-n3"
            start = "10min"
            for = "1min"
            "#
        );
        let traffic = r#"
            count = 40
            burst = 4
            every = "10s"
            size = "2kB"
            lifetime = "1h"
            [stop]
            at = "20min"
        "#;
        let world = run(&scenario(&line(3, &keys, traffic)), 1);
        assert_eq!(world.ledger().sent(), 40);
        assert_eq!(world.ledger().delivered, 40, "{by}");
    }
}

#[test]
fn bursts_come_together_and_end_with_the_count() {
    let traffic = r#"
        count = 25
        burst = 10
        every = "1min"
        size = "2kB"
        [stop]
        at = "150s"
    "#;
    let world = run(&scenario(&line(2, "rate = \"8Mbit\"", traffic)), 1);
    let mut sent: Vec<_> = world.ledger().units().map(|(_, unit)| unit.sent).collect();
    assert_eq!(sent.len(), 25);
    sent.dedup();
    assert_eq!(sent.len(), 3);
}

#[test]
fn a_list_says_what_is_sent_and_when() {
    let traffic = format!(
        r#"
        start = "1min"
        list = "{}/tests/data/mail.txt"
        [stop]
        at = "1h"
        expects_all = true
        "#,
        env!("CARGO_MANIFEST_DIR")
    );
    let world = run(&scenario(&line(2, "rate = \"8Mbit\"", &traffic)), 1);
    let units = world.ledger().units();
    let sent: Vec<_> = units
        .map(|(_, unit)| (unit.sent.since(Instant::START).as_secs(), unit.octets))
        .collect();
    assert_eq!(
        sent,
        [(60, 2_000), (150, 100), (150, 1_000_000), (660, 5_000)]
    );
    assert_eq!(world.ledger().delivered, 4);
}

#[test]
fn a_next_hop_that_is_full_is_tried_with_one_bundle_at_a_time() {
    let keys = r#"
        quota = "5MB"
        rate = "10Mbit"
        delay = "20ms"
        [[contact]]
        link = "n2-n3"
        start = "20min"
        for = "1min"
    "#;
    let traffic = r#"
        size = "500kB"
        every = "10s"
        count = 16
        [stop]
        at = "25min"
        expects_all = true
    "#;
    let world = run(&scenario(&line(3, keys, traffic)), 1);
    assert_eq!(world.ledger().delivered, world.ledger().accepted);
    let carried = world.roads()[0].carried(world.now()).0;
    // Eight bundles wait, 4 MB; with all of them at each attempt 200 MB and more would go over the link.
    assert!(carried < 50_000_000, "{carried} octets for 8 MB");
}

#[test]
fn what_is_asked_for_is_reported_to_the_one_that_sends() {
    let traffic = r#"
        size = "2kB"
        every = "10s"
        count = 12
        reports = ["forwarding", "delivery"]
        [stop]
        at = "10min"
        expects_all = true
    "#;
    let text = line(3, "rate = \"8Mbit\"", traffic);
    for fidelity in ["octet", "bundle"] {
        let text = format!("fidelity = \"{fidelity}\"\n{text}");
        let world = run(&scenario(&text), 1);
        assert_eq!(world.ledger().delivered, 12);
        // Two nodes forward each bundle, one delivers it.
        assert_eq!(world.ledger().reports, 36, "{fidelity}");
    }
}

#[test]
fn contacts_that_are_shorter_than_a_bundle_and_full_both_ways_are_used() {
    let keys = r#"
        rate = "2Mbit"
        delay = "5ms"
        [[contact]]
        link = "n1-n2"
        start = "1s"
        for = "3s"
        every = "5s"
    "#;
    let traffic = r#"
        size = "1MB"
        count = 10
        [[traffic]]
        from = "n2"
        to = "n1"
        size = "1MB"
        count = 10
        [stop]
        at = "10min"
        when_delivered = true
        expects_all = true
    "#;
    let world = run(&scenario(&line(2, keys, traffic)), 1);
    // 14 contacts have room for the octets alone: a segment that takes a third of a contact is lost in each, and an acknowledgment behind it.
    let contacts = world.now().since(Instant::START).as_secs().div_ceil(5);
    assert!((14..=16).contains(&contacts), "{contacts} contacts");
}

#[test]
fn short_contacts_carry_what_they_hold_and_no_more() {
    for (control, fidelity) in [
        ("", "octet"),
        ("", "bundle"),
        ("congestion_control = \"reno\"", "octet"),
    ] {
        for at_end in ["silence", "reset"] {
            let mut before = 0;
            for length_ms in [10, 18, 20, 21, 60] {
                let keys = format!(
                    r#"
                    rate = "8Mbit"
                    delay = "5ms"
                    retry = "50ms"
                    at_end = "{at_end}"
                    [[contact]]
                    link = "n1-n2"
                    start = "500ms"
                    for = "{length_ms}ms"
                    every = "400ms"
                    "#
                );
                let traffic = "size = \"2kB\"\ncount = 2000\n[stop]\nat = \"6s\"";
                let network = line(2, &keys, traffic);
                let text = format!("fidelity = \"{fidelity}\"\n{control}\n{network}");
                let told = format!("{control} {fidelity} {at_end} {length_ms} ms");
                let mut run = Run::new(&scenario(&text), 1).expect("a network");
                while run.advance(100_000) {}
                let outcome = run.finish();
                assert!(
                    outcome.findings.is_empty(),
                    "{told}: {:?}",
                    outcome.findings
                );
                let link = &outcome.links[0];
                for octets in [link.octets.0, link.octets.1] {
                    assert!(
                        octets <= link.capacity,
                        "{told}: {octets} octets of {}",
                        link.capacity
                    );
                }
                let delivered = outcome.progress.delivered;
                if at_end == "silence" {
                    // Sessions go on, so a longer contact carries more, or as much where nothing is left.
                    assert!(
                        delivered > before || delivered == 2000,
                        "{told}: {delivered} after {before}"
                    );
                    before = delivered;
                }
            }
        }
    }
}

#[test]
fn a_seed_plans_the_same_sizes_and_times_for_every_backend() {
    let traffic = r#"
        size = "1kB..9kB"
        mean = "700ms"
        burst = 2
        count = 60
        start = "1s..9s"
        [[traffic]]
        from = "n3"
        to = "n1"
        size = "1kB..9kB"
        count = 60
        [stop]
        at = "2min"
    "#;
    let scenario = scenario(&line(3, "rate = \"100Mbit\"", traffic));
    for seed in [1, 7] {
        let world = run(&scenario, seed);
        let given: Vec<(Duration, u64)> = world
            .ledger()
            .units()
            .map(|(_, unit)| (unit.sent.since(Instant::START), unit.octets))
            .collect();
        let traffic = scenario.traffic.iter().enumerate();
        let planned = traffic.flat_map(|(at, traffic)| Schedule::new(traffic, at, seed));
        let planned: Vec<(Duration, u64)> = planned.map(|due| (due.at, due.octets)).collect();
        assert_eq!(given.len(), 120);
        // Those of the first traffic find their application idle; those of the second are due at once, and wait for it.
        assert_eq!(given[..60], planned[..60], "seed {seed}");
        let octets = |all: &[(Duration, u64)]| -> Vec<u64> { all.iter().map(|it| it.1).collect() };
        assert_eq!(octets(&given), octets(&planned), "seed {seed}");
    }
}
