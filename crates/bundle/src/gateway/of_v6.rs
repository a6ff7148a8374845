//! [`OfV6`]: the gateway block in version 7, with the fields of a bundle in version 6.

use alloc::vec::Vec;

use bytes::Bytes;

use super::fate::{self, Fate, check_bounds};
use super::flags;
use super::place::Place;
use super::untranslatable::Untranslatable;
use crate::cbor::{CborError, Reader, write_array, write_byte_string, write_unsigned};
use crate::v6::{Block, BlockFlags, BlockType, Header, Trailer};

/// The form of the content.
const FORM: u64 = 1;

/// The side of the payload that a block stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    Behind,
}

/// Fields of version 6 that version 7 has no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OfV6 {
    /// The bundle's flags that version 7 has not.
    pub(super) flags: u64,
    pub(super) lifetime_s: u64,
    /// Present where a block is remembered that is not in every fragment.
    pub(super) place: Option<Place>,
    blocks: Vec<(Side, Block)>,
}

impl OfV6 {
    /// The fields of a bundle that go along; `used` is its own gateway block.
    ///
    /// # Errors
    /// A block without which the bundle cannot cross.
    pub(super) fn new(
        header: &Header,
        trailer: &Trailer,
        used: Option<&Block>,
    ) -> Result<Self, Untranslatable> {
        let before = header.blocks.iter().map(|block| (Side::Before, block));
        let behind = trailer.blocks.iter().map(|block| (Side::Behind, block));
        let mut blocks = Vec::new();
        for (side, block) in before.chain(behind) {
            let is_used = used.is_some_and(|used| core::ptr::eq(used, block));
            if !is_used && fate::of_v6(block)? == Fate::Remembered {
                let flags = block.flags.bits() & !BlockFlags::LAST.bits();
                let block = Block {
                    flags: BlockFlags::from_bits(flags),
                    ..block.clone()
                };
                blocks.push((side, block));
            }
        }
        check_bounds(blocks.iter().map(|(_, block)| block.content.len()))?;
        let offset = header.primary.fragment.map_or(0, |place| place.offset);
        let place = Place::new(offset, header.payload_octets);
        Ok(Self {
            flags: flags::remembered(header.primary.flags.bits()),
            lifetime_s: header.primary.lifetime_s,
            place: has_single(&blocks).then_some(place),
            blocks,
        })
    }

    /// The blocks on one side of the payload that a bundle has: a fragment of this place, or a whole.
    pub(super) fn blocks(
        &self,
        side: Side,
        fragment: Option<Place>,
    ) -> impl Iterator<Item = &Block> {
        // RFC 5050 5.8: those before the payload are in the fragment with the lowest offset, those behind it in that with the highest.
        let is_here = self
            .place
            .zip(fragment)
            .is_none_or(|(came, here)| match side {
                Side::Before => came.first == here.first,
                Side::Behind => came.end == here.end,
            });
        let of_side = self.blocks.iter().filter(move |(its, _)| *its == side);
        let of_side = of_side.map(|(_, block)| block);
        of_side.filter(move |block| is_here || block.flags.contains(BlockFlags::REPLICATE))
    }

    /// The block's content.
    pub(super) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(32);
        write_array(&mut out, 5);
        write_unsigned(&mut out, FORM);
        write_unsigned(&mut out, self.flags);
        write_unsigned(&mut out, self.lifetime_s);
        Place::encode(self.place, &mut out);
        write_array(
            &mut out,
            u64::try_from(self.blocks.len()).unwrap_or(u64::MAX),
        );
        for (side, block) in &self.blocks {
            write_array(&mut out, 4);
            write_unsigned(&mut out, block.block_type.0.into());
            write_unsigned(&mut out, block.flags.bits());
            write_unsigned(&mut out, u64::from(*side == Side::Behind));
            write_byte_string(&mut out, &block.content);
        }
        out.into()
    }

    /// Reads a block's content; `None` for anything that [`Self::encode`] does not write.
    pub(super) fn decode(content: &[u8]) -> Option<Self> {
        let read = Self::read(&mut Reader::new(content)).ok().flatten()?;
        let is_whole = read.is_sound() && read.encode() == content;
        is_whole.then_some(read)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, CborError> {
        let mut array = reader.array()?;
        let mut field = |reader: &mut Reader<'_>| array.item(reader);
        field(reader)?;
        if reader.unsigned()? != FORM {
            return Ok(None);
        }
        field(reader)?;
        let flags = reader.unsigned()?;
        field(reader)?;
        let lifetime_s = reader.unsigned()?;
        field(reader)?;
        let place = Place::decode(reader)?;
        field(reader)?;
        let mut blocks = Vec::new();
        let mut list = reader.array()?;
        // Each item takes an octet at least, so the octets seen bound the loop.
        while list.next(reader)? {
            let Some(block) = read_block(reader)? else {
                return Ok(None);
            };
            blocks.push(block);
        }
        Ok(Some(Self {
            flags,
            lifetime_s,
            place,
            blocks,
        }))
    }

    /// Whether [`Self::new`] could have made these fields.
    fn is_sound(&self) -> bool {
        let is_possible = |block: &Block| {
            let flags = block.flags.bits();
            let misplaced = BlockFlags::LAST | BlockFlags::REFERENCES;
            flags & misplaced.bits() == 0 && fate::of_v6(block) == Ok(Fate::Remembered)
        };
        self.flags == flags::remembered(self.flags)
            && self.place.is_some() == has_single(&self.blocks)
            && self.place.is_none_or(|place| place.first <= place.end)
            && check_bounds(self.blocks.iter().map(|(_, block)| block.content.len())).is_ok()
            && self.blocks.iter().all(|(_, block)| is_possible(block))
    }
}

fn has_single(blocks: &[(Side, Block)]) -> bool {
    let mut flags = blocks.iter().map(|(_, block)| block.flags);
    flags.any(|flags| !flags.contains(BlockFlags::REPLICATE))
}

fn read_block(reader: &mut Reader<'_>) -> Result<Option<(Side, Block)>, CborError> {
    let mut array = reader.array()?;
    array.item(reader)?;
    let block_type = u8::try_from(reader.unsigned()?);
    array.item(reader)?;
    let flags = BlockFlags::from_bits(reader.unsigned()?);
    array.item(reader)?;
    let side = match reader.unsigned()? {
        0 => Side::Before,
        1 => Side::Behind,
        _ => return Ok(None),
    };
    array.item(reader)?;
    let content = reader.byte_string()?.to_vec();
    array.end(reader)?;
    let block_type = block_type.map(BlockType).ok();
    Ok(block_type.map(|block_type| (side, Block::new(block_type, flags, content))))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn block(block_type: u8, flags: u64, content: &[u8]) -> Block {
        let flags = BlockFlags::from_bits(flags);
        Block::new(BlockType(block_type), flags, content.to_vec())
    }

    fn good() -> OfV6 {
        OfV6 {
            flags: 0x118,
            lifetime_s: 3_600,
            place: Some(Place { first: 5, end: 105 }),
            blocks: vec![
                (Side::Before, block(19, 0x11, &[1, 200])),
                (Side::Behind, block(200, 0, &[])),
            ],
        }
    }

    #[test]
    fn only_what_a_gateway_would_say_is_read() {
        assert_eq!(OfV6::decode(&good().encode()), Some(good()));
        let with = |block: Block| {
            let mut it = good();
            it.blocks.push((Side::Before, block));
            it
        };
        let reversed = Place { first: 6, end: 5 };
        let full = [(); 17].map(|()| (Side::Before, block(200, 1, &[])));
        let bad = [
            // A flag that both versions have.
            OfV6 { flags: 1, ..good() },
            OfV6 {
                place: None,
                ..good()
            },
            OfV6 {
                place: Some(reversed),
                ..good()
            },
            OfV6 {
                blocks: Vec::new(),
                ..good()
            },
            OfV6 {
                place: None,
                blocks: full.to_vec(),
                ..good()
            },
            // Payload, previous hop, age, custody ID, security, a block that is discarded, one that ends the bundle.
            with(block(1, 0, &[])),
            with(block(5, 0, b"ipn\x005.0\0")),
            with(block(20, 0, &[5])),
            with(block(10, 0, b"\x05ipn:4.0")),
            with(block(3, 0, &[])),
            with(block(200, 0x10, &[])),
            with(block(200, 0x04, &[])),
            // The last one, and one with references.
            with(block(200, 0x08, &[])),
            with(block(200, 0x40, &[])),
            with(block(200, 0, &[0; 4_095])),
        ];
        for bad in bad {
            assert_eq!(OfV6::decode(&bad.encode()), None, "{bad:?}");
        }
        let good = good().encode();
        for end in 0..good.len() {
            assert_eq!(OfV6::decode(&good[..end]), None, "{end}");
        }
        assert_eq!(OfV6::decode(&[&good[..], &[0]].concat()), None);
    }
}
