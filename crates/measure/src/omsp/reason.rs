//! The reasons for which rows are refused, and the number of refused rows.

use std::collections::BTreeMap;

/// Why a row is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A NUL octet stands in a text row: liboml2 puts one in place of a value's last character where its buffer ends.
    Nul,
    /// Timestamp, stream index or sequence number cannot be read.
    Head,
    /// No stream has that index.
    UnknownStream,
    /// More or fewer values than the stream has fields.
    FieldCount,
    /// A value is not of its field's type, or out of its range.
    Value,
    /// Text that is not UTF-8.
    NotUtf8,
    /// Longer than a row may be.
    TooLong,
    /// Other clients' long rows had taken all the memory that there is for them.
    NoRoom,
    /// The session ended within the row.
    Truncated,
    /// A packet that is not built as one, or octets between packets.
    Packet,
    /// The database does not take the stream, or the row.
    NoTable,
    /// The collector ended while its database was away.
    Lost,
}

impl Reason {
    /// A word for it, as the database and `--json` have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nul => "nul",
            Self::Head => "head",
            Self::UnknownStream => "unknown-stream",
            Self::FieldCount => "field-count",
            Self::Value => "value",
            Self::NotUtf8 => "not-utf8",
            Self::TooLong => "too-long",
            Self::NoRoom => "no-room",
            Self::Truncated => "truncated",
            Self::Packet => "packet",
            Self::NoTable => "no-table",
            Self::Lost => "lost",
        }
    }
}

/// Counts of refused rows by reason and by stream index, if that was readable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<(Option<u8>, Reason), u64>,
}

impl Tally {
    /// Counts a fault.
    pub fn add(&mut self, index: Option<u8>, reason: Reason) {
        *self.counts.entry((index, reason)).or_default() += 1;
    }

    /// All counts.
    pub fn iter(&self) -> impl Iterator<Item = (Option<u8>, Reason, u64)> + '_ {
        self.counts
            .iter()
            .map(|((index, reason), count)| (*index, *reason, *count))
    }

    /// The number of refused rows, of all reasons.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// True where nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}
