//! Bundle fidelity tells the same as octet fidelity.

use std::path::Path;
use std::time::Duration;

use dhow_scenario::Scenario;
use dhow_scenario::scenario::Fidelity;
use dhow_sim::{Outcome, Run};

/// Four nodes in a row, of which the last link comes and goes.
const LINE: &str = r#"
    [[line]]
    name = "n"
    count = 4
    rate = "1Mbit"
    delay = "20ms"
    retry = "1s"
    [[node]]
    name = "far"
    [[link]]
    between = ["n4", "far"]
    rate = "2Mbit"
    delay = "1s"
    keepalive = "10s"
    [[contact]]
    link = "n4-far"
    start = "30s"
    for = "40s"
    every = "3min"
    [[traffic]]
    from = "n1"
    to = "far"
    count = 25
    size = "1kB..300kB"
    mean = "20s"
    [[traffic]]
    from = "far"
    to = "n2"
    count = 25
    size = "100B..20kB"
    mean = "20s"
    [stop]
    at = "2h"
    when_delivered = true
    expects_all = true
"#;

fn run(scenario: &Scenario, fidelity: Fidelity, seed: u64) -> Outcome {
    let mut scenario = scenario.clone();
    scenario.fidelity = fidelity;
    let mut run = Run::new(&scenario, seed).expect("the network can be built");
    while run.advance(1_000_000) {}
    let outcome = run.finish();
    let found = outcome.findings.iter().map(|finding| &finding.sentence);
    let found: Vec<&String> = found.collect();
    assert!(found.is_empty(), "{fidelity:?}, seed {seed}: {found:?}");
    outcome
}

fn both(scenario: &Scenario, seed: u64) -> [Outcome; 2] {
    [Fidelity::Octet, Fidelity::Bundle].map(|fidelity| run(scenario, fidelity, seed))
}

/// Of ten payloads, nine are later or earlier by less than this: what is written together, and what else is on its way, differ.
const MOST_APART: Duration = Duration::from_millis(500);

/// All of them are by less than this: a contact may be just missed, and the next one is so much later.
const ALL_APART: Duration = Duration::from_secs(3 * 60);

#[test]
fn the_same_payloads_arrive_nearly_as_late_for_a_third_of_the_events() {
    let scenario = Scenario::parse(Path::new("line.toml"), LINE).expect("the scenario is one");
    for seed in 1..=2 {
        let [octet, bundle] = both(&scenario, seed);
        assert_eq!(octet.progress.delivered, 50, "seed {seed}");
        let mut apart = Vec::new();
        for (one, other) in octet.payloads.iter().zip(&bundle.payloads) {
            let sent = (other.name, other.octets, other.sent);
            assert_eq!((one.name, one.octets, one.sent), sent, "seed {seed}");
            let (one, other) = (one.delay().unwrap(), other.delay().unwrap());
            apart.push(one.abs_diff(other));
        }
        apart.sort_unstable();
        let ends = apart.get(45).zip(apart.last());
        let within = ends.is_some_and(|(most, all)| *most < MOST_APART && *all < ALL_APART);
        assert!(within, "seed {seed}: {apart:?}");
        let events = (octet.progress.events, bundle.progress.events);
        assert!(events.0 > 3 * events.1, "seed {seed}: {events:?}");
    }
}

#[test]
fn a_village_bus_brings_the_same_through_crashes_and_silence() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/village-bus.toml");
    let settings = ["traffic.count=15".to_owned()];
    let scenario = Scenario::open_with(&path, &settings).expect("the scenario is one");
    for seed in 1..=2 {
        let [octet, bundle] = both(&scenario, seed);
        assert!(octet.counts.crashes > 5 && bundle.counts.crashes > 5);
        let delivered = |outcome: &Outcome| {
            let all = outcome.payloads.iter().filter(|it| it.delivered.is_some());
            all.map(|it| it.name).collect::<Vec<_>>()
        };
        assert_eq!(delivered(&octet), delivered(&bundle), "seed {seed}");
    }
}
