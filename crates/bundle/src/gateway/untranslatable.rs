//! [`Untranslatable`]: the field or block for which the other version has no place.

use thiserror::Error;

use super::{MAX_REMEMBERED_BLOCKS, MAX_REMEMBERED_OCTETS};
use crate::eid::EndpointId;
use crate::{v6, v7};

/// Why a bundle or a record cannot cross. Shown as a fragment that fits "cannot translate the bundle: …".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Untranslatable {
    /// A creation time of version 7 in the first second of the year 2000, which version 6 would read as "no clock".
    #[error(
        "the creation time {time_ms} ms lies in the first second of 2000, which means no clock in version 6"
    )]
    FirstSecond {
        /// Milliseconds since the year 2000 began: 1 to 999.
        time_ms: u64,
    },
    /// A creation time of version 6 that has no milliseconds of 64 bits.
    #[error("the creation time {seconds} s is beyond the milliseconds of version 7")]
    CreationTime {
        /// Seconds since the year 2000 began.
        seconds: u64,
    },
    /// A sequence number of version 7 that has no place beside its milliseconds in 64 bits.
    #[error("the sequence number {sequence} is beyond those of version 6")]
    SequenceNumber {
        /// The sequence number.
        sequence: u64,
    },
    /// An endpoint ID of an allocator that version 6 has not, or of "this node".
    #[error("the {field} {endpoint} has no form in the other version")]
    Endpoint {
        /// The field that has it.
        field: &'static str,
        /// The endpoint ID.
        endpoint: EndpointId,
    },
    /// A fragment without payload, which version 7 has not.
    #[error("it is a fragment without payload")]
    EmptyFragment,
    /// A fragment of an administrative record, which has another length in the other version.
    #[error("it is a fragment of an administrative record")]
    FragmentOfRecord,
    /// An administrative record whose translation is not given.
    #[error("it carries an administrative record, which is not translated")]
    Record,
    /// A block of a security protocol, none of which crosses.
    #[error("the security block of type {block_type} is of version {version} alone")]
    Security {
        /// The version that it is of.
        version: u8,
        /// Block type code.
        block_type: u64,
    },
    /// An unknown block that the bundle must be deleted for where it cannot be processed.
    #[error(
        "the block of type {block_type} is unknown, and its flags ask for the bundle's deletion"
    )]
    Block {
        /// The version that it is of.
        version: u8,
        /// Block type code.
        block_type: u64,
    },
    /// A block of version 6 that refers to the dictionary, which does not cross.
    #[error("the block of type {block_type} refers to the dictionary")]
    References {
        /// Block type code.
        block_type: u8,
    },
    /// More blocks, or larger ones, than go along.
    #[error(
        "{blocks} blocks with {octets} octets would go along, more than {MAX_REMEMBERED_BLOCKS} or {MAX_REMEMBERED_OCTETS}"
    )]
    TooMuch {
        /// Blocks that would go along.
        blocks: usize,
        /// Octets of their content.
        octets: usize,
    },
    /// The bundle was forwarded more often than it may be.
    #[error("it has crossed or been forwarded {count} times, and may {limit} times")]
    HopLimit {
        /// Hop limit.
        limit: u8,
        /// Hop count.
        count: u64,
    },
    /// A status report of version 6 that asserts "custody accepted".
    #[error("the status report says that custody was accepted")]
    CustodyAccepted,
    /// A custody signal.
    #[error("the record is a custody signal")]
    CustodySignal,
    /// An aggregate custody signal.
    #[error("the record is an aggregate custody signal")]
    AggregateSignal,
    /// An aggregated report.
    #[error("the record is an aggregated report")]
    AggregatedReport,
    /// A record of version 7 that is no report.
    #[error("the record is of the type {0}")]
    RecordType(u64),
    /// A status report that asserts nothing.
    #[error("the status report asserts nothing")]
    EmptyReport,
    /// A time of a status report that has no milliseconds of 64 bits.
    #[error("the report's time {seconds} s is beyond the milliseconds of version 7")]
    ReportTime {
        /// Seconds since the year 2000 began.
        seconds: u64,
    },
    /// Another rule of version 6.
    #[error("version 6 would refuse it: {0}")]
    Version6(v6::Refusal),
    /// Another rule of version 7.
    #[error("version 7 would refuse it: {0}")]
    Version7(v7::refusal::Refusal),
}
