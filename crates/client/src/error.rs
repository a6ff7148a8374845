//! Errors between a client and its node.

use std::fmt;
use std::io;
use std::time::Duration;

use dhow_node::api::wire::{
    AapResponse, STATUS_ERROR, STATUS_INVALID_REQUEST, STATUS_NOT_FOUND, STATUS_UNAUTHORIZED,
};

use crate::address::Address;

/// Why a call did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers at the address.
    #[error("nobody answers at {address}: {source}")]
    Unreachable {
        /// The address that was tried.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
    /// The connection was there and is lost; requests without an answer may or may not have been done.
    #[error("the node closed the connection{}", because(.0.as_ref()))]
    Disconnected(Option<io::Error>),
    /// The node did not answer in the time that a call allows it.
    #[error("the node did not answer within {}", span(*.0))]
    Silent(Duration),
    /// The node refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The octets received are no message that a node sends at this place.
    #[error("the other side broke the protocol: {0}")]
    Protocol(String),
    /// The payload to send could not be read; the connection is of no more use.
    #[error("the payload cannot be read: {0}")]
    Payload(#[source] io::Error),
    /// The payload to send ended early; the connection is of no more use.
    #[error("the payload ended {missing} octets before its announced length of {length}")]
    PayloadShort {
        /// The length as announced.
        length: u64,
        /// Octets that did not come.
        missing: u64,
    },
}

impl Error {
    /// True when connecting again may help: the node is away, went away, or is silent.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Disconnected(_) | Self::Silent(_)
        )
    }
}

/// Whole seconds, or milliseconds: `30 s`, `1500 ms`.
fn span(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{} ms", time.as_millis()),
    }
}

fn because(error: Option<&io::Error>) -> String {
    error.map(|error| format!(": {error}")).unwrap_or_default()
}

/// A node's refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// The response's status; see the `STATUS_` constants of the node's messages.
    pub status: i32,
    /// The node's reason, for people; may be empty.
    pub message: String,
}

impl Refusal {
    /// True when the same request may succeed later: the store is full, say.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        self.status == STATUS_ERROR
    }

    /// True when the node does not allow it: another application holds the endpoint, say.
    #[must_use]
    pub const fn is_unauthorized(&self) -> bool {
        self.status == STATUS_UNAUTHORIZED
    }

    pub(crate) fn of(response: AapResponse) -> Self {
        Self {
            status: response.response_status,
            message: response.message,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.message.is_empty() {
            return write!(f, "{}", self.message);
        }
        match self.status {
            STATUS_ERROR => write!(f, "the node cannot do it now"),
            STATUS_INVALID_REQUEST => write!(f, "the node calls the request invalid"),
            STATUS_NOT_FOUND => write!(f, "the node knows no such thing"),
            STATUS_UNAUTHORIZED => write!(f, "the node does not allow it"),
            status => write!(f, "the node answers with status {status}"),
        }
    }
}
