//! Applications as octets: one that sends everything it has, one that takes and confirms what comes.

use bytes::{Bytes, BytesMut};
use dhow_node::api::frame::FrameReader;
use dhow_node::api::wire::{
    AapMessage, AapResponse, Body, BundleAdu, ConnectionConfig, STATUS_SUCCESS, put_message,
};
use prost::Message as _;

/// Deliveries that may be unconfirmed at a time.
const WINDOW: u32 = 256;

/// Everything that an application says which sends this many bundles, as it would be read from its socket.
pub fn requests(destination: &str, bundles: u64, octets: usize) -> Vec<Bytes> {
    let mut out = BytesMut::new();
    put_message(&config("ipn:1.5", false), &mut out);
    let payload: Vec<u8> = (0..octets)
        .map(|place| u8::try_from(place * 7 % 251).unwrap())
        .collect();
    for number in 0..bundles {
        let adu = BundleAdu {
            dst_eid: destination.into(),
            payload_length: u64::try_from(octets).unwrap(),
            lifetime_ms: Some(3_600_000),
            request_id: Some(number),
            ..BundleAdu::default()
        };
        put_message(&AapMessage::new(Body::Adu(adu)), &mut out);
        out.extend_from_slice(&payload);
    }
    vec![out.freeze()]
}

fn config(endpoint: &str, is_subscriber: bool) -> AapMessage {
    AapMessage::new(Body::Config(ConnectionConfig {
        is_subscriber,
        endpoint_id: endpoint.into(),
        secret: "secret".into(),
        delivery_window: if is_subscriber { WINDOW } else { 0 },
        ..ConnectionConfig::default()
    }))
}

/// An application that subscribes and confirms.
pub struct Reader {
    frames: FrameReader,
    /// Octets of payload that are still to come.
    left: u64,
    /// Octets and messages that come before the first delivery.
    preface: Preface,
    to_node: BytesMut,
}

#[derive(PartialEq, Eq)]
enum Preface {
    Magic,
    Welcome,
    Response,
    Done,
}

impl Reader {
    pub fn new(endpoint: &str) -> Self {
        let mut to_node = BytesMut::new();
        put_message(&config(endpoint, true), &mut to_node);
        Self {
            frames: FrameReader::new(),
            left: 0,
            preface: Preface::Magic,
            to_node,
        }
    }

    /// Octets that it says now.
    pub fn take_octets(&mut self) -> Bytes {
        self.to_node.split().freeze()
    }

    /// Octets that the node says.
    pub fn hear(&mut self, mut octets: Bytes) {
        if self.preface == Preface::Magic {
            self.preface = Preface::Welcome;
            octets = octets.slice(1..);
        }
        self.frames.push(octets);
        loop {
            if self.left > 0 {
                let Some(more) = self.frames.take_payload(self.left) else {
                    return;
                };
                self.left -= u64::try_from(more.len()).unwrap();
                continue;
            }
            let Some(message) = self
                .frames
                .take_message()
                .expect("the node frames its messages")
            else {
                return;
            };
            match self.preface {
                Preface::Magic => panic!("the node speaks before its magic octet"),
                Preface::Welcome => self.preface = Preface::Response,
                Preface::Response => self.preface = Preface::Done,
                Preface::Done => self.confirm(&message),
            }
        }
    }

    fn confirm(&mut self, message: &Bytes) {
        let Ok(AapMessage {
            body: Some(Body::Adu(adu)),
        }) = AapMessage::decode(message.clone())
        else {
            panic!("the node sends something else than a delivery");
        };
        self.left = adu.payload_length;
        let response = AapResponse {
            delivery_id: adu.delivery_id,
            ..AapResponse::of(STATUS_SUCCESS)
        };
        put_message(&response, &mut self.to_node);
    }
}
