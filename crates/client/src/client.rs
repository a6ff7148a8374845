//! A connection that has been greeted and says next whether it sends or receives.

use std::time::{Duration, Instant};

use dhow_bundle::NodeId;
use dhow_node::api::seam::Subscribes;
use dhow_node::api::wire::{AapMessage, AapResponse, Body, MAGIC, STATUS_SUCCESS};

use crate::address::Address;
use crate::connection::{Connection, Wait, is_too_late};
use crate::error::{Error, Refusal};
use crate::receiver::Receiver;
use crate::registration::Registration;
use crate::sender::Sender;
use crate::stream::Stream;

/// The time that a node may take to be connected to and greet, and to accept a registration: it does both from memory, but may
/// be starting.
const GREETING_TIME: Duration = Duration::from_secs(30);

/// The time for which a node may take and give no octet of a payload or an answer that this side waits for: its disk may be slow, and
/// longer than a minute no disk is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that has been greeted.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    greeting_time: Duration,
    node_id: NodeId,
    extensions: u32,
    payload_octets_max: Option<u64>,
}

impl Client {
    /// Connect to a node's API socket and take its greeting, within 30 s.
    ///
    /// # Errors
    /// When nobody listens there, or what listens is no AAP 2.0 server or says nothing.
    pub fn connect(address: &Address) -> Result<Self, Error> {
        Self::connect_within(address, GREETING_TIME)
    }

    /// As [`connect`](Self::connect), within this time, which also bounds the answer to a registration.
    ///
    /// # Errors
    /// As with [`connect`](Self::connect).
    pub fn connect_within(address: &Address, time: Duration) -> Result<Self, Error> {
        let silent = || Error::Silent(time);
        let end = Instant::now() + time;
        let stream =
            Stream::connect(address, end).map_err(|source| match is_too_late(&source) {
                true => silent(),
                false => Error::Unreachable {
                    address: address.clone(),
                    source,
                },
            })?;
        let mut connection = Connection::new(stream, PATIENCE)?;
        let wait = Wait::Until(end);
        let first = connection.read_first(wait)?.ok_or_else(silent)?;
        if first != MAGIC {
            return Err(Error::Protocol(format!(
                "a stream that begins with {first:#04x} is not AAP 2.0"
            )));
        }
        let message: AapMessage = connection.read_message(wait)?.ok_or_else(silent)?;
        let Some(Body::Welcome(welcome)) = message.body else {
            return Err(Error::Protocol("the first message is no Welcome".into()));
        };
        let node_id = welcome
            .node_id
            .parse()
            .map_err(|error| Error::Protocol(format!("node ID '{}': {error}", welcome.node_id)))?;
        Ok(Self {
            connection,
            greeting_time: time,
            node_id,
            extensions: welcome.extensions,
            payload_octets_max: (welcome.payload_octets_max > 0)
                .then_some(welcome.payload_octets_max),
        })
    }

    /// Call the node silent, and the connection lost, once it has taken and given no octet for this long while this side
    /// waits for it to take or give a payload, or to answer a request (default 60 s). Waiting for a delivery to begin has a
    /// timeout of its own.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn with_patience(mut self, patience: Duration) -> Result<Self, Error> {
        self.connection.set_patience(patience)?;
        Ok(self)
    }

    /// The node's ID.
    #[must_use]
    pub const fn node_id(&self) -> &NodeId {
        &self.node_id
    }

    /// Version of Dhow's extension fields that the node speaks; 0 for none (lifetime, flags and a
    /// delivery window are then not heeded).
    #[must_use]
    pub const fn extensions(&self) -> u32 {
        self.extensions
    }

    /// Largest payload that the node takes, octets, where it says so.
    #[must_use]
    pub const fn payload_octets_max(&self) -> Option<u64> {
        self.payload_octets_max
    }

    /// Use the connection for sending.
    ///
    /// # Errors
    /// [`Error::Refused`] when the endpoint is not to be had.
    pub fn sender(mut self, registration: &Registration) -> Result<Sender, Error> {
        self.configure(registration, Subscribes::No)?;
        Ok(Sender::new(self.connection, registration.endpoint_octets()))
    }

    /// Use the connection for receiving.
    ///
    /// # Errors
    /// [`Error::Refused`] when the endpoint is not to be had.
    pub fn receiver(mut self, registration: &Registration) -> Result<Receiver, Error> {
        self.configure(registration, Subscribes::Yes)?;
        Ok(Receiver::new(self.connection))
    }

    fn configure(
        &mut self,
        registration: &Registration,
        subscribes: Subscribes,
    ) -> Result<(), Error> {
        self.connection.put(&registration.message(subscribes));
        self.connection.flush()?;
        let wait = Wait::for_most(Some(self.greeting_time));
        let response: AapResponse = self
            .connection
            .read_message(wait)?
            .ok_or(Error::Silent(self.greeting_time))?;
        match response.response_status {
            STATUS_SUCCESS => Ok(()),
            _ => Err(Refusal::of(response).into()),
        }
    }
}
