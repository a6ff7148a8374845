//! An application: what it was told, decoded from the octets of its stream.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use dhow_node::api::frame::FrameReader;
use dhow_node::api::wire::{
    AapMessage, AapResponse, Body, BundleAdu, ConnectionConfig, STATUS_SUCCESS, put_message,
};
use prost::Message;

#[derive(Default)]
pub struct Client {
    reader: FrameReader,
    greeted: bool,
    subscriber: bool,
    pub to_node: VecDeque<Bytes>,
    pub responses: Vec<AapResponse>,
    /// Deliveries and their payload, in order; each was confirmed unless `declines`.
    pub received: Vec<(BundleAdu, Vec<u8>)>,
    awaiting: Option<(BundleAdu, Vec<u8>)>,
    pub confirms: bool,
}

impl Client {
    pub fn new(endpoint: &str, subscriber: bool) -> Self {
        let mut client = Self {
            subscriber,
            confirms: true,
            ..Self::default()
        };
        client.say(Body::Config(ConnectionConfig {
            is_subscriber: subscriber,
            endpoint_id: endpoint.into(),
            secret: "secret".into(),
            delivery_window: 8,
            ..ConnectionConfig::default()
        }));
        client
    }

    pub fn send(&mut self, adu: BundleAdu, payload: &[u8]) {
        let payload_length = u64::try_from(payload.len()).unwrap();
        self.say(Body::Adu(BundleAdu {
            payload_length,
            ..adu
        }));
        self.to_node.push_back(Bytes::copy_from_slice(payload));
    }

    fn say(&mut self, body: Body) {
        let mut out = BytesMut::new();
        put_message(&AapMessage::new(body), &mut out);
        self.to_node.push_back(out.freeze());
    }

    /// Answer the oldest delivery that has no answer.
    pub fn respond(&mut self, status: i32) {
        let mut out = BytesMut::new();
        put_message(&AapResponse::of(status), &mut out);
        self.to_node.push_back(out.freeze());
    }

    pub fn hear(&mut self, mut octets: Bytes) {
        if !self.greeted {
            self.greeted = true;
            octets = octets.slice(1..);
        }
        self.reader.push(octets);
        loop {
            if let Some((adu, mut payload)) = self.awaiting.take() {
                let left = adu.payload_length - u64::try_from(payload.len()).unwrap();
                if left > 0 {
                    let Some(more) = self.reader.take_payload(left) else {
                        self.awaiting = Some((adu, payload));
                        return;
                    };
                    payload.extend_from_slice(&more);
                    self.awaiting = Some((adu, payload));
                    continue;
                }
                self.received.push((adu, payload));
                if self.confirms {
                    self.respond(STATUS_SUCCESS);
                }
                continue;
            }
            let Some(message) = self
                .reader
                .take_message()
                .expect("the node frames its messages")
            else {
                return;
            };
            if self.subscriber
                && self.responses.len() == 1
                && let Ok(AapMessage { body: Some(body) }) = AapMessage::decode(message.clone())
            {
                match body {
                    Body::Adu(adu) => self.awaiting = Some((adu, Vec::new())),
                    other => panic!("unexpected {other:?}"),
                }
                continue;
            }
            match AapMessage::decode(message.clone()) {
                Ok(AapMessage {
                    body: Some(Body::Welcome(_)),
                }) => {}
                _ => self
                    .responses
                    .push(AapResponse::decode(message).expect("a response")),
            }
        }
    }
}
