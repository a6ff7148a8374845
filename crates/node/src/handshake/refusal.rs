//! The reasons for which octets are no handshake.

use thiserror::Error;

/// The rule that the octets of a handshake break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The octets end too early.
    #[error("the octets end too early")]
    Truncated,
    /// Octets follow the end of the message, of an item or of compressed octets.
    #[error("octets follow the end")]
    OctetsAfterEnd,
    /// A number of more than 64 bits.
    #[error("a number has more than 64 bits")]
    Number,
    /// No request, response or notification.
    #[error("messages of type {0} are unknown")]
    Type(u64),
    /// A message or a list in it has more entries than are read.
    #[error("{0} entries are more than are read")]
    TooMany(u64),
    /// A Bloom filter of no octets, or of more than are read.
    #[error("a Bloom filter of {0} octets is not read")]
    FilterOctets(u64),
    /// A text that is none.
    #[error("a text is not UTF-8")]
    Text,
    /// A fragment mark other than 0 and 1.
    #[error("{0} is not a fragment mark")]
    FragmentMark(u8),
    /// The compressed octets break RFC 1950 or RFC 1951.
    #[error("the compressed octets are damaged")]
    Compression,
    /// The message has, or becomes, more octets than are read.
    #[error("the message is longer than those that are read")]
    TooLong,
}

impl From<dhow_bundle::v6::Refusal> for Refusal {
    fn from(refusal: dhow_bundle::v6::Refusal) -> Self {
        match refusal {
            dhow_bundle::v6::Refusal::Number => Self::Number,
            _ => Self::Truncated,
        }
    }
}
