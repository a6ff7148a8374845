//! [`OfV7`]: the gateway block in version 6, with the fields of a bundle in version 7.

use alloc::vec::Vec;

use bytes::Bytes;

use super::fate::{self, Fate, check_bounds};
use super::flags;
use super::place::Place;
use super::untranslatable::Untranslatable;
use super::{DEFAULT_HOP_LIMIT, GATEWAY_BLOCK_V6};
use crate::cbor::{CborError, Reader, write_array, write_byte_string, write_unsigned};
use crate::crc::CrcType;
use crate::header::Header;
use crate::v6;
use crate::v7::block::{BlockFlags, BlockType, CanonicalBlock, ExtensionBlock, HopCount};

/// The form of the content.
const FORM: u64 = 1;

/// Fields of version 7 that version 6 has no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OfV7 {
    /// The bundle's flags that version 6 has not.
    pub(super) flags: u64,
    pub(super) lifetime_ms: u64,
    pub(super) hops: HopCount,
    pub(super) crc_type: CrcType,
    pub(super) payload_crc_type: CrcType,
    /// Present where a block is remembered that is not in every fragment.
    pub(super) place: Option<Place>,
    blocks: Vec<CanonicalBlock>,
}

/// Hop limit and count of a bundle that crosses once more, whose count is `least` at least.
///
/// # Errors
/// [`Untranslatable::HopLimit`] where it may not.
pub(super) fn crossed(hops: Option<HopCount>, least: u64) -> Result<HopCount, Untranslatable> {
    let hops = hops.unwrap_or(HopCount {
        limit: DEFAULT_HOP_LIMIT,
        count: 0,
    });
    let (limit, count) = (hops.limit, hops.count.max(least).saturating_add(1));
    let crossed = HopCount { limit, count };
    match crossed.is_exceeded() {
        true => Err(Untranslatable::HopLimit { limit, count }),
        false => Ok(crossed),
    }
}

impl OfV7 {
    /// The fields of a bundle that go along; `used` is the number of its own gateway block, and its hop count `least_hops` at least.
    ///
    /// # Errors
    /// A block without which the bundle cannot cross, or no hop left.
    pub(super) fn new(
        header: &Header,
        used: Option<u64>,
        least_hops: u64,
    ) -> Result<Self, Untranslatable> {
        let mut blocks = Vec::new();
        for block in &header.extensions {
            let fate = fate::of_v7(block.block_type, block.flags)?;
            if used != Some(block.number) && fate == Fate::Remembered {
                blocks.push(copied(header, block));
            }
        }
        check_bounds(blocks.iter().map(|block| block.content.len()))?;
        let place = Place::new(header.range().offset, header.payload.length);
        Ok(Self {
            flags: flags::remembered(header.primary.flags.bits()),
            lifetime_ms: header.primary.lifetime_ms,
            hops: crossed(header.hop_count(), least_hops)?,
            crc_type: header.primary.crc_type,
            payload_crc_type: header.payload.crc_type,
            place: has_single(&blocks).then_some(place),
            blocks,
        })
    }

    /// The blocks that a bundle has: a fragment of this place, or a whole.
    pub(super) fn blocks(&self, fragment: Option<Place>) -> impl Iterator<Item = &CanonicalBlock> {
        let places = self.place.zip(fragment);
        let is_here = places.is_none_or(|(came, here)| came.first == here.first);
        let blocks = self.blocks.iter();
        blocks.filter(move |block| is_here || block.flags.contains(BlockFlags::REPLICATE))
    }

    /// The block's content.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        write_array(&mut out, 9);
        write_unsigned(&mut out, FORM);
        write_unsigned(&mut out, self.flags);
        write_unsigned(&mut out, self.lifetime_ms);
        write_unsigned(&mut out, self.hops.limit.into());
        write_unsigned(&mut out, self.hops.count);
        write_unsigned(&mut out, self.crc_type.code());
        write_unsigned(&mut out, self.payload_crc_type.code());
        Place::encode(self.place, &mut out);
        write_array(
            &mut out,
            u64::try_from(self.blocks.len()).unwrap_or(u64::MAX),
        );
        for block in &self.blocks {
            write_array(&mut out, 5);
            write_unsigned(&mut out, block.block_type.0);
            write_unsigned(&mut out, block.number);
            write_unsigned(&mut out, block.flags.bits());
            write_unsigned(&mut out, block.crc_type.code());
            write_byte_string(&mut out, &block.content);
        }
        out
    }

    /// Reads a block's content; `None` for anything that [`Self::encode`] does not write.
    pub(super) fn decode(content: &[u8]) -> Option<Self> {
        let read = Self::read(&mut Reader::new(content)).ok().flatten()?;
        let is_whole = read.is_sound() && read.encode() == content;
        is_whole.then_some(read)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, CborError> {
        let mut array = reader.array()?;
        let mut numbers = [0; 7];
        for number in &mut numbers {
            array.item(reader)?;
            *number = reader.unsigned()?;
        }
        let [
            form,
            flags,
            lifetime_ms,
            limit,
            count,
            crc_type,
            payload_crc_type,
        ] = numbers;
        let crc_types = CrcType::from_code(crc_type).zip(CrcType::from_code(payload_crc_type));
        let (Some((crc_type, payload_crc_type)), Ok(limit), FORM) =
            (crc_types, u8::try_from(limit), form)
        else {
            return Ok(None);
        };
        array.item(reader)?;
        let place = Place::decode(reader)?;
        array.item(reader)?;
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
            lifetime_ms,
            hops: HopCount { limit, count },
            crc_type,
            payload_crc_type,
            place,
            blocks,
        }))
    }

    /// Whether [`Self::new`] could have made these fields.
    fn is_sound(&self) -> bool {
        let is_possible = |block: &CanonicalBlock| {
            fate::of_v7(block.block_type, block.flags) == Ok(Fate::Remembered) && block.number > 1
        };
        self.hops.limit > 0
            && self.flags == flags::remembered(self.flags)
            && self.place.is_some() == has_single(&self.blocks)
            && self.place.is_none_or(|place| place.first <= place.end)
            && check_bounds(self.blocks.iter().map(|block| block.content.len())).is_ok()
            && self.blocks.iter().all(is_possible)
            && (self.blocks.iter().enumerate()).all(|(at, block)| {
                let mut before = self.blocks.iter().take(at);
                before.all(|other| other.number != block.number)
            })
    }
}

/// The gateway block of a bundle of version 6 among others, and its content.
pub(super) fn found(blocks: &[v6::Block]) -> Option<(usize, OfV7)> {
    let mut blocks = blocks.iter().enumerate();
    blocks.find_map(|(at, block)| {
        let is_plain = block.block_type == GATEWAY_BLOCK_V6
            && !block.flags.contains(v6::BlockFlags::REFERENCES);
        let known = is_plain.then(|| OfV7::decode(&block.content)).flatten()?;
        Some((at, known))
    })
}

/// Hop limit and count of a bundle of version 6 that has been in version 7.
pub(crate) fn hop_count_of(header: &v6::Header) -> Option<HopCount> {
    found(&header.blocks).map(|(_, known)| known.hops)
}

/// Counts hops of a bundle that stays in version 6, among its blocks that go out.
pub(crate) fn count_hops(blocks: &mut [v6::Block], increment: u64) {
    if increment == 0 {
        return;
    }
    let Some((at, mut known)) = found(blocks) else {
        return;
    };
    known.hops.count = known.hops.count.saturating_add(increment);
    if let Some(block) = blocks.get_mut(at) {
        block.content = known.encode().into();
    }
}

fn has_single(blocks: &[CanonicalBlock]) -> bool {
    let mut flags = blocks.iter().map(|block| block.flags);
    flags.any(|flags| !flags.contains(BlockFlags::REPLICATE))
}

fn copied(header: &Header, block: &ExtensionBlock) -> CanonicalBlock {
    CanonicalBlock::new(
        block.block_type,
        block.number,
        block.flags,
        block.crc_type,
        Bytes::copy_from_slice(header.content(block)),
    )
}

fn read_block(reader: &mut Reader<'_>) -> Result<Option<CanonicalBlock>, CborError> {
    let mut array = reader.array()?;
    let mut numbers = [0; 4];
    for number in &mut numbers {
        array.item(reader)?;
        *number = reader.unsigned()?;
    }
    array.item(reader)?;
    let content = Bytes::copy_from_slice(reader.byte_string()?);
    array.end(reader)?;
    let [block_type, number, flags, crc_type] = numbers;
    let flags = BlockFlags::from_bits(flags);
    let block = CrcType::from_code(crc_type).map(|crc_type| {
        CanonicalBlock::new(BlockType(block_type), number, flags, crc_type, content)
    });
    Ok(block)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn block(block_type: u64, number: u64, flags: u64) -> CanonicalBlock {
        let flags = BlockFlags::from_bits(flags);
        let content = Bytes::from_static(&[0x80]);
        CanonicalBlock::new(
            BlockType(block_type),
            number,
            flags,
            CrcType::Crc16,
            content,
        )
    }

    fn good() -> OfV7 {
        OfV7 {
            flags: 0x40,
            lifetime_ms: 3_600_500,
            hops: HopCount {
                limit: 255,
                count: u64::MAX,
            },
            crc_type: CrcType::Crc32C,
            payload_crc_type: CrcType::None,
            place: Some(Place { first: 5, end: 105 }),
            blocks: vec![block(212, 2, 1), block(300, 7, 2)],
        }
    }

    #[test]
    fn only_what_a_gateway_would_say_is_read() {
        assert_eq!(OfV7::decode(&good().encode()), Some(good()));
        let with = |block: CanonicalBlock| {
            let mut it = good();
            it.blocks.push(block);
            it
        };
        let reversed = Place { first: 6, end: 5 };
        let bad = [
            // A flag that both versions have.
            OfV7 { flags: 1, ..good() },
            OfV7 {
                hops: HopCount { limit: 0, count: 0 },
                ..good()
            },
            OfV7 {
                place: None,
                ..good()
            },
            OfV7 {
                place: Some(reversed),
                ..good()
            },
            OfV7 {
                blocks: Vec::new(),
                ..good()
            },
            OfV7 {
                place: None,
                blocks: (2..19).map(|number| block(200, number, 1)).collect(),
                ..good()
            },
            // Payload, previous node, age, hop count, security, a block that is discarded, one that ends the bundle.
            with(block(1, 3, 0)),
            with(block(6, 3, 0)),
            with(block(7, 3, 0)),
            with(block(10, 3, 0)),
            with(block(11, 3, 0)),
            with(block(12, 3, 0)),
            with(block(200, 3, 0x10)),
            with(block(200, 3, 0x04)),
            // Numbers of others.
            with(block(200, 0, 0)),
            with(block(200, 1, 0)),
            with(block(200, 7, 0)),
        ];
        for bad in bad {
            assert_eq!(OfV7::decode(&bad.encode()), None, "{bad:?}");
        }
        let good = good().encode();
        for end in 0..good.len() {
            assert_eq!(OfV7::decode(&good[..end]), None, "{end}");
        }
        assert_eq!(OfV7::decode(&[&good[..], &[0]].concat()), None);
    }
}
