//! The reasons for which a file fails that is sent, to a near engine or over several hops.

use std::fmt;

use dhow_link::ltp::Status;
use dhow_link::stream::RefuseReason;

use super::leaving::Unreadable;

/// The engine that a file leaves for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counterpart {
    /// The file is for this engine.
    Receiver,
    /// The file is for an engine behind it.
    NextHop,
}

impl fmt::Display for Counterpart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Receiver => "the receiver",
            Self::NextHop => "the next hop",
        })
    }
}

/// The reason for which a file failed.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
    /// Checkpoints were not answered, or too much was lost.
    #[error("{0} does not answer, or too much is lost (RLEXC)")]
    Unanswered(Counterpart),
    /// The engine has no room, or another trouble.
    #[error("{0} cancelled the session: it has no room, or another trouble (SYS_CNCLD)")]
    NoRoom(Counterpart),
    /// The engine has no such client service.
    #[error("{0} has no such client service (UNREACH)")]
    NoService(Counterpart),
    /// The engine does not want the file.
    #[error("{0} cancelled the session (USR_CNCLD)")]
    Unwanted(Counterpart),
    /// The engine has begun anew, or was silent.
    #[error("{0} has lost the session, or was silent for too long")]
    Lost(Counterpart),
    /// The sender ended.
    #[error("the sender ended before it was acknowledged")]
    Ended,
    /// The sender ended while the next hop had the file.
    #[error("the sender ended before a report came")]
    NotAwaited,
    /// The file has a life, which ended before the next hop had it.
    #[error("its life ended before the next hop had it")]
    TooLate,
    /// The next hop has the file, and no report came.
    #[error("no report came before its life ended")]
    NoReport,
    /// An engine on the way, or the far one, reports a failure.
    #[error("{}, as engine {by} reports", told(*.status))]
    Reported {
        /// The engine.
        by: u64,
        /// The outcome.
        status: Status,
    },
}

impl Why {
    /// The reason that the end of a session is.
    pub(super) const fn of(of: Counterpart, refused: Option<RefuseReason>) -> Self {
        match refused {
            None => Self::Lost(of),
            Some(RefuseReason::Retransmit) => Self::Unanswered(of),
            Some(RefuseReason::NoResources) => Self::NoRoom(of),
            Some(RefuseReason::NotAcceptable) => Self::NoService(of),
            Some(_) => Self::Unwanted(of),
        }
    }
}

/// The outcome of a transfer in words.
const fn told(status: Status) -> &'static str {
    match status {
        Status::Complete => "it is there",
        Status::Partial => "green octets were lost on the way",
        Status::Expired => "its life ended on the way",
        Status::NoRoute => "no hop leads there, or it made as many hops as it might",
        Status::NoSpace => "a hop had no room for it until its life ended",
        Status::TooLarge => "it is larger than the files that are taken there (--largest)",
        Status::GivenUp => "a hop gave it up, or cancelled the session (USR_CNCLD)",
    }
}
