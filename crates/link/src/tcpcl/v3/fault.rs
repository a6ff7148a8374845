//! Breaches of the rules of transfers by a peer. RFC 7242 has no message that rejects another, so each ends the session.

use thiserror::Error;

/// A breach of the order of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum SegmentFault {
    /// A bundle began inside another.
    #[error("a bundle began inside another (RFC 7242 5.2)")]
    Interleaved,
    /// A segment without S and no bundle under way.
    #[error("a segment continues no bundle (RFC 7242 5.2)")]
    NotUnderWay,
    /// A LENGTH that no bundle follows.
    #[error("a LENGTH does not come right before a bundle (RFC 7242 5.5)")]
    MisplacedLength,
    /// A segment after the peer's SHUTDOWN.
    #[error("a segment came after SHUTDOWN (RFC 7242 3)")]
    AfterShutdown,
    /// The bundle is not taken, and the peer has not said that it knows refusals.
    #[error(
        "a bundle has another length than announced, or more than {0} octets, and refusals were not negotiated (RFC 7242 5.4)"
    )]
    Unrefusable(u64),
    /// Too much awaits acknowledgment.
    #[error("too many segments await acknowledgment")]
    Exhausted,
}

/// A wrong answer of a peer to a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum AnswerFault {
    /// An answer of a kind that was not agreed on.
    #[error("an answer of a kind that was not negotiated (RFC 7242 4.2)")]
    NotNegotiated,
    /// An answer when no segment waits for one.
    #[error("an answer to no segment (RFC 7242 5.4)")]
    NotUnderWay,
    /// An acknowledgment that acknowledges nothing new.
    #[error("{octets} octets are acknowledged, {acknowledged} of them before (RFC 7242 5.3)")]
    Repeated { octets: u64, acknowledged: u64 },
    /// An acknowledgment of more than was sent.
    #[error("{octets} octets are acknowledged, of which {sent} were sent (RFC 7242 5.3)")]
    Overshoot { octets: u64, sent: u64 },
    /// An acknowledgment of a part of a segment: it may be meant for another bundle.
    #[error(
        "{octets} octets are acknowledged, less than the first segment has, {first_segment} (RFC 7242 5.3)"
    )]
    NoBoundary { octets: u64, first_segment: u64 },
    /// An acknowledgment while refusals are to come: to which bundle the last answers belonged is not known.
    #[error(
        "some segments of a refused bundle were refused again and others were not (RFC 7242 5.4)"
    )]
    Unclear,
}
