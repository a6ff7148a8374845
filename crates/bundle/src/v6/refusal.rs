//! [`Refusal`]: the rule that octets break which are no acceptable bundle of version 6.

use alloc::boxed::Box;
use alloc::string::String;

use thiserror::Error;

use super::header::{MAX_BLOCKS, MAX_HEADER_OCTETS};
use super::trailer::MAX_TRAILER_OCTETS;
use crate::eid::EidError;
use crate::gateway::Untranslatable;

/// Why octets are refused: the rule that they break. Shown as a fragment that fits "cannot read the bundle: …".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The octets end before the bundle does.
    #[error("the octets end before the bundle does")]
    Truncated,
    /// Octets follow the last block.
    #[error("octets follow the last block")]
    OctetsAfterEnd,
    /// A number that does not fit.
    #[error("a number has more than 64 bits or 10 octets")]
    Number,
    /// Another version of the Bundle Protocol.
    #[error("the version is {0}, and 6 is required")]
    Version(u8),
    /// The blocks before the payload exceed what a node keeps in memory for them.
    #[error("the blocks before the payload take more than {MAX_HEADER_OCTETS} octets")]
    HeaderTooLong,
    /// The blocks behind the payload exceed what a node keeps in memory for them.
    #[error("the blocks behind the payload take more than {MAX_TRAILER_OCTETS} octets")]
    TrailerTooLong,
    /// More blocks than a node looks at.
    #[error("there are more than {MAX_BLOCKS} blocks beside the payload")]
    TooManyBlocks,
    /// The primary block is not as long as it says.
    #[error("the primary block says that it has {said} octets, and has {has}")]
    PrimaryBlockLength {
        /// Octets behind the length, as it says.
        said: u64,
        /// Octets of its fields.
        has: u64,
    },
    /// A field that refers to no string of the dictionary.
    #[error(
        "the {field} refers to octet {offset} of a dictionary of {octets}, where no string begins"
    )]
    Reference {
        /// The field's name.
        field: &'static str,
        /// The offset.
        offset: u64,
        /// Octets of the dictionary.
        octets: usize,
    },
    /// A field that is no endpoint ID.
    #[error("the {field} is refused: \"{text}\": {refusal}")]
    EndpointId {
        /// The field's name.
        field: &'static str,
        /// The text.
        text: String,
        /// The reason.
        refusal: EidError,
    },
    /// A fragment that says it must not be fragmented.
    #[error("it is a fragment of a bundle that must not be fragmented")]
    FragmentNotAllowed,
    /// A fragment that does not lie within its application data unit.
    #[error(
        "the fragment ({length} octets at {offset}) is beyond the {total} octets of the data unit"
    )]
    FragmentRange {
        /// Fragment offset in octets.
        offset: u64,
        /// Payload length in octets.
        length: u64,
        /// Total application data unit length in octets.
        total: u64,
    },
    /// An administrative record that requests reports or custody.
    #[error("it carries an administrative record and requests status reports or custody")]
    RecordRequestsReports,
    /// An anonymous bundle that may be fragmented, or requests something.
    #[error(
        "its source is the null endpoint, and it may be fragmented or requests reports or custody"
    )]
    Anonymous,
    /// A block that says it is the last, before the payload.
    #[error("the last block comes before the payload")]
    PayloadMissing,
    /// A second payload block.
    #[error("there are two payload blocks")]
    TwoPayloads,
    /// A creation timestamp without a partner in version 7, by which this program knows a bundle.
    #[error(transparent)]
    Untranslatable(Box<Untranslatable>),
    /// The bundle would be longer than can be counted.
    #[error("the bundle would be longer than 2^64-1 octets")]
    BundleTooLong,
}

impl Refusal {
    /// The section of the standard that has the rule.
    #[must_use]
    pub const fn section(&self) -> &'static str {
        match self {
            Self::Truncated | Self::OctetsAfterEnd | Self::PayloadMissing => "RFC 5050 4",
            Self::Number => "RFC 6256 2",
            Self::Version(_) | Self::PrimaryBlockLength { .. } | Self::Reference { .. } => {
                "RFC 5050 4.5.1"
            }
            Self::HeaderTooLong
            | Self::TrailerTooLong
            | Self::TooManyBlocks
            | Self::Untranslatable(_)
            | Self::BundleTooLong => "a bound of this program",
            Self::EndpointId { .. } => "RFC 5050 4.4",
            Self::FragmentNotAllowed => "RFC 5050 5.8",
            Self::FragmentRange { .. } => "RFC 5050 4.5.1",
            Self::RecordRequestsReports | Self::Anonymous => "RFC 5050 4.2",
            Self::TwoPayloads => "RFC 5050 4.5.3",
        }
    }
}
