//! [`Priority`]: the class of service of a bundle, and the blocks of either version that tell it.
//!
//! Version 6 has the class in its flags (RFC 5050 4.2) and, in the extended class of service block (draft-irtf-dtnrg-ecos), an ordinal that orders
//! expedited bundles. RFC 9171 has neither. Programs that order bundles of version 7 carry a block of their own: type 193 with ION, which this
//! program writes and reads, and type 13 with HDTN, which it reads (docs/priority.md).

use core::fmt;
use core::str::FromStr;

use alloc::vec::Vec;

use bytes::Bytes;

use crate::cbor::{CborError, Reader, write_array, write_unsigned};
use crate::header::Header;
use crate::v6::{self, Block, sdnv};
use crate::v7::block::{BlockType, ExtensionBlock};
use crate::version::Version;

/// The greatest ordinal of an expedited bundle: 255 is reserved.
pub const MAX_ORDINAL: u8 = 254;

/// The number of different priorities.
pub const PRIORITIES: u16 = 257;

/// The order in which bundles leave: the greater one first. Bundles without a priority are normal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// After all others.
    Bulk,
    /// The priority of most bundles.
    #[default]
    Normal,
    /// Before all others: those of a greater ordinal first, 0 to [`MAX_ORDINAL`].
    Expedited(u8),
}

impl Priority {
    /// The priority of most expedited bundles.
    pub const EXPEDITED: Self = Self::Expedited(0);

    /// The one before all others.
    pub const MOST: Self = Self::Expedited(MAX_ORDINAL);

    /// The place among all priorities: 0 for the one that goes first, less than [`PRIORITIES`].
    #[must_use]
    pub fn rank(self) -> u16 {
        match self {
            Self::Bulk => 256,
            Self::Normal => 255,
            Self::Expedited(ordinal) => u16::from(MAX_ORDINAL.saturating_sub(ordinal)),
        }
    }

    /// The priority at a place among all; bulk for places beyond.
    #[must_use]
    pub fn of_rank(rank: u16) -> Self {
        match rank {
            255 => Self::Normal,
            ..=254 => Self::Expedited(u8::try_from(254 - rank).unwrap_or(0)),
            _ => Self::Bulk,
        }
    }

    /// A number that grows with the priority: 1 bulk, 2 normal, and 3 more than its ordinal for an expedited one.
    #[must_use]
    pub fn level(self) -> u16 {
        PRIORITIES - self.rank()
    }

    /// The priority of such a number; none of others.
    #[must_use]
    pub fn of_level(level: u32) -> Option<Self> {
        let level = u16::try_from(level).ok()?;
        let rank = PRIORITIES.checked_sub(level).filter(|_| level > 0)?;
        Some(Self::of_rank(rank))
    }

    /// The priority that the flags of a bundle say, of this version: one of version 7 does not say any.
    #[must_use]
    pub const fn of_flags(version: Version, flags: u64) -> Self {
        match version {
            Version::V7 => Self::Normal,
            Version::V6 => Self::of_class(v6::BundleFlags::from_bits(flags).priority(), 0),
        }
    }

    const fn of_class(class: v6::Priority, ordinal: u8) -> Self {
        match class {
            v6::Priority::Bulk => Self::Bulk,
            v6::Priority::Normal | v6::Priority::Reserved => Self::Normal,
            v6::Priority::Expedited if ordinal > MAX_ORDINAL => Self::MOST,
            v6::Priority::Expedited => Self::Expedited(ordinal),
        }
    }

    /// The class, as the flags of version 6 have it.
    #[must_use]
    pub const fn class(self) -> v6::Priority {
        match self {
            Self::Bulk => v6::Priority::Bulk,
            Self::Normal => v6::Priority::Normal,
            Self::Expedited(_) => v6::Priority::Expedited,
        }
    }

    const fn ordinal(self) -> u8 {
        match self {
            Self::Expedited(ordinal) => ordinal,
            Self::Bulk | Self::Normal => 0,
        }
    }
}

impl From<v6::Priority> for Priority {
    /// The priority of a bundle of this class that says no ordinal.
    fn from(class: v6::Priority) -> Self {
        Self::of_class(class, 0)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bulk => f.write_str("bulk"),
            Self::Normal => f.write_str("normal"),
            Self::Expedited(0) => f.write_str("expedited"),
            Self::Expedited(ordinal) => write!(f, "expedited:{ordinal}"),
        }
    }
}

/// A text that names no priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a priority is bulk, normal, expedited, or expedited:ORDINAL with an ordinal from 0 to 254"
)]
pub struct NoPriority;

impl FromStr for Priority {
    type Err = NoPriority;

    fn from_str(text: &str) -> Result<Self, NoPriority> {
        match text {
            "bulk" => Ok(Self::Bulk),
            "normal" => Ok(Self::Normal),
            "expedited" => Ok(Self::EXPEDITED),
            _ => {
                let ordinal = text.strip_prefix("expedited:").ok_or(NoPriority)?;
                let is_number = ordinal.bytes().all(|it| it.is_ascii_digit());
                let ordinal = ordinal.parse().ok().filter(|it| *it <= MAX_ORDINAL);
                ordinal
                    .filter(|_| is_number)
                    .map(Self::Expedited)
                    .ok_or(NoPriority)
            }
        }
    }
}

/// All that the blocks of either version say about how to forward a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassOfService {
    /// The order in which it leaves.
    pub priority: Priority,
    /// Flags of ECOS: 1 critical, 2 streaming, 4 a label is there, 8 reliable.
    pub flags: u8,
    /// The flow label; 0 where there is none.
    pub label: u64,
}

/// A flow label is there.
const HAS_LABEL: u8 = 4;

impl ClassOfService {
    /// Nothing but an order.
    #[must_use]
    pub const fn of(priority: Priority) -> Self {
        Self {
            priority,
            flags: 0,
            label: 0,
        }
    }

    /// The content of ION's block for version 7: an array of flags, class, ordinal and label.
    #[must_use]
    pub fn block_v7(self) -> Bytes {
        let mut out = Vec::with_capacity(16);
        write_array(&mut out, 4);
        write_unsigned(&mut out, self.flags.into());
        write_unsigned(&mut out, self.priority.class().code());
        write_unsigned(&mut out, self.priority.ordinal().into());
        write_unsigned(&mut out, self.label);
        out.into()
    }

    /// Reads that content; none where it is anything else. Blocks of a private type may be anybody's.
    #[must_use]
    pub fn of_block_v7(content: &[u8]) -> Option<Self> {
        let [flags, class, ordinal, label] = four_numbers(content).ok()?;
        Some(Self {
            priority: Priority::of_class(class_of(class)?, u8::try_from(ordinal).ok()?),
            flags: u8::try_from(flags).ok()?,
            label,
        })
    }

    /// The extended class of service block of version 6: flags, ordinal and label; none where all are 0.
    #[must_use]
    pub fn block_v6(self) -> Option<Block> {
        let ordinal = self.priority.ordinal();
        let flags = match self.label {
            0 => self.flags & !HAS_LABEL,
            _ => self.flags | HAS_LABEL,
        };
        if flags == 0 && ordinal == 0 {
            return None;
        }
        let mut content = alloc::vec![flags, ordinal];
        if flags & HAS_LABEL != 0 {
            sdnv::write(&mut content, self.label);
        }
        let block_type = v6::BlockType::EXTENDED_CLASS;
        Some(Block::new(block_type, v6::BlockFlags::REPLICATE, content))
    }

    /// The class of service of a bundle of version 6, by its flags and blocks.
    #[must_use]
    pub fn of_v6(flags: v6::BundleFlags, blocks: &[Block]) -> Self {
        let mut blocks = blocks.iter();
        let block = blocks.find(|it| it.block_type == v6::BlockType::EXTENDED_CLASS);
        let (octet, ordinal, label) = match block.map(|block| block.content.as_ref()) {
            Some([octet, ordinal, rest @ ..]) => (*octet, *ordinal, label_of(*octet, rest)),
            Some(_) | None => (0, 0, 0),
        };
        Self {
            priority: Priority::of_class(flags.priority(), ordinal),
            flags: octet,
            label,
        }
    }
}

/// The label behind flags and ordinal; 0 where there is none.
fn label_of(flags: u8, octets: &[u8]) -> u64 {
    match flags & HAS_LABEL {
        0 => 0,
        _ => sdnv::Reader::new(octets).number().unwrap_or(0),
    }
}

fn class_of(code: u64) -> Option<v6::Priority> {
    let all = [
        v6::Priority::Bulk,
        v6::Priority::Normal,
        v6::Priority::Expedited,
    ];
    all.into_iter().find(|class| class.code() == code)
}

fn four_numbers(content: &[u8]) -> Result<[u64; 4], CborError> {
    let mut reader = Reader::new(content);
    let mut array = reader.array()?;
    let mut numbers = [0; 4];
    for number in &mut numbers {
        array.item(&mut reader)?;
        *number = reader.unsigned()?;
    }
    array.end(&mut reader)?;
    match reader.is_empty() {
        true => Ok(numbers),
        false => Err(CborError::Incomplete { needed: 0 }),
    }
}

impl Header {
    /// The class of service of the bundle, by its blocks: normal and nothing else where none of them says it.
    #[must_use]
    pub fn class_of_service(&self) -> ClassOfService {
        match &self.v6 {
            Some(old) => ClassOfService::of_v6(old.primary.flags, &old.blocks),
            None => self.class_in_any_block().unwrap_or_default(),
        }
    }

    /// The class of service that an extension block of version 7 says.
    pub(crate) fn class_in_any_block(&self) -> Option<ClassOfService> {
        let mut blocks = self.extensions.iter();
        blocks.find_map(|block| self.class_in(block))
    }

    /// The order in which the bundle leaves.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.class_of_service().priority
    }

    /// The class of service that one of its extension blocks says; none of blocks that say something else.
    #[must_use]
    pub fn class_in(&self, block: &ExtensionBlock) -> Option<ClassOfService> {
        if self.encrypted.contains(&block.number) {
            return None;
        }
        match block.block_type {
            BlockType::QUALITY_OF_SERVICE => ClassOfService::of_block_v7(self.content(block)),
            BlockType::HDTN_PRIORITY => {
                let mut reader = Reader::new(self.content(block));
                let class = class_of(reader.unsigned().ok()?)?;
                let said = ClassOfService::of(Priority::of_class(class, 0));
                reader.is_empty().then_some(said)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_priority() -> impl Strategy<Value = Priority> {
        (0..PRIORITIES).prop_map(Priority::of_rank)
    }

    #[test]
    fn priorities_have_an_order_and_names() {
        let ranks: Vec<u16> = (0..PRIORITIES).collect();
        let all: Vec<Priority> = ranks.iter().map(|rank| Priority::of_rank(*rank)).collect();
        assert!(all.is_sorted_by(|one, other| one > other));
        for (priority, rank) in all.into_iter().zip(ranks) {
            assert_eq!(priority.rank(), rank);
            assert_eq!(alloc::format!("{priority}").parse(), Ok(priority));
            let level = priority.level();
            assert_eq!(Priority::of_level(level.into()), Some(priority));
        }
        assert_eq!(Priority::of_level(0), None);
        assert_eq!(Priority::of_level(258), None);
        assert_eq!(Priority::of_level(65_537), None);
        assert_eq!(Priority::EXPEDITED.level(), 3);
        for text in [
            "",
            "urgent",
            "expedited:",
            "expedited:255",
            "expedited:+1",
            "expedited: 1",
            "Bulk",
        ] {
            assert_eq!(text.parse::<Priority>(), Err(NoPriority), "{text}");
        }
    }

    #[test]
    fn the_block_of_version_7_is_that_of_ion() {
        let it = ClassOfService {
            priority: Priority::Expedited(200),
            flags: 1,
            label: 7,
        };
        let content = it.block_v7();
        assert_eq!(content.as_ref(), [0x84, 1, 2, 0x18, 200, 7]);
        assert_eq!(ClassOfService::of_block_v7(&content), Some(it));
        // RFC 5050 4.2 and ECOS: an ordinal orders expedited bundles alone; 255 is reserved.
        let read = |content: &[u8]| ClassOfService::of_block_v7(content).map(|it| it.priority);
        assert_eq!(read(&[0x84, 0, 0, 9, 0]), Some(Priority::Bulk));
        assert_eq!(read(&[0x84, 0, 2, 0x18, 255, 0]), Some(Priority::MOST));
        for bad in [
            &[][..],
            &[0x83, 0, 1, 0],
            &[0x84, 0, 3, 0, 0],
            &[0x84, 0, 1, 0],
            &[0x84, 0, 1, 0, 0, 0],
            &[0x84, 0, 1, 0x19, 1, 0, 0],
            &[0x84, 0x19, 1, 0, 1, 0, 0],
            &[0x85, 0, 1, 0, 0, 0],
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn blocks_say_what_they_were_made_of(priority in any_priority(), flags in 0_u8..16, label: u64) {
            let flags = match label { 0 => flags & !HAS_LABEL, _ => flags | HAS_LABEL };
            let it = ClassOfService { priority, flags, label };
            prop_assert_eq!(ClassOfService::of_block_v7(&it.block_v7()), Some(it));
            let old = v6::BundleFlags::NONE.with_priority(priority.class());
            let blocks: Vec<Block> = it.block_v6().into_iter().collect();
            prop_assert_eq!(ClassOfService::of_v6(old, &blocks), it);
        }

        #[test]
        fn no_octets_are_too_odd(octets in proptest::collection::vec(any::<u8>(), 0..24)) {
            let _ = ClassOfService::of_block_v7(&octets);
            let block = Block::new(v6::BlockType::EXTENDED_CLASS, v6::BlockFlags::NONE, octets);
            let it = ClassOfService::of_v6(v6::BundleFlags::NONE, &[block]);
            prop_assert_eq!(it.priority, Priority::Bulk);
        }
    }
}
