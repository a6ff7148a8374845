//! The seam between an application's session and the node: events of a session, and commands to it.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{BundleId, CreationTimestamp, EndpointId, Priority, Version};

/// A request of one application session, numbered by the session from 0 in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A delivery to one application session, numbered by the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// The fate of a registration's bundles while nobody is there to take them (RFC 9171 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryFailureAction {
    /// Keep them until somebody takes them or they expire.
    #[default]
    Defer,
    /// Drop the bundles.
    Abandon,
}

/// The registration that an application wants on this connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configure {
    /// The endpoint that it sends from and, as a subscriber, receives at; `None` for no endpoint.
    pub endpoint: Option<EndpointId>,
    /// Receives bundles on this connection (and sends none).
    pub subscribes: Subscribes,
    /// Connections that share an endpoint must know the same secret.
    pub secret: String,
    /// The fate of bundles after the last subscriber has left.
    pub failure_action: DeliveryFailureAction,
}

/// Whether a connection takes deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscribes {
    /// The application takes deliveries.
    Yes,
    /// The application only sends.
    No,
}

/// A bundle that an application wants to send (the payload follows as `Payload` events).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// Source endpoint; `None` for the endpoint of the connection.
    pub source: Option<EndpointId>,
    /// Destination endpoint.
    pub destination: EndpointId,
    /// Report-to endpoint; `None` for the source.
    pub report_to: Option<EndpointId>,
    /// Lifetime in milliseconds.
    pub lifetime_ms: u64,
    /// The version of the bundle.
    pub version: Version,
    /// Bundle processing control flags asked for (RFC 9171 4.2.3): report requests, must not fragment; of version 6 (RFC 5050 4.2) custody
    /// and its reports, and the class of service.
    pub flags: u64,
    /// The order in which it leaves nodes; what the flags say where there is none.
    pub priority: Option<Priority>,
    /// Whether aggregated reports are welcome (docs/aggregated-reports.md).
    pub aggregated_reports: bool,
    /// Octets of payload that follow.
    pub payload_octets: u64,
}

/// The fields of a bundle that go with its delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryHead {
    /// The bundle.
    pub id: BundleId,
    /// Destination endpoint.
    pub destination: EndpointId,
    /// Report-to endpoint.
    pub report_to: EndpointId,
    /// Its version.
    pub version: Version,
    /// Bundle processing control flags of its version.
    pub flags: u64,
    /// The order in which it left this node and others.
    pub priority: Priority,
    /// Lifetime in milliseconds.
    pub lifetime_ms: u64,
    /// Octets of payload.
    pub payload_octets: u64,
}

/// Why the node or the session refuses an application's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiRefusal {
    /// The request makes no sense; says which part.
    InvalidRequest(String),
    /// Another application holds the endpoint with another secret, or the endpoint belongs to the node.
    Unauthorized(String),
    /// The store is full or the disk failed: try again later.
    NoResources(String),
    /// No such thing.
    NotFound(String),
}

/// An event that an application's session tells its node.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    /// The application says who it is. Answer with `Configured`.
    Configure(Configure),
    /// The application begins to send a bundle. Answer with `Sent` once it is durable (or refused, at any time).
    Send {
        /// The number of the request.
        request: RequestId,
        /// The bundle to be sent.
        send: SendRequest,
    },
    /// Payload of a bundle being sent; for an empty payload one event without octets.
    Payload {
        /// The number of the request.
        request: RequestId,
        /// The next octets.
        octets: Bytes,
        /// Whether these octets are the last.
        end: bool,
    },
    /// The application has confirmed a delivery.
    Confirmed(DeliveryId),
    /// The application could not take a delivery: deliver it again later, to any subscriber.
    Declined(DeliveryId),
    /// The session is over: write what `poll_octets` still gives, then close the stream.
    Close(String),
}

/// A command of the node to an application's session.
#[derive(Clone, Debug)]
pub enum ClientCommand {
    /// Answer to `Configure`.
    Configured(Result<(), ApiRefusal>),
    /// Answer to `Send`; may come in any order, leaves in the order of the requests.
    Sent {
        /// The number of the request.
        request: RequestId,
        /// The bundle as created, or why not.
        outcome: Result<(EndpointId, CreationTimestamp), ApiRefusal>,
    },
    /// Deliver a bundle.
    Deliver {
        /// Chosen by the node, used once per session.
        delivery: DeliveryId,
        /// The bundle's fields.
        head: DeliveryHead,
        /// Its payload.
        payload: Vec<Piece>,
    },
    /// The stream has ended.
    Disconnected,
}
