//! [`Version`]: the version of the Bundle Protocol.

use core::fmt;

/// The version of the Bundle Protocol that a bundle's octets are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// RFC 5050.
    V6,
    /// RFC 9171.
    #[default]
    V7,
}

impl Version {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V6, Self::V7];

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::V6 => 6,
            Self::V7 => 7,
        }
    }

    /// The version of this number.
    #[must_use]
    pub const fn of_number(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::V6),
            7 => Some(Self::V7),
            _ => None,
        }
    }

    /// The version of the bundle that begins with an octet: an array of indefinite length of version 7, or the number 6 (RFC 9171 4.1,
    /// RFC 5050 4.5.1). All else is read as version 7, whose decoder says what is wrong.
    #[must_use]
    pub const fn of_first_octet(octet: u8) -> Self {
        match octet {
            6 => Self::V6,
            _ => Self::V7,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}
