//! A bundle of version 6 in the terms that a node has for bundles of either version.

use alloc::boxed::Box;

use super::block::{Block, BlockType};
use super::flags::BlockFlags;
use super::header::Header;
use super::refusal::Refusal;
use crate::crc::CrcType;
use crate::gateway::{self, identity};
use crate::header::{Closing, PayloadHead};
use crate::v7;
use crate::v7::block::{BundleFlags, FragmentPlace, PrimaryBlock};

/// Milliseconds of a second.
const MS_PER_SECOND: u64 = 1_000;

/// Microseconds of a millisecond.
const US_PER_MS: u64 = 1_000;

impl Header {
    /// The header as nodes know it: the creation timestamp as a gateway would write it in version 7, the lifetime in milliseconds.
    ///
    /// # Errors
    /// A creation time that version 7 cannot say.
    pub(crate) fn carried(self) -> Result<crate::Header, Refusal> {
        let primary = &self.primary;
        let creation = identity::to_v7(primary.creation)
            .map_err(|it| Refusal::Untranslatable(Box::new(it)))?;
        // A fragment has a part of the application data unit, and not an empty one.
        if let (Some(place), 0) = (primary.fragment, self.payload_octets) {
            return Err(Refusal::FragmentRange {
                offset: place.offset,
                length: 0,
                total: place.total_adu_octets,
            });
        }
        let closing = match self.ends_with_payload() {
            true => Closing::Nothing,
            false => Closing::Blocks,
        };
        let payload = PayloadHead {
            flags: v7::block::BlockFlags::from_bits(self.payload_flags.bits()),
            crc_type: CrcType::None,
            length: self.payload_octets,
            closing,
            ..PayloadHead::default()
        };
        Ok(crate::Header {
            primary: PrimaryBlock {
                flags: BundleFlags::from_bits(primary.flags.bits()),
                crc_type: CrcType::None,
                destination: primary.destination.clone(),
                source: primary.source.clone(),
                report_to: primary.report_to.clone(),
                creation,
                lifetime_ms: primary.lifetime_s.saturating_mul(MS_PER_SECOND),
                fragment: primary.fragment.map(|place| FragmentPlace {
                    offset: place.offset,
                    total_adu_octets: place.total_adu_octets,
                }),
            },
            payload,
            octets: self.octets.clone(),
            age_ms: self.age_us().map(|age| age / US_PER_MS),
            previous_node: (self.blocks.iter())
                .find(|block| block.block_type == BlockType::PREVIOUS_HOP)
                .and_then(|block| block.previous_hop(&self.dictionary)),
            hop_count: gateway::hop_count_of(&self),
            v6: Some(Box::new(self)),
            ..crate::Header::default()
        })
    }

    /// The age of the bundle in microseconds, in whichever block the program that made it has one.
    #[must_use]
    pub fn age_us(&self) -> Option<u64> {
        self.blocks.iter().find_map(Block::age_of_bundle_us)
    }

    /// Blocks that this program cannot process (RFC 5050 5.6 step 3).
    pub(crate) fn unsupported_blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| !block.is_supported())
    }
}

impl Block {
    /// The age of the bundle, microseconds, where this block has it: of type 20 (ION), or of type 10 where it is not a custodian's number.
    pub(super) fn age_of_bundle_us(&self) -> Option<u64> {
        match self.block_type {
            BlockType::AGE | BlockType::CUSTODY_OR_AGE => self.age_us(),
            _ => None,
        }
    }

    /// Whether this program knows what a block of its type is for.
    pub(super) const fn is_supported(&self) -> bool {
        matches!(
            self.block_type,
            BlockType::PREVIOUS_HOP
                | BlockType::CUSTODY_OR_AGE
                | BlockType::EXTENDED_CLASS
                | BlockType::AGE
        )
    }

    /// Whether the block is in every fragment of its bundle: its flags say so, or its data are about each of them.
    pub(super) const fn is_in_every_fragment(&self) -> bool {
        self.flags.contains(BlockFlags::REPLICATE) || self.is_supported()
    }
}
