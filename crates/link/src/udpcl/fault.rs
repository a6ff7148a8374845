//! Rules that datagrams break: counted, never fatal.

use crate::datagram::fault::Rule;

/// Faults that have not been reported.
pub(super) type Faults = crate::datagram::fault::Faults<Fault>;

/// A rule that was broken. Section numbers are those of draft-ietf-dtn-udpcl-04.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The datagram is empty.
    NoMessage,
    /// A first octet that no message has.
    UnknownMessage,
    /// A record of DTLS, or the wish for it.
    Dtls,
    /// Something other than a map or padding behind a map.
    MessageBehindMap,
    /// An extension map that is no well-formed map.
    MapMalformed,
    /// A key that is no 16-bit integer.
    KeyOutOfRange,
    /// An extension item of another type than its definition has, or beyond its range.
    ItemMalformed,
    /// A segment without octets.
    SegmentEmpty,
    /// A segment that goes beyond its transfer's end.
    SegmentBeyondLength,
    /// A segment that overlaps others in part.
    SegmentOverlaps,
    /// A transfer of which too many separate parts came.
    TooManyGaps,
    /// A transfer that is too long.
    TransferTooLong,
    /// Segments of one transfer that say different lengths.
    LengthContradicted,
    /// A transfer that does not begin as a bundle.
    NotBundle,
    /// A transfer that gave way to others.
    TransferEvicted,
    /// Another node ID than the configured one.
    AnotherNode,
    /// Datagrams that came faster than the node took their events.
    Flooded,
}

impl Rule for Fault {
    fn rule(self) -> &'static str {
        match self {
            Self::NoMessage => "a datagram is empty (3.3)",
            Self::UnknownMessage => "a datagram begins as no message does (3.4)",
            Self::Dtls => "DTLS is asked for, which is not supported (3.10)",
            Self::MessageBehindMap => {
                "an extension map is followed by neither map nor padding (3.4)"
            }
            Self::MapMalformed => "an extension map is not well-formed (3.5)",
            Self::KeyOutOfRange => "an extension ID is no 16-bit integer (3.5)",
            Self::ItemMalformed => "an extension item is not as defined (3.5)",
            Self::SegmentEmpty => "a segment has no octets (3.6.2)",
            Self::SegmentBeyondLength => "a segment goes beyond its transfer's end (3.5.2)",
            Self::SegmentOverlaps => "segments of a transfer overlap (3.6.2)",
            Self::TooManyGaps => "too many separate parts of a transfer came",
            Self::TransferTooLong => "a transfer is longer than it may be",
            Self::LengthContradicted => "segments say different lengths of their transfer (3.5.2)",
            Self::NotBundle => "a transfer does not begin as a bundle does (3.6.2)",
            Self::TransferEvicted => "incomplete transfers take too much room",
            Self::AnotherNode => "the peer says another node ID than is configured (3.5.4)",
            Self::Flooded => "datagrams come faster than they are taken",
        }
    }
}
