//! Contents of the extension blocks that every node understands (RFC 9171 4.4), and the blocks that a security block
//! covers (RFC 9172 3.6).

use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::Bytes;

use super::blocks::ExtensionBlock;
use crate::cbor::{CborError, Reader, write_array, write_unsigned};
use crate::eid::EndpointId;
use crate::reading::Reading;
use crate::v7::refusal::Refusal;

/// Block numbers that a security block may target: more than any bundle accepted here has blocks.
const MAX_TARGETS: usize = 128;

/// Hop limit and hop count (RFC 9171 4.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HopCount {
    /// Number of times that the bundle may be forwarded: 1 to 255.
    pub limit: u8,
    /// Number of times that it has been forwarded.
    pub count: u64,
}

impl HopCount {
    /// Whether the bundle was forwarded more often than it may be.
    #[must_use]
    pub fn is_exceeded(self) -> bool {
        self.count > u64::from(self.limit)
    }

    /// Appends the block's content.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        write_array(out, 2);
        write_unsigned(out, u64::from(self.limit));
        write_unsigned(out, self.count);
    }
}

/// RFC 9171 4.4.1: the node ID of the forwarder; the ID of any singleton endpoint may serve (4.2.5.2).
pub(crate) fn decode_previous_node(
    block: &ExtensionBlock,
    octets: &[u8],
    reading: Reading,
) -> Result<EndpointId, Refusal> {
    let mut reader = Reader::new(octets);
    let node = EndpointId::decode(&mut reader, reading).map_err(|why| content(block, &why))?;
    end(block, &reader)?;
    Ok(node)
}

/// RFC 9171 4.4.2: milliseconds.
pub(crate) fn decode_bundle_age(block: &ExtensionBlock, octets: &[u8]) -> Result<u64, Refusal> {
    let mut reader = Reader::new(octets);
    let age_ms = reader.unsigned().map_err(|why| content(block, &why))?;
    end(block, &reader)?;
    Ok(age_ms)
}

/// RFC 9171 4.4.3: hop limit from 1 to 255, hop count.
pub(crate) fn decode_hop_count(block: &ExtensionBlock, octets: &[u8]) -> Result<HopCount, Refusal> {
    let mut reader = Reader::new(octets);
    let (limit, count) = two_numbers(&mut reader).map_err(|why| content(block, &why))?;
    end(block, &reader)?;
    match u8::try_from(limit) {
        Ok(0) | Err(_) => Err(Refusal::HopLimit(limit)),
        Ok(limit) => Ok(HopCount { limit, count }),
    }
}

/// The block numbers that a security block targets: the first item of its content, RFC 9172 3.6. `None` when
/// it cannot be read, as when it is itself encrypted.
pub(crate) fn security_targets(octets: &[u8]) -> Option<Vec<u64>> {
    let mut reader = Reader::new(octets);
    let mut array = reader.array().ok()?;
    let mut targets = Vec::new();
    while array.next(&mut reader).ok()? {
        if targets.len() == MAX_TARGETS {
            return None;
        }
        targets.push(reader.unsigned().ok()?);
    }
    Some(targets)
}

/// Version of the aggregated report's format: the highest that the report-to endpoint reads.
const AGGREGATED_REPORTS_VERSION: u64 = 1;

/// Whether the block says that the report-to endpoint reads aggregated reports as this program writes them.
/// A block of a private type may be anybody's: one that says something else is not refused.
pub(crate) fn announces_aggregated_reports(octets: &[u8]) -> bool {
    let mut reader = Reader::new(octets);
    reader
        .unsigned()
        .is_ok_and(|version| version >= AGGREGATED_REPORTS_VERSION)
        && reader.is_empty()
}

pub(crate) fn encode_aggregated_reports() -> Bytes {
    let mut out = Vec::with_capacity(1);
    write_unsigned(&mut out, AGGREGATED_REPORTS_VERSION);
    out.into()
}

pub(crate) fn encode_bundle_age(age_ms: u64) -> Bytes {
    let mut out = Vec::with_capacity(9);
    write_unsigned(&mut out, age_ms);
    out.into()
}

pub(crate) fn encode_hop_count(hops: HopCount) -> Bytes {
    let mut out = Vec::with_capacity(12);
    hops.encode(&mut out);
    out.into()
}

fn two_numbers(reader: &mut Reader<'_>) -> Result<(u64, u64), CborError> {
    let mut array = reader.array()?;
    array.item(reader)?;
    let first = reader.unsigned()?;
    array.item(reader)?;
    let second = reader.unsigned()?;
    array.end(reader)?;
    Ok((first, second))
}

fn content(block: &ExtensionBlock, why: &dyn core::fmt::Display) -> Refusal {
    Refusal::BlockContent {
        number: block.number,
        block_type: block.block_type.0,
        why: why.to_string(),
    }
}

fn end(block: &ExtensionBlock, reader: &Reader<'_>) -> Result<(), Refusal> {
    if reader.is_empty() {
        Ok(())
    } else {
        Err(content(block, &"octets follow its end"))
    }
}
