//! Whole nodes on loopback: send, receive, ping, trace, and a node that is killed on the way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what fails by failing"
)]

mod program;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use program::node::{Lines, Node, Reaped};
use program::{Said, dhow, run};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Alpha, ipn:1.0, listens; all reports are on.
const ALPHA: &str = r#"
[node]
id = "ipn:1.0"
[store]
path = "store"
durability = "os"
quota = "256MiB"
[api]
socket = "dhow.sock"
[reports]
generate = ["reception", "forward", "delivery", "deletion"]
[[listen]]
protocol = "tcpcl"
address = "127.0.0.1:0"
"#;

/// Beta, ipn:2.0, dials alpha, so that it finds its neighbour again after a restart.
fn beta(alpha: &Node) -> String {
    let beta = ALPHA.replace("ipn:1.0", "ipn:2.0");
    let link = format!(
        "[[link]]\nname = \"alpha\"\nprotocol = \"tcpcl\"\naddress = \"{}\"\n[[route]]\nto = \"ipn:1.*\"\nvia = \"alpha\"\n",
        alpha.address()
    );
    format!("{beta}{link}")
}

struct Pair {
    alpha: Node,
    beta: Node,
    directory: tempfile::TempDir,
}

impl Pair {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let alpha = Node::start(&directory.path().join("alpha"), ALPHA);
        let beta = Node::start(&directory.path().join("beta"), &beta(&alpha));
        Self {
            alpha,
            beta,
            directory,
        }
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn on(node: &Node, arguments: &[&str]) -> Said {
    run(&[arguments, &["--node", &node.socket()]].concat())
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn sha256(octets: &[u8]) -> String {
    Sha256::digest(octets)
        .iter()
        .map(|octet| format!("{octet:02x}"))
        .collect()
}

/// Starts `dhow recv` and hands out its lines.
fn receiver(socket: &str, arguments: &[&str]) -> (Reaped, Lines) {
    let mut child = dhow(&[&["recv"], arguments, &["--node", socket]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    (Reaped(child), lines)
}

fn names_in(directory: &Path) -> BTreeSet<String> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_file_sent_is_the_file_received_and_its_delivery_is_reported() {
    let pair = Pair::start();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
    let file = pair.file("content", &content);
    let out = pair.directory.path().join("out");
    let (mut receiver, lines) = receiver(
        &pair.beta.socket(),
        &[
            "ipn:2.42",
            "--sha256",
            "--count",
            "1",
            "--out",
            out.to_str().unwrap(),
            "--timeout",
            "60s",
        ],
    );
    let sent = on(
        &pair.alpha,
        &[
            "send",
            "ipn:2.42",
            &file,
            "--from",
            "ipn:1.5",
            "--wait",
            "--lifetime",
            "60s",
            "--json",
        ],
    );
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let sent = json_lines(&sent.stdout);
    let received = lines.json();
    assert_eq!(sent.len(), 2, "the bundle and its outcome: {sent:?}");
    assert_eq!(
        (
            &sent[0]["source"],
            &sent[0]["destination"],
            &sent[0]["octets"]
        ),
        (&json!("ipn:1.5"), &json!("ipn:2.42"), &json!(content.len()))
    );
    assert_eq!(
        (
            &received["source"],
            &received["creation"],
            &received["octets"]
        ),
        (
            &json!("ipn:1.5"),
            &sent[0]["creation"],
            &json!(content.len())
        )
    );
    assert_eq!(
        (&sent[1]["event"], &sent[1]["at"], &sent[1]["creation"]),
        (&json!("delivered"), &json!("ipn:2.0"), &sent[0]["creation"])
    );
    assert!(sent[1]["time_dtn_ms"].is_u64(), "{sent:?}");
    assert_eq!(received["sha256"], json!(sha256(&content)));
    assert!(received["delay_ms"].is_u64());
    assert_eq!(
        fs::read(received["path"].as_str().unwrap()).unwrap(),
        content
    );
    assert_eq!(
        names_in(&out).len(),
        1,
        "one file, and nothing unfinished beside it"
    );
    assert!(receiver.0.wait().unwrap().success());
}

#[test]
fn split_makes_independent_bundles_with_consecutive_numbers_that_join_to_the_file() {
    let pair = Pair::start();
    let content: Vec<u8> = (0..30_001_u32).flat_map(u32::to_be_bytes).collect();
    let file = pair.file("content", &content);
    let sent = on(
        &pair.alpha,
        &["send", "ipn:2.42", &file, "--split", "10kB", "--json"],
    );
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let sent = json_lines(&sent.stdout);
    let octets: Vec<&Value> = sent.iter().map(|bundle| &bundle["octets"]).collect();
    let mut expected = vec![10_000; 12];
    expected.push(4);
    assert_eq!(json!(octets), json!(expected));
    let creations: Vec<(u64, u64)> = sent
        .iter()
        .map(|bundle| {
            (
                bundle["creation"][0].as_u64().unwrap(),
                bundle["creation"][1].as_u64().unwrap(),
            )
        })
        .collect();
    assert!(
        creations.is_sorted() && creations[0] != creations[1],
        "{creations:?}"
    );

    let out = pair.directory.path().join("out");
    let received = on(
        &pair.beta,
        &[
            "recv",
            "ipn:2.42",
            "--count",
            "13",
            "--out",
            out.to_str().unwrap(),
            "--timeout",
            "60s",
        ],
    );
    assert_eq!(received.code, 0, "{}", received.stderr);
    assert_eq!(json_lines(&received.stdout).len(), 13);
    // As a shell sorts `out/*`.
    let joined: Vec<u8> = names_in(&out)
        .iter()
        .flat_map(|name| fs::read(out.join(name)).unwrap())
        .collect();
    assert_eq!(sha256(&joined), sha256(&content));
}

#[test]
fn receiving_goes_on_across_a_kill_of_the_node_and_nothing_comes_twice() {
    let Pair {
        alpha,
        beta,
        directory,
    } = Pair::start();
    let out = directory.path().join("out");
    let file = directory.path().join("content");
    fs::write(&file, b"hello").unwrap();
    let send = |count: &str| {
        on(
            &alpha,
            &["send", "ipn:2.42", file.to_str().unwrap(), "--count", count],
        )
    };
    let (mut receiver, lines) = receiver(
        &beta.socket(),
        &[
            "ipn:2.42",
            "--count",
            "6",
            "--out",
            out.to_str().unwrap(),
            "--timeout",
            "100s",
        ],
    );

    assert_eq!(send("3").code, 0);
    let mut identities = BTreeSet::new();
    for _ in 0..3 {
        let line = lines.json();
        assert_eq!(line["sha256"], json!(null), "nobody asked");
        identities.insert(line["creation"].to_string());
    }
    let beta = Node::start_again(&beta.kill());
    assert_eq!(send("3").code, 0);
    for _ in 0..3 {
        let line = lines.json();
        assert_eq!(line["sha256"], json!(null), "nobody asked");
        identities.insert(line["creation"].to_string());
    }
    assert_eq!(identities.len(), 6);
    assert_eq!(lines.next(), None);
    assert!(receiver.0.wait().unwrap().success());
    assert_eq!(names_in(&out).len(), 6);
    assert_eq!(beta.terminate(), Some(0));
    assert_eq!(alpha.terminate(), Some(0));
}

#[test]
fn what_an_existing_store_cannot_have_is_told_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let with = |keys: &str| ALPHA.replace("durability = \"os\"", keys);
    let said = |text: &str| {
        let node = Node::start(directory.path(), text);
        let logged = node.logged();
        fs::write(directory.path().join("log"), "").unwrap();
        node.terminate();
        logged
    };
    let in_memory = with("durability = \"memory\"");
    assert!(!said(&in_memory).contains("WARN"));
    assert!(!said(&with("segment = \"64KiB\"")).contains("WARN"));
    let logged = said(&with("segment = \"128KiB\""));
    assert!(logged.contains("'segment' has no effect"), "{logged}");
    assert!(!said(ALPHA).contains("WARN"), "nothing is asked for");
    let logged = said(&in_memory);
    assert!(
        logged.contains("the store on disk stays closed"),
        "{logged}"
    );
}

#[test]
fn a_hangup_has_a_node_read_its_configuration_again() {
    if ignores_hangups() {
        println!("skipped: hangups are ignored here, as under nohup, and so by what is started");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(directory.path(), ALPHA);
    let more = "[[link]]\nname = \"gamma\"\naddress = \"127.0.0.1:1\"\n";
    fs::write(
        directory.path().join("node.toml"),
        format!("{ALPHA}\n{more}"),
    )
    .unwrap();
    node.signal(rustix::process::Signal::HUP);
    let socket = node.socket();
    let links = || dhow(&["links", "--node", &socket]).output().unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !String::from_utf8(links().stdout).unwrap().contains("gamma") {
        assert!(std::time::Instant::now() < end, "the link is not taken up");
    }
    assert_eq!(node.terminate(), Some(0));
    assert!(!Path::new(&socket).exists());
}

/// Whether this process has SIGHUP, signal 1, ignored: what it starts inherits that.
fn ignores_hangups() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1
}

/// `nohup` and shells have the signal ignored for what is to outlive their terminal.
#[test]
fn a_node_started_with_hangups_ignored_outlives_its_terminal() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("node.toml"), ALPHA).unwrap();
    let mut child = std::process::Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" node run"])
        .arg(env!("CARGO_BIN_EXE_dhow"))
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    let node = Reaped(child);
    assert_eq!(lines.json()["event"], "ready");
    let id = rustix::process::Pid::from_child(&node.0);
    rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
    let socket = directory.path().join("dhow.sock");
    let said = run(&["status", "--node", socket.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(node.end(rustix::process::Signal::TERM), Some(0));
}

#[test]
fn fewer_than_asked_for_exits_with_1_and_keeps_what_came() {
    let pair = Pair::start();
    let file = pair.file("content", b"hello");
    assert_eq!(on(&pair.alpha, &["send", "ipn:1.42", &file]).code, 0);
    let out = pair.directory.path().join("out");
    let received = on(
        &pair.alpha,
        &[
            "recv",
            "ipn:1.42",
            "--count",
            "2",
            "--out",
            out.to_str().unwrap(),
            "--timeout",
            "3s",
        ],
    );
    assert_eq!(received.code, 1);
    assert_eq!(json_lines(&received.stdout).len(), 1);
    assert_eq!(names_in(&out).len(), 1);
    assert!(received.stderr.contains("1 of 2"), "{}", received.stderr);
}

#[test]
fn payloads_go_to_stdout_when_asked_and_lines_to_stderr() {
    let pair = Pair::start();
    let file = pair.file("content", b"hello");
    assert_eq!(on(&pair.alpha, &["send", "ipn:1.42", &file]).code, 0);
    let received = on(
        &pair.alpha,
        &[
            "recv",
            "ipn:1.42",
            "--count",
            "1",
            "--stdout",
            "--timeout",
            "60s",
        ],
    );
    assert_eq!((received.code, received.stdout.as_str()), (0, "hello"));
    let line: Value = serde_json::from_str(received.stderr.lines().next().unwrap()).unwrap();
    assert_eq!((&line["path"], &line["octets"]), (&Value::Null, &json!(5)));
}

#[test]
fn stdin_is_copied_first_and_sent_as_one_bundle() {
    let pair = Pair::start();
    let content = vec![7; 2_000_000];
    let mut child = dhow(&[
        "send",
        "ipn:2.42",
        "-",
        "--json",
        "--node",
        &pair.alpha.socket(),
    ])
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    child.stdin.take().unwrap().write_all(&content).unwrap();
    let sent: Said = child.wait_with_output().unwrap().into();
    assert_eq!(
        (sent.code, &json_lines(&sent.stdout)[0]["octets"]),
        (0, &json!(2_000_000))
    );
    let received = on(
        &pair.beta,
        &[
            "recv",
            "ipn:2.42",
            "--count",
            "1",
            "--stdout",
            "--timeout",
            "60s",
        ],
    );
    assert!(received.stdout.as_bytes() == content);
}

#[test]
fn stdin_without_end_is_not_copied_beyond_the_nodes_room() {
    let directory = tempfile::tempdir().unwrap();
    let small = ALPHA.replace("256MiB", "8MiB");
    let node = Node::start(&directory.path().join("small"), &small);
    let said: Said = dhow(&["send", "ipn:1.42", "-", "--node", &node.socket()])
        .stdin(fs::File::open("/dev/zero").unwrap())
        .output()
        .unwrap()
        .into();
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert!(
        said.stderr
            .starts_with("error: cannot send -: it has more than the 8.4 MB"),
        "{}",
        said.stderr
    );
}

#[test]
fn anonymous_bundles_go_without_reports() {
    let pair = Pair::start();
    let file = pair.file("content", b"");
    let sent = on(
        &pair.alpha,
        &["send", "ipn:1.42", &file, "--from", "dtn:none", "--json"],
    );
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert_eq!(json_lines(&sent.stdout)[0]["source"], "dtn:none");
    assert_eq!(
        on(
            &pair.alpha,
            &["send", "ipn:1.42", &file, "--from", "dtn:none", "--wait"]
        )
        .code,
        2
    );
}

#[test]
fn what_the_node_refuses_exits_with_1_and_its_reason() {
    let pair = Pair::start();
    let file = pair.file("content", b"hello");
    let echo = on(&pair.alpha, &["recv", "ipn:1.7", "--timeout", "1s"]);
    let foreign = on(
        &pair.alpha,
        &["send", "ipn:2.42", &file, "--from", "ipn:9.5"],
    );
    for said in [echo, foreign] {
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        assert!(said.stderr.starts_with("error: cannot "), "{}", said.stderr);
    }
}

#[test]
fn a_port_or_a_store_in_use_ends_the_second_node_and_not_the_first() {
    let pair = Pair::start();
    let second = pair.directory.path().join("second");
    fs::create_dir_all(&second).unwrap();
    let taken_port = ALPHA.replace("127.0.0.1:0", &pair.alpha.address());
    let store = pair.directory.path().join("alpha/store");
    let taken_store = ALPHA.replace("\"store\"", &format!("{:?}", store.to_str().unwrap()));
    for (configuration, word) in [
        (taken_port, pair.alpha.address()),
        (taken_store, "store".to_owned()),
    ] {
        fs::write(second.join("node.toml"), configuration).unwrap();
        let said = run(&[
            "node",
            "run",
            "--log",
            "error",
            "--config",
            second.join("node.toml").to_str().unwrap(),
        ]);
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (1, ""),
            "{}",
            said.stderr
        );
        assert!(
            said.stderr.contains("error: cannot run the node: ") && said.stderr.contains(&word),
            "{}",
            said.stderr
        );
    }
    assert_eq!(on(&pair.alpha, &["status"]).code, 0);
}

#[test]
fn waiting_for_a_report_that_cannot_come_exits_with_1_at_expiry() {
    let pair = Pair::start();
    let file = pair.file("content", b"hello");
    let sent = on(
        &pair.alpha,
        &["send", "ipn:9.42", &file, "--wait", "--lifetime", "1s"],
    );
    assert_eq!(sent.code, 1);
    assert!(
        sent.stderr.contains("0 of 1")
            && sent
                .stderr
                .contains("was deleted at ipn:1.0: lifetime expired"),
        "{}",
        sent.stderr
    );
}

#[test]
fn a_bundle_that_nobody_reports_on_is_told_as_unreported_at_expiry() {
    let directory = tempfile::tempdir().unwrap();
    let silent = ALPHA.replace(r#"["reception", "forward", "delivery", "deletion"]"#, "[]");
    let node = Node::start(&directory.path().join("silent"), &silent);
    let file = directory.path().join("content");
    fs::write(&file, b"hello").unwrap();
    let sent = on(
        &node,
        &[
            "send",
            "ipn:9.42",
            file.to_str().unwrap(),
            "--wait",
            "--lifetime",
            "100ms",
            "--json",
        ],
    );
    assert_eq!(sent.code, 1);
    let lines = json_lines(&sent.stdout);
    assert_eq!(
        (&lines[1]["event"], &lines[1]["creation"], &lines[1]["at"]),
        (&json!("unreported"), &lines[0]["creation"], &Value::Null)
    );
    assert!(
        sent.stderr.contains("hint: no report came"),
        "{}",
        sent.stderr
    );
}

#[test]
fn waiting_that_is_interrupted_says_how_far_it_came() {
    let pair = Pair::start();
    let file = pair.file("content", b"hello");
    let mut child = dhow(&[
        "send",
        "ipn:9.42",
        &file,
        "--wait",
        "--json",
        "--node",
        &pair.alpha.socket(),
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    let talk = Lines::of(child.stderr.take().unwrap());
    lines.json();
    assert_eq!(Reaped(child).end(rustix::process::Signal::INT), Some(130));
    let mut said = talk.next();
    // Nothing leads there, which is said where there was time for it.
    if said
        .as_ref()
        .is_some_and(|it| it.starts_with("note: no route leads to ipn:9.42"))
    {
        said = talk.next();
    }
    assert_eq!(
        said.as_deref(),
        Some("interrupted: 0 of 1 bundles are reported delivered, 1 open")
    );
}

#[test]
fn sending_that_is_interrupted_says_what_the_node_has() {
    let pair = Pair::start();
    let file = pair.file("content", b"");
    let mut child = dhow(&[
        "send",
        "ipn:9.42",
        &file,
        "--count",
        "100000000",
        "--json",
        "--node",
        &pair.alpha.socket(),
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    let talk = Lines::of(child.stderr.take().unwrap());
    lines.json();
    assert_eq!(Reaped(child).end(rustix::process::Signal::INT), Some(130));
    let said = talk.next().unwrap();
    assert!(
        said.starts_with("interrupted: the node has ") && said.ends_with(" of 100000000 bundles"),
        "{said}"
    );
}

#[test]
fn a_bundle_lives_for_as_long_as_the_node_says_unless_the_command_does() {
    let directory = tempfile::tempdir().unwrap();
    let mailbox = "socket = \"dhow.sock\"\ndefault_lifetime = \"30d\"";
    let alpha = ALPHA.replace("socket = \"dhow.sock\"", mailbox);
    let alpha = Node::start(&directory.path().join("alpha"), &alpha);
    let letter = directory.path().join("letter");
    fs::write(&letter, "The well is dry.").unwrap();
    let letter = letter.to_str().unwrap();
    assert_eq!(on(&alpha, &["send", "ipn:9.64", letter]).code, 0);
    let briefly = ["send", "ipn:9.65", letter, "--lifetime", "2h"];
    assert_eq!(on(&alpha, &briefly).code, 0);
    let listed = on(&alpha, &["bundles", "--each", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let hours_of = |destination: &str| {
        let bundles = listed.as_array().unwrap();
        let bundle = bundles.iter().find(|it| it["destination"] == destination);
        bundle.unwrap()["expires_in_ms"].as_u64().unwrap() / 3_600_000
    };
    assert_eq!((hours_of("ipn:9.64"), hours_of("ipn:9.65")), (719, 1));
}

#[test]
fn all_bundles_are_listed_or_those_left_out_are_counted() {
    let pair = Pair::start();
    let file = pair.file("content", b"");
    let sent = on(&pair.alpha, &["send", "ipn:9.42", &file, "--count", "150"]);
    assert_eq!(sent.code, 0);
    let all = on(&pair.alpha, &["bundles", "--each", "--json"]);
    let listed = |said: &Said| json_lines(&said.stdout)[0].as_array().unwrap().len();
    assert_eq!((listed(&all), all.stderr.as_str()), (150, ""));
    let some = on(&pair.alpha, &["bundles", "--each", "100", "--json"]);
    assert_eq!((listed(&some), some.stderr.as_str()), (100, "50 more\n"));
}

#[test]
fn the_operators_socket_named_by_mistake_is_told_and_not_waited_for() {
    let pair = Pair::start();
    let said = run(&[
        "status",
        "--node",
        &format!("{}.admin", pair.alpha.socket()),
    ]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(
        said.stderr
            .contains(&format!("--node {};", pair.alpha.socket())),
        "{}",
        said.stderr
    );
}

#[test]
fn a_node_that_goes_away_is_told_and_a_timeout_meanwhile_fails() {
    let Pair {
        alpha,
        beta: _beta,
        directory,
    } = Pair::start();
    let mut child = dhow(&[
        "recv",
        "ipn:1.42",
        "--out",
        directory.path().join("out").to_str().unwrap(),
        "--timeout",
        "5s",
        "--node",
        &alpha.socket(),
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let talk = Lines::of(child.stderr.take().unwrap());
    // The command listens once its endpoint is registered.
    while !on(&alpha, &["registrations"]).stdout.contains("ipn:1.42") {
        assert_eq!(child.try_wait().unwrap(), None);
    }
    alpha.kill();
    assert_eq!(
        talk.next().as_deref(),
        Some("note: the node is away, trying again")
    );
    assert_eq!(
        talk.next().as_deref(),
        Some("error: received 0 bundles: the node is away")
    );
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// TCPCLv4 as `ipn:3.0` speaks it that sends one bundle: contact header, SESS_INIT, XFER_SEGMENT with START
/// and END (RFC 9174 4.2, 4.6, 5.2.2).
fn session_with(bundle: &[u8]) -> Vec<u8> {
    let mut octets = b"dtn!\x04\x00\x07\x00\x00".to_vec();
    octets.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 0].repeat(2));
    octets.extend_from_slice(b"\x00\x07ipn:3.0\x00\x00\x00\x00");
    octets.extend_from_slice(b"\x01\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00");
    octets.extend_from_slice(&u64::try_from(bundle.len()).unwrap().to_be_bytes());
    octets.extend_from_slice(bundle);
    octets
}

#[test]
fn a_damaged_bundle_is_refused_with_the_rule_named_once() {
    let pair = Pair::start();
    let made = pair.file("made", b"");
    let file = pair.file("content", b"hello");
    let said = run(&[
        "bundle", "make", "ipn:3.5", "ipn:1.42", &file, "--out", &made,
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let mut bundle = fs::read(&made).unwrap();
    // Within the payload, which its CRC covers.
    let place = bundle.len() - 8;
    bundle[place] ^= 1;
    let mut stream = std::net::TcpStream::connect(pair.alpha.address()).unwrap();
    stream
        .set_read_timeout(Some(program::node::PATIENCE))
        .unwrap();
    stream.write_all(&session_with(&bundle)).unwrap();
    // The answers: contact header, SESS_INIT, XFER_REFUSE.
    stream.read_exact(&mut [0; 6 + 32 + 10]).unwrap();
    drop(stream);
    let Pair {
        alpha, directory, ..
    } = pair;
    assert_eq!(alpha.terminate(), Some(0));
    let log = fs::read_to_string(directory.path().join("alpha/log")).unwrap();
    assert!(log.contains("RFC 9171 4.2.2"), "{log}");
    assert!(!log.contains("RFC 9171 RFC"), "{log}");
}

#[test]
fn pings_come_back_from_the_echo_service_and_not_from_nowhere() {
    let pair = Pair::start();
    let answered = on(
        &pair.alpha,
        &[
            "ping",
            "ipn:2.7",
            "--count",
            "3",
            "--interval",
            "10ms",
            "--json",
        ],
    );
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    let lines = json_lines(&answered.stdout);
    assert_eq!(lines.len(), 4, "a line each and the summary");
    assert_eq!(
        (
            &lines[3]["sent"],
            &lines[3]["received"],
            &lines[3]["loss_percent"]
        ),
        (&json!(3), &json!(3), &json!(0.0))
    );
    let unanswered = on(
        &pair.alpha,
        &["ping", "ipn:9.7", "--count", "1", "--timeout", "200ms"],
    );
    assert_eq!(unanswered.code, 1);
    assert!(
        unanswered.stdout.contains("1 sent, 0 received, 100 % lost"),
        "{}",
        unanswered.stdout
    );
}

#[test]
fn trace_names_the_nodes_on_the_way() {
    let pair = Pair::start();
    let (_receiver, _lines) = receiver(&pair.beta.socket(), &["ipn:2.42", "--stdout"]);
    let traced = on(
        &pair.alpha,
        &["trace", "ipn:2.42", "--timeout", "60s", "--json"],
    );
    assert_eq!(traced.code, 0, "{}", traced.stderr);
    for line in json_lines(&traced.stdout) {
        assert!(
            line["time_dtn_ms"].is_u64()
                && line["reason"] == 0
                && line["reason_text"] == "no additional information"
                && line["bundle"].as_str().unwrap().starts_with("ipn:1."),
            "{line}"
        );
    }
    let told: BTreeSet<(String, String)> = json_lines(&traced.stdout)
        .iter()
        .map(|line| {
            (
                line["node"].as_str().unwrap().to_owned(),
                line["event"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    assert!(
        told.contains(&("ipn:2.0".to_owned(), "delivered".to_owned())),
        "{told:?}"
    );
}

#[test]
fn trace_says_where_a_bundle_is_that_went_nowhere() {
    let pair = Pair::start();
    let traced = on(&pair.alpha, &["trace", "ipn:9.42", "--timeout", "300ms"]);
    assert_eq!(traced.code, 1);
    assert!(
        traced.stderr.contains("the bundle is still at ipn:1.0, "),
        "{}",
        traced.stderr
    );
}

#[test]
fn trace_fails_where_nobody_takes_the_bundle() {
    let pair = Pair::start();
    let traced = on(
        &pair.alpha,
        &["trace", "ipn:2.99", "--timeout", "2s", "--json"],
    );
    assert_eq!(traced.code, 1, "{}", traced.stdout);
    assert!(
        traced
            .stderr
            .contains("no report says that it was delivered"),
        "{}",
        traced.stderr
    );
    let events = json_lines(&traced.stdout);
    let received = |line: &Value| line["node"] == "ipn:2.0" && line["event"] == "received";
    assert!(events.iter().any(received), "{events:?}");
}

#[test]
fn the_operator_sees_and_changes_what_the_node_does() {
    let pair = Pair::start();
    let file = pair.file("content", b"hello");
    assert_eq!(
        on(&pair.alpha, &["send", "ipn:9.42", &file, "--count", "2"]).code,
        0
    );

    let bundles: Value =
        serde_json::from_str(&on(&pair.alpha, &["bundles", "--each", "--json"]).stdout).unwrap();
    assert_eq!(bundles.as_array().unwrap().len(), 2);
    let id = bundles[0]["id"].as_str().unwrap();
    assert_eq!(on(&pair.alpha, &["bundle", "drop", id]).code, 0);
    let destinations = on(&pair.alpha, &["bundles"]);
    assert!(
        destinations.stdout.contains("ipn:9.42"),
        "{}",
        destinations.stdout
    );
    let destinations: Value =
        serde_json::from_str(&on(&pair.alpha, &["bundles", "--json"]).stdout).unwrap();
    assert_eq!(
        (&destinations[0]["destination"], &destinations[0]["bundles"]),
        (&json!("ipn:9.42"), &json!(1))
    );

    assert_eq!(on(&pair.beta, &["link", "down", "alpha"]).code, 0);
    let links: Value = serde_json::from_str(&on(&pair.beta, &["links", "--json"]).stdout).unwrap();
    assert_eq!(
        (&links["links"][0]["name"], &links["links"][0]["state"]),
        (&json!("alpha"), &json!("down"))
    );
    let absent = on(&pair.beta, &["link", "up", "nowhere"]);
    assert_eq!(absent.code, 1);
    assert!(absent.stderr.starts_with("error: "), "{}", absent.stderr);

    assert_eq!(
        on(
            &pair.beta,
            &[
                "route",
                "add",
                "ipn:8.*",
                "--via",
                "alpha",
                "--priority",
                "3"
            ]
        )
        .code,
        0
    );
    assert!(on(&pair.beta, &["routes"]).stdout.contains("ipn:8.*"));
    assert_eq!(
        on(&pair.beta, &["route", "del", "ipn:8.*", "--via", "alpha"]).code,
        0
    );
    assert!(!on(&pair.beta, &["routes"]).stdout.contains("ipn:8.*"));

    for command in ["status", "registrations"] {
        let said = on(&pair.alpha, &[command]);
        assert_eq!(said.code, 0, "{command}: {}", said.stderr);
        assert_eq!(
            on(&pair.alpha, &[command, "--json"]).stdout.lines().count(),
            1
        );
    }
}

#[test]
fn a_running_node_gets_a_link_and_loses_it() {
    let pair = Pair::start();
    let gamma = ALPHA.replace("ipn:1.0", "ipn:3.0");
    let gamma = Node::start(&pair.directory.path().join("gamma"), &gamma);
    let (on_beta, address) = (
        |arguments: &[&str]| on(&pair.beta, arguments),
        gamma.address(),
    );
    let ends = |code: i32, arguments: &[&str], why: &str| {
        let said = on_beta(arguments);
        assert_eq!(said.code, code, "{arguments:?}: {}", said.stdout);
        assert!(said.stderr.contains(why), "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains("hint: "), "{}", said.stderr);
    };
    let refused = |arguments: &[&str], why: &str| ends(1, arguments, why);
    let misused = |arguments: &[&str], why: &str| ends(2, arguments, why);
    let add = ["link", "add", "gamma", &address, "--like", "alpha"];
    refused(
        &["link", "add", "gamma", &address, "--like", "delta"],
        "no link is named 'delta'",
    );
    misused(
        &["link", "add", "ga mma", &address, "--like", "alpha"],
        "cannot be the name",
    );
    misused(
        &["link", "add", "gamma", "no address", "--like", "alpha"],
        "is not an address",
    );
    let said = on_beta(&add);
    assert_eq!(said.code, 0, "{}", said.stderr);
    refused(&add, "a link is named 'gamma' already");
    let route = ["ipn:3.*", "--via", "gamma"];
    assert_eq!(on_beta(&[&["route", "add"][..], &route].concat()).code, 0);
    let file = pair.file("content", b"over the link that was added");
    assert_eq!(on_beta(&["send", "ipn:3.42", &file]).code, 0);
    let out = pair.directory.path().join("out");
    let out = out.to_str().unwrap();
    let receive = [
        "recv",
        "ipn:3.42",
        "--count",
        "1",
        "--out",
        out,
        "--timeout",
        "30s",
    ];
    assert_eq!(on(&gamma, &receive).code, 0);

    let links: Value = serde_json::from_str(&on_beta(&["links", "--json"]).stdout).unwrap();
    let shown = |at: usize| {
        (
            links["links"][at]["name"].clone(),
            links["links"][at]["origin"].clone(),
        )
    };
    assert_eq!(shown(0), (json!("alpha"), json!("configured")));
    assert_eq!(shown(1), (json!("gamma"), json!("added")));
    refused(
        &["link", "del", "gamma"],
        "the route to 'ipn:3.*' leads over link 'gamma'",
    );
    refused(&["link", "del", "alpha"], "leads over link 'alpha'");
    assert_eq!(on_beta(&[&["route", "del"][..], &route].concat()).code, 0);
    assert_eq!(on_beta(&["link", "del", "gamma"]).code, 0);
    refused(&["link", "up", "gamma"], "no link is named 'gamma'");
    // The name is free again, and the link that has it leads elsewhere.
    let again = [
        "link",
        "add",
        "gamma",
        &pair.alpha.address(),
        "--like",
        "alpha",
    ];
    assert_eq!(on_beta(&again).code, 0);
    let is_up = || on_beta(&["links"]).stdout.matches("ipn:1.0").count() >= 4;
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_up() {
        assert!(
            std::time::Instant::now() < until,
            "{}",
            on_beta(&["links"]).stdout
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn an_interrupted_command_exits_with_130_and_leaves_nothing_unfinished() {
    let pair = Pair::start();
    let out = pair.directory.path().join("out");
    let file = pair.file("content", b"hello");
    assert_eq!(on(&pair.alpha, &["send", "ipn:1.42", &file]).code, 0);
    let (receiver, lines) = receiver(
        &pair.alpha.socket(),
        &["ipn:1.42", "--out", out.to_str().unwrap()],
    );
    lines.json();
    assert_eq!(receiver.end(rustix::process::Signal::INT), Some(130));
    assert_eq!(names_in(&out).len(), 1);
}

/// The lines of `dhow perf --json`; the last one is the summary.
#[test]
fn a_list_that_is_made_again_and_again_ends_with_130() {
    let pair = Pair::start();
    let mut child = dhow(&[
        "neighbours",
        "--watch",
        "--json",
        "--node",
        &pair.beta.socket(),
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    assert!(lines.json().is_array());
    assert_eq!(Reaped(child).end(rustix::process::Signal::INT), Some(130));
}

fn measured(said: &Said) -> (Vec<Value>, Value) {
    let mut lines = json_lines(&said.stdout);
    let summary = lines.pop().expect("a summary");
    assert_eq!(summary["event"], "summary", "{}", said.stderr);
    assert!(lines.iter().all(|line| line["event"] == "interval"));
    (lines, summary)
}

#[test]
fn all_that_perf_sends_is_counted_at_the_other_node() {
    let pair = Pair::start();
    let perf = [
        "perf",
        "ipn:2.0",
        "--count",
        "2000",
        "--size",
        "1kB",
        "--streams",
        "2",
        "--interval",
        "200ms",
        "--timeout",
        "60s",
        "--json",
    ];
    let said = on(&pair.alpha, &perf);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let (intervals, summary) = measured(&said);
    let names: BTreeSet<&str> = summary
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        names,
        BTreeSet::from([
            "bundles_per_s",
            "delay_max_ms",
            "delay_mean_ms",
            "delay_min_ms",
            "destination",
            "ended",
            "event",
            "loss_percent",
            "lost",
            "mbit_per_s",
            "octets",
            "received",
            "received_s",
            "repeated",
            "resent",
            "sent",
            "sent_s",
            "service_restarts",
            "size_octets",
            "streams",
            "uncertain"
        ]),
        "the names are a contract"
    );
    for (name, value) in [
        ("ended", json!("complete")),
        ("destination", json!("ipn:2.5201")),
        ("sent", json!(2_000)),
        ("received", json!(2_000)),
        ("octets", json!(2_000_000)),
        ("lost", json!(0)),
        ("repeated", json!(0)),
        ("streams", json!(2)),
    ] {
        assert_eq!(summary[name], value, "{name}");
    }
    assert!(summary["mbit_per_s"].as_f64().unwrap() > 0.0);
    let received: u64 = intervals
        .iter()
        .map(|interval| interval["received"].as_u64().unwrap())
        .sum();
    assert_eq!(received, 2_000, "the intervals tell of all");

    let text = on(&pair.alpha, &["perf", "ipn:2.0", "--count", "10"]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    assert!(
        text.stdout
            .contains("10 bundles of 1.0 kB sent to ipn:2.5201")
            && text.stdout.contains("0 lost (0 %)"),
        "{}",
        text.stdout
    );
}

#[test]
fn perf_counts_right_over_a_link_that_is_closed_and_a_service_that_is_killed() {
    let Pair {
        alpha,
        beta,
        directory: _directory,
    } = Pair::start();
    // Beta dials: with it away the link is closed.
    let beta_directory = beta.kill();
    let mut child = dhow(&[
        "perf",
        "ipn:2.0",
        "--count",
        "2000",
        "--size",
        "1kB",
        "--interval",
        "200ms",
        "--timeout",
        "100s",
        "--json",
        "--node",
        &alpha.socket(),
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::inherit())
    .spawn()
    .unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    loop {
        let interval = lines.json();
        assert_eq!(
            (&interval["event"], &interval["received"]),
            (&json!("interval"), &json!(0))
        );
        if interval["outstanding"] == 2_000 {
            break;
        }
    }
    let beta = Node::start_again(&beta_directory);
    let mut received = 0;
    while received == 0 {
        received += lines.json()["received"].as_u64().unwrap();
    }
    let beta = Node::start_again(&beta.kill());
    let summary = loop {
        let line = lines.json();
        if line["event"] == "summary" {
            break line;
        }
    };
    assert_eq!(child.wait().unwrap().code(), Some(0), "{summary}");
    assert_eq!(
        (&summary["received"], &summary["lost"], &summary["repeated"]),
        (&json!(2_000), &json!(0), &json!(0)),
        "{summary}"
    );
    drop(beta);
}

#[test]
fn perf_says_when_nobody_answers_and_how_far_it_came_when_interrupted() {
    let pair = Pair::start();
    let said = on(
        &pair.alpha,
        &["perf", "ipn:9.0", "--count", "3", "--timeout", "1s"],
    );
    assert_eq!(said.code, 1);
    assert!(
        said.stderr
            .starts_with("error: no answer from ipn:9.5201 to 3 bundles within 1 s\nhint: "),
        "{}",
        said.stderr
    );
    let mut child = dhow(&[
        "perf",
        "ipn:2.0",
        "--duration",
        "1h",
        "--rate",
        "100",
        "--interval",
        "100ms",
        "--json",
        "--node",
        &pair.alpha.socket(),
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::inherit())
    .spawn()
    .unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    while lines.json()["received"] == 0 {}
    assert_eq!(Reaped(child).end(rustix::process::Signal::INT), Some(130));
    let mut last = Value::Null;
    while let Some(line) = lines.next() {
        last = serde_json::from_str(&line).unwrap();
    }
    assert_eq!(
        (&last["event"], &last["ended"]),
        (&json!("summary"), &json!("interrupted"))
    );
    assert!(last["received"].as_u64().unwrap() > 0);
}

#[test]
fn split_auto_finds_a_size_and_says_which() {
    let pair = Pair::start();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
    let file = pair.file("content", &content);
    let found = on(
        &pair.alpha,
        &["send", "ipn:2.42", &file, "--split", "auto", "--json"],
    );
    assert_eq!(found.code, 0, "{}", found.stderr);
    let lines = json_lines(&found.stdout);
    assert_eq!(lines[0]["event"], "split");
    let size = lines[0]["size_octets"].as_u64().unwrap();
    assert!(!lines[0]["trials"].as_array().unwrap().is_empty());
    let pieces = 1_200_000_u64.div_ceil(size);
    assert_eq!(u64::try_from(lines.len() - 1).unwrap(), pieces);

    let nobody = on(&pair.alpha, &["send", "ipn:9.42", &file, "--split", "auto"]);
    assert_eq!(nobody.code, 0, "{}", nobody.stderr);
    assert!(
        nobody
            .stderr
            .contains("no perf service answered; cutting into bundles of 100.0 kB"),
        "{}",
        nobody.stderr
    );
    assert!(
        nobody.stdout.starts_with("sent 12 bundles"),
        "{}",
        nobody.stdout
    );
}

#[test]
fn a_send_goes_on_when_its_node_is_back() {
    let pair = Pair::start();
    let file = pair.file("content", &[7; 1000]);
    let mut child = dhow(&[
        "send",
        "ipn:9.42",
        &file,
        "--count",
        "200000",
        "--json",
        "--node",
        &pair.alpha.socket(),
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    lines.next().expect("a bundle was taken");
    let Pair {
        alpha,
        beta: _beta,
        directory: _directory,
    } = pair;
    let alpha = Node::start_again(&alpha.kill());
    let mut sent = 1;
    while lines.next().is_some() {
        sent += 1;
    }
    let mut talk = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut talk)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{talk}");
    assert_eq!(sent, 200_000, "each is answered once");
    assert!(
        talk.starts_with(
            "note: the node is away, trying again\nnote: the node is back\nnote: the node was away;"
        ),
        "{talk}"
    );
    drop(alpha);
}

#[test]
fn a_node_shows_the_contacts_that_are_planned() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("alpha");
    fs::create_dir_all(&place).unwrap();
    let plan = "a contact +0 +86400 1 2 125000\na contact +90000 +99000 1 2 125000\na range +0 +99000 1 2 8\n";
    fs::write(place.join("plan.ionrc"), plan).unwrap();
    let contact = "[[contact]]\nfrom = \"ipn:3.0\"\nto = \"ipn:1.0\"\nstart = \"2026-01-01T00:00:00Z\"\nend = \"2026-01-01T00:10:00Z\"\nrate = \"8kbit\"\n";
    let plans = "[[contact_plan]]\nfile = \"plan.ionrc\"\n";
    let node = Node::start(&place, &format!("{ALPHA}{contact}{plans}"));
    let listed: Value = serde_json::from_str(&on(&node, &["contacts", "--json"]).stdout).unwrap();
    let seen: Vec<_> = listed.as_array().unwrap().iter().collect();
    let ways = seen.iter().map(|it| (&it["from"], &it["to"], &it["state"]));
    assert_eq!(
        ways.collect::<Vec<_>>(),
        [
            (&json!("ipn:1.0"), &json!("ipn:2.0"), &json!("now")),
            (&json!("ipn:1.0"), &json!("ipn:2.0"), &json!("next")),
            (&json!("ipn:3.0"), &json!("ipn:1.0"), &json!("over")),
        ]
    );
    let keys = seen[2].as_object().unwrap().keys().map(String::as_str);
    assert_eq!(
        keys.collect::<BTreeSet<_>>(),
        [
            "end_dtn_ms",
            "from",
            "light_time_ms",
            "octets_per_s",
            "start_dtn_ms",
            "state",
            "to"
        ]
        .into()
    );
    let length =
        |it: &Value| it["end_dtn_ms"].as_u64().unwrap() - it["start_dtn_ms"].as_u64().unwrap();
    assert_eq!((length(seen[0]), length(seen[2])), (86_400_000, 600_000));
    assert_eq!(
        (&seen[0]["light_time_ms"], &seen[0]["octets_per_s"]),
        (&json!(8_000), &json!(125_000))
    );
    let text = on(&node, &["contacts"]).stdout;
    let over = text.lines().find(|line| line.contains("over")).unwrap();
    for word in ["ipn:3.0", "2026-01-01 00:10:00.000 UTC", "8.00 kbit/s"] {
        assert!(over.contains(word), "{over}");
    }
}

#[test]
fn a_contact_plan_that_contradicts_itself_is_refused_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let plan = "a contact +0 +10 1 2 5\n\na contact +9 +20 1 2 5\n";
    fs::write(directory.path().join("plan"), plan).unwrap();
    let file = directory.path().join("node.toml");
    fs::write(&file, format!("{ALPHA}[[contact_plan]]\nfile = \"plan\"\n")).unwrap();
    for command in [&["node", "config"][..], &["node", "run", "--config"]] {
        let said = run(&[command, &[file.to_str().unwrap()]].concat());
        assert_eq!(said.code, 2, "{}", said.stderr);
        let what = "plan:3: the contact from ipn:1.0 to ipn:2.0 overlaps that of line 1\nhint: ";
        assert!(said.stderr.contains(what), "{}", said.stderr);
    }
}
