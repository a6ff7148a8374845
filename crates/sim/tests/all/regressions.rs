//! Seeds in which something was found once: each file of `regressions` is a scenario with the seed, and says what it found.

use std::path::Path;

use dhow_scenario::Scenario;
use dhow_sim::Run;

#[test]
fn what_was_found_once_is_not_found_again() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    let entries = std::fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let scenario = Scenario::open(&path).expect("the scenario is one");
        let mut run = Run::new(&scenario, scenario.seed).expect("the network can be built");
        while run.advance(1_000_000) {}
        let outcome = run.finish();
        let found: Vec<_> = outcome.findings.iter().map(|it| &it.sentence).collect();
        assert!(found.is_empty(), "{}: {found:?}", path.display());
        assert!(outcome.progress.delivered > 0, "{}", path.display());
    }
}
