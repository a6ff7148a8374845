//! Octets of any kind and in any chunking.

use bytes::Bytes;
use dhow_node::api::frame::{FrameReader, MESSAGE_OCTETS_MAX};
use dhow_node::api::seam::{ClientCommand, ClientEvent, RequestId};
use dhow_node::api::wire::{
    AapResponse, Body, BundleAdu, ConnectionConfig, STATUS_INVALID_REQUEST, STATUS_SUCCESS, Welcome,
};
use proptest::prelude::*;

use super::client::{after_welcome, at, eid, events, message, responses, sent, session, talk};

fn config() -> Bytes {
    message(Body::Config(ConnectionConfig {
        endpoint_id: "ipn:2.42".into(),
        ..ConnectionConfig::default()
    }))
}

fn bundle(payload: &[u8]) -> Bytes {
    let adu = BundleAdu {
        dst_eid: "ipn:4.42".into(),
        payload_length: payload.len() as u64,
        ..BundleAdu::default()
    };
    [&message(Body::Adu(adu))[..], payload].concat().into()
}

/// The octets that a session answers to octets after its Welcome, and that it closes.
fn refused(octets: impl Into<Bytes>) -> Vec<AapResponse> {
    let mut session = session("ipn:2.0");
    let heard = talk(&mut session, [octets.into()]);
    assert_eq!(heard.closed.len(), 1);
    assert!(!session.wants_octets());
    let (_, reader) = after_welcome(sent(&mut session, at(0), 65_536));
    responses(reader)
}

#[test]
fn fault_is_named_and_the_connection_closed() {
    let cases: [(&[u8], &str); 6] = [
        (&[0xff; 11], "varint"),
        (&[0x81, 0x80, 0x04], "65537 octets"),
        (
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
            "9223372036854775808 octets",
        ),
        (&[0x03, 0x12, 0x7f, 0x00], "cannot be decoded"),
        (&[0x00], "an empty or unknown message"),
        (&[0x02, 0x32, 0x00], "a Keepalive was not expected"),
    ];
    for (octets, says) in cases {
        let answer = refused(octets.to_vec()).remove(0);
        assert_eq!(answer.response_status, STATUS_INVALID_REQUEST);
        assert!(
            answer.message.contains(says),
            "{octets:02x?}: {}",
            answer.message
        );
    }
}

#[test]
fn message_from_the_wrong_side_is_a_fault() {
    let answers = refused([config(), message(Body::Welcome(Welcome::default()))].concat());
    assert_eq!(
        answers.last().unwrap().message,
        "invalid request: a Welcome was not expected here"
    );
    let answers = refused([config(), config()].concat());
    assert_eq!(answers.len(), 2);
    assert!(answers[1].message.contains("ConnectionConfig"));
}

#[test]
fn fault_waits_for_the_answers_before_it() {
    let mut session = session("ipn:2.0");
    session.handle_octets(at(0), config());
    events(&mut session);
    session.handle_command(at(0), ClientCommand::Configured(Ok(())));
    session.handle_octets(
        at(0),
        [bundle(b"good"), vec![0xff; 20].into()].concat().into(),
    );
    let all = events(&mut session);
    assert!(matches!(
        &all[..],
        [
            ClientEvent::Send { .. },
            ClientEvent::Payload { end: true, .. }
        ]
    ));
    let outcome = Ok((eid("ipn:2.42"), dhow_bundle::CreationTimestamp::default()));
    session.handle_command(
        at(0),
        ClientCommand::Sent {
            request: RequestId(0),
            outcome,
        },
    );
    assert!(matches!(events(&mut session)[..], [ClientEvent::Close(_)]));
    let (_, reader) = after_welcome(sent(&mut session, at(0), 65_536));
    let statuses: Vec<i32> = responses(reader)
        .iter()
        .map(|answer| answer.response_status)
        .collect();
    assert_eq!(
        statuses,
        [STATUS_SUCCESS, STATUS_SUCCESS, STATUS_INVALID_REQUEST]
    );
}

#[test]
fn payload_beyond_what_is_taken_is_a_fault() {
    let adu = BundleAdu {
        dst_eid: "ipn:4.42".into(),
        payload_length: u64::MAX,
        ..BundleAdu::default()
    };
    let answers = refused([config(), message(Body::Adu(adu))].concat());
    assert!(
        answers[1].message.contains("longer than"),
        "{}",
        answers[1].message
    );
}

#[test]
fn longest_message_is_read_and_one_octet_more_is_not() {
    for (length, fits) in [(MESSAGE_OCTETS_MAX, true), (MESSAGE_OCTETS_MAX + 1, false)] {
        let mut octets = Vec::new();
        prost::encoding::encode_varint(length, &mut octets);
        octets.resize(octets.len() + length as usize, 0);
        let mut reader = FrameReader::new();
        for octet in octets {
            reader.push(Bytes::from(vec![octet]));
            match reader.take_message() {
                Ok(None) => {}
                Ok(Some(message)) => {
                    assert!(fits);
                    assert_eq!(message.len() as u64, length);
                }
                Err(error) => return assert!(!fits, "{error}"),
            }
        }
        assert!(reader.is_drained() && !reader.is_within_message());
    }
}

/// A stream of a client that configures and sends these payloads.
fn stream(payloads: &[Vec<u8>]) -> Bytes {
    let mut octets = config().to_vec();
    for payload in payloads {
        octets.extend_from_slice(&bundle(payload));
    }
    octets.into()
}

/// Cut at these places (taken modulo the octets left).
fn cut(mut octets: Bytes, cuts: &[usize]) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    for cut in cuts {
        if octets.is_empty() {
            break;
        }
        chunks.push(octets.split_to(cut % octets.len() + 1));
    }
    chunks.push(octets);
    chunks
}

proptest! {
    #[test]
    fn chunking_changes_nothing(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..12),
        cuts in prop::collection::vec(0..200_usize, 0..100),
    ) {
        let octets = stream(&payloads);
        let mut whole = session("ipn:2.0");
        let heard = talk(&mut whole, [octets.clone()]);
        let mut cut_up = session("ipn:2.0");
        prop_assert_eq!(&talk(&mut cut_up, cut(octets, &cuts)), &heard);
        prop_assert_eq!(heard.payloads.into_values().collect::<Vec<_>>(), payloads);
        prop_assert_eq!(sent(&mut cut_up, at(0), 100), sent(&mut whole, at(0), 65_536));
    }

    #[test]
    fn any_octets_leave_the_session_consistent(
        octets in prop::collection::vec(any::<u8>(), 0..400),
        cuts in prop::collection::vec(0..100_usize, 0..20),
        prefix in 0..3_usize,
    ) {
        let prefix = [Bytes::new(), config(), stream(&[vec![1; 50]])][prefix].clone();
        let mut session = session("ipn:2.0");
        let heard = talk(&mut session, cut([prefix, octets.into()].concat().into(), &cuts));
        prop_assert!(heard.closed.len() <= 1);
        for (request, send) in &heard.sends {
            let length = heard.payloads.get(&request.0).map_or(0, Vec::len) as u64;
            prop_assert!(length <= send.payload_octets);
            prop_assert_eq!(heard.ended.contains(request), length == send.payload_octets);
        }
        sent(&mut session, at(0), 1000);
    }

    #[test]
    fn changed_octet_never_breaks_the_session(
        at_octet in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut octets = stream(&[b"one".to_vec(), b"two".to_vec()]).to_vec();
        let position = at_octet.index(octets.len());
        octets[position] = value;
        let mut session = session("ipn:2.0");
        let heard = talk(&mut session, [octets.into()]);
        prop_assert!(heard.closed.len() <= 1 && heard.sends.len() <= 9);
    }
}
