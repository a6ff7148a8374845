//! Why a measurement came to nothing.

use std::io;
use std::path::PathBuf;

use crate::frame::FrameError;

/// Fits "cannot measure: {failure}".
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A log could not be prepared.
    #[error("the log {} cannot be prepared: {_1}", _0.display())]
    Log(PathBuf, io::Error),
    /// A log took nothing.
    #[error("the log cannot be written: {0}")]
    Append(io::Error),
    /// The sender's log gave nothing.
    #[error("the sender's log cannot be read: {0}")]
    Read(io::Error),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Stream(io::Error),
    /// Octets arrived that are no frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream ended inside a frame.
    #[error("the stream ended inside frame {0}")]
    Cut(u64),
    /// The other side said nothing for too long.
    #[error("the other side is silent")]
    Silent,
    /// The connection ended before all was acknowledged.
    #[error("{acknowledged} of {sent} octets were acknowledged when the receiver left")]
    Unacknowledged {
        /// Octets acknowledged.
        acknowledged: u64,
        /// Octets sent.
        sent: u64,
    },
    /// A process of this measurement failed.
    #[error("the {0} failed")]
    Process(&'static str),
    /// A process could not be run, or not be understood.
    #[error("the {0} cannot be run: {1}")]
    Start(&'static str, io::Error),
    /// An option makes no sense.
    #[error("{0}")]
    Option(&'static str),
}
