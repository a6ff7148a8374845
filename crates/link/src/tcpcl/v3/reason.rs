//! Reason codes of RFC 7242 tables 3 and 4, to and from the octets on the wire.

use crate::stream::{RefuseReason, TerminateReason};

/// The four bits that refuse a bundle.
pub(super) const fn refusal_code(reason: RefuseReason) -> u8 {
    match reason {
        RefuseReason::Completed => 0x1,
        RefuseReason::NoResources | RefuseReason::SourceFull => 0x2,
        // RFC 7242 5.4: nothing else says that what came is not what it should be.
        RefuseReason::Retransmit | RefuseReason::NotAcceptable => 0x3,
        RefuseReason::Unknown
        | RefuseReason::ExtensionFailure
        | RefuseReason::SessionTerminating
        | RefuseReason::Other(_) => 0x0,
    }
}

/// The reason that four bits stand for.
pub(super) const fn refusal(code: u8) -> RefuseReason {
    match code {
        0x0 => RefuseReason::Unknown,
        0x1 => RefuseReason::Completed,
        0x2 => RefuseReason::NoResources,
        0x3 => RefuseReason::Retransmit,
        other => RefuseReason::Other(other),
    }
}

/// The octet that ends a session, if there is one for the reason.
pub(super) const fn termination_code(reason: TerminateReason) -> Option<u8> {
    match reason {
        TerminateReason::Unknown => None,
        TerminateReason::IdleTimeout => Some(0x00),
        TerminateReason::VersionMismatch => Some(0x01),
        // RFC 7242 6.1: a refused connection has a reason; none is nearer to these.
        TerminateReason::Busy
        | TerminateReason::ContactFailure
        | TerminateReason::ResourceExhaustion => Some(0x02),
        TerminateReason::Other(code) => Some(code),
    }
}

/// The reason that an octet stands for.
pub(super) const fn termination(code: Option<u8>) -> TerminateReason {
    match code {
        None => TerminateReason::Unknown,
        Some(0x00) => TerminateReason::IdleTimeout,
        Some(0x01) => TerminateReason::VersionMismatch,
        Some(0x02) => TerminateReason::Busy,
        Some(other) => TerminateReason::Other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7242 tables 3 and 4: the codes that there are survive the way there and back.
    #[test]
    fn every_code_of_the_standard_stands_for_itself() {
        for code in 0..=0x3 {
            assert_eq!(refusal_code(refusal(code)), code);
        }
        for code in 0..=u8::MAX {
            assert_eq!(termination_code(termination(Some(code))), Some(code));
        }
        assert_eq!(termination_code(termination(None)), None);
    }
}
