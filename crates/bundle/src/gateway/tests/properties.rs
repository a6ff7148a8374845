//! Properties of any bundle that crosses, at the edges of its fields.

use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::super::oracle::{
    check_octets, check_record_of_v6, check_record_of_v7, check_v6, check_v7,
};
use super::super::{AgeDialect, Edit, Untranslatable};
use super::{CAPTURED_V6, CAPTURED_V7, captured, old_bundle};
use crate::builder::end_header;
use crate::cbor::write_indefinite_array;
use crate::v6::{self, Block, BlockFlags, BundleFlags, CreationTime};
use crate::v7::admin::{Assertion, ReasonCode};
use crate::v7::block::{
    CanonicalBlock, HopCount, PrimaryBlock, encode_bundle_age, encode_hop_count,
};
use crate::{
    BundleId, CrcType, CreationTimestamp, DtnTime, EndpointId, FragmentPlace, FragmentRange,
    Reading, v7,
};

/// Numbers at their edges, and any.
fn number() -> impl Strategy<Value = u64> {
    let near = |edge: u64| (0_u64..2_100).prop_map(move |by| edge.saturating_add(by));
    prop_oneof![
        4 => near(0),
        2 => near(848_000_000),
        2 => near(848_000_000_000),
        1 => near(u64::MAX / 1000 - 1_000),
        1 => near(u64::MAX - 2_099),
        1 => any::<u64>(),
    ]
}

fn endpoint() -> impl Strategy<Value = EndpointId> {
    "(ipn:[1-9][0-9]{0,8}\\.[0-9]{1,3}|dtn://[a-z]{1,8}/~?[a-z]{0,8}|dtn:none)"
        .prop_filter_map("a number with zeros in front", |text| text.parse().ok())
}

fn flags() -> impl Strategy<Value = u64> {
    // Few bundles may be both a record and reported on.
    let without_reports = (0_u64..0x20_0000).prop_map(|bits| bits & !0x07_c00a);
    prop_oneof![Just(0), without_reports, 0_u64..0x20_0000, any::<u64>()]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let custody_id = (0_u8..128).prop_map(|id| [&[id][..], b"ipn:4.0"].concat());
    prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => proptest::collection::vec(any::<u8>(), 0..2_000),
        2 => (0_u8..128).prop_map(|age| vec![age]),
        2 => custody_id,
    ]
}

fn old_blocks() -> impl Strategy<Value = Vec<Block>> {
    let block_type = prop_oneof![
        Just(5_u8),
        Just(8),
        Just(10),
        Just(19),
        Just(20),
        Just(213),
        11_u8..=255
    ];
    let passable = (0_u64..0x40).prop_map(|bits| bits & !4);
    let block_flags = prop_oneof![8 => 0_u64..2, 4 => passable, 1 => 0_u64..0x40];
    let block = (block_type, block_flags, content()).prop_map(|(block_type, flags, content)| {
        // Neither the last, nor with references.
        let flags = BlockFlags::from_bits(flags & !0x48);
        Block::new(v6::BlockType(block_type), flags, content)
    });
    proptest::collection::vec(block, 0..5)
}

prop_compose! {
    fn any_old()(
        flags in flags(),
        names in proptest::collection::vec(endpoint(), 4),
        seconds in prop_oneof![Just(0), 848_000_000_u64..848_000_010, number()],

        sequence in number(),
        lifetime_s in number(),
        payload in number(),
        offset in proptest::option::of(number()),
        after in number(),
        before in old_blocks(),
        behind in old_blocks(),
        payload_flags in 0_u64..0x40,
    ) -> Option<(v6::Header, v6::Trailer)> {
        let flags = BundleFlags::from_bits(flags & !BundleFlags::FRAGMENT.bits());
        let [destination, source, report_to, custodian] = names.try_into().unwrap();
        let total = offset.and_then(|offset| offset.checked_add(payload)?.checked_add(after));
        let fragment = offset.zip(total).map(|(offset, total_adu_octets)| v6::FragmentPlace { offset, total_adu_octets });
        let flags = match fragment {
            Some(_) => flags | BundleFlags::FRAGMENT,
            None => flags,
        };
        let creation = CreationTime { seconds, sequence };
        let primary = v6::PrimaryBlock { flags, destination, source, report_to, custodian, creation, lifetime_s, fragment };
        let (mut header, trailer) = old_bundle(primary, before, &behind, payload)?;
        header.payload_flags = header.payload_flags | BlockFlags::from_bits(payload_flags & !8);
        Some((header, trailer))
    }
}

prop_compose! {
    fn any_new_block()(
        block_type in prop_oneof![1 => 11_u64..13, 4 => 200_u64..216, 4 => 13_u64..300, 1 => any::<u64>()],
        flags in prop_oneof![8 => 0_u64..2, 4 => (0_u64..0x40).prop_map(|bits| bits & !4), 1 => flags()],
        crc in 0_u64..3,
        content in content(),
    ) -> (v7::block::BlockType, v7::block::BlockFlags, CrcType, Bytes) {
        let crc_type = CrcType::from_code(crc).unwrap();
        (v7::block::BlockType(block_type), v7::block::BlockFlags::from_bits(flags), crc_type, content.into())
    }
}

prop_compose! {
    fn any_new()(
        flags in flags(),
        names in proptest::collection::vec(endpoint(), 3),
        time_ms in prop_oneof![Just(0), 848_000_000_000_u64..848_000_009_999, number()],

        sequence in number(),
        lifetime_ms in number(),
        payload in number(),
        offset in proptest::option::of(number()),
        after in number(),
        crcs in (1_u64..3, 0_u64..3),
        age_ms in proptest::option::of(number()),
        hops in proptest::option::of((1_u8.., 0_u64..40)),
        blocks in proptest::collection::vec(any_new_block(), 0..5),
        numbers in proptest::sample::subsequence((2_u64..40).collect::<Vec<_>>(), 8),
        payload_flags in flags(),
    ) -> Option<crate::header::Header> {
        let [destination, source, report_to] = names.try_into().unwrap();
        let total = offset.and_then(|offset| offset.checked_add(payload)?.checked_add(after));
        let fragment = offset.zip(total).map(|(offset, total_adu_octets)| FragmentPlace { offset, total_adu_octets });
        let [crc_type, payload_crc] = [crcs.0, crcs.1].map(|code| CrcType::from_code(code).unwrap());
        let creation = CreationTimestamp { time: DtnTime::from_millis(time_ms), sequence };
        let flags = v7::block::BundleFlags::from_bits(flags).without(v7::block::BundleFlags::FRAGMENT);
        let flags = match fragment {
            Some(_) => flags | v7::block::BundleFlags::FRAGMENT,
            None => flags,
        };
        let primary = PrimaryBlock { flags, crc_type, destination, source, report_to, creation, lifetime_ms, fragment };
        let mut all = Vec::new();
        if let Some(age_ms) = age_ms.or((time_ms == 0).then_some(5)) {
            all.push((v7::block::BlockType::BUNDLE_AGE, v7::block::BlockFlags::NONE, CrcType::None, encode_bundle_age(age_ms)));
        }
        if let Some((limit, count)) = hops {
            let content = encode_hop_count(HopCount { limit, count });
            all.push((v7::block::BlockType::HOP_COUNT, v7::block::BlockFlags::NONE, CrcType::Crc16, content));
        }
        all.extend(blocks);
        let mut out = Vec::new();
        write_indefinite_array(&mut out);
        primary.encode(&mut out);
        for ((block_type, flags, crc_type, content), number) in all.into_iter().zip(numbers) {
            out.extend_from_slice(&CanonicalBlock::new(block_type, number, flags, crc_type, content).octets);
        }
        let payload_flags = v7::block::BlockFlags::from_bits(payload_flags);
        let outgoing = end_header(out, payload_flags, payload_crc, payload);
        crate::header::Header::decode(&outgoing.octets, Reading::Strict).ok()?
    }
}

prop_compose! {
    fn any_edit()(
        previous_node in proptest::option::of(Just("ipn:5.0".parse().unwrap())),
        age_increase_ms in number(),
        crc in 0_u64..4,
        age_dialect in prop_oneof![Just(AgeDialect::Type10), Just(AgeDialect::Type20)],
        custodian in proptest::option::of(Just("dtn://gateway/".parse().unwrap())),
    ) -> Edit {
        Edit {
            previous_node,
            age_increase_ms,
            least_hops: 0,
            record_octets: None,
            payload_crc: CrcType::from_code(crc),
            age_dialect,
            priority: v6::Priority::Bulk,
            custodian,
        }
    }
}

/// Runs a check on bundles of any kind, and sees that not too many of them are refused for the check to mean something.
fn check_all<T: core::fmt::Debug>(
    any: impl Strategy<Value = Option<T>>,
    check: impl Fn(T, &Edit) -> Result<(), Untranslatable>,
) {
    let (crossed, refused) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(2_000));
    runner
        .run(&(any, any_edit()), |(bundle, edit)| {
            let outcome = bundle.map(|bundle| check(bundle, &edit));
            match outcome {
                Some(Ok(())) => crossed.set(crossed.get() + 1),
                Some(Err(_)) => refused.set(refused.get() + 1),
                None => {}
            }
            Ok(())
        })
        .unwrap();
    let (crossed, refused) = (crossed.get(), refused.get());
    assert!(
        crossed > 250 && refused > 50,
        "{crossed} crossed, and {refused} were refused"
    );
}

#[test]
fn a_bundle_of_version_6_comes_back_as_the_table_says() {
    check_all(any_old(), |(header, trailer), edit| {
        check_v6(&header, &trailer, edit)
    });
}

#[test]
fn a_bundle_of_version_7_comes_back_as_the_table_says() {
    check_all(any_new(), |header, edit| check_v7(&header, edit));
}

proptest! {
    #[test]
    fn a_report_comes_back_as_the_table_says(
        source in endpoint(),
        numbers in (number(), number(), number(), number()),
        times in proptest::collection::vec(proptest::option::of(number()), 4),
        reason in prop_oneof![0_u64..20, any::<u64>()],
        is_fragment: bool,
    ) {
        let (seconds, sequence, offset, length) = numbers;
        let fragment = is_fragment.then_some(FragmentRange { offset, length });
        let old_time = |at: usize| times[at].map(|seconds| v6::admin::ReportTime { seconds, nanoseconds: sequence });
        let old = v6::admin::StatusReport {
            subject: v6::admin::Subject { source: source.clone(), creation: CreationTime { seconds, sequence }, fragment },
            reason: u8::try_from(reason).unwrap_or(255),
            times: [old_time(0), None, old_time(1), old_time(2), old_time(3)],
        };
        let _ = check_record_of_v6(&v6::admin::AdministrativeRecord::StatusReport(old));
        let new_time = |at: usize| times[at].map(|ms| Assertion { time: (ms != 7).then_some(DtnTime::from_millis(ms)) });
        let creation = CreationTimestamp { time: DtnTime::from_millis(seconds), sequence };
        let new = v7::admin::StatusReport {
            received: new_time(0),
            forwarded: new_time(1),
            delivered: new_time(2),
            deleted: new_time(3),
            reason: ReasonCode::from_code(reason),
            bundle: BundleId { source, creation, fragment },
        };
        let _ = check_record_of_v7(&v7::admin::AdministrativeRecord::StatusReport(new));
    }

    /// Octets that begin well get further.
    #[test]
    fn a_changed_bundle_crosses_or_is_refused(
        which: usize,
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        edit in any_edit(),
    ) {
        let all: Vec<_> = captured(CAPTURED_V6).chain(captured(CAPTURED_V7)).collect();
        let mut octets = all[which % all.len()].1.to_vec();
        for (at, octet) in changes {
            let at = at % octets.len().min(150);
            octets[at] = octet;
        }
        let _ = check_octets(&octets.into(), &edit);
    }
}
