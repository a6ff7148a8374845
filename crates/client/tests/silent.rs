//! Nodes that are there and say nothing: every call ends that waits for one.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where it is wrong"
)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use dhow_client::{Address, Client, Error, Registration, SendHead, Sender};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

/// A healthy node would answer sooner, and the test waits no longer than it must.
const PATIENCE: Duration = Duration::from_millis(200);

/// The greeting of ipn:2.0, and its answer to a registration.
const WELCOME: &[u8] = b"\x2f\x0b\x0a\x09\x0a\x07ipn:2.0\x02\x08\x01";

/// A delivery of 100 octets from ipn:1.1 to ipn:2.42, and five of them.
const BEGUN: &[u8] = b"\x17\x1a\x15\x0a\x07ipn:1.1\x12\x08ipn:2.42\x28\x64hello";

/// A listener that says some octets to the first client that comes.
struct Mute {
    listener: TcpListener,
    address: Address,
}

impl Mute {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap().to_string());
        Self { listener, address }
    }

    /// A client that is connected, and the other end, which reads nothing unless the test does.
    fn client(&self) -> (Client, TcpStream) {
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| {
                let (mut stream, _) = self.listener.accept().unwrap();
                stream.write_all(WELCOME).unwrap();
                stream
            });
            let client = Client::connect(&self.address).unwrap();
            let client = client.with_patience(PATIENCE).unwrap();
            (client, accepted.join().unwrap())
        })
    }

    fn sender(&self) -> (Sender, TcpStream) {
        let (client, stream) = self.client();
        (client.sender(&registration()).unwrap(), stream)
    }
}

fn registration() -> Registration {
    Registration::new("ipn:2.42".parse().unwrap())
}

fn head() -> SendHead {
    SendHead::to("ipn:4.42".parse().unwrap())
}

fn is_silent(error: &Error) -> bool {
    matches!(error, Error::Silent(PATIENCE)) && error.is_lost()
}

#[test]
fn a_node_that_does_not_greet_is_silent() {
    let mute = Mute::new();
    let error = Client::connect_within(&mute.address, PATIENCE).unwrap_err();
    assert!(is_silent(&error), "{error}");
    assert_eq!(error.to_string(), "the node did not answer within 200 ms");
}

#[test]
fn a_node_that_accepts_nobody_is_silent() {
    let directory = std::env::temp_dir().join(format!("dhow-silent-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("socket");
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    // One connection waits for its acceptance, and all others for a place to wait at.
    rustix::net::listen(&listener, 0).unwrap();
    let _first = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let error = Client::connect_within(&Address::Unix(path), PATIENCE).unwrap_err();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(is_silent(&error), "{error}");
}

#[test]
fn a_node_that_stops_within_a_payload_is_silent() {
    let mute = Mute::new();
    let (client, mut stream) = mute.client();
    let mut receiver = client.receiver(&registration()).unwrap();
    stream.write_all(BEGUN).unwrap();
    let mut delivery = receiver.next_delivery(None).unwrap().unwrap();
    let mut payload = Vec::new();
    let error = delivery.read_to_end(&mut payload).unwrap_err();
    assert_eq!(payload, b"hello");
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    // The rest of it cannot be skipped either.
    assert!(is_silent(&receiver.next_delivery(None).unwrap_err()));
}

#[test]
fn a_node_that_takes_no_octets_is_silent() {
    let mute = Mute::new();
    let (mut sender, _stream) = mute.sender();
    let endless = std::io::repeat(7);
    let error = sender.send(&head(), endless, u64::MAX).unwrap_err();
    assert!(is_silent(&error), "{error}");
}

#[test]
fn a_node_that_takes_requests_and_answers_none_is_silent() {
    let mute = Mute::new();
    let (mut sender, _stream) = mute.sender();
    sender.send_octets(&head(), b"one").unwrap();
    assert!(is_silent(&sender.next_answer(None).unwrap_err()));
    // A client that waits in small steps is told, too.
    let (mut sender, _stream) = mute.sender();
    sender.send_octets(&head(), b"one").unwrap();
    let step = Some(Duration::from_millis(1));
    let error = loop {
        match sender.next_answer(step) {
            Ok(answer) => assert_eq!(answer, None),
            Err(error) => break error,
        }
    };
    assert!(is_silent(&error), "{error}");
}

#[test]
fn more_requests_than_may_be_unanswered_wait_for_an_answer_and_not_for_ever() {
    let mute = Mute::new();
    let (mut sender, mut stream) = mute.sender();
    let reader = std::thread::spawn(move || {
        let mut octets = [0; 65_536];
        while stream.read(&mut octets).is_ok_and(|octets| octets > 0) {}
    });
    let error = loop {
        if let Err(error) = sender.send_octets(&head(), b"small") {
            break error;
        }
    };
    assert!(is_silent(&error), "{error}");
    drop(sender);
    reader.join().unwrap();
}
