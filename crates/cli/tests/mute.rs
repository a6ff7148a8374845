//! A node whose process stands still: every command that asks it ends within its timeout, and says why.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what fails by failing"
)]

mod program;

use std::process::Stdio;

use program::node::{Lines, Node, Reaped};
use program::{Said, dhow, run};
use rustix::process::Signal;

const ALPHA: &str = r#"
[node]
id = "ipn:1.0"
[store]
path = "store"
durability = "os"
quota = "64MiB"
[api]
socket = "dhow.sock"
"#;

fn on(node: &Node, arguments: &[&str]) -> Said {
    run(&[arguments, &["--node", &node.socket()]].concat())
}

#[test]
fn commands_end_within_their_timeout_where_the_node_does_not_answer() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let node = Node::start(&directory.path().join("alpha"), ALPHA);
    node.signal(Signal::STOP);
    let commands: [&[&str]; 4] = [
        &["recv", "ipn:1.42", "--timeout", "1s", "--out", out],
        &["ping", "ipn:1.7", "--timeout", "1s"],
        &["perf", "ipn:1.0", "--timeout", "1s"],
        &["trace", "ipn:1.42", "--timeout", "1s"],
    ];
    for command in commands {
        let said = on(&node, command);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{command:?}");
        let reason = "error: cannot reach the node: the node did not answer within 1 s\nhint: ";
        assert!(said.stderr.starts_with(reason), "{}", said.stderr);
    }
    node.signal(Signal::CONT);
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn commands_under_way_end_within_their_timeout_when_the_node_stops() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let node = Node::start(&directory.path().join("alpha"), ALPHA);
    let commands: [&[&str]; 3] = [
        &["recv", "ipn:1.42", "--timeout", "2s", "--out", out],
        &[
            "perf",
            "ipn:1.0",
            "--timeout",
            "2s",
            "--interval",
            "100ms",
            "--duration",
            "1h",
            "--json",
        ],
        &[
            "ping",
            "ipn:1.7",
            "--timeout",
            "2s",
            "--interval",
            "100ms",
            "--count",
            "10",
            "--json",
        ],
    ];
    for command in commands {
        let mut child = dhow(&[command, &["--node", &node.socket()]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        let mut child = Reaped(child);
        if command[0] == "recv" {
            while !on(&node, &["registrations", "--json"])
                .stdout
                .contains("ipn:1.42")
            {}
        } else {
            lines.next().expect("it has begun");
        }
        node.signal(Signal::STOP);
        let code = child.0.wait().unwrap().code();
        node.signal(Signal::CONT);
        // Of a ping, something came back before.
        let is_done = command[0] == "ping" || command[0] == "recv";
        assert_eq!(code, Some(if is_done { 0 } else { 1 }), "{command:?}");
    }
    assert_eq!(node.terminate(), Some(0));
}
