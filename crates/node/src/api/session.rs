//! One application's connection: [`ClientSession`].
//!
//! ```text
//! Greeting ──Config──> Configuring ──accepted──> Sending     adu, keepalive ──> responses in order
//!    │                      │      └──accepted──> Subscribed  deliveries out, responses in
//!    │ anything else        │ refused                │ fault          Sending: fault
//!    └──────────> Closed <──┴────────────────────────┘  <── answers given ── Draining
//! ```

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};

use bytes::{Buf as _, BufMut, Bytes, BytesMut};
use dhow_bundle::storage::Piece;
use dhow_bundle::{Instant, NodeId, Now};
use dhow_link::Gather;

use super::delivery::Deliveries;
use super::fault::Fault;
use super::frame::FrameReader;
use super::incoming::Incoming;
use super::keepalive::{Due, Keepalive, Output};
use super::registration::Asked;
use super::request::{Requests, SendRules, refusal};
use super::seam::{ApiRefusal, ClientCommand, ClientEvent, Subscribes};
use super::wire::{
    AapMessage, AapResponse, Body, EXTENSIONS_VERSION, MAGIC, STATUS_INVALID_REQUEST,
    STATUS_SUCCESS, Welcome, put_message,
};

/// Lifetime of a bundle whose sender names none: one day, in milliseconds.
pub const DEFAULT_LIFETIME_MS: u64 = 24 * 60 * 60 * 1000;

/// Largest payload taken unless the node says otherwise, octets: 1 TiB, as for transfers.
pub const DEFAULT_PAYLOAD_OCTETS_MAX: u64 = 1 << 40;

/// Octets of responses that wait for a client to take them before its session reads no more requests, unless it is told otherwise.
pub const RESPONSES_OCTETS_MAX: usize = 1 << 20;

/// Octets of room for messages that an idle session keeps.
const CONTROL_KEPT_OCTETS: usize = 16 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waiting for Config.
    Greeting,
    /// Waiting for the node to accept it.
    Configuring,
    /// A client that sends.
    Sending,
    /// A client that receives.
    Subscribed,
    /// A client that broke the protocol, with requests whose answers go first.
    Draining(String),
    /// Over.
    Closed,
}

/// One application's connection, as a machine: octets in and out, [`ClientEvent`]s to the node and
/// [`ClientCommand`]s from it.
///
/// The first octets to send are there from the start. After `Close`, or after it was told
/// `Disconnected`, a session reports nothing new: requests whose payload has not ended are void, and
/// deliveries neither confirmed nor declined are the node's to deliver again. Payload events that were
/// queued when a request was refused still come.
///
/// ```
/// use bytes::Bytes;
/// use dhow_bundle::{EndpointId, NodeId, Now};
/// use dhow_link::Gather;
/// use dhow_node::api::ClientSession;
///
/// let node_id = NodeId::new("ipn:2.0".parse::<EndpointId>()?)?;
/// let mut session = ClientSession::new(node_id);
/// let mut out = Gather::new();
/// session.poll_octets(Now::default(), 65_536, &mut out);
/// assert!(!out.is_empty(), "the greeting");
/// session.handle_octets(Now::default(), Bytes::from_static(b"\x0b\x12\x09\x22\x07ipn:2.5"));
/// assert!(session.poll_event().is_some(), "the client wants to be ipn:2.5");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ClientSession {
    node_id: NodeId,
    pub(super) payload_octets_max: u64,
    pub(super) rules: SendRules,
    pub(super) phase: Phase,
    pub(super) reader: FrameReader,
    pub(super) incoming: Option<Incoming>,
    pub(super) requests: Requests,
    pub(super) deliveries: Deliveries,
    /// The registration that Config asked for, while it is not accepted.
    pub(super) asked: Asked,
    keepalive: Keepalive,
    pub(super) events: VecDeque<ClientEvent>,
    /// Messages to send; they go between payloads, never into one.
    pub(super) control: BytesMut,
    /// Octets of it with which no more requests are read.
    pub(super) responses_octets_max: usize,
    /// Written when octets are first polled, with the settings known by then.
    greeting: Greeting,
    pub(super) stream: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greeting {
    Due,
    Given,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Open,
    Ended,
}

impl ClientSession {
    /// A session on a fresh connection of the node that is called `node_id`.
    #[must_use]
    pub fn new(node_id: NodeId) -> Self {
        Self {
            node_id,
            payload_octets_max: DEFAULT_PAYLOAD_OCTETS_MAX,
            rules: SendRules::new(DEFAULT_LIFETIME_MS),
            phase: Phase::Greeting,
            reader: FrameReader::new(),
            incoming: None,
            requests: Requests::default(),
            deliveries: Deliveries::new(1),
            asked: Asked::NOTHING,
            keepalive: Keepalive::off(),
            events: VecDeque::new(),
            control: BytesMut::new(),
            responses_octets_max: RESPONSES_OCTETS_MAX,
            greeting: Greeting::Due,
            stream: Stream::Open,
        }
    }

    /// Lifetime of bundles whose sender names none, milliseconds (default: one day).
    #[must_use]
    pub const fn with_default_lifetime_ms(mut self, lifetime_ms: u64) -> Self {
        self.rules.default_lifetime_ms = lifetime_ms;
        self
    }

    /// Largest payload taken, octets; announced in the Welcome.
    #[must_use]
    pub const fn with_payload_octets_max(mut self, octets: u64) -> Self {
        self.payload_octets_max = octets;
        self
    }

    /// Octets arrived from the client, in any chunking. Payload slices are kept, never copied.
    pub fn handle_octets(&mut self, now: Now, octets: Bytes) {
        if self.stream == Stream::Ended || matches!(self.phase, Phase::Draining(_) | Phase::Closed)
        {
            return;
        }
        self.keepalive.received(now.monotonic);
        self.reader.push(octets);
        self.read();
    }

    /// The node answers or wants something.
    pub fn handle_command(&mut self, now: Now, command: ClientCommand) {
        match command {
            ClientCommand::Configured(outcome) => self.configured(now, outcome),
            ClientCommand::Sent { request, outcome } => {
                if outcome.is_err()
                    && let Some(incoming) = &mut self.incoming
                    && incoming.request == Some(request)
                {
                    incoming.request = None;
                }
                self.requests.answer(request, outcome, &mut self.control);
                self.end_drain();
            }
            ClientCommand::Deliver {
                delivery,
                head,
                payload,
            } => {
                if self.stream == Stream::Open
                    && self.phase != Phase::Closed
                    && (self.phase != Phase::Subscribed
                        || !self.deliveries.push(delivery, head, payload))
                {
                    self.events.push_back(ClientEvent::Declined(delivery));
                }
            }
            ClientCommand::Disconnected => {
                self.stream = Stream::Ended;
                self.keepalive = Keepalive::off();
                self.requests.clear();
                self.deliveries.clear();
                self.control.clear();
            }
        }
        self.read();
    }

    /// The instant of `poll_timeout` has come (or another; then nothing happens).
    pub fn handle_timeout(&mut self, now: Now) {
        let waits_for_us = self.phase == Phase::Sending
            && self.incoming.is_none()
            && !(self.requests.is_empty() && self.reader.is_drained());
        if waits_for_us {
            self.keepalive.excuse(now.monotonic);
        }
        let output = if self.control.is_empty() && !self.deliveries.has_octets() {
            Output::Drained
        } else {
            Output::Waiting
        };
        match self.keepalive.due(now.monotonic, output) {
            Due::Nothing => {}
            Due::Ask => {
                let ask = AapMessage::new(Body::Keepalive(super::wire::Keepalive {}));
                put_message(&ask, &mut self.control);
            }
            Due::Gone => {
                self.close("nothing came from the client for twice its keepalive interval".into())
            }
        }
    }

    /// Add up to about `limit` octets to send to `out`; octets given here count as sent. A delivery of
    /// up to 64 KiB comes whole, so that the client finds its payload behind its head.
    pub fn poll_octets(&mut self, now: Now, limit: usize, out: &mut Gather) {
        if self.stream == Stream::Ended {
            return;
        }
        self.greet();
        let before = out.octets();
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        loop {
            self.deliveries.poll_leaving(limit, out);
            if self.deliveries.is_within_payload() || out.octets() >= limit {
                break;
            }
            if !self.control.is_empty() {
                let room = usize::try_from(limit - out.octets()).unwrap_or(usize::MAX);
                out.push(Piece::Octets(self.take_control(room)));
            }
            if !self.deliveries.poll_next(limit, out) {
                break;
            }
        }
        if out.octets() > before {
            self.keepalive.sent(now.monotonic);
        }
    }

    /// The next messages, at most so many octets. They are copied: what a client does not read must hold no more than itself.
    fn take_control(&mut self, room: usize) -> Bytes {
        let room = room.min(self.control.len());
        let octets = Bytes::copy_from_slice(self.control.get(..room).unwrap_or_default());
        self.control.advance(room);
        if self.control.is_empty() && self.control.capacity() > CONTROL_KEPT_OCTETS {
            self.control = BytesMut::new();
        }
        octets
    }

    /// The next event; `None` when there is none. Reads on where a full queue had stopped it.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        if self.events.is_empty() {
            self.read();
        }
        self.events.pop_front()
    }

    /// When `handle_timeout` wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.keepalive.deadline()
    }

    /// True when `poll_octets` has octets to give.
    #[must_use]
    pub fn has_octets(&self) -> bool {
        self.stream == Stream::Open
            && (self.greeting == Greeting::Due
                || !self.control.is_empty()
                || self.deliveries.has_octets())
    }

    /// Read no more requests once so many octets of responses wait for the client to take them.
    pub const fn allow_responses(&mut self, octets: usize) {
        self.responses_octets_max = octets;
    }

    /// Octets of responses that the client has not taken.
    #[must_use]
    pub fn response_octets(&self) -> usize {
        self.control.len()
    }

    /// False while the client's octets should stay in its socket: it waits for an answer, or has more
    /// requests under way than the session holds.
    #[must_use]
    pub fn wants_octets(&self) -> bool {
        self.stream == Stream::Open
            && self.reader.is_drained()
            && !matches!(self.phase, Phase::Draining(_) | Phase::Closed)
    }

    /// Deliveries that would find room in the client's window now; 0 unless it subscribes.
    #[must_use]
    pub fn delivery_room(&self) -> usize {
        if self.phase == Phase::Subscribed && self.stream == Stream::Open {
            self.deliveries.room()
        } else {
            0
        }
    }

    /// Write the greeting, once, with the settings that the session was made with.
    fn greet(&mut self) {
        if self.greeting == Greeting::Given {
            return;
        }
        self.greeting = Greeting::Given;
        let welcome = AapMessage::new(Body::Welcome(Welcome {
            node_id: self.node_id.to_string(),
            extensions: EXTENSIONS_VERSION,
            payload_octets_max: self.payload_octets_max,
        }));
        let mut first = BytesMut::new();
        first.put_u8(MAGIC);
        put_message(&welcome, &mut first);
        first.extend_from_slice(&self.control);
        self.control = first;
    }

    /// The node has decided on a client.
    fn configured(&mut self, now: Now, outcome: Result<(), ApiRefusal>) {
        if self.phase != Phase::Configuring || self.stream == Stream::Ended {
            return;
        }
        match outcome {
            Ok(()) => {
                let subscribes = self.asked.subscribes;
                self.phase = match subscribes {
                    Subscribes::Yes => Phase::Subscribed,
                    Subscribes::No => Phase::Sending,
                };
                self.deliveries = Deliveries::new(self.asked.window);
                self.keepalive = Keepalive::new(now.monotonic, self.asked.keepalive_s, subscribes);
                put_message(&AapResponse::of(STATUS_SUCCESS), &mut self.control);
            }
            Err(why) => self.refuse_config(why),
        }
    }

    pub(super) fn refuse_config(&mut self, why: ApiRefusal) {
        let response = refusal(why, None);
        put_message(&response, &mut self.control);
        self.close(response.message);
    }

    /// The client broke the protocol: say so and close, after what was asked before is answered.
    pub(super) fn fail(&mut self, fault: &Fault) {
        let reason = format!("invalid request: {fault}");
        let response = AapResponse {
            message: reason.clone(),
            ..AapResponse::of(STATUS_INVALID_REQUEST)
        };
        if self.stream == Stream::Ended {
            return self.close(reason);
        }
        match self.phase {
            Phase::Sending => {
                self.keepalive = Keepalive::off();
                self.requests.push_answered(response);
                self.requests.release(&mut self.control);
                self.phase = Phase::Draining(reason);
                self.end_drain();
            }
            Phase::Subscribed => {
                if !self.deliveries.is_within_payload() {
                    put_message(&AapMessage::new(Body::Refusal(response)), &mut self.control);
                }
                self.close(reason);
            }
            Phase::Greeting | Phase::Configuring | Phase::Draining(_) | Phase::Closed => {
                put_message(&response, &mut self.control);
                self.close(reason);
            }
        }
    }

    /// Close a draining session once every request is answered.
    fn end_drain(&mut self) {
        if let Phase::Draining(reason) = &self.phase
            && self.requests.is_empty()
        {
            let reason = reason.clone();
            self.close(reason);
        }
    }

    fn close(&mut self, reason: String) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.keepalive = Keepalive::off();
        self.incoming = None;
        self.requests.clear();
        self.deliveries.clear();
        self.reader.clear();
        if self.stream == Stream::Open {
            self.events.push_back(ClientEvent::Close(reason));
        }
    }
}
