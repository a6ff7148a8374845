//! The blocks before the payload of a bundle of version 7 (RFC 9171 4): read in any form, and the rules that they satisfy together.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::cbor::{CborError, Kind, Reader};
use crate::crc::CrcType;
use crate::header::{Closing, HeadOctets, Header, MAX_EXTENSION_BLOCKS, PayloadHead};
use crate::reading::{Deviation, Reading};
use crate::v7::block::{
    BlockFlags, BlockHead, BlockType, ExtensionBlock, ExtensionBlocks, PrimaryBlock,
    decode_bundle_age, decode_hop_count, decode_previous_node, security_targets, verify_block_end,
};
use crate::v7::refusal::Refusal;

impl Header {
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
                closing: match head.is_indefinite {
                    true => Closing::TwoBreaks,
                    false => Closing::Break,
                },
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
        v6: None,
        trailer: None,
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
