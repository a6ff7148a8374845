//! Mistakes planted in the nodes, and how soon a simulation finds each.
//!
//!     cargo test -p dhow-sim --features mutants --test mutants -- --nocapture
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test"
)]

use std::path::Path;

use dhow_bundle::mutant::{Mutant, plant};
use dhow_scenario::Scenario;
use dhow_scenario::scenario::Fidelity;
use dhow_sim::Run;

/// Seeds in which a mistake must show.
const SEEDS: u64 = 50;

/// Seeds in which nothing may show without one; `labs/mixed.toml` is run with many more.
const CLEAN_SEEDS: u64 = 10;

/// Events between looks at whether a run is over.
const STEP: u64 = 1_000_000;

/// Mistakes in what bundle fidelity has too: the forwarder. `OverlapTakenTwice` is one as well, and shows in octets alone.
const FORWARDER: [Mutant; 5] = [
    Mutant::DuplicatesForgotten,
    Mutant::ExpiryByWrongClock,
    Mutant::QueueWithoutBound,
    Mutant::TimerNotRearmed,
    Mutant::TimestampsReused,
];

/// Which oracle finds something in a seed, and what.
fn finding(scenario: &Scenario, seed: u64) -> Option<(&'static str, String)> {
    let mut run = Run::new(scenario, seed).expect("the network can be built");
    while run.advance(STEP) {}
    let first = run.finish().findings.into_iter().next();
    first.map(|finding| (finding.oracle, finding.sentence))
}

/// One test, because what is planted is planted in all nodes of the process.
#[test]
fn every_planted_mistake_is_found_and_without_one_nothing_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/mixed.toml");
    let mut scenario = Scenario::open(&path).expect("the scenario is one");
    for seed in 1..=CLEAN_SEEDS {
        assert_eq!(finding(&scenario, seed), None, "seed {seed}");
    }
    println!("| mistake | seeds | oracle | it says |\n|---|---|---|---|");
    let missed = missed(&scenario, &Mutant::ALL);
    assert_eq!(missed, [], "not found in {SEEDS} seeds");
    scenario.fidelity = Fidelity::Bundle;
    for seed in 1..=CLEAN_SEEDS {
        assert_eq!(finding(&scenario, seed), None, "bundle fidelity, {seed}");
    }
    println!("\nAt bundle fidelity:\n");
    let missed = self::missed(&scenario, &FORWARDER);
    assert_eq!(missed, [], "not found in {SEEDS} seeds at bundle fidelity");
}

/// The mistakes that no seed finds; a line for each of the others is printed.
fn missed(scenario: &Scenario, mutants: &[Mutant]) -> Vec<Mutant> {
    let mut missed = Vec::new();
    for &mutant in mutants {
        plant(Some(mutant));
        let mut seeds = (1..=SEEDS).map(|seed| (seed, finding(scenario, seed)));
        match seeds.find_map(|(seed, found)| Some((seed, found?))) {
            Some((seed, (oracle, sentence))) => {
                println!("| {mutant:?} | {seed} | `{oracle}` | {sentence} |");
            }
            None => missed.push(mutant),
        }
    }
    plant(None);
    missed
}
