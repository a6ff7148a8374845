//! [`BibeTypes`]: the record type codes that peers use, and other fields that depend on the peer's program.

use super::refusal::BibeRefusal;
use crate::cbor::{Array, CborError, Reader};
use crate::time::DtnTime;

/// The two records of Bundle-in-Bundle Encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BibeRecord {
    /// The BIBE protocol data unit.
    Bpdu,
    /// The custody signal.
    Signal,
}

/// The record type codes that are written to a peer. All of them are read, from any peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BibeTypes {
    /// The codes of draft-ietf-dtn-bibect-03, which DTNME uses: 3 and 4.
    #[default]
    Draft,
    /// The codes of ION: 7 and 8. Its retransmission times are seconds of Unix time.
    Ion,
    /// The code of uD3TN, 64443, which has no signals; its signals would be the draft's.
    Ud3tn,
}

impl BibeTypes {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Draft, Self::Ion, Self::Ud3tn];

    /// The record type code of a record.
    #[must_use]
    pub const fn code(self, record: BibeRecord) -> u64 {
        match (self, record) {
            (Self::Draft, BibeRecord::Bpdu) => 3,
            (Self::Draft | Self::Ud3tn, BibeRecord::Signal) => 4,
            (Self::Ion, BibeRecord::Bpdu) => 7,
            (Self::Ion, BibeRecord::Signal) => 8,
            (Self::Ud3tn, BibeRecord::Bpdu) => 64_443,
        }
    }

    /// The record with this type code, and the first in [`Self::ALL`] that writes it so; none where it is another record's.
    #[must_use]
    pub fn find(code: u64) -> Option<(BibeRecord, Self)> {
        let records = [BibeRecord::Bpdu, BibeRecord::Signal];
        let all = (records.into_iter()).flat_map(|record| Self::ALL.map(|types| (record, types)));
        (all.into_iter()).find(|(record, types)| types.code(*record) == code)
    }

    /// The record that a payload begins with, as far as its first octets tell: none where they are too few, and where the record is no BIBE's. A
    /// payload can so be told from other administrative records before it is whole.
    #[must_use]
    pub fn peek(prefix: &[u8]) -> Option<BibeRecord> {
        let (code, _) = read_type(&mut Reader::new(prefix).with_any_width()).ok()?;
        Self::find(code).map(|(record, _)| record)
    }

    /// A time as the retransmission time of a BIBE protocol data unit; 0 for an unknown one.
    pub(super) fn written_time(self, time: DtnTime) -> u64 {
        match self {
            Self::Draft | Self::Ud3tn => time.as_millis(),
            Self::Ion => time.as_unix_millis().map_or(0, |unix| unix.div_ceil(1_000)),
        }
    }

    /// The time that is written so.
    pub(super) const fn read_time(self, written: u64) -> DtnTime {
        match self {
            Self::Draft | Self::Ud3tn => DtnTime::from_millis(written),
            Self::Ion => DtnTime::from_unix_millis(written.saturating_mul(1_000)),
        }
    }
}

/// The record type code, and the rest of the array that it is the first item of.
pub(super) fn read_type(reader: &mut Reader<'_>) -> Result<(u64, Array), BibeRefusal> {
    let mut record = read_array(reader, 2)?;
    record.item(reader)?;
    Ok((reader.unsigned()?, record))
}

/// The head of an array of so many items, and of definite length.
pub(super) fn read_array(reader: &mut Reader<'_>, items: u64) -> Result<Array, BibeRefusal> {
    let array = reader.array()?;
    let at = u64::try_from(reader.position()).unwrap_or(u64::MAX);
    match array.left() {
        None => Err(BibeRefusal::IndefiniteArray(at)),
        Some(left) if left != items => Err(CborError::ArrayLength { at }.into()),
        Some(_) => Ok(array),
    }
}
