//! Keepalives, with a clock that jumps.

use dhow_bundle::Instant;
use dhow_bundle::storage::{Extent, Piece};
use dhow_link::Gather;
use dhow_node::api::ClientSession;
use dhow_node::api::seam::ClientEvent;
use dhow_node::api::wire::{AapResponse, Body, BundleAdu, ConnectionConfig, Keepalive, STATUS_ACK};

use super::client::{at, delivery, delivery_of, events, framed, message, sent, session, talk};
use super::delivery::subscriber;

const KEEPALIVE: &[u8] = &[2, 0x32, 0];

fn sender(keepalive_seconds: u32) -> ClientSession {
    let mut session = session("ipn:2.0");
    talk(
        &mut session,
        [message(Body::Config(ConnectionConfig {
            endpoint_id: "ipn:2.42".into(),
            keepalive_seconds,
            ..ConnectionConfig::default()
        }))],
    );
    sent(&mut session, at(0), 65_536);
    session
}

fn due(session: &ClientSession) -> Option<u64> {
    session
        .poll_timeout()
        .map(|instant: Instant| instant.as_nanos() / 1_000_000_000)
}

fn is_closed(session: &mut ClientSession) -> bool {
    matches!(events(session)[..], [ClientEvent::Close(_)])
}

#[test]
fn without_an_interval_there_is_no_timer() {
    assert_eq!(due(&subscriber(1, 0)), None);
    assert_eq!(due(&sender(0)), None);
}

#[test]
fn quiet_subscriber_is_asked_every_interval_and_closed_two_after_no_answer() {
    let mut session = subscriber(1, 10);
    assert_eq!(due(&session), Some(10));
    session.handle_timeout(at(9));
    assert!(!session.has_octets(), "too early");
    session.handle_timeout(at(10));
    assert_eq!(sent(&mut session, at(10), 100), KEEPALIVE);
    session.handle_octets(at(12), framed(&AapResponse::of(STATUS_ACK)));
    assert_eq!(due(&session), Some(22));
    session.handle_timeout(at(22));
    assert_eq!(sent(&mut session, at(22), 100), KEEPALIVE);
    assert_eq!(due(&session), Some(42));
    session.handle_timeout(at(42));
    assert!(is_closed(&mut session));
    assert_eq!(due(&session), None);
}

#[test]
fn clock_that_jumps_far_ahead_asks_first() {
    let mut session = subscriber(1, 10);
    session.handle_timeout(at(100_000));
    assert!(events(&mut session).is_empty(), "asked, not closed");
    assert_eq!(sent(&mut session, at(100_000), 100), KEEPALIVE);
    assert_eq!(due(&session), Some(100_020));
}

#[test]
fn delivery_postpones_the_question() {
    let mut session = subscriber(1, 10);
    session.handle_command(at(7), delivery(1, b"x"));
    sent(&mut session, at(7), 65_536);
    assert_eq!(due(&session), Some(17));
}

#[test]
fn subscriber_that_takes_nothing_of_a_payload_is_closed_and_a_slow_one_is_not() {
    let mut session = subscriber(1, 10);
    let payload = vec![Piece::Extent(Extent {
        offset: 0,
        length: 1 << 30,
    })];
    session.handle_command(at(0), delivery_of(1, payload, 1 << 30));
    for seconds in (0..200).step_by(25) {
        session.poll_octets(at(seconds), 1000, &mut Gather::new());
        session.handle_timeout(at(seconds + 10));
        assert!(
            events(&mut session).is_empty(),
            "slow at {seconds} s, and alive"
        );
    }
    session.handle_timeout(at(205));
    assert!(is_closed(&mut session));
    assert!(!session.has_octets(), "nothing was put into the payload");
}

#[test]
fn sender_that_says_nothing_for_two_intervals_is_closed() {
    let mut session = sender(5);
    assert_eq!(due(&session), Some(10));
    session.handle_octets(at(8), message(Body::Keepalive(Keepalive {})));
    assert_eq!(sent(&mut session, at(8), 100)[..], [2, 8, 2]);
    assert_eq!(due(&session), Some(18));
    session.handle_timeout(at(18));
    assert!(is_closed(&mut session));
}

#[test]
fn sender_that_waits_for_its_answer_is_not_closed() {
    let mut session = sender(5);
    let adu = BundleAdu {
        dst_eid: "ipn:4.42".into(),
        ..BundleAdu::default()
    };
    session.handle_octets(at(1), message(Body::Adu(adu)));
    assert_eq!(events(&mut session).len(), 2);
    session.handle_timeout(at(11));
    assert!(events(&mut session).is_empty());
    assert_eq!(due(&session), Some(21));
}

#[test]
fn largest_interval_is_kept_without_overflow() {
    let session = sender(u32::MAX);
    assert_eq!(due(&session), Some(2 * u64::from(u32::MAX)));
}
