//! The header as nearly all bundles have it, read at one glance.
//!
//! Most bundles have arrays of definite length, `ipn` endpoints, and nothing wrong with them. Reading those
//! needs no account of where and why reading failed: whatever does not fit is left to [`super::header`], which
//! knows every form and names every fault. What is read here is what that would read; the oracle compares.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::block::{
    BlockFlags, BlockHead, BlockType, BundleFlags, CanonicalBlock, FragmentPlace, HopCount,
    PrimaryBlock,
};
use crate::cbor::Reader;
use crate::crc::{CrcType, block_crc};
use crate::eid::EndpointId;
use crate::header::{Header, MAX_EXTENSION_BLOCKS, PayloadHead, check_head};
use crate::id::CreationTimestamp;
use crate::reading::Reading;
use crate::time::DtnTime;

/// Major types of CBOR (RFC 8949 3.1), as they stand in a head.
const UNSIGNED: u8 = 0x00;
const BYTES: u8 = 0x40;
const ARRAY: u8 = 0x80;

/// The header that `octets` begin with; `None` where it is not whole, not in the usual form, or not acceptable.
pub(crate) fn header(octets: &Bytes, reading: Reading) -> Option<Header> {
    let mut scan = Scan { octets, at: 0 };
    scan.expect(0x9f)?;
    let (primary, address_fields) = scan.primary(reading)?;
    let mut header = Header {
        primary_octets: 1..scan.at,
        primary,
        address_fields,
        ..Header::empty()
    };
    loop {
        let start = scan.at;
        let (head, length) = scan.block_head()?;
        check_head(&head, &header.primary, &header.extensions).ok()?;
        if head.block_type == BlockType::PAYLOAD {
            header.payload = PayloadHead {
                flags: head.flags,
                crc_type: head.crc_type,
                length,
                octets: octets.slice(start..scan.at),
                is_indefinite: false,
            };
            break;
        }
        if header.extensions.len() == MAX_EXTENSION_BLOCKS {
            return None;
        }
        let content_start = scan.at;
        scan.skip(length)?;
        let content_end = scan.at;
        scan.checksum(start, head.crc_type)?;
        scan.read_content(
            &mut header,
            head.block_type,
            content_start..content_end,
            reading,
        )?;
        header.extensions.push(CanonicalBlock {
            block_type: head.block_type,
            number: head.number,
            flags: head.flags,
            crc_type: head.crc_type,
            content: octets.slice(content_start..content_end),
            octets: octets.slice(start..scan.at),
        });
    }
    header.octets = octets.slice(..scan.at);
    header.check_rules(reading).ok()?;
    Some(header)
}

/// Octets and how far they are read.
struct Scan<'a> {
    octets: &'a [u8],
    at: usize,
}

impl Scan<'_> {
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
    fn primary(&mut self, reading: Reading) -> Option<(PrimaryBlock, core::ops::Range<usize>)> {
        let start = self.at;
        let items = self.argument(ARRAY)?;
        self.expect(7)?;
        let flags = BundleFlags::from_bits(self.unsigned()?);
        let crc_type = CrcType::from_code(self.unsigned()?)?;
        let is_fragment = flags.contains(BundleFlags::FRAGMENT);
        if items != 8 + u64::from(is_fragment) * 2 + u64::from(crc_type != CrcType::None) {
            return None;
        }
        let fields_start = self.at;
        let destination = self.endpoint(reading)?;
        let source = self.endpoint(reading)?;
        let report_to = self.endpoint(reading)?;
        self.expect(0x82)?;
        let creation = CreationTimestamp {
            time: DtnTime::from_millis(self.unsigned()?),
            sequence: self.unsigned()?,
        };
        let lifetime_ms = self.unsigned()?;
        let address_fields = fields_start..self.at;
        let fragment = match is_fragment {
            true => Some(FragmentPlace {
                offset: self.unsigned()?,
                total_adu_octets: self.unsigned()?,
            }),
            false => None,
        };
        self.checksum(start, crc_type)?;
        let block = PrimaryBlock {
            flags,
            crc_type,
            destination,
            source,
            report_to,
            creation,
            lifetime_ms,
            fragment,
        };
        block.check_rules().ok()?;
        Some((block, address_fields))
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
            BlockType::PREVIOUS_NODE => header.previous_node = Some(content.endpoint(reading)?),
            BlockType::BUNDLE_AGE => header.age_ms = Some(content.unsigned()?),
            BlockType::HOP_COUNT => {
                content.expect(0x82)?;
                let limit = u8::try_from(content.unsigned()?).ok()?;
                let count = content.unsigned()?;
                header.hop_count = (limit > 0).then_some(HopCount { limit, count });
                header.hop_count?;
            }
            // RFC 9172 3.8: it says which blocks cannot be read.
            BlockType::BLOCK_CONFIDENTIALITY => return None,
            _ => return Some(()),
        }
        (content.at == place.end).then_some(())
    }
}

impl Header {
    /// Nothing: to be filled.
    fn empty() -> Self {
        Self {
            primary: PrimaryBlock {
                flags: BundleFlags::NONE,
                crc_type: CrcType::None,
                destination: EndpointId::Null,
                source: EndpointId::Null,
                report_to: EndpointId::Null,
                creation: CreationTimestamp::default(),
                lifetime_ms: 0,
                fragment: None,
            },
            extensions: Vec::new(),
            payload: PayloadHead {
                flags: BlockFlags::NONE,
                crc_type: CrcType::None,
                length: 0,
                octets: Bytes::new(),
                is_indefinite: false,
            },
            octets: Bytes::new(),
            primary_octets: 0..0,
            address_fields: 0..0,
            encrypted: Vec::new(),
            age_ms: None,
            hop_count: None,
            previous_node: None,
        }
    }
}
