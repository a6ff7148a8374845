//! [`Remembered`]: the content of a gateway block, for programs that show it.

use alloc::vec::Vec;

use super::of_v6::{OfV6, Side};
use super::of_v7::OfV7;
use super::place::Place;
use crate::crc::CrcType;
use crate::v7::block::HopCount;

/// The properties of a bundle that the version in which it travels has no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Bundle processing control flags that the other version alone has.
    pub flags: u64,
    /// The rest, by version.
    pub properties: Properties,
    /// First octet of the payload that the bundle had when it crossed, and the one behind its last; known where a block was in that part alone.
    pub place: Option<(u64, u64)>,
    /// Blocks, in their order.
    pub blocks: Vec<RememberedBlock>,
}

/// Properties of a bundle in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Properties {
    /// Properties of a bundle of version 6.
    V6 {
        /// Lifetime, seconds.
        lifetime_s: u64,
    },
    /// Properties of a bundle of version 7.
    V7 {
        /// Lifetime, milliseconds.
        lifetime_ms: u64,
        /// The bundle's hop limit and hop count.
        hops: HopCount,
        /// The checksum of its primary block.
        crc_type: CrcType,
        /// The checksum of its payload block.
        payload_crc_type: CrcType,
    },
}

/// A block of the other version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedBlock {
    /// Its type there.
    pub block_type: u64,
    /// Its flags there.
    pub flags: u64,
    /// Octets of its content.
    pub octets: usize,
}

impl Remembered {
    /// The content of a gateway block in version 7; `None` where the content is none that a gateway writes.
    #[must_use]
    pub fn in_v7(content: &[u8]) -> Option<Self> {
        let known = OfV6::decode(content)?;
        let before = known.blocks(Side::Before, None);
        let blocks = before.chain(known.blocks(Side::Behind, None));
        let blocks = blocks.map(|block| RememberedBlock {
            block_type: block.block_type.0.into(),
            flags: block.flags.bits(),
            octets: block.content.len(),
        });
        Some(Self {
            flags: known.flags,
            properties: Properties::V6 {
                lifetime_s: known.lifetime_s,
            },
            place: known.place.map(Place::bounds),
            blocks: blocks.collect(),
        })
    }

    /// The content of a gateway block in version 6; `None` where the content is none that a gateway writes.
    #[must_use]
    pub fn in_v6(content: &[u8]) -> Option<Self> {
        let known = OfV7::decode(content)?;
        let blocks = known.blocks(None).map(|block| RememberedBlock {
            block_type: block.block_type.0,
            flags: block.flags.bits(),
            octets: block.content.len(),
        });
        Some(Self {
            flags: known.flags,
            properties: Properties::V7 {
                lifetime_ms: known.lifetime_ms,
                hops: known.hops,
                crc_type: known.crc_type,
                payload_crc_type: known.payload_crc_type,
            },
            place: known.place.map(Place::bounds),
            blocks: blocks.collect(),
        })
    }
}
