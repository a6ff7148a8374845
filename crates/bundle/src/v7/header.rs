//! [`Header`]: a bundle without its payload, read from a prefix of its octets.

use alloc::vec::Vec;

use core::ops::Range;

use bytes::Bytes;

use crate::cbor::{CborError, Kind, Reader};
use crate::crc::CrcType;
use crate::eid::EndpointId;
use crate::id::{BundleId, FragmentRange};
use crate::reading::{Deviation, Reading};
use crate::short::ShortOctets;
use crate::v7::block::{
    BlockFlags, BlockHead, BlockType, ExtensionBlock, ExtensionBlocks, HopCount, PrimaryBlock,
    announces_aggregated_reports, decode_bundle_age, decode_hop_count, decode_previous_node,
    security_targets, verify_block_end,
};
use crate::v7::header_reader::HeaderReader;
use crate::v7::refusal::Refusal;

/// Octets from the start of a bundle to the first of its payload: what a node keeps in memory of a bundle
/// that arrives. Real headers take 40 to 300 octets.
pub const MAX_HEADER_OCTETS: usize = 64 * 1024;

/// Extension blocks in one bundle: each is looked at whenever the header is; real bundles have up to 6.
pub const MAX_EXTENSION_BLOCKS: usize = 64;

/// The head of the payload block: all that comes before the payload's first octet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadHead {
    /// Block processing control flags.
    pub flags: BlockFlags,
    /// Which checksum protects the payload block.
    pub crc_type: CrcType,
    /// Octets of payload.
    pub length: u64,
    /// The head as received or written: block array, fields, and the byte string's head.
    pub octets: HeadOctets,
    /// Whether a break ends the block.
    pub(crate) is_indefinite: bool,
}

impl PayloadHead {
    /// Octets after the payload: the CRC field and the bundle's break (and the block's own, if it has one).
    #[must_use]
    pub fn trailer_octets(&self) -> u64 {
        let field: u64 = match self.crc_type {
            CrcType::None => 0,
            CrcType::Crc16 => 3,
            CrcType::Crc32C => 5,
        };
        field + u64::from(self.is_indefinite) + 1
    }
}

/// Octets of a payload block's head: one each for the array, the type, the number and the CRC type, nine each for flags
/// and length.
pub type HeadOctets = ShortOctets<22>;

/// Everything of a bundle before its payload, every rule and CRC of it checked (RFC 9171 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The primary block.
    pub primary: PrimaryBlock,
    /// Extension blocks in the order of the octets.
    pub extensions: ExtensionBlocks,
    /// The payload block's head.
    pub payload: PayloadHead,
    /// The whole header as received: the bundle's octets up to the first of the payload.
    pub octets: Bytes,
    /// Range of the primary block in `octets`.
    pub(crate) primary_octets: Range<usize>,
    /// Range in `octets` of the primary block's fields from destination to lifetime.
    pub(crate) address_fields: Range<usize>,
    /// Numbers of blocks whose content is encrypted (RFC 9172 3.8).
    pub(crate) encrypted: Vec<u64>,
    pub(crate) age_ms: Option<u64>,
    pub(crate) hop_count: Option<HopCount>,
    pub(crate) previous_node: Option<EndpointId>,
}

impl Header {
    /// Reads the header of the bundle that `octets` begin with; `None` when more octets are needed.
    /// `octets` may hold any amount of what follows the header. Slices of them are kept, nothing is copied.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime, Header, Reading};
    /// let creation = CreationTimestamp { time: DtnTime::from_millis(1000), sequence: 7 };
    /// let octets = BundleBuilder::new("ipn:1.1".parse()?, "ipn:2.1".parse()?, creation, 3_600_000).bundle(b"hello")?;
    /// assert_eq!(Header::decode(&octets.slice(..20), Reading::Strict)?, None);
    /// let header = Header::decode(&octets, Reading::Strict)?.ok_or("more octets")?;
    /// assert_eq!(header.payload.length, 5);
    /// assert_eq!(header.id().to_string(), "ipn:1.1/1000/7");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The rule of RFC 9171 that the octets break.
    pub fn decode(octets: &Bytes, reading: Reading) -> Result<Option<Self>, Refusal> {
        let mut reader = HeaderReader::default();
        Ok(reader.read(octets, reading)?.then_some(reader.header))
    }

    /// The bundle's identity.
    #[must_use]
    pub fn id(&self) -> BundleId {
        BundleId {
            source: self.primary.source.clone(),
            creation: self.primary.creation,
            fragment: self.primary.fragment.map(|place| FragmentRange {
                offset: place.offset,
                length: self.payload.length,
            }),
        }
    }

    /// Octets from the start of the bundle to the first of its payload; at most [`MAX_HEADER_OCTETS`].
    #[must_use]
    pub fn header_octets(&self) -> u32 {
        u32::try_from(self.octets.len()).unwrap_or(u32::MAX)
    }

    /// Octets of payload.
    #[must_use]
    pub const fn payload_octets(&self) -> u64 {
        self.payload.length
    }

    /// Octets after the payload.
    #[must_use]
    pub fn trailer_octets(&self) -> u64 {
        self.payload.trailer_octets()
    }

    /// Octets of the whole bundle.
    #[must_use]
    pub fn total_octets(&self) -> u64 {
        // Decoding refuses bundles for which this exceeds 2^64-1.
        u64::from(self.header_octets())
            .saturating_add(self.payload.length)
            .saturating_add(self.payload.trailer_octets())
    }

    /// The bundle's age in milliseconds when it was last forwarded (RFC 9171 4.4.2), if it says.
    #[must_use]
    pub const fn age_ms(&self) -> Option<u64> {
        self.age_ms
    }

    /// Hop limit and count (RFC 9171 4.4.3), if there are.
    #[must_use]
    pub const fn hop_count(&self) -> Option<HopCount> {
        self.hop_count
    }

    /// The node that says it forwarded the bundle to this one (RFC 9171 4.4.1).
    #[must_use]
    pub const fn previous_node(&self) -> Option<&EndpointId> {
        self.previous_node.as_ref()
    }

    /// Whether the bundle says that its report-to endpoint reads aggregated reports
    /// (`docs/aggregated-reports.md`).
    #[must_use]
    pub fn reads_aggregated_reports(&self) -> bool {
        self.extensions.iter().any(|block| {
            block.block_type == BlockType::AGGREGATED_REPORTS
                && !self.encrypted.contains(&block.number)
                && announces_aggregated_reports(self.content(block))
        })
    }

    /// Extension blocks that this node cannot process, whose flags say what to do then (RFC 9171 5.6 step 4).
    pub fn unsupported_blocks(&self) -> impl Iterator<Item = &ExtensionBlock> {
        self.extensions
            .iter()
            .filter(|block| self.is_unsupported(block))
    }

    /// The block-type-specific data of one of its extension blocks.
    #[must_use]
    pub fn content(&self, block: &ExtensionBlock) -> &[u8] {
        block.content_in(&self.octets)
    }

    pub(crate) fn is_unsupported(&self, block: &ExtensionBlock) -> bool {
        let is_foreign = block.block_type == BlockType::AGGREGATED_REPORTS
            && !announces_aggregated_reports(self.content(block));
        !block.block_type.is_supported() || is_foreign || self.encrypted.contains(&block.number)
    }

    /// Reads the content of the blocks that every node understands, unless they are encrypted.
    fn read_extensions(&mut self, reading: Reading) -> Result<(), Refusal> {
        for block in &self.extensions {
            if block.block_type == BlockType::BLOCK_CONFIDENTIALITY {
                let targets = security_targets(block.content_in(&self.octets)).unwrap_or_default();
                self.encrypted.extend(targets);
            }
        }
        for block in &self.extensions {
            if self.encrypted.contains(&block.number) {
                continue;
            }
            let content = block.content_in(&self.octets);
            match block.block_type {
                BlockType::PREVIOUS_NODE => {
                    self.previous_node = Some(decode_previous_node(block, content, reading)?);
                }
                BlockType::BUNDLE_AGE => self.age_ms = Some(decode_bundle_age(block, content)?),
                BlockType::HOP_COUNT => self.hop_count = Some(decode_hop_count(block, content)?),
                _ => {}
            }
        }
        Ok(())
    }

    /// The rules that the blocks must satisfy together.
    fn check_rules(&self, reading: Reading) -> Result<(), Refusal> {
        // RFC 9171 4.4.1, 4.4.2, 4.4.3: at most one of each.
        for block_type in [
            BlockType::PREVIOUS_NODE,
            BlockType::BUNDLE_AGE,
            BlockType::HOP_COUNT,
        ] {
            if self.count_of(block_type) > 1 {
                return Err(Refusal::BlockTypeRepeated {
                    block_type: block_type.0,
                });
            }
        }
        self.check_rules_of_usual(reading)
    }

    /// The rules that the blocks must satisfy together, where none that may not be repeated is.
    pub(crate) fn check_rules_of_usual(&self, reading: Reading) -> Result<(), Refusal> {
        // RFC 9171 4.4.2: without creation time, exactly one bundle age block.
        if self.lacks_bundle_age() && !reading.accepts(Deviation::BundleAgeMissing) {
            return Err(Refusal::BundleAgeMissing);
        }
        // RFC 9171 4.3.1: a CRC, unless a Block Integrity Block targets the primary block.
        if self.primary.crc_type == CrcType::None
            && !self.may_have_signed_primary_block()
            && !reading.accepts(Deviation::PrimaryBlockWithoutCrc)
        {
            return Err(Refusal::PrimaryBlockWithoutCrc);
        }
        if let Some(place) = self.primary.fragment {
            // RFC 9171 5.8: a fragment has a part of the application data unit, and not an empty one.
            let total = place.total_adu_octets;
            let end = place.offset.checked_add(self.payload.length);
            if self.payload.length == 0 || end.is_none_or(|end| end > total) {
                let (offset, length) = (place.offset, self.payload.length);
                return Err(Refusal::FragmentRange {
                    offset,
                    length,
                    total,
                });
            }
        }
        if self.total_octets() == u64::MAX {
            Err(Refusal::BundleTooLong)
        } else {
            Ok(())
        }
    }

    /// Whether only a bundle age block could tell the bundle's age, and there is none.
    pub(crate) fn lacks_bundle_age(&self) -> bool {
        !self.primary.creation.time.is_known() && self.count_of(BlockType::BUNDLE_AGE) == 0
    }

    fn count_of(&self, block_type: BlockType) -> usize {
        self.extensions
            .iter()
            .filter(|block| block.block_type == block_type)
            .count()
    }

    /// Whether a Block Integrity Block targets the primary block; one that is encrypted (RFC 9172 3.8) does
    /// not tell, and gets the benefit of the doubt: a rule is broken only where that shows.
    fn may_have_signed_primary_block(&self) -> bool {
        self.extensions
            .iter()
            .filter(|block| block.block_type == BlockType::BLOCK_INTEGRITY)
            .any(|block| {
                self.encrypted.contains(&block.number)
                    || security_targets(self.content(block))
                        .is_some_and(|targets| targets.contains(&0))
            })
    }
}

/// Reads a header in any form, or says what is wrong with it.
pub(crate) fn decode_header(octets: &Bytes, reading: Reading) -> Result<Header, Refusal> {
    let mut reader = Reader::new(octets);
    // RFC 9171 4.1: a bundle is an array of indefinite length.
    match octets.first() {
        Some(0x9f) => reader.array()?,
        Some(6) => return Err(Refusal::Version6),
        Some(other) => return Err(Refusal::NotBundle(*other)),
        None => return Err(Refusal::Cbor(CborError::Incomplete { needed: 1 })),
    };
    let primary_start = reader.position();
    let primary = PrimaryBlock::decode(&mut reader, octets, reading)?;
    let primary_octets = primary_start..reader.position();
    let mut extensions = ExtensionBlocks::new();
    let payload = loop {
        if reader.kind()? == Kind::Break {
            return Err(Refusal::PayloadBlockMissing);
        }
        let start = reader.position();
        let (head, mut array) = BlockHead::decode(&mut reader)?;
        check_head(&head, &primary.block, &extensions, reading)?;
        let length = reader.byte_string_head()?;
        if head.block_type == BlockType::PAYLOAD {
            break PayloadHead {
                flags: head.flags,
                crc_type: head.crc_type,
                length,
                octets: octets
                    .get(start..reader.position())
                    .and_then(HeadOctets::new)
                    .ok_or(Refusal::HeaderTooLong)?,
                is_indefinite: head.is_indefinite,
            };
        }
        if extensions.len() == MAX_EXTENSION_BLOCKS {
            return Err(Refusal::TooManyBlocks);
        }
        let content_start = reader.position();
        reader.take_octets(length)?;
        let content_end = reader.position();
        verify_block_end(
            &mut reader,
            octets,
            start,
            head.crc_type,
            &mut array,
            head.number,
        )?;
        let all = (start, reader.position());
        extensions.push(ExtensionBlock::new(
            &head,
            all,
            (content_start, content_end),
        ));
    };
    extensions.number_anew();
    let mut header = Header {
        primary: primary.block,
        extensions,
        payload,
        octets: octets.slice(..reader.position()),
        primary_octets,
        address_fields: primary.address_fields,
        encrypted: Vec::new(),
        age_ms: None,
        hop_count: None,
        previous_node: None,
    };
    header.read_extensions(reading)?;
    header.check_rules(reading)?;
    Ok(header)
}

/// The rules about a block's number and flags.
pub(crate) fn check_head(
    head: &BlockHead,
    primary: &PrimaryBlock,
    before: &[ExtensionBlock],
    reading: Reading,
) -> Result<(), Refusal> {
    let number = head.number;
    // RFC 9171 4.1: the payload block is number 1, the primary block 0, each other number is unique.
    if head.block_type == BlockType::PAYLOAD {
        if number != 1 {
            return Err(Refusal::PayloadBlockNumber { number });
        }
    } else if number == 0 && reading.accepts(Deviation::BlockNumberZero) {
        // It gets a number of its own once all others are known.
    } else if number <= 1 {
        return Err(Refusal::BlockNumberReserved { number });
    } else if before.iter().any(|block| block.number == number) {
        return Err(Refusal::BlockNumberRepeated { number });
    }
    // RFC 9171 4.2.4: no reports about administrative records and anonymous bundles.
    if primary.forbids_block_reports() && head.flags.contains(BlockFlags::REPORT_IF_UNPROCESSABLE) {
        return Err(Refusal::BlockRequestsReport { number });
    }
    Ok(())
}
