//! Segments of other programs, and segments that are none.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::fault::Fault;
use super::super::segment::*;
use super::super::wire::*;

const CAPTURES: [(&str, &[u8], usize); 5] = [
    (
        "ion-bpv7-ltp-red",
        include_bytes!("../../../tests/data/captures/ltp/ion-bpv7-ltp-red.pcap"),
        23,
    ),
    (
        "ion-bpv6-ltp-red",
        include_bytes!("../../../tests/data/captures/ltp/ion-bpv6-ltp-red.pcap"),
        23,
    ),
    (
        "ion-bpv7-ltp-red-loss",
        include_bytes!("../../../tests/data/captures/ltp/ion-bpv7-ltp-red-loss.pcap"),
        22,
    ),
    (
        "ion-bpv7-ltp-green",
        include_bytes!("../../../tests/data/captures/ltp/ion-bpv7-ltp-green.pcap"),
        10,
    ),
    (
        "hdtn-bpv7-ltp",
        include_bytes!("../../../tests/data/captures/ltp/hdtn-bpv7-ltp.pcap"),
        16,
    ),
];

/// The UDP payloads in a capture of Ethernet frames with IPv4, in order.
pub(super) fn datagrams(name: &str) -> Vec<Bytes> {
    let (_, capture, _) = CAPTURES.iter().find(|(known, ..)| *known == name).unwrap();
    let (head, mut records) = capture.split_at(24);
    assert_eq!(head[..4], [0xd4, 0xc3, 0xb2, 0xa1], "little-endian pcap");
    let mut datagrams = Vec::new();
    while !records.is_empty() {
        let (record, rest) = records.split_at(16);
        let length = u32::from_le_bytes(record[8..12].try_into().unwrap());
        let (frame, rest) = rest.split_at(usize::try_from(length).unwrap());
        let udp = &frame[14 + usize::from(frame[14] & 0x0f) * 4..];
        let end = usize::from(u16::from_be_bytes(udp[4..6].try_into().unwrap()));
        datagrams.push(Bytes::copy_from_slice(&udp[8..end]));
        records = rest;
    }
    datagrams
}

/// The segments of a datagram, as far as they can be read.
pub(super) fn read(datagram: &[u8]) -> Vec<Result<Segment, Fault>> {
    let datagram = Bytes::copy_from_slice(datagram);
    let mut packet = Packet::new(&datagram);
    core::iter::from_fn(|| packet.next())
        .map(|read| read.map(|received| received.segment))
        .collect()
}

/// The octets of a segment without extensions.
pub(super) fn written(segment: &Segment) -> Vec<u8> {
    let (mut out, none) = (Vec::new(), Envelope::default());
    let none = Around::from(&none);
    match segment {
        Segment::Data(data) => {
            write_data_head(&mut out, &data.head, none);
            out.extend_from_slice(&data.octets);
        }
        Segment::Report(session, report) => write_report(&mut out, *session, report, none),
        Segment::ReportAck(session, serial) => {
            write_report_ack(&mut out, *session, *serial, none);
        }
        Segment::Cancel(session, by, reason) => {
            write_cancel(&mut out, *session, *by, *reason, none);
        }
        Segment::CancelAck(session, by) => write_cancel_ack(&mut out, *session, *by, none),
    }
    out
}

#[test]
fn segments_of_ion_and_hdtn_are_read_and_written_to_the_octet() {
    for (name, _, count) in CAPTURES {
        let mut segments = 0;
        for datagram in datagrams(name).iter().filter(|datagram| datagram.len() > 1) {
            let read = read(datagram);
            let [Ok(segment)] = read.as_slice() else {
                panic!("{name}: {read:?}");
            };
            assert_eq!(written(segment), datagram[..], "{name}");
            segments += 1;
        }
        assert_eq!(segments, count, "{name}");
    }
}

/// RFC 5326 3.2.2: the claims of a report, as ION wrote them, and what they leave out.
#[test]
fn a_report_with_three_claims_names_what_was_lost() {
    let all = datagrams("ion-bpv7-ltp-red-loss");
    let report = all.iter().find_map(|datagram| match read(datagram).pop() {
        Some(Ok(Segment::Report(_, report))) => Some(report),
        _ => None,
    });
    let report = report.unwrap();
    assert_eq!((report.lower, report.upper), (0, 20_079));
    assert_eq!(
        report.claims,
        [(0, 5_562), (6_953, 13_908), (15_299, 20_079)]
    );
}

const SESSION: SessionId = SessionId {
    originator: 2,
    number: 1,
};

/// RFC 5326 3.1.4: up to 15 extensions in header and trailer are skipped, and header extensions may be followed by
/// trailer extensions.
#[test]
fn unknown_extensions_are_skipped() {
    let mut datagram = vec![0x0d, 2, 1, 0xff];
    for number in 0..30_u8 {
        datagram.extend([0xc0 + number, number]);
        datagram.extend(core::iter::repeat_n(7, usize::from(number)));
    }
    let two = [datagram.as_slice(), &[0x09, 2, 1, 0x00, 5]].concat();
    let cancelled = Segment::CancelAck(SESSION, Party::Sender);
    assert_eq!(
        read(&two),
        [Ok(cancelled), Ok(Segment::ReportAck(SESSION, 5))]
    );
}

#[test]
fn segments_that_break_a_rule_are_discarded() {
    let cases: [(&[u8], Fault); 17] = [
        (&[0x00], Fault::Truncated),
        (&[0x10, 2, 1, 0], Fault::Version),
        (&[0x05, 2, 1, 0, 1, 0, 1, 9], Fault::UndefinedType),
        (&[0x06, 2, 1, 0, 1, 0, 1, 9], Fault::UndefinedType),
        (&[0x0a, 2, 1, 0], Fault::UndefinedType),
        (&[0x0b, 2, 1, 0], Fault::UndefinedType),
        (&[0x00, 2, 1, 0, 1, 0, 2, 9], Fault::Truncated),
        (&[0x09, 2, 1, 0, 0], Fault::SerialZero),
        (&[0x01, 2, 1, 0, 1, 0, 1, 0, 0, 9], Fault::SerialZero),
        (&[0x08, 2, 1, 0, 7, 0, 5, 5, 0], Fault::ScopeEmpty),
        // More claims than octets, one beyond the scope, an empty one, two that touch, and two out of order.
        (&[0x08, 2, 1, 0, 7, 0, 5, 0, 9, 0, 1], Fault::Claims),
        (&[0x08, 2, 1, 0, 7, 0, 5, 1, 1, 1, 4], Fault::Claims),
        (&[0x08, 2, 1, 0, 7, 0, 5, 0, 1, 1, 0], Fault::Claims),
        (&[0x08, 2, 1, 0, 7, 0, 5, 0, 2, 0, 1, 1, 1], Fault::Claims),
        (&[0x08, 2, 1, 0, 7, 0, 5, 0, 2, 3, 1, 0, 1], Fault::Claims),
        (&[0x0c, 2, 1, 0, 6], Fault::Reason),
        (&[0x0c, 2, 1, 0x10, 0xc0, 0x81], Fault::Truncated),
    ];
    for (octets, fault) in cases {
        assert_eq!(read(octets), [Err(fault)], "{octets:x?}");
    }
    // RFC 5326 9.3: an offset and a length whose sum has more than 64 bits.
    let mut beyond = vec![0x00, 2, 1, 0, 1];
    dhow_bundle::v6::sdnv::write(&mut beyond, u64::MAX);
    beyond.extend([1, 9]);
    assert_eq!(read(&beyond), [Err(Fault::BeyondNumbers)]);
}

fn segments() -> impl Strategy<Value = Segment> {
    let session = (any::<u64>(), any::<u64>())
        .prop_map(|(originator, number)| SessionId { originator, number });
    let party = prop_oneof![Just(Party::Sender), Just(Party::Receiver)];
    let serial = 1..u64::MAX;
    let kind = prop_oneof![
        Just(DataKind::Red),
        Just(DataKind::RedCheckpoint),
        Just(DataKind::RedEnd),
        Just(DataKind::BlockRedEnd),
        Just(DataKind::Green),
        Just(DataKind::BlockGreenEnd)
    ];
    let octets = proptest::collection::vec(any::<u8>(), 0..300);
    let data = (
        session.clone(),
        kind,
        any::<u64>(),
        0..1_u64 << 60,
        octets,
        serial.clone(),
        any::<u64>(),
    )
        .prop_map(
            |(session, kind, service, offset, octets, checkpoint, report)| {
                let serials = Serials { checkpoint, report };
                Segment::Data(Data {
                    head: DataHead {
                        session,
                        kind,
                        service,
                        offset,
                        length: octets.len().try_into().unwrap(),
                        serials: kind.is_checkpoint().then_some(serials),
                    },
                    octets: octets.into(),
                })
            },
        );
    let claims = proptest::collection::vec((1_u64..1 << 40, 1_u64..1 << 40), 0..40);
    let report = (
        session.clone(),
        serial.clone(),
        any::<u64>(),
        0_u64..1 << 40,
        claims,
    )
        .prop_map(|(session, serial, checkpoint, lower, steps)| {
            let mut at = lower;
            let claims: Vec<_> = steps
                .iter()
                .map(|(gap, length)| {
                    let start = at + gap;
                    at = start + length;
                    (start, at)
                })
                .collect();
            let report = Report {
                serial,
                checkpoint,
                upper: at + 1,
                lower,
                claims,
            };
            Segment::Report(session, report)
        });
    let ack =
        (session.clone(), serial).prop_map(|(session, serial)| Segment::ReportAck(session, serial));
    let reason = (0_u8..6).prop_map(|code| Reason::of(code).unwrap());
    let cancel = (session.clone(), party.clone(), reason)
        .prop_map(|(session, by, reason)| Segment::Cancel(session, by, reason));
    let cancel_ack = (session, party).prop_map(|(session, by)| Segment::CancelAck(session, by));
    prop_oneof![data, report, ack, cancel, cancel_ack]
}

proptest! {
    #[test]
    fn what_is_written_is_read(all in proptest::collection::vec(segments(), 1..6)) {
        let octets: Vec<u8> = all.iter().flat_map(written).collect();
        let expected: Vec<_> = all.into_iter().map(Ok).collect();
        prop_assert_eq!(read(&octets), expected);
    }

    #[test]
    fn any_octets_are_read_without_harm(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        let segments = read(&octets);
        // Nothing longer than what came is read, and nothing behind a fault.
        let faults = segments.iter().filter(|read| read.is_err()).count();
        prop_assert!(faults <= 1 && segments.len() <= octets.len().max(1));
    }

    /// The sizes that segments are planned by are those that they have.
    #[test]
    fn sizes_are_known_before_octets_are_written(segment in segments()) {
        let length = u64::try_from(written(&segment).len()).unwrap();
        match &segment {
            Segment::Data(Data { head, octets }) => {
                let heads = data_head_octets(head.session, head.service, head.offset, head.length, head.serials);
                prop_assert_eq!(heads + u64::try_from(octets.len()).unwrap(), length);
            }
            Segment::Report(session, report) => {
                let count = u64::try_from(report.claims.len()).unwrap();
                let claims: u64 = report.claims.iter().map(|claim| claim_octets(report.lower, *claim)).sum();
                prop_assert_eq!(report_head_octets(*session, report, count) + claims, length);
            }
            _ => {}
        }
    }
}
