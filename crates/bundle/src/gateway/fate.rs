//! [`Fate`]: the fate of a block for which the other version has no place, by its type and flags.

use super::untranslatable::Untranslatable;
use super::{MAX_REMEMBERED_BLOCKS, MAX_REMEMBERED_OCTETS};
use crate::v6;
use crate::v7::block::{BlockFlags, BlockType};

/// The fate of a block in a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The other version has the block's content in a place of its own, or the block ends here, as its flags allow.
    Removed,
    /// The block goes along in the gateway block.
    Remembered,
}

/// RFC 6257: blocks of the Bundle Security Protocol.
const BUNDLE_AUTHENTICATION: v6::BlockType = v6::BlockType(2);
const PAYLOAD_INTEGRITY: v6::BlockType = v6::BlockType(3);
const EXTENSION_SECURITY: v6::BlockType = v6::BlockType(9);

/// The fate of a block of version 6 on its way to 7.
///
/// # Errors
/// The bundle cannot cross without it.
pub(super) fn of_v6(block: &v6::Block) -> Result<Fate, Untranslatable> {
    use v6::BlockType as Type;
    let fate = match block.block_type {
        Type::PAYLOAD | Type::PREVIOUS_HOP => return Ok(Fate::Removed),
        Type::AGE | Type::CUSTODY_OR_AGE if block.age_us().is_some() => return Ok(Fate::Removed),
        // Custody ends at the gateway.
        Type::CUSTODY_OR_AGE if block.custody_id().is_some() => return Ok(Fate::Removed),
        Type::EXTENDED_CLASS | Type::METADATA => Fate::Remembered,
        // Encrypted blocks are lost without the block that says so.
        Type::PAYLOAD_CONFIDENTIALITY => return Err(security(6, block.block_type.0.into())),
        BUNDLE_AUTHENTICATION | PAYLOAD_INTEGRITY | EXTENSION_SECURITY => {
            return of_integrity(6, block.block_type.0.into(), block.flags.bits());
        }
        other => of_unknown(6, other.0.into(), block.flags.bits())?,
    };
    // References mean strings of a dictionary that does not cross.
    let flags = block.flags;
    if fate == Fate::Remembered && flags.contains(v6::BlockFlags::REFERENCES) {
        if may_go(flags.bits()) {
            return Ok(Fate::Removed);
        }
        let block_type = block.block_type.0;
        return Err(Untranslatable::References { block_type });
    }
    Ok(fate)
}

/// The fate of a block of version 7 on its way to 6.
///
/// # Errors
/// The bundle cannot cross without it.
pub(super) fn of_v7(block_type: BlockType, flags: BlockFlags) -> Result<Fate, Untranslatable> {
    match block_type {
        BlockType::PAYLOAD
        | BlockType::PREVIOUS_NODE
        | BlockType::BUNDLE_AGE
        | BlockType::HOP_COUNT => Ok(Fate::Removed),
        // RFC 9172 3.8: a BCB is never discarded.
        BlockType::BLOCK_CONFIDENTIALITY => Err(security(7, block_type.0)),
        BlockType::BLOCK_INTEGRITY => of_integrity(7, block_type.0, flags.bits()),
        other => of_unknown(7, other.0, flags.bits()),
    }
}

/// Both versions have these flags at the same bits (RFC 5050 4.3, RFC 9171 4.2.4).
const REPORT: u64 = BlockFlags::REPORT_IF_UNPROCESSABLE.bits();
const DELETE: u64 = BlockFlags::DELETE_IF_UNPROCESSABLE.bits();
const DISCARD: u64 = BlockFlags::DISCARD_IF_UNPROCESSABLE.bits();

/// Whether a block may be removed in silence.
const fn may_go(flags: u64) -> bool {
    flags & (DISCARD | DELETE | REPORT) == DISCARD
}

const fn of_integrity(version: u8, block_type: u64, flags: u64) -> Result<Fate, Untranslatable> {
    match may_go(flags) {
        true => Ok(Fate::Removed),
        false => Err(security(version, block_type)),
    }
}

const fn security(version: u8, block_type: u64) -> Untranslatable {
    Untranslatable::Security {
        version,
        block_type,
    }
}

const fn of_unknown(version: u8, block_type: u64, flags: u64) -> Result<Fate, Untranslatable> {
    if flags & DELETE != 0 {
        return Err(Untranslatable::Block {
            version,
            block_type,
        });
    }
    match may_go(flags) {
        true => Ok(Fate::Removed),
        false => Ok(Fate::Remembered),
    }
}

/// The bounds of what goes along.
///
/// # Errors
/// [`Untranslatable::TooMuch`].
pub(super) fn check_bounds(contents: impl Iterator<Item = usize>) -> Result<(), Untranslatable> {
    let (blocks, octets) = contents.fold((0_usize, 0_usize), |(blocks, all), octets| {
        (blocks.saturating_add(1), all.saturating_add(octets))
    });
    if blocks > MAX_REMEMBERED_BLOCKS || octets > MAX_REMEMBERED_OCTETS {
        return Err(Untranslatable::TooMuch { blocks, octets });
    }
    Ok(())
}
