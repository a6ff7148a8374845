//! The messages of AAP 2.0 with Dhow's extension fields (numbers from 1000), as octets and back.
//!
//! The types are annotated by hand rather than generated, so that no build step stands between the
//! schema (`docs/aap2-dhow.proto`) and the code. Enumerations travel as `i32` and are read through the
//! constants here: an unknown value must reach the session, which says what was wrong with it.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::{BufMut, Bytes};
use prost::Message;

/// The octet with which a server's stream begins, before its Welcome.
pub const MAGIC: u8 = 0x2f;

/// Version of the extension fields that Welcome announces.
pub const EXTENSIONS_VERSION: u32 = 1;

/// `AuthType`: an application that sends or receives bundles.
pub const AUTH_TYPE_DEFAULT: i32 = 0;
/// `AuthType`: may change links (not offered).
pub const AUTH_TYPE_FIB_CONTROL: i32 = 1;
/// `AuthType`: may decide routes (not offered).
pub const AUTH_TYPE_BUNDLE_DISPATCH: i32 = 2;
/// `AuthType`: both (not offered).
pub const AUTH_TYPE_FIB_AND_DISPATCH: i32 = 3;

/// `BundleADUFlags`: an ordinary bundle.
pub const ADU_NORMAL: i32 = 0;
/// `BundleADUFlags`: the payload is an encapsulated bundle (not offered).
pub const ADU_BPDU: i32 = 1;
/// `BundleADUFlags`: sent with the authority of a dispatcher (not offered).
pub const ADU_WITH_BDM_AUTH: i32 = 2;
/// `BundleADUFlags`: the payload is an administrative record, as a rule a status report.
pub const ADU_STATUS_REPORT: i32 = 3;

/// `ResponseStatus`: not said; never valid.
pub const STATUS_UNSPECIFIED: i32 = 0;
/// `ResponseStatus`: done, or taken.
pub const STATUS_SUCCESS: i32 = 1;
/// `ResponseStatus`: the answer to a keepalive.
pub const STATUS_ACK: i32 = 2;
/// `ResponseStatus`: not possible now.
pub const STATUS_ERROR: i32 = 8;
/// `ResponseStatus`: took too long.
pub const STATUS_TIMEOUT: i32 = 9;
/// `ResponseStatus`: the request makes no sense.
pub const STATUS_INVALID_REQUEST: i32 = 10;
/// `ResponseStatus`: no such thing.
pub const STATUS_NOT_FOUND: i32 = 11;
/// `ResponseStatus`: not allowed.
pub const STATUS_UNAUTHORIZED: i32 = 12;

/// `DeliveryFailure` (extension): bundles wait while nobody subscribes.
pub const FAILURE_DEFER: i32 = 0;
/// `DeliveryFailure` (extension): bundles are dropped while nobody subscribes.
pub const FAILURE_ABANDON: i32 = 1;

/// A message: from an application that sends, and from a server to a subscriber.
#[derive(Clone, PartialEq, Message)]
pub struct AapMessage {
    /// The message; `None` when it is empty or of a kind unknown here.
    #[prost(oneof = "Body", tags = "1, 2, 3, 4, 5, 6, 1000")]
    pub body: Option<Body>,
}

/// The kinds of [`AapMessage`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Body {
    /// The server's first message.
    #[prost(message, tag = "1")]
    Welcome(Welcome),
    /// The application says who it is.
    #[prost(message, tag = "2")]
    Config(ConnectionConfig),
    /// A bundle; its payload follows the message in the stream, uncounted by it.
    #[prost(message, tag = "3")]
    Adu(BundleAdu),
    /// `DispatchEvent`, not read: this node does not hand its routing to applications.
    #[prost(bytes = "bytes", tag = "4")]
    DispatchEvent(Bytes),
    /// `Link`, not read, for the same reason.
    #[prost(bytes = "bytes", tag = "5")]
    Link(Bytes),
    /// "Are you still there?"
    #[prost(message, tag = "6")]
    Keepalive(Keepalive),
    /// Extension: why the server is about to close a subscriber's connection.
    #[prost(message, tag = "1000")]
    Refusal(AapResponse),
}

/// The server's first message.
#[derive(Clone, PartialEq, Message)]
pub struct Welcome {
    /// The node's ID, `ipn:2.0` or `dtn://node/`.
    #[prost(string, tag = "1")]
    pub node_id: String,
    /// Extension: version of the extension fields; 0 for a server that knows none.
    #[prost(uint32, tag = "1000")]
    pub extensions: u32,
    /// Extension: largest payload that may be sent, octets; 0 for not said.
    #[prost(uint64, tag = "1001")]
    pub payload_octets_max: u64,
}

/// The application says who it is.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct ConnectionConfig {
    /// Whether bundles are delivered on this connection (then it sends none).
    #[prost(bool, tag = "1")]
    pub is_subscriber: bool,
    /// Authority asked for: [`AUTH_TYPE_DEFAULT`].
    #[prost(int32, tag = "2")]
    pub auth_type: i32,
    /// Shared by the connections that use one endpoint.
    #[prost(string, tag = "3")]
    pub secret: String,
    /// The endpoint ID in full; empty for none.
    #[prost(string, tag = "4")]
    pub endpoint_id: String,
    /// Interval of keepalives in seconds; 0 for none.
    #[prost(uint32, tag = "5")]
    pub keepalive_seconds: u32,
    /// Extension: what happens to bundles while nobody subscribes, [`FAILURE_DEFER`] or [`FAILURE_ABANDON`].
    #[prost(int32, tag = "1000")]
    pub failure_action: i32,
    /// Extension: deliveries that may be unconfirmed at a time; 0 for 1.
    #[prost(uint32, tag = "1001")]
    pub delivery_window: u32,
}

impl fmt::Debug for ConnectionConfig {
    /// Without the secret: messages are shown in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionConfig")
            .field("is_subscriber", &self.is_subscriber)
            .field("auth_type", &self.auth_type)
            .field("endpoint_id", &self.endpoint_id)
            .field("keepalive_seconds", &self.keepalive_seconds)
            .field("failure_action", &self.failure_action)
            .field("delivery_window", &self.delivery_window)
            .finish_non_exhaustive()
    }
}

/// A bundle's head, in both directions.
#[derive(Clone, PartialEq, Message)]
pub struct BundleAdu {
    /// Source endpoint; empty when sending from the connection's endpoint.
    #[prost(string, tag = "1")]
    pub src_eid: String,
    /// Destination endpoint.
    #[prost(string, tag = "2")]
    pub dst_eid: String,
    /// Creation time, milliseconds since the year 2000; not read when sending.
    #[prost(uint64, tag = "3")]
    pub creation_timestamp_ms: u64,
    /// Sequence number; not read when sending.
    #[prost(uint64, tag = "4")]
    pub sequence_number: u64,
    /// Octets of payload that follow the message.
    #[prost(uint64, tag = "5")]
    pub payload_length: u64,
    /// [`ADU_NORMAL`] and others.
    #[prost(int32, repeated, tag = "6")]
    pub adu_flags: Vec<i32>,
    /// Report-to endpoint; empty for the source.
    #[prost(string, tag = "7")]
    pub report_to_eid: String,
    /// Extension: lifetime in milliseconds; absent for the node's default.
    #[prost(uint64, optional, tag = "1000")]
    pub lifetime_ms: Option<u64>,
    /// Extension: bundle processing control flags (RFC 9171 4.2.3). When sending, those asked for:
    /// report requests, acknowledgment, must not fragment.
    #[prost(uint64, optional, tag = "1001")]
    pub bundle_flags: Option<u64>,
    /// Extension: repeated in the response to this request.
    #[prost(uint64, optional, tag = "1002")]
    pub request_id: Option<u64>,
    /// Extension, on deliveries: names it in the response that confirms or declines it.
    #[prost(uint64, optional, tag = "1003")]
    pub delivery_id: Option<u64>,
    /// Extension, when sending: the report-to endpoint reads aggregated reports.
    #[prost(bool, tag = "1004")]
    pub aggregated_reports: bool,
    /// Extension: version of the bundle; none for 7.
    #[prost(uint32, optional, tag = "1005")]
    pub bundle_version: Option<u32>,
    /// Extension: level of the bundle's priority; none for what the flags say, or normal.
    #[prost(uint32, optional, tag = "1006")]
    pub priority: Option<u32>,
}

/// A bundle as it was created.
#[derive(Clone, PartialEq, Message)]
pub struct Bundle {
    /// Source endpoint.
    #[prost(string, tag = "1")]
    pub src_eid: String,
    /// Destination endpoint.
    #[prost(string, tag = "2")]
    pub dst_eid: String,
    /// Creation time, milliseconds since the year 2000; 0 without an accurate clock.
    #[prost(uint64, tag = "3")]
    pub creation_timestamp_ms: u64,
    /// Sequence number.
    #[prost(uint64, tag = "4")]
    pub sequence_number: u64,
    /// Octets of payload.
    #[prost(uint64, tag = "5")]
    pub payload_length: u64,
    /// Offset of a fragment, octets.
    #[prost(uint64, tag = "6")]
    pub fragment_offset: u64,
    /// Octets of the whole application data unit, of a fragment.
    #[prost(uint64, tag = "7")]
    pub total_adu_length: u64,
    /// Lifetime in milliseconds.
    #[prost(uint64, tag = "8")]
    pub lifetime_ms: u64,
}

/// "Are you still there?": answered by a response with [`STATUS_ACK`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Keepalive {}

/// An answer: from a server to an application that sends, and from a subscriber to its server.
#[derive(Clone, PartialEq, Message)]
pub struct AapResponse {
    /// [`STATUS_SUCCESS`] and others.
    #[prost(int32, tag = "1")]
    pub response_status: i32,
    /// `DispatchResult`, not read.
    #[prost(bytes = "bytes", tag = "2")]
    pub dispatch_result: Bytes,
    /// The bundle that was created.
    #[prost(message, optional, tag = "3")]
    pub bundle_headers: Option<Bundle>,
    /// Extension: as in the request.
    #[prost(uint64, optional, tag = "1002")]
    pub request_id: Option<u64>,
    /// Extension: the fault, for people.
    #[prost(string, tag = "1003")]
    pub message: String,
    /// Extension: the delivery that a subscriber answers; absent for its oldest unconfirmed one.
    #[prost(uint64, optional, tag = "1004")]
    pub delivery_id: Option<u64>,
}

impl AapMessage {
    /// A message of one kind.
    #[must_use]
    pub const fn new(body: Body) -> Self {
        Self { body: Some(body) }
    }
}

impl AapResponse {
    /// A response that says no more than its status.
    #[must_use]
    pub fn of(status: i32) -> Self {
        Self {
            response_status: status,
            ..Self::default()
        }
    }
}

/// Append a message as it stands in the stream: its length as a varint, then itself.
pub fn put_message(message: &impl Message, out: &mut impl BufMut) {
    // prost fails here only when `out` has no room, and the buffers given grow.
    let written = message.encode_length_delimited(out);
    assert!(
        written.is_ok(),
        "a message is encoded into a buffer that grows"
    );
}
