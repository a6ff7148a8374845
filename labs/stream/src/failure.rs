//! Why a stream came to nothing.

use std::io;

use dhow_bundle::Refusal;

/// Fits "cannot go on: {failure}".
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The connection could not be made, or failed.
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    /// The session ended, or never began.
    #[error("the session is over: {0}")]
    Session(String),
    /// The neighbour did not take a bundle.
    #[error("the neighbour refused bundle {0}: {1}")]
    Refused(u64, &'static str),
    /// The octets are no bundle, or not a whole one.
    #[error("a bundle is wrong: {0}")]
    Bundle(#[from] Refusal),
    /// A bundle came that no generator makes.
    #[error("a bundle came that is {0}")]
    Foreign(&'static str),
    /// Nothing moved for too long.
    #[error("nothing moved for {0} s")]
    Stalled(u64),
    /// A line on standard input was not understood.
    #[error("'{0}' is no order")]
    Order(String),
}
