//! Why a store cannot be opened.

use crate::disk::DiskError;

/// Why a store cannot be opened. Nothing has been changed then.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// The disk refused.
    #[error("the disk refused: {0}")]
    Disk(#[from] DiskError),
    /// A newer program wrote it.
    #[error(
        "the store was written by a newer version {version}; this program reads up to version {readable}"
    )]
    NewerVersion {
        /// Format version found.
        version: u32,
        /// Newest format version that this program reads.
        readable: u32,
    },
    /// The log file is something else.
    #[error("the log is not a bundle store")]
    NotAStore,
    /// Both superblocks fail their checksums.
    #[error("both superblocks of the store are damaged")]
    Damaged,
    /// The options ask for what the format does not allow.
    #[error("a segment size of {octets} octets is not a multiple of 4096 from 65536 to 1073741824")]
    SegmentSize {
        /// The size asked for.
        octets: u32,
    },
}

/// The trouble that kept a record from being written.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// No segment is to be had for this purpose; all else is as it was.
    Full,
    /// The disk refused: nothing since the last sync can be relied on.
    Disk(DiskError),
}

impl From<DiskError> for Trouble {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}
