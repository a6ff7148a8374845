//! The client against the node's own session machine, over real sockets.
#![allow(
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where it is wrong"
)]

use std::io::{Cursor, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId, NodeId, Now};
use dhow_client::{Address, Client, DeliveryHead, Error, Registration, SendHead};
use dhow_link::Gather;
use dhow_node::api::ClientSession;
use dhow_node::api::seam::{
    ApiRefusal, ClientCommand, ClientEvent, DeliveryId, SendRequest, Subscribes,
};
use dhow_node::api::wire::{STATUS_INVALID_REQUEST, STATUS_UNAUTHORIZED};

/// What the node of these tests knows.
#[derive(Default)]
struct Shared {
    stored: Vec<(SendRequest, Vec<u8>)>,
    confirmed: Vec<u64>,
    declined: Vec<u64>,
}

/// One connection's node side: takes every send, delivers everything stored to who subscribes.
struct Server<S> {
    stream: S,
    session: ClientSession,
    shared: Arc<Mutex<Shared>>,
    arriving: Vec<(SendRequest, Vec<u8>)>,
    open: bool,
}

impl<S: Read + Write> Server<S> {
    fn serve(stream: S, shared: Arc<Mutex<Shared>>) {
        let node_id = NodeId::new("ipn:2.0".parse().unwrap()).unwrap();
        let session = ClientSession::new(node_id);
        let mut server = Self {
            stream,
            session,
            shared,
            arriving: Vec::new(),
            open: true,
        };
        let mut room = vec![0_u8; 100_000];
        server.write();
        while server.open {
            let octets = server.stream.read(&mut room).unwrap_or(0);
            if octets == 0 {
                break;
            }
            server
                .session
                .handle_octets(Now::default(), Bytes::copy_from_slice(&room[..octets]));
            while let Some(event) = server.session.poll_event() {
                server.hear(event);
            }
            server.write();
        }
    }

    fn write(&mut self) {
        loop {
            let mut out = Gather::new();
            self.session.poll_octets(Now::default(), 65_536, &mut out);
            for piece in out.pieces() {
                let Piece::Octets(octets) = piece else {
                    panic!("nothing lies in a log here")
                };
                if self.stream.write_all(octets).is_err() {
                    self.open = false;
                }
            }
            if out.is_empty() || !self.open {
                return;
            }
        }
    }

    fn hear(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Configure(configure) => {
                let outcome = if configure.secret == "wrong" {
                    Err(ApiRefusal::Unauthorized(
                        "ipn:2.42 is held with another secret".into(),
                    ))
                } else {
                    Ok(())
                };
                self.session
                    .handle_command(Now::default(), ClientCommand::Configured(outcome));
                if configure.subscribes == Subscribes::Yes {
                    self.deliver();
                }
            }
            ClientEvent::Send { request, send } => {
                assert_eq!(request.0 as usize, self.arriving.len());
                self.arriving.push((send, Vec::new()));
            }
            ClientEvent::Payload {
                request,
                octets,
                end,
            } => {
                self.arriving[request.0 as usize]
                    .1
                    .extend_from_slice(&octets);
                if end {
                    let bundle = self.arriving[request.0 as usize].clone();
                    self.shared.lock().unwrap().stored.push(bundle);
                    let outcome = Ok(("ipn:2.42".parse().unwrap(), creation(request.0)));
                    self.session
                        .handle_command(Now::default(), ClientCommand::Sent { request, outcome });
                }
            }
            ClientEvent::Confirmed(delivery) => {
                self.shared.lock().unwrap().confirmed.push(delivery.0)
            }
            ClientEvent::Declined(delivery) => {
                self.shared.lock().unwrap().declined.push(delivery.0)
            }
            ClientEvent::Close(_) => self.open = false,
        }
    }

    fn deliver(&mut self) {
        let stored = self.shared.lock().unwrap().stored.clone();
        for (number, (send, payload)) in stored.into_iter().enumerate() {
            let head = DeliveryHead {
                id: BundleId {
                    source: "ipn:2.42".parse().unwrap(),
                    creation: creation(number as u64),
                    fragment: None,
                },
                destination: send.destination,
                report_to: send.report_to.unwrap_or(EndpointId::Null),
                flags: send.flags,
                lifetime_ms: send.lifetime_ms,
                payload_octets: payload.len() as u64,
            };
            let payload = vec![Piece::Octets(payload.into())];
            let delivery = DeliveryId(number as u64);
            self.session.handle_command(
                Now::default(),
                ClientCommand::Deliver {
                    delivery,
                    head,
                    payload,
                },
            );
        }
    }
}

fn creation(sequence: u64) -> CreationTimestamp {
    CreationTimestamp {
        time: DtnTime::from_millis(848_000_000_000),
        sequence,
    }
}

/// A node that serves a number of connections, one after another.
struct Node {
    address: Address,
    shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<()>>,
    path: Option<PathBuf>,
}

impl Node {
    fn on_tcp(connections: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap().to_string());
        let shared = Arc::default();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for _ in 0..connections {
                Server::serve(listener.accept().unwrap().0, Arc::clone(&theirs));
            }
        });
        Self {
            address,
            shared,
            thread: Some(thread),
            path: None,
        }
    }

    fn on_unix(name: &str, connections: usize) -> Self {
        let path = std::env::temp_dir().join(format!("dhow-client-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let shared = Arc::default();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for _ in 0..connections {
                Server::serve(listener.accept().unwrap().0, Arc::clone(&theirs));
            }
        });
        let address = Address::Unix(path.clone());
        Self {
            address,
            shared,
            thread: Some(thread),
            path: Some(path),
        }
    }

    fn join(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

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
            source: None,
            destination: "ipn:2.42".parse().unwrap(),
            report_to: None,
            lifetime_ms: 1,
            flags: 0,
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
