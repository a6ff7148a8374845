//! [`AdministrativeRecord`]: the payload of an administrative bundle, by type.

use alloc::vec::Vec;

use bytes::Bytes;
use thiserror::Error;

use super::aggregated_report::AggregatedReport;
use super::status_report::StatusReport;
use crate::cbor::{CborError, Reader, write_array, write_unsigned};
use crate::eid::EidRefusal;
use crate::reading::Reading;

/// Record type code of status reports (RFC 9171 6.1).
const STATUS_REPORT: u64 = 1;

/// Record type code of aggregated reports: one of those left for private use (RFC 9713).
const AGGREGATED_REPORT: u64 = 64_836;

/// An administrative record (RFC 9171 6.1, RFC 9713).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdministrativeRecord {
    /// Type 1.
    StatusReport(StatusReport),
    /// Type 64836: status reports on many bundles (`docs/aggregated-reports.md`).
    AggregatedReport(AggregatedReport),
    /// Any other type, which a node ignores (RFC 9713 2): its code and its content, one CBOR item.
    Other {
        /// Record type code; never 0, 1 or 64836.
        record_type: u64,
        /// The content as received.
        content: Bytes,
    },
}

/// Why a payload is no administrative record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordRefusal {
    /// The CBOR is not what records are made of.
    #[error(transparent)]
    Cbor(#[from] CborError),
    /// Type 0 is reserved (RFC 9713).
    #[error("the record type 0 is reserved")]
    ReservedType,
    /// The source of the bundle reported on is no endpoint ID.
    #[error("the source node ID is refused: {0}")]
    Source(EidRefusal),
    /// A time with a status that is not asserted (RFC 9171 6.1.1).
    #[error("a status that is not asserted has a time")]
    TimeWithoutAssertion,
    /// A status indicator that is an integer other than 0 and 1.
    #[error("the status indicator is {0}, neither true nor false")]
    Indicator(u64),
    /// A status of an aggregated report that is none of the four.
    #[error("the status {0} of an aggregated report is not known")]
    Status(u64),
    /// Numbers of an aggregated report lead beyond 2^64-1, or a run names no bundle.
    #[error("a run of an aggregated report names no bundle, or one beyond 2^64-1")]
    RunOutOfRange,
    /// More than [`MAX_REPORTS`](super::MAX_REPORTS).
    #[error("the aggregated report stands for more than 65536 reports")]
    TooManyReports,
    /// An aggregated report, or a group of one, without content.
    #[error("the aggregated report or a group of it is empty")]
    EmptyReport,
    /// Octets follow the record.
    #[error("octets follow the record")]
    OctetsAfterEnd,
}

impl AdministrativeRecord {
    /// Reads the payload of a bundle whose flags say that it is an administrative record.
    ///
    /// # Errors
    /// The rule of RFC 9171 6.1 that the payload breaks; the record is then ignored (RFC 9713 2).
    pub fn decode(payload: &Bytes, reading: Reading) -> Result<Self, RecordRefusal> {
        let mut reader = Reader::new(payload);
        let mut array = reader.array()?;
        array.item(&mut reader)?;
        let record_type = reader.unsigned()?;
        array.item(&mut reader)?;
        let record = match record_type {
            0 => return Err(RecordRefusal::ReservedType),
            STATUS_REPORT => Self::StatusReport(StatusReport::decode(&mut reader, reading)?),
            AGGREGATED_REPORT => {
                Self::AggregatedReport(AggregatedReport::decode(&mut reader, reading)?)
            }
            record_type => {
                let start = reader.position();
                reader.skip()?;
                Self::Other {
                    record_type,
                    content: payload.slice(start..reader.position()),
                }
            }
        };
        array.end(&mut reader)?;
        if reader.is_empty() {
            Ok(record)
        } else {
            Err(RecordRefusal::OctetsAfterEnd)
        }
    }

    /// The payload that carries this record.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        write_array(&mut out, 2);
        match self {
            Self::StatusReport(report) => {
                write_unsigned(&mut out, STATUS_REPORT);
                report.encode(&mut out);
            }
            Self::AggregatedReport(report) => {
                write_unsigned(&mut out, AGGREGATED_REPORT);
                report.encode(&mut out);
            }
            Self::Other {
                record_type,
                content,
            } => {
                write_unsigned(&mut out, *record_type);
                out.extend_from_slice(content);
            }
        }
        out.into()
    }
}
