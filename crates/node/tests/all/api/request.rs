//! Sending: order, refusals, limits, and payloads of any length.

use bytes::{Bytes, BytesMut};
use dhow_bundle::{CreationTimestamp, DtnTime, EndpointId};
use dhow_node::api::ClientSession;
use dhow_node::api::seam::{ApiRefusal, ClientCommand, ClientEvent, RequestId};
use dhow_node::api::wire::{
    ADU_BPDU, ADU_WITH_BDM_AUTH, AUTH_TYPE_BUNDLE_DISPATCH, AapResponse, Body, BundleAdu,
    ConnectionConfig, Keepalive, STATUS_ACK, STATUS_ERROR, STATUS_INVALID_REQUEST, STATUS_SUCCESS,
    STATUS_UNAUTHORIZED,
};

use super::client::{after_welcome, at, eid, events, message, responses, sent, session, talk};

/// A session of a client that sends from ipn:2.42, its greeting and configuration behind it.
fn sender() -> ClientSession {
    let mut session = session("ipn:2.0");
    let heard = talk(&mut session, [config()]);
    assert_eq!(heard.configured[0].endpoint, Some(eid("ipn:2.42")));
    let (_, reader) = after_welcome(sent(&mut session, at(0), 65_536));
    assert_eq!(statuses(&responses(reader)), [STATUS_SUCCESS]);
    session
}

fn config() -> Bytes {
    message(Body::Config(ConnectionConfig {
        endpoint_id: "ipn:2.42".into(),
        secret: "s".into(),
        ..ConnectionConfig::default()
    }))
}

fn adu(payload_length: u64) -> BundleAdu {
    BundleAdu {
        dst_eid: "ipn:4.42".into(),
        payload_length,
        ..BundleAdu::default()
    }
}

fn bundle(payload: &[u8]) -> Bytes {
    let mut octets = BytesMut::from(&message(Body::Adu(adu(payload.len() as u64)))[..]);
    octets.extend_from_slice(payload);
    octets.freeze()
}

fn statuses(responses: &[AapResponse]) -> Vec<i32> {
    responses
        .iter()
        .map(|response| response.response_status)
        .collect()
}

/// The responses that have become due.
fn answered(session: &mut ClientSession) -> Vec<AapResponse> {
    let mut reader = dhow_node::api::frame::FrameReader::new();
    reader.push(sent(session, at(0), 65_536));
    responses(reader)
}

fn created(sequence: u64) -> Result<(EndpointId, CreationTimestamp), ApiRefusal> {
    Ok((
        eid("ipn:2.42"),
        CreationTimestamp {
            time: DtnTime::from_millis(1),
            sequence,
        },
    ))
}

#[test]
fn answers_leave_in_the_order_of_the_requests_whatever_the_order_of_the_node() {
    let mut session = sender();
    session.handle_octets(
        at(0),
        [bundle(b"a"), bundle(b"b"), bundle(b"c")].concat().into(),
    );
    assert_eq!(events(&mut session).len(), 6);
    for request in [2, 1] {
        let command = ClientCommand::Sent {
            request: RequestId(request),
            outcome: created(request),
        };
        session.handle_command(at(0), command);
        assert!(!session.has_octets());
    }
    let command = ClientCommand::Sent {
        request: RequestId(0),
        outcome: created(0),
    };
    session.handle_command(at(0), command);
    let sequences: Vec<u64> = answered(&mut session)
        .into_iter()
        .map(|response| response.bundle_headers.unwrap().sequence_number)
        .collect();
    assert_eq!(sequences, [0, 1, 2]);
}

#[test]
fn keepalive_of_a_sender_is_answered_in_its_turn() {
    let mut session = sender();
    session.handle_octets(
        at(0),
        [bundle(b"a"), message(Body::Keepalive(Keepalive {}))]
            .concat()
            .into(),
    );
    assert!(!session.has_octets(), "the bundle comes first");
    let command = ClientCommand::Sent {
        request: RequestId(0),
        outcome: created(0),
    };
    session.handle_command(at(0), command);
    assert_eq!(
        statuses(&answered(&mut session)),
        [STATUS_SUCCESS, STATUS_ACK]
    );
}

#[test]
fn request_id_lifetime_and_flags_are_heeded_and_repeated() {
    let mut session = sender();
    let adu = BundleAdu {
        lifetime_ms: Some(5000),
        bundle_flags: Some(0x4_0004),
        request_id: Some(77),
        report_to_eid: "ipn:2.43".into(),
        ..adu(0)
    };
    let heard = talk(&mut session, [message(Body::Adu(adu))]);
    let (_, send) = &heard.sends[0];
    assert_eq!((send.lifetime_ms, send.flags), (5000, 0x4_0004));
    let answer = &answered(&mut session)[0];
    assert_eq!(answer.request_id, Some(77));
    assert_eq!(answer.bundle_headers.as_ref().unwrap().lifetime_ms, 5000);
}

#[test]
fn empty_payload_is_one_event_without_octets() {
    let mut session = sender();
    session.handle_octets(at(0), bundle(b""));
    let [
        ClientEvent::Send { request, .. },
        ClientEvent::Payload {
            request: of,
            octets,
            end,
        },
    ] = &events(&mut session)[..]
    else {
        panic!("a send and its payload");
    };
    assert_eq!(request, of);
    assert!(octets.is_empty() && *end);
}

#[test]
fn payload_slices_share_the_octets_that_were_given() {
    let mut session = sender();
    let octets = bundle(&[7; 1000]);
    let given = octets.as_ptr_range();
    session.handle_octets(at(0), octets);
    let all = events(&mut session);
    let ClientEvent::Payload {
        octets, end: true, ..
    } = &all[1]
    else {
        panic!("one payload event")
    };
    assert_eq!(octets.len(), 1000);
    assert!(given.contains(&octets.as_ptr()));
}

#[test]
fn payload_longer_than_32_bits_is_announced_and_streams() {
    let mut session = sender();
    let length = (1_u64 << 32) + 5;
    session.handle_octets(at(0), message(Body::Adu(adu(length))));
    let [ClientEvent::Send { send, .. }] = &events(&mut session)[..] else {
        panic!("a send")
    };
    assert_eq!(send.payload_octets, length);
    for _ in 0..3 {
        session.handle_octets(at(0), Bytes::from(vec![1; 1 << 20]));
        let [
            ClientEvent::Payload {
                octets, end: false, ..
            },
        ] = &events(&mut session)[..]
        else {
            panic!("a slice of the payload");
        };
        assert_eq!(octets.len(), 1 << 20);
    }
}

#[test]
fn payload_of_a_request_refused_midway_is_dropped_and_the_next_is_heard() {
    let mut session = sender();
    let octets = bundle(&[1; 100]);
    session.handle_octets(at(0), octets.slice(..octets.len() - 60));
    assert_eq!(events(&mut session).len(), 2);
    let outcome = Err(ApiRefusal::NoResources("the store is full".into()));
    session.handle_command(
        at(0),
        ClientCommand::Sent {
            request: RequestId(0),
            outcome,
        },
    );
    let answer = answered(&mut session).remove(0);
    assert_eq!(
        (answer.response_status, answer.message.as_str()),
        (STATUS_ERROR, "the store is full")
    );
    session.handle_octets(at(0), octets.slice(octets.len() - 60..));
    assert!(
        events(&mut session).is_empty(),
        "the rest of a refused payload is nobody's"
    );
    session.handle_octets(at(0), bundle(b"next"));
    let all = events(&mut session);
    assert!(
        matches!(
            all[0],
            ClientEvent::Send {
                request: RequestId(1),
                ..
            }
        ),
        "{all:?}"
    );
}

#[test]
fn request_that_makes_no_sense_is_refused_and_the_connection_goes_on() {
    let cases = [
        (
            BundleAdu {
                dst_eid: "nonsense".into(),
                ..adu(3)
            },
            STATUS_INVALID_REQUEST,
            "destination",
        ),
        (
            BundleAdu {
                dst_eid: "dtn:none".into(),
                ..adu(3)
            },
            STATUS_INVALID_REQUEST,
            "destination",
        ),
        (
            BundleAdu {
                src_eid: "ipn:2.43".into(),
                ..adu(3)
            },
            STATUS_UNAUTHORIZED,
            "ipn:2.43",
        ),
        (
            BundleAdu {
                report_to_eid: "x".into(),
                ..adu(3)
            },
            STATUS_INVALID_REQUEST,
            "report-to",
        ),
        (
            BundleAdu {
                bundle_flags: Some(0x3),
                ..adu(3)
            },
            STATUS_INVALID_REQUEST,
            "0x3",
        ),
        (
            BundleAdu {
                adu_flags: vec![ADU_BPDU],
                ..adu(3)
            },
            STATUS_INVALID_REQUEST,
            "administrative",
        ),
        (
            BundleAdu {
                adu_flags: vec![0, ADU_WITH_BDM_AUTH],
                ..adu(3)
            },
            STATUS_UNAUTHORIZED,
            "dispatch",
        ),
        (
            BundleAdu {
                adu_flags: vec![-7],
                ..adu(3)
            },
            STATUS_INVALID_REQUEST,
            "-7",
        ),
    ];
    for (adu, status, says) in cases {
        let mut session = sender();
        let adu = BundleAdu {
            request_id: Some(5),
            ..adu
        };
        let octets = [
            message(Body::Adu(adu.clone())),
            "abc".into(),
            bundle(b"fine"),
        ]
        .concat();
        let heard = talk(&mut session, [octets.into()]);
        assert_eq!(heard.sends.len(), 1, "{adu:?}");
        assert_eq!(heard.payloads[&1], b"fine");
        let answers = answered(&mut session);
        assert_eq!(statuses(&answers), [status, STATUS_SUCCESS], "{adu:?}");
        assert!(answers[0].message.contains(says), "{}", answers[0].message);
        assert_eq!(answers[0].request_id, Some(5));
    }
}

#[test]
fn source_is_the_endpoint_of_the_connection_or_null() {
    for (source, is) in [
        ("ipn:2.42", eid("ipn:2.42")),
        ("dtn:none", EndpointId::Null),
    ] {
        let mut session = sender();
        let adu = BundleAdu {
            src_eid: source.into(),
            ..adu(0)
        };
        let heard = talk(&mut session, [message(Body::Adu(adu))]);
        assert_eq!(heard.sends[0].1.source, Some(is));
    }
}

#[test]
fn session_stops_reading_at_its_bound_of_requests_and_goes_on_when_they_are_answered() {
    let mut session = sender();
    let one = bundle(b"x");
    let many: Bytes = one.repeat(20_000).into();
    session.handle_octets(at(0), many);
    let mut begun = Vec::new();
    while let Some(event) = session.poll_event() {
        if let ClientEvent::Send { request, .. } = event {
            begun.push(request);
        }
    }
    assert_eq!(begun.len(), 16_384);
    assert!(!session.wants_octets());
    for &request in &begun {
        session.handle_command(
            at(0),
            ClientCommand::Sent {
                request,
                outcome: created(request.0),
            },
        );
    }
    let rest = events(&mut session);
    assert_eq!(rest.len(), 2 * (20_000 - 16_384));
    assert!(session.wants_octets());
}

#[test]
fn client_that_takes_no_answers_is_not_read_further() {
    let mut session = sender();
    let one = bundle(b"");
    let mut taken = 0;
    for _ in 0..200 {
        session.handle_octets(at(0), one.repeat(1000).into());
        while let Some(event) = session.poll_event() {
            if let ClientEvent::Payload {
                request, end: true, ..
            } = event
            {
                session.handle_command(
                    at(0),
                    ClientCommand::Sent {
                        request,
                        outcome: created(1),
                    },
                );
                taken += 1;
            }
        }
        if !session.wants_octets() {
            break;
        }
    }
    assert!(
        !session.wants_octets() && taken < 200_000,
        "{taken} answers wait"
    );
    assert!(sent(&mut session, at(0), 65_536).len() < 5 << 20);
    assert!(session.poll_event().is_some(), "reading goes on");
}

#[test]
fn what_was_sent_whole_before_the_client_left_is_still_heard() {
    let mut session = session("ipn:2.0");
    session.handle_octets(
        at(0),
        [config(), bundle(b"whole"), bundle(b"torn").slice(..10)]
            .concat()
            .into(),
    );
    assert!(matches!(
        session.poll_event(),
        Some(ClientEvent::Configure(_))
    ));
    assert!(
        session.poll_event().is_none(),
        "nothing is read before the node has accepted the client"
    );
    session.handle_command(at(0), ClientCommand::Configured(Ok(())));
    session.handle_command(at(0), ClientCommand::Disconnected);
    let all = events(&mut session);
    assert!(
        matches!(
            &all[..],
            [
                ClientEvent::Send {
                    request: RequestId(0),
                    ..
                },
                ClientEvent::Payload {
                    request: RequestId(0),
                    end: true,
                    ..
                },
            ]
        ),
        "{all:?}"
    );
    session.handle_command(
        at(0),
        ClientCommand::Sent {
            request: RequestId(0),
            outcome: created(0),
        },
    );
    assert!(
        sent(&mut session, at(0), 65_536).is_empty(),
        "nobody is there to be answered"
    );
    assert_eq!(session.poll_timeout(), None);
}

#[test]
fn payload_cut_off_by_the_end_of_the_stream_never_ends() {
    let mut session = sender();
    let octets = bundle(&[9; 100]);
    let mut heard = talk(&mut session, [octets.slice(..octets.len() - 1)]);
    session.handle_command(at(0), ClientCommand::Disconnected);
    events(&mut session)
        .into_iter()
        .for_each(|event| heard.hear(event));
    assert_eq!((heard.sends.len(), heard.payloads[&0].len()), (1, 99));
    assert!(heard.ended.is_empty() && heard.closed.is_empty());
    session.handle_octets(at(0), octets);
    assert!(events(&mut session).is_empty());
}

#[test]
fn configuration_that_makes_no_sense_is_refused_and_closed() {
    let base = ConnectionConfig {
        endpoint_id: "ipn:2.42".into(),
        ..ConnectionConfig::default()
    };
    let cases = [
        (
            ConnectionConfig {
                auth_type: AUTH_TYPE_BUNDLE_DISPATCH,
                ..base.clone()
            },
            STATUS_UNAUTHORIZED,
        ),
        (
            ConnectionConfig {
                auth_type: 9,
                ..base.clone()
            },
            STATUS_INVALID_REQUEST,
        ),
        (
            ConnectionConfig {
                failure_action: 2,
                ..base.clone()
            },
            STATUS_INVALID_REQUEST,
        ),
        (
            ConnectionConfig {
                endpoint_id: "ipn:0.0".into(),
                ..base.clone()
            },
            STATUS_INVALID_REQUEST,
        ),
        (
            ConnectionConfig {
                endpoint_id: String::new(),
                is_subscriber: true,
                ..base
            },
            STATUS_INVALID_REQUEST,
        ),
    ];
    for (config, status) in cases {
        let mut session = session("ipn:2.0");
        let heard = talk(&mut session, [message(Body::Config(config.clone()))]);
        assert!(heard.configured.is_empty());
        assert_eq!(heard.closed.len(), 1);
        let (_, reader) = after_welcome(sent(&mut session, at(0), 65_536));
        let answers = responses(reader);
        assert_eq!(statuses(&answers), [status], "{config:?}");
        assert!(!answers[0].message.is_empty());
    }
}

#[test]
fn secret_is_not_shown() {
    let config = ConnectionConfig {
        secret: "hush".into(),
        ..ConnectionConfig::default()
    };
    assert!(!format!("{config:?}").contains("hush"));
}
