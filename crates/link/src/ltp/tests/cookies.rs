//! Cookies between engines: RFC 5327 2.2.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::storage::Piece;

use super::super::{Config, Engine};
use super::world::{ALL, at, flatten};
use crate::datagram::{Batch, DatagramEvent, DatagramLink as _};
use crate::stream::{LinkCommand, TransferId};

const SECOND: u64 = 1_000_000;

fn engine(own: u64, peer: u64, cookie_octets: u64) -> Engine {
    let config = Config {
        engine: own,
        remote_engine: peer,
        cookie_octets,
        checkpoint_octets: 0,
        mtu: 300,
        ..Config::default()
    };
    Engine::new(config, own, at(0))
}

fn datagrams(engine: &mut Engine, now: u64) -> Vec<Bytes> {
    let mut batch = Batch::new();
    engine.poll_datagrams(at(now), ALL, &mut batch);
    engine.handle_left(at(now), batch.len() as u64);
    flatten(&batch).into_iter().map(Bytes::from).collect()
}

fn transmit(engine: &mut Engine) {
    let transfer = TransferId(0);
    engine.handle_command(
        at(0),
        LinkCommand::Transmit {
            transfer,
            length: 900,
        },
    );
    let octets = Piece::Octets(vec![5; 900].into());
    engine.handle_command(at(0), LinkCommand::Supply { transfer, octets });
}

/// The cookies of a datagram's segment, whose session has numbers of one and five octets.
fn cookies(datagram: &[u8]) -> Vec<Vec<u8>> {
    let start = 2
        + datagram[2..]
            .iter()
            .position(|octet| octet & 0x80 == 0)
            .unwrap()
        + 1;
    let count = datagram[start] >> 4;
    let mut rest = &datagram[start + 1..];
    let mut all = vec![];
    for _ in 0..count {
        assert_eq!(rest[0], 1);
        let (value, behind) = rest[2..].split_at(rest[1].into());
        all.push(value.to_vec());
        rest = behind;
    }
    all
}

fn faults(engine: &mut Engine, now: u64) -> Vec<&'static str> {
    engine.handle_timeout(at(now));
    let events = core::iter::from_fn(|| engine.poll_event());
    events
        .filter_map(|event| match event {
            DatagramEvent::Fault { rule, .. } => Some(rule),
            _ => None,
        })
        .collect()
}

/// The first cookie of a session is in all segments both ways, whichever side begins it, and a session without one has none.
#[test]
fn both_engines_send_the_first_cookie_of_a_session() {
    for (of_sender, of_receiver) in [(0, 0), (8, 0), (0, 8), (8, 8)] {
        let (mut sender, mut receiver) = (engine(2, 3, of_sender), engine(3, 2, of_receiver));
        transmit(&mut sender);
        let data = datagrams(&mut sender, 0);
        assert!(data.iter().all(|it| it.len() <= 300) && data.len() > 3);
        let first = cookies(&data[0]);
        assert_eq!(first.len(), usize::from(of_sender > 0));
        assert!(data.iter().all(|it| cookies(it) == first));
        receiver.handle_datagrams(at(0), &data);
        let (transfer, octets) = (TransferId(0), 900);
        receiver.handle_command(at(0), LinkCommand::Acknowledge { transfer, octets });
        let reports = datagrams(&mut receiver, 0);
        let expected = match (of_sender, of_receiver) {
            (0, 0) => 0,
            _ => 1,
        };
        let cookie = cookies(&reports[0]);
        assert_eq!(cookie.len(), expected);
        assert!(of_sender == 0 || cookie == first);
        sender.handle_datagrams(at(0), &reports);
        let acknowledgments = datagrams(&mut sender, 0);
        assert_eq!(cookies(&acknowledgments[0]), cookie);
        receiver.handle_datagrams(at(0), &acknowledgments);
        assert_eq!(receiver.incoming.held(), (0, 0, 1));
    }
}

/// A cookie comes with the segment that opens its session, and not before: nobody plants one in a session that is to come.
#[test]
fn a_cookie_of_a_session_that_is_not_there_is_not_remembered() {
    let (mut sender, mut receiver) = (engine(2, 3, 0), engine(3, 2, 0));
    transmit(&mut sender);
    let data = datagrams(&mut sender, 0);
    let number = &data[0][2..7];
    let behind = number.iter().position(|octet| octet & 0x80 == 0).unwrap();
    // An acknowledgment of a report that nobody sent, with a cookie.
    let mut planted = vec![9, 2];
    planted.extend_from_slice(&number[..=behind]);
    planted.extend([0x10, 1, 2, 7, 7, 5]);
    receiver.handle_datagrams(at(0), &[planted.into()]);
    receiver.handle_datagrams(at(5 * SECOND), &data);
    assert_eq!(
        faults(&mut receiver, 6 * SECOND)
            .iter()
            .filter(|it| it.contains("cookie"))
            .count(),
        0
    );
    assert_eq!(receiver.incoming.held().0, 1);
}

/// A stranger who has not seen the cookie says nothing that counts.
#[test]
fn segments_without_the_cookie_are_dropped_once_the_peer_has_it() {
    let (mut sender, mut receiver) = (engine(2, 3, 8), engine(3, 2, 0));
    transmit(&mut sender);
    let data = datagrams(&mut sender, 0);
    receiver.handle_datagrams(at(0), &data[..1]);
    let number = &data[0][2..7];
    let mut cancel = vec![12, 2];
    let behind = number.iter().position(|octet| octet & 0x80 == 0).unwrap();
    cancel.extend_from_slice(&number[..=behind]);
    cancel.extend([0, 0]);
    receiver.handle_datagrams(at(5 * SECOND), &[cancel.clone().into()]);
    assert_eq!(
        faults(&mut receiver, 6 * SECOND),
        ["a segment has no good cookie (RFC 5327 2.2)"]
    );
    assert_eq!(receiver.incoming.held().0, 1);
    cancel.truncate(cancel.len() - 2);
    cancel.extend([0x10, 1, 8]);
    cancel.extend(&cookies(&data[0])[0]);
    cancel.push(0);
    receiver.handle_datagrams(at(7 * SECOND), &[cancel.into()]);
    assert_eq!(receiver.incoming.held().0, 0);
}
