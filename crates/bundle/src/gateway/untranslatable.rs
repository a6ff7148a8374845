//! [`Untranslatable`]: what the other version has no place for.

use thiserror::Error;

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
}
