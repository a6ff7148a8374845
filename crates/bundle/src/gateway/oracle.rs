//! Assertions that hold for any bundle that crosses: the fuzz target, the replay of its corpus, and the properties.
//!
//! Everything here panics when a translation breaks the word of `docs/gateway.md`; it is no part of the interface. The expected result is worked out
//! here from the tables again, and not asked of the translation.
#![allow(
    clippy::panic,
    reason = "a broken word is to be shown with what it was"
)]

use alloc::vec::Vec;

use bytes::Bytes;

use super::of_v6::OfV6;
use super::of_v7::OfV7;
use super::{
    DEFAULT_HOP_LIMIT, Edit, GATEWAY_BLOCK_V6, GATEWAY_BLOCK_V7, OutgoingV6, Untranslatable,
    identity, record_to_v6, record_to_v7, v6_of, v7_of,
};
use crate::builder::OutgoingHeader;
use crate::crc::CrcType;
use crate::eid::EndpointId;
use crate::reading::Reading;
use crate::v6::{self, Block, BlockFlags, BundleFlags};
use crate::v7;
use crate::v7::block::{BlockType, CanonicalBlock};

/// Translates a bundle of either version into the other and back, where it can be read; its record as well. `None` where it cannot be read.
///
/// # Errors
/// It cannot cross.
///
/// # Panics
/// It comes back as another than it was.
pub fn check_octets(octets: &Bytes, edit: &Edit) -> Option<Result<(), Untranslatable>> {
    if octets.first() == Some(&v6::primary::VERSION) {
        let (header, trailer) = v6::oracle::check_bundle(octets).ok()??;
        let start = header.octets.len();
        let end = start + usize::try_from(header.payload_octets).ok()?;
        if let Ok(record) = v6::admin::AdministrativeRecord::decode(&octets.slice(start..end)) {
            let _ = check_record_of_v6(&record);
        }
        return Some(check_v6(&header, &trailer, edit));
    }
    let header = crate::header::Header::decode(octets, Reading::Lenient).ok()??;
    let start = header.octets.len();
    let end = start.checked_add(usize::try_from(header.payload.length).ok()?);
    if let Some(end) = end.filter(|end| *end <= octets.len()) {
        let payload = octets.slice(start..end);
        if let Ok(record) = v7::admin::AdministrativeRecord::decode(&payload, Reading::Lenient) {
            let _ = check_record_of_v7(&record);
        }
    }
    Some(check_v7(&header, edit))
}

/// An edit for a bundle of this payload, which may be a record: that has another length in the other version.
fn with_record(edit: &Edit, octets: u64) -> Edit {
    Edit {
        record_octets: Some(octets),
        ..edit.clone()
    }
}

/// The other version's own rules refuse nothing that the tables do not, but for length, and for blocks of a forged gateway block.
fn check_refusal(refusal: &Untranslatable) {
    use v7::refusal::Refusal;
    match refusal {
        Untranslatable::Version6(v6::Refusal::BundleTooLong)
        | Untranslatable::Version7(Refusal::BundleTooLong | Refusal::BlockRequestsReport { .. }) => {
        }
        Untranslatable::Version6(_) | Untranslatable::Version7(_) => {
            panic!("it was made by a rule and breaks one: {refusal}")
        }
        _ => {}
    }
}

/// Translates a bundle of version 6 and back.
///
/// # Errors
/// It cannot cross.
///
/// # Panics
/// It comes back as another than it was.
pub fn check_v6(
    header: &v6::Header,
    trailer: &v6::Trailer,
    edit: &Edit,
) -> Result<(), Untranslatable> {
    let went = v7_of(header, trailer, &with_record(edit, 77)).inspect_err(check_refusal)?;
    let new = read_v7(&went);
    let old = &header.primary;
    assert_eq!(new.primary.source, old.source);
    assert_eq!(Ok(new.primary.creation), identity::to_v7(old.creation));
    let hops = new.hop_count();
    assert!(
        hops.is_some_and(|hops| hops.count > 0 && !hops.is_exceeded()),
        "{hops:?}"
    );
    assert_eq!(
        new.age_ms().is_some(),
        old.creation.seconds == 0 || ages(header, trailer).is_some()
    );
    let back = match v6_of(&new, &with_record(edit, header.payload_octets)) {
        Ok(back) => back,
        // Crossed too often, an endpoint ID that version 6 has only in a dictionary, or too long by its other header.
        Err(
            Untranslatable::HopLimit { .. }
            | Untranslatable::Endpoint { .. }
            | Untranslatable::Version6(v6::Refusal::BundleTooLong),
        ) => return Ok(()),
        Err(refusal) => panic!("it does not come back: {refusal}: {header:?}"),
    };
    compare_v6(header, trailer, edit, &new, &read_v6(&back));
    Ok(())
}

/// The bundle that came back is the one that the table says.
fn compare_v6(
    header: &v6::Header,
    trailer: &v6::Trailer,
    edit: &Edit,
    new: &crate::header::Header,
    (again, behind): &(v6::Header, v6::Trailer),
) {
    let old = &header.primary;
    let custody =
        (edit.custodian.as_ref()).filter(|_| old.flags.contains(BundleFlags::CUSTODY_REQUESTED));
    let custodian = custody.map_or(EndpointId::Null, |node| node.endpoint().clone());
    let same = v6::PrimaryBlock {
        custodian,
        ..old.clone()
    };
    assert_eq!(again.primary, same);
    assert_eq!(again.payload_octets, header.payload_octets);
    let forbidden =
        match old.flags.contains(BundleFlags::ADMINISTRATIVE_RECORD) || old.source.is_null() {
            true => BlockFlags::REPORT_IF_UNPROCESSED.bits(),
            false => 0,
        };
    assert_eq!(
        again.payload_flags.bits() & 0x17,
        header.payload_flags.bits() & 0x17 & !forbidden
    );
    let age_ms = new
        .age_ms()
        .map(|ms| ms.saturating_add(edit.age_increase_ms));
    assert_eq!(
        ages(again, behind),
        age_ms.map(|ms| ms.saturating_mul(1000))
    );
    if let Some(before) = ages(header, trailer) {
        let increase = edit.age_increase_ms;
        assert_eq!(new.age_ms(), Some((before / 1000).saturating_add(increase)));
    }
    let used = header.blocks.iter().position(is_gateway_v6);
    let kept =
        |(at, block): (usize, &Block)| (used != Some(at) && is_kept_v6(block)).then(|| bare(block));
    let expected: Vec<_> = header.blocks.iter().enumerate().filter_map(kept).collect();
    assert_eq!(written_before(again), expected);
    let behind: Vec<_> = behind.blocks.iter().map(bare).collect();
    let kept = trailer.blocks.iter().filter(|block| is_kept_v6(block));
    assert_eq!(behind, kept.map(bare).collect::<Vec<_>>());
}

/// Translates a bundle of version 7 and back.
///
/// # Errors
/// It cannot cross.
///
/// # Panics
/// It comes back as another than it was.
pub fn check_v7(header: &crate::header::Header, edit: &Edit) -> Result<(), Untranslatable> {
    let went = v6_of(header, &with_record(edit, 77)).inspect_err(check_refusal)?;
    let (old, behind) = read_v6(&went);
    let new = &header.primary;
    assert_eq!(old.primary.source, new.source);
    assert_eq!(Ok(old.primary.creation), identity::to_v6(new.creation));
    assert!(
        (new.lifetime_ms == 0) || old.primary.lifetime_s > 0,
        "a lifetime is over at once"
    );
    let ends_ms = u128::from(new.creation.time.as_millis()) + u128::from(new.lifetime_ms);
    let ends_s = u128::from(old.primary.creation.seconds) + u128::from(old.primary.lifetime_s);
    let is_known = (header.extensions.iter()).any(|block| is_gateway_v7(header, block));
    assert!(is_known || ends_s * 1000 >= ends_ms, "it expires earlier");
    assert_eq!(
        ages(&old, &behind).is_some(),
        !new.creation.time.is_known() || header.age_ms().is_some()
    );
    let back = match v7_of(&old, &behind, &with_record(edit, header.payload.length)) {
        Ok(back) => back,
        // Crossed too often, or too long by its other header.
        Err(
            Untranslatable::HopLimit { .. }
            | Untranslatable::Version7(v7::refusal::Refusal::BundleTooLong),
        ) => return Ok(()),
        Err(refusal) => panic!("it does not come back: {refusal}: {header:?}"),
    };
    compare_v7(header, edit, &read_v7(&back));
    Ok(())
}

/// The bundle that came back is the one that the table says.
fn compare_v7(header: &crate::header::Header, edit: &Edit, again: &crate::header::Header) {
    let new = &header.primary;
    let known = (header.extensions.iter()).find(|block| is_gateway_v7(header, block));
    let crc_type = match new.crc_type {
        CrcType::Crc16 => CrcType::Crc16,
        CrcType::None | CrcType::Crc32C => CrcType::Crc32C,
    };
    let same = v7::block::PrimaryBlock {
        crc_type,
        ..new.clone()
    };
    assert_eq!(again.primary, same);
    let payload_crc = edit.payload_crc.unwrap_or(header.payload.crc_type);
    assert_eq!(again.payload.crc_type, payload_crc);
    assert_eq!(again.payload.length, header.payload.length);
    assert_eq!(
        again.payload.flags.bits(),
        header.payload.flags.bits() & 0x17
    );
    let limit = |hops: Option<v7::block::HopCount>| hops.map(|hops| (hops.limit, hops.count));
    let (limit_came, count) = limit(header.hop_count()).unwrap_or((DEFAULT_HOP_LIMIT, 0));
    assert_eq!(limit(again.hop_count()), Some((limit_came, count + 2)));
    if let Some(age_ms) = header.age_ms() {
        let on_the_way = age_ms
            .saturating_add(edit.age_increase_ms)
            .min(u64::MAX / 1000);
        let age_ms = on_the_way.saturating_add(edit.age_increase_ms);
        assert_eq!(again.age_ms(), Some(age_ms));
    }
    let kept = header.extensions.iter().filter(|block| {
        known.is_none_or(|known| known.number != block.number) && is_kept_v7(block)
    });
    let expected: Vec<_> = kept.map(|block| whole(header, block)).collect();
    // Behind the gateway block that was just written.
    let own = again
        .extensions
        .iter()
        .position(|it| it.block_type == GATEWAY_BLOCK_V7);
    let behind_own = again.extensions.iter().skip(own.unwrap_or(0) + 1);
    let actual: Vec<_> = behind_own.map(|block| whole(again, block)).collect();
    assert_eq!(actual, expected);
}

/// Translates a record of version 6 and back.
///
/// # Errors
/// It cannot cross.
///
/// # Panics
/// It comes back as another than it was.
pub fn check_record_of_v6(record: &v6::admin::AdministrativeRecord) -> Result<(), Untranslatable> {
    let new = record_to_v7(record)?;
    let read = v7::admin::AdministrativeRecord::decode(&new.encode(), Reading::Strict);
    assert_eq!(read.as_ref(), Ok(&new));
    match record_to_v6(&new) {
        Ok(back) => {
            let (was, is) = (report_v6(record), report_v6(&back));
            assert_eq!(is.subject, was.subject);
            assert_eq!(is.reason, if was.reason > 8 { 0 } else { was.reason });
            let ms = |time: &v6::admin::ReportTime| {
                u128::from(time.seconds) * 1000 + u128::from(time.nanoseconds / 1_000_000)
            };
            let times =
                |it: &v6::admin::StatusReport| it.times.each_ref().map(|it| it.as_ref().map(ms));
            assert_eq!(times(is), times(was));
        }
        Err(Untranslatable::Endpoint { .. }) => {}
        Err(refusal) => panic!("it does not come back: {refusal}"),
    }
    Ok(())
}

/// Translates a record of version 7 and back.
///
/// # Errors
/// It cannot cross.
///
/// # Panics
/// It comes back as another than it was.
pub fn check_record_of_v7(record: &v7::admin::AdministrativeRecord) -> Result<(), Untranslatable> {
    let old = record_to_v6(record)?;
    let read = v6::admin::AdministrativeRecord::decode(&old.encode());
    assert_eq!(read.as_ref(), Ok(&old));
    let back = record_to_v7(&old).unwrap_or_else(|it| panic!("it does not come back: {it}"));
    let (was, is) = (report_v7(record), report_v7(&back));
    assert_eq!(is.bundle, was.bundle);
    let times = |it: &v7::admin::StatusReport| {
        [it.received, it.forwarded, it.delivered, it.deleted]
            .map(|it| it.map(|it| it.time.unwrap_or_default()))
    };
    assert_eq!(times(is), times(was));
    let reason = match was.reason.code() {
        code @ 0..=8 => code,
        11 => 8,
        _ => 0,
    };
    assert_eq!(is.reason.code(), reason);
    Ok(())
}

fn report_v6(record: &v6::admin::AdministrativeRecord) -> &v6::admin::StatusReport {
    match record {
        v6::admin::AdministrativeRecord::StatusReport(report) => report,
        other => panic!("{other:?} crossed"),
    }
}

fn report_v7(record: &v7::admin::AdministrativeRecord) -> &v7::admin::StatusReport {
    match record {
        v7::admin::AdministrativeRecord::StatusReport(report) => report,
        other => panic!("{other:?} crossed"),
    }
}

fn read_v7(outgoing: &OutgoingHeader) -> crate::header::Header {
    match crate::header::Header::decode(&outgoing.octets, Reading::Strict) {
        Ok(Some(header)) => {
            assert_eq!(header.octets, outgoing.octets);
            assert_eq!(header.payload, outgoing.payload);
            header
        }
        other => panic!("{other:?} of {outgoing:?}"),
    }
}

fn read_v6(outgoing: &OutgoingV6) -> (v6::Header, v6::Trailer) {
    let header = match v6::Header::decode(&outgoing.octets) {
        Ok(Some(header)) => header,
        other => panic!("{other:?} of {outgoing:?}"),
    };
    assert_eq!(header.octets, outgoing.octets);
    assert_eq!(header.payload_octets, outgoing.payload_octets);
    match v6::Trailer::decode(&header, &outgoing.trailer) {
        Ok(Some(trailer)) => {
            assert_eq!(trailer.octets, outgoing.trailer.len());
            (header, trailer)
        }
        other => panic!("{other:?} of {outgoing:?}"),
    }
}

/// The age that the blocks of type 10 and 20 say.
fn ages(header: &v6::Header, trailer: &v6::Trailer) -> Option<u64> {
    let all = header.blocks.iter().chain(&trailer.blocks);
    let ages = all.filter(|block| matches!(block.block_type.0, 10 | 20));
    ages.filter_map(Block::age_us).max()
}

/// The blocks behind those that the translation writes first: previous hop, gateway, and age.
fn written_before(header: &v6::Header) -> Vec<(u8, u64, Bytes)> {
    let own = (header.blocks.iter()).position(|block| block.block_type == GATEWAY_BLOCK_V6);
    let own = own.unwrap_or(0) + 1;
    let mut blocks = header.blocks.iter().skip(own).peekable();
    let is_age = |block: &&Block| matches!(block.block_type.0, 10 | 20) && block.age_us().is_some();
    let _ = blocks.next_if(is_age);
    blocks.map(bare).collect()
}

/// Type, flags but "last", and content.
fn bare(block: &Block) -> (u8, u64, Bytes) {
    let flags = block.flags.bits() & !BlockFlags::LAST.bits();
    (block.block_type.0, flags, block.content.clone())
}

/// All of an extension block but its checksum.
fn whole(header: &crate::header::Header, block: &v7::block::ExtensionBlock) -> CanonicalBlock {
    let content = Bytes::copy_from_slice(header.content(block));
    CanonicalBlock::new(
        block.block_type,
        block.number,
        block.flags,
        block.crc_type,
        content,
    )
}

fn is_gateway_v6(block: &Block) -> bool {
    block.block_type == GATEWAY_BLOCK_V6
        && !block.flags.contains(BlockFlags::REFERENCES)
        && OfV7::decode(&block.content).is_some()
}

fn is_gateway_v7(header: &crate::header::Header, block: &v7::block::ExtensionBlock) -> bool {
    block.block_type == GATEWAY_BLOCK_V7 && OfV6::decode(header.content(block)).is_some()
}

/// Whether a block of a bundle that crossed came along.
fn is_kept_v6(block: &Block) -> bool {
    let flags = block.flags.bits();
    let is_discarded = flags & 0x16 == 0x10;
    let has_references = flags & BlockFlags::REFERENCES.bits() != 0;
    match block.block_type.0 {
        1..=5 | 9 => false,
        10 if block.custody_id().is_some() => false,
        10 | 20 if block.age_us().is_some() => false,
        8 | 19 => !has_references,
        _ => !is_discarded,
    }
}

fn is_kept_v7(block: &v7::block::ExtensionBlock) -> bool {
    match block.block_type {
        BlockType(1 | 6 | 7 | 10 | 11 | 12) => false,
        _ => block.flags.bits() & 0x16 != 0x10,
    }
}
