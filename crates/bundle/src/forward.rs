//! What a node changes in a bundle's header when it forwards, fragments or reassembles (RFC 9171 5.4, 5.8, 5.9).

use alloc::vec::Vec;

use bytes::Bytes;

use crate::block::{
    BlockFlags, BlockHead, BlockType, BundleFlags, CanonicalBlock, FragmentPlace, HopCount,
    PrimaryBlock, encode_bundle_age, encode_hop_count, encode_previous_node,
};
use crate::cbor::{write_byte_string, write_indefinite_array};
use crate::crc::{CrcType, append_crc};
use crate::eid::NodeId;
use crate::encode::{OutgoingHeader, end_header};
use crate::header::Header;
use crate::id::FragmentRange;

/// What happens to extension blocks that this node cannot process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnsupportedBlocks {
    /// Those whose flags ask for it are removed (RFC 9171 5.6 step 4): the rule for bundles received.
    #[default]
    Discard,
    /// All stay: for bundles that this node created.
    Keep,
}

/// The checksum of a fragment's payload block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FragmentPayloadCrc {
    /// Of the type that the whole bundle's has; the sender computes it over the fragment's payload.
    #[default]
    SameType,
    /// None: for senders that cannot wait for the payload, over links that protect it.
    Omitted,
}

/// A fragment to make of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentEdit {
    /// Which octets of the original application data unit it carries; within those that the bundle has.
    pub range: FragmentRange,
    /// Its payload block's checksum.
    pub payload_crc: FragmentPayloadCrc,
}

/// What changes in a header on its way out.
#[derive(Clone, Debug, Default)]
pub struct HopEdit {
    /// The node ID of this node for the previous node block; without it the bundle leaves with none
    /// (RFC 9171 5.4 step 4: the one received is removed).
    pub previous_node: Option<NodeId>,
    /// Milliseconds that the bundle age grows by, if there is a bundle age block: the time since it was received.
    /// A bundle that needs the block and came without gets it, with this age.
    pub age_increase_ms: u64,
    /// What the hop count grows by, if there is a hop count block: 1 for every forwarding.
    pub hop_increment: u64,
    /// What becomes of blocks that this node cannot process.
    pub unsupported: UnsupportedBlocks,
    /// The part of the payload that goes, if not all of it.
    pub fragment: Option<FragmentEdit>,
}

impl Header {
    /// The header for the next hop. All that an edit does not change keeps its octets. Without fragment, the
    /// payload and the octets after it stay as received; with one, its payload is the slice that its range says,
    /// and [`OutgoingHeader::payload_crc`] must see it to write the trailer.
    ///
    /// The fragment that begins where this bundle does has all extension blocks; others have those that are
    /// marked for it (RFC 9171 5.8), and the bundle age and hop count, which guard each of them on its way.
    ///
    /// # Panics
    /// When the fragment's range is empty or not within this bundle, or the bundle must not be fragmented.
    #[must_use]
    pub fn forwarded(&self, edit: &HopEdit) -> OutgoingHeader {
        // A "fragment" that is all of the bundle is the bundle.
        let fragment = edit
            .fragment
            .filter(|fragment| fragment.range != self.range());
        let mut out = Vec::with_capacity(self.octets.len() + 64);
        write_indefinite_array(&mut out);
        match fragment {
            None => out.extend_from_slice(self.slice(&self.primary_octets)),
            Some(fragment) => {
                let primary = self.fragment_primary(fragment.range);
                primary.encode_around(self.slice(&self.address_fields), &mut out);
            }
        }
        let has_all_blocks =
            fragment.is_none_or(|fragment| fragment.range.offset == self.range().offset);
        self.insert_blocks(edit, &mut out);
        for block in &self.extensions {
            if has_all_blocks || goes_into_every_fragment(block) {
                self.forward_block(block, edit, &mut out);
            }
        }
        match fragment {
            None => self.end_unchanged(out),
            Some(fragment) => {
                let crc_type = match fragment.payload_crc {
                    FragmentPayloadCrc::SameType => self.payload.crc_type,
                    FragmentPayloadCrc::Omitted => CrcType::None,
                };
                end_header(out, self.payload.flags, crc_type, fragment.range.length)
            }
        }
    }

    /// The header of the whole bundle, from its fragment with offset 0 (RFC 9171 5.9): its blocks as they are, its
    /// payload the whole application data unit, whose checksum [`OutgoingHeader::payload_crc`] computes. `None`
    /// for other bundles.
    #[must_use]
    pub fn reassembled(&self) -> Option<OutgoingHeader> {
        let place = self.primary.fragment.filter(|place| place.offset == 0)?;
        let mut primary = self.primary.clone();
        primary.fragment = None;
        let mut out = Vec::with_capacity(self.octets.len() + 8);
        write_indefinite_array(&mut out);
        primary.encode_around(self.slice(&self.address_fields), &mut out);
        for block in &self.extensions {
            out.extend_from_slice(&block.octets);
        }
        Some(end_header(
            out,
            self.payload.flags,
            self.payload.crc_type,
            place.total_adu_octets,
        ))
    }

    /// Which octets of the application data unit the bundle carries.
    #[must_use]
    pub fn range(&self) -> FragmentRange {
        let offset = self.primary.fragment.map_or(0, |place| place.offset);
        FragmentRange {
            offset,
            length: self.payload.length,
        }
    }

    /// Octets of the whole application data unit.
    #[must_use]
    pub fn total_adu_octets(&self) -> u64 {
        self.primary
            .fragment
            .map_or(self.payload.length, |place| place.total_adu_octets)
    }

    /// RFC 9171 5.8: the fragment flag, offset and total length, and a new CRC.
    fn fragment_primary(&self, range: FragmentRange) -> PrimaryBlock {
        assert!(
            !self.primary.flags.contains(BundleFlags::MUST_NOT_FRAGMENT),
            "a bundle that must not be fragmented is not"
        );
        let own = self.range();
        let within = range.offset >= own.offset
            && range
                .offset
                .checked_add(range.length)
                .is_some_and(|end| end <= own.offset + own.length);
        assert!(
            within && range.length > 0,
            "a fragment is some of its bundle's payload"
        );
        let place = FragmentPlace {
            offset: range.offset,
            total_adu_octets: self.total_adu_octets(),
        };
        PrimaryBlock {
            fragment: Some(place),
            ..self.primary.clone()
        }
    }

    /// Appends the blocks that the next hop must see and that did not come with the bundle.
    fn insert_blocks(&self, edit: &HopEdit, out: &mut Vec<u8>) {
        // There are at most 64 extension blocks, so two numbers are found.
        let is_free = |number: &u64| !self.extensions.iter().any(|block| block.number == *number);
        let mut numbers = (2_u64..).filter(is_free);
        let mut insert = |block_type, flags, content| {
            let number = numbers.next().unwrap_or(u64::MAX);
            let block =
                CanonicalBlock::new(block_type, number, flags, self.primary.crc_type, content);
            out.extend_from_slice(&block.octets);
        };
        let has_previous_node = self
            .extensions
            .iter()
            .any(|block| block.block_type == BlockType::PREVIOUS_NODE);
        if let (Some(node), false) = (&edit.previous_node, has_previous_node) {
            insert(
                BlockType::PREVIOUS_NODE,
                BlockFlags::NONE,
                encode_previous_node(node.endpoint()),
            );
        }
        // RFC 9171 4.4.2: without creation time, exactly one bundle age block.
        if self.lacks_bundle_age() {
            insert(
                BlockType::BUNDLE_AGE,
                BlockFlags::REPLICATE,
                encode_bundle_age(edit.age_increase_ms),
            );
        }
    }

    fn forward_block(&self, block: &CanonicalBlock, edit: &HopEdit, out: &mut Vec<u8>) {
        let discards = edit.unsupported == UnsupportedBlocks::Discard;
        if block.block_type == BlockType::PREVIOUS_NODE {
            // RFC 9171 5.4 step 4: the one received goes, encrypted or not.
            if let Some(node) = &edit.previous_node {
                write_changed(block, &encode_previous_node(node.endpoint()), out);
            }
        } else if self.is_unsupported(block) {
            // RFC 9171 5.6 step 4.
            if !(discards && block.flags.contains(BlockFlags::DISCARD_IF_UNPROCESSABLE)) {
                out.extend_from_slice(&block.octets);
            }
        } else if let (BlockType::BUNDLE_AGE, Some(age_ms), 1..) =
            (block.block_type, self.age_ms(), edit.age_increase_ms)
        {
            let age_ms = age_ms.saturating_add(edit.age_increase_ms);
            write_changed(block, &encode_bundle_age(age_ms), out);
        } else if let (BlockType::HOP_COUNT, Some(hops), 1..) =
            (block.block_type, self.hop_count(), edit.hop_increment)
        {
            let hops = HopCount {
                count: hops.count.saturating_add(edit.hop_increment),
                ..hops
            };
            write_changed(block, &encode_hop_count(hops), out);
        } else {
            out.extend_from_slice(&block.octets);
        }
    }

    fn end_unchanged(&self, mut out: Vec<u8>) -> OutgoingHeader {
        let start = out.len();
        out.extend_from_slice(&self.payload.octets);
        let octets = Bytes::from(out);
        let payload = crate::header::PayloadHead {
            octets: octets.slice(start..),
            ..self.payload.clone()
        };
        OutgoingHeader { octets, payload }
    }

    fn slice(&self, range: &core::ops::Range<usize>) -> &[u8] {
        self.octets.get(range.clone()).unwrap_or_default()
    }
}

fn goes_into_every_fragment(block: &CanonicalBlock) -> bool {
    block.flags.contains(BlockFlags::REPLICATE)
        || matches!(
            block.block_type,
            BlockType::BUNDLE_AGE | BlockType::HOP_COUNT | BlockType::PREVIOUS_NODE
        )
}

/// Appends a block with other content and a new CRC.
fn write_changed(block: &CanonicalBlock, content: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let head = BlockHead {
        block_type: block.block_type,
        number: block.number,
        flags: block.flags,
        crc_type: block.crc_type,
        is_indefinite: false,
    };
    head.encode(out);
    write_byte_string(out, content);
    append_crc(out, start, block.crc_type);
}
