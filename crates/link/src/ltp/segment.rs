//! The types of segments: RFC 5326 3.

use alloc::vec::Vec;

use bytes::Bytes;

/// The name of a session among all between two engines (RFC 5326 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SessionId {
    /// The engine that sends the block.
    pub(super) originator: u64,
    /// Chosen by that engine.
    pub(super) number: u64,
}

/// The nature of a data segment (RFC 5326 3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataKind {
    /// Red, and no more to say.
    Red,
    /// A red checkpoint before the end of the red part.
    RedCheckpoint,
    /// The end of the red part (EORP), which green octets follow; a checkpoint.
    RedEnd,
    /// The end of the red part and of the block; a checkpoint.
    BlockRedEnd,
    /// Green, and no more to say.
    Green,
    /// Green, and the end of the block (EOB).
    BlockGreenEnd,
}

impl DataKind {
    pub(super) const fn is_red(self) -> bool {
        !matches!(self, Self::Green | Self::BlockGreenEnd)
    }

    pub(super) const fn is_checkpoint(self) -> bool {
        self.is_red() && !matches!(self, Self::Red)
    }

    /// The end of the red part.
    pub(super) const fn is_red_end(self) -> bool {
        matches!(self, Self::RedEnd | Self::BlockRedEnd)
    }

    /// The end of the block.
    pub(super) const fn is_block_end(self) -> bool {
        matches!(self, Self::BlockRedEnd | Self::BlockGreenEnd)
    }
}

/// The serial numbers in a checkpoint (RFC 5326 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Serials {
    /// The serial number of the checkpoint, never zero.
    pub(super) checkpoint: u64,
    /// The serial number of the report that it answers, or zero.
    pub(super) report: u64,
}

/// All of a data segment but its octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataHead {
    pub(super) session: SessionId,
    pub(super) kind: DataKind,
    pub(super) service: u64,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The serial numbers of checkpoints, and only of these.
    pub(super) serials: Option<Serials>,
}

impl DataHead {
    /// The first offset behind the segment (RFC 5326 2: upper bound). The decoder refuses those beyond 64 bits.
    pub(super) const fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// A data segment (RFC 5326 3.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) head: DataHead,
    pub(super) octets: Bytes,
}

/// A report segment (RFC 5326 3.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// Never zero.
    pub(super) serial: u64,
    /// The checkpoint that it answers; zero where nobody asked.
    pub(super) checkpoint: u64,
    /// The end of the prefix that the claims are about.
    pub(super) upper: u64,
    /// The end of the prefix that the claims are not about.
    pub(super) lower: u64,
    /// Start and end of each claim in the block, in order, none touching the next.
    pub(super) claims: Vec<(u64, u64)>,
}

/// The engine of a session that an exchange is begun by (RFC 5326 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    /// The block's sender.
    Sender,
    /// The block's receiver.
    Receiver,
}

/// The reason of a cancellation (RFC 5326 3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// `USR_CNCLD`: the client service cancelled the session.
    UserCancelled,
    /// `UNREACH`: the client service does not exist.
    Unreachable,
    /// `RLEXC`: a limit of retransmissions was exceeded.
    RetransmissionLimit,
    /// `MISCOLORED`: red octets behind green ones.
    Miscolored,
    /// `SYS_CNCLD`: a system error.
    SystemCancelled,
    /// `RXMTCYCEXC`: the limit of retransmission cycles was exceeded.
    CycleLimit,
}

impl Reason {
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::UserCancelled => 0,
            Self::Unreachable => 1,
            Self::RetransmissionLimit => 2,
            Self::Miscolored => 3,
            Self::SystemCancelled => 4,
            Self::CycleLimit => 5,
        }
    }

    pub(super) const fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::UserCancelled,
            1 => Self::Unreachable,
            2 => Self::RetransmissionLimit,
            3 => Self::Miscolored,
            4 => Self::SystemCancelled,
            5 => Self::CycleLimit,
            _ => return None,
        })
    }
}

/// A segment whose octets are all in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// DS.
    Data(Data),
    /// RS.
    Report(SessionId, Report),
    /// RA: the report with this serial number came.
    ReportAck(SessionId, u64),
    /// CS or CR, by its party.
    Cancel(SessionId, Party, Reason),
    /// CAS or CAR: the cancellation by this party came.
    CancelAck(SessionId, Party),
}

impl Segment {
    pub(super) const fn session(&self) -> SessionId {
        match self {
            Self::Data(data) => data.head.session,
            Self::Report(session, _)
            | Self::ReportAck(session, _)
            | Self::Cancel(session, ..)
            | Self::CancelAck(session, _) => *session,
        }
    }

    /// The party of the session that the segment goes to.
    pub(super) const fn receiver(&self) -> Party {
        match self {
            Self::Data(_)
            | Self::ReportAck(..)
            | Self::Cancel(_, Party::Sender, _)
            | Self::CancelAck(_, Party::Receiver) => Party::Receiver,
            Self::Report(..) | Self::Cancel(..) | Self::CancelAck(..) => Party::Sender,
        }
    }
}
