//! The primary block (RFC 9171 4.3.1).

use alloc::vec::Vec;

use core::ops::Range;

use super::canonical::verify_block_end;
use super::flags::BundleFlags;
use crate::cbor::{Array, CborError, Reader, write_array, write_unsigned};
use crate::crc::{CrcType, append_crc};
use crate::eid::{EidRefusal, EndpointId};
use crate::id::CreationTimestamp;
use crate::reading::Reading;
use crate::time::DtnTime;
use crate::v7::refusal::Refusal;

/// The version of the Bundle Protocol that this crate reads and writes.
const VERSION: u64 = 7;

/// The place of a fragment in its application data unit (RFC 9171 4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FragmentPlace {
    /// Fragment offset: octets of the application data unit before this fragment's payload.
    pub offset: u64,
    /// Total application data unit length in octets.
    pub total_adu_octets: u64,
}

/// The primary block: where a bundle goes, where it comes from, for how long (RFC 9171 4.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryBlock {
    /// Bundle processing control flags; [`BundleFlags::FRAGMENT`] agrees with `fragment`.
    pub flags: BundleFlags,
    /// The block's checksum.
    pub crc_type: CrcType,
    /// The endpoint that the bundle is for.
    pub destination: EndpointId,
    /// The source node ID field; null for anonymous bundles.
    pub source: EndpointId,
    /// The endpoint that status reports go to.
    pub report_to: EndpointId,
    /// When the bundle was created.
    pub creation: CreationTimestamp,
    /// Lifetime in milliseconds from creation.
    pub lifetime_ms: u64,
    /// Present in fragments only.
    pub fragment: Option<FragmentPlace>,
}

/// A primary block and where in the octets its fields from destination to lifetime lie.
pub(crate) struct DecodedPrimary {
    pub block: PrimaryBlock,
    pub address_fields: Range<usize>,
}

impl PrimaryBlock {
    /// Reads the block that begins where the reader stands; `octets` are all that the reader reads.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        octets: &[u8],
        reading: Reading,
    ) -> Result<DecodedPrimary, Refusal> {
        let start = reader.position();
        let mut array = reader.array()?;
        let version = field(&mut array, reader)?;
        if version != VERSION {
            return Err(Refusal::Version(version));
        }
        let flags = BundleFlags::from_bits(field(&mut array, reader)?);
        let code = field(&mut array, reader)?;
        let crc_type = CrcType::from_code(code).ok_or(Refusal::CrcType(code))?;
        // RFC 9171 4.3.1: 8 items, and 2 more in a fragment, and 1 more with a CRC.
        let is_fragment = flags.contains(BundleFlags::FRAGMENT);
        let items = 5 + if is_fragment { 2 } else { 0 } + u64::from(crc_type != CrcType::None);
        if array.left().is_some_and(|left| left != items) {
            return Err(Refusal::PrimaryBlockLength);
        }
        let fields_start = reader.position();
        let destination = endpoint(&mut array, reader, reading, "destination")?;
        let source = endpoint(&mut array, reader, reading, "source node ID")?;
        let report_to = endpoint(&mut array, reader, reading, "report-to endpoint ID")?;
        item(&mut array, reader)?;
        let creation = CreationTimestamp::decode(reader)?;
        let lifetime_ms = field(&mut array, reader)?;
        let address_fields = fields_start..reader.position();
        let fragment = if is_fragment {
            let offset = field(&mut array, reader)?;
            Some(FragmentPlace {
                offset,
                total_adu_octets: field(&mut array, reader)?,
            })
        } else {
            None
        };
        verify_block_end(reader, octets, start, crc_type, &mut array, 0)?;
        let block = Self {
            flags,
            crc_type,
            destination,
            source,
            report_to,
            creation,
            lifetime_ms,
            fragment,
        };
        block.check_rules()?;
        Ok(DecodedPrimary {
            block,
            address_fields,
        })
    }

    /// The rules that the block's own fields must satisfy together.
    pub(crate) fn check_rules(&self) -> Result<(), Refusal> {
        let flags = self.flags;
        // RFC 9758 5.4: an endpoint of "this node" never comes from outside.
        for (field, endpoint) in [
            ("destination", &self.destination),
            ("source node ID", &self.source),
        ] {
            if endpoint.is_local_node() {
                return Err(Refusal::LocalNode { field });
            }
        }
        // RFC 9171 5.8: only a bundle that may be fragmented has fragments.
        if flags.contains(BundleFlags::FRAGMENT | BundleFlags::MUST_NOT_FRAGMENT) {
            return Err(Refusal::FragmentNotAllowed);
        }
        // RFC 9171 4.2.3: nothing about administrative records is reported.
        if flags.contains(BundleFlags::ADMINISTRATIVE_RECORD)
            && flags.intersects(BundleFlags::ALL_REPORTS)
        {
            return Err(Refusal::RecordRequestsReports);
        }
        // RFC 9171 4.2.3: nothing that needs the bundle's identity for anonymous bundles.
        if self.source.is_null() {
            if !flags.contains(BundleFlags::MUST_NOT_FRAGMENT) {
                return Err(Refusal::AnonymousMayBeFragmented);
            }
            if flags.intersects(BundleFlags::ALL_REPORTS) {
                return Err(Refusal::AnonymousRequestsReports);
            }
        }
        Ok(())
    }

    /// Whether blocks may not request reports (RFC 9171 4.2.4).
    pub(crate) const fn forbids_block_reports(&self) -> bool {
        self.flags.contains(BundleFlags::ADMINISTRATIVE_RECORD) || self.source.is_null()
    }

    /// Appends the block with its CRC.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = Vec::with_capacity(64);
        self.destination.encode(&mut fields);
        self.source.encode(&mut fields);
        self.report_to.encode(&mut fields);
        self.creation.encode(&mut fields);
        write_unsigned(&mut fields, self.lifetime_ms);
        self.encode_around(&fields, out);
    }

    /// Appends the block with the octets of its fields from destination to lifetime as given: what a
    /// fragment keeps of its bundle's primary block to the octet.
    pub(crate) fn encode_around(&self, address_fields: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.encode_head(out);
        out.extend_from_slice(address_fields);
        self.encode_place(out);
        append_crc(out, start, self.crc_type);
    }

    /// Appends what stands before the creation timestamp.
    pub(crate) fn encode_before_creation(&self, out: &mut Vec<u8>) {
        self.encode_head(out);
        self.destination.encode(out);
        self.source.encode(out);
        self.report_to.encode(out);
    }

    /// Appends what stands between the creation timestamp and the CRC field.
    pub(crate) fn encode_after_creation(&self, out: &mut Vec<u8>) {
        write_unsigned(out, self.lifetime_ms);
        self.encode_place(out);
    }

    fn encode_head(&self, out: &mut Vec<u8>) {
        let items = 8
            + if self.fragment.is_some() { 2 } else { 0 }
            + u64::from(self.crc_type != CrcType::None);
        write_array(out, items);
        write_unsigned(out, VERSION);
        let flags = self.flags.without(BundleFlags::FRAGMENT);
        let flags = if self.fragment.is_some() {
            flags | BundleFlags::FRAGMENT
        } else {
            flags
        };
        write_unsigned(out, flags.bits());
        write_unsigned(out, self.crc_type.code());
    }

    fn encode_place(&self, out: &mut Vec<u8>) {
        if let Some(place) = self.fragment {
            write_unsigned(out, place.offset);
            write_unsigned(out, place.total_adu_octets);
        }
    }
}

impl CreationTimestamp {
    /// Reads a creation timestamp (RFC 9171 4.2.7).
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, CborError> {
        let mut array = reader.array()?;
        array.item(reader)?;
        let time = DtnTime::from_millis(reader.unsigned()?);
        array.item(reader)?;
        let sequence = reader.unsigned()?;
        array.end(reader)?;
        Ok(Self { time, sequence })
    }

    /// Appends the creation timestamp.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write_array(out, 2);
        write_unsigned(out, self.time.as_millis());
        write_unsigned(out, self.sequence);
    }
}

/// Requires another item of the primary block.
fn item(array: &mut Array, reader: &mut Reader<'_>) -> Result<(), Refusal> {
    if array.next(reader)? {
        Ok(())
    } else {
        Err(Refusal::PrimaryBlockLength)
    }
}

fn field(array: &mut Array, reader: &mut Reader<'_>) -> Result<u64, Refusal> {
    item(array, reader)?;
    Ok(reader.unsigned()?)
}

fn endpoint(
    array: &mut Array,
    reader: &mut Reader<'_>,
    reading: Reading,
    field: &'static str,
) -> Result<EndpointId, Refusal> {
    item(array, reader)?;
    EndpointId::decode(reader, reading).map_err(|refusal| match refusal {
        EidRefusal::Cbor(error @ CborError::Incomplete { .. }) => Refusal::Cbor(error),
        refusal => Refusal::EndpointId { field, refusal },
    })
}

impl From<CborError> for Refusal {
    fn from(error: CborError) -> Self {
        Self::Cbor(error)
    }
}
