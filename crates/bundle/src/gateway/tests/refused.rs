//! Bundles and records that have no form in the other version.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::super::*;
use super::*;
use crate::builder::BundleBuilder;
use crate::v6::{self, Block, BundleFlags, CreationTime};
use crate::v7::admin::ReasonCode;
use crate::v7::block::{HopCount, encode_hop_count};
use crate::{BundleId, CreationTimestamp, DtnTime, FragmentPlace, Reading, v7};

fn refused_new(builder: &BundleBuilder) -> Untranslatable {
    v6_of(&new_header(builder), &Edit::default()).unwrap_err()
}

fn refused_old(primary: v6::PrimaryBlock, blocks: Vec<Block>) -> Untranslatable {
    let (header, trailer) = old_bundle(primary, blocks, &[], 100).unwrap();
    v7_of(&header, &trailer, &Edit::default()).unwrap_err()
}

#[test]
fn a_bundle_of_version_7_that_has_no_form_in_6_is_refused_with_its_reason() {
    let block = |block_type, flags| {
        let flags = v7::block::BlockFlags::from_bits(flags);
        new_builder().with_block(
            v7::block::BlockType(block_type),
            flags,
            Bytes::from_static(&[0x80]),
        )
    };
    let endpoint = |field, text: &str| Untranslatable::Endpoint {
        field,
        endpoint: eid(text),
    };
    assert_eq!(
        refused_new(&new_builder().with_report_to(eid("ipn:977000.1.3"))),
        endpoint("report-to endpoint", "ipn:977000.1.3")
    );
    assert_eq!(
        refused_new(&new_builder().with_report_to(eid("ipn:!.3"))),
        endpoint("report-to endpoint", "ipn:!.3")
    );
    for (block_type, flags) in [(11, 0), (11, 0x12), (11, 0x14), (12, 0), (12, 0x10)] {
        let refused = refused_new(&block(block_type, flags));
        let expected = Untranslatable::Security {
            version: 7,
            block_type,
        };
        assert_eq!(refused, expected, "{flags:#x}");
    }
    let refused = refused_new(&block(200, 0x14));
    assert_eq!(
        refused,
        Untranslatable::Block {
            version: 7,
            block_type: 200
        }
    );
    let large = Bytes::from(vec![0; MAX_REMEMBERED_OCTETS + 1]);
    let none = v7::block::BlockFlags::NONE;
    let large = new_builder().with_block(v7::block::BlockType(200), none, large);
    let refused = refused_new(&large);
    assert_eq!(
        refused,
        Untranslatable::TooMuch {
            blocks: 1,
            octets: 4_097
        }
    );
    let many = (0..17).fold(new_builder(), |it, _| {
        it.with_block(v7::block::BlockType(200), none, Bytes::new())
    });
    assert_eq!(
        refused_new(&many),
        Untranslatable::TooMuch {
            blocks: 17,
            octets: 0
        }
    );
    let record = new_builder().with_flags(v7::block::BundleFlags::ADMINISTRATIVE_RECORD);
    assert_eq!(refused_new(&record), Untranslatable::Record);
    let place = FragmentPlace {
        offset: 5,
        total_adu_octets: 500,
    };
    let fragment = record.with_fragment(place);
    assert_eq!(refused_new(&fragment), Untranslatable::FragmentOfRecord);
    let mut early = new_builder().primary().clone();
    early.creation.time = DtnTime::from_millis(999);
    let early = BundleBuilder::new(early.source, early.destination, early.creation, 1);
    assert_eq!(
        refused_new(&early),
        Untranslatable::FirstSecond { time_ms: 999 }
    );
}

#[test]
fn a_bundle_of_version_6_that_has_no_form_in_7_is_refused_with_its_reason() {
    for (block_type, flags) in [(2, 0), (3, 0x12), (4, 0x10), (9, 0)] {
        let refused = refused_old(old_primary(), vec![old_block(block_type, flags)]);
        let block_type = block_type.into();
        assert_eq!(
            refused,
            Untranslatable::Security {
                version: 6,
                block_type
            }
        );
    }
    let refused = refused_old(old_primary(), vec![old_block(200, 4)]);
    assert_eq!(
        refused,
        Untranslatable::Block {
            version: 6,
            block_type: 200
        }
    );
    let mut referring = old_block(8, 0x42);
    referring.references = vec![[0, 0]];
    let refused = refused_old(old_primary(), vec![referring]);
    assert_eq!(refused, Untranslatable::References { block_type: 8 });
    let refused = refused_old(old_primary(), vec![old_block(200, 1); 17]);
    assert_eq!(
        refused,
        Untranslatable::TooMuch {
            blocks: 17,
            octets: 51
        }
    );
    let local = v6::PrimaryBlock {
        destination: eid("ipn:!.1"),
        ..old_primary()
    };
    assert_eq!(
        refused_old(local, Vec::new()),
        Untranslatable::Endpoint {
            field: "destination",
            endpoint: eid("ipn:!.1")
        }
    );
    let creation = CreationTime {
        seconds: u64::MAX,
        sequence: 0,
    };
    let far = v6::PrimaryBlock {
        creation,
        ..old_primary()
    };
    let refused = refused_old(far, Vec::new());
    assert_eq!(refused, Untranslatable::CreationTime { seconds: u64::MAX });
    let fragment = v6::PrimaryBlock {
        flags: old_primary().flags | BundleFlags::FRAGMENT,
        fragment: Some(v6::FragmentPlace {
            offset: 5,
            total_adu_octets: 500,
        }),
        ..old_primary()
    };
    let (header, trailer) = old_bundle(fragment.clone(), Vec::new(), &[], 0).unwrap();
    let refused = v7_of(&header, &trailer, &Edit::default());
    assert_eq!(refused, Err(Untranslatable::EmptyFragment));
    let record = v6::PrimaryBlock {
        flags: fragment.flags | BundleFlags::ADMINISTRATIVE_RECORD,
        ..fragment
    };
    assert_eq!(
        refused_old(record, Vec::new()),
        Untranslatable::FragmentOfRecord
    );
}

#[test]
fn a_bundle_crosses_as_often_as_its_hop_limit_says_and_no_more() {
    let (mut header, trailer) = old_bundle(old_primary(), Vec::new(), &[], 100).unwrap();
    let edit = Edit::default();
    for _ in 0..DEFAULT_HOP_LIMIT / 2 {
        let new = v7_of(&header, &trailer, &edit).unwrap();
        let new = crate::header::Header::decode(&new.octets, Reading::Strict)
            .unwrap()
            .unwrap();
        let old = v6_of(&new, &edit).unwrap();
        header = v6::Header::decode(&old.octets).unwrap().unwrap();
    }
    let refused = v7_of(&header, &trailer, &edit).unwrap_err();
    assert_eq!(
        refused,
        Untranslatable::HopLimit {
            limit: 30,
            count: 31
        }
    );
    let spent = new_builder().with_block(
        v7::block::BlockType::HOP_COUNT,
        v7::block::BlockFlags::NONE,
        encode_hop_count(HopCount { limit: 2, count: 2 }),
    );
    assert_eq!(
        refused_new(&spent),
        Untranslatable::HopLimit { limit: 2, count: 3 }
    );
}

fn report(
    times: [Option<v6::admin::ReportTime>; 5],
    reason: u8,
) -> v6::admin::AdministrativeRecord {
    v6::admin::AdministrativeRecord::StatusReport(v6::admin::StatusReport {
        subject: v6::admin::Subject {
            source: eid("ipn:1.1"),
            creation: old_primary().creation,
            fragment: None,
        },
        reason,
        times,
    })
}

#[test]
fn records_that_have_no_form_in_the_other_version_are_refused_by_name() {
    let time = Some(v6::admin::ReportTime::default());
    let custody = report([time, time, None, None, None], 0);
    assert_eq!(record_to_v7(&custody), Err(Untranslatable::CustodyAccepted));
    let late = v6::admin::ReportTime {
        seconds: u64::MAX,
        nanoseconds: 0,
    };
    let late = report([Some(late), None, None, None, None], 0);
    let refused = Err(Untranslatable::ReportTime { seconds: u64::MAX });
    assert_eq!(record_to_v7(&late), refused);
    let aggregate = v6::admin::AdministrativeRecord::decode(&[0x40, 0x80, 1, 1]).unwrap();
    assert_eq!(
        record_to_v7(&aggregate),
        Err(Untranslatable::AggregateSignal)
    );
    let other = v7::admin::AdministrativeRecord::Other {
        record_type: 3,
        content: Bytes::from_static(&[0x80]),
    };
    assert_eq!(record_to_v6(&other), Err(Untranslatable::RecordType(3)));
    let nothing = v7::admin::StatusReport {
        received: None,
        forwarded: None,
        delivered: None,
        deleted: None,
        reason: ReasonCode::default(),
        bundle: BundleId {
            source: eid("ipn:1.1"),
            creation: CreationTimestamp::default(),
            fragment: None,
        },
    };
    let nothing = v7::admin::AdministrativeRecord::StatusReport(nothing);
    assert_eq!(record_to_v6(&nothing), Err(Untranslatable::EmptyReport));
}

#[test]
fn a_gateway_that_has_no_name_in_version_6_names_another() {
    let named = Edit {
        previous_node: Some("ipn:977000.5.0".parse().unwrap()),
        ..Edit::default()
    };
    let refused = v6_of(&new_header(&new_builder()), &named).unwrap_err();
    let endpoint = eid("ipn:977000.5.0");
    let field = "previous node";
    assert_eq!(refused, Untranslatable::Endpoint { field, endpoint });
    let (header, trailer) = old_bundle(old_primary(), Vec::new(), &[], 100).unwrap();
    assert!(v7_of(&header, &trailer, &named).is_ok());
}
