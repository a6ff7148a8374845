//! The header as nearly all bundles have it, read at one glance.
//!
//! Most bundles have arrays of definite length, `ipn` endpoints, and nothing wrong with them. Reading those
//! needs no account of where and why reading failed: whatever does not fit is left to [`super::header`], which
//! knows every form and names every fault. Both read the same from the same octets; the oracle compares.

use bytes::Bytes;

use crate::cbor::Reader;
use crate::crc::{CrcType, block_crc};
use crate::eid::EndpointId;
use crate::header::{Closing, HeadOctets, Header, MAX_EXTENSION_BLOCKS, PayloadHead};
use crate::header_reader::Known;
use crate::id::CreationTimestamp;
use crate::reading::Reading;
use crate::short::ShortOctets;
use crate::time::DtnTime;
use crate::v7::block::{
    BlockFlags, BlockHead, BlockType, BundleFlags, ExtensionBlock, FragmentPlace, HopCount,
    PrimaryBlock,
};
use crate::v7::header::check_head;

/// Major types of CBOR (RFC 8949 3.1), as they stand in a head.
const UNSIGNED: u8 = 0x00;
const BYTES: u8 = 0x40;
const ARRAY: u8 = 0x80;

/// Reads the header that `octets` begin with into `header`; `None` where it is not whole, not in the usual form, or
/// not acceptable, and then `header` is nothing to go by.
///
/// `known` has the octets from which parts of `header` were read before; where they stand again, those parts stay.
pub(crate) fn read(header: &mut Header, known: &mut Known, octets: &Bytes) -> Option<()> {
    let reading = known.reading;
    let mut scan = Scan { octets, at: 0 };
    scan.expect(0x9f)?;
    header.address_fields = scan.primary(&mut header.primary, known)?;
    header.primary_octets = 1..scan.at;
    let blocks_start = scan.at;
    let forbids_reports = header.primary.forbids_block_reports();
    let are_known = !known.blocks.is_empty()
        && known.forbids_reports == forbids_reports
        && scan.rest().starts_with(&known.blocks);
    if are_known {
        // The same blocks, checksums and all, at another place perhaps.
        header.extensions.shift(known.blocks_start, blocks_start);
        scan.at += known.blocks.len();
    } else {
        header.extensions.clear();
        header.encrypted.clear();
        header.age_ms = None;
        header.hop_count = None;
        header.previous_node = None;
    }
    loop {
        let start = scan.at;
        let (head, length) = scan.block_head()?;
        check_head(&head, &header.primary, &header.extensions, Reading::Strict).ok()?;
        if head.block_type == BlockType::PAYLOAD {
            header.payload = PayloadHead {
                flags: head.flags,
                crc_type: head.crc_type,
                length,
                octets: octets.get(start..scan.at).and_then(HeadOctets::new)?,
                closing: Closing::Break,
            };
            if !are_known || start - blocks_start != known.blocks.len() {
                let blocks = octets.get(blocks_start..start);
                known.blocks = blocks.and_then(ShortOctets::new).unwrap_or_default();
                known.forbids_reports = forbids_reports;
            }
            known.blocks_start = blocks_start;
            break;
        }
        if header.extensions.len() == MAX_EXTENSION_BLOCKS {
            return None;
        }
        let content_start = scan.at;
        scan.skip(length)?;
        let content_end = scan.at;
        scan.checksum(start, head.crc_type)?;
        scan.read_content(header, head.block_type, content_start..content_end, reading)?;
        let (all, content) = ((start, scan.at), (content_start, content_end));
        header
            .extensions
            .push(ExtensionBlock::new(&head, all, content));
    }
    header.octets = octets.slice(..scan.at);
    header.check_rules_of_usual(reading).ok()
}

/// Octets and how far they are read.
struct Scan<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a [u8] {
        self.octets.get(self.at..).unwrap_or_default()
    }

    fn octet(&mut self) -> Option<u8> {
        let octet = *self.octets.get(self.at)?;
        self.at += 1;
        Some(octet)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let octets = self.octets.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(*octets)
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.octet()? == wanted).then_some(())
    }

    fn skip(&mut self, length: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(length).ok()?)?;
        (end <= self.octets.len()).then(|| self.at = end)
    }

    /// The argument of a head of this major type.
    #[inline]
    fn argument(&mut self, major: u8) -> Option<u64> {
        let first = self.octet()?;
        match first ^ major {
            argument @ 0..=23 => Some(u64::from(argument)),
            additional => self.long_argument(additional),
        }
    }

    fn long_argument(&mut self, additional: u8) -> Option<u64> {
        let (value, smallest) = match additional {
            24 => (u64::from(self.octet()?), 24),
            25 => (u64::from(u16::from_be_bytes(self.array()?)), 0x100),
            26 => (u64::from(u32::from_be_bytes(self.array()?)), 0x1_0000),
            27 => (u64::from_be_bytes(self.array()?), 0x1_0000_0000),
            // Another major type, or an indefinite length.
            _ => return None,
        };
        // RFC 8949 4.2.1: the shortest argument.
        (value >= smallest).then_some(value)
    }

    fn unsigned(&mut self) -> Option<u64> {
        self.argument(UNSIGNED)
    }

    /// RFC 9171 4.3.1.
    fn primary(
        &mut self,
        block: &mut PrimaryBlock,
        known: &mut Known,
    ) -> Option<core::ops::Range<usize>> {
        let start = self.at;
        if !known.start.is_empty() && self.rest().starts_with(&known.start) {
            self.at += known.start.len();
        } else {
            known.addresses = self.primary_start(block, known.reading)?;
            let octets = self.octets.get(start..self.at);
            known.start = octets.and_then(ShortOctets::new).unwrap_or_default();
        }
        let fields_start = start + known.addresses;
        self.expect(0x82)?;
        block.creation = CreationTimestamp {
            time: DtnTime::from_millis(self.unsigned()?),
            sequence: self.unsigned()?,
        };
        block.lifetime_ms = self.unsigned()?;
        let address_fields = fields_start..self.at;
        block.fragment = match block.flags.contains(BundleFlags::FRAGMENT) {
            true => Some(FragmentPlace {
                offset: self.unsigned()?,
                total_adu_octets: self.unsigned()?,
            }),
            false => None,
        };
        self.checksum(start, block.crc_type)?;
        Some(address_fields)
    }

    /// The primary block up to its creation timestamp; tells how many octets stand before the addresses.
    fn primary_start(&mut self, block: &mut PrimaryBlock, reading: Reading) -> Option<usize> {
        let start = self.at;
        let items = self.argument(ARRAY)?;
        self.expect(7)?;
        let flags = BundleFlags::from_bits(self.unsigned()?);
        let crc_type = CrcType::from_code(self.unsigned()?)?;
        let is_fragment = flags.contains(BundleFlags::FRAGMENT);
        if items != 8 + u64::from(is_fragment) * 2 + u64::from(crc_type != CrcType::None) {
            return None;
        }
        let addresses = self.at - start;
        block.flags = flags;
        block.crc_type = crc_type;
        block.destination = self.endpoint(reading)?;
        block.source = self.endpoint(reading)?;
        block.report_to = self.endpoint(reading)?;
        // They are about the flags and the addresses alone.
        block.check_rules().ok()?;
        Some(addresses)
    }

    /// RFC 9171 4.2.5.1: `[2, [node, service]]` here, all other forms where they are known.
    fn endpoint(&mut self, reading: Reading) -> Option<EndpointId> {
        let rest = self.octets.get(self.at..)?;
        if !rest.starts_with(&[0x82, 0x02, 0x82]) {
            let mut reader = Reader::new(rest);
            let endpoint = EndpointId::decode(&mut reader, reading).ok()?;
            self.at += reader.position();
            return Some(endpoint);
        }
        self.at += 3;
        let (node, service) = (self.unsigned()?, self.unsigned()?);
        EndpointId::from_ipn_numbers(
            u32::try_from(node >> 32).ok()?,
            u32::try_from(node & u64::from(u32::MAX)).ok()?,
            u32::try_from(service).ok()?,
        )
        .ok()
    }

    /// RFC 9171 4.3.2: the fields of a block, up to its content, and the octets of that.
    fn block_head(&mut self) -> Option<(BlockHead, u64)> {
        if let Some(
            &[
                array @ 0x85..=0x86,
                block_type @ 0..24,
                number @ 0..24,
                flags @ 0..24,
                code @ 0..=2,
            ],
        ) = self.rest().first_chunk()
            && (array == 0x86) == (code > 0)
        {
            // As nearly all have it: each head is one octet.
            self.at += 5;
            let head = BlockHead {
                block_type: BlockType(block_type.into()),
                number: number.into(),
                flags: BlockFlags::from_bits(flags.into()),
                crc_type: CrcType::from_code(code.into())?,
                is_indefinite: false,
            };
            return Some((head, self.argument(BYTES)?));
        }
        self.any_block_head()
    }

    fn any_block_head(&mut self) -> Option<(BlockHead, u64)> {
        let items = self.argument(ARRAY)?;
        let head = BlockHead {
            block_type: BlockType(self.unsigned()?),
            number: self.unsigned()?,
            flags: BlockFlags::from_bits(self.unsigned()?),
            crc_type: CrcType::from_code(self.unsigned()?)?,
            is_indefinite: false,
        };
        let length = self.argument(BYTES)?;
        (items == 5 + u64::from(head.crc_type != CrcType::None)).then_some((head, length))
    }

    /// RFC 9171 4.2.2: the checksum of the block that began at `start`, if it has one.
    fn checksum(&mut self, start: usize, crc_type: CrcType) -> Option<()> {
        let covered = self.octets.get(start..self.at)?;
        match crc_type {
            CrcType::None => Some(()),
            CrcType::Crc16 => {
                self.expect(0x42)?;
                let found = u32::from(u16::from_be_bytes(self.array()?));
                (block_crc(crc_type, covered) == found).then_some(())
            }
            CrcType::Crc32C => {
                self.expect(0x44)?;
                let found = u32::from_be_bytes(self.array()?);
                (block_crc(crc_type, covered) == found).then_some(())
            }
        }
    }

    /// RFC 9171 4.4: what a block says that every node understands.
    fn read_content(
        &self,
        header: &mut Header,
        block_type: BlockType,
        place: core::ops::Range<usize>,
        reading: Reading,
    ) -> Option<()> {
        let mut content = Scan {
            octets: self.octets.get(..place.end)?,
            at: place.start,
        };
        match block_type {
            // RFC 9171 4.4.1, 4.4.2, 4.4.3: at most one of each.
            BlockType::PREVIOUS_NODE if header.previous_node.is_none() => {
                header.previous_node = Some(content.endpoint(reading)?);
            }
            BlockType::BUNDLE_AGE if header.age_ms.is_none() => {
                header.age_ms = Some(content.unsigned()?);
            }
            BlockType::HOP_COUNT if header.hop_count.is_none() => {
                content.expect(0x82)?;
                let limit = u8::try_from(content.unsigned()?).ok()?;
                let count = content.unsigned()?;
                header.hop_count = (limit > 0).then_some(HopCount { limit, count });
                header.hop_count?;
            }
            // RFC 9172 3.8: it says which blocks cannot be read.
            BlockType::BLOCK_CONFIDENTIALITY
            | BlockType::PREVIOUS_NODE
            | BlockType::BUNDLE_AGE
            | BlockType::HOP_COUNT => return None,
            _ => return Some(()),
        }
        (content.at == place.end).then_some(())
    }
}
