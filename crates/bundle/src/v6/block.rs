//! Blocks behind the primary block (RFC 5050 4.5.2).

use core::fmt;

use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::Bytes;

use super::dictionary::{Dictionary, Reference, endpoint_of_text, read_reference, write_reference};
use super::flags::BlockFlags;
use super::refusal::Refusal;
use super::sdnv::{self, Reader};
use crate::eid::EndpointId;
use crate::gateway::GATEWAY_BLOCK_V6;

/// The type of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockType(pub u8);

impl BlockType {
    /// The payload.
    pub const PAYLOAD: Self = Self(1);
    /// Payload Confidentiality Block (RFC 6257 2.4): the payload is encrypted.
    pub const PAYLOAD_CONFIDENTIALITY: Self = Self(4);
    /// The node that it came from (RFC 6259).
    pub const PREVIOUS_HOP: Self = Self(5);
    /// Metadata (RFC 6258).
    pub const METADATA: Self = Self(8);
    /// The custodian's number of it with ION, HDTN, DTNME and CCSDS; its age with IBR-DTN and DTN2.
    pub const CUSTODY_OR_AGE: Self = Self(10);
    /// Extended class of service.
    pub const EXTENDED_CLASS: Self = Self(19);
    /// The age of a bundle, with ION.
    pub const AGE: Self = Self(20);
}

impl fmt::Display for BlockType {
    /// Its name; empty where it has none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::PAYLOAD => "payload",
            Self::PREVIOUS_HOP => "previous hop",
            Self::METADATA => "metadata",
            Self::CUSTODY_OR_AGE => "custody or age",
            Self::EXTENDED_CLASS => "extended class of service",
            Self::AGE => "age",
            GATEWAY_BLOCK_V6 => "gateway",
            _ => "",
        })
    }
}

/// A block other than the primary block and the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its type.
    pub block_type: BlockType,
    /// Its flags.
    pub flags: BlockFlags,
    /// Endpoint IDs that it refers to, for [`Dictionary::endpoint`](super::dictionary::Dictionary::endpoint).
    pub references: Vec<Reference>,
    /// Its data.
    pub content: Bytes,
}

/// The part of a block before its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockHead {
    pub(super) block_type: BlockType,
    pub(super) flags: BlockFlags,
    pub(super) references: Vec<Reference>,
    pub(super) octets: u64,
}

impl BlockHead {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let block_type = BlockType(reader.octet()?);
        let flags = BlockFlags::from_bits(reader.number()?);
        let mut references = Vec::new();
        if flags.contains(BlockFlags::REFERENCES) {
            // Each has two octets at least, so what was read bounds them.
            for _ in 0..reader.number()? {
                references.push(read_reference(reader)?);
            }
        }
        Ok(Self {
            block_type,
            flags,
            references,
            octets: reader.number()?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.block_type.0);
        sdnv::write(out, self.flags.bits());
        if self.flags.contains(BlockFlags::REFERENCES) {
            let count = u64::try_from(self.references.len()).unwrap_or(u64::MAX);
            sdnv::write(out, count);
            for reference in &self.references {
                write_reference(out, *reference);
            }
        }
        sdnv::write(out, self.octets);
    }
}

impl Block {
    /// Reads the data of a block behind its head, out of the octets that the reader is of.
    pub(super) fn decode(
        head: BlockHead,
        reader: &mut Reader<'_>,
        octets: &Bytes,
    ) -> Result<Self, Refusal> {
        let content = octets.slice_ref(reader.octets(head.octets)?);
        Ok(Self {
            block_type: head.block_type,
            flags: head.flags,
            references: head.references,
            content,
        })
    }

    /// The node that the bundle came from (RFC 6259): an endpoint ID that it refers to, or in its data the scheme and the part behind it, each with
    /// a zero behind it.
    #[must_use]
    pub fn previous_hop(&self, dictionary: &Dictionary) -> Option<EndpointId> {
        if let [reference] = self.references[..] {
            return dictionary.endpoint("previous hop", reference).ok();
        }
        let text = self.content.strip_suffix(&[0])?;
        let zero = text.iter().position(|octet| *octet == 0)?;
        let (scheme, part) = text.split_at_checked(zero)?;
        let text = [scheme, b":", part.get(1..)?].concat();
        endpoint_of_text("previous hop", &text).ok()
    }

    /// The age of a bundle, microseconds: data of one number and nothing else.
    #[must_use]
    pub fn age_us(&self) -> Option<u64> {
        let mut reader = Reader::new(&self.content);
        let age = reader.number().ok()?;
        reader.is_empty().then_some(age)
    }

    /// The custodian's number of a bundle, and the custodian: a number, and an endpoint ID as text.
    #[must_use]
    pub fn custody_id(&self) -> Option<(u64, EndpointId)> {
        let mut reader = Reader::new(&self.content);
        let id = reader.number().ok()?;
        let text = self.content.get(reader.position()..)?;
        let custodian = endpoint_of_text("custodian", text).ok()?;
        Some((id, custodian))
    }

    /// The block in which a custodian numbers a bundle, for aggregate signals.
    #[must_use]
    pub fn of_custody(id: u64, custodian: &EndpointId) -> Self {
        let mut content = Vec::new();
        sdnv::write(&mut content, id);
        content.extend_from_slice(custodian.to_string().as_bytes());
        Self {
            block_type: BlockType::CUSTODY_OR_AGE,
            flags: BlockFlags::REPLICATE,
            references: Vec::new(),
            content: content.into(),
        }
    }

    /// Writes the block.
    pub fn encode(&self, out: &mut Vec<u8>) {
        BlockHead {
            block_type: self.block_type,
            flags: self.flags,
            references: self.references.clone(),
            octets: u64::try_from(self.content.len()).unwrap_or(u64::MAX),
        }
        .encode(out);
        out.extend_from_slice(&self.content);
    }
}
