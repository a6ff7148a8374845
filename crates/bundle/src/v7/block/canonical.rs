//! Canonical blocks (RFC 9171 4.3.2): the form of all blocks but the primary.

use alloc::vec::Vec;

use core::fmt;

use bytes::Bytes;

use super::flags::BlockFlags;
use crate::cbor::{Array, Reader, write_array, write_byte_string, write_unsigned};
use crate::crc::{CrcDigest, CrcType, append_crc};
use crate::gateway::GATEWAY_BLOCK_V7;
use crate::v7::refusal::Refusal;

/// A block type code (RFC 9171 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockType(pub u64);

impl BlockType {
    /// The payload.
    pub const PAYLOAD: Self = Self(1);
    /// The node that forwarded the bundle to this one (RFC 9171 4.4.1).
    pub const PREVIOUS_NODE: Self = Self(6);
    /// Milliseconds since the bundle was created (RFC 9171 4.4.2).
    pub const BUNDLE_AGE: Self = Self(7);
    /// Hop limit and hop count (RFC 9171 4.4.3).
    pub const HOP_COUNT: Self = Self(10);
    /// Block Integrity Block (RFC 9172).
    pub const BLOCK_INTEGRITY: Self = Self(11);
    /// Block Confidentiality Block (RFC 9172).
    pub const BLOCK_CONFIDENTIALITY: Self = Self(12);
    /// The class of service, as HDTN has it; no registry has the type.
    pub const HDTN_PRIORITY: Self = Self(13);
    /// The class of service, as ION has it: one of the types left for private use.
    pub const QUALITY_OF_SERVICE: Self = Self(193);
    /// The copies that the receiver may make of a bundle in its turn (binary spray and wait): one of the types left for private use, as
    /// ION has it.
    pub const SPRAY_PERMITS: Self = Self(194);
    /// The report-to endpoint reads aggregated reports (`docs/aggregated-reports.md`): one of the types left
    /// for private use (RFC 9171 9.1).
    pub const AGGREGATED_REPORTS: Self = Self(212);

    /// Whether this node can process blocks of the type (RFC 9171 5.6 step 4).
    #[must_use]
    pub const fn is_supported(self) -> bool {
        matches!(
            self,
            Self::PAYLOAD
                | Self::PREVIOUS_NODE
                | Self::BUNDLE_AGE
                | Self::HOP_COUNT
                | Self::HDTN_PRIORITY
                | Self::QUALITY_OF_SERVICE
                | Self::SPRAY_PERMITS
                | Self::AGGREGATED_REPORTS
        )
    }
}

impl fmt::Display for BlockType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PAYLOAD => f.write_str("payload"),
            Self::PREVIOUS_NODE => f.write_str("previous node"),
            Self::BUNDLE_AGE => f.write_str("bundle age"),
            Self::HOP_COUNT => f.write_str("hop count"),
            Self::BLOCK_INTEGRITY => f.write_str("block integrity"),
            Self::BLOCK_CONFIDENTIALITY => f.write_str("block confidentiality"),
            Self::HDTN_PRIORITY => f.write_str("priority"),
            Self::QUALITY_OF_SERVICE => f.write_str("quality of service"),
            Self::SPRAY_PERMITS => f.write_str("spray permits"),
            Self::AGGREGATED_REPORTS => f.write_str("aggregated reports"),
            GATEWAY_BLOCK_V7 => f.write_str("gateway"),
            Self(code) => write!(f, "type {code}"),
        }
    }
}

/// An extension block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonicalBlock {
    /// Block type code.
    pub block_type: BlockType,
    /// Its number in its bundle: 2 or more.
    pub number: u64,
    /// Block processing control flags.
    pub flags: BlockFlags,
    /// The block's checksum.
    pub crc_type: CrcType,
    /// Block-type-specific data.
    pub content: Bytes,
    /// The whole block as received or written.
    pub octets: Bytes,
}

impl CanonicalBlock {
    /// A new extension block.
    #[must_use]
    pub fn new(
        block_type: BlockType,
        number: u64,
        flags: BlockFlags,
        crc_type: CrcType,
        content: Bytes,
    ) -> Self {
        let mut out = Vec::with_capacity(content.len() + 24);
        let head = BlockHead {
            block_type,
            number,
            flags,
            crc_type,
            is_indefinite: false,
        };
        head.encode(&mut out);
        write_byte_string(&mut out, &content);
        append_crc(&mut out, 0, crc_type);
        Self {
            block_type,
            number,
            flags,
            crc_type,
            content,
            octets: Bytes::from(out),
        }
    }

    /// The block with other content, all else the same, its CRC computed anew.
    #[must_use]
    pub fn with_content(&self, content: Bytes) -> Self {
        Self::new(
            self.block_type,
            self.number,
            self.flags,
            self.crc_type,
            content,
        )
    }
}

/// The fields of a canonical block before its block-type-specific data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub block_type: BlockType,
    pub number: u64,
    pub flags: BlockFlags,
    pub crc_type: CrcType,
    /// Whether a break ends the block.
    pub is_indefinite: bool,
}

impl BlockHead {
    /// Reads the fields, up to the byte string that follows; the array is left for what comes after it.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<(Self, Array), Refusal> {
        let mut array = reader.array()?;
        let is_indefinite = array.is_indefinite();
        let items = array.left();
        let mut field = || -> Result<u64, Refusal> {
            array.item(reader)?;
            Ok(reader.unsigned()?)
        };
        let block_type = BlockType(field()?);
        let number = field()?;
        let flags = BlockFlags::from_bits(field()?);
        let code = field()?;
        let crc_type = CrcType::from_code(code).ok_or(Refusal::CrcType(code))?;
        // RFC 9171 4.3.2: 5 items, 6 with a CRC.
        if items.is_some_and(|items| items != 5 + u64::from(crc_type != CrcType::None)) {
            return Err(Refusal::BlockLength { number });
        }
        if !array.next(reader)? {
            return Err(Refusal::BlockLength { number });
        }
        Ok((
            Self {
                block_type,
                number,
                flags,
                crc_type,
                is_indefinite,
            },
            array,
        ))
    }

    /// Appends the fields, with the array's head before them.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let fields = [self.block_type.0, self.number, self.flags.bits()];
        if let (false, [block_type @ 0..24, number @ 0..24, flags @ 0..24]) = (
            self.is_indefinite,
            fields.map(|field| u8::try_from(field).unwrap_or(u8::MAX)),
        ) {
            // As nearly all have it: each head is one octet.
            let (array, code) = match self.crc_type {
                CrcType::None => (0x85, 0),
                CrcType::Crc16 => (0x86, 1),
                CrcType::Crc32C => (0x86, 2),
            };
            out.extend_from_slice(&[array, block_type, number, flags, code]);
            return;
        }
        if self.is_indefinite {
            crate::cbor::write_indefinite_array(out);
        } else {
            write_array(out, 5 + u64::from(self.crc_type != CrcType::None));
        }
        write_unsigned(out, self.block_type.0);
        write_unsigned(out, self.number);
        write_unsigned(out, self.flags.bits());
        write_unsigned(out, self.crc_type.code());
    }
}

/// Reads the CRC field, where there is one, and the end of a block that began at `start` of `octets`, and
/// checks the checksum over all its octets with the field zeroed.
pub(crate) fn verify_block_end(
    reader: &mut Reader<'_>,
    octets: &[u8],
    start: usize,
    crc_type: CrcType,
    array: &mut Array,
    number: u64,
) -> Result<(), Refusal> {
    if crc_type == CrcType::None {
        return end_of_block(array, reader, number);
    }
    if !array.next(reader)? {
        return Err(wrong_length(number));
    }
    let field_start = reader.position();
    // RFC 9171 4.2.2: a byte string of two or four octets.
    let length = reader.byte_string_head()?;
    if usize::try_from(length) != Ok(crc_type.octets()) {
        return Err(Refusal::CrcLength { number });
    }
    let field = reader.take_octets(length)?;
    let field_end = reader.position();
    end_of_block(array, reader, number)?;
    let mut digest = CrcDigest::new(crc_type);
    digest.update(octets.get(start..field_start).unwrap_or_default());
    digest.update(crc_type.zeroed_field());
    // "Including CBOR break characters", of which there is one when the array has no definite length.
    digest.update(octets.get(field_end..reader.position()).unwrap_or_default());
    if digest.matches(field) {
        Ok(())
    } else {
        Err(Refusal::CrcMismatch { number })
    }
}

fn end_of_block(array: &mut Array, reader: &mut Reader<'_>, number: u64) -> Result<(), Refusal> {
    if array.next(reader)? {
        Err(wrong_length(number))
    } else {
        Ok(())
    }
}

const fn wrong_length(number: u64) -> Refusal {
    if number == 0 {
        Refusal::PrimaryBlockLength
    } else {
        Refusal::BlockLength { number }
    }
}
