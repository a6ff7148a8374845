//! Deliveries: window, order, wholeness, answers.

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};
use dhow_link::Gather;
use dhow_node::api::ClientSession;
use dhow_node::api::frame::FrameReader;
use dhow_node::api::seam::{ClientCommand, ClientEvent, DeliveryId};
use dhow_node::api::wire::{
    AapMessage, AapResponse, Body, BundleAdu, ConnectionConfig, STATUS_ERROR, STATUS_SUCCESS,
};
use prost::Message;

use super::client::{
    after_welcome, at, delivery, delivery_of, events, framed, message, pattern, sent, session, talk,
};

/// A session of a subscriber, its greeting and configuration behind it.
pub fn subscriber(window: u32, keepalive_seconds: u32) -> ClientSession {
    let mut session = session("dtn://b.dtn/");
    talk(
        &mut session,
        [message(Body::Config(ConnectionConfig {
            is_subscriber: true,
            endpoint_id: "dtn://b.dtn/bundlesink".into(),
            delivery_window: window,
            keepalive_seconds,
            ..ConnectionConfig::default()
        }))],
    );
    after_welcome(sent(&mut session, at(0), 65_536));
    session
}

fn response(status: i32, delivery_id: Option<u64>) -> Bytes {
    framed(&AapResponse {
        delivery_id,
        ..AapResponse::of(status)
    })
}

/// The deliveries in a stream: head and payload of each.
fn deliveries(octets: Bytes) -> Vec<(BundleAdu, Vec<u8>)> {
    let mut reader = FrameReader::new();
    reader.push(octets);
    std::iter::from_fn(|| {
        let message = AapMessage::decode(reader.take_message().unwrap()?).unwrap();
        let Some(Body::Adu(adu)) = message.body else {
            panic!("{message:?} is no adu")
        };
        let mut payload = Vec::new();
        while (payload.len() as u64) < adu.payload_length {
            let left = adu.payload_length - payload.len() as u64;
            payload.extend_from_slice(&reader.take_payload(left).expect("the whole payload"));
        }
        Some((adu, payload))
    })
    .collect()
}

#[test]
fn stock_client_has_one_delivery_at_a_time() {
    let mut session = subscriber(0, 0);
    assert_eq!(session.delivery_room(), 1);
    session.handle_command(at(0), delivery(1, b"first"));
    session.handle_command(at(0), delivery(2, b"second"));
    assert_eq!(session.delivery_room(), 0);
    let came = deliveries(sent(&mut session, at(0), 65_536));
    assert_eq!(came.len(), 1);
    assert_eq!(came[0].1, b"first");
    assert!(!session.has_octets());
    session.handle_octets(at(0), response(STATUS_SUCCESS, None));
    assert!(matches!(
        events(&mut session)[..],
        [ClientEvent::Confirmed(DeliveryId(1))]
    ));
    let came = deliveries(sent(&mut session, at(0), 65_536));
    assert_eq!(came[0].1, b"second");
}

#[test]
fn window_of_three_is_answered_in_any_order_by_name() {
    let mut session = subscriber(3, 0);
    for number in 10..15 {
        session.handle_command(at(0), delivery(number, &[number as u8; 3]));
    }
    let came = deliveries(sent(&mut session, at(0), 65_536));
    let ids: Vec<u64> = came
        .iter()
        .map(|(adu, _)| adu.delivery_id.unwrap())
        .collect();
    assert_eq!(ids, [10, 11, 12]);
    session.handle_octets(at(0), response(STATUS_SUCCESS, Some(12)));
    session.handle_octets(at(0), response(STATUS_ERROR, Some(10)));
    session.handle_octets(at(0), response(STATUS_SUCCESS, None));
    let all = events(&mut session);
    assert!(
        matches!(
            all[..],
            [
                ClientEvent::Confirmed(DeliveryId(12)),
                ClientEvent::Declined(DeliveryId(10)),
                ClientEvent::Confirmed(DeliveryId(11)),
            ]
        ),
        "{all:?}"
    );
    assert_eq!(deliveries(sent(&mut session, at(0), 65_536)).len(), 2);
}

#[test]
fn head_and_payload_leave_in_one_gather_although_the_limit_is_smaller() {
    let mut session = subscriber(2, 0);
    session.handle_command(at(0), delivery(1, &[1; 50_000]));
    session.handle_command(at(0), delivery(2, &[2; 50_000]));
    for number in 1..=2 {
        let mut out = Gather::new();
        session.poll_octets(at(0), 16_384, &mut out);
        let octets: Vec<u8> = out
            .pieces()
            .iter()
            .flat_map(|piece| match piece {
                Piece::Octets(octets) => octets.to_vec(),
                Piece::Extent(_) => panic!("no extents here"),
            })
            .collect();
        let came = deliveries(octets.into());
        assert_eq!(came.len(), 1, "one delivery, and whole");
        assert_eq!(came[0].1, [number; 50_000]);
    }
}

#[test]
fn small_deliveries_share_a_gather() {
    let mut session = subscriber(100, 0);
    for number in 0..100 {
        session.handle_command(at(0), delivery(number, b"small"));
    }
    let mut out = Gather::new();
    session.poll_octets(at(0), 65_536, &mut out);
    assert!(!session.has_octets(), "all hundred left at once");
}

#[test]
fn stored_payload_is_cut_at_the_limit_and_arrives_in_order() {
    let extents = [
        Extent {
            offset: 1000,
            length: 70_000,
        },
        Extent {
            offset: 500_000,
            length: 130_001,
        },
    ];
    let payload: Vec<Piece> = extents
        .iter()
        .map(|&extent| Piece::Extent(extent))
        .collect();
    let whole: Vec<u8> = extents.iter().flat_map(|&extent| pattern(extent)).collect();
    for limit in [1, 7, 4096, 65_536, 1 << 20] {
        let mut session = subscriber(1, 0);
        session.handle_command(at(0), delivery_of(1, payload.clone(), 200_001));
        let mut octets = Vec::new();
        while session.has_octets() {
            let mut out = Gather::new();
            session.poll_octets(at(0), limit, &mut out);
            assert!(
                out.octets() <= limit as u64 + 200,
                "{} octets for {limit}",
                out.octets()
            );
            for piece in out.pieces() {
                match piece {
                    Piece::Octets(piece) => octets.extend_from_slice(piece),
                    Piece::Extent(extent) => octets.extend(pattern(*extent)),
                }
            }
        }
        assert!(deliveries(octets.into())[0].1 == whole, "limit {limit}");
    }
}

#[test]
fn payload_of_more_than_32_bits_leaves_as_extents() {
    let length = 5_u64 << 32;
    let mut session = subscriber(1, 0);
    let payload = vec![Piece::Extent(Extent { offset: 9, length })];
    session.handle_command(at(0), delivery_of(1, payload, length));
    let mut next = 9;
    for _ in 0..3 {
        let mut out = Gather::new();
        session.poll_octets(at(0), 1 << 20, &mut out);
        let Some(Piece::Extent(extent)) = out.pieces().last() else {
            panic!("an extent")
        };
        assert_eq!(extent.offset, next);
        next += extent.length;
    }
    assert!(session.has_octets());
}

#[test]
fn empty_payload_is_delivered_and_confirmed() {
    let mut session = subscriber(1, 0);
    session.handle_command(at(0), delivery_of(1, vec![], 0));
    assert_eq!(
        deliveries(sent(&mut session, at(0), 65_536)),
        [(
            BundleAdu {
                src_eid: "dtn://a.dtn/sender".into(),
                dst_eid: "dtn://b.dtn/bundlesink".into(),
                creation_timestamp_ms: 1,
                sequence_number: 1,
                lifetime_ms: Some(86_400_000),
                bundle_flags: Some(0),
                delivery_id: Some(1),
                ..BundleAdu::default()
            },
            vec![],
        )]
    );
    session.handle_octets(at(0), response(STATUS_SUCCESS, Some(1)));
    assert!(matches!(
        events(&mut session)[..],
        [ClientEvent::Confirmed(DeliveryId(1))]
    ));
}

#[test]
fn answer_to_no_delivery_or_before_its_end_is_a_fault() {
    let cases: [(&str, Option<u64>); 3] = [
        ("answers no delivery", None),
        ("answers no delivery", Some(3)),
        ("still being sent", Some(1)),
    ];
    for (says, named) in cases {
        let mut session = subscriber(2, 0);
        if named.is_some() {
            let payload = vec![Piece::Extent(Extent {
                offset: 0,
                length: 1 << 20,
            })];
            session.handle_command(at(0), delivery_of(1, payload, 1 << 20));
            session.poll_octets(at(0), 4096, &mut Gather::new());
        }
        session.handle_octets(at(0), response(STATUS_SUCCESS, named));
        let all = events(&mut session);
        let [ClientEvent::Close(reason)] = &all[..] else {
            panic!("{all:?}")
        };
        assert!(reason.contains(says), "{reason}");
        session.handle_command(at(0), delivery(9, b"late"));
        assert!(
            events(&mut session).is_empty(),
            "a closed session takes nothing and says nothing"
        );
    }
}

#[test]
fn subscriber_that_sends_a_bundle_is_told_why_it_is_closed() {
    let mut session = subscriber(1, 0);
    let adu = BundleAdu {
        dst_eid: "ipn:4.42".into(),
        ..BundleAdu::default()
    };
    session.handle_octets(at(0), message(Body::Adu(adu)));
    assert!(matches!(events(&mut session)[..], [ClientEvent::Close(_)]));
    let mut reader = FrameReader::new();
    reader.push(sent(&mut session, at(0), 65_536));
    let last = AapMessage::decode(reader.take_message().unwrap().unwrap()).unwrap();
    assert!(matches!(
        last.body,
        Some(Body::Refusal(AapResponse {
            response_status: 10,
            ..
        }))
    ));
}

#[test]
fn delivery_to_a_client_that_does_not_subscribe_is_declined() {
    let mut session = session("dtn://b.dtn/");
    assert_eq!(session.delivery_room(), 0);
    session.handle_command(at(0), delivery(4, b"x"));
    assert!(matches!(
        events(&mut session)[..],
        [ClientEvent::Declined(DeliveryId(4))]
    ));
    session.handle_command(at(0), ClientCommand::Disconnected);
    session.handle_command(at(0), delivery(5, b"x"));
    assert!(events(&mut session).is_empty());
}
