//! The studies that come with the project are some as they are and with what `[full]` sets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};

use dhow_scenario::Plan;
use dhow_scenario::plan::Extent;

/// Those of the papers, which stand beside the crates.
fn files() -> Vec<PathBuf> {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
    let names = ["deep-space", "drive-by", "overhead"];
    let places = names.map(|name| labs.join(name));
    let files = places
        .iter()
        .flat_map(|place| std::fs::read_dir(place).unwrap())
        .map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|it| it == "toml"))
        .collect()
}

#[test]
fn every_study_has_runs_in_each_extent() {
    let files = files();
    assert!(files.len() >= 12, "{files:?}");
    let mut longer = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let runs = |extent| {
            let plan = Plan::parse(&path, &text, &[], extent);
            plan.unwrap_or_else(|error| panic!("{} {extent:?}: {error}", path.display()))
                .runs
                .len()
        };
        let (usual, full) = (runs(Extent::Usual), runs(Extent::Full));
        assert!(usual > 0 && full >= usual, "{}", path.display());
        longer += usize::from(full > usual);
    }
    assert!(longer >= 11, "{longer} have a longer study");
}
