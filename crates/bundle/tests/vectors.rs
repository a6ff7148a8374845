//! Golden vectors: bundles and records computed by other implementations, and those of RFC 9173 appendix A.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it finds something else than expected"
)]

mod hex;

use bytes::Bytes;
use dhow_bundle::v7::admin::{
    AdministrativeRecord, Assertion, ReasonCode, RecordRefusal, StatusReport,
};
use dhow_bundle::v7::oracle::check_bundle;
use dhow_bundle::{
    BlockFlags, BlockType, Bundle, BundleBuilder, BundleId, CrcType, CreationTimestamp, DtnTime,
    EndpointId, FragmentRange, HopCount, Reading, Refusal,
};
use hex::hex;

const NO_CRC: &str =
    "9f88070000820282020182028201018202820100821903e8071a0036ee8085010100004568656c6c6fff";
const CRC_16: &str = "9f89070001820282020182028201018202820100821903e8071a0036ee8042661f86010100014568656c6c6f424bf3ff";
const CRC_32C: &str = "9f89070002820282020182028201018202820100821903e8071a0036ee8044493a525486010100024568656c6c6f\
                       4421c13f2fff";
const EXTENDED: &str = "9f89070002820282020182028201018202820100821903e8071a0036ee8044493a525485070200004319012c850a\
                        0300004482181e01850604000045820282030086010100024568656c6c6f4421c13f2fff";

fn eid(text: &str) -> EndpointId {
    text.parse().unwrap()
}

fn creation(time: u64, sequence: u64) -> CreationTimestamp {
    CreationTimestamp {
        time: DtnTime::from_millis(time),
        sequence,
    }
}

fn builder() -> BundleBuilder {
    BundleBuilder::new(eid("ipn:1.1"), eid("ipn:2.1"), creation(1000, 7), 3_600_000)
        .with_report_to(eid("ipn:1.0"))
}

#[test]
fn bundles_of_every_crc_type_are_read() {
    for (octets, crc_type) in [
        (NO_CRC, CrcType::None),
        (CRC_16, CrcType::Crc16),
        (CRC_32C, CrcType::Crc32C),
    ] {
        let octets = Bytes::from(hex(octets));
        let bundle = Bundle::decode(&octets, Reading::Lenient).unwrap();
        assert_eq!(bundle.payload, "hello");
        assert_eq!(bundle.header.primary.crc_type, crc_type);
        assert_eq!(bundle.header.primary.destination, eid("ipn:2.1"));
        assert_eq!(bundle.header.primary.report_to, eid("ipn:1.0"));
        assert_eq!(bundle.header.primary.lifetime_ms, 3_600_000);
        assert_eq!(bundle.header.id().to_string(), "ipn:1.1/1000/7");
        let strict = check_bundle(&octets);
        // RFC 9171 4.3.1: a CRC unless a Block Integrity Block targets the primary block.
        let expected = if crc_type == CrcType::None {
            Err(Refusal::PrimaryBlockWithoutCrc)
        } else {
            Ok(bundle)
        };
        assert_eq!(strict, expected);
    }
}

#[test]
fn extension_blocks_are_read() {
    let bundle = check_bundle(&hex(EXTENDED)).unwrap();
    assert_eq!(bundle.header.age_ms(), Some(300));
    assert_eq!(
        bundle.header.hop_count(),
        Some(HopCount {
            limit: 30,
            count: 1
        })
    );
    assert_eq!(bundle.header.previous_node(), Some(&eid("ipn:3.0")));
}

#[test]
fn new_bundles_have_the_octets_that_others_compute() {
    for (octets, crc_type) in [(CRC_16, CrcType::Crc16), (CRC_32C, CrcType::Crc32C)] {
        let made = builder()
            .with_crc_type(crc_type)
            .with_payload_crc_type(crc_type)
            .bundle(b"hello")
            .unwrap();
        assert_eq!(made, hex(octets));
    }
    let refused = builder().with_crc_type(CrcType::None).bundle(b"hello");
    assert_eq!(refused, Err(Refusal::PrimaryBlockWithoutCrc));
}

/// RFC 9173 appendix A: bundles with security blocks, which a node without security forwards untouched.
#[test]
fn bundles_of_rfc_9173_are_read() {
    let rows = include_str!("data/rfc9173.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let bundles: Vec<Bytes> = rows.map(|row| Bytes::from(hex(row))).collect();
    assert_eq!(bundles.len(), 4);
    for (octets, blocks) in bundles
        .iter()
        .zip([&[11][..], &[12], &[11, 12, 7], &[11, 12]])
    {
        // Three of the four have neither the CRC nor the bundle age block that RFC 9171 requires.
        let is_strict = Bundle::decode(octets, Reading::Strict).is_ok();
        assert_eq!(is_strict, blocks.contains(&7));
        let bundle = Bundle::decode(octets, Reading::Lenient).unwrap();
        let types: Vec<u64> = bundle
            .header
            .extensions
            .iter()
            .map(|block| block.block_type.0)
            .collect();
        assert_eq!(types, blocks);
        assert_eq!(bundle.payload.len(), 35);
        assert_eq!(bundle.header.id().to_string(), "ipn:2.1/0/40");
        let unsupported = bundle.header.unsupported_blocks().count();
        let security = blocks.iter().filter(|block| **block != 7).count();
        assert_eq!(unsupported, security);
    }
}

/// RFC 9172 3.8: a Block Integrity Block that is encrypted may target the primary block; nobody can tell.
#[test]
fn encrypted_integrity_blocks_get_the_benefit_of_the_doubt() {
    let timed = |row: usize| {
        let row = include_str!("data/rfc9173.txt").lines().nth(row).unwrap();
        row.replacen("820018281a000f4240", "820118281a000f4240", 1)
    };
    assert!(check_bundle(&hex(&timed(4))).is_ok());
    // The integrity block of A.1 is in clear, and targets the payload only.
    assert_eq!(
        check_bundle(&hex(&timed(1))),
        Err(Refusal::PrimaryBlockWithoutCrc)
    );
}

fn report(fragment: Option<FragmentRange>) -> StatusReport {
    StatusReport {
        received: Some(Assertion {
            time: Some(DtnTime::from_millis(1234)),
        }),
        forwarded: None,
        delivered: None,
        deleted: None,
        reason: ReasonCode::NoAdditionalInformation,
        bundle: BundleId {
            source: eid("ipn:1.1"),
            creation: creation(1000, 7),
            fragment,
        },
    }
}

/// RFC 9171 6.1.1.
#[test]
fn status_reports_have_the_octets_of_the_standard() {
    for (octets, report) in [
        (
            "8201848482f51904d281f481f481f4008202820101821903e807",
            report(None),
        ),
        (
            "8201868482f51904d281f481f481f4008202820101821903e807186419012c",
            report(Some(FragmentRange {
                offset: 100,
                length: 300,
            })),
        ),
    ] {
        let record = AdministrativeRecord::StatusReport(report);
        assert_eq!(record.encode(), hex(octets));
        assert_eq!(
            AdministrativeRecord::decode(&record.encode(), Reading::Strict),
            Ok(record)
        );
    }
}

#[test]
fn wrong_records_are_refused_and_unknown_ones_kept() {
    let decode =
        |octets: &str, reading| AdministrativeRecord::decode(&Bytes::from(hex(octets)), reading);
    let other = AdministrativeRecord::Other {
        record_type: 7,
        content: Bytes::from(hex("830000449f8000ff")),
    };
    assert_eq!(
        decode("8207830000449f8000ff", Reading::Strict),
        Ok(other.clone())
    );
    assert_eq!(other.encode(), hex("8207830000449f8000ff"));
    assert_eq!(
        decode("820000", Reading::Strict),
        Err(RecordRefusal::ReservedType)
    );
    assert_eq!(
        decode("8207830000449f8000ff00", Reading::Strict),
        Err(RecordRefusal::OctetsAfterEnd)
    );
    let timed = "8201848482f41904d281f481f481f4 00 8202820101821903e807";
    assert_eq!(
        decode(timed, Reading::Strict),
        Err(RecordRefusal::TimeWithoutAssertion)
    );
    let two = "820184848102810081008100 00 8202820101821903e807";
    assert_eq!(
        decode(two, Reading::Lenient),
        Err(RecordRefusal::Indicator(2))
    );
    // RFC 9171 6.1.1: "at least four" statuses; a fifth has no meaning yet.
    let five = "8201848581f581f481f481f481f4 00 8202820101821903e807";
    assert!(decode(five, Reading::Strict).is_ok());
    for octets in [
        "",
        "82",
        "8201",
        "820184848",
        "00",
        "8101",
        "830100",
        "82018384f4f4f4f4008202820101821903e807",
    ] {
        assert!(decode(octets, Reading::Lenient).is_err(), "{octets}");
    }
}

#[test]
fn reason_codes_have_their_names() {
    for (code, name) in [
        (0, "no additional information"),
        (1, "lifetime expired"),
        (4, "depleted storage"),
        (8, "block unintelligible"),
        (11, "block unsupported"),
        (16, "conflicting security operation"),
        (17, "reason 17"),
        (255, "reason 255"),
    ] {
        assert_eq!(ReasonCode::from_code(code).to_string(), name);
        assert_eq!(ReasonCode::from_code(code).code(), code);
    }
}

#[test]
fn new_bundles_without_a_clock_carry_their_age_and_anonymous_ones_no_identity() {
    let made = BundleBuilder::new(eid("dtn:none"), eid("ipn:2.1"), creation(0, 1), 1000)
        .with_hop_limit(30)
        .with_block(
            BlockType(200),
            BlockFlags::DISCARD_IF_UNPROCESSABLE,
            Bytes::from_static(b"x"),
        )
        .bundle(b"")
        .unwrap();
    let header = check_bundle(&made).unwrap().header;
    assert_eq!(header.age_ms(), Some(0));
    assert_eq!(
        header.hop_count(),
        Some(HopCount {
            limit: 30,
            count: 0
        })
    );
    assert_eq!(header.primary.flags.bits(), 0x04);
    let numbers: Vec<u64> = header.extensions.iter().map(|block| block.number).collect();
    assert_eq!(numbers, [2, 3, 4]);
    assert_eq!(
        builder().with_hop_limit(0).bundle(b"x"),
        Err(Refusal::HopLimit(0))
    );
}
