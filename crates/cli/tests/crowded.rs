//! A node that may open few files, and strangers who want all of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what fails by failing"
)]

mod program;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use program::node::Node;
use program::{Said, run};
use serde_json::Value;

const NODE: &str = r#"
[node]
id = "ipn:1.0"
[store]
durability = "os"
quota = "64MiB"
[admin]
tcp = "127.0.0.1:0"
token = "a-secret-of-operators"
[[listen]]
address = "127.0.0.1:0"
[[link]]
name = "nobody"
address = "127.0.0.1:9"
"#;

/// Half the time that the node gives half a request: a client that has it waits for no stranger's.
const OPERATORS_PATIENCE: Duration = Duration::from_secs(5);

fn on(node: &Node, arguments: &[&str]) -> Said {
    let said = run(&[arguments, &["--node", &node.socket()]].concat());
    assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
    said
}

fn shown(node: &Node) -> Value {
    serde_json::from_str(&on(node, &["status", "--json"]).stdout).unwrap()
}

/// The page of metrics, as an operator's browser reads it.
fn page(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(OPERATORS_PATIENCE)).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nhost: dhow\r\nconnection: close\r\n\
                   authorization: Bearer a-secret-of-operators\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the page comes");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

fn crowd(address: &str, count: usize, says: &[u8]) -> Vec<TcpStream> {
    let strangers = (0..count).map(|_| {
        let mut stream = TcpStream::connect(address).unwrap();
        // The node may have cut it already.
        let _ = stream.write_all(says);
        stream
    });
    strangers.collect()
}

#[test]
fn silent_neighbours_and_half_requests_leave_operators_and_applications_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let under = ["prlimit", "--nofile=64:64"];
    let node = Node::start_under(&under, directory.path(), NODE);
    let admin = shown(&node)["admin_tcp"][0].as_str().unwrap().to_owned();
    let silent = crowd(&node.address(), 44, b"");
    let half = crowd(&admin, 190, b"GET /v1/node HTTP/1.1\r\nhost: dh");
    let idle = (0..20).map(|_| std::os::unix::net::UnixStream::connect(node.socket()));
    let idle: Vec<_> = idle.map(Result::unwrap).collect();
    for _ in 0..3 {
        assert!(page(&admin).contains("dhow_"));
        assert_eq!(shown(&node)["node_id"], "ipn:1.0");
        on(&node, &["links"]);
        let payload = directory.path().join("payload");
        std::fs::write(&payload, b"payload").unwrap();
        on(&node, &["send", "ipn:1.42", payload.to_str().unwrap()]);
        let inbox = directory.path().join("inbox");
        let inbox = inbox.to_str().unwrap();
        on(&node, &["recv", "ipn:1.42", "--count", "1", "--out", inbox]);
    }
    // It is told, and counted: not a line for each.
    let logged = node.logged();
    assert!(logged.lines().count() < 40, "{logged}");
    assert!(logged.contains("few open files are allowed"), "{logged}");
    let held_back = shown(&node)["connections"]["held_back"].as_u64().unwrap();
    assert!(held_back > 20, "{held_back}");
    drop((silent, half, idle));
    assert_eq!(node.terminate(), Some(0));
}

/// With as many files as anybody wants, too.
#[test]
fn half_requests_keep_no_operator_out() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(directory.path(), NODE);
    let admin = shown(&node)["admin_tcp"][0].as_str().unwrap().to_owned();
    let half = crowd(&admin, 190, b"GET /v1/node HTTP/1.1\r\nhost: dh");
    assert!(page(&admin).contains("dhow_"));
    // Those who know no token are no operators.
    let wrong = b"GET /v1/node HTTP/1.1\r\nhost: dhow\r\nauthorization: Bearer x\r\n\r\n";
    let others = crowd(&admin, 190, wrong);
    assert!(page(&admin).contains("dhow_"));
    drop((half, others));
    assert_eq!(node.terminate(), Some(0));
}
