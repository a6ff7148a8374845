//! The rules that segments break.

use crate::datagram::fault::Rule;

/// Faults that have not been reported.
pub(super) type Faults = crate::datagram::fault::Faults<Fault>;

/// A rule that was broken. Section numbers are those of RFC 5326, where no other is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// A segment that ends before it is whole.
    Truncated,
    /// A number of more than 64 bits, or a serial number without a successor.
    Number,
    /// Another version of the protocol.
    Version,
    /// A segment type that is not defined.
    UndefinedType,
    /// A serial number that is zero.
    SerialZero,
    /// A report whose scope is empty.
    ScopeEmpty,
    /// A claim of no octets, beyond its report's scope, or not behind the claim before.
    Claims,
    /// A reason that is not defined.
    Reason,
    /// Client service octets beyond 2^64.
    BeyondNumbers,
    /// A session between other engines.
    AnotherEngine,
    /// An authentication value that is missing or wrong.
    NotAuthentic,
    /// Extensions for several hops of which one is missing, there twice, or of another form, or which change within a block.
    EndToEnd,
    /// A cookie that is missing or wrong.
    NoCookie,
    /// A report or cancellation for a session that never was.
    NeverSent,
    /// A report of octets that were not sent.
    ReportBeyondSent,
    /// A report that answers a checkpoint that was not sent.
    UnknownCheckpoint,
    /// A session in which serial numbers do not follow each other.
    Serials,
    /// A report that takes back claims, or is numbered as no report of its session can be: the receiver has lost the session.
    Reneged,
    /// A checkpoint that answers a report which was never sent: this engine has lost the session.
    StateLost,
    /// A client service that does not exist here.
    UnknownService,
    /// Segments of one session for different client services.
    ServiceContradicted,
    /// Red octets behind green ones.
    Miscolored,
    /// Segments that say different ends of a block or its red part.
    EndContradicted,
    /// A block without octets.
    BlockEmpty,
    /// A block that is too long.
    BlockTooLong,
    /// A session with too many gaps.
    TooManyGaps,
    /// Octets behind gaps that take too much room.
    BeyondGaps,
    /// Too many sessions at a time.
    TooManySessions,
    /// Checkpoints faster than their reports are acknowledged.
    TooManyReports,
    /// A segment for a session that was cancelled, or a session number used again.
    Closed,
    /// A session in which nothing came for too long.
    Idle,
    /// Datagrams that came faster than the node took their events, or their answers left.
    Flooded,
}

impl Rule for Fault {
    fn rule(self) -> &'static str {
        match self {
            Self::Truncated => "a segment ends before it is whole (3)",
            Self::Number => "a number is out of range (2)",
            Self::Version => "a segment has another version (3.1)",
            Self::UndefinedType => "a segment type is not defined (3.1.2)",
            Self::SerialZero => "a serial number is zero (3.2.1, 3.2.2)",
            Self::ScopeEmpty => "a report has an empty scope (6.11)",
            Self::Claims => "reception claims are not in order within their report's scope (3.2.2)",
            Self::Reason => "a reason of a cancellation is not defined (3.2.4)",
            Self::BeyondNumbers => "octets of a segment lie beyond 64 bits (9.3)",
            Self::AnotherEngine => "a segment is of a session between other engines (3.1)",
            Self::NotAuthentic => "a segment is not authentic (RFC 5327 2.1)",
            Self::EndToEnd => "extensions for several hops are wrong (docs/ltp.md)",
            Self::NoCookie => "a segment has no good cookie (RFC 5327 2.2)",
            Self::NeverSent => "a segment answers a session that never was (6.13)",
            Self::ReportBeyondSent => "a report is of octets that were not sent (3.2.2)",
            Self::UnknownCheckpoint => "a report answers no checkpoint that was sent (3.2.2)",
            Self::Serials => "serial numbers of a session do not follow each other (3.2)",
            Self::Reneged => "a report takes back what was claimed (6.22)",
            Self::StateLost => "a checkpoint answers a report that was never sent (3.2.1)",
            Self::UnknownService => "a segment is for an unknown client service (6)",
            Self::ServiceContradicted => "segments of a session name different services (3.2.1)",
            Self::Miscolored => "red octets lie behind green ones (6.21)",
            Self::EndContradicted => "segments say different ends of their block (3.1.3)",
            Self::BlockEmpty => "a block has no octets (6.11)",
            Self::BlockTooLong => "a block is longer than it may be",
            Self::TooManyGaps => "a session has too many gaps",
            Self::BeyondGaps => "octets behind gaps take too much room",
            Self::TooManySessions => "too many sessions are open",
            Self::TooManyReports => "too many reports wait for their acknowledgment",
            Self::Closed => "a segment is of a session that is over (6.20)",
            Self::Idle => "nothing came in a session for too long",
            Self::Flooded => "datagrams come faster than they are answered",
        }
    }
}
