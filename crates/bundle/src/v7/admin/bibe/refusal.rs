//! [`BibeRefusal`]: the rule that a record breaks.

use thiserror::Error;

use super::signal::MAX_RUNS;
use crate::cbor::CborError;

/// Why a payload is no record of Bundle-in-Bundle Encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BibeRefusal {
    /// The CBOR is not what these records are made of.
    #[error(transparent)]
    Cbor(#[from] CborError),
    /// The record is of another type.
    #[error("the record type {0} is none of the record that is read")]
    Type(u64),
    /// An array of indefinite length, which would let octets follow the encapsulated bundle, or runs whose number is not known ahead.
    #[error("the array before octet {0} has an indefinite length")]
    IndefiniteArray(u64),
    /// The payload ends before the encapsulated bundle does.
    #[error("the payload ends before the encapsulated bundle does")]
    BundleCut,
    /// Octets follow the record.
    #[error("octets follow the record")]
    OctetsAfterEnd,
    /// A signal that names no transmission.
    #[error("the signal names no transmission")]
    EmptySignal,
    /// More than [`MAX_RUNS`].
    #[error("the signal has more than {MAX_RUNS} runs of transmission IDs")]
    TooManyRuns,
    /// A run that is empty, begins with 0, leads beyond 2^64-1, or does not begin behind the run before it.
    #[error(
        "a run of transmission IDs is empty, begins with 0, leads beyond 2^64-1 or is not behind the run before it"
    )]
    Run,
}
