//! The octets of a client: messages and payloads become events, in the order in which they came.

use bytes::Bytes;

use super::encoding::split_request;
use super::fault::{Fault, decode, name};
use super::registration::{Asked, read_config};
use super::request::{Wanted, refusal};
use super::seam::{ApiRefusal, ClientEvent, RequestId};
use super::session::{ClientSession, Phase, Stream};
use super::wire::{
    AapMessage, AapResponse, Body, BundleAdu, ConnectionConfig, STATUS_ACK, STATUS_ERROR,
    STATUS_INVALID_REQUEST, STATUS_NOT_FOUND, STATUS_SUCCESS, STATUS_TIMEOUT, STATUS_UNAUTHORIZED,
};

/// Events that wait for the node before a session stops reading: one turn's worth.
const EVENTS_MAX: usize = 1024;

/// A payload that is arriving.
#[derive(Debug)]
pub(super) struct Incoming {
    /// `None` when the request was refused: its payload is dropped.
    pub(super) request: Option<RequestId>,
    left: u64,
}

impl ClientSession {
    /// Read what was received, as far as the queues allow.
    pub(super) fn read(&mut self) {
        while self.events.len() < EVENTS_MAX {
            if self.incoming.is_some() {
                if !self.read_payload() {
                    return;
                }
                continue;
            }
            match self.phase {
                Phase::Configuring => return,
                Phase::Draining(_) | Phase::Closed => return self.reader.clear(),
                Phase::Sending
                    if self.stream == Stream::Open
                        && (self.requests.is_full()
                            || self.control.len() >= self.responses_octets_max) =>
                {
                    return;
                }
                Phase::Greeting | Phase::Sending | Phase::Subscribed => {}
            }
            match self.reader.take_message() {
                Ok(None) => return,
                Ok(Some(octets)) => {
                    if let Err(fault) = self.read_message(octets) {
                        self.fail(&fault);
                    }
                }
                Err(error) => self.fail(&error.into()),
            }
        }
    }

    /// Take payload octets; false when there are none.
    fn read_payload(&mut self) -> bool {
        let Some(incoming) = &mut self.incoming else {
            return false;
        };
        let octets = match self.reader.take_payload(incoming.left) {
            Some(octets) if incoming.left > 0 => octets,
            None if incoming.left > 0 => return false,
            _ => Bytes::new(),
        };
        incoming.left = incoming
            .left
            .saturating_sub(u64::try_from(octets.len()).unwrap_or(u64::MAX));
        let end = incoming.left == 0;
        if let Some(request) = incoming.request {
            self.events.push_back(ClientEvent::Payload {
                request,
                octets,
                end,
            });
        }
        if end {
            self.incoming = None;
        }
        true
    }

    fn read_message(&mut self, octets: Bytes) -> Result<(), Fault> {
        if self.phase == Phase::Subscribed {
            return self.read_response(&decode::<AapResponse>(octets)?);
        }
        let request = split_request(&octets).filter(|_| self.phase == Phase::Sending);
        if let Some((adu, request_id)) = request
            && let Some(wanted) = self.rules.again(adu)
        {
            self.ask(wanted, Some(request_id));
            return Ok(());
        }
        let message: AapMessage = decode(octets.clone())?;
        match (&self.phase, message.body) {
            (Phase::Greeting, Some(Body::Config(config))) => {
                self.configure(config);
                Ok(())
            }
            (Phase::Sending, Some(Body::Adu(adu))) => self.begin_send(&adu, request),
            (Phase::Sending, Some(Body::Keepalive(_))) => {
                self.respond(AapResponse::of(STATUS_ACK));
                Ok(())
            }
            (Phase::Sending, Some(Body::Link(_))) => {
                self.respond(refusal(
                    ApiRefusal::Unauthorized(
                        "this node offers no link control to applications".into(),
                    ),
                    None,
                ));
                Ok(())
            }
            (_, body) => Err(Fault::Unexpected(name(body.as_ref()))),
        }
    }

    /// A client says who it is.
    fn configure(&mut self, config: ConnectionConfig) {
        match read_config(&config) {
            Ok(configure) => {
                self.asked = Asked::read(&config);
                self.rules.endpoint.clone_from(&configure.endpoint);
                self.phase = Phase::Configuring;
                self.events.push_back(ClientEvent::Configure(configure));
            }
            Err(why) => self.refuse_config(why),
        }
    }

    /// A client begins to send a bundle; `request` is the same as octets, where it can be known again by them.
    fn begin_send(&mut self, adu: &BundleAdu, request: Option<(&[u8], u64)>) -> Result<(), Fault> {
        let (octets, most) = (adu.payload_length, self.payload_octets_max);
        if octets > most {
            return Err(Fault::PayloadTooLong { octets, most });
        }
        match self.rules.read(adu) {
            Ok(wanted) => {
                if let Some((octets, _)) = request {
                    self.rules.remember(octets, &wanted);
                }
                self.ask(wanted, adu.request_id);
            }
            Err(why) => {
                self.respond(refusal(why, adu.request_id));
                self.incoming = Some(Incoming {
                    request: None,
                    left: octets,
                });
            }
        }
        Ok(())
    }

    /// Ask the node for a bundle, whose payload follows.
    fn ask(&mut self, wanted: Wanted, request_id: Option<u64>) {
        let request = self.requests.ask(&wanted, request_id);
        let send = wanted.send;
        self.incoming = Some(Incoming {
            request: Some(request),
            left: send.payload_octets,
        });
        self.events.push_back(ClientEvent::Send { request, send });
    }

    /// Answer a request here, in its turn.
    fn respond(&mut self, response: AapResponse) {
        if self.stream == Stream::Open {
            self.requests.push_answered(response);
            self.requests.release(&mut self.control);
        }
    }

    /// A subscriber answers a delivery or a keepalive.
    fn read_response(&mut self, response: &AapResponse) -> Result<(), Fault> {
        match response.response_status {
            STATUS_ACK => {}
            STATUS_SUCCESS => {
                let delivery = self.deliveries.answer(response.delivery_id)?;
                self.events.push_back(ClientEvent::Confirmed(delivery));
            }
            STATUS_ERROR
            | STATUS_TIMEOUT
            | STATUS_INVALID_REQUEST
            | STATUS_NOT_FOUND
            | STATUS_UNAUTHORIZED => {
                let delivery = self.deliveries.answer(response.delivery_id)?;
                self.events.push_back(ClientEvent::Declined(delivery));
            }
            other => return Err(Fault::Status(other)),
        }
        Ok(())
    }
}
