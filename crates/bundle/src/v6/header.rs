//! The blocks before the payload, and the payload's head.

use alloc::vec::Vec;

use bytes::Bytes;

use super::block::{Block, BlockHead, BlockType};
use super::dictionary::{Dictionary, Reference};
use super::flags::BlockFlags;
use super::primary::PrimaryBlock;
use super::refusal::Refusal;
use super::sdnv::Reader;

/// Octets of the blocks before the payload, at most.
pub const MAX_HEADER_OCTETS: usize = 64 * 1024;

/// Blocks beside the primary block and the payload, at most.
pub const MAX_BLOCKS: usize = 64;

/// A bundle up to its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The primary block.
    pub primary: PrimaryBlock,
    /// The strings that references mean.
    pub dictionary: Dictionary,
    /// The blocks before the payload.
    pub blocks: Vec<Block>,
    /// The payload block's flags.
    pub payload_flags: BlockFlags,
    /// Endpoint IDs that the payload block refers to.
    pub payload_references: Vec<Reference>,
    /// Octets of payload.
    pub payload_octets: u64,
    /// All octets before the payload, at most [`MAX_HEADER_OCTETS`].
    pub octets: Bytes,
    /// The octets of the primary block among them.
    pub(crate) primary_octets: usize,
}

impl Header {
    /// The header of a bundle of one block, its payload.
    ///
    /// # Errors
    /// The rule that the primary block breaks.
    pub fn new(primary: PrimaryBlock, payload_octets: u64) -> Result<Self, Refusal> {
        let header = Self {
            primary,
            dictionary: Dictionary::default(),
            blocks: Vec::new(),
            payload_flags: BlockFlags::LAST,
            payload_references: Vec::new(),
            payload_octets,
            octets: Bytes::new(),
            primary_octets: 0,
        };
        Self::read(&header.encode().into())
    }

    /// Reads the octets that a bundle begins with; none while they are too few.
    ///
    /// # Errors
    /// The rule that they break.
    pub fn decode(octets: &Bytes) -> Result<Option<Self>, Refusal> {
        let seen = octets.slice(..octets.len().min(MAX_HEADER_OCTETS));
        match Self::read(&seen) {
            Ok(header) => Ok(Some(header)),
            Err(Refusal::Truncated) if octets.len() > MAX_HEADER_OCTETS => {
                Err(Refusal::HeaderTooLong)
            }
            Err(Refusal::Truncated) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    fn read(octets: &Bytes) -> Result<Self, Refusal> {
        let mut reader = Reader::new(octets);
        let (primary, dictionary) = PrimaryBlock::decode(&mut reader)?;
        let primary_octets = reader.position();
        let mut blocks = Vec::new();
        let payload = loop {
            let head = BlockHead::decode(&mut reader)?;
            if head.block_type == BlockType::PAYLOAD {
                break head;
            }
            if head.flags.contains(BlockFlags::LAST) {
                return Err(Refusal::PayloadMissing);
            }
            if blocks.len() == MAX_BLOCKS {
                return Err(Refusal::TooManyBlocks);
            }
            blocks.push(Block::decode(head, &mut reader, octets)?);
        };
        if let Some(place) = primary.fragment {
            let end = place.offset.checked_add(payload.octets);
            if end.is_none_or(|end| end > place.total_adu_octets) {
                return Err(Refusal::FragmentRange {
                    offset: place.offset,
                    length: payload.octets,
                    total: place.total_adu_octets,
                });
            }
        }
        let before = u64::try_from(reader.position()).unwrap_or(u64::MAX);
        if before.checked_add(payload.octets).is_none() {
            return Err(Refusal::BundleTooLong);
        }
        Ok(Self {
            primary,
            dictionary,
            blocks,
            payload_flags: payload.flags,
            payload_references: payload.references,
            payload_octets: payload.octets,
            octets: octets.slice(..reader.position()),
            primary_octets,
        })
    }

    /// True where the payload is the last block.
    #[must_use]
    pub const fn ends_with_payload(&self) -> bool {
        self.payload_flags.contains(BlockFlags::LAST)
    }

    /// Writes the blocks anew, up to the payload's first octet. References of blocks that have any mean nothing then, since the dictionary is
    /// another: there may be none.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.primary.encode(&mut out);
        for block in &self.blocks {
            block.encode(&mut out);
        }
        BlockHead {
            block_type: BlockType::PAYLOAD,
            flags: self.payload_flags,
            references: self.payload_references.clone(),
            octets: self.payload_octets,
        }
        .encode(&mut out);
        out
    }
}
