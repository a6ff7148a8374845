//! Mistakes planted in the nodes, and how soon a simulation finds each.
//!
//!     make mutants
//!
//! The scenarios are a family: `labs/mixed.toml` and `labs/mixed/*.toml`, each small and of one kind of trouble. A mistake is looked for in
//! the members that reach its place without it, the one first that does so most often for its time.
//! `DHOW_CLEAN_SEEDS` is how many seeds of each member are run without a mistake, `DHOW_MUTANT` the one mistake that is looked for, and
//! `DHOW_MEMBER` the one member in which.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test"
)]

mod family;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use dhow_bundle::mutant::{Mutant, plant, take_reached};
use dhow_scenario::Scenario;
use dhow_sim::Run;
use family::{Member, family, on_all_cores};

/// Seeds in which a mistake must show.
const SEEDS: u64 = 50;

/// Seeds in which nothing may show without one; `tests/simulation.py` runs many more.
const CLEAN_SEEDS: u64 = 5;

/// Seeds of each member with which a mistake is looked for before the next member has its turn.
const SEEDS_AT_ONCE: u64 = 5;

/// Events between looks at whether a run is over.
const STEP: u64 = 1_000_000;

/// The findings of a seed without a mistake.
struct Clean {
    member: usize,
    seed: u64,
    found: Option<Found>,
    reached: Vec<u64>,
    took: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    oracle: &'static str,
    sentence: String,
}

/// A mistake, where it was found first.
struct Row {
    mutant: Mutant,
    reached: u64,
    tried: u64,
    found: Option<(String, u64, Found)>,
}

/// The findings of an oracle in a seed.
fn run(scenario: &Scenario, seed: u64) -> Option<Found> {
    let mut run = Run::new(scenario, seed).expect("the network can be built");
    while run.advance(STEP) {}
    let first = run.finish().findings.into_iter().next();
    first.map(|finding| Found {
        oracle: finding.oracle,
        sentence: finding.sentence,
    })
}

/// Runs seeds without a mistake.
fn run_clean(family: &[Member], seeds: u64) -> Vec<Clean> {
    let jobs: Vec<(usize, u64)> = (0..family.len())
        .flat_map(|member| (1..=seeds).map(move |seed| (member, seed)))
        .collect();
    on_all_cores(&jobs, |&(member, seed)| {
        plant(None);
        take_reached();
        let begun = Instant::now();
        let found = run(&family[member].scenario, seed);
        Clean {
            member,
            seed,
            found,
            reached: take_reached().to_vec(),
            took: begun.elapsed(),
        }
    })
}

/// The members that reach a mistake's place, the one first that does so most often for its time.
fn members_for(mutant: Mutant, clean: &[Clean]) -> Vec<usize> {
    let mut by_member: BTreeMap<usize, (u64, Duration)> = BTreeMap::new();
    for it in clean {
        let (reached, took) = by_member.entry(it.member).or_default();
        *reached += it.reached[mutant.number()];
        *took += it.took;
    }
    by_member.retain(|_, (reached, _)| *reached > 0);
    let mut members: Vec<(usize, u128)> = by_member
        .into_iter()
        .map(|(member, (reached, took))| {
            // A place that is reached a thousand times is not missed for being reached less often than another.
            let weight = took.as_micros() / u128::from(reached.min(1_000));
            (member, weight)
        })
        .collect();
    members.sort_by_key(|(_, weight)| *weight);
    members.into_iter().map(|(member, _)| member).collect()
}

/// Looks for one mistake.
fn look_for(mutant: Mutant, family: &[Member], clean: &[Clean]) -> Row {
    let members = members_for(mutant, clean);
    let mut row = Row {
        mutant,
        reached: 0,
        tried: 0,
        found: None,
    };
    plant(Some(mutant));
    'seeds: for from in (1..=SEEDS).step_by(usize::try_from(SEEDS_AT_ONCE).unwrap()) {
        for &member in &members {
            for seed in from..from + SEEDS_AT_ONCE {
                take_reached();
                let found = run(&family[member].scenario, seed);
                let reached = take_reached()[mutant.number()];
                row.reached += reached;
                row.tried += 1;
                if let Some(found) = found.filter(|_| reached > 0) {
                    row.found = Some((family[member].name.clone(), seed, found));
                    break 'seeds;
                }
            }
        }
    }
    plant(None);
    row
}

fn shortened(sentence: &str) -> String {
    let line = sentence
        .lines()
        .next()
        .unwrap_or_default()
        .replace('|', "/");
    match line.char_indices().nth(160) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => line,
    }
}

#[test]
fn every_planted_mistake_is_reached_and_found_and_without_one_nothing_is() {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse().ok());
    let family = family();
    let clean = run_clean(&family, number("DHOW_CLEAN_SEEDS").unwrap_or(CLEAN_SEEDS));
    let mut wrong = String::new();
    for (at, member) in family.iter().enumerate() {
        let runs = || clean.iter().filter(|it| it.member == at);
        let took: Duration = runs().map(|it| it.took).sum();
        println!(
            "{}: {} seeds without a mistake in {took:.1?}",
            member.name,
            runs().count()
        );
        for it in runs() {
            if let Some(found) = &it.found {
                writeln!(wrong, "{}, seed {}: {found:?}", member.name, it.seed).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "without a mistake:\n{wrong}");
    let only = std::env::var("DHOW_MUTANT").ok();
    let is_wanted = |mutant: &&Mutant| only.as_ref().is_none_or(|it| *it == format!("{mutant:?}"));
    let mutants: Vec<Mutant> = Mutant::ALL.iter().filter(is_wanted).copied().collect();
    let rows = on_all_cores(&mutants, |mutant| look_for(*mutant, &family, &clean));
    println!(
        "\n| mistake | reached | seeds | scenario | oracle | it says |\n|---|---|---|---|---|---|"
    );
    for row in &rows {
        let (mutant, reached, tried) = (row.mutant, row.reached, row.tried);
        match &row.found {
            Some((member, _, found)) => println!(
                "| `{mutant:?}` | {reached} | {tried} | {member} | `{}` | {} |",
                found.oracle,
                shortened(&found.sentence)
            ),
            None => println!("| `{mutant:?}` | {reached} | {tried} | – | – | not found |"),
        }
    }
    let missed = |row: &&Row| row.found.is_none();
    let missed: Vec<Mutant> = rows.iter().filter(missed).map(|row| row.mutant).collect();
    let unreached = |row: &&Row| row.reached == 0;
    let unreached: Vec<Mutant> = rows
        .iter()
        .filter(unreached)
        .map(|row| row.mutant)
        .collect();
    assert_eq!(unreached, [], "never reached");
    assert_eq!(missed, [], "not found");
}

/// Nothing is sent of a bundle that nobody fetches, and the node's own count is right: only the look at what is held finds it.
#[test]
fn a_bundle_that_expires_too_late_is_held_late() {
    let text = r#"
        fidelity = "bundle"
        [[node]]
        name = "camp"
        [[node]]
        name = "mule"
        [[node]]
        name = "port"
        [[link]]
        between = ["camp", "mule"]
        rate = "8Mbit"
        delay = "1ms"
        [[contact]]
        link = "camp-mule"
        start = "0s"
        for = "60s"
        [[routing]]
        node = "*"
        router = "epidemic"
        [[traffic]]
        from = "camp"
        to = "port"
        count = 5
        size = "1kB"
        lifetime = "2min"
        [stop]
        at = "10min"
        "#;
    let scenario = Scenario::parse("held.toml".as_ref(), text).unwrap();
    for (mutant, is_late) in [(None, false), (Some(Mutant::ExpiryPutOff), true)] {
        plant(mutant);
        take_reached();
        let mut run = Run::new(&scenario, 1).unwrap();
        while run.advance(STEP) {}
        let findings = run.finish().findings;
        let mut late = findings.iter().filter(|it| it.oracle == "late");
        let is_held = late.any(|it| it.sentence.contains("still holds"));
        assert_eq!(is_held, is_late, "{mutant:?}");
        let reached = mutant.map(|mutant| take_reached()[mutant.number()]);
        assert!(reached.is_none_or(|times| times > 0));
    }
    plant(None);
}
