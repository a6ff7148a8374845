//! The ways in which a client may break the protocol.

use alloc::string::{String, ToString};

use bytes::Bytes;
use prost::Message;

use super::delivery::AnswerError;
use super::frame::FrameError;
use super::wire::Body;

/// A breach of the protocol by a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The stream cannot be cut into messages.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message is no message of the schema.
    #[error("a message cannot be decoded: {0}")]
    Undecodable(String),
    /// A message of a kind that does not belong here.
    #[error("{0} was not expected here")]
    Unexpected(&'static str),
    /// More payload than this node takes.
    #[error("a payload of {octets} octets is longer than {most}")]
    PayloadTooLong {
        /// The length as announced.
        octets: u64,
        /// Largest that is taken.
        most: u64,
    },
    /// A response has a status that answers nothing.
    #[error("response status {0} answers nothing")]
    Status(i32),
    /// A response fits no delivery.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

/// Read a message.
pub(super) fn decode<T: Message + Default>(octets: Bytes) -> Result<T, Fault> {
    T::decode(octets).map_err(|error| Fault::Undecodable(error.to_string()))
}

/// The name of a message in the schema.
pub(super) const fn name(body: Option<&Body>) -> &'static str {
    match body {
        None => "an empty or unknown message",
        Some(Body::Welcome(_)) => "a Welcome",
        Some(Body::Config(_)) => "a ConnectionConfig",
        Some(Body::Adu(_)) => "a BundleADU",
        Some(Body::DispatchEvent(_)) => "a DispatchEvent",
        Some(Body::Link(_)) => "a Link",
        Some(Body::Keepalive(_)) => "a Keepalive",
        Some(Body::Refusal(_)) => "a refusal",
    }
}
