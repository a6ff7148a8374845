//! Words of the program before it reaches any node: help, errors, exit codes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what fails by failing"
)]

mod program;

use std::os::unix::fs::PermissionsExt as _;

use program::{assert_snapshot, run, run_in};

/// All commands that have a help text.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["node"],
    &["node", "config"],
    &["node", "init"],
    &["node", "run"],
    &["send"],
    &["recv"],
    &["outbox"],
    &["ferry"],
    &["ferry", "list"],
    &["ferry", "check"],
    &["inbox"],
    &["stream"],
    &["stream", "send"],
    &["stream", "receive"],
    &["ltp"],
    &["ltp", "send"],
    &["ltp", "recv"],
    &["ltp", "relay"],
    &["ltp", "encapsulate"],
    &["ping"],
    &["perf"],
    &["trace"],
    &["status"],
    &["bundles"],
    &["why"],
    &["links"],
    &["link"],
    &["link", "up"],
    &["link", "down"],
    &["link", "add"],
    &["link", "del"],
    &["routes"],
    &["route"],
    &["route", "add"],
    &["route", "del"],
    &["contacts"],
    &["registrations"],
    &["bundle"],
    &["bundle", "decode"],
    &["bundle", "make"],
    &["bundle", "drop"],
    &["channel"],
    &["iperf"],
    &["top"],
    &["otg"],
    &["otr"],
    &["collect"],
    &["sim"],
    &["sim", "replay"],
    &["sim", "run"],
    &["sim", "schema"],
    &["lab"],
    &["lab", "run"],
    &["lab", "report"],
    &["lab", "compare"],
    &["lab", "yardstick"],
    &["lab", "yardstick", "send"],
    &["lab", "yardstick", "receive"],
    &["lab", "yardstick", "disk"],
    &["lab", "up"],
    &["lab", "down"],
    &["lab", "inspect"],
    &["lab", "exec"],
    &["lab", "graph"],
    &["lab", "selftest"],
    &["lab", "oedl"],
    &["completions"],
    &["manual"],
    &["version"],
];

/// A link that could be made, as root.
const CHANNEL: [&str; 7] = [
    "channel",
    "--left",
    "east:d0/10.9.0.1/30",
    "--right",
    "west:d0/10.9.0.2/30",
    "--rate",
    "1Mbit",
];

#[test]
fn every_command_has_the_help_text_that_is_on_record() {
    for command in COMMANDS {
        let said = run(&[*command, &["--help"]].concat());
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
        &["send", "ipn:4.42", "f", "--lifetime", "0s"],
        &["send", "ipn:4.42", "f", "--split", "50gb"],
        &["send", "ipn:4.42", "f", "--split", "0"],
        &["send", "ipn:4.42", "f", "--report", "arrival"],
        &["bundles", "--each", "0"],
        &["recv", "http://x"],
        &["recv", "ipn:4.42", "--out", "d", "--stdout"],
        &["outbox", "d"],
        &["outbox", "d", "ipn:4.60", "--settle", "5"],
        &["outbox", "d", "ipn:4.60", "--count", "5"],
        &["inbox", "ipn:4.60"],
        &["inbox", "ipn:4.60", "d", "--from", "ipn:x"],
        &["stream", "send", "ipn:4.61", "--chunk", "17MiB"],
        &["stream", "receive", "ipn:4.61", "--stream", "7"],
        &["stream", "receive", "ipn:4.61", "--next", "7"],
        &["stream", "receive", "ipn:4.61", "--skip", "7"],
        &[
            "stream",
            "receive",
            "ipn:4.61",
            "--next",
            "9223372036854775808",
        ],
        &["tunnel", "ipn:4.80", "dtn:none"],
        &["bundle", "make", "ipn:1.0", "ipn:2.42", "f", "--crc", "64"],
        &[&CHANNEL[..], &["--loss", "1.5"]].concat(),
        &[&CHANNEL[..], &["--loss-burst", "5"]].concat(),
        &[&CHANNEL[..], &["--loss", "0.1", "--loss-burst", "0"]].concat(),
        &[&CHANNEL[..], &["--loss", "0.9", "--loss-burst", "3"]].concat(),
        &[&CHANNEL[..], &["--jitter", "5"]].concat(),
        &[&CHANNEL[..], &["--duplicate", "101%"]].concat(),
        &[&CHANNEL[..], &["--reorder", "often"]].concat(),
        &[&CHANNEL[..], &["--reorder-by", "5ms"]].concat(),
        &[&CHANNEL[..], &["--reorder", "1%", "--reorder-by", "0s"]].concat(),
        &["collect", "--listen", "0.0.0.0:0"],
        &["collect", "--db", "a.sq3", "--dir", "d"],
        &[
            "otg",
            "--udp:dst_host",
            "::1",
            "--oml-collect",
            "bundles:ipn:9.1",
            "--oml-binary",
        ],
        &["node", "init", "ipn:2.7", "--dir", "d"],
        &["perf", "ipn:4.0", "--size", "51"],
        &["perf", "ipn:4.0", "--rate", "10MB"],
        &["perf", "ipn:4.0", "--count", "5", "--duration", "1s"],
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
        &["recv", "ipn:4.42", "--node", "127.0.0.1:1"],
        &["outbox", "d", "ipn:4.60", "--node", "absent.sock"],
        &["inbox", "ipn:4.60", "d", "--node", "absent.sock"],
        &["stream", "receive", "ipn:4.61", "--node", "absent.sock"],
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
fn a_new_configuration_is_written_once_and_runs_into_no_error_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let init = ["node", "init", "ipn:2.0", "--dir", "beta"];
    assert_eq!(run_in(directory.path(), &init).code, 0);
    let path = directory.path().join("beta/node.toml");
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written.contains("id = \"ipn:2.0\""), "{written}");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it may come to hold a token");

    std::fs::write(
        &path,
        "[node]\nid = \"ipn:2.0\"\n[store]\nquotta = \"1GB\"\n",
    )
    .unwrap();
    let again = run_in(directory.path(), &init);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("hint: --force"), "{}", again.stderr);
    let wrong = run_in(
        directory.path(),
        &["node", "run", "--config", "beta/node.toml"],
    );
    assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""));
    assert!(
        wrong.stderr.contains("beta/node.toml:4:") && wrong.stderr.contains("quota"),
        "{}",
        wrong.stderr
    );

    assert_eq!(
        run_in(directory.path(), &[&init[..], &["--force"]].concat()).code,
        0
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
}

#[test]
fn a_configuration_that_cannot_work_exits_with_2() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.toml");
    for rest in [
        "[[listen]]\naddress = \"no-such-host.invalid:1\"",
        "[[listen]]\naddress = \"127.0.0.1:0\"\nrequire_node_id = true",
        "[store]\npath = \"node.toml\"",
        "[api]\nsocket = \"absent/dhow.sock\"",
        "[api]\ntcp = \"foo\"",
    ] {
        std::fs::write(&path, format!("[node]\nid = \"ipn:2.0\"\n{rest}\n")).unwrap();
        let said = run_in(directory.path(), &["node", "run"]);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{rest}");
        assert!(said.stderr.contains("hint: "), "{}", said.stderr);
    }
}

/// Contradictions in a node file, and files that it names and that are missing, are told before a node starts.
#[test]
fn nonsense_is_refused_by_config_and_run_alike() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.toml");
    let mut text = String::new();
    for rest in [
        "[echo]\nservice = 5201",
        "[store]\nquota = \"1MiB\"\nsegment = \"64MiB\"",
        "[admin]\ntcp = \"127.0.0.1:1\"\ntoken = \"x\"",
        "[tls]\ncertificate = \"chain.pem\"\nkey = \"key.pem\"\nauthorities = [\"ca.pem\"]",
        "[api]\nsocket = \"absent/dhow.sock\"",
        "[[listen]]\naddress = \"127.0.0.1:4556\"\n[[link]]\nname = \"self\"\naddress = \"127.0.0.1\"",
    ] {
        std::fs::write(&path, format!("[node]\nid = \"ipn:2.0\"\n{rest}\n")).unwrap();
        let [config, run] = [&["node", "config", "node.toml"][..], &["node", "run"]]
            .map(|it| run_in(directory.path(), it));
        assert_eq!((config.code, run.code), (2, 2), "{rest}");
        assert_eq!(config.stderr, run.stderr);
        text.push_str(&config.stderr);
        text.push('\n');
    }
    assert_snapshot("nonsense.txt", &text);
}

#[test]
fn the_program_says_what_it_speaks() {
    let said = run(&["version", "--json"]);
    let version: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(version["bundle_versions"], serde_json::json!([6, 7]));
    let protocols = version["protocols"].as_array().unwrap();
    assert!(protocols.contains(&serde_json::json!("tcpcl")));
    assert!(run(&["version"]).stdout.starts_with("dhow 0."));
}

#[test]
fn each_command_has_a_manual_page() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("man");
    let said = run(&["manual", directory.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    for page in ["dhow.1", "dhow-send.1", "dhow-node-run.1"] {
        let text = std::fs::read_to_string(directory.join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let said = run(&["manual", file.to_str().unwrap()]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("hint: "), "{}", said.stderr);
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let said = run(&["completions", shell]);
        assert_eq!(said.code, 0);
        for command in [
            "send",
            "recv",
            "outbox",
            "inbox",
            "stream",
            "ping",
            "perf",
            "trace",
            "status",
            "bundles",
            "why",
            "links",
            "routes",
            "registrations",
            "bundle",
        ] {
            assert!(said.stdout.contains(command), "{shell} completes {command}");
        }
    }
}
