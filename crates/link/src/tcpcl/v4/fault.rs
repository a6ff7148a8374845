//! Breaches of the rules of transfers by a peer.

use thiserror::Error;

/// A breach of the order of segments by a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum SegmentFault {
    /// A transfer began inside another.
    #[error("transfer {0} began inside another (RFC 9174 5.2.2)")]
    Interleaved(u64),
    /// A segment without START of a transfer that is not under way.
    #[error("a segment continues transfer {0}, which is not under way (RFC 9174 5.2.2)")]
    NotUnderWay(u64),
    /// The ID of a transfer that still awaits acknowledgment.
    #[error("transfer ID {0} was used twice (RFC 9174 5.2.1)")]
    Reused(u64),
    /// Too much awaits acknowledgment.
    #[error("too many segments await acknowledgment")]
    Exhausted,
}

/// A fault in a peer's answer to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum AnswerFault {
    /// An answer to a transfer that is not under way.
    #[error("an answer to transfer {0}, which is not under way (RFC 9174 5.1.2)")]
    NotUnderWay(u64),
    /// An acknowledgment that acknowledges nothing new.
    #[error("{octets} octets of transfer {transfer} were acknowledged before (RFC 9174 5.2.3)")]
    Repeated { transfer: u64, octets: u64 },
    /// An acknowledgment of more than was sent.
    #[error(
        "{octets} octets of transfer {transfer} are acknowledged, of which {sent} were sent (RFC 9174 5.2.3)"
    )]
    Overshoot {
        transfer: u64,
        octets: u64,
        sent: u64,
    },
    /// Flags that do not repeat the segment's.
    #[error(
        "acknowledgment flags {flags:#04x} of transfer {transfer} do not repeat the segment's (RFC 9174 5.2.3)"
    )]
    Flags { transfer: u64, flags: u8 },
    /// Too many transfers were answered before an earlier one.
    #[error("transfer {0} goes without an answer while too many later ones were answered")]
    Exhausted(u64),
}

impl AnswerFault {
    /// True when nothing is lost by going on after rejecting the message.
    pub(super) const fn is_harmless(&self) -> bool {
        matches!(self, Self::NotUnderWay(_) | Self::Repeated { .. })
    }
}
