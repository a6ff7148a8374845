//! Bundles of DTN2's heirs, IBR-DTN, ION and HDTN as they were on the wire, and octets of any kind.

use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;

use super::oracle::check_bundle;
use super::*;
use crate::eid::EndpointId;

/// Captures of live programs: their name and number, and the bundle.
const CAPTURED: &str = include_str!("../../tests/data/bundles_v6.tsv");

fn captured() -> Vec<(&'static str, Bytes)> {
    let lines = CAPTURED.lines().filter(|line| !line.starts_with('#'));
    let bundles = lines.map(|line| {
        let (name, digits) = line.split_once('\t').unwrap();
        let octet = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let octets: Vec<u8> = (0..digits.len()).step_by(2).map(octet).collect();
        (name, Bytes::from(octets))
    });
    bundles.collect()
}

#[test]
fn every_captured_bundle_is_read() {
    let all = captured();
    assert!(all.len() > 50, "{} bundles", all.len());
    for (name, octets) in &all {
        let (header, _) = check_bundle(octets)
            .unwrap_or_else(|refusal| panic!("{name}: {refusal}"))
            .unwrap_or_else(|| panic!("{name}: cut"));
        assert!(!header.primary.destination.is_null(), "{name}");
    }
}

#[test]
fn a_captured_bundle_is_written_as_it_was() {
    let mut same = 0;
    for (name, octets) in captured() {
        let (header, _) = check_bundle(&octets).unwrap().unwrap();
        let written = Bytes::from(header.encode());
        let again = Header::decode(&written).unwrap().expect(name);
        assert_eq!(again.primary, header.primary, "{name}");
        assert_eq!(again.blocks, header.blocks, "{name}");
        same += usize::from(written == header.octets);
    }
    // Some programs write strings that nothing refers to, or names of nodes without a slash.
    assert!(same > 20, "{same}");
}

#[test]
fn a_bundle_that_is_cut_anywhere_is_incomplete() {
    for (name, octets) in captured().into_iter().filter(|(_, it)| it.len() < 200) {
        for end in 0..octets.len() {
            assert_eq!(
                check_bundle(&octets.slice(..end)),
                Ok(None),
                "{name} at {end}"
            );
        }
    }
}

fn primary() -> PrimaryBlock {
    PrimaryBlock {
        flags: BundleFlags::SINGLETON_DESTINATION.with_priority(Priority::Normal),
        destination: "ipn:2.1".parse().unwrap(),
        source: "ipn:1.1".parse().unwrap(),
        report_to: EndpointId::Null,
        custodian: EndpointId::Null,
        creation: CreationTime {
            seconds: 848_000_000,
            sequence: 7,
        },
        lifetime_s: 3_600,
        fragment: None,
    }
}

fn refusal(primary: &PrimaryBlock, behind: &[u8]) -> Refusal {
    let mut octets = Vec::new();
    primary.encode(&mut octets);
    octets.extend_from_slice(behind);
    check_bundle(&octets.into()).unwrap_err()
}

/// A payload of one octet, the last block.
const PAYLOAD: &[u8] = &[1, 8, 1, b'x'];

#[test]
fn lies_are_refused_by_their_rule() {
    let good = primary();
    assert_eq!(refusal(&good, &[1, 8, 1, b'x', 0]), Refusal::OctetsAfterEnd);
    assert_eq!(refusal(&good, &[5, 8, 0]), Refusal::PayloadMissing);
    assert_eq!(
        refusal(&good, &[1, 0, 1, b'x', 1, 8, 0]),
        Refusal::TwoPayloads
    );
    let fragment = |offset, flags| PrimaryBlock {
        flags: good.flags | BundleFlags::FRAGMENT | flags,
        fragment: Some(FragmentPlace {
            offset,
            total_adu_octets: 10,
        }),
        ..good.clone()
    };
    let none = BundleFlags::NONE;
    for offset in [10, u64::MAX] {
        let refused = refusal(&fragment(offset, none), PAYLOAD);
        assert!(matches!(refused, Refusal::FragmentRange { .. }));
    }
    assert_eq!(
        refusal(&fragment(0, BundleFlags::MUST_NOT_FRAGMENT), PAYLOAD),
        Refusal::FragmentNotAllowed
    );
    let record = PrimaryBlock {
        flags: good.flags | BundleFlags::ADMINISTRATIVE_RECORD | BundleFlags::CUSTODY_REQUESTED,
        ..good.clone()
    };
    assert_eq!(refusal(&record, PAYLOAD), Refusal::RecordRequestsReports);
    let anonymous = PrimaryBlock {
        source: EndpointId::Null,
        ..good
    };
    assert_eq!(refusal(&anonymous, PAYLOAD), Refusal::Anonymous);
}

#[test]
fn a_primary_block_that_lies_about_its_length_is_refused() {
    let mut octets = Vec::new();
    primary().encode(&mut octets);
    octets.extend_from_slice(PAYLOAD);
    for wrong in [0_u8, 1, 0x7f] {
        let mut lie = octets.clone();
        lie[3] = wrong;
        let refused = check_bundle(&lie.into()).unwrap_err();
        assert!(
            matches!(refused, Refusal::PrimaryBlockLength { .. }),
            "{refused}"
        );
    }
    octets[0] = 7;
    assert_eq!(check_bundle(&octets.into()), Err(Refusal::Version(7)));
}

#[test]
fn what_never_ends_is_refused_at_a_bound() {
    let mut octets = Vec::new();
    primary().encode(&mut octets);
    // A block of a length that no header has.
    octets.extend_from_slice(&[9, 0, 0x8f, 0xff, 0xff, 0x7f]);
    octets.resize(header::MAX_HEADER_OCTETS + 1, 0);
    assert_eq!(check_bundle(&octets.into()), Err(Refusal::HeaderTooLong));
    let mut octets = Vec::new();
    primary().encode(&mut octets);
    let few = octets.len();
    for _ in 0..=header::MAX_BLOCKS {
        octets.extend_from_slice(&[9, 0, 0]);
    }
    assert_eq!(
        check_bundle(&octets.clone().into()),
        Err(Refusal::TooManyBlocks)
    );
    octets.truncate(few);
    octets.extend_from_slice(&[1, 0, 0]);
    for _ in 0..=header::MAX_BLOCKS {
        octets.extend_from_slice(&[9, 0, 0]);
    }
    assert_eq!(check_bundle(&octets.into()), Err(Refusal::TooManyBlocks));
}

proptest! {
    #[test]
    fn any_octets_are_a_bundle_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = check_bundle(&octets.into());
    }

    /// Octets that begin well get further.
    #[test]
    fn a_changed_bundle_is_a_bundle_or_refused(
        which in 0_usize..1_000,
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        let all = captured();
        let (_, octets) = &all[which % all.len()];
        let mut octets = octets.to_vec();
        for (at, octet) in changes {
            let at = at % octets.len().min(150);
            octets[at] = octet;
        }
        let _ = check_bundle(&octets.into());
    }

    #[test]
    fn a_primary_block_comes_back(
        flags in 0_u64..0x20_0000,
        names in proptest::collection::vec("(ipn:[1-9][0-9]{0,8}\\.[0-9]|dtn://[a-z]{1,8}/[a-z]{0,8}|dtn:none)", 4),
        numbers: [u64; 3],
    ) {
        let [seconds, sequence, lifetime_s] = numbers;
        let id = |at: usize| names[at].parse::<EndpointId>().unwrap();
        let flags = BundleFlags::from_bits(flags & !BundleFlags::FRAGMENT.bits());
        let written = PrimaryBlock {
            flags,
            destination: id(0),
            source: id(1),
            report_to: id(2),
            custodian: id(3),
            creation: CreationTime { seconds, sequence },
            lifetime_s,
            fragment: None,
        };
        let mut octets = Vec::new();
        written.encode(&mut octets);
        octets.extend_from_slice(PAYLOAD);
        match check_bundle(&octets.into()) {
            Ok(read) => prop_assert_eq!(read.unwrap().0.primary, written),
            Err(refusal) => prop_assert!(
                matches!(refusal, Refusal::RecordRequestsReports | Refusal::Anonymous),
                "{}", refusal.to_string()
            ),
        }
    }
}
