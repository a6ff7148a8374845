//! Changes of a bundle's blocks when a node forwards or fragments it (RFC 5050 5.4, 5.8), or takes custody of it (5.10).

use alloc::vec::Vec;

use bytes::Bytes;

use super::block::{Block, BlockHead, BlockType};
use super::dictionary::{Dictionary, Reference, compressed, read_reference, write_reference};
use super::flags::{BlockFlags, BundleFlags};
use super::header::Header;
use super::primary::{FragmentPlace, VERSION};
use super::refusal::Refusal;
use super::sdnv::{self, Reader};
use super::trailer::Trailer;
use crate::builder::OutgoingHeader;
use crate::crc::CrcType;
use crate::eid::EndpointId;
use crate::gateway::{AgeDialect, count_hops};
use crate::header::{Closing, PayloadHead};
use crate::id::FragmentRange;
use crate::mutant::{Mutant, planted};
use crate::v7::forward::{Custodian, HopEdit, UnsupportedBlocks};

/// Microseconds of a millisecond.
const US_PER_MS: u64 = 1_000;

/// The blocks of a bundle as they go out: those before the payload, the payload's head among them, and those behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    pub(crate) header: OutgoingHeader,
    pub(crate) trailer: Bytes,
}

impl Forwarded {
    /// Octets of the bundle as it goes out.
    pub(crate) fn total_octets(&self) -> u64 {
        let trailer = u64::try_from(self.trailer.len()).unwrap_or(u64::MAX);
        self.header.total_octets().saturating_add(trailer)
    }
}

impl Header {
    /// The blocks for the next hop. `trailer` has those behind the payload, where they are known; without it they follow as they are in the
    /// store, and a fragment gets none of them.
    pub(crate) fn forwarded(&self, trailer: Option<&Trailer>, edit: &HopEdit) -> Forwarded {
        let own = self.range();
        let fragment = edit.fragment.filter(|range| *range != own);
        let mut out = self.forwarded_primary(edit.custodian.as_ref(), fragment);
        let is_first = fragment.is_none_or(|range| range.offset == own.offset);
        let end = |range: FragmentRange| range.offset.saturating_add(range.length);
        let is_last = fragment.is_none_or(|range| end(range) == end(own));
        let mut blocks = forwarded_blocks(&self.blocks, edit, is_first);
        count_hops(&mut blocks, edit.hop_increment);
        for block in &blocks {
            block.encode(&mut out);
        }
        let numbered = edit.custodian.as_ref().and_then(Custodian::numbered);
        if let Some((id, custodian)) = numbered.filter(|_| takes_custody_ids(edit)) {
            Block::of_custody(id, custodian).encode(&mut out);
        }
        let behind = trailer.map(|trailer| forwarded_blocks(&trailer.blocks, edit, is_last));
        let has_blocks = match &behind {
            Some(blocks) => !blocks.is_empty(),
            None => !self.ends_with_payload() && fragment.is_none(),
        };
        let length = fragment.map_or(self.payload_octets, |range| range.length);
        let flags = self.payload_flags.with(BlockFlags::LAST, !has_blocks);
        BlockHead {
            block_type: BlockType::PAYLOAD,
            flags,
            references: self.payload_references.clone(),
            octets: length,
        }
        .encode(&mut out);
        Forwarded {
            header: outgoing(out, flags, length),
            trailer: closed(behind.unwrap_or_default()),
        }
    }

    fn range(&self) -> FragmentRange {
        FragmentRange {
            offset: self.primary.fragment.map_or(0, |place| place.offset),
            length: self.payload_octets,
        }
    }

    /// The primary block with another custodian or as that of a fragment, and else as it came: its strings stay where they are, since blocks
    /// refer to them.
    fn forwarded_primary(
        &self,
        custodian: Option<&Custodian>,
        fragment: Option<FragmentRange>,
    ) -> Vec<u8> {
        let octets = self.octets.get(..self.primary_octets).unwrap_or_default();
        if custodian.is_none() && fragment.is_none() {
            return octets.to_vec();
        }
        let own = self.primary.fragment;
        let place = match fragment {
            Some(range) => Some(FragmentPlace {
                offset: range.offset,
                total_adu_octets: own.map_or(self.payload_octets, |it| it.total_adu_octets),
            }),
            None => own,
        };
        let custodian = custodian.map(|it| &it.endpoint);
        rewritten_primary(octets, custodian, place).unwrap_or_else(|_| {
            // Strings are needed where there were none: nothing refers to those.
            let mut primary = self.primary.clone();
            if let Some(custodian) = custodian {
                primary.custodian = custodian.clone();
            }
            primary.fragment = place;
            primary.flags = primary.flags.with(BundleFlags::FRAGMENT, place.is_some());
            let mut out = Vec::new();
            primary.encode(&mut out);
            out
        })
    }
}

/// A primary block with another custodian and another place; refused where numbers stand for endpoint IDs and the custodian is none of those.
fn rewritten_primary(
    octets: &[u8],
    custodian: Option<&EndpointId>,
    place: Option<FragmentPlace>,
) -> Result<Vec<u8>, Refusal> {
    let mut reader = Reader::new(octets);
    reader.octet()?;
    let flags = BundleFlags::from_bits(reader.number()?);
    reader.number()?;
    let mut references: [Reference; 4] = Default::default();
    for reference in &mut references {
        *reference = read_reference(&mut reader)?;
    }
    let (seconds, sequence, lifetime) = (reader.number()?, reader.number()?, reader.number()?);
    let length = reader.number()?;
    let mut dictionary = Dictionary::new(reader.octets(length)?);
    if let Some(custodian) = custodian {
        let [_, _, _, last] = &mut references;
        *last = match dictionary.octets().is_empty() {
            false => dictionary.refer(custodian),
            true => compressed(custodian).ok_or(Refusal::Truncated)?,
        };
    }
    let mut fields = Vec::with_capacity(octets.len() + 32);
    for reference in references {
        write_reference(&mut fields, reference);
    }
    for number in [seconds, sequence, lifetime] {
        sdnv::write(&mut fields, number);
    }
    let strings = dictionary.octets();
    sdnv::write(
        &mut fields,
        u64::try_from(strings.len()).unwrap_or(u64::MAX),
    );
    fields.extend_from_slice(strings);
    if let Some(place) = place {
        sdnv::write(&mut fields, place.offset);
        sdnv::write(&mut fields, place.total_adu_octets);
    }
    let mut out = Vec::with_capacity(fields.len() + 12);
    out.push(VERSION);
    sdnv::write(
        &mut out,
        flags.with(BundleFlags::FRAGMENT, place.is_some()).bits(),
    );
    sdnv::write(&mut out, u64::try_from(fields.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(&fields);
    Ok(out)
}

/// Blocks as they go out. A fragment at the other end of the payload has those alone that are in every one.
fn forwarded_blocks(blocks: &[Block], edit: &HopEdit, has_all: bool) -> Vec<Block> {
    let blocks = blocks.iter();
    let here = blocks.filter(|block| has_all || block.is_in_every_fragment());
    here.filter_map(|block| forwarded_block(block, edit))
        .collect()
}

/// Whether the next hop takes a block of type 10 for a custody ID.
const fn takes_custody_ids(edit: &HopEdit) -> bool {
    matches!(edit.age_dialect, AgeDialect::Type20)
}

/// A block as it goes out; none where it stays behind.
fn forwarded_block(block: &Block, edit: &HopEdit) -> Option<Block> {
    if block.block_type == BlockType::PREVIOUS_HOP {
        // RFC 6259 3: the next node is told of this one, or of nobody.
        let node = edit.previous_node.as_ref()?;
        return Some(Block {
            flags: block.flags.with(BlockFlags::REFERENCES, false),
            ..Block::of_previous_hop(node)
        });
    }
    if let Some(age) = block.age_of_bundle_us() {
        let increase_ms = match planted(Mutant::AgeStandsStill) {
            true => 0,
            false => edit.age_increase_ms,
        };
        let increase = increase_ms.saturating_mul(US_PER_MS);
        let mut content = Vec::new();
        sdnv::write(&mut content, age.saturating_add(increase));
        return Some(Block {
            content: content.into(),
            ..block.clone()
        });
    }
    if block.block_type == BlockType::CUSTODY_OR_AGE {
        // The number was the custodian's before.
        let stays = edit.custodian.is_none() && takes_custody_ids(edit);
        return stays.then(|| block.clone());
    }
    if block.is_supported() || edit.unsupported == UnsupportedBlocks::Keep {
        return Some(block.clone());
    }
    // RFC 5050 5.6 step 3: it is discarded, or marked as not processed.
    // Without the block that says so, an encrypted payload would pass for a plain one: that block stays.
    let is_discarded = block.flags.contains(BlockFlags::DISCARD_IF_UNPROCESSED)
        && block.block_type != BlockType::PAYLOAD_CONFIDENTIALITY;
    (!is_discarded).then(|| Block {
        flags: block.flags | BlockFlags::FORWARDED_UNPROCESSED,
        ..block.clone()
    })
}

/// Octets of blocks behind a payload, of which the last one says that it is.
fn closed(blocks: Vec<Block>) -> Bytes {
    let count = blocks.len();
    let mut out = Vec::new();
    for (number, mut block) in (1..).zip(blocks) {
        block.flags = block.flags.with(BlockFlags::LAST, number == count);
        block.encode(&mut out);
    }
    out.into()
}

/// The header that these octets are, whose payload's head says that.
pub(crate) fn outgoing(octets: Vec<u8>, flags: BlockFlags, length: u64) -> OutgoingHeader {
    OutgoingHeader {
        octets: octets.into(),
        payload: PayloadHead {
            flags: crate::v7::block::BlockFlags::from_bits(flags.bits()),
            crc_type: CrcType::None,
            length,
            closing: match flags.contains(BlockFlags::LAST) {
                true => Closing::Nothing,
                false => Closing::Blocks,
            },
            ..PayloadHead::default()
        },
    }
}
