//! A session with a node behind it that takes everything, for tests.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes, BytesMut};
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId, Instant, NodeId, Now};
use dhow_link::Gather;
use dhow_node::api::ClientSession;
use dhow_node::api::frame::FrameReader;
use dhow_node::api::seam::{
    ClientCommand, ClientEvent, Configure, DeliveryHead, DeliveryId, RequestId, SendRequest,
};
use dhow_node::api::wire::{AapMessage, AapResponse, Body, MAGIC, Welcome, put_message};
use prost::Message;

/// A moment, seconds after the start.
pub fn at(seconds: u64) -> Now {
    Now {
        monotonic: Instant::from_nanos(seconds * 1_000_000_000),
        dtn: DtnTime::from_millis(848_000_000_000 + seconds * 1000),
    }
}

pub fn eid(text: &str) -> EndpointId {
    text.parse().unwrap()
}

pub fn session(node: &str) -> ClientSession {
    ClientSession::new(NodeId::new(eid(node)).unwrap())
}

/// A message as it stands in the stream.
pub fn framed(message: &impl Message) -> Bytes {
    let mut out = BytesMut::new();
    put_message(message, &mut out);
    out.freeze()
}

pub fn message(body: Body) -> Bytes {
    framed(&AapMessage::new(body))
}

/// All that a session has to send, in gathers of `limit`; extents show as octets of their offsets.
pub fn sent(session: &mut ClientSession, now: Now, limit: usize) -> Bytes {
    let mut octets = Vec::new();
    for _ in 0..10_000 {
        let mut out = Gather::new();
        session.poll_octets(now, limit, &mut out);
        if out.is_empty() {
            return octets.into();
        }
        for piece in out.pieces() {
            match piece {
                Piece::Octets(piece) => octets.extend_from_slice(piece),
                Piece::Extent(extent) => octets.extend(pattern(*extent)),
            }
        }
    }
    panic!("a session sends without end");
}

/// The octets of a log of which each tells its offset.
pub fn pattern(extent: Extent) -> impl Iterator<Item = u8> {
    (extent.offset..extent.offset + extent.length).map(|offset| (offset % 251) as u8)
}

pub fn events(session: &mut ClientSession) -> Vec<ClientEvent> {
    std::iter::from_fn(|| session.poll_event()).collect()
}

/// The Welcome that a stream begins with, and what follows it.
pub fn after_welcome(octets: Bytes) -> (Welcome, FrameReader) {
    let mut octets = octets;
    assert_eq!(octets.get_u8(), MAGIC);
    let mut reader = FrameReader::new();
    reader.push(octets);
    let first = AapMessage::decode(reader.take_message().unwrap().unwrap()).unwrap();
    let Some(Body::Welcome(welcome)) = first.body else {
        panic!("no Welcome but {first:?}")
    };
    (welcome, reader)
}

pub fn responses(mut reader: FrameReader) -> Vec<AapResponse> {
    std::iter::from_fn(|| reader.take_message().unwrap())
        .map(|octets| AapResponse::decode(octets).unwrap())
        .collect()
}

/// The octets that a client was heard to say, chunking removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    pub configured: Vec<Configure>,
    pub sends: Vec<(RequestId, SendRequest)>,
    pub payloads: BTreeMap<u64, Vec<u8>>,
    pub ended: Vec<RequestId>,
    pub confirmed: Vec<DeliveryId>,
    pub declined: Vec<DeliveryId>,
    pub closed: Vec<String>,
}

impl Heard {
    pub fn hear(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Configure(configure) => self.configured.push(configure),
            ClientEvent::Send { request, send } => self.sends.push((request, send)),
            ClientEvent::Payload {
                request,
                octets,
                end,
            } => {
                assert!(!self.ended.contains(&request), "a payload ends once");
                let begun = self.payloads.entry(request.0).or_default();
                begun.extend_from_slice(&octets);
                if end {
                    self.ended.push(request);
                }
            }
            ClientEvent::Confirmed(delivery) => self.confirmed.push(delivery),
            ClientEvent::Declined(delivery) => self.declined.push(delivery),
            ClientEvent::Close(reason) => self.closed.push(reason),
        }
    }
}

/// Give `chunks` to a session whose node accepts everything, and hear what they say.
pub fn talk(session: &mut ClientSession, chunks: impl IntoIterator<Item = Bytes>) -> Heard {
    let mut heard = Heard::default();
    for chunk in chunks {
        session.handle_octets(at(0), chunk);
        while let Some(event) = session.poll_event() {
            accept(session, &event);
            heard.hear(event);
        }
    }
    heard
}

fn accept(session: &mut ClientSession, event: &ClientEvent) {
    match event {
        ClientEvent::Configure(_) => {
            session.handle_command(at(0), ClientCommand::Configured(Ok(())));
        }
        ClientEvent::Payload {
            request, end: true, ..
        } => {
            let creation = CreationTimestamp {
                time: DtnTime::from_millis(848_000_000_000),
                sequence: request.0,
            };
            let outcome = Ok((eid("dtn://a.dtn/sender"), creation));
            session.handle_command(
                at(0),
                ClientCommand::Sent {
                    request: *request,
                    outcome,
                },
            );
        }
        _ => {}
    }
}

/// A delivery of `octets`, in memory.
pub fn delivery(number: u64, octets: &[u8]) -> ClientCommand {
    let payload = vec![Piece::Octets(Bytes::copy_from_slice(octets))];
    delivery_of(number, payload, octets.len() as u64)
}

pub fn delivery_of(number: u64, payload: Vec<Piece>, payload_octets: u64) -> ClientCommand {
    ClientCommand::Deliver {
        delivery: DeliveryId(number),
        head: DeliveryHead {
            version: dhow_bundle::Version::V7,
            priority: dhow_bundle::Priority::Normal,
            id: BundleId {
                source: eid("dtn://a.dtn/sender"),
                creation: CreationTimestamp {
                    time: DtnTime::from_millis(1),
                    sequence: number,
                },
                fragment: None,
            },
            destination: eid("dtn://b.dtn/bundlesink"),
            report_to: EndpointId::Null,
            flags: 0,
            lifetime_ms: 86_400_000,
            payload_octets,
        },
        payload,
    }
}
