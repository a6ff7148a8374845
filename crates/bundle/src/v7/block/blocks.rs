//! A header's extension blocks, as they stand in its octets.

use alloc::vec::Vec;

use core::ops::Deref;

use super::canonical::{BlockHead, BlockType};
use super::flags::BlockFlags;
use crate::crc::CrcType;

/// Blocks that are kept without asking for memory: more than nearly all bundles have.
const FEW: usize = 4;

/// An extension block in the octets of its header, which has its content
/// ([`Header::content`](crate::Header::content)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionBlock {
    /// Block type code.
    pub block_type: BlockType,
    /// Its number in its bundle: 2 or more.
    pub number: u64,
    /// Whether the block came with a number that it may not have.
    has_new_number: bool,
    /// Block processing control flags.
    pub flags: BlockFlags,
    /// The block's checksum.
    pub crc_type: CrcType,
    /// Offsets in the header's octets of its first octet and of the octet after its last.
    start: u32,
    end: u32,
    /// The same offsets of its block-type-specific data.
    content_start: u32,
    content_end: u32,
}

impl ExtensionBlock {
    /// A block that lies between these places of its header, and its content between those.
    pub(crate) fn new(head: &BlockHead, all: (usize, usize), content: (usize, usize)) -> Self {
        // A header has 64 KiB at most: one with a place beyond that is refused.
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            block_type: head.block_type,
            number: head.number,
            has_new_number: false,
            flags: head.flags,
            crc_type: head.crc_type,
            start: place(all.0),
            end: place(all.1),
            content_start: place(content.0),
            content_end: place(content.1),
        }
    }

    /// All of it, of its header's octets.
    pub(crate) fn octets_in<'a>(&self, header: &'a [u8]) -> &'a [u8] {
        between(header, self.start, self.end)
    }

    /// Its block-type-specific data, of its header's octets.
    pub(crate) fn content_in<'a>(&self, header: &'a [u8]) -> &'a [u8] {
        between(header, self.content_start, self.content_end)
    }

    /// Whether it leaves with another number than it came with.
    pub(crate) const fn has_new_number(&self) -> bool {
        self.has_new_number
    }

    fn shift(&mut self, by: usize) {
        let places = [
            &mut self.start,
            &mut self.end,
            &mut self.content_start,
            &mut self.content_end,
        ];
        for place in places {
            let at = usize::try_from(*place).unwrap_or(usize::MAX);
            *place = u32::try_from(at.wrapping_add(by)).unwrap_or(u32::MAX);
        }
    }

    /// Its fields, for a block of definite length.
    pub(crate) const fn head(&self) -> BlockHead {
        BlockHead {
            block_type: self.block_type,
            number: self.number,
            flags: self.flags,
            crc_type: self.crc_type,
            is_indefinite: false,
        }
    }
}

fn between(octets: &[u8], start: u32, end: u32) -> &[u8] {
    let place = |at| usize::try_from(at).unwrap_or(usize::MAX);
    octets.get(place(start)..place(end)).unwrap_or_default()
}

/// The extension blocks of a header, in the order of its octets.
#[derive(Clone)]
pub struct ExtensionBlocks {
    few: [ExtensionBlock; FEW],
    count: usize,
    /// All of them, once they are no longer few.
    many: Vec<ExtensionBlock>,
}

impl ExtensionBlocks {
    /// No blocks.
    pub(crate) const fn new() -> Self {
        const NONE: ExtensionBlock = ExtensionBlock {
            block_type: BlockType(0),
            number: 0,
            has_new_number: false,
            flags: BlockFlags::NONE,
            crc_type: CrcType::None,
            start: 0,
            end: 0,
            content_start: 0,
            content_end: 0,
        };
        Self {
            few: [NONE; FEW],
            count: 0,
            many: Vec::new(),
        }
    }

    /// The same blocks in another header, where they begin at `to` and not at `from`.
    pub(crate) fn shift(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let by = to.wrapping_sub(from);
        let few = self.few.get_mut(..self.count);
        for block in few.unwrap_or(&mut self.many) {
            block.shift(by);
        }
    }

    /// Gives blocks that came with the number of the primary block, 0, numbers that no other block has.
    pub(crate) fn number_anew(&mut self) {
        if self.iter().all(|block| block.number != 0) {
            return;
        }
        let taken: Vec<u64> = self.iter().map(|block| block.number).collect();
        let mut free = (2_u64..).filter(|number| !taken.contains(number));
        let few = self.few.get_mut(..self.count);
        for block in few.unwrap_or(&mut self.many) {
            if block.number == 0 {
                block.number = free.next().unwrap_or(u64::MAX);
                block.has_new_number = true;
            }
        }
    }

    /// No blocks any more.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.many.clear();
    }

    /// Adds the block that comes next.
    pub(crate) fn push(&mut self, block: ExtensionBlock) {
        if let Some(slot) = self.few.get_mut(self.count) {
            *slot = block;
        } else {
            if self.many.is_empty() {
                self.many.extend_from_slice(&self.few);
            }
            self.many.push(block);
        }
        self.count += 1;
    }
}

impl Deref for ExtensionBlocks {
    type Target = [ExtensionBlock];

    fn deref(&self) -> &[ExtensionBlock] {
        self.few.get(..self.count).unwrap_or(&self.many)
    }
}

impl<'a> IntoIterator for &'a ExtensionBlocks {
    type Item = &'a ExtensionBlock;
    type IntoIter = core::slice::Iter<'a, ExtensionBlock>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for ExtensionBlocks {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ExtensionBlocks {}

impl core::fmt::Debug for ExtensionBlocks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
