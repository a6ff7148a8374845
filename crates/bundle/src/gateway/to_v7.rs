//! [`v7_of`]: the header of version 7 of a bundle of version 6.

use alloc::vec::Vec;

use bytes::Bytes;

use super::edit::{Edit, Payload};
use super::of_v6::OfV6;
use super::of_v7::{OfV7, crossed, found};
use super::place::Place;
use super::untranslatable::Untranslatable;
use super::{GATEWAY_BLOCK_V7, endpoint, flags, identity, lifetime};
use crate::builder::{EXTENSION_CRC_TYPE, OutgoingHeader, end_header};
use crate::cbor::write_indefinite_array;
use crate::crc::CrcType;
use crate::header::Header;
use crate::priority::ClassOfService;
use crate::reading::Reading;
use crate::v6;
use crate::v7::block::{
    BlockFlags, BlockType, CanonicalBlock, FragmentPlace, PrimaryBlock, encode_bundle_age,
    encode_hop_count,
};
use crate::v7::refusal::Refusal;

/// The header of version 7 (RFC 9171) of a bundle of version 6, by the tables of `docs/gateway.md`. The payload follows as it came, or as
/// [`record_to_v7`](super::record_to_v7) gives it, and then the octets of [`OutgoingHeader::payload_crc`].
///
/// Custody of the bundle ends here: the node takes it first, or leaves the bundle to its custodian.
///
/// # Errors
/// The bundle has no form in version 7.
pub fn v7_of(
    header: &v6::Header,
    trailer: &v6::Trailer,
    edit: &Edit,
) -> Result<OutgoingHeader, Untranslatable> {
    let payload_octets = edit.payload_octets(&Payload {
        octets: header.payload_octets,
        is_record: (header.primary.flags).contains(v6::BundleFlags::ADMINISTRATIVE_RECORD),
        is_fragment: header.primary.fragment.is_some(),
    })?;
    // RFC 9171 5.8: a fragment has a part of the application data unit, and not an empty one.
    if header.primary.fragment.is_some() && payload_octets == 0 {
        return Err(Untranslatable::EmptyFragment);
    }
    let (used, known) = known_of(header).unzip();
    let known = known.as_ref();
    let remembered = OfV6::new(header, trailer, used)?;
    let primary = primary_of(&header.primary, known)?;
    let hops = crossed(known.map(|known| known.hops), edit.least_hops)?;

    let fragment = primary.fragment;
    let place = fragment.map(|place| Place::new(place.offset, header.payload_octets));
    let back: Vec<&CanonicalBlock> = known.iter().flat_map(|it| it.blocks(place)).collect();
    let mut new = Vec::new();
    if let Some(node) = &edit.previous_node {
        let mut content = Vec::new();
        node.endpoint().encode(&mut content);
        new.push((BlockType::PREVIOUS_NODE, BlockFlags::NONE, content.into()));
    }
    let every = BlockFlags::REPLICATE;
    new.push((BlockType::HOP_COUNT, every, encode_hop_count(hops)));
    if let Some(age_ms) = age_ms(header, trailer, edit) {
        new.push((BlockType::BUNDLE_AGE, every, encode_bundle_age(age_ms)));
    }
    new.push((GATEWAY_BLOCK_V7, every, remembered.encode()));
    let class = ClassOfService::of_v6(header.primary.flags, &header.blocks);
    // One that was in version 7 has its own back, or had none.
    if class != ClassOfService::default() && known.is_none() {
        new.push((BlockType::QUALITY_OF_SERVICE, every, class.block_v7()));
    }

    let mut out = Vec::with_capacity(256);
    write_indefinite_array(&mut out);
    primary.encode(&mut out);
    write_blocks(new, &back, &mut out);
    let crc_type = edit
        .payload_crc
        .unwrap_or_else(|| known.map_or(CrcType::Crc32C, |known| known.payload_crc_type));
    let payload_flags = flags::of_payload_to_v7(header.payload_flags, &primary);
    let outgoing = end_header(out, payload_flags, crc_type, payload_octets);
    // The rules stand in the decoder alone.
    match Header::decode(&outgoing.octets, Reading::Strict) {
        Ok(Some(_)) => Ok(outgoing),
        Ok(None) => Err(Untranslatable::Version7(Refusal::Truncated)),
        Err(refusal) => Err(Untranslatable::Version7(refusal)),
    }
}

/// The gateway block, and its content.
fn known_of(header: &v6::Header) -> Option<(&v6::Block, OfV7)> {
    let (at, known) = found(&header.blocks)?;
    Some((header.blocks.get(at)?, known))
}

fn primary_of(
    old: &v6::PrimaryBlock,
    known: Option<&OfV7>,
) -> Result<PrimaryBlock, Untranslatable> {
    let creation = identity::to_v7(old.creation)?;
    // A lifetime that was changed on the way counts as it stands.
    let lifetime_ms = known
        .map(|known| known.lifetime_ms)
        .filter(|exact| lifetime::to_v6(*exact, creation.time) == old.lifetime_s)
        .unwrap_or_else(|| lifetime::to_v7(old.lifetime_s));
    let crc_type = match known.map(|known| known.crc_type) {
        Some(CrcType::Crc16) => CrcType::Crc16,
        // RFC 9171 4.3.1: there is no Block Integrity Block in place of a checksum.
        Some(CrcType::Crc32C | CrcType::None) | None => CrcType::Crc32C,
    };
    Ok(PrimaryBlock {
        flags: flags::to_v7(old.flags, known.map(|known| known.flags)),
        crc_type,
        destination: endpoint::in_v7("destination", &old.destination)?,
        source: endpoint::in_v7("source", &old.source)?,
        report_to: endpoint::in_v7("report-to endpoint", &old.report_to)?,
        creation,
        lifetime_ms,
        fragment: old.fragment.map(|place| FragmentPlace {
            offset: place.offset,
            total_adu_octets: place.total_adu_octets,
        }),
    })
}

/// The age to say: of a bundle that says it, or without a creation time does not tell it in another way (RFC 9171 4.4.2).
fn age_ms(header: &v6::Header, trailer: &v6::Trailer, edit: &Edit) -> Option<u64> {
    let blocks = header.blocks.iter().chain(&trailer.blocks);
    let ages = blocks.filter(|block| {
        let block_type = block.block_type;
        block_type == v6::BlockType::AGE || block_type == v6::BlockType::CUSTODY_OR_AGE
    });
    let age_us = ages.filter_map(v6::Block::age_us).max();
    let needs_one = header.primary.creation.seconds == 0;
    let age_us = age_us.or(needs_one.then_some(0))?;
    Some((age_us / US_PER_MS).saturating_add(edit.age_increase_ms))
}

/// Microseconds of a millisecond.
pub(super) const US_PER_MS: u64 = 1_000;

/// Appends new blocks, and behind them those that are back, which have the numbers that they had.
fn write_blocks(
    new: Vec<(BlockType, BlockFlags, Bytes)>,
    back: &[&CanonicalBlock],
    out: &mut Vec<u8>,
) {
    // There are few blocks, so numbers are found.
    let is_free = |number: &u64| !back.iter().any(|block| block.number == *number);
    for ((block_type, flags, content), number) in new.into_iter().zip((2_u64..).filter(is_free)) {
        let crc_type = EXTENSION_CRC_TYPE;
        let block = CanonicalBlock::new(block_type, number, flags, crc_type, content);
        out.extend_from_slice(&block.octets);
    }
    for block in back {
        out.extend_from_slice(&block.octets);
    }
}
