//! Bundles as they were on the wire, in the other version.

use bytes::Bytes;

use super::super::oracle::check_octets;
use super::super::*;
use super::*;
use crate::builder::OutgoingHeader;
use crate::payload::Bundle;
use crate::v6::{self, BundleFlags};
use crate::{Reading, v7};

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

/// The examples of `docs/gateway.md`, octet by octet.
#[test]
fn the_examples_of_the_document_are_written_as_it_says() {
    let document = include_str!("../../../../../docs/gateway.md");
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
