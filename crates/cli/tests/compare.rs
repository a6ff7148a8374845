//! `dhow lab compare`: two results that are there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what fails by failing"
)]

mod program;

use std::fs;
use std::path::Path;

use program::{assert_snapshot, dhow, run_in};
use serde_json::Value;

const RUNS: &str = "seed,trace_hash,interrupted,events,virtual_s,sent,accepted,refused,unaccepted,delivered,expired,crashes,duplicates,violations\n";
const PAYLOADS: &str = "seed,traffic,number,from,to,octets,sent_s,accepted_s,delivered_s\n";

/// Tables as `dhow sim run --out` writes them: of each seed one payload with this delay in seconds, and one that expired.
fn write(directory: &Path, delays: &[f64]) {
    fs::create_dir(directory).unwrap();
    let (mut runs, mut payloads) = (RUNS.to_owned(), PAYLOADS.to_owned());
    for (seed, delay) in (1..).zip(delays) {
        runs += &format!("{seed},00,false,9,20,2,2,0,0,1,1,0,0,0\n");
        payloads += &format!(
            "{seed},1,1,a,b,10,1,1,{}\n{seed},1,2,a,b,10,1,1,\n",
            1.0 + delay
        );
    }
    fs::write(directory.join("runs.csv"), runs).unwrap();
    fs::write(directory.join("payloads.csv"), payloads).unwrap();
}

fn places() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    write(&place.path().join("before"), &[2.0, 4.0, 6.0]);
    write(&place.path().join("after"), &[9.0, 10.0, 11.0]);
    write(&place.path().join("once"), &[9.0]);
    place
}

#[test]
fn a_comparison_is_told_to_people_and_to_programs() {
    let place = places();
    let said = run_in(place.path(), &["lab", "compare", "before", "after"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stdout.lines().all(|line| line.chars().count() <= 100),
        "{}",
        said.stdout
    );
    assert_snapshot("compare-text.txt", &said.stdout);
    let said = run_in(
        place.path(),
        &["lab", "compare", "before", "after", "--json"],
    );
    let value: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_snapshot(
        "compare.json",
        &(serde_json::to_string_pretty(&value).unwrap() + "\n"),
    );
}

#[test]
fn a_loss_beyond_noise_ends_with_1_where_that_is_asked_for() {
    let place = places();
    // The delay has 4 and 10 as its means, with 5.555 about the difference: at least 11.1 % worse.
    for (percent, exit) in [("11", 1), ("12", 0)] {
        let arguments = ["lab", "compare", "before", "after", "--fail-above", percent];
        let said = run_in(place.path(), &arguments);
        assert_eq!(said.code, exit, "{percent}: {}", said.stderr);
        assert_eq!(
            said.stderr.contains("median delay"),
            exit == 1,
            "{}",
            said.stderr
        );
    }
    let said = run_in(
        place.path(),
        &["lab", "compare", "before", "once", "--fail-above", "1"],
    );
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("no interval tells"), "{}", said.stdout);
}

#[test]
fn a_page_has_a_picture_of_each_difference_and_nothing_from_elsewhere() {
    let place = places();
    let arguments = ["lab", "compare", "before", "after", "--out", "c.html"];
    assert_eq!(run_in(place.path(), &arguments).code, 0);
    let page = fs::read_to_string(place.path().join("c.html")).unwrap();
    assert!(page.contains("median delay") && page.matches("<svg").count() >= 8);
    assert!(!page.contains("src=") && !page.contains("<script") && !page.contains("<link"));
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_hint() {
    let place = places();
    let new = |name: &str, file: &str, text: &str| {
        fs::create_dir_all(place.path().join(name)).unwrap();
        fs::write(place.path().join(name).join(file), text).unwrap();
    };
    new("empty", "runs.csv", RUNS);
    new("cut", "runs.csv", &format!("{RUNS}1,00,fal"));
    new("begun", "manifest.json", "{\"scenario\":\"\"}");
    new("torn", "manifest.json", "{\"scenario\":\"\"}");
    new("torn/0001", "run.json", "{\"run\":\"00");
    new("other", "text.txt", "");
    let mut told = String::new();
    for name in ["nowhere", "other", "empty", "cut", "begun", "torn"] {
        let said = dhow(&["lab", "compare", "before", name])
            .current_dir(place.path())
            .output()
            .unwrap();
        assert_eq!(said.status.code(), Some(2), "{name}");
        told += &format!("{name}:\n{}\n", String::from_utf8_lossy(&said.stderr));
    }
    assert_snapshot("compare-refused.txt", &told);
}

#[test]
fn a_run_whose_payloads_are_not_all_there_is_in_no_figure_and_told() {
    let place = places();
    let cut = |path: &str, lines: usize| {
        let path = place.path().join(path);
        let text = fs::read_to_string(&path).unwrap();
        let kept: Vec<&str> = text.lines().take(lines).collect();
        fs::write(path, kept.join("\n") + "\n").unwrap();
    };
    // The last of three seeds has none any more.
    cut("after/payloads.csv", 5);
    let said = run_in(place.path(), &["lab", "compare", "before", "after"]);
    assert!(
        said.stdout.contains("seed 3: payloads.csv has not all"),
        "{}",
        said.stdout
    );
    let scenario = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"8Mbit\"\n\
                    [[traffic]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1kB\"\ncount = 20\nevery = \"10ms\"\n\
                    [runs]\nrepeats = 2\n[stop]\nat = \"2s\"\n";
    fs::write(place.path().join("lab.toml"), scenario).unwrap();
    for out in ["one", "other"] {
        let arguments = ["lab", "run", "lab.toml", "--backend", "sim", "--out", out];
        assert_eq!(run_in(place.path(), &arguments).code, 0);
    }
    cut("other/sim-0001/payloads.csv", 5);
    let said = run_in(place.path(), &["lab", "compare", "one", "other"]);
    assert!(
        said.stdout
            .contains("run sim-0001: payloads.csv has not all"),
        "{}",
        said.stdout
    );
}
