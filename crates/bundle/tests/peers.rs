//! Bundles that deployed programs sent, read back.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails where it finds something else than expected"
)]

mod hex;

use bytes::Bytes;
use dhow_bundle::cbor::CborError;
use dhow_bundle::eid::{EidError, EidRefusal};
use dhow_bundle::v7::admin::{
    AdministrativeRecord, Assertion, ReasonCode, RecordRefusal, StatusReport,
};
use dhow_bundle::v7::oracle::check_bundle;
use dhow_bundle::{Bundle, BundleFlags, CrcType, DtnTime, HopCount, Reading, Refusal};

use hex::hex;

const BUNDLES: &str = include_str!("data/bundles.tsv");

fn bundles() -> Vec<(&'static str, Bytes)> {
    let rows = BUNDLES.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| row.split_once('\t').unwrap())
        .map(|(name, octets)| (name, Bytes::from(hex(octets))))
        .collect()
}

fn bundle(name: &str) -> Bundle {
    let (_, octets) = bundles()
        .into_iter()
        .find(|(other, _)| *other == name)
        .unwrap();
    Bundle::decode(&octets, Reading::Lenient).unwrap()
}

/// dtn7-rs omits the CRC of primary blocks (RFC 9171 4.3.1), DTNME the slash of its node IDs (4.2.5.1.1).
#[test]
fn strict_reading_refuses_exactly_the_known_oddities() {
    let mut counts = [0; 3];
    for (name, octets) in bundles() {
        let refusal = check_bundle(&octets).err();
        let expected = match name.split('-').next().unwrap() {
            "dtn7rs" => {
                counts[0] += 1;
                assert_eq!(refusal, Some(Refusal::PrimaryBlockWithoutCrc), "{name}");
                "RFC 9171 4.3.1"
            }
            "dtnme" => {
                counts[1] += 1;
                match name.split_once('#').unwrap().1 {
                    "5" | "6" => {
                        let refusal = refusal.clone().unwrap();
                        let why = EidRefusal::Part(EidError::SlashMissing);
                        assert_eq!(
                            refusal,
                            Refusal::EndpointId {
                                field: "source node ID",
                                refusal: why
                            }
                        );
                        "RFC 9171 4.2.5.1"
                    }
                    _ => "RFC 9171 4.4.1",
                }
            }
            _ => {
                counts[2] += 1;
                assert_eq!(refusal, None, "{name}");
                continue;
            }
        };
        let refusal = refusal.unwrap();
        assert_eq!(refusal.section(), expected, "{name}: {refusal}");
        assert_eq!(refusal.status_reason(), ReasonCode::BlockUnintelligible);
    }
    assert_eq!(counts, [14, 8, 39]);
}

#[test]
fn lenient_reading_accepts_every_bundle_that_a_peer_accepted() {
    for (name, octets) in bundles() {
        let bundle = Bundle::decode(&octets, Reading::Lenient);
        let bundle = bundle.unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        let is_record = bundle
            .header
            .primary
            .flags
            .contains(BundleFlags::ADMINISTRATIVE_RECORD);
        if is_record {
            let record = AdministrativeRecord::decode(&bundle.payload, Reading::Lenient);
            assert!(
                matches!(record, Ok(AdministrativeRecord::StatusReport(_))),
                "{name}: {record:?}"
            );
        } else if !name.contains("discovery") {
            assert!(!bundle.payload.is_empty(), "{name}");
        }
    }
}

#[test]
fn fields_are_what_the_peers_meant() {
    let hardy = bundle("hardy-bpv7-tcpclv4#1").header;
    assert_eq!(hardy.id().to_string(), "ipn:1.100/848496077796/77528");
    assert_eq!(hardy.primary.destination.to_string(), "ipn:2.42");
    assert_eq!(hardy.primary.crc_type, CrcType::Crc32C);
    assert_eq!(hardy.previous_node().unwrap().to_string(), "ipn:1.0");
    assert!(
        hardy
            .primary
            .flags
            .contains(BundleFlags::REPORT_DELIVERY | BundleFlags::REPORT_FORWARDING)
    );

    let hdtn = bundle("hdtn-bpv7-tcpclv4#2").header;
    assert_eq!(
        hdtn.hop_count(),
        Some(HopCount {
            limit: 100,
            count: 1
        })
    );
    assert_eq!(hdtn.payload_octets(), 12_035);

    let ion = bundle("ion-bpv7-tcpclv3-status-reports#6").header;
    assert_eq!(ion.age_ms(), Some(143));
    assert_eq!(ion.primary.crc_type, CrcType::Crc16);

    let ud3tn = bundle("ud3tn-bpv7-mtcp#1");
    assert!(ud3tn.payload.starts_with(b"dhow-test-payload-501"));
}

fn report(name: &str, reading: Reading) -> Result<StatusReport, RecordRefusal> {
    match AdministrativeRecord::decode(&bundle(name).payload, reading)? {
        AdministrativeRecord::StatusReport(report) => Ok(report),
        other => panic!("{name} has {other:?}"),
    }
}

fn at(time: u64) -> Option<Assertion> {
    Some(Assertion {
        time: Some(DtnTime::from_millis(time)),
    })
}

/// RFC 9171 6.1.1: ION asserts two statuses with times in one report.
#[test]
fn reports_of_ion_are_read_strictly() {
    let delivered = report("ion-bpv7-tcpclv3-status-reports#5", Reading::Strict).unwrap();
    assert_eq!(
        (delivered.received, delivered.delivered),
        (at(848_495_930_318), at(848_495_930_318))
    );
    assert_eq!((delivered.forwarded, delivered.deleted), (None, None));
    assert_eq!(delivered.bundle.to_string(), "ipn:2.2/848495930316/0");
    let expired = report("ion-bpv7-tcpclv3-status-reports#8", Reading::Strict).unwrap();
    assert_eq!(
        (expired.deleted, expired.reason),
        (at(848_495_943_166), ReasonCode::LifetimeExpired)
    );
}

/// RFC 9171 6.1.1: dtn7-rs asserts without times.
#[test]
fn reports_of_dtn7_are_read_strictly() {
    let delivered = report("dtn7rs-bpv7-tcpclv4#4", Reading::Strict).unwrap();
    assert_eq!(delivered.delivered, Some(Assertion { time: None }));
    assert_eq!(delivered.received, None);
}

/// RFC 9171 6.1.1: DTNME writes integers for the Booleans.
#[test]
fn reports_of_dtnme_are_read_leniently_only() {
    let received = report("dtnme-bpv7-stcp#5", Reading::Lenient).unwrap();
    assert_eq!(
        (received.received, received.delivered),
        (at(848_496_865_528), None)
    );
    assert_eq!(received.bundle.source.to_string(), "dtn://me1/src");
    let refusal = report("dtnme-bpv7-stcp#5", Reading::Strict).unwrap_err();
    assert!(
        matches!(refusal, RecordRefusal::Cbor(CborError::NotBoolean { .. })),
        "{refusal}"
    );
}
