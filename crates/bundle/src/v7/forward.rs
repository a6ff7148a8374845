//! Changes of a bundle's header when a node forwards, fragments or reassembles it (RFC 9171 5.4, 5.8, 5.9).

use alloc::vec::Vec;

use bytes::Bytes;

use crate::builder::{EXTENSION_CRC_TYPE, OutgoingHeader, end_header};
use crate::cbor::{write_byte_string_head, write_indefinite_array, write_unsigned};
use crate::crc::{CrcType, append_crc};
use crate::eid::{EndpointId, NodeId};
use crate::gateway::AgeDialect;
use crate::header::{Header, PayloadHead};
use crate::id::FragmentRange;
use crate::mutant::{Mutant, planted};
use crate::v6::forward::Forwarded;
use crate::v7::block::{
    BlockFlags, BlockHead, BlockType, BundleFlags, ExtensionBlock, FragmentPlace, HopCount,
    PrimaryBlock,
};

/// The treatment of extension blocks that this node cannot process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnsupportedBlocks {
    /// Blocks whose flags ask for it are removed (RFC 9171 5.6 step 4): the rule for bundles received.
    #[default]
    Discard,
    /// All stay: for bundles that this node created.
    Keep,
}

/// The checksum of the payload block as it goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedPayloadCrc {
    /// Of the type that the bundle's has; of a fragment the sender computes it over the fragment's payload.
    #[default]
    SameType,
    /// None: for peers that take no payload block with a checksum, and senders that cannot wait for the payload.
    Omitted,
}

/// The changes of a header on its way out.
#[derive(Clone, Debug, Default)]
pub struct HopEdit {
    /// The node ID of this node for the previous node block; without it the bundle leaves with none
    /// (RFC 9171 5.4 step 4: the one received is removed).
    pub previous_node: Option<NodeId>,
    /// Milliseconds that the bundle age grows by, if there is a bundle age block: the time since it was received.
    /// A bundle that needs the block and came without gets it, with this age.
    pub age_increase_ms: u64,
    /// The increment of the hop count, if there is a hop count block: 1 for every forwarding.
    pub hop_increment: u64,
    /// The treatment of blocks that this node cannot process.
    pub unsupported: UnsupportedBlocks,
    /// The part of the payload that goes, if not all of it: a range of the original application data unit, within the octets
    /// that the bundle has.
    pub fragment: Option<FragmentRange>,
    /// The payload block's checksum.
    pub payload_crc: ForwardedPayloadCrc,
    /// The copies that the next node may make of a bundle of version 7 in its turn, where that is counted: a block says so if there are several,
    /// and none if there is one.
    pub permits: Option<u64>,
    /// The custodian of a bundle of version 6, where it is another than before (RFC 5050 5.10.1).
    pub custodian: Option<Custodian>,
    /// The block that the next hop takes for the age of a bundle of version 6: one that takes type 10 for it gets no custody ID.
    pub age_dialect: AgeDialect,
}

/// A new custodian of a bundle of version 6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Custodian {
    /// Its endpoint ID.
    pub endpoint: EndpointId,
    /// Its number of the bundle for aggregate signals, where it has given one.
    pub id: Option<u64>,
}

impl Custodian {
    pub(crate) fn numbered(&self) -> Option<(u64, &EndpointId)> {
        Some((self.id?, &self.endpoint))
    }
}

/// The extension blocks of the last header that was forwarded, as they came and as they went out: those of a stream of bundles change alike.
#[derive(Clone, Debug, Default)]
pub struct LastHop {
    came: Vec<u8>,
    previous_node: Option<NodeId>,
    hop_increment: u64,
    unsupported: UnsupportedBlocks,
    permits: Option<u64>,
    went: Vec<u8>,
}

impl LastHop {
    /// Blocks change in the same way.
    fn is(&self, came: &[u8], edit: &HopEdit) -> bool {
        self.came == came
            && self.hop_increment == edit.hop_increment
            && self.unsupported == edit.unsupported
            && self.permits == edit.permits
            && self.previous_node == edit.previous_node
    }

    fn remember(&mut self, came: &[u8], edit: &HopEdit, went: &[u8]) {
        self.came.clear();
        self.came.extend_from_slice(came);
        self.previous_node.clone_from(&edit.previous_node);
        self.hop_increment = edit.hop_increment;
        self.unsupported = edit.unsupported;
        self.permits = edit.permits;
        self.went.clear();
        self.went.extend_from_slice(went);
    }
}

impl Header {
    /// The header for the next hop. All that an edit does not change keeps its octets. Without fragment the payload
    /// stays as received, and so do the octets after it unless [`Self::loses_payload_crc`]; with one, its payload is the
    /// slice that its range says, and [`OutgoingHeader::payload_crc`] must see it to write the trailer.
    ///
    /// The fragment that begins where this bundle does has all extension blocks; others have those that are
    /// marked for it (RFC 9171 5.8), and the bundle age and hop count, which guard each of them on its way.
    ///
    /// # Panics
    /// When the fragment's range is empty or not within this bundle, or the bundle must not be fragmented.
    #[must_use]
    pub fn forwarded(&self, edit: &HopEdit) -> OutgoingHeader {
        if let Some(forwarded) = self.forwarded_v6(edit) {
            return forwarded.header;
        }
        let mut out = Vec::with_capacity(self.octets.len() + 64);
        // A "fragment" that is all of the bundle is the bundle.
        let Some(range) = edit.fragment.filter(|range| *range != self.range()) else {
            self.append_blocks(edit, &mut out);
            let payload = self.forwarded_payload(edit.payload_crc);
            out.extend_from_slice(&payload.octets);
            return OutgoingHeader {
                octets: Bytes::from(out),
                payload,
            };
        };
        write_indefinite_array(&mut out);
        let primary = self.fragment_primary(range);
        primary.encode_around(self.slice(&self.address_fields), &mut out);
        let has_all_blocks = range.offset == self.range().offset;
        self.insert_blocks(edit, &mut out);
        for block in &self.extensions {
            if has_all_blocks
                || (goes_into_every_fragment(block) && !planted(Mutant::BlocksOfFirstFragment))
            {
                self.forward_block(block, edit, &mut out);
            }
        }
        let crc_type = match edit.payload_crc {
            ForwardedPayloadCrc::SameType => self.payload.crc_type,
            ForwardedPayloadCrc::Omitted => CrcType::None,
        };
        end_header(out, self.payload.flags, crc_type, range.length)
    }

    /// The blocks that follow the payload of the bundle, or fragment, that [`Self::forwarded`] is the header of: none but of
    /// a bundle of version 6 with blocks behind its payload, which [`Self::read_trailer`] has read.
    #[must_use]
    pub fn forwarded_trailer(&self, edit: &HopEdit) -> Bytes {
        match &self.trailer {
            Some(_) => self.forwarded_v6(edit).map(|it| it.trailer),
            None => None,
        }
        .unwrap_or_default()
    }

    fn forwarded_v6(&self, edit: &HopEdit) -> Option<Forwarded> {
        Some((self.v6.as_deref()?).forwarded(self.trailer.as_ref(), edit))
    }

    /// As [`Self::forwarded`] for a whole bundle, whatever fragment the edit names, into room that is there:
    /// appends the header to `out`. Returns octets of the whole bundle as it goes out.
    pub fn append_forwarded(&self, edit: &HopEdit, out: &mut Vec<u8>) -> u64 {
        if self.v6.is_some() {
            return self.append_forwarded_v6(edit, out);
        }
        let start = out.len();
        self.append_blocks(edit, out);
        self.end_forwarded(edit, start, out)
    }

    fn append_forwarded_v6(&self, edit: &HopEdit, out: &mut Vec<u8>) -> u64 {
        let whole = HopEdit {
            fragment: None,
            ..edit.clone()
        };
        let Some(forwarded) = self.forwarded_v6(&whole) else {
            return 0;
        };
        out.extend_from_slice(&forwarded.header.octets);
        forwarded.total_octets()
    }

    /// As [`Self::append_forwarded`], where what changes is looked up in `last` if it changed in the same way before.
    pub fn append_forwarded_as(
        &self,
        edit: &HopEdit,
        last: &mut LastHop,
        out: &mut Vec<u8>,
    ) -> u64 {
        let Some(came) = self.steady_blocks() else {
            return self.append_forwarded(edit, out);
        };
        let start = out.len();
        write_indefinite_array(out);
        out.extend_from_slice(self.slice(&self.primary_octets));
        if last.is(came, edit) {
            out.extend_from_slice(&last.went);
        } else {
            let went = out.len();
            self.append_extensions(edit, out);
            last.remember(came, edit, out.get(went..).unwrap_or_default());
        }
        self.end_forwarded(edit, start, out)
    }

    /// The octets of all extension blocks, unless what they go out as depends on how old the bundle is.
    fn steady_blocks(&self) -> Option<&[u8]> {
        if self.v6.is_some() || self.age_ms.is_some() || self.lacks_bundle_age() {
            return None;
        }
        let end = self.octets.len().checked_sub(self.payload.octets.len())?;
        self.octets.get(self.primary_octets.end..end)
    }

    /// Whether a bundle with a checksum over its payload goes out without it: then a break alone follows the payload.
    #[must_use]
    pub fn loses_payload_crc(&self, payload_crc: ForwardedPayloadCrc) -> bool {
        payload_crc == ForwardedPayloadCrc::Omitted && self.payload.crc_type != CrcType::None
    }

    /// The payload block's head as a whole bundle goes out.
    fn forwarded_payload(&self, payload_crc: ForwardedPayloadCrc) -> PayloadHead {
        match self.loses_payload_crc(payload_crc) {
            true => PayloadHead::new(self.payload.flags, CrcType::None, self.payload.length),
            false => self.payload.clone(),
        }
    }

    fn end_forwarded(&self, edit: &HopEdit, start: usize, out: &mut Vec<u8>) -> u64 {
        let payload = self.forwarded_payload(edit.payload_crc);
        out.extend_from_slice(&payload.octets);
        let header_octets = out.len().saturating_sub(start);
        u64::try_from(header_octets)
            .unwrap_or(u64::MAX)
            .saturating_add(payload.length)
            .saturating_add(payload.trailer_octets())
    }

    /// Appends all before the payload block.
    fn append_blocks(&self, edit: &HopEdit, out: &mut Vec<u8>) {
        write_indefinite_array(out);
        out.extend_from_slice(self.slice(&self.primary_octets));
        self.append_extensions(edit, out);
    }

    fn append_extensions(&self, edit: &HopEdit, out: &mut Vec<u8>) {
        self.insert_blocks(edit, out);
        for block in &self.extensions {
            self.forward_block(block, edit, out);
        }
    }

    /// The header of the whole bundle, from its fragment with offset 0 (RFC 9171 5.9): its blocks as they are, its
    /// payload the whole application data unit, whose checksum [`OutgoingHeader::payload_crc`] computes. `None`
    /// for other bundles, and those of version 6.
    #[must_use]
    pub fn reassembled(&self) -> Option<OutgoingHeader> {
        let place =
            (self.primary.fragment).filter(|place| place.offset == 0 && self.v6.is_none())?;
        let mut primary = self.primary.clone();
        primary.fragment = None;
        let mut out = Vec::with_capacity(self.octets.len() + 8);
        write_indefinite_array(&mut out);
        primary.encode_around(self.slice(&self.address_fields), &mut out);
        for block in &self.extensions {
            self.repeat_block(block, &mut out);
        }
        Some(end_header(
            out,
            self.payload.flags,
            self.payload.crc_type,
            place.total_adu_octets,
        ))
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
        let from = if planted(Mutant::OffsetOfFragment) {
            own.offset
        } else {
            0
        };
        let place = FragmentPlace {
            offset: range.offset - from,
            total_adu_octets: self.total_adu_octets(),
        };
        PrimaryBlock {
            fragment: Some(place),
            ..self.primary.clone()
        }
    }

    /// Appends the blocks that the next hop must see and that did not come with the bundle.
    fn insert_blocks(&self, edit: &HopEdit, out: &mut Vec<u8>) {
        // There are at most 64 extension blocks, so three numbers are found.
        let is_free = |number: &u64| !self.extensions.iter().any(|block| block.number == *number);
        let mut numbers = (2_u64..).filter(is_free);
        let mut head = |block_type, flags| BlockHead {
            block_type,
            number: numbers.next().unwrap_or(u64::MAX),
            flags,
            crc_type: EXTENSION_CRC_TYPE,
            is_indefinite: false,
        };
        let has_previous_node = self
            .extensions
            .iter()
            .any(|block| block.block_type == BlockType::PREVIOUS_NODE);
        if let (Some(node), false) = (&edit.previous_node, has_previous_node) {
            let head = head(BlockType::PREVIOUS_NODE, BlockFlags::NONE);
            write_block(head, out, |out| node.endpoint().encode(out));
        }
        if let Some(permits @ 2..) = edit.permits {
            let head = head(BlockType::SPRAY_PERMITS, BlockFlags::REPLICATE);
            write_block(head, out, |out| write_unsigned(out, permits));
        }
        // RFC 9171 4.4.2: without creation time, exactly one bundle age block.
        if self.lacks_bundle_age() {
            let head = head(BlockType::BUNDLE_AGE, BlockFlags::REPLICATE);
            write_block(head, out, |out| write_unsigned(out, edit.age_increase_ms));
        }
    }

    fn forward_block(&self, block: &ExtensionBlock, edit: &HopEdit, out: &mut Vec<u8>) {
        let discards = edit.unsupported == UnsupportedBlocks::Discard;
        if block.block_type == BlockType::PREVIOUS_NODE {
            // RFC 9171 5.4 step 4: the one received goes, encrypted or not.
            if planted(Mutant::PreviousNodeKept) {
                self.repeat_block(block, out);
            } else if let Some(node) = &edit.previous_node {
                write_changed(block, out, |out| node.endpoint().encode(out));
            }
        } else if block.block_type == BlockType::SPRAY_PERMITS && edit.permits.is_some() {
            // The number was the one before's.
        } else if self.is_unsupported(block) {
            // RFC 9171 5.6 step 4. RFC 9172 3.8: a BCB is never discarded, whatever its flags say.
            let is_discarded = discards
                && block.flags.contains(BlockFlags::DISCARD_IF_UNPROCESSABLE)
                && block.block_type != BlockType::BLOCK_CONFIDENTIALITY;
            if !is_discarded {
                self.repeat_block(block, out);
            }
        } else if let (BlockType::BUNDLE_AGE, Some(age_ms), 1..) =
            (block.block_type, self.age_ms(), edit.age_increase_ms)
        {
            let increase_ms = if planted(Mutant::AgeStandsStill) {
                0
            } else {
                edit.age_increase_ms
            };
            let age_ms = age_ms.saturating_add(increase_ms);
            write_changed(block, out, |out| write_unsigned(out, age_ms));
        } else if let (BlockType::HOP_COUNT, Some(hops), 1..) =
            (block.block_type, self.hop_count(), edit.hop_increment)
        {
            let hops = HopCount {
                count: match planted(Mutant::HopsNotCounted) {
                    true => hops.count,
                    false => hops.count.saturating_add(edit.hop_increment),
                },
                ..hops
            };
            write_changed(block, out, |out| hops.encode(out));
        } else {
            self.repeat_block(block, out);
        }
    }

    /// Appends a block as it came, but for a number that it may not have.
    fn repeat_block(&self, block: &ExtensionBlock, out: &mut Vec<u8>) {
        match block.has_new_number() {
            false => out.extend_from_slice(block.octets_in(&self.octets)),
            true => write_changed(block, out, |out| {
                out.extend_from_slice(block.content_in(&self.octets));
            }),
        }
    }
}

fn goes_into_every_fragment(block: &ExtensionBlock) -> bool {
    block.flags.contains(BlockFlags::REPLICATE)
        || matches!(
            block.block_type,
            BlockType::BUNDLE_AGE | BlockType::HOP_COUNT | BlockType::PREVIOUS_NODE
        )
}

/// The head of a byte string without octets (RFC 8949 3.1); up to 23 octets it holds their number.
const SHORT_STRING: u8 = 0x40;

/// Puts the head of a byte string of `length` octets, which ends `out`, where one of one octet stands.
fn lengthen_head(out: &mut Vec<u8>, head_start: usize, length: usize) {
    write_byte_string_head(out, u64::try_from(length).unwrap_or(u64::MAX));
    if let Some(string) = out.get_mut(head_start + 1..) {
        string.rotate_left(length);
    }
    out.remove(head_start);
}

/// Appends a block with other content and a new CRC.
fn write_changed(block: &ExtensionBlock, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    write_block(block.head(), out, content);
}

/// Appends a block whose content is written in place.
fn write_block(head: BlockHead, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    head.encode(out);
    // Nearly all contents are so short that the head of their byte string is one octet.
    let head_start = out.len();
    out.push(SHORT_STRING);
    content(out);
    let length = out.len().saturating_sub(head_start + 1);
    match (u8::try_from(length), out.get_mut(head_start)) {
        (Ok(length @ 0..=23), Some(head)) => *head |= length,
        _ => lengthen_head(out, head_start, length),
    }
    append_crc(out, start, head.crc_type);
}
