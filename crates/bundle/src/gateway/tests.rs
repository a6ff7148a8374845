//! Bundles as they were on the wire, and bundles of any kind, in the other version and back.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::oracle::{check_octets, check_v6};
use super::*;
use crate::v6::{self, Block, BlockFlags, BundleFlags, CreationTime};
use crate::v7::admin::ReasonCode;
use crate::v7::block::{HopCount, encode_hop_count};
use crate::v7::encode::{BundleBuilder, OutgoingHeader};
use crate::v7::payload::Bundle;
use crate::{
    BundleId, CreationTimestamp, DtnTime, EndpointId, FragmentPlace, FragmentRange, Reading, v7,
};

/// Captures of live programs: their name and number, and the bundle.
pub(super) const CAPTURED_V6: &str = include_str!("../../tests/data/bundles_v6.tsv");
pub(super) const CAPTURED_V7: &str = include_str!("../../tests/data/bundles.tsv");

fn octets(digits: &str) -> Bytes {
    let octet = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(octet).collect()
}

pub(super) fn captured(file: &'static str) -> impl Iterator<Item = (&'static str, Bytes)> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (name, digits) = line.split_once('\t').unwrap();
        (name, octets(digits))
    })
}

/// A whole bundle of version 6: header, payload, trailer.
fn read_v6(octets: &Bytes) -> (v6::Header, Bytes, v6::Trailer) {
    let (header, trailer) = v6::oracle::check_bundle(octets).unwrap().unwrap();
    let start = header.octets.len();
    let end = start + usize::try_from(header.payload_octets).unwrap();
    (header, octets.slice(start..end), trailer)
}

fn bundle_of(outgoing: &OutgoingHeader, payload: &[u8]) -> Bytes {
    let mut crc = outgoing.payload_crc();
    crc.update(payload);
    [&outgoing.octets[..], payload, &crc.trailer()]
        .concat()
        .into()
}

#[test]
fn captured_bundles_of_version_6_are_read_strictly_in_version_7() {
    let (mut crossed, mut records, mut custody) = (0, 0, 0);
    for (name, octets) in captured(CAPTURED_V6) {
        let (header, mut payload, trailer) = read_v6(&octets);
        let mut edit = Edit::default();
        let flags = header.primary.flags;
        if flags.contains(BundleFlags::ADMINISTRATIVE_RECORD) {
            let record = v6::admin::AdministrativeRecord::decode(&payload).unwrap();
            match record_to_v7(&record) {
                Ok(record) => payload = record.encode(),
                Err(
                    Untranslatable::CustodySignal
                    | Untranslatable::AggregateSignal
                    | Untranslatable::CustodyAccepted,
                ) => {
                    custody += 1;
                    continue;
                }
                Err(refusal) => panic!("{name}: {refusal}"),
            }
            records += 1;
            edit.record_octets = Some(u64::try_from(payload.len()).unwrap());
        }
        let outgoing = v7_of(&header, &trailer, &edit).expect(name);
        let bundle = bundle_of(&outgoing, &payload);
        assert_eq!(
            outgoing.total_octets(),
            u64::try_from(bundle.len()).unwrap()
        );
        let read = Bundle::decode(&bundle, Reading::Strict).expect(name);
        assert_eq!(read.payload, payload, "{name}");
        assert_eq!(read.header.primary.destination, header.primary.destination);
        assert_eq!(
            check_octets(&octets, &Edit::default()),
            Some(Ok(())),
            "{name}"
        );
        crossed += 1;
    }
    assert!(
        crossed > 25 && records > 0 && custody > 5,
        "{crossed} crossed, {records} of them reports; {custody} of custody"
    );
}

#[test]
fn captured_bundles_of_version_7_are_read_in_version_6() {
    let mut crossed = 0;
    for (name, octets) in captured(CAPTURED_V7) {
        let bundle = Bundle::decode(&octets, Reading::Lenient).expect(name);
        let mut edit = Edit::default();
        let mut payload = bundle.payload;
        let flags = bundle.header.primary.flags;
        if flags.contains(v7::block::BundleFlags::ADMINISTRATIVE_RECORD) {
            let record = v7::admin::AdministrativeRecord::decode(&payload, Reading::Lenient);
            payload = record_to_v6(&record.expect(name))
                .expect(name)
                .encode()
                .into();
            edit.record_octets = Some(u64::try_from(payload.len()).unwrap());
        }
        let outgoing = v6_of(&bundle.header, &edit).expect(name);
        let whole: Bytes = [&outgoing.octets[..], &payload, &outgoing.trailer]
            .concat()
            .into();
        assert_eq!(outgoing.total_octets(), u64::try_from(whole.len()).unwrap());
        let (header, read, _) = read_v6(&whole);
        assert_eq!(read, payload, "{name}");
        assert_eq!(
            header.primary.source, bundle.header.primary.source,
            "{name}"
        );
        assert_eq!(
            check_octets(&octets, &Edit::default()),
            Some(Ok(())),
            "{name}"
        );
        crossed += 1;
    }
    assert!(crossed > 60, "{crossed}");
}

fn eid(text: &str) -> EndpointId {
    text.parse().unwrap()
}

/// The examples of `docs/gateway.md`, octet by octet.
#[test]
fn the_examples_of_the_document_are_written_as_it_says() {
    let document = include_str!("../../../../docs/gateway.md");
    let mut lines = (document.lines())
        .skip_while(|line| !line.starts_with("## Examples"))
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.bytes().all(|it| it.is_ascii_hexdigit()));
    let mut next = || octets(lines.next().unwrap());
    let edit = Edit {
        previous_node: Some("ipn:3.0".parse().unwrap()),
        ..Edit::default()
    };
    let (old, new) = (next(), next());
    let (header, payload, trailer) = read_v6(&old);
    let outgoing = v7_of(&header, &trailer, &edit).unwrap();
    assert_eq!(hex(&bundle_of(&outgoing, &payload)), hex(&new));
    let (new, old) = (next(), next());
    let bundle = Bundle::decode(&new, Reading::Strict).unwrap();
    let outgoing = v6_of(&bundle.header, &edit).unwrap();
    let whole = [&outgoing.octets[..], &bundle.payload, &outgoing.trailer].concat();
    assert_eq!(hex(&whole), hex(&old));
}

fn hex(octets: &[u8]) -> alloc::string::String {
    octets
        .iter()
        .map(|octet| alloc::format!("{octet:02x}"))
        .collect()
}

fn old_primary() -> v6::PrimaryBlock {
    v6::PrimaryBlock {
        flags: BundleFlags::SINGLETON_DESTINATION.with_priority(v6::Priority::Expedited),
        destination: eid("ipn:2.1"),
        source: eid("ipn:1.1"),
        report_to: eid("dtn:none"),
        custodian: eid("dtn:none"),
        creation: CreationTime {
            seconds: 848_000_000,
            sequence: 7_042,
        },
        lifetime_s: 3_600,
        fragment: None,
    }
}

/// A bundle of version 6 with these blocks before and behind its payload.
pub(super) fn old_bundle(
    primary: v6::PrimaryBlock,
    before: Vec<Block>,
    behind: &[Block],
    payload_octets: u64,
) -> Option<(v6::Header, v6::Trailer)> {
    let last = match behind.is_empty() {
        true => BlockFlags::LAST,
        false => BlockFlags::NONE,
    };
    let header = v6::Header {
        blocks: before,
        payload_flags: last,
        ..v6::Header::new(primary, payload_octets).ok()?
    };
    let header = v6::Header::decode(&header.encode().into()).ok()??;
    let mut out = Vec::new();
    for (at, block) in behind.iter().enumerate() {
        let last = match at + 1 == behind.len() {
            true => BlockFlags::LAST,
            false => BlockFlags::NONE,
        };
        let block = Block {
            flags: block.flags | last,
            ..block.clone()
        };
        block.encode(&mut out);
    }
    let trailer = v6::Trailer::decode(&header, &out.into()).ok()??;
    Some((header, trailer))
}

fn new_builder() -> BundleBuilder {
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(848_000_000_042),
        sequence: 7,
    };
    BundleBuilder::new(eid("ipn:1.1"), eid("ipn:2.1"), creation, 3_600_500)
}

fn new_header(builder: &BundleBuilder) -> v7::header::Header {
    let octets = builder.header(100).unwrap().octets;
    v7::header::Header::decode(&octets, Reading::Strict)
        .unwrap()
        .unwrap()
}

fn refused_new(builder: &BundleBuilder) -> Untranslatable {
    v6_of(&new_header(builder), &Edit::default()).unwrap_err()
}

fn refused_old(primary: v6::PrimaryBlock, blocks: Vec<Block>) -> Untranslatable {
    let (header, trailer) = old_bundle(primary, blocks, &[], 100).unwrap();
    v7_of(&header, &trailer, &Edit::default()).unwrap_err()
}

fn old_block(block_type: u8, flags: u64) -> Block {
    Block::new(
        v6::BlockType(block_type),
        BlockFlags::from_bits(flags),
        vec![7; 3],
    )
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
        let new = v7::header::Header::decode(&new.octets, Reading::Strict)
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

#[test]
fn remembered_blocks_come_back_in_the_fragments_that_have_their_place() {
    let before = vec![old_block(200, 0), old_block(201, 1)];
    let (header, trailer) = old_bundle(old_primary(), before, &[old_block(202, 0)], 100).unwrap();
    let new = v7_of(&header, &trailer, &Edit::default()).unwrap();
    let new = v7::header::Header::decode(&new.octets, Reading::Strict)
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
        let fragment = v7::header::Header::decode(&fragment.octets, Reading::Strict);
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
        let new = v7::header::Header::decode(&new.octets, Reading::Strict);
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
    let new = v7::header::Header::decode(&new.octets, Reading::Strict)
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
    let good = of_v7::OfV7::new(&new_header(&new_builder()), None)
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
