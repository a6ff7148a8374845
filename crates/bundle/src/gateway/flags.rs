//! Flags of bundles: those that both versions have at the same bits, and all others, which are remembered.

use crate::v6::{self, Priority};
use crate::v7;

/// Fragment, administrative record, must not be fragmented, acknowledgment by application, and requests of four reports.
const COMMON: u64 = 0x07_4027;

/// Flags of a block that both versions have at the same bits: replicate, report, delete bundle, discard.
const COMMON_OF_BLOCKS: u64 = 0x17;

/// The flags that the other version has no place for.
pub(super) const fn remembered(bits: u64) -> u64 {
    bits & !COMMON
}

/// Flags of version 7 of a bundle with these of version 6.
pub(super) fn to_v7(
    flags: v6::BundleFlags,
    remembered_flags: Option<u64>,
) -> v7::block::BundleFlags {
    use v7::block::BundleFlags;
    let common = BundleFlags::from_bits(flags.bits() & COMMON);
    match remembered_flags {
        Some(bits) => common | BundleFlags::from_bits(remembered(bits)),
        // Version 6 always tells the times.
        None if common.intersects(BundleFlags::ALL_REPORTS) => {
            common | BundleFlags::STATUS_TIME_REQUESTED
        }
        None => common,
    }
}

/// Flags of version 6 of a bundle with these of version 7.
pub(super) fn to_v6(
    primary: &v7::block::PrimaryBlock,
    remembered_flags: Option<u64>,
    priority: Priority,
) -> v6::BundleFlags {
    use v6::BundleFlags;
    let common = BundleFlags::from_bits(primary.flags.bits() & COMMON);
    let Some(bits) = remembered_flags else {
        let flags = common.with_priority(priority);
        return match primary.destination.is_singleton() {
            true => flags | BundleFlags::SINGLETON_DESTINATION,
            false => flags,
        };
    };
    // RFC 5050 4.2: neither custody nor reports on it of these.
    let custody = BundleFlags::CUSTODY_REQUESTED | BundleFlags::REPORT_CUSTODY;
    let has_no_custody =
        common.contains(BundleFlags::ADMINISTRATIVE_RECORD) || primary.source.is_null();
    let forbidden = if has_no_custody { custody.bits() } else { 0 };
    common | BundleFlags::from_bits(remembered(bits) & !forbidden)
}

/// Flags of a payload block of version 7 with these of version 6.
pub(super) fn of_payload_to_v7(
    flags: v6::BlockFlags,
    primary: &v7::block::PrimaryBlock,
) -> v7::block::BlockFlags {
    use v7::block::BlockFlags;
    // RFC 9171 4.2.4: no reports about administrative records and anonymous bundles.
    let forbidden = match primary.forbids_block_reports() {
        true => BlockFlags::REPORT_IF_UNPROCESSABLE.bits(),
        false => 0,
    };
    BlockFlags::from_bits(flags.bits() & COMMON_OF_BLOCKS & !forbidden)
}

/// Flags of a payload block of version 6 with these of version 7.
pub(super) const fn of_payload_to_v6(flags: v7::block::BlockFlags) -> v6::BlockFlags {
    v6::BlockFlags::from_bits(flags.bits() & COMMON_OF_BLOCKS)
}
