//! Bundles that cross, and their blocks on the other side.

use alloc::vec;
use alloc::vec::Vec;

use super::super::oracle::check_v6;
use super::super::*;
use super::*;
use crate::builder::{BundleBuilder, end_header};
use crate::v6::{self, Block, BlockFlags, BundleFlags, CreationTime};
use crate::{CrcType, CreationTimestamp, FragmentRange, Reading, v7};

#[test]
fn remembered_blocks_come_back_in_the_fragments_that_have_their_place() {
    let before = vec![old_block(200, 0), old_block(201, 1)];
    let (header, trailer) = old_bundle(old_primary(), before, &[old_block(202, 0)], 100).unwrap();
    let new = v7_of(&header, &trailer, &Edit::default()).unwrap();
    let new = crate::header::Header::decode(&new.octets, Reading::Strict)
        .unwrap()
        .unwrap();
    for (offset, length, expected) in [
        (0, 40, &[200, 201][..]),
        (40, 40, &[201][..]),
        (80, 20, &[201, 202][..]),
    ] {
        let fragment = new.forwarded(&crate::HopEdit {
            fragment: Some(FragmentRange { offset, length }),
            ..crate::HopEdit::default()
        });
        let fragment = crate::header::Header::decode(&fragment.octets, Reading::Strict);
        let old = v6_of(&fragment.unwrap().unwrap(), &Edit::default()).unwrap();
        let header = v6::Header::decode(&old.octets).unwrap().unwrap();
        let trailer = v6::Trailer::decode(&header, &old.trailer).unwrap().unwrap();
        let types = header.blocks.iter().chain(&trailer.blocks);
        let types: Vec<_> = types
            .map(|block| block.block_type.0)
            .filter(|it| *it < 213)
            .collect();
        assert_eq!(types, expected, "at {offset}");
        let place = header.primary.fragment.unwrap();
        assert_eq!((place.offset, place.total_adu_octets), (offset, 100));
    }
}

#[test]
fn a_lifetime_that_was_changed_on_the_way_counts_as_it_stands() {
    let old = v6_of(&new_header(&new_builder()), &Edit::default()).unwrap();
    let mut header = v6::Header::decode(&old.octets).unwrap().unwrap();
    assert_eq!(header.primary.lifetime_s, 3_601);
    let mut exact = |lifetime_s| {
        header.primary.lifetime_s = lifetime_s;
        let header = v6::Header::decode(&header.encode().into())
            .unwrap()
            .unwrap();
        let new = v7_of(&header, &v6::Trailer::default(), &Edit::default()).unwrap();
        let new = crate::header::Header::decode(&new.octets, Reading::Strict);
        new.unwrap().unwrap().primary.lifetime_ms
    };
    assert_eq!(exact(3_601), 3_600_500);
    assert_eq!(exact(60), 60_000);
    // A lifetime that has no milliseconds of 64 bits is back as it was; after a change it is not.
    let most = v6::PrimaryBlock {
        lifetime_s: u64::MAX,
        ..old_primary()
    };
    let (header, trailer) = old_bundle(most, Vec::new(), &[], 100).unwrap();
    let known = of_v6::OfV6::new(&header, &trailer, None).unwrap().encode();
    for (lifetime_ms, lifetime_s) in [(u64::MAX, u64::MAX), (5_000, 6)] {
        let creation = new_builder().primary().creation;
        let builder = BundleBuilder::new(eid("ipn:1.1"), eid("ipn:2.1"), creation, lifetime_ms);
        let every = v7::block::BlockFlags::REPLICATE;
        let new = new_header(&builder.with_block(GATEWAY_BLOCK_V7, every, known.clone()));
        let old = v6_of(&new, &Edit::default()).unwrap();
        let old = v6::Header::decode(&old.octets).unwrap().unwrap();
        assert_eq!(old.primary.lifetime_s, lifetime_s);
    }
}

/// A bundle of version 7 with this in a gateway block: its header in version 6.
fn with_gateway_block(builder: BundleBuilder, content: &str) -> v6::Header {
    let every = v7::block::BlockFlags::REPLICATE;
    let new = new_header(&builder.with_block(GATEWAY_BLOCK_V7, every, octets(content)));
    let edit = Edit {
        record_octets: Some(5),
        ..Edit::default()
    };
    let old = v6_of(&new, &edit).unwrap();
    v6::Header::decode(&old.octets).unwrap().unwrap()
}

#[test]
fn a_forged_gateway_block_requests_no_custody_of_a_record() {
    // [1, custody, report on it, expedited; 0 s, [], []]
    let forged = "8501198108008080";
    let plain = with_gateway_block(new_builder(), forged);
    let requested = BundleFlags::CUSTODY_REQUESTED | BundleFlags::REPORT_CUSTODY;
    let expedited = BundleFlags::NONE.with_priority(v6::Priority::Expedited);
    assert_eq!(plain.primary.flags, expedited | requested);
    let record = new_builder().with_flags(v7::block::BundleFlags::ADMINISTRATIVE_RECORD);
    let record = with_gateway_block(record, forged);
    let expected = expedited | BundleFlags::ADMINISTRATIVE_RECORD;
    assert_eq!(record.primary.flags, expected);
}

#[test]
fn a_record_or_anonymous_bundle_crosses_whatever_its_payload_flags_are() {
    let record = BundleFlags::ADMINISTRATIVE_RECORD;
    for (flags, source) in [
        (record, "ipn:1.1"),
        (BundleFlags::MUST_NOT_FRAGMENT, "dtn:none"),
    ] {
        let primary = v6::PrimaryBlock {
            flags,
            source: eid(source),
            ..old_primary()
        };
        let (mut header, trailer) = old_bundle(primary, Vec::new(), &[], 100).unwrap();
        header.payload_flags = BlockFlags::from_bits(0x1f);
        let edit = Edit {
            record_octets: Some(100),
            ..Edit::default()
        };
        let new = v7_of(&header, &trailer, &edit).unwrap();
        assert_eq!(new.payload.flags.bits(), 0x15);
    }
}

#[test]
fn custody_and_class_of_service_come_back_and_the_gateway_is_custodian() {
    let requested = BundleFlags::CUSTODY_REQUESTED | BundleFlags::REPORT_CUSTODY;
    let primary = v6::PrimaryBlock {
        flags: old_primary().flags | requested,
        custodian: eid("ipn:9.0"),
        ..old_primary()
    };
    let ecos = Block::new(
        v6::BlockType::EXTENDED_CLASS,
        BlockFlags::from_bits(0x11),
        vec![1, 200],
    );
    let mut custody_id = Block::of_age(v6::BlockType::CUSTODY_OR_AGE, 5);
    custody_id.content = [&custody_id.content[..], b"ipn:9.0"].concat().into();
    let blocks = vec![ecos.clone(), custody_id];
    let (header, trailer) = old_bundle(primary.clone(), blocks, &[], 100).unwrap();
    let edit = Edit {
        custodian: Some("ipn:5.0".parse().unwrap()),
        ..Edit::default()
    };
    let new = v7_of(&header, &trailer, &edit).unwrap();
    let new = crate::header::Header::decode(&new.octets, Reading::Strict)
        .unwrap()
        .unwrap();
    assert_eq!(new.primary.flags, v7::block::BundleFlags::NONE);
    let old = v6_of(&new, &edit).unwrap();
    let old = v6::Header::decode(&old.octets).unwrap().unwrap();
    assert_eq!(old.primary.flags, primary.flags);
    assert_eq!(old.primary.custodian, eid("ipn:5.0"));
    assert_eq!(old.blocks[1..], [ecos]);
}

#[test]
fn anything_but_a_gateway_block_is_a_block_like_others() {
    let good = of_v7::OfV7::new(&new_header(&new_builder()), None, 0)
        .unwrap()
        .encode();
    assert!(of_v7::OfV7::decode(&good).is_some());
    for end in 0..good.len() {
        assert_eq!(of_v7::OfV7::decode(&good[..end]), None);
    }
    for wrong in [&[&good[..], &[0]].concat()[..], &[0xff], &[]] {
        assert_eq!(of_v7::OfV7::decode(wrong), None);
        let block = Block::new(GATEWAY_BLOCK_V6, BlockFlags::REPLICATE, wrong.to_vec());
        let (header, trailer) = old_bundle(old_primary(), vec![block], &[], 100).unwrap();
        assert_eq!(check_v6(&header, &trailer, &Edit::default()), Ok(()));
    }
}

#[test]
fn a_bundle_without_clock_has_an_age_in_either_version() {
    let edit = Edit {
        age_increase_ms: 70,
        ..Edit::default()
    };
    let creation = CreationTime {
        seconds: 0,
        sequence: 9,
    };
    let primary = v6::PrimaryBlock {
        creation,
        ..old_primary()
    };
    let (header, trailer) = old_bundle(primary, Vec::new(), &[], 100).unwrap();
    let new = v7_of(&header, &trailer, &edit).unwrap();
    let new = crate::header::Header::decode(&new.octets, Reading::Strict);
    assert_eq!(new.unwrap().unwrap().age_ms(), Some(70));
    // As the examples of RFC 9173 are: without an age block.
    let mut primary = new_builder().primary().clone();
    primary.creation = CreationTimestamp::default();
    let mut out = vec![0x9f];
    primary.encode(&mut out);
    let none = v7::block::BlockFlags::NONE;
    let new = end_header(out, none, CrcType::None, 100).octets;
    let new = crate::header::Header::decode(&new, Reading::Lenient);
    let new = new.unwrap().unwrap();
    for (age_dialect, block_type) in [(AgeDialect::Type10, 10), (AgeDialect::Type20, 20)] {
        let edit = Edit {
            age_dialect,
            ..edit.clone()
        };
        let old = v6_of(&new, &edit).unwrap();
        let old = v6::Header::decode(&old.octets).unwrap().unwrap();
        let age = old.blocks.last().unwrap();
        assert_eq!((age.block_type.0, age.age_us()), (block_type, Some(70_000)));
    }
}

#[test]
fn a_bundle_has_its_priority_in_either_version_and_on_its_way_back() {
    let read = |octets: &bytes::Bytes| crate::Header::decode(octets, Reading::Strict);
    let edit = Edit::default();
    for rank in 0..crate::priority::PRIORITIES {
        let priority = crate::Priority::of_rank(rank);
        let (one, other) = (eid("ipn:1.1"), eid("ipn:2.1"));
        let creation = CreationTimestamp {
            time: crate::DtnTime::from_millis(848_000_000_000),
            sequence: 1,
        };
        for version in crate::Version::ALL {
            let builder = BundleBuilder::new(one.clone(), other.clone(), creation, 60_000)
                .with_version(version)
                .with_priority(priority);
            let mut header = read(&builder.header(5).unwrap().octets).unwrap().unwrap();
            assert_eq!(header.version(), version);
            for _ in 0..4 {
                assert_eq!(header.priority(), priority, "{version}");
                // A gateway block is one.
                assert!(header.unsupported_blocks().count() <= 1);
                let hop = crate::HopEdit::default();
                let there = crossed(&header, &hop, edit.clone()).unwrap();
                header = read(there.octets()).unwrap().unwrap();
            }
            assert!(header.octets.len() < 300, "{}", header.octets.len());
        }
    }
}
