//! Aggregated reports (`docs/aggregated-reports.md`): their octets, what they stand for, and what is refused.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails where it finds something else than expected"
)]

mod hex;

use std::collections::BTreeMap;

use bytes::Bytes;
use dhow_bundle::v7::admin::{
    AdministrativeRecord, AggregatedReport, GroupHead, ReasonCode, RecordRefusal, ReportGroup,
    Status, StatusReport, Timing,
};
use dhow_bundle::{
    BlockType, Bundle, BundleBuilder, BundleFlags, CreationTimestamp, DtnTime, EndpointId,
    FragmentRange, Header, Reading,
};
use hex::hex;
use proptest::prelude::*;

fn creation(time: u64, sequence: u64) -> CreationTimestamp {
    CreationTimestamp {
        time: DtnTime::from_millis(time),
        sequence,
    }
}

fn head(source: &str, status: Status, timing: Timing) -> GroupHead {
    GroupHead {
        source: source.parse().unwrap(),
        status,
        reason: ReasonCode::NoAdditionalInformation,
        fragment: None,
        timing,
    }
}

/// The example of `docs/aggregated-reports.md`.
fn example() -> AggregatedReport {
    let mut delivered = ReportGroup::new(head("ipn:1.5", Status::Delivered, Timing::Present));
    for sequence in 0..100 {
        delivered.push(creation(1000, sequence), DtnTime::from_millis(5000));
    }
    delivered.push(creation(1000, 102), DtnTime::from_millis(5000));
    delivered.push(creation(1001, 0), DtnTime::from_millis(5003));
    let mut deleted = ReportGroup::new(GroupHead {
        reason: ReasonCode::LifetimeExpired,
        fragment: Some(FragmentRange {
            offset: 100,
            length: 300,
        }),
        ..head("ipn:1.5", Status::Deleted, Timing::Absent)
    });
    deleted.push(creation(1000, 7), DtnTime::from_millis(5000));
    AggregatedReport::new(vec![delivered, deleted])
}

const EXAMPLE: &str = "82 19fd44 82
    85 8202820105 02 00 81191388 8c 1903e8 00 1864 00 00 02 01 00 01 00 01 03
    87 8202820105 03 01 80 83 1903e8 07 01 1864 19012c";

fn decode(octets: &str) -> Result<AdministrativeRecord, RecordRefusal> {
    AdministrativeRecord::decode(&Bytes::from(hex(octets)), Reading::Strict)
}

#[test]
fn aggregated_reports_have_the_documented_octets() {
    let record = AdministrativeRecord::AggregatedReport(example());
    assert_eq!(record.encode(), hex(EXAMPLE));
    assert_eq!(decode(EXAMPLE), Ok(record));
}

#[test]
fn a_record_stands_for_the_reports_that_it_was_made_from() {
    let reports: Vec<StatusReport> = example().reports().collect();
    assert_eq!(reports.len(), 103);
    let last = reports.last().unwrap();
    assert_eq!(last.bundle.to_string(), "ipn:1.5/1000/7@100+300");
    assert_eq!(
        (last.reason, last.deleted.unwrap().time),
        (ReasonCode::LifetimeExpired, None)
    );
    let timed = reports.get(101).unwrap();
    assert_eq!(
        timed.delivered.unwrap().time,
        Some(DtnTime::from_millis(5003))
    );
    assert_eq!(timed.bundle.creation, creation(1001, 0));
}

#[test]
fn a_bundle_told_of_twice_stands_once_with_the_first_time() {
    let mut group = ReportGroup::new(head("ipn:1.5", Status::Forwarded, Timing::Present));
    for time in [5000, 6000] {
        group.push(creation(1000, 1), DtnTime::from_millis(time));
    }
    let times: Vec<_> = group
        .runs()
        .iter()
        .map(|run| (run.count, run.time))
        .collect();
    assert_eq!(times, [(1, DtnTime::from_millis(5000))]);
}

#[test]
fn records_that_name_no_bundle_or_too_many_are_refused() {
    let group = |runs: &str| format!("8219fd44 81 85 8202820105 02 00 80 {runs}");
    for (octets, refusal) in [
        (group("80"), RecordRefusal::EmptyReport),
        ("8219fd44 80".to_owned(), RecordRefusal::EmptyReport),
        (group("83 00 00 00"), RecordRefusal::RunOutOfRange),
        (group("83 00 00 1a00010001"), RecordRefusal::TooManyReports),
        // The second run's creation time is beyond 2^64-1.
        (
            group("86 01 00 01 1bffffffffffffffff 00 01"),
            RecordRefusal::RunOutOfRange,
        ),
        // As is the second sequence number of this one.
        (
            group("83 00 1bffffffffffffffff 02"),
            RecordRefusal::RunOutOfRange,
        ),
        (
            "8219fd44 81 85 8202820105 04 00 80 83 00 00 01".to_owned(),
            RecordRefusal::Status(4),
        ),
        (
            "8219fd44 81 85 8202820105 02 00 811bffffffffffffffff 84 00 00 01 01".to_owned(),
            RecordRefusal::RunOutOfRange,
        ),
    ] {
        assert_eq!(decode(&octets), Err(refusal), "{octets}");
    }
    // As many as allowed, and as far as sequence numbers go.
    assert!(decode(&group("83 00 00 1a00010000")).is_ok());
    assert!(decode(&group("83 00 1bffffffffffffffff 01")).is_ok());
    // A group whose run lacks its count.
    assert!(decode(&group("82 00 00")).is_err());
}

#[test]
fn a_bundle_announces_who_reads_aggregated_reports() {
    let builder = BundleBuilder::new(
        "ipn:1.5".parse().unwrap(),
        "ipn:2.5".parse().unwrap(),
        creation(1000, 1),
        60_000,
    )
    .with_flags(BundleFlags::REPORT_DELIVERY);
    let header = |builder: &BundleBuilder| {
        let octets = builder.header(0).unwrap().octets;
        Header::decode(&octets, Reading::Strict).unwrap().unwrap()
    };
    assert!(!header(&builder).reads_aggregated_reports());
    let announced = header(&builder.clone().with_aggregated_reports());
    assert!(announced.reads_aggregated_reports());
    assert_eq!(announced.unsupported_blocks().count(), 0);
    let block = announced.extensions.last().unwrap();
    assert_eq!(
        (block.block_type.0, announced.content(block)),
        (212, &[1][..])
    );
    // Somebody else's block of the same private type is no announcement, and one that cannot be processed.
    for content in [&b""[..], &[0], &[0x81, 1], &[1, 1]] {
        let foreign = builder.clone().with_block(
            BlockType::AGGREGATED_REPORTS,
            dhow_bundle::BlockFlags::NONE,
            Bytes::copy_from_slice(content),
        );
        let foreign = header(&foreign);
        assert!(!foreign.reads_aggregated_reports());
        assert_eq!(foreign.unsupported_blocks().count(), 1);
    }
    let octets = builder.with_aggregated_reports().bundle(b"x").unwrap();
    assert!(Bundle::decode(&octets, Reading::Strict).is_ok());
}

prop_compose! {
    fn any_report()(
        source in 1_u32..3,
        status in 0_u64..4,
        reason in 0_u64..3,
        timed: bool,
        fragment in proptest::option::of((0_u64..2, 1_u64..3)),
        time in prop_oneof![0_u64..4, any::<u64>()],
        sequence in prop_oneof![0_u64..8, any::<u64>()],
        at in prop_oneof![0_u64..4, any::<u64>()],
    ) -> ((u32, u64, u64, Option<(u64, u64)>, bool), CreationTimestamp, u64) {
        ((source, status, reason, fragment, timed), creation(time, sequence), at)
    }
}

proptest! {
    #[test]
    fn any_reports_come_out_as_they_went_in(reports in proptest::collection::vec(any_report(), 1..60)) {
        let mut expected = BTreeMap::new();
        for (head, creation, at) in reports {
            expected.entry((head, creation)).or_insert(at);
        }
        let mut groups: Vec<(_, ReportGroup)> = Vec::new();
        for (&(key, creation), &at) in &expected {
            if groups.last().is_none_or(|(last, _)| *last != key) {
                let (source, status, reason, fragment, timed) = key;
                groups.push((key, ReportGroup::new(GroupHead {
                    source: EndpointId::from_ipn_numbers(0, source, 1).unwrap(),
                    status: Status::from_code(status).unwrap(),
                    reason: ReasonCode::from_code(reason),
                    fragment: fragment.map(|(offset, length)| FragmentRange { offset, length }),
                    timing: if timed { Timing::Present } else { Timing::Absent },
                })));
            }
            groups.last_mut().unwrap().1.push(creation, DtnTime::from_millis(at));
        }
        let record = AdministrativeRecord::AggregatedReport(
            AggregatedReport::new(groups.into_iter().map(|(_, group)| group).collect()));
        let again = AdministrativeRecord::decode(&record.encode(), Reading::Strict).unwrap();
        prop_assert_eq!(&again, &record);
        let AdministrativeRecord::AggregatedReport(again) = again else { panic!("not aggregated") };
        let told: Vec<_> = again.reports().map(|report| (report.bundle.creation,
            [report.received, report.forwarded, report.delivered, report.deleted].into_iter().flatten()
                .next().unwrap().time.map(DtnTime::as_millis))).collect();
        let expected: Vec<_> = expected.iter()
            .map(|(&((.., timed), creation), &at)| (creation, timed.then_some(at))).collect();
        prop_assert_eq!(told, expected);
    }
}
