//! The blocks behind the payload, which may be any number.

use alloc::vec::Vec;

use bytes::Bytes;

use super::block::{Block, BlockHead, BlockType};
use super::flags::BlockFlags;
use super::header::{Header, MAX_BLOCKS};
use super::refusal::Refusal;
use super::sdnv::Reader;

/// Octets of the blocks behind the payload, at most.
pub const MAX_TRAILER_OCTETS: usize = 64 * 1024;

/// The end of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// The blocks behind the payload.
    pub blocks: Vec<Block>,
    /// Octets of them all.
    pub octets: usize,
}

impl Trailer {
    /// Reads the octets that follow a payload; none while they are too few.
    ///
    /// # Errors
    /// The rule that they break.
    pub fn decode(header: &Header, octets: &Bytes) -> Result<Option<Self>, Refusal> {
        if header.ends_with_payload() {
            return Ok(Some(Self::default()));
        }
        Self::decode_behind(header.blocks.len(), octets)
    }

    /// As [`Self::decode`], behind a payload that is not the last block, and so many blocks before it.
    ///
    /// # Errors
    /// The rule that the octets break.
    pub(crate) fn decode_behind(
        blocks_before: usize,
        octets: &Bytes,
    ) -> Result<Option<Self>, Refusal> {
        let seen = octets.slice(..octets.len().min(MAX_TRAILER_OCTETS));
        match Self::read(blocks_before, &seen) {
            Ok(trailer) => Ok(Some(trailer)),
            Err(Refusal::Truncated) if octets.len() > MAX_TRAILER_OCTETS => {
                Err(Refusal::TrailerTooLong)
            }
            Err(Refusal::Truncated) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    fn read(blocks_before: usize, octets: &Bytes) -> Result<Self, Refusal> {
        let mut reader = Reader::new(octets);
        let mut blocks = Vec::new();
        loop {
            let head = BlockHead::decode(&mut reader)?;
            if head.block_type == BlockType::PAYLOAD {
                return Err(Refusal::TwoPayloads);
            }
            if blocks_before.saturating_add(blocks.len()) >= MAX_BLOCKS {
                return Err(Refusal::TooManyBlocks);
            }
            let is_last = head.flags.contains(BlockFlags::LAST);
            blocks.push(Block::decode(head, &mut reader, octets)?);
            if is_last {
                return Ok(Self {
                    blocks,
                    octets: reader.position(),
                });
            }
        }
    }
}
