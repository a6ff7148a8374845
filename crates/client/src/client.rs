//! A connection that has been greeted and says next what it is for.

use std::time::Duration;

use dhow_bundle::NodeId;
use dhow_node::api::seam::Subscribes;
use dhow_node::api::wire::{AapMessage, AapResponse, Body, MAGIC, STATUS_SUCCESS};

use crate::address::Address;
use crate::connection::{Connection, Wait};
use crate::error::{Error, Refusal};
use crate::receiver::Receiver;
use crate::registration::Registration;
use crate::sender::Sender;
use crate::stream::Stream;

/// Seconds that a node may take to greet, and to accept a registration: it does both from memory, but
/// may be starting.
const GREETING_S: u64 = 30;

/// A connection that has been greeted.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    node_id: NodeId,
    extensions: u32,
    payload_octets_max: Option<u64>,
}

impl Client {
    /// Connect to a node's API socket and take its greeting.
    ///
    /// # Errors
    /// When nobody listens there, or what listens is no AAP 2.0 server.
    pub fn connect(address: &Address) -> Result<Self, Error> {
        let stream = Stream::connect(address).map_err(|source| Error::Unreachable {
            address: address.clone(),
            source,
        })?;
        let mut connection = Connection::new(stream);
        let wait = Wait::for_most(Some(Duration::from_secs(GREETING_S)));
        let first = connection
            .read_first(wait)?
            .ok_or(Error::Silent(GREETING_S))?;
        if first != MAGIC {
            return Err(Error::Protocol(format!(
                "a stream that begins with {first:#04x} is not AAP 2.0"
            )));
        }
        let message: AapMessage = connection
            .read_message(wait)?
            .ok_or(Error::Silent(GREETING_S))?;
        let Some(Body::Welcome(welcome)) = message.body else {
            return Err(Error::Protocol("the first message is no Welcome".into()));
        };
        let node_id = welcome
            .node_id
            .parse()
            .map_err(|error| Error::Protocol(format!("node ID '{}': {error}", welcome.node_id)))?;
        Ok(Self {
            connection,
            node_id,
            extensions: welcome.extensions,
            payload_octets_max: (welcome.payload_octets_max > 0)
                .then_some(welcome.payload_octets_max),
        })
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
        let wait = Wait::for_most(Some(Duration::from_secs(GREETING_S)));
        let response: AapResponse = self
            .connection
            .read_message(wait)?
            .ok_or(Error::Silent(GREETING_S))?;
        match response.response_status {
            STATUS_SUCCESS => Ok(()),
            _ => Err(Refusal::of(response).into()),
        }
    }
}
