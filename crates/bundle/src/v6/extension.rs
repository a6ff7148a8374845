//! Blocks that this program writes into bundles of others.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::block::{Block, BlockType};
use super::flags::BlockFlags;
use super::sdnv;
use crate::eid::NodeId;

impl Block {
    /// A block of these flags and data, which refers to nothing.
    #[must_use]
    pub fn new(block_type: BlockType, flags: BlockFlags, content: Vec<u8>) -> Self {
        Self {
            block_type,
            flags,
            references: Vec::new(),
            content: content.into(),
        }
    }

    /// The node that forwards the bundle (RFC 6259 2): scheme and part, each with a zero behind it.
    #[must_use]
    pub fn of_previous_hop(node: &NodeId) -> Self {
        let text = node.to_string();
        let (scheme, part) = text.split_once(':').unwrap_or_default();
        let content = [scheme.as_bytes(), &[0], part.as_bytes(), &[0]].concat();
        // RFC 6259 2: "discard" is required.
        Self::new(
            BlockType::PREVIOUS_HOP,
            BlockFlags::DISCARD_IF_UNPROCESSED,
            content,
        )
    }

    /// The bundle's age, microseconds, in a block of this type: [`BlockType::AGE`] or [`BlockType::CUSTODY_OR_AGE`].
    #[must_use]
    pub fn of_age(block_type: BlockType, age_us: u64) -> Self {
        let mut content = Vec::new();
        sdnv::write(&mut content, age_us);
        Self::new(block_type, BlockFlags::REPLICATE, content)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dictionary;
    use super::*;

    #[test]
    fn blocks_are_read_as_they_were_written() {
        for text in ["ipn:4.0", "dtn://alpha/"] {
            let node: NodeId = text.parse().unwrap();
            let block = Block::of_previous_hop(&node);
            let read = block.previous_hop(&Dictionary::default());
            assert_eq!(read.as_ref(), Some(node.endpoint()));
        }
        for age_us in [0, 127, 128, u64::MAX] {
            let block = Block::of_age(BlockType::AGE, age_us);
            assert_eq!((block.age_us(), block.custody_id()), (Some(age_us), None));
        }
    }
}
