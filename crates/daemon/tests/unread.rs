//! Answers that operators ask for and do not read, and the memory that they take: a process of its own, so that nothing else is
//! measured.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod rig;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use dhow_client::{Address, Client, Registration, SendHead};
use rig::Place;

/// Bundles stored, and operators that ask for all of them: together some 60 MB of JSON.
const BUNDLES: usize = 5_000;
const ASKERS: usize = 40;

/// Octets that the answers may take together: two pieces of 32 KiB for each, and what allocators and sockets need.
const TAKEN_MAX: usize = 16 << 20;

/// Octets of memory that this process, the node in it included, has in use.
fn resident_octets() -> usize {
    let told = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = told
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn answers_that_nobody_reads_take_little_memory() {
    let place = Place::new();
    let node = place.node("ipn:1.0").start();
    let registration = Registration::new("ipn:1.5".parse().unwrap());
    let mut sender = Client::connect(&Address::Unix(rig::api(&node)))
        .unwrap()
        .sender(&registration)
        .unwrap();
    for _ in 0..BUNDLES {
        let head = SendHead::to("ipn:9.1".parse().unwrap());
        sender.send_octets(&head, b"payload").unwrap();
    }
    while let Some(answer) = sender.next_answer(None).unwrap() {
        answer.outcome.unwrap();
    }
    let before = resident_octets();
    let askers: Vec<UnixStream> = (0..ASKERS)
        .map(|_| {
            let socket = rig::api(&node).with_extension("sock.admin");
            let mut asker = UnixStream::connect(socket).unwrap();
            let ask = b"GET /v1/bundles?limit=1000000 HTTP/1.1\r\nhost: dhow\r\n\r\n";
            asker.write_all(ask).unwrap();
            // Its first octet says that the answer has begun.
            asker.read_exact(&mut [0]).unwrap();
            asker
        })
        .collect();
    let taken = resident_octets().saturating_sub(before);
    assert!(taken < TAKEN_MAX, "{taken} octets");
    // Other operators are answered all the same.
    assert_eq!(node.admin("GET", "/v1/node", "").0, 200);
    drop(askers);
}
