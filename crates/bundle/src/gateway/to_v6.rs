//! [`v6_of`]: the blocks of version 6 of a bundle of version 7.

use alloc::vec::Vec;

use bytes::Bytes;

use super::edit::{Edit, Payload};
use super::of_v6::{OfV6, Side};
use super::of_v7::OfV7;
use super::place::Place;
use super::to_v7::US_PER_MS;
use super::untranslatable::Untranslatable;
use super::{GATEWAY_BLOCK_V6, GATEWAY_BLOCK_V7, endpoint, flags, identity, lifetime};
use crate::eid::{EndpointId, NodeId};
use crate::header::Header;
use crate::v6::{self, Block, BlockFlags, FragmentPlace, PrimaryBlock, Refusal};
use crate::v7::block::BundleFlags;

/// A bundle of version 6 to send: first its octets, then the payload, then its trailer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingV6 {
    /// All octets before the payload.
    pub octets: Bytes,
    /// Octets of payload.
    pub payload_octets: u64,
    /// All octets behind the payload; none where it is the last block.
    pub trailer: Bytes,
}

impl OutgoingV6 {
    /// Octets of the whole bundle.
    #[must_use]
    pub fn total_octets(&self) -> u64 {
        let around = self.octets.len().saturating_add(self.trailer.len());
        let around = u64::try_from(around).unwrap_or(u64::MAX);
        around.saturating_add(self.payload_octets)
    }
}

/// The blocks of version 6 (RFC 5050) of a bundle of version 7, by the tables of `docs/gateway.md`. The payload follows as it came, or as
/// [`record_to_v6`](super::record_to_v6) gives it. Its checksum must have been verified: version 6 has none.
///
/// # Errors
/// The bundle has no form in version 6.
pub fn v6_of(header: &Header, edit: &Edit) -> Result<OutgoingV6, Untranslatable> {
    let payload_octets = edit.payload_octets(&Payload {
        octets: header.payload.length,
        is_record: (header.primary.flags).contains(BundleFlags::ADMINISTRATIVE_RECORD),
        is_fragment: header.primary.fragment.is_some(),
    })?;
    let (used, known) = known_of(header).unzip();
    let known = known.as_ref();
    let remembered = OfV7::new(header, used, edit.least_hops)?;
    let primary = primary_of(header, known, edit)?;

    let mut blocks = Vec::new();
    if let Some(node) = &edit.previous_node {
        endpoint::in_v6("previous node", node.endpoint())?;
        blocks.push(Block::of_previous_hop(node));
    }
    let content = remembered.encode();
    blocks.push(Block::new(GATEWAY_BLOCK_V6, BlockFlags::REPLICATE, content));
    if let Some(age_ms) = age_ms(header, edit) {
        let age_us = age_ms.saturating_mul(US_PER_MS);
        blocks.push(Block::of_age(edit.age_dialect.block_type(), age_us));
    }
    // One that was in version 6 has its own back.
    if known.is_none() {
        blocks.extend(header.class_of_service().block_v6());
    }
    let fragment = header.primary.fragment;
    let place = fragment.map(|place| Place::new(place.offset, header.payload.length));
    let back = |side| known.into_iter().flat_map(move |it| it.blocks(side, place));
    blocks.extend(back(Side::Before).cloned());
    let behind: Vec<&Block> = back(Side::Behind).collect();

    let payload_flags = flags::of_payload_to_v6(header.payload.flags);
    let octets = v6::Header {
        primary,
        dictionary: v6::Dictionary::default(),
        blocks,
        payload_flags: match behind.is_empty() {
            true => payload_flags | BlockFlags::LAST,
            false => payload_flags,
        },
        payload_references: Vec::new(),
        payload_octets,
        octets: Bytes::new(),
        primary_octets: 0,
    }
    .encode();
    checked(OutgoingV6 {
        octets: octets.into(),
        payload_octets,
        trailer: trailer_of(&behind),
    })
}

/// The number of the gateway block, and its content.
fn known_of(header: &Header) -> Option<(u64, OfV6)> {
    header.extensions.iter().find_map(|block| {
        let is_one = block.block_type == GATEWAY_BLOCK_V7;
        let known = is_one.then(|| OfV6::decode(header.content(block)));
        Some((block.number, known.flatten()?))
    })
}

fn primary_of(
    header: &Header,
    known: Option<&OfV6>,
    edit: &Edit,
) -> Result<PrimaryBlock, Untranslatable> {
    let new = &header.primary;
    // A lifetime that was changed on the way counts as it stands.
    let lifetime_s = known
        .map(|known| known.lifetime_s)
        .filter(|exact| lifetime::to_v7(*exact) == new.lifetime_ms)
        .unwrap_or_else(|| lifetime::to_v6(new.lifetime_ms, new.creation.time));
    let class = match header.class_in_any_block() {
        Some(class) => class.priority.class(),
        None => edit.priority,
    };
    let flags = flags::to_v6(new, known.map(|known| known.flags), class);
    let has_custodian = flags.contains(v6::BundleFlags::CUSTODY_REQUESTED);
    let custodian = edit.custodian.as_ref().filter(|_| has_custodian);
    let custodian = custodian.map_or(&EndpointId::Null, NodeId::endpoint);
    Ok(PrimaryBlock {
        flags,
        destination: endpoint::in_v6("destination", &new.destination)?,
        source: endpoint::in_v6("source", &new.source)?,
        report_to: endpoint::in_v6("report-to endpoint", &new.report_to)?,
        custodian: endpoint::in_v6("custodian", custodian)?,
        creation: identity::to_v6(new.creation)?,
        lifetime_s,
        fragment: new.fragment.map(|place| FragmentPlace {
            offset: place.offset,
            total_adu_octets: place.total_adu_octets,
        }),
    })
}

/// The age to say: of a bundle that says it, or without a creation time does not tell it in another way.
fn age_ms(header: &Header, edit: &Edit) -> Option<u64> {
    let needs_one = !header.primary.creation.time.is_known();
    let age_ms = header.age_ms().or(needs_one.then_some(0))?;
    Some(age_ms.saturating_add(edit.age_increase_ms))
}

fn trailer_of(behind: &[&Block]) -> Bytes {
    let mut out = Vec::new();
    for (at, block) in behind.iter().enumerate() {
        let is_last = at + 1 == behind.len();
        let last = if is_last {
            BlockFlags::LAST
        } else {
            BlockFlags::NONE
        };
        let block = Block {
            flags: block.flags | last,
            ..(*block).clone()
        };
        block.encode(&mut out);
    }
    out.into()
}

/// The rules of version 6 stand in its decoder alone.
fn checked(outgoing: OutgoingV6) -> Result<OutgoingV6, Untranslatable> {
    let read = v6::Header::decode(&outgoing.octets).and_then(|header| {
        let header = header.ok_or(Refusal::Truncated)?;
        v6::Trailer::decode(&header, &outgoing.trailer)?.ok_or(Refusal::Truncated)
    });
    match read {
        Ok(_) => Ok(outgoing),
        Err(refusal) => Err(Untranslatable::Version6(refusal)),
    }
}
