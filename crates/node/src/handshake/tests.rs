//! Messages of IBR-DTN, read as it means them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::gateway::identity;
use dhow_bundle::v6::{self, CreationTime};
use dhow_bundle::{EndpointId, FragmentRange};
use proptest::prelude::*;

use super::refusal::Refusal;
use super::wire::Limitations;
use super::*;

pub(super) fn octets_of_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let octet = |it| u8::from_str_radix(core::str::from_utf8(it).unwrap(), 16).unwrap();
    digits.map(octet).collect()
}

/// The bundles of the capture by their frames: source, creation time, and the payload.
pub(super) fn captured() -> Vec<(u32, v6::PrimaryBlock, Bytes)> {
    let lines = include_str!("../../tests/data/ibrdtn_handshakes.tsv").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (frame, hex) = line.split_once('\t').unwrap();
            let octets = Bytes::from(octets_of_hex(hex));
            let header = v6::Header::decode(&octets).unwrap().unwrap();
            let payload = octets.slice(header.octets.len()..);
            assert_eq!(u64::try_from(payload.len()), Ok(header.payload_octets));
            (frame.parse().unwrap(), header.primary, payload)
        })
        .collect()
}

fn key(source: &str, seconds: u64, sequence: u64) -> Vec<u8> {
    let creation = identity::to_v7(CreationTime { seconds, sequence }).unwrap();
    key_of(&source.parse().unwrap(), creation, None).unwrap()
}

#[test]
fn captured_requests_ask_for_vectors_and_limitations() {
    let expected = Handshake::Request([SUMMARY_VECTOR, PURGE_VECTOR, LIMITATIONS].into());
    for (frame, primary, payload) in captured().into_iter().step_by(2) {
        assert!([14, 32].contains(&frame));
        assert_eq!(primary.destination.demux(), Some("routing"));
        assert_eq!(Handshake::decode(&payload), Ok(expected.clone()));
        assert_eq!(expected.encode(), payload);
    }
}

/// The bundles that went before each response are in its summary vector; those that went afterwards are not.
#[test]
fn captured_responses_tell_what_each_node_has() {
    let a = "dtn://disc-a/routing";
    let b = "dtn://disc-b/routing";
    let first = [key(a, 0, 146_268_671)];
    let later = [
        key(b, 0, 488_658_662),
        key(b, 0, 488_658_663),
        key("dtn://disc-a/app", 848_496_734, 1),
        key("dtn://disc-a/iFpHAsmeqhctwoxq", 848_496_737, 1),
        key("dtn://disc-b/echo", 848_496_737, 1),
    ];
    let limitations: Limitations = [(0, 2_000_000_000), (1, 0), (2, 0), (3, 0)].into();
    let mut responses = captured().into_iter().skip(1).step_by(2);
    for has_later in [false, true] {
        let (_, primary, payload) = responses.next().unwrap();
        assert_eq!(primary.lifetime_s, 60);
        let Ok(Handshake::Response(response)) = Handshake::decode(&payload) else {
            panic!("no response");
        };
        let Response {
            lifetime_s,
            summary,
            purge,
            predictabilities,
            acknowledgments,
            limitations: told,
        } = *response;
        assert_eq!((lifetime_s, told), (60, Some(limitations.clone())));
        assert_eq!((predictabilities, acknowledgments), (None, None));
        let (summary, purge) = (summary.unwrap(), purge.unwrap());
        assert!(first.iter().all(|key| summary.has(key)));
        assert!(later.iter().all(|key| summary.has(key) == has_later));
        assert!(!summary.has(&key(a, 0, 146_268_672)));
        assert_eq!(purge.has(&first[0]), has_later);
        if has_later {
            let all: Vec<Vec<u8>> = first.iter().chain(&later).cloned().collect();
            assert_eq!(
                summary,
                Filter::of(&all),
                "it is the filter that is made here"
            );
        }
    }
}

fn node() -> impl Strategy<Value = dhow_bundle::NodeId> {
    prop_oneof![
        "[a-z]{1,8}".prop_map(|name| alloc::format!("dtn://{name}/").parse().unwrap()),
        (any::<u32>(), 1..u32::MAX).prop_map(|(allocator, node)| {
            let id = EndpointId::from_ipn_numbers(allocator, node, 0).unwrap();
            dhow_bundle::NodeId::new(id).unwrap()
        }),
    ]
}

fn acknowledgment() -> impl Strategy<Value = Acknowledgment> {
    let range = proptest::option::of((any::<u64>(), any::<u64>()));
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    (node(), range, numbers).prop_map(|(node, range, numbers)| Acknowledgment {
        source: node.service("7").unwrap(),
        creation: CreationTime {
            seconds: numbers.0,
            sequence: numbers.1,
        },
        fragment: range.map(|(offset, length)| FragmentRange { offset, length }),
        expires_s: numbers.2,
        lifetime_s: numbers.3,
    })
}

fn filter() -> impl Strategy<Value = Option<Filter>> {
    let keys = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..60);
    proptest::option::of(keys.prop_map(|keys| Filter::of(&keys)))
}

prop_compose! {
    fn response()(
        lifetime_s: u64,
        summary in filter(),
        purge in filter(),
        table in proptest::option::of(proptest::collection::btree_map(node(), 0_u64..=64, 0..6)),
        acknowledgments in proptest::option::of(proptest::collection::vec(acknowledgment(), 0..6)),
        limitations in proptest::option::of(proptest::collection::btree_map(any::<u64>(), any::<u64>(), 0..6)),
    ) -> Handshake {
        // Parts of 64 have at most six digits.
        let predictabilities = table.map(|table| {
            table.into_iter().map(|(node, part)| (node, part << 26)).collect()
        });
        Handshake::Response(Box::new(Response { lifetime_s, summary, purge, predictabilities, acknowledgments, limitations }))
    }
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(
        message in prop_oneof![
            proptest::collection::btree_set(any::<u64>(), 0..32).prop_map(Handshake::Request),
            proptest::collection::btree_set(any::<u64>(), 0..32).prop_map(Handshake::Notification),
            response(),
        ],
        cut: prop::sample::Index,
    ) {
        let octets = message.encode();
        prop_assert_eq!(Handshake::decode(&octets), Ok(message));
        let part = &octets[..cut.index(octets.len())];
        prop_assert!(Handshake::decode(part).is_err());
        let longer = [&octets[..], &[0]].concat();
        prop_assert_eq!(Handshake::decode(&longer), Err(Refusal::OctetsAfterEnd));
    }

    #[test]
    fn any_octets_are_a_message_or_none(octets in proptest::collection::vec(any::<u8>(), 0..300), first in 0_u8..4) {
        let _ = oracle::check_handshake(&octets);
        let _ = oracle::check_handshake(&[&[first][..], &octets].concat());
    }
}

#[test]
fn lists_and_lengths_that_nothing_stands_behind_are_refused() {
    for (octets, refusal) in [
        (&[][..], Refusal::Truncated),
        (&[0, 0], Refusal::Type(0)),
        (&[4, 0], Refusal::Type(4)),
        (&[1, 33], Refusal::TooMany(33)),
        (&[1, 32], Refusal::Truncated),
        (&[2, 60, 33], Refusal::TooMany(33)),
        (&[2, 60, 1, 1, 0], Refusal::Truncated),
        (&[2, 60, 1, 1, 1, 0], Refusal::FilterOctets(0)),
        (&[2, 60, 1, 1, 3, 1, 0, 0], Refusal::OctetsAfterEnd),
        (&[2, 60, 1, 9, 127], Refusal::Truncated),
        (&[2, 60, 1, 3, 2, 0x88, 1], Refusal::TooMany(1_025)),
        (&[2, 60, 1, 4, 2, 0xa0, 1], Refusal::TooMany(4_097)),
        (&[2, 60, 1, 4, 4, 1, 0, 0, 2], Refusal::FragmentMark(2)),
        (&[2, 60, 1, 3, 3, 1, 1, 0xff], Refusal::Text),
        (&[0x83, 1, 0x65], Refusal::Type(385)),
    ] {
        assert_eq!(Handshake::decode(octets), Err(refusal), "{octets:?}");
    }
    let unknown = Handshake::decode(&[2, 60, 1, 9, 2, 7, 7]);
    let expected = Response {
        lifetime_s: 60,
        ..Response::default()
    };
    assert_eq!(unknown, Ok(Handshake::Response(Box::new(expected))));
}

/// A megabyte of zeros in a thousand octets is read, and two are not.
#[test]
fn a_message_that_grows_without_measure_is_refused() {
    let zeros = octets_of_hex(include_str!("../../tests/data/zlib_zeros.hex").trim());
    assert_eq!(Handshake::decode(&zeros), Err(Refusal::TooLong));
}
