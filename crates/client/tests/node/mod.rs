//! A node that takes every bundle and delivers all of them to subscribers, over real sockets.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId, NodeId, Now};
use dhow_client::{Address, DeliveryHead};
use dhow_link::Gather;
use dhow_node::api::ClientSession;
use dhow_node::api::seam::{
    ApiRefusal, ClientCommand, ClientEvent, DeliveryId, SendRequest, Subscribes,
};

/// The record that the test node keeps of its bundles and answers.
#[derive(Default)]
pub struct Shared {
    pub stored: Vec<(SendRequest, Vec<u8>)>,
    pub confirmed: Vec<u64>,
    pub declined: Vec<u64>,
}

/// One connection's node side: takes every send, delivers everything stored to subscribers.
struct Server<S> {
    stream: S,
    session: ClientSession,
    pub shared: Arc<Mutex<Shared>>,
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
                version: dhow_bundle::Version::V7,
                id: BundleId {
                    source: "ipn:2.42".parse().unwrap(),
                    creation: creation(number as u64),
                    fragment: None,
                },
                destination: send.destination,
                report_to: send.report_to.unwrap_or(EndpointId::Null),
                flags: send.flags,
                priority: send.priority.unwrap_or_default(),
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

pub fn creation(sequence: u64) -> CreationTimestamp {
    CreationTimestamp {
        time: DtnTime::from_millis(848_000_000_000),
        sequence,
    }
}

/// A node that serves a number of connections, one after another.
pub struct Node {
    pub address: Address,
    pub shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<()>>,
    pub path: Option<PathBuf>,
}

impl Node {
    pub fn on_tcp(connections: usize) -> Self {
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

    pub fn on_unix(name: &str, connections: usize) -> Self {
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

    pub fn join(&mut self) {
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
