//! Invariants of a session, whatever its client says: for fuzzing and the replay of its findings.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId, Instant, NodeId, Now};
use dhow_link::Gather;

use super::ClientSession;
use super::seam::{
    ApiRefusal, ClientCommand, ClientEvent, DeliveryHead, DeliveryId, RequestId, Subscribes,
};
use super::wire::{AapMessage, Body, ConnectionConfig, put_message};

/// Deliveries that a subscriber is offered.
const DELIVERIES: u64 = 8;

/// Most events and gathers of one script: far beyond what its octets can cause.
const TURNS_MAX: usize = 1 << 20;

/// Run a script against a session whose node does everything asked, and assert that what it tells its
/// node is consistent. The first octet chooses how the session begins (not configured, sending,
/// subscribed) and the second how the others are cut into chunks.
///
/// # Panics
/// When the session contradicts itself.
pub fn check_session(script: &[u8]) {
    let [begin, cut, octets @ ..] = script else {
        return;
    };
    let mut octets = Bytes::copy_from_slice(octets);
    let Ok(node_id) = NodeId::new(EndpointId::Ipn {
        allocator: 0,
        node: 2,
        service: 0,
    }) else {
        return;
    };
    let mut node = Node {
        session: ClientSession::new(node_id),
        arriving: BTreeMap::new(),
        closed: 0,
        turn: 0,
    };
    match begin % 3 {
        1 => node.hear(config(Subscribes::No)),
        2 => node.hear(config(Subscribes::Yes)),
        _ => {}
    }
    while !octets.is_empty() {
        let chunk = octets.split_to((usize::from(*cut) + 1).min(octets.len()));
        node.hear(chunk);
    }
    node.session
        .handle_command(node.now(), ClientCommand::Disconnected);
    node.turn();
    assert!(
        !node.session.has_octets(),
        "nothing is sent to a client that is gone"
    );
}

fn config(subscribes: Subscribes) -> Bytes {
    let mut octets = BytesMut::new();
    let config = ConnectionConfig {
        is_subscriber: subscribes == Subscribes::Yes,
        endpoint_id: String::from("ipn:2.42"),
        keepalive_seconds: 1,
        delivery_window: 3,
        ..ConnectionConfig::default()
    };
    put_message(&AapMessage::new(Body::Config(config)), &mut octets);
    octets.freeze()
}

/// The node of a session: does all that it is asked.
struct Node {
    session: ClientSession,
    /// Octets still to come of each request.
    arriving: BTreeMap<RequestId, u64>,
    closed: u32,
    turn: u64,
}

impl Node {
    fn now(&self) -> Now {
        Now {
            monotonic: Instant::from_nanos(self.turn.wrapping_mul(100_000_000)),
            dtn: DtnTime::UNKNOWN,
        }
    }

    fn hear(&mut self, octets: Bytes) {
        self.turn = self.turn.saturating_add(1);
        self.session.handle_octets(self.now(), octets);
        self.turn();
        if self
            .session
            .poll_timeout()
            .is_some_and(|instant| instant <= self.now().monotonic)
        {
            self.session.handle_timeout(self.now());
            self.turn();
        }
    }

    /// Take all events and all octets.
    fn turn(&mut self) {
        let now = self.now();
        for _ in 0..TURNS_MAX {
            let Some(event) = self.session.poll_event() else {
                break;
            };
            self.take(now, event);
        }
        let mut out = Gather::new();
        for _ in 0..TURNS_MAX {
            out.clear();
            self.session.poll_octets(now, 1000, &mut out);
            if out.is_empty() {
                return;
            }
        }
        assert!(out.is_empty(), "a session has an end of octets to send");
    }

    fn take(&mut self, now: Now, event: ClientEvent) {
        assert_eq!(self.closed, 0, "nothing is told after Close");
        match event {
            ClientEvent::Configure(configure) => {
                self.session
                    .handle_command(now, ClientCommand::Configured(Ok(())));
                if configure.subscribes == Subscribes::Yes {
                    (0..DELIVERIES).for_each(|number| self.deliver(now, number));
                }
            }
            ClientEvent::Send { request, send } => {
                let before = self.arriving.insert(request, send.payload_octets);
                assert!(before.is_none(), "a request's number is used once");
                // Every seventh is refused at once: its payload must not come.
                if request.0 % 7 == 6 {
                    self.arriving.remove(&request);
                    let outcome = Err(ApiRefusal::NoResources(String::from("full")));
                    self.session
                        .handle_command(now, ClientCommand::Sent { request, outcome });
                }
            }
            ClientEvent::Payload {
                request,
                octets,
                end,
            } => {
                if let Some(left) = self.arriving.get_mut(&request) {
                    let length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
                    assert!(length <= *left, "a payload is no longer than announced");
                    *left -= length;
                    assert_eq!(*left == 0, end, "a payload ends where it was to end");
                    if end {
                        self.arriving.remove(&request);
                        let outcome = Ok((EndpointId::Null, CreationTimestamp::default()));
                        self.session
                            .handle_command(now, ClientCommand::Sent { request, outcome });
                    }
                } else {
                    assert_eq!(
                        request.0 % 7,
                        6,
                        "only a refused request's events may linger"
                    );
                }
            }
            ClientEvent::Confirmed(delivery) | ClientEvent::Declined(delivery) => {
                assert!(delivery.0 < DELIVERIES, "an answer is to a delivery");
            }
            ClientEvent::Close(_) => self.closed += 1,
        }
    }

    fn deliver(&mut self, now: Now, number: u64) {
        let length = number * 40_000;
        let head = DeliveryHead {
            version: dhow_bundle::Version::V7,
            priority: dhow_bundle::Priority::Normal,
            id: BundleId {
                source: EndpointId::Null,
                creation: CreationTimestamp::default(),
                fragment: None,
            },
            destination: EndpointId::Null,
            report_to: EndpointId::Null,
            flags: number,
            lifetime_ms: 1,
            payload_octets: length,
        };
        let payload = vec![Piece::Extent(Extent { offset: 0, length })];
        let delivery = DeliveryId(number);
        self.session.handle_command(
            now,
            ClientCommand::Deliver {
                delivery,
                head,
                payload,
            },
        );
    }
}
