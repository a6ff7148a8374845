//! What the program says before it reaches any node: help, errors, exit codes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what fails by failing"
)]

mod program;

use program::{assert_snapshot, run, run_in};

/// All commands that have a help text.
const COMMANDS: [&[&str]; 23] = [
    &[],
    &["node"],
    &["node", "init"],
    &["node", "run"],
    &["send"],
    &["recv"],
    &["ping"],
    &["trace"],
    &["status"],
    &["bundles"],
    &["links"],
    &["link"],
    &["link", "up"],
    &["link", "down"],
    &["routes"],
    &["route"],
    &["route", "add"],
    &["route", "del"],
    &["registrations"],
    &["bundle"],
    &["bundle", "decode"],
    &["bundle", "make"],
    &["completions"],
];

#[test]
fn every_command_has_the_help_text_that_is_on_record() {
    for command in COMMANDS {
        let said = run(&[command, &["--help"]].concat());
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{command:?}");
        let name = if command.is_empty() {
            "dhow".to_owned()
        } else {
            command.join("-")
        };
        assert_snapshot(&format!("help-{name}.txt"), &said.stdout);
    }
}

#[test]
fn bad_usage_exits_with_2_and_says_what_is_wrong() {
    let mut text = String::new();
    for arguments in [
        &["fly"][..],
        &["send"],
        &["send", "ipn:4.42"],
        &["send", "ipn:4", "f"],
        &["send", "ipn:4.42", "f", "--lifetime", "10"],
        &["send", "ipn:4.42", "f", "--split", "50gb"],
        &["send", "ipn:4.42", "f", "--split", "0"],
        &["send", "ipn:4.42", "f", "--report", "arrival"],
        &["recv", "http://x"],
        &["recv", "ipn:4.42", "--out", "d", "--stdout"],
        &["bundle", "make", "ipn:1.0", "ipn:2.42", "f", "--crc", "64"],
        &["node", "init", "ipn:2.7", "--dir", "d"],
    ] {
        let said = run(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{arguments:?}");
        text.push_str(&format!(
            "$ dhow {}\n{}\n",
            arguments.join(" "),
            said.stderr
        ));
    }
    assert_snapshot("usage-errors.txt", &text);
}

#[test]
fn what_fails_exits_with_1_and_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for arguments in [
        &["status"][..],
        &["status", "--node", "absent.sock"],
        &["links", "--node", "tcp:127.0.0.1:4242"],
        &["bundle", "decode", "absent.bundle"],
        &["send", "ipn:4.42", "absent.txt", "--node", "absent.sock"],
        &["recv", "ipn:4.42", "--node", "absent.sock"],
        &["node", "run", "--config", "absent.toml"],
    ] {
        let said = run_in(directory.path(), arguments);
        assert_eq!(said.stdout, "", "{arguments:?}");
        text.push_str(&format!(
            "$ dhow {} # exits with {}\n{}\n",
            arguments.join(" "),
            said.code,
            said.stderr
        ));
    }
    assert_snapshot("failures.txt", &text);
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let said = run(&["completions", shell]);
        assert_eq!(said.code, 0);
        for command in [
            "send",
            "recv",
            "ping",
            "trace",
            "status",
            "bundles",
            "links",
            "routes",
            "registrations",
            "bundle",
        ] {
            assert!(said.stdout.contains(command), "{shell} completes {command}");
        }
    }
}
