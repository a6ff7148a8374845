//! The octets that real clients sent, and a real node's answers, against our session.

use bytes::Bytes;
use dhow_node::api::seam::{
    ApiRefusal, ClientCommand, ClientEvent, DeliveryFailureAction, DeliveryId, Subscribes,
};
use dhow_node::api::wire::{
    AapMessage, Body, STATUS_INVALID_REQUEST, STATUS_SUCCESS, STATUS_UNAUTHORIZED,
};
use prost::Message;

use super::client::{after_welcome, at, delivery, eid, events, responses, sent, session, talk};

macro_rules! capture {
    ($name:literal) => {
        Bytes::from_static(include_bytes!(concat!("../../data/aap2/", $name, ".bin")))
    };
}

#[test]
fn small_bundle_is_sent_and_answered_as_captured() {
    let mut session = session("dtn://a.dtn/");
    let heard = talk(&mut session, [capture!("send-small-c2s")]);
    let configure = &heard.configured[0];
    assert_eq!(configure.endpoint, Some(eid("dtn://a.dtn/sender")));
    assert_eq!(configure.subscribes, Subscribes::No);
    assert_eq!(configure.failure_action, DeliveryFailureAction::Defer);
    assert_eq!(configure.secret.len(), 36);
    let (_, send) = &heard.sends[0];
    assert_eq!(send.destination, eid("dtn://b.dtn/bundlesink"));
    assert_eq!(
        (send.source.as_ref(), send.report_to.as_ref(), send.flags),
        (None, None, 0)
    );
    assert_eq!((send.lifetime_ms, send.payload_octets), (86_400_000, 45));
    assert_eq!(
        heard.payloads[&0],
        b"dhow-test-payload-501 AAP2 to uD3TN over mtcp"
    );

    let (welcome, reader) = after_welcome(sent(&mut session, at(0), 65_536));
    let (theirs, their_reader) = after_welcome(capture!("send-small-s2c"));
    assert_eq!(welcome.node_id, theirs.node_id);
    let (ours, theirs) = (responses(reader), responses(their_reader));
    assert_eq!(ours.len(), theirs.len());
    assert_eq!(ours[0], theirs[0], "the answer to Config");
    let (mut ours, theirs) = (ours[1].clone(), theirs[1].clone());
    let bundle = ours.bundle_headers.as_mut().unwrap();
    let their_bundle = theirs.bundle_headers.as_ref().unwrap();
    assert!(
        their_bundle.creation_timestamp_ms > 847_000_000_000,
        "milliseconds since 2000"
    );
    bundle.creation_timestamp_ms = their_bundle.creation_timestamp_ms;
    bundle.sequence_number = their_bundle.sequence_number;
    assert_eq!(ours, theirs);
}

#[test]
fn bundle_of_8000_octets_is_sent_as_captured() {
    let mut session = session("dtn://a.dtn/");
    let heard = talk(&mut session, [capture!("send-8000-c2s")]);
    assert_eq!(heard.payloads[&0].len(), 8000);
    assert!(heard.payloads[&0].starts_with(b"dhow-test-payload-502 line 0000 the quick brown fox"));
    assert!(heard.closed.is_empty());
}

#[test]
fn report_to_of_a_stock_client_asks_for_a_delivery_report() {
    let mut session = session("dtn://a.dtn/");
    let heard = talk(&mut session, [capture!("send-with-report-to-c2s")]);
    let (_, send) = &heard.sends[0];
    assert_eq!(send.report_to, Some(eid("dtn://a.dtn/reports")));
    assert_eq!(send.flags, 0x2_0000);
    let (_, reader) = after_welcome(sent(&mut session, at(0), 65_536));
    let statuses: Vec<i32> = responses(reader)
        .iter()
        .map(|response| response.response_status)
        .collect();
    assert_eq!(statuses, [STATUS_SUCCESS, STATUS_SUCCESS]);
}

#[test]
fn pings_leave_with_two_sends_on_one_connection() {
    let mut session = session("dtn://a.dtn/");
    let heard = talk(&mut session, [capture!("ping-sender-c2s")]);
    assert_eq!(heard.sends.len(), 2);
    assert!(
        heard
            .payloads
            .values()
            .all(|payload| payload.starts_with(b"PING:"))
    );
}

#[test]
fn subscriber_confirms_two_bundles_and_answers_a_keepalive_as_captured() {
    let client = capture!("receive-two-bundles-keepalive-c2s");
    let (_, mut theirs) = after_welcome(capture!("receive-two-bundles-keepalive-s2c"));
    let mut session = session("dtn://b.dtn/");
    let configuration = client.len() - 9;
    let heard = talk(&mut session, [client.slice(..configuration)]);
    assert_eq!(heard.configured[0].subscribes, Subscribes::Yes);
    let (_, reader) = after_welcome(sent(&mut session, at(0), 65_536));
    let answer = responses(reader).remove(0);
    assert_eq!(
        answer.encode_to_vec(),
        theirs.take_message().unwrap().unwrap()
    );

    session.handle_command(at(1), delivery(7, &[b'x'; 45]));
    let first = sent(&mut session, at(1), 65_536);
    compare_delivery(first, theirs.take_message().unwrap().unwrap(), 45);
    theirs.take_payload(45);
    session.handle_octets(at(1), client.slice(configuration..configuration + 3));
    assert!(matches!(
        events(&mut session)[..],
        [ClientEvent::Confirmed(DeliveryId(7))]
    ));

    session.handle_timeout(at(3));
    let keepalive = sent(&mut session, at(3), 65_536);
    assert_eq!(keepalive[1..], theirs.take_message().unwrap().unwrap());
    session.handle_octets(at(3), client.slice(configuration + 3..configuration + 6));
    assert!(events(&mut session).is_empty());

    session.handle_command(at(4), delivery(8, &[b'y'; 8000]));
    let second = sent(&mut session, at(4), 65_536);
    compare_delivery(second, theirs.take_message().unwrap().unwrap(), 8000);
    session.handle_octets(at(4), client.slice(configuration + 6..));
    assert!(matches!(
        events(&mut session)[..],
        [ClientEvent::Confirmed(DeliveryId(8))]
    ));
}

/// Ours and theirs say the same but for creation and what only we say.
fn compare_delivery(ours: Bytes, theirs: Bytes, payload: usize) {
    let mut reader = dhow_node::api::frame::FrameReader::new();
    reader.push(ours);
    let ours = AapMessage::decode(reader.take_message().unwrap().unwrap()).unwrap();
    assert_eq!(
        reader.octets(),
        payload,
        "the payload comes behind its head"
    );
    let (Some(Body::Adu(mut ours)), Some(Body::Adu(theirs))) =
        (ours.body, AapMessage::decode(theirs).unwrap().body)
    else {
        panic!("a delivery begins with an adu");
    };
    ours.creation_timestamp_ms = theirs.creation_timestamp_ms;
    ours.sequence_number = theirs.sequence_number;
    (ours.lifetime_ms, ours.bundle_flags, ours.delivery_id) = (None, None, None);
    assert_eq!(ours, theirs);
}

#[test]
fn agent_id_that_makes_no_endpoint_is_an_invalid_request() {
    let mut session = session("dtn://a.dtn/");
    let heard = talk(&mut session, [capture!("config-invalid-agent-id-c2s")]);
    assert!(heard.configured.is_empty());
    assert_eq!(heard.closed.len(), 1);
    let (_, reader) = after_welcome(sent(&mut session, at(0), 65_536));
    let answer = responses(reader).remove(0);
    assert_eq!(answer.response_status, STATUS_INVALID_REQUEST);
    assert!(answer.message.contains("endpoint ID"), "{}", answer.message);
}

#[test]
fn wrong_secret_is_unauthorized() {
    let mut session = session("dtn://a.dtn/");
    session.handle_octets(at(0), capture!("config-wrong-secret-c2s"));
    let [ClientEvent::Configure(configure)] = &events(&mut session)[..] else {
        panic!("no Configure")
    };
    assert_eq!(configure.secret, "wrong");
    let refusal = ApiRefusal::Unauthorized("dtn://a.dtn/shared is held with another secret".into());
    session.handle_command(at(0), ClientCommand::Configured(Err(refusal)));
    assert!(matches!(events(&mut session)[..], [ClientEvent::Close(_)]));
    let (_, reader) = after_welcome(sent(&mut session, at(0), 65_536));
    let (_, theirs) = after_welcome(capture!("config-wrong-secret-s2c"));
    let (ours, theirs) = (responses(reader), responses(theirs));
    assert_eq!(ours[0].response_status, STATUS_UNAUTHORIZED);
    assert_eq!(ours[0].response_status, theirs[0].response_status);
}

#[test]
fn client_of_the_older_protocol_is_told_and_closed() {
    let mut session = session("dtn://a.dtn/");
    let heard = talk(&mut session, [capture!("aap1-config-contact-c2s")]);
    assert!(heard.configured.is_empty() && heard.sends.is_empty());
    assert_eq!(heard.closed.len(), 1, "{:?}", heard.closed);
}
