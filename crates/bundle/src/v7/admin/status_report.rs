//! [`StatusReport`]: the fate of a bundle at a node (RFC 9171 6.1.1).

use alloc::vec::Vec;

use super::reason::ReasonCode;
use super::record::RecordRefusal;
use crate::cbor::{Kind, Reader, write_array, write_boolean, write_unsigned};
use crate::eid::EndpointId;
use crate::id::{BundleId, CreationTimestamp, FragmentRange};
use crate::reading::{Deviation, Reading};
use crate::time::DtnTime;

/// A status that is asserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assertion {
    /// When it came to be so, if the bundle asked for times; unknown when the reporting node had no
    /// accurate clock.
    pub time: Option<DtnTime>,
}

/// A report on the status of one bundle at the reporting node (RFC 9171 6.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusReport {
    /// The reporting node received the bundle.
    pub received: Option<Assertion>,
    /// The reporting node forwarded it.
    pub forwarded: Option<Assertion>,
    /// The reporting node delivered it.
    pub delivered: Option<Assertion>,
    /// The reporting node deleted it.
    pub deleted: Option<Assertion>,
    /// The reason.
    pub reason: ReasonCode,
    /// The bundle reported on: source, creation timestamp and, for a fragment, its range.
    pub bundle: BundleId,
}

impl StatusReport {
    /// Reads a report: 4 items, 6 about a fragment.
    pub(super) fn decode(reader: &mut Reader<'_>, reading: Reading) -> Result<Self, RecordRefusal> {
        let mut array = reader.array()?;
        array.item(reader)?;
        let [received, forwarded, delivered, deleted] = decode_statuses(reader, reading)?;
        array.item(reader)?;
        let reason = ReasonCode::from_code(reader.unsigned()?);
        array.item(reader)?;
        let source = EndpointId::decode(reader, reading).map_err(RecordRefusal::Source)?;
        array.item(reader)?;
        let creation = CreationTimestamp::decode(reader)?;
        let fragment = if array.next(reader)? {
            let offset = reader.unsigned()?;
            array.item(reader)?;
            let length = reader.unsigned()?;
            array.end(reader)?;
            Some(FragmentRange { offset, length })
        } else {
            None
        };
        let bundle = BundleId {
            source,
            creation,
            fragment,
        };
        Ok(Self {
            received,
            forwarded,
            delivered,
            deleted,
            reason,
            bundle,
        })
    }

    /// Appends the report.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        write_array(out, if self.bundle.fragment.is_some() { 6 } else { 4 });
        write_array(out, 4);
        for status in [self.received, self.forwarded, self.delivered, self.deleted] {
            let time = status.and_then(|assertion| assertion.time);
            write_array(out, if time.is_some() { 2 } else { 1 });
            write_boolean(out, status.is_some());
            if let Some(time) = time {
                write_unsigned(out, time.as_millis());
            }
        }
        write_unsigned(out, self.reason.code());
        self.bundle.source.encode(out);
        self.bundle.creation.encode(out);
        if let Some(range) = self.bundle.fragment {
            write_unsigned(out, range.offset);
            write_unsigned(out, range.length);
        }
    }
}

/// At least four bundle status items; those after the fourth have no meaning yet and are read over.
fn decode_statuses(
    reader: &mut Reader<'_>,
    reading: Reading,
) -> Result<[Option<Assertion>; 4], RecordRefusal> {
    let mut array = reader.array()?;
    let mut statuses = [None; 4];
    for status in &mut statuses {
        array.item(reader)?;
        *status = decode_status(reader, reading)?;
    }
    // Each item takes an octet at least, so the octets seen bound the loop.
    while array.next(reader)? {
        reader.skip()?;
    }
    Ok(statuses)
}

fn decode_status(
    reader: &mut Reader<'_>,
    reading: Reading,
) -> Result<Option<Assertion>, RecordRefusal> {
    let mut array = reader.array()?;
    array.item(reader)?;
    let is_asserted =
        if reader.kind()? == Kind::Unsigned && reading.accepts(Deviation::IntegerForBoolean) {
            match reader.unsigned()? {
                0 => false,
                1 => true,
                other => return Err(RecordRefusal::Indicator(other)),
            }
        } else {
            reader.boolean()?
        };
    let time = if array.next(reader)? {
        let time = DtnTime::from_millis(reader.unsigned()?);
        array.end(reader)?;
        Some(time)
    } else {
        None
    };
    match (is_asserted, time) {
        (true, time) => Ok(Some(Assertion { time })),
        (false, None) => Ok(None),
        // RFC 9171 6.1.1: a time only if the status is asserted.
        (false, Some(_)) => Err(RecordRefusal::TimeWithoutAssertion),
    }
}
