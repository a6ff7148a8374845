//! [`ReasonCode`]: the reason for an event in a bundle's life.

use core::fmt;

/// Status report reason code (RFC 9171 9.5, RFC 9172 11.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReasonCode {
    /// 0.
    #[default]
    NoAdditionalInformation,
    /// 1.
    LifetimeExpired,
    /// 2.
    ForwardedOverUnidirectionalLink,
    /// 3.
    TransmissionCanceled,
    /// 4.
    DepletedStorage,
    /// 5.
    DestinationUnavailable,
    /// 6.
    NoKnownRoute,
    /// 7.
    NoTimelyContact,
    /// 8.
    BlockUnintelligible,
    /// 9.
    HopLimitExceeded,
    /// 10.
    TrafficPared,
    /// 11.
    BlockUnsupported,
    /// 12.
    MissingSecurityOperation,
    /// 13.
    UnknownSecurityOperation,
    /// 14.
    UnexpectedSecurityOperation,
    /// 15.
    FailedSecurityOperation,
    /// 16.
    ConflictingSecurityOperation,
    /// Any other code.
    Other(u64),
}

impl ReasonCode {
    /// Codes in order, from 0.
    const NAMED: [(Self, &'static str); 17] = [
        (Self::NoAdditionalInformation, "no additional information"),
        (Self::LifetimeExpired, "lifetime expired"),
        (
            Self::ForwardedOverUnidirectionalLink,
            "forwarded over unidirectional link",
        ),
        (Self::TransmissionCanceled, "transmission canceled"),
        (Self::DepletedStorage, "depleted storage"),
        (
            Self::DestinationUnavailable,
            "destination endpoint ID unavailable",
        ),
        (
            Self::NoKnownRoute,
            "no known route to destination from here",
        ),
        (
            Self::NoTimelyContact,
            "no timely contact with next node on route",
        ),
        (Self::BlockUnintelligible, "block unintelligible"),
        (Self::HopLimitExceeded, "hop limit exceeded"),
        (Self::TrafficPared, "traffic pared"),
        (Self::BlockUnsupported, "block unsupported"),
        (Self::MissingSecurityOperation, "missing security operation"),
        (Self::UnknownSecurityOperation, "unknown security operation"),
        (
            Self::UnexpectedSecurityOperation,
            "unexpected security operation",
        ),
        (Self::FailedSecurityOperation, "failed security operation"),
        (
            Self::ConflictingSecurityOperation,
            "conflicting security operation",
        ),
    ];

    /// The reason with this code.
    #[must_use]
    pub fn from_code(code: u64) -> Self {
        usize::try_from(code)
            .ok()
            .and_then(|place| Self::NAMED.get(place))
            .map_or(Self::Other(code), |(reason, _)| *reason)
    }

    /// The code on the wire.
    #[must_use]
    pub fn code(self) -> u64 {
        if let Self::Other(code) = self {
            return code;
        }
        let place = Self::NAMED.iter().position(|(reason, _)| *reason == self);
        place
            .and_then(|place| u64::try_from(place).ok())
            .unwrap_or(0)
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMED.iter().find(|(reason, _)| reason == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "reason {}", self.code()),
        }
    }
}
