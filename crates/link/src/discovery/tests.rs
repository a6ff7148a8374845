#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails where it finds something else than expected"
)]

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use proptest::prelude::*;

use super::*;

fn octets(hex: &str) -> Vec<u8> {
    let hex: Vec<u8> = hex.bytes().filter(|octet| *octet != b' ').collect();
    let pairs = hex.chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn tcp(host: Host, port: u16) -> Service {
    Service {
        protocol: ServiceProtocol::Tcpcl,
        host,
        port,
    }
}

fn at(address: &str) -> Host {
    Host::Address(address.parse::<IpAddr>().unwrap())
}

fn beacon(node: &str, period_s: Option<u64>, sequence: u32, services: Vec<Service>) -> Beacon {
    Beacon {
        node: node.parse().unwrap(),
        period: period_s.map(Duration::from_secs),
        sequence,
        services,
    }
}

fn read(hex: &str) -> Heard {
    Beacon::decode(&octets(hex), Hearing::Ipnd).unwrap()
}

/// A datagram is read as this beacon, and written so.
#[track_caller]
fn both_ways(hex: &str, format: Format, expected: &Beacon) {
    let hearing = match format {
        Format::Dtn2 => Hearing::IpndAndDtn2,
        _ => Hearing::Ipnd,
    };
    let heard = Beacon::decode(&octets(hex), hearing).unwrap();
    assert_eq!(
        (heard.format, &heard.beacon, heard.is_cut),
        (format, expected, false)
    );
    let mut written = Vec::new();
    expected.encode(format, &mut written);
    assert_eq!(written, octets(hex), "written as {format:?}");
}

/// draft-irtf-dtnrg-ipnd-03 2.6, figures 2 and 6: the port first, as BBN's encoder has it.
#[test]
fn a_beacon_of_version_4_is_read_and_written_to_the_octet() {
    let expected = beacon(
        "dtn://node1/",
        Some(10),
        1,
        vec![tcp(at("192.168.0.1"), 4556)],
    );
    let hex = "040b0001 0b64746e3a2f2f6e6f646531 01 40080311cc04c0a80001 0a";
    both_ways(hex, Format::Ipnd4, &expected);
    let nothing = beacon("dtn://node1/", None, 0xffff, vec![]);
    both_ways("0401ffff0b64746e3a2f2f6e6f646531", Format::Ipnd4, &nothing);
}

/// draft-irtf-dtnrg-ipnd-03 2.6.3, figures 6, 10, 11 and 12: services in the order of the draft, which is another.
#[test]
fn services_are_read_with_their_values_in_any_order() {
    let head = "04030001 0b64746e3a2f2f6e6f646531 07";
    let services = "4215091020010db80000000000000000000000010311cc
        42150311cc091020010db8000000000000000000000001
        410804c0a800010311cc
        440f080a64746e666f6f2e6e65740311cc
        44110311cc080c686f73742e6578616d706c65
        471a091020010db80000000000000000000000010311cc0464746e31
        8011820303123f0905deadbeef04810303b4a1";
    let heard = read(&[head, &services.replace(['\n', ' '], "")].concat());
    assert!(!heard.is_cut);
    let v6 = at("2001:db8::1");
    let named = |name: &str| Host::Name(name.to_string());
    assert_eq!(
        heard.beacon.services,
        [
            tcp(v6.clone(), 4556),
            tcp(v6, 4556),
            Service {
                protocol: ServiceProtocol::Udpcl,
                host: at("192.168.0.1"),
                port: 4556
            },
            tcp(named("dtnfoo.net"), 4556),
            tcp(named("host.example"), 4556),
        ],
        "and those that are not known are skipped"
    );
}

/// Captured from IBR-DTN 1.0.1 (ibrdtn-ipnd1-epidemic.pcap, frames 1 and 24).
#[test]
fn beacons_of_ibr_dtn_are_read_and_written_to_the_octet() {
    let first = beacon("dtn://disc-b/", Some(2), 0, vec![tcp(Host::Sender, 4556)]);
    let hex = "020b0000 0c64746e3a2f2f646973632d62 01 0574637063 6c0a706f72743d343535363b 02";
    both_ways(hex, Format::Ipnd2, &first);
    let third = beacon("dtn://disc-a/", Some(2), 3, vec![tcp(Host::Sender, 4556)]);
    let hex = "020b0003 0c64746e3a2f2f646973632d61 01 057463706 36c0a706f72743d343535363b 02";
    both_ways(hex, Format::Ipnd2, &third);
    let elsewhere = tcp(at("10.0.0.1"), 4556);
    let hex = "020300010b64746e3a2f2f6e6f6465310105746370636c1669703d31302e302e302e313b706f72743d343535363b";
    both_ways(
        hex,
        Format::Ipnd2,
        &beacon("dtn://node1/", None, 1, vec![elsewhere]),
    );
}

/// Captured from IBR-DTN 1.0.1 (ibrdtn-dtn2-beacon.pcap, frame 1).
#[test]
fn announcements_of_dtn2_are_read_where_they_are_expected() {
    let expected = beacon("dtn://disc-b/", Some(1), 0, vec![tcp(Host::Sender, 4556)]);
    let hex = "010a0018 00000000 11cc 000c 64746e3a2f2f646973632d62";
    both_ways(hex, Format::Dtn2, &expected);
    // Elsewhere it is a malformed beacon of version 1.
    assert!(Beacon::decode(&octets(hex), Hearing::Ipnd).is_err());
}

/// Captured from dtn7-rs 0.21 (dtn7rs-discovery-tcpclv4.pcap, frames 1, 2 and 26).
#[test]
fn beacons_of_dtn7_rs_are_read_and_written_to_the_octet() {
    let services = vec![
        tcp(Host::Sender, 4556),
        Service {
            protocol: ServiceProtocol::Mtcp,
            host: Host::Sender,
            port: 16_162,
        },
    ];
    let hex = "8607078201652f2f6e322f00828282637463701911cc82646d746370193f22a002";
    both_ways(
        hex,
        Format::Cbor,
        &beacon("dtn://n2/", Some(2), 0, services),
    );
    for (sequence, hex) in [
        (0, "850703820282170000828182637463701911cca0"),
        (3, "850703820282170003828182637463701911cca0"),
    ] {
        let expected = beacon("ipn:23.0", None, sequence, vec![tcp(Host::Sender, 4556)]);
        both_ways(hex, Format::Cbor, &expected);
    }
    // The note has the sequence number before the node ID, and services may be there without ports, and beside the layers.
    let heard = read("860707 05 8202821700 82 82 826468747470f6 82637564701911cc a1182a4131 0a");
    let udp = Service {
        protocol: ServiceProtocol::Udpcl,
        host: Host::Sender,
        port: 4556,
    };
    assert!(!heard.is_cut);
    assert_eq!(heard.beacon, beacon("ipn:23.0", Some(10), 5, vec![udp]));
}

/// draft-irtf-dtnrg-ipnd-00: the length counts all that follows it.
#[test]
fn beacons_of_version_1_are_read_and_written() {
    let expected = beacon("dtn://node1/", None, 0, vec![tcp(Host::Sender, 4556)]);
    let hex = "0100 1d 0b64746e3a2f2f6e6f646531 05746370636c 0a706f72743d343535363b";
    both_ways(hex, Format::Ipnd1, &expected);
    assert_eq!(
        Beacon::decode(&[0x01, 0x01], Hearing::Ipnd),
        Err(BeaconRefusal::NoNode),
        "a short beacon"
    );
}

#[test]
fn a_malformed_service_ends_a_beacon_that_counts_all_the_same() {
    // The second service has its port twice.
    let hex = "040b0001 0b64746e3a2f2f6e6f646531 02 40080311cc04c0a80001 40060311cc0311cc 0a";
    let heard = read(hex);
    assert!(heard.is_cut);
    assert_eq!(heard.beacon.services, [tcp(at("192.168.0.1"), 4556)]);
    assert_eq!(heard.beacon.period, None);
}

/// ION writes a period of 0 where no flag says so.
#[test]
fn octets_behind_the_last_field_are_ignored() {
    let heard = read("0401000 10b64746e3a2f2f6e6f646531 00ffff");
    assert_eq!((heard.beacon.period, heard.is_cut), (None, false));
}

#[test]
fn a_datagram_that_is_no_beacon_is_refused_with_its_rule() {
    let long = "04010000 8200".to_string() + &"61".repeat(256);
    let cases: [(&str, BeaconRefusal); 9] = [
        ("", BeaconRefusal::Truncated),
        ("03000000", BeaconRefusal::Version(3)),
        ("0411000000", BeaconRefusal::ReservedFlags(0x11)),
        ("04000000", BeaconRefusal::NoNode),
        ("04010000 0b64746e", BeaconRefusal::Truncated),
        ("04010000 0368693f", BeaconRefusal::NodeId),
        ("04010000 8080808080808080808000", BeaconRefusal::Number),
        (&long, BeaconRefusal::NodeIdTooLong),
        (&"04".repeat(1_473), BeaconRefusal::TooLong),
    ];
    for (hex, expected) in cases {
        let heard = Beacon::decode(&octets(hex), Hearing::Ipnd);
        assert_eq!(heard, Err(expected), "{hex}");
    }
}

#[test]
fn services_beyond_the_bound_are_skipped_and_the_period_behind_them_is_read() {
    let of_count = |count: usize| {
        let services = (0..count).map(|at| tcp(Host::Sender, u16::try_from(at + 1).unwrap()));
        let beacon = beacon("ipn:1.0", Some(7), 0, services.collect());
        let mut written = Vec::new();
        beacon.encode(Format::Ipnd4, &mut written);
        Beacon::decode(&written, Hearing::Ipnd).unwrap().beacon
    };
    for (sent, read) in [(0, 0), (31, 31), (32, 32), (33, 32), (100, 32)] {
        let heard = of_count(sent);
        assert_eq!(heard.services.len(), read);
        assert_eq!(heard.period, Some(Duration::from_secs(7)));
    }
    // More are said than there are.
    let heard = read("04030001 0b64746e3a2f2f6e6f646531 8fffffff7f");
    assert!(heard.is_cut);
}

#[test]
fn names_of_formats_are_found() {
    for (format, name) in Format::ALL.into_iter().zip(Format::NAMES) {
        assert_eq!((format.name(), Format::named(name)), (*name, Some(format)));
    }
    assert_eq!(Format::named("ipnd"), None);
}

fn any_host() -> impl Strategy<Value = Host> {
    prop_oneof![
        Just(Host::Sender),
        any::<IpAddr>()
            .prop_filter("it is somebody's", |it| !it.is_unspecified())
            .prop_map(Host::Address),
        "[a-z][a-z0-9.-]{0,40}".prop_map(Host::Name),
    ]
}

fn any_service() -> impl Strategy<Value = Service> {
    let protocol = prop::sample::select(vec![
        ServiceProtocol::Tcpcl,
        ServiceProtocol::Udpcl,
        ServiceProtocol::Mtcp,
    ]);
    (protocol, any_host(), 1_u16..).prop_map(|(protocol, host, port)| Service {
        protocol,
        host,
        port,
    })
}

fn any_node() -> impl Strategy<Value = String> {
    prop_oneof![
        (1_u32..).prop_map(|node| alloc::format!("ipn:{node}.0")),
        "[a-z][a-z0-9.-]{0,40}".prop_map(|name| alloc::format!("dtn://{name}/")),
    ]
}

proptest! {
    #[test]
    fn any_octets_are_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..1_600)) {
        let _ = oracle::check_beacon(&octets);
    }

    #[test]
    fn any_octets_behind_a_true_head_are_read_or_refused(
        head in prop::sample::select(vec!["040f00010769706e3a352e30", "020f00010769706e3a352e30", "0100", "8607078202820500", "010a0018"]),
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = oracle::check_beacon(&[octets(head), rest].concat());
    }

    #[test]
    fn a_beacon_comes_back_with_all_that_its_format_has_a_form_for(
        node in any_node(),
        period in prop::option::of(0_u64..100_000),
        sequence in any::<u16>(),
        services in prop::collection::vec(any_service(), 0..8),
        format in prop::sample::select(Format::ALL.to_vec()),
    ) {
        let sent = beacon(&node, period, u32::from(sequence), services);
        let mut written = Vec::new();
        sent.encode(format, &mut written);
        let hearing = match format {
            Format::Dtn2 => Hearing::IpndAndDtn2,
            _ => Hearing::Ipnd,
        };
        let heard = Beacon::decode(&written, hearing).unwrap();
        prop_assert_eq!(heard.format, format);
        prop_assert!(!heard.is_cut);
        let mut expected = sent;
        expected.services.retain(|it| {
            oracle::has_form(format, it.protocol, &it.host)
                && !(format == Format::Dtn2 && matches!(it.host, Host::Address(IpAddr::V6(_))))
        });
        if format == Format::Dtn2 {
            expected.services.truncate(1);
            let tenths = period.unwrap_or(0).saturating_mul(10).min(255);
            expected.period = Some(Duration::from_millis(tenths * 100));
        }
        if matches!(format, Format::Dtn2 | Format::Ipnd1) {
            expected.sequence = 0;
        }
        if format == Format::Ipnd1 {
            expected.period = None;
        }
        prop_assert_eq!(heard.beacon, expected);
    }
}
