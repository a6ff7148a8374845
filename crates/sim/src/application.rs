//! Applications: their requests to their node and their reactions to its answers, by AAP 2.0 as with real ones.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use dhow_bundle::{BundleFlags, BundleId, CreationTimestamp, DtnTime};
use dhow_node::api::frame::FrameReader;
use dhow_node::api::wire::{
    AapMessage, AapResponse, Body, BundleAdu, ConnectionConfig, STATUS_ERROR, STATUS_SUCCESS,
    put_message,
};
use dhow_node::driver::StreamId;
use prost::Message as _;

use crate::ledger::{BundleName, UnitName};
use crate::payload::Pieces;

/// Deliveries that a receiver has unconfirmed at a time.
const DELIVERY_WINDOW: u32 = 8;

/// Bundles that a sender has unanswered at a time.
const UNANSWERED_MAX: usize = 64;

/// The purpose of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends one kind of traffic of the scenario.
    Sender {
        /// The position of the traffic in the scenario.
        traffic: u32,
    },
    /// Receives all that comes for its node.
    Receiver,
}

/// Answers and deliveries that an application has from its node.
#[derive(Debug)]
pub enum Heard {
    /// The node has accepted a payload as this bundle.
    Accepted(UnitName, BundleName),
    /// The node has not accepted a payload.
    Refused(UnitName),
    /// A payload was delivered, and confirmed; and what the node says of its bundle.
    Delivered(Box<BundleAdu>, Vec<u8>),
    /// A status report was delivered, and confirmed.
    Reported(Box<BundleAdu>, Vec<u8>),
    /// The node said something that it should not; what.
    Nonsense(String),
}

/// The answer of an application to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The application has the delivery for good.
    Confirm,
    /// The application cannot take the delivery now.
    Decline,
    /// The application is gone before it has answered.
    Crash,
}

/// One application of one node.
#[derive(Debug)]
pub struct Application {
    /// Its purpose.
    pub role: Role,
    /// Payloads that are to be sent.
    pub due: u64,
    endpoint: String,
    session: Option<Session>,
}

/// Its connection to the node.
#[derive(Debug)]
struct Session {
    stream: StreamId,
    reader: FrameReader,
    stage: Stage,
    /// Payloads that were sent and are not answered; requests are answered in any order.
    unanswered: VecDeque<UnitName>,
    /// The request that is said and the node has not taken yet.
    request: Option<Bytes>,
    /// The payload behind it, or what the node has not taken of that.
    payload: Option<Pieces>,
    /// The delivery that is coming in.
    incoming: Option<(BundleAdu, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing has come.
    Magic,
    /// The Welcome is next.
    Welcome,
    /// The answer to the configuration is next.
    Answer,
    /// The application is at work.
    Ready,
}

impl Application {
    /// An application that is not connected.
    #[must_use]
    pub const fn new(role: Role, endpoint: String) -> Self {
        Self {
            role,
            due: 0,
            endpoint,
            session: None,
        }
    }

    /// Its stream, while it is connected.
    #[must_use]
    pub fn stream(&self) -> Option<StreamId> {
        self.session.as_ref().map(|session| session.stream)
    }

    /// Connects the application; its first octets come back.
    pub fn connect(&mut self, stream: StreamId) -> Bytes {
        self.session = Some(Session {
            stream,
            reader: FrameReader::new(),
            stage: Stage::Magic,
            unanswered: VecDeque::new(),
            request: None,
            payload: None,
            incoming: None,
        });
        framed(&AapMessage::new(Body::Config(ConnectionConfig {
            is_subscriber: self.role == Role::Receiver,
            endpoint_id: self.endpoint.clone(),
            secret: "simulated".to_owned(),
            delivery_window: DELIVERY_WINDOW,
            ..ConnectionConfig::default()
        })))
    }

    /// Its connection is gone.
    pub fn disconnect(&mut self) {
        self.session = None;
    }

    /// Whether it has something to send and may.
    #[must_use]
    pub fn wants_to_send(&self) -> bool {
        self.due > 0
            && self.session.as_ref().is_some_and(|session| {
                session.stage == Stage::Ready && session.unanswered.len() < UNANSWERED_MAX
            })
    }

    /// Whether it has nothing to send and waits for no answer.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let session = self.session.as_ref();
        self.role != Role::Receiver
            && self.due == 0
            && session.is_none_or(|it| it.stage == Stage::Ready && it.unanswered.is_empty())
    }

    /// The application begins to send a payload, which the node takes by and by; one of up to `at_once` octets goes in one piece with the request.
    pub fn send(&mut self, name: UnitName, adu: BundleAdu, payload: Pieces, at_once: u64) {
        self.due = self.due.saturating_sub(1);
        let Some(session) = &mut self.session else {
            return;
        };
        session.unanswered.push_back(name);
        let request = framed(&AapMessage::new(Body::Adu(BundleAdu {
            request_id: Some(u64::from(name.number)),
            ..adu
        })));
        if adu.payload_length > at_once {
            session.request = Some(request);
            session.payload = Some(payload);
            return;
        }
        let mut joined = BytesMut::from(&request[..]);
        payload.for_each(|piece| joined.extend_from_slice(&piece));
        session.request = Some(joined.freeze());
    }

    /// A payload that was to be sent is not.
    pub const fn pass_over(&mut self) {
        self.due = self.due.saturating_sub(1);
    }

    /// Whether the node has not taken all of a payload.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|session| {
            let payload = session.payload.as_ref();
            session.request.is_some() || payload.is_some_and(|payload| !payload.is_empty())
        })
    }

    /// The request and the octets of its payload that come next: pieces until they have `most` octets or more, or all.
    pub fn take_unsent(&mut self, most: usize) -> Vec<Bytes> {
        let Some(session) = &mut self.session else {
            return Vec::new();
        };
        let mut octets = 0;
        let mut taken = Vec::new();
        while octets < most
            && let Some(piece) =
                (session.request.take()).or_else(|| session.payload.as_mut()?.next())
        {
            octets += piece.len();
            taken.push(piece);
        }
        taken
    }

    /// Octets came from the node: the events in them, and the answers.
    /// `answer` draws the fate of a delivery.
    pub fn hear(
        &mut self,
        mut octets: Bytes,
        heard: &mut Vec<Heard>,
        say: &mut Vec<Bytes>,
        answer: &mut dyn FnMut() -> Answer,
    ) {
        let Some(session) = &mut self.session else {
            return;
        };
        if session.stage == Stage::Magic && !octets.is_empty() {
            session.stage = Stage::Welcome;
            octets = octets.slice(1..);
        }
        session.reader.push(octets);
        loop {
            if let Some((adu, mut payload)) = session.incoming.take() {
                let have = u64::try_from(payload.len()).unwrap_or(u64::MAX);
                let left = adu.payload_length.saturating_sub(have);
                if left > 0 {
                    let more = session.reader.take_payload(left);
                    payload.extend_from_slice(more.as_deref().unwrap_or_default());
                    session.incoming = Some((adu, payload));
                    if more.is_none() {
                        return;
                    }
                    continue;
                }
                let delivery_id = adu.delivery_id;
                let flags = BundleFlags::from_bits(adu.bundle_flags.unwrap_or(0));
                let status = match answer() {
                    Answer::Crash => {
                        self.session = None;
                        return;
                    }
                    Answer::Decline => STATUS_ERROR,
                    Answer::Confirm => {
                        let adu = Box::new(adu);
                        heard.push(match flags.contains(BundleFlags::ADMINISTRATIVE_RECORD) {
                            true => Heard::Reported(adu, payload),
                            false => Heard::Delivered(adu, payload),
                        });
                        STATUS_SUCCESS
                    }
                };
                say.push(framed(&AapResponse {
                    delivery_id,
                    ..AapResponse::of(status)
                }));
                continue;
            }
            match session.reader.take_message() {
                Ok(Some(message)) => session.understand(self.role, message, heard),
                Ok(None) => return,
                Err(error) => {
                    heard.push(Heard::Nonsense(error.to_string()));
                    return;
                }
            }
        }
    }
}

impl Session {
    fn understand(&mut self, role: Role, message: Bytes, heard: &mut Vec<Heard>) {
        if self.stage == Stage::Welcome {
            self.stage = Stage::Answer;
            return;
        }
        if role == Role::Receiver && self.stage == Stage::Ready {
            match AapMessage::decode(message).map(|message| message.body) {
                Ok(Some(Body::Adu(adu))) => self.incoming = Some((adu, Vec::new())),
                Ok(other) => heard.push(Heard::Nonsense(format!("{other:?}"))),
                Err(error) => heard.push(Heard::Nonsense(error.to_string())),
            }
            return;
        }
        let response = match AapResponse::decode(message) {
            Ok(response) => response,
            Err(error) => {
                heard.push(Heard::Nonsense(error.to_string()));
                return;
            }
        };
        let is_success = response.response_status == STATUS_SUCCESS;
        if self.stage == Stage::Answer {
            self.stage = Stage::Ready;
            if !is_success {
                heard.push(Heard::Nonsense(response.message));
            }
            return;
        }
        let asked = self
            .unanswered
            .iter()
            .position(|name| Some(u64::from(name.number)) == response.request_id);
        let Some(name) = asked.and_then(|place| self.unanswered.remove(place)) else {
            heard.push(Heard::Nonsense(format!(
                "an answer to nothing: {response:?}"
            )));
            return;
        };
        let bundle = response
            .bundle_headers
            .filter(|_| is_success)
            .and_then(|headers| {
                Some(BundleName::of(&BundleId {
                    source: headers.src_eid.parse().ok()?,
                    creation: CreationTimestamp {
                        time: DtnTime::from_millis(headers.creation_timestamp_ms),
                        sequence: headers.sequence_number,
                    },
                    fragment: None,
                }))
            });
        heard.push(match (is_success, bundle) {
            (true, Some(bundle)) => Heard::Accepted(name, bundle),
            (true, None) => Heard::Nonsense("a bundle was accepted and not named".to_owned()),
            (false, _) => Heard::Refused(name),
        });
    }
}

fn framed(message: &impl prost::Message) -> Bytes {
    let mut out = BytesMut::new();
    put_message(message, &mut out);
    out.freeze()
}
