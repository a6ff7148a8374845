//! Radios that hosts share.

use crate::world::{run, scenario};
use dhow_bundle::Instant;

/// The seconds that it takes to bring 50 bundles of 100 kB over each way between hosts who are all within reach of each other, at 1 MB/s.
fn seconds(channel: &str, ways: &[(u32, u32)], more: &str) -> u64 {
    let ways: Vec<String> = ways.iter().map(way).collect();
    let text = format!(
        r#"
        [[radio]]
        name = "near"
        reach_m = 10
        rate = "8Mbit"
        channel = "{channel}"
        {more}
        [[group]]
        name = "h"
        count = 4
        radios = ["near"]
        movement = "none"
        width_m = 1
        height_m = 1
        {}
        [stop]
        at = "10min"
        when_delivered = true
        expects_all = true
        "#,
        ways.concat()
    );
    let world = run(&scenario(&text), 1);
    let count = u64::try_from(ways.len()).unwrap();
    assert_eq!(world.ledger().delivered, 50 * count);
    world.now().since(Instant::START).as_secs()
}

fn way((from, to): &(u32, u32)) -> String {
    format!("[[traffic]]\nfrom = \"h{from}\"\nto = \"h{to}\"\ncount = 50\nsize = \"100kB\"\n")
}

#[test]
fn each_two_have_the_rate_a_host_has_it_or_all_within_reach() {
    let apart = [(1, 2), (3, 4)];
    let of_one = [(1, 2), (1, 3)];
    let both_ways = [(1, 2), (2, 1)];
    for (ways, taken) in [
        (apart, [5, 5, 10]),
        (of_one, [5, 10, 10]),
        (both_ways, [5, 10, 10]),
    ] {
        for (channel, taken) in ["pair", "radio", "reach"].into_iter().zip(taken) {
            let found = seconds(channel, &ways, "");
            assert!(
                (taken..=taken + 1).contains(&found),
                "{channel} {ways:?}: {found} s"
            );
        }
    }
}

#[test]
fn nobody_starves_where_packets_are_lost() {
    let all: Vec<_> = (1..=4)
        .flat_map(|from| (1..=4).map(move |to| (from, to)))
        .collect();
    let all: Vec<_> = all.into_iter().filter(|(from, to)| from != to).collect();
    let found = seconds("reach", &all, "loss = 0.01");
    // Twelve of five seconds, and what goes twice.
    assert!((60..80).contains(&found), "{found} s");
}

/// The payloads that are delivered, by when, where these are sent from host to host of four over a radio of 1 MB/s.
fn delivered(channel: &str, sent: &[(&str, &str, &str, &str)], until: &str) -> Vec<Option<f64>> {
    let traffic = sent.iter().map(|(from, to, start, size)| {
        format!("[[traffic]]\nfrom = \"{from}\"\nto = \"{to}\"\ncount = 1\nstart = \"{start}\"\nsize = \"{size}\"\n")
    });
    let text = format!(
        "fidelity = \"bundle\"\n[[radio]]\nname = \"near\"\nreach_m = 10\nrate = \"8Mbit\"\nchannel = \"{channel}\"\n[[group]]\nname = \"h\"\ncount = 4\nradios = [\"near\"]\nmovement = \"none\"\nwidth_m = 1\nheight_m = 1\n{}\n[stop]\nat = \"{until}\"\n",
        traffic.collect::<String>()
    );
    let mut run = dhow_sim::Run::new(&scenario(&text), 1).unwrap();
    while run.advance(1_000_000) {}
    let outcome = run.finish();
    assert_eq!(outcome.violations, 0);
    let payloads = outcome.payloads.iter();
    payloads
        .map(|it| it.delivered.map(|at| at.as_secs_f64()))
        .collect()
}

/// Two bundles of a second each, one in each direction: in turns neither is there after 1.2 s.
#[test]
fn a_radio_is_about_one_bundle_until_that_has_left() {
    let two = [("h1", "h2", "5s", "1MB"), ("h2", "h1", "5s", "1MB")];
    for (channel, count) in [("radio", 1), ("reach", 0)] {
        let found = delivered(channel, &two, "6200ms");
        assert_eq!(found.iter().flatten().count(), count, "{channel}");
    }
    let both = delivered("radio", &two, "8s");
    assert!(both.iter().all(Option::is_some), "{both:?}");
}

#[test]
fn what_takes_less_than_a_turn_goes_between_those_of_a_bundle() {
    let sent = [
        ("h1", "h2", "5s", "5MB"),
        ("h4", "h2", "6s", "1kB"),
        ("h3", "h2", "6s", "1MB"),
    ];
    let found = delivered("radio", &sent, "20s");
    let [Some(long), Some(small), Some(behind)] = found[..] else {
        panic!("{found:?}");
    };
    assert!((10.0..10.6).contains(&long), "{long}");
    assert!(small < 7.0, "{small}");
    assert!(behind > long, "{behind}");
}

/// Adverts live for a minute, and are held longer where they wait behind other bundles for a slow radio: that is no fault.
#[test]
fn bundles_that_wait_for_a_slow_radio_end_late() {
    let text = r#"
        fidelity = "bundle"
        [[radio]]
        name = "near"
        reach_m = 300
        rate = "2kbit"
        channel = "radio"
        [[group]]
        name = "h"
        count = 8
        radios = ["near"]
        movement = "straight"
        width_m = 500
        height_m = 500
        [[routing]]
        node = "*"
        router = "epidemic"
        [[messages]]
        among = ["h*"]
        every = "15s..25s"
        size = "2kB..6kB"
        lifetime = "1d"
        [stop]
        at = "10min"
        "#;
    for seed in 2..5 {
        run(&scenario(text), seed);
    }
}
