//! Conversations over sockets of the system: what a driver does, and that it is enough.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it finds something else than expected"
)]

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{Instant, Now};
use dhow_link::datagram::Limit;
use dhow_link::stream::TransferId;
use dhow_link::udpcl::{Config, Conversation, Peer, Rate};
use dhow_link::{Batch, DatagramEvent, DatagramLink, LinkCommand};

/// A node's store: a bundle of so many octets that it reads extents of.
const STORED: usize = 1_000_000;

/// One call's worth: little enough for the buffer of any socket.
const LIMIT: Limit = Limit {
    datagrams: 16,
    octets: 50_000,
};

/// One side: a socket, a conversation and what came.
struct Side {
    socket: UdpSocket,
    conversation: Conversation,
    store: Bytes,
    arrived: BytesMut,
    events: Vec<DatagramEvent>,
}

impl Side {
    fn new(socket: UdpSocket, now: Now) -> Self {
        socket.set_nonblocking(true).unwrap();
        let config = Config {
            peer: Peer::Known("ipn:9.0".parse().unwrap()),
            rate: Rate {
                octets_per_s: 10_000_000,
                burst_octets: 50_000,
            },
            ..Config::default()
        };
        let octets = (0..STORED).map(|at| if at == 0 { 0x9f } else { at.to_le_bytes()[1] });
        Self {
            socket,
            conversation: Conversation::new(config, 7, now),
            store: octets.collect(),
            arrived: BytesMut::new(),
            events: Vec::new(),
        }
    }

    /// A driver's turn: send, receive, take events.
    fn turn(&mut self, now: Now) {
        self.conversation.handle_timeout(now);
        let mut batch = Batch::new();
        self.conversation.poll_datagrams(now, LIMIT, &mut batch);
        for datagram in batch.datagrams() {
            let octets = datagram.iter().flat_map(|piece| self.read(piece));
            self.socket.send(&octets.collect::<Vec<u8>>()).unwrap();
            self.conversation.handle_left(now, 1);
        }
        let mut datagrams = Vec::new();
        let mut buffer = [0; 65_536];
        loop {
            match self.socket.recv(&mut buffer) {
                Ok(length) => datagrams.push(Bytes::copy_from_slice(buffer.get(..length).unwrap())),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        self.conversation.handle_datagrams(now, &datagrams);
        self.events
            .extend(core::iter::from_fn(|| self.conversation.poll_event()));
    }

    fn read(&self, piece: &Piece) -> Bytes {
        match piece {
            Piece::Octets(octets) => octets.clone(),
            Piece::Extent(Extent { offset, length }) => {
                let start = usize::try_from(*offset).unwrap();
                self.store
                    .slice(start..start + usize::try_from(*length).unwrap())
            }
        }
    }
}

#[test]
fn a_stored_bundle_passes_from_socket_to_socket() {
    let mut now = Now::default();
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [first, second] = sockets;
    first.connect(second.local_addr().unwrap()).unwrap();
    second.connect(first.local_addr().unwrap()).unwrap();
    let (mut first, mut second) = (Side::new(first, now), Side::new(second, now));
    let transfer = TransferId(0);
    let length = u64::try_from(STORED).unwrap();
    first
        .conversation
        .handle_command(now, LinkCommand::Transmit { transfer, length });
    let octets = Piece::Extent(Extent { offset: 0, length });
    first
        .conversation
        .handle_command(now, LinkCommand::Supply { transfer, octets });
    // Time goes on with each turn: loopback delivers before send returns.
    let mut turns = 0;
    while !matches!(second.events.last(), Some(DatagramEvent::Complete { .. })) {
        turns += 1;
        assert!(turns < 10_000, "the bundle does not arrive");
        now.monotonic = now.monotonic + Duration::from_millis(1);
        first.turn(now);
        second.turn(now);
    }
    assert!(matches!(
        first.events.last(),
        Some(DatagramEvent::Sent { .. })
    ));
    for event in &second.events {
        if let DatagramEvent::Piece { offset, octets, .. } = event {
            let arrived = u64::try_from(second.arrived.len()).unwrap();
            assert_eq!(*offset, arrived, "loopback keeps the order");
            second.arrived.extend_from_slice(octets);
        }
    }
    assert!(second.arrived == first.store);
    // 50,000 octets at once, then 10,000 a millisecond.
    assert!(now.monotonic.since(Instant::START) >= Duration::from_millis(95));
}
