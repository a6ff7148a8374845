//! `dhow lab compare`: two results that are there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what fails by failing"
)]

mod program;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use program::{assert_snapshot, dhow, run_in};
use rustix::fs::{CWD, Mode, mkfifoat};
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

/// Two results of a lab in virtual time, of two runs each.
const LAB: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"8Mbit\"\n\
                    [[traffic]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1kB\"\ncount = 20\nevery = \"10ms\"\n\
                    [runs]\nrepeats = 2\n[stop]\nat = \"2s\"\n";

fn run_lab(place: &Path) {
    fs::write(place.join("lab.toml"), LAB).unwrap();
    for out in ["one", "other"] {
        let arguments = ["lab", "run", "lab.toml", "--backend", "sim", "--out", out];
        assert_eq!(run_in(place, &arguments).code, 0);
    }
}

/// Puts something at a path.
type Make = fn(&Path);

/// The time after which a comparison hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exit code and words of a comparison, which is ended where it hangs.
fn compared(place: &Path, a: &str, b: &str) -> (Option<i32>, String) {
    let mut compare = dhow(&["lab", "compare", a, b])
        .current_dir(place)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while compare.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            compare.kill().unwrap();
            compare.wait().unwrap();
            panic!("the comparison of {a} and {b} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let said = compare.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    (said.status.code(), words)
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
    run_lab(place.path());
    cut("other/sim-0001/payloads.csv", 5);
    let said = run_in(place.path(), &["lab", "compare", "one", "other"]);
    assert!(
        said.stdout
            .contains("run sim-0001: payloads.csv has not all"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_table_that_is_no_regular_file_is_refused_and_not_waited_for() {
    let place = places();
    run_lab(place.path());
    let make: [(&str, Make); 4] = [
        ("a pipe", |path| {
            mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
        }),
        ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
        ("a device", |path| symlink("/dev/zero", path).unwrap()),
        ("a directory", |path| fs::create_dir(path).unwrap()),
    ];
    let tables = [
        ("before", "after", "runs.csv"),
        ("before", "after", "payloads.csv"),
        ("one", "other", "manifest.json"),
        ("one", "other", "sim-0001/run.json"),
        ("one", "other", "sim-0001/payloads.csv"),
        ("one", "other", "sim-0001/links.csv"),
    ];
    for (a, b, table) in tables {
        let path = place.path().join(b).join(table);
        let kept = fs::read(&path).unwrap_or_default();
        for (kind, make) in make {
            let _ = fs::remove_file(&path);
            make(&path);
            let (code, words) = compared(place.path(), a, b);
            assert_eq!(code, Some(2), "{kind} as {table}: {words}");
            let what = format!("{b}/{table}: it is {kind}, and only regular files are read");
            assert!(words.contains(&what), "{words}");
            assert!(words.contains("hint: "), "{words}");
            match kind {
                "a directory" => fs::remove_dir(&path).unwrap(),
                _ => fs::remove_file(&path).unwrap(),
            }
        }
        fs::write(&path, kept).unwrap();
    }
}

#[test]
fn a_table_is_read_up_to_what_one_may_have() {
    let place = places();
    let path = place.path().join("after/payloads.csv");
    for (octets, what) in [
        (2 << 20, "a line has more than 1048576 octets"),
        (8 << 30, "it has more than 4294967296 octets"),
    ] {
        // All of it is a hole.
        File::create(&path).unwrap().set_len(octets).unwrap();
        let (code, words) = compared(place.path(), "before", "after");
        assert_eq!(code, Some(2), "{words}");
        assert!(words.contains(what), "{words}");
        assert!(words.contains("hint: "), "{words}");
    }
}
