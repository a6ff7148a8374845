//! Reason codes of RFC 9174 8.6 to 8.8, to and from the octet on the wire.

use crate::stream::{RefuseReason, TerminateReason};

impl RefuseReason {
    /// The code of RFC 9174 table 6.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Unknown => 0x00,
            Self::Completed => 0x01,
            Self::NoResources => 0x02,
            Self::Retransmit => 0x03,
            Self::NotAcceptable => 0x04,
            Self::ExtensionFailure => 0x05,
            Self::SessionTerminating => 0x06,
            Self::SourceFull => 0xF0,
            Self::Other(code) => code,
        }
    }

    /// The reason that a code of RFC 9174 table 6 stands for.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            0x00 => Self::Unknown,
            0x01 => Self::Completed,
            0x02 => Self::NoResources,
            0x03 => Self::Retransmit,
            0x04 => Self::NotAcceptable,
            0x05 => Self::ExtensionFailure,
            0x06 => Self::SessionTerminating,
            0xF0 => Self::SourceFull,
            other => Self::Other(other),
        }
    }

    /// The reason as a peer understands it that may not know those of our own.
    #[must_use]
    pub const fn standard(self) -> Self {
        match self {
            Self::SourceFull => Self::NoResources,
            other => other,
        }
    }
}

impl TerminateReason {
    /// The code of RFC 9174 table 9.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Unknown => 0x00,
            Self::IdleTimeout => 0x01,
            Self::VersionMismatch => 0x02,
            Self::Busy => 0x03,
            Self::ContactFailure => 0x04,
            Self::ResourceExhaustion => 0x05,
            Self::Other(code) => code,
        }
    }

    /// The reason that a code of RFC 9174 table 9 stands for.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            0x00 => Self::Unknown,
            0x01 => Self::IdleTimeout,
            0x02 => Self::VersionMismatch,
            0x03 => Self::Busy,
            0x04 => Self::ContactFailure,
            0x05 => Self::ResourceExhaustion,
            other => Self::Other(other),
        }
    }
}

/// Why a message was rejected (RFC 9174 table 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectReason {
    /// The message type is not known.
    TypeUnknown,
    /// The message does not fit what was negotiated.
    Unsupported,
    /// The message does not fit the session's state.
    Unexpected,
}

impl RejectReason {
    /// The code of RFC 9174 table 4.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::TypeUnknown => 0x01,
            Self::Unsupported => 0x02,
            Self::Unexpected => 0x03,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9174 8.6 and 8.7: every code survives the way there and back.
    #[test]
    fn every_code_stands_for_itself() {
        for code in 0..=u8::MAX {
            assert_eq!(RefuseReason::from_code(code).code(), code);
            assert_eq!(TerminateReason::from_code(code).code(), code);
        }
    }
}
