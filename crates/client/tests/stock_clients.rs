//! The stock Python commands, unchanged, against the node's session machine over a Unix socket.
#![allow(
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    reason = "a test stops where it is wrong, and uses a part of the test node"
)]

mod node;

use std::process::{Command, Output};

use dhow_client::Address;
use node::Node;

fn is_installed() -> bool {
    let probe = Command::new("python3")
        .args(["-c", "import ud3tn_utils.aap2"])
        .output();
    let installed = probe.is_ok_and(|probe| probe.status.success());
    if !installed {
        eprintln!("skipped: the Python package ud3tn-utils is not installed");
    }
    installed
}

fn run(command: &str, node: &Node, arguments: &[&str]) -> Output {
    let Address::Unix(path) = &node.address else {
        panic!("a Unix socket")
    };
    let output = Command::new("python3")
        .args(["-m", &format!("ud3tn_utils.aap2.bin.{command}"), "--socket"])
        .arg(path)
        .args(arguments)
        .output()
        .unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {arguments:?}: {talk}");
    output
}

#[test]
fn bundles_are_sent_and_received_by_the_stock_commands() {
    if !is_installed() {
        return;
    }
    let mut node = Node::on_unix("stock", 3);
    run(
        "aap2_send",
        &node,
        &["-a", "42", "ipn:4.42", "one from a stock client"],
    );
    run(
        "aap2_send",
        &node,
        &[
            "-a",
            "42",
            "-r",
            "ipn:2.43",
            "ipn:4.42",
            "two, with a report",
        ],
    );
    let received = run("aap2_receive", &node, &["-a", "7", "-c", "2", "--newline"]);
    assert_eq!(
        String::from_utf8(received.stdout).unwrap(),
        "one from a stock client\ntwo, with a report\n",
    );
    node.join();
    let shared = node.shared.lock().unwrap();
    let flags: Vec<u64> = shared.stored.iter().map(|(send, _)| send.flags).collect();
    assert_eq!(
        flags,
        [0, 0x2_0000],
        "who says where reports go wants to hear of the delivery"
    );
    assert_eq!(shared.confirmed, [0, 1]);
}

#[test]
fn payload_of_8000_octets_reaches_the_stock_receiver_whole() {
    if !is_installed() {
        return;
    }
    let mut node = Node::on_unix("stock-8000", 2);
    let payload = "0123456789abcdef".repeat(500);
    run("aap2_send", &node, &["-a", "42", "ipn:4.42", &payload]);
    let arguments = ["-a", "7", "-c", "1", "-k", "60", "--verify-pl", &payload];
    assert_eq!(
        run("aap2_receive", &node, &arguments).stdout,
        payload.as_bytes()
    );
    node.join();
}
