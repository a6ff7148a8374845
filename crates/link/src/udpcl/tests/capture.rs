//! Recorded datagrams of other programs.

use super::*;

const ION: &[u8] = include_bytes!("../../../tests/data/captures/ion-bpv7-udpcl.pcap");
const DTNME: &[u8] = include_bytes!("../../../tests/data/captures/dtnme-bpv6-udpcl.pcap");
const BUNDLES: &str = include_str!("../../../tests/data/captures/udp-bundles.tsv");

/// The UDP payloads in a capture of Ethernet frames with IPv4, in order.
fn datagrams(capture: &[u8]) -> Vec<Vec<u8>> {
    let (head, mut records) = capture.split_at(24);
    assert_eq!(head[..4], [0xd4, 0xc3, 0xb2, 0xa1], "little-endian pcap");
    let mut datagrams = Vec::new();
    while !records.is_empty() {
        let (record, rest) = records.split_at(16);
        let length = u32::from_le_bytes(record[8..12].try_into().unwrap());
        let (frame, rest) = rest.split_at(usize::try_from(length).unwrap());
        // Ethernet has 14 octets, IPv4 as many words as its first octet says, UDP 8 octets.
        let udp = &frame[14 + usize::from(frame[14] & 0x0f) * 4..];
        let end = usize::from(u16::from_be_bytes(udp[4..6].try_into().unwrap()));
        datagrams.push(udp[8..end].to_vec());
        records = rest;
    }
    datagrams
}

/// The bundles of a recording, as another program read them.
fn bundles(name: &str) -> Vec<Vec<u8>> {
    let lines = BUNDLES.lines().filter(|line| line.starts_with(name));
    let octets = |line: &str| {
        let hex = line.rsplit('\t').next().unwrap().as_bytes();
        hex.chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    lines.map(octets).collect()
}

/// RFC 7122 3.2: every datagram holds one bundle.
#[test]
fn bundles_of_ion_and_dtnme_come_whole_and_leave_as_they_sent_them() {
    for (name, capture, count) in [("ion", ION, 5), ("dtnme", DTNME, 8)] {
        let datagrams = datagrams(capture);
        let mut receiver = Conversation::new(fast(), 0, at(0));
        receive(&mut receiver, at(0), &datagrams);
        let mut ledger = Ledger::default();
        for event in events(&mut receiver) {
            assert!(!matches!(event, DatagramEvent::Fault { .. }), "{event:?}");
            ledger.note(&event);
        }
        assert_eq!(ledger.whole.len(), count);
        let mut expected = bundles(name);
        assert_eq!(expected.len(), count);
        expected.sort();
        let mut whole = ledger.payloads();
        whole.sort();
        assert_eq!(whole, expected);
        // The same bundles from here are the same datagrams.
        let config = Config {
            mtu: 65_507,
            ..fast()
        };
        let mut sender = Conversation::new(config, 0, at(0));
        for (number, octets) in (0..).zip(&ledger.payloads()) {
            transmit(&mut sender, at(0), number, octets);
        }
        let sent = drain(&mut sender, at(0));
        assert_eq!(sent, datagrams[..count], "{name}");
    }
}
