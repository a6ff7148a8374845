//! [`Refusal`]: the rule that octets break which are no acceptable bundle.

use alloc::string::String;

use thiserror::Error;

use crate::cbor::CborError;
use crate::eid::EidRefusal;
use crate::header::{MAX_EXTENSION_BLOCKS, MAX_HEADER_OCTETS};
use crate::v6;
use crate::v7::admin::ReasonCode;

/// Why octets are refused: the rule that they break. Shown as a fragment that fits "cannot read the
/// bundle: …".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The octets end before the bundle does.
    #[error("the octets end before the bundle does")]
    Truncated,
    /// Octets follow the end of the bundle.
    #[error("octets follow the end of the bundle")]
    OctetsAfterEnd,
    /// The CBOR is not well-formed, not in core deterministic encoding, or not the item required.
    #[error("{0}")]
    Cbor(CborError),
    /// The first octet begins no bundle.
    #[error("a bundle begins with an array of indefinite length (0x9f), not with {0:#04x}")]
    NotBundle(u8),
    /// A bundle of version 6 breaks one of its rules.
    #[error(transparent)]
    V6(#[from] v6::Refusal),
    /// Another version of the Bundle Protocol.
    #[error("the version is {0}, and 7 is required")]
    Version(u64),
    /// The blocks before the payload exceed what a node keeps in memory for them.
    #[error("the blocks before the payload take more than {MAX_HEADER_OCTETS} octets")]
    HeaderTooLong,
    /// More extension blocks than a node looks at.
    #[error("there are more than {MAX_EXTENSION_BLOCKS} extension blocks")]
    TooManyBlocks,
    /// Payload and framing together exceed 2^64-1 octets.
    #[error("the bundle would be longer than 2^64-1 octets")]
    BundleTooLong,
    /// A code that names no CRC.
    #[error("{0} is not a CRC type")]
    CrcType(u64),
    /// The number of items of the primary block is not what its flags and CRC type require.
    #[error("the primary block has the wrong number of items for its flags and CRC type")]
    PrimaryBlockLength,
    /// The number of items of a canonical block is not what its CRC type requires.
    #[error("block {number} has the wrong number of items for its CRC type")]
    BlockLength {
        /// Block number.
        number: u64,
    },
    /// A CRC field of another width than its type's.
    #[error("the CRC of block {number} is not a byte string of its type's length")]
    CrcLength {
        /// Block number; 0 for the primary block.
        number: u64,
    },
    /// A checksum that does not match.
    #[error("the CRC of block {number} does not match")]
    CrcMismatch {
        /// Block number; 0 for the primary block.
        number: u64,
    },
    /// A primary block with neither CRC nor Block Integrity Block.
    #[error("the primary block has neither a CRC nor a Block Integrity Block that targets it")]
    PrimaryBlockWithoutCrc,
    /// A field of the primary block that is no endpoint ID.
    #[error("the {field} is refused: {refusal}")]
    EndpointId {
        /// The field's name.
        field: &'static str,
        /// The reason.
        refusal: EidRefusal,
    },
    /// An endpoint of "this node" came from outside.
    #[error("the {field} is an endpoint of \"this node\", which has no meaning outside it")]
    LocalNode {
        /// The field's name.
        field: &'static str,
    },
    /// A fragment that says it must not be fragmented.
    #[error("it is a fragment of a bundle that must not be fragmented")]
    FragmentNotAllowed,
    /// An administrative record that requests reports.
    #[error("it carries an administrative record and requests status reports")]
    RecordRequestsReports,
    /// An anonymous bundle that may be fragmented.
    #[error("its source is the null endpoint and it may be fragmented")]
    AnonymousMayBeFragmented,
    /// An anonymous bundle that requests reports.
    #[error("its source is the null endpoint and it requests status reports")]
    AnonymousRequestsReports,
    /// A block of an administrative record or anonymous bundle that requests a report.
    #[error(
        "block {number} requests a status report in an administrative record or anonymous bundle"
    )]
    BlockRequestsReport {
        /// Block number.
        number: u64,
    },
    /// A fragment that does not lie within its application data unit, or is empty.
    #[error(
        "the fragment ({length} octets at {offset}) is empty or beyond the {total} octets of the data unit"
    )]
    FragmentRange {
        /// Fragment offset in octets.
        offset: u64,
        /// Payload length in octets.
        length: u64,
        /// Total application data unit length in octets.
        total: u64,
    },
    /// An extension block numbered 0 (the primary block's) or 1 (the payload block's).
    #[error("an extension block has the number {number}, which is reserved")]
    BlockNumberReserved {
        /// Block number.
        number: u64,
    },
    /// Two blocks with one number.
    #[error("two blocks have the number {number}")]
    BlockNumberRepeated {
        /// Block number.
        number: u64,
    },
    /// A payload block whose number is not 1.
    #[error("the payload block has the number {number}, and 1 is required")]
    PayloadBlockNumber {
        /// Block number.
        number: u64,
    },
    /// The bundle ends without a payload block.
    #[error("there is no payload block")]
    PayloadBlockMissing,
    /// Something other than the end follows the payload block.
    #[error("the payload block is not the last")]
    PayloadBlockNotLast,
    /// More than one block of a type of which one is allowed.
    #[error("there are two blocks of type {block_type}")]
    BlockTypeRepeated {
        /// Block type code.
        block_type: u64,
    },
    /// No bundle age block although the creation time is 0.
    #[error("the creation time is 0 and there is no bundle age block")]
    BundleAgeMissing,
    /// The content of a block that every node understands is not what its type requires.
    #[error("the content of block {number} (type {block_type}) is not valid: {why}")]
    BlockContent {
        /// Block number.
        number: u64,
        /// Block type code.
        block_type: u64,
        /// The fault, as the end of a sentence.
        why: String,
    },
    /// A hop limit outside 1 to 255.
    #[error("the hop limit is {0}, and 1 to 255 is required")]
    HopLimit(u64),
}

impl Refusal {
    /// The section of the standard that states the rule.
    #[must_use]
    pub const fn section(&self) -> &'static str {
        match self {
            Self::Truncated
            | Self::OctetsAfterEnd
            | Self::NotBundle(_)
            | Self::HeaderTooLong
            | Self::TooManyBlocks
            | Self::BundleTooLong
            | Self::BlockNumberReserved { .. }
            | Self::BlockNumberRepeated { .. }
            | Self::PayloadBlockNumber { .. }
            | Self::PayloadBlockMissing
            | Self::PayloadBlockNotLast => "RFC 9171 4.1",
            Self::Cbor(error) => match error {
                CborError::NotShortest { .. } => "RFC 8949 4.2.1",
                _ => "RFC 9171 4.1",
            },
            Self::V6(refusal) => refusal.section(),
            Self::Version(_)
            | Self::PrimaryBlockLength
            | Self::PrimaryBlockWithoutCrc
            | Self::FragmentRange { .. } => "RFC 9171 4.3.1",
            Self::CrcType(_) => "RFC 9171 4.2.1",
            Self::CrcLength { .. } | Self::CrcMismatch { .. } => "RFC 9171 4.2.2",
            Self::BlockLength { .. } => "RFC 9171 4.3.2",
            Self::EndpointId { .. } => "RFC 9171 4.2.5.1",
            Self::LocalNode { .. } => "RFC 9758 5.4",
            Self::FragmentNotAllowed
            | Self::RecordRequestsReports
            | Self::AnonymousMayBeFragmented
            | Self::AnonymousRequestsReports => "RFC 9171 4.2.3",
            Self::BlockRequestsReport { .. } => "RFC 9171 4.2.4",
            Self::BundleAgeMissing => "RFC 9171 4.4.2",
            Self::HopLimit(_) => "RFC 9171 4.4.3",
            Self::BlockTypeRepeated { block_type } | Self::BlockContent { block_type, .. } => {
                match *block_type {
                    6 => "RFC 9171 4.4.1",
                    7 => "RFC 9171 4.4.2",
                    10 => "RFC 9171 4.4.3",
                    _ => "RFC 9171 4.4",
                }
            }
        }
    }

    /// The reason that a report of the bundle's deletion gives (RFC 9171 5.6 step 3).
    #[must_use]
    pub const fn status_reason(&self) -> ReasonCode {
        match self {
            Self::HeaderTooLong | Self::TooManyBlocks | Self::BundleTooLong => {
                ReasonCode::DepletedStorage
            }
            _ => ReasonCode::BlockUnintelligible,
        }
    }
}
