//! The client against the node's own session machine, over real sockets.
#![allow(
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where it is wrong"
)]

mod node;

use std::io::{Cursor, Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use dhow_client::{Address, Client, Error, Registration, SendHead};
use dhow_node::api::seam::SendRequest;
use dhow_node::api::wire::{STATUS_INVALID_REQUEST, STATUS_UNAUTHORIZED};
use node::{Node, creation};

fn registration() -> Registration {
    Registration::new("ipn:2.42".parse().unwrap())
}

fn head() -> SendHead {
    SendHead::to("ipn:4.42".parse().unwrap())
        .with_lifetime(Duration::from_secs(60))
        .with_flags(0x2_0000)
}

/// Octets that differ along their length.
fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|position| (position * 31 % 251) as u8)
        .collect()
}

#[test]
fn bundles_of_all_sizes_are_sent_and_received_whole() {
    let lengths = [0, 1, 45, 20_000, 65_536, 300_000, 3_000_000];
    for mut node in [Node::on_tcp(2), Node::on_unix("sizes", 2)] {
        let client = Client::connect(&node.address).unwrap();
        assert_eq!(client.node_id().to_string(), "ipn:2.0");
        assert_eq!(client.extensions(), 1);
        let mut sender = client.sender(&registration()).unwrap();
        for length in lengths {
            sender
                .send(&head(), Cursor::new(pattern(length)), length as u64)
                .unwrap();
        }
        for number in 0..lengths.len() {
            let answer = sender.next_answer(None).unwrap().unwrap();
            assert_eq!(answer.ticket.0, number as u64);
            let created = answer.outcome.unwrap();
            assert_eq!(created.creation, creation(number as u64));
            assert_eq!(created.lifetime_ms, 60_000);
        }
        assert_eq!(
            sender.next_answer(None).unwrap(),
            None,
            "nothing is unanswered"
        );
        drop(sender);

        let client = Client::connect(&node.address).unwrap();
        let mut receiver = client.receiver(&registration().with_window(3)).unwrap();
        for length in lengths {
            let mut delivery = receiver.next_delivery(None).unwrap().unwrap();
            assert_eq!(delivery.head().payload_octets, length as u64);
            assert_eq!(delivery.head().flags, 0x2_0000);
            assert_eq!(delivery.head().lifetime_ms, 60_000);
            let mut payload = Vec::new();
            delivery.read_to_end(&mut payload).unwrap();
            assert!(payload == pattern(length), "payload of {length} octets");
            delivery.confirm().unwrap();
        }
        receiver.finish().unwrap();
        node.join();
        assert_eq!(node.shared.lock().unwrap().confirmed.len(), lengths.len());
    }
}

#[test]
fn many_small_bundles_are_answered_in_order_without_asking_between() {
    let mut node = Node::on_unix("many", 1);
    let mut sender = Client::connect(&node.address)
        .unwrap()
        .sender(&registration())
        .unwrap();
    let count = 20_000;
    for number in 0..count {
        let ticket = sender
            .send_octets(&head(), &u64::to_be_bytes(number))
            .unwrap();
        assert_eq!(ticket.0, number);
    }
    for number in 0..count {
        assert_eq!(sender.next_answer(None).unwrap().unwrap().ticket.0, number);
    }
    drop(sender);
    node.join();
    let shared = node.shared.lock().unwrap();
    let in_order = shared
        .stored
        .iter()
        .enumerate()
        .all(|(n, (_, p))| *p == (n as u64).to_be_bytes());
    assert!(in_order && shared.stored.len() == count as usize);
}

#[test]
fn unread_payload_is_skipped_and_a_declined_delivery_is_told() {
    let mut node = Node::on_tcp(1);
    let bundle = |payload: Vec<u8>| {
        let send = SendRequest {
            version: dhow_bundle::Version::V7,
            source: None,
            destination: "ipn:2.42".parse().unwrap(),
            report_to: None,
            lifetime_ms: 1,
            flags: 0,
            priority: None,
            aggregated_reports: false,
            payload_octets: payload.len() as u64,
        };
        (send, payload)
    };
    node.shared.lock().unwrap().stored = vec![
        bundle(pattern(500_000)),
        bundle(pattern(10)),
        bundle(pattern(70_000)),
    ];
    let client = Client::connect(&node.address).unwrap();
    let mut receiver = client.receiver(&registration().with_window(8)).unwrap();
    let mut first = receiver.next_delivery(None).unwrap().unwrap();
    first.read_exact(&mut [0; 1000]).unwrap();
    assert_eq!(first.unread(), 499_000);
    let first = first.receipt();
    let second = receiver.next_delivery(None).unwrap().unwrap().receipt();
    receiver
        .next_delivery(None)
        .unwrap()
        .unwrap()
        .decline()
        .unwrap();
    assert!(
        receiver
            .next_delivery(Some(Duration::ZERO))
            .unwrap()
            .is_none(),
        "nothing more is there"
    );
    receiver.confirm(second).unwrap();
    receiver.confirm(first).unwrap();
    receiver.finish().unwrap();
    node.join();
    let shared = node.shared.lock().unwrap();
    assert_eq!(
        (&shared.confirmed[..], &shared.declined[..]),
        (&[1, 0][..], &[2][..])
    );
}

#[test]
fn refusals_and_losses_are_told_apart() {
    let missing = Address::Unix("/nonexistent/dhow.sock".into());
    let error = Client::connect(&missing).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && error.is_lost());
    assert!(
        error
            .to_string()
            .starts_with("nobody answers at /nonexistent/dhow.sock: "),
        "{error}"
    );

    let node = Node::on_tcp(3);
    let wrong = registration().with_secret("wrong");
    let error = Client::connect(&node.address)
        .unwrap()
        .sender(&wrong)
        .unwrap_err();
    assert!(!error.is_lost());
    assert_eq!(error.to_string(), "ipn:2.42 is held with another secret");
    assert!(matches!(error, Error::Refused(refusal) if refusal.status == STATUS_UNAUTHORIZED));

    let mut sender = Client::connect(&node.address)
        .unwrap()
        .sender(&registration())
        .unwrap();
    sender
        .send_octets(&head().with_flags(0x1), b"a fragment?")
        .unwrap();
    let refusal = sender
        .next_answer(None)
        .unwrap()
        .unwrap()
        .outcome
        .unwrap_err();
    assert_eq!(refusal.status, STATUS_INVALID_REQUEST);
    let error = sender.send(&head(), Cursor::new(b"short"), 6).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the payload ended 1 octets before its announced length of 6",
    );
    drop(sender);

    let mut sender = Client::connect(&node.address)
        .unwrap()
        .sender(&registration())
        .unwrap();
    let error = sender
        .send(&head(), std::io::empty(), u64::MAX)
        .unwrap_err();
    assert!(matches!(error, Error::PayloadShort { .. }));
    let answer = sender.next_answer(None).unwrap().unwrap();
    assert!(
        answer.outcome.unwrap_err().message.contains("longer than"),
        "the node says why it closes"
    );
}

#[test]
fn node_that_goes_away_in_a_payload_is_an_unexpected_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap().to_string());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let welcome = b"\x2f\x0b\x0a\x09\x0a\x07ipn:2.0\x02\x08\x01";
        stream.write_all(welcome).unwrap();
        // An adu of 100 octets from ipn:1.1 to ipn:2.42, and five of them.
        stream
            .write_all(b"\x17\x1a\x15\x0a\x07ipn:1.1\x12\x08ipn:2.42\x28\x64hello")
            .unwrap();
        let mut config = [0; 64];
        assert!(stream.read(&mut config).unwrap() > 0);
    });
    let client = Client::connect(&address).unwrap();
    assert_eq!(client.extensions(), 0, "a node that knows no extensions");
    let mut receiver = client.receiver(&registration()).unwrap();
    let mut delivery = receiver.next_delivery(None).unwrap().unwrap();
    let mut payload = Vec::new();
    let error = delivery.read_to_end(&mut payload).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(payload, b"hello");
    assert!(receiver.next_delivery(None).unwrap_err().is_lost());
    thread.join().unwrap();
}
