//! Kinds of items, and why one could not be read.

use core::fmt;

use thiserror::Error;

/// Nested arrays, maps, tags and indefinite strings that [`Reader::skip`](super::Reader::skip) follows: no structure of the
/// Bundle Protocol nests deeper than 7, and a hostile one must not cost more than this.
pub const MAX_DEPTH: usize = 16;

/// The kind of item that a head announces (RFC 8949 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Major type 0.
    Unsigned,
    /// Major type 1.
    Negative,
    /// Major type 2.
    Bytes,
    /// Major type 3.
    Text,
    /// Major type 4.
    Array,
    /// Major type 5.
    Map,
    /// Major type 6.
    Tag,
    /// Major type 7: simple values and floating-point numbers.
    Simple,
    /// The "break" stop code.
    Break,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsigned => "an unsigned integer",
            Self::Negative => "a negative integer",
            Self::Bytes => "a byte string",
            Self::Text => "a text string",
            Self::Array => "an array",
            Self::Map => "a map",
            Self::Tag => "a tag",
            Self::Simple => "a simple value",
            Self::Break => "a break",
        })
    }
}

/// Why no item could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CborError {
    /// The octets end before the item does; more of them may make it whole.
    #[error("the octets end before the item does: at least {needed} are needed")]
    Incomplete {
        /// Octets from the start of the slice that are needed to go on (more may be needed then).
        needed: u64,
    },
    /// Another kind of item is required here.
    #[error("{expected} is required at octet {at}, found {found}")]
    Unexpected {
        /// The kind that is required.
        expected: Kind,
        /// The kind that the head announces.
        found: Kind,
        /// Octet offset of the head.
        at: u64,
    },
    /// Something other than true or false where a Boolean is required.
    #[error("a Boolean is required at octet {at}")]
    NotBoolean {
        /// Octet offset of the item.
        at: u64,
    },
    /// A head that could be shorter.
    #[error("the head at octet {at} is not in its shortest form")]
    NotShortest {
        /// Octet offset of the head.
        at: u64,
    },
    /// Additional information 28 to 30, 31 where no indefinite length exists, or a simple value below
    /// 32 in two octets.
    #[error("the head at octet {at} is not well-formed")]
    NotWellFormed {
        /// Octet offset of the head.
        at: u64,
    },
    /// An indefinite length where only a definite one is allowed.
    #[error("the string at octet {at} must have a definite length")]
    Indefinite {
        /// Octet offset of the head.
        at: u64,
    },
    /// A text string that is not UTF-8.
    #[error("the text string at octet {at} is not UTF-8")]
    NotUtf8 {
        /// Octet offset of the string's head.
        at: u64,
    },
    /// An array with more or fewer items than its place requires.
    #[error("the array before octet {at} has too few or too many items")]
    ArrayLength {
        /// Octet offset where the difference was found.
        at: u64,
    },
    /// A string longer than its place allows.
    #[error("the string at octet {at} is longer than allowed")]
    TooLong {
        /// Octet offset of the string or chunk.
        at: u64,
    },
    /// Items nested deeper than [`MAX_DEPTH`].
    #[error("items nest deeper than {MAX_DEPTH} at octet {at}")]
    TooDeep {
        /// Octet offset of the item.
        at: u64,
    },
}

/// The kind of the item whose head begins with this octet.
pub(super) const fn kind_of(octet: u8) -> Kind {
    match octet >> 5 {
        0 => Kind::Unsigned,
        1 => Kind::Negative,
        2 => Kind::Bytes,
        3 => Kind::Text,
        4 => Kind::Array,
        5 => Kind::Map,
        6 => Kind::Tag,
        _ if octet == 0xff => Kind::Break,
        _ => Kind::Simple,
    }
}
