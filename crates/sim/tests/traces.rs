//! The traces of the mixed scenarios, seed by seed: a change that only moves code leaves every one as it is.
//!
//!     cargo test --profile mutants -p dhow-sim --features mutants --test traces
//!     DHOW_UPDATE=1 …     (a change of behaviour: the file is written anew)
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test"
)]

mod family;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use dhow_scenario::scenario::Fidelity;
use dhow_sim::Run;
use family::{family, on_all_cores};

/// Seeds of each member.
const SEEDS: u64 = 30;

/// Events between looks at whether a run is over.
const STEP: u64 = 1_000_000;

/// Differences that are told one by one.
const DIFFERENCES_TOLD: usize = 20;

/// Lines `member, seed: hash`, by their beginning.
fn read(text: &str) -> BTreeMap<&str, &str> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .collect()
}

#[test]
fn every_seed_leaves_the_trace_that_it_left_before() {
    let family = family();
    let jobs: Vec<(usize, u64)> = (0..family.len())
        .flat_map(|member| (1..=SEEDS).map(move |seed| (member, seed)))
        .collect();
    let hashes = on_all_cores(&jobs, |&(member, seed)| {
        let mut run = Run::new(&family[member].scenario, seed).expect("the network can be built");
        while run.advance(STEP) {}
        let report = run.finish();
        let name = &family[member].name;
        // Without simulated datagrams a loss with one is not told from a bundle that a node forgot.
        if family[member].scenario.fidelity != Fidelity::Bundle {
            let sentences = report.findings.iter().map(|it| it.sentence.as_str());
            let sentences: Vec<&str> = sentences.collect();
            assert_eq!(report.violations, 0, "{name}, seed {seed}: {sentences:?}");
        }
        report.trace_hash
    });
    let mut text = String::new();
    for ((member, seed), hash) in jobs.into_iter().zip(hashes) {
        let name = &family[member].name;
        writeln!(text, "{name}, {seed}: {hash:016x}").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/traces.txt");
    if std::env::var_os("DHOW_UPDATE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    let (kept, left) = (read(&kept), read(&text));
    let others: Vec<&str> = left
        .iter()
        .filter(|(run, hash)| kept.get(*run) != Some(hash))
        .map(|(run, _)| *run)
        .collect();
    let told = others.iter().take(DIFFERENCES_TOLD);
    assert!(
        others.is_empty() && kept.len() >= left.len(),
        "{} of {} runs leave another trace: {}; where behaviour is meant to change, run this test with DHOW_UPDATE=1",
        others.len(),
        left.len(),
        told.copied().collect::<Vec<_>>().join("; ")
    );
}
