//! Sessions of either version with peers of either.

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{Instant, Now};

use super::*;
use crate::stream::{
    DownReason, Gather, LinkCommand, LinkEvent, StreamSession, TerminateReason, TransferId,
};

fn now() -> Now {
    Now {
        monotonic: Instant::START,
        ..Now::default()
    }
}

fn config(node_id: &str) -> Config {
    Config::new(node_id.parse().unwrap())
}

fn drain(session: &mut Session) -> Vec<u8> {
    let mut gather = Gather::new();
    session.poll_octets(now(), 1 << 20, &mut gather);
    let mut octets = Vec::new();
    for piece in gather.pieces() {
        match piece {
            Piece::Octets(bytes) => octets.extend_from_slice(bytes),
            Piece::Extent(_) => panic!("nothing is read here"),
        }
    }
    octets
}

fn events(session: &mut Session) -> Vec<LinkEvent> {
    core::iter::from_fn(|| session.poll_event()).collect()
}

/// Let two sessions talk in chunks until both are silent; what happened to each.
fn talk(sessions: &mut [Session; 2], chunk: usize) -> [Vec<LinkEvent>; 2] {
    let mut happened = [Vec::new(), Vec::new()];
    loop {
        let mut moved = 0;
        for side in [0, 1] {
            let octets = drain(&mut sessions[side]);
            moved += octets.len();
            for piece in octets.chunks(chunk) {
                sessions[1 - side].handle_octets(now(), Bytes::copy_from_slice(piece));
                happened[1 - side].extend(events(&mut sessions[1 - side]));
            }
            happened[side].extend(events(&mut sessions[side]));
        }
        if moved == 0 {
            return happened;
        }
    }
}

#[test]
fn who_accepts_speaks_the_version_that_the_peer_begins_with() {
    for version in [Version::V3, Version::V4] {
        for chunk in [1, 2, 5, 7, 1_000] {
            let mut sessions = [
                Session::dial(version, config("ipn:1.0"), now()),
                Session::accept(config("ipn:2.0"), now()),
            ];
            let happened = talk(&mut sessions, chunk);
            for (side, peer) in [(0, "ipn:2.0"), (1, "ipn:1.0")] {
                let [LinkEvent::Up(parameters)] = &happened[side][..] else {
                    panic!("{:?}", happened[side]);
                };
                assert_eq!(parameters.peer, peer.parse().unwrap());
                assert_eq!(sessions[side].version(), version);
                assert_eq!(sessions[side].peer_version(), Some(version));
                assert_eq!(sessions[side].parameters(), Some(parameters));
            }
            let (transfer, length) = (TransferId(0), 3);
            let octets = Piece::Octets(Bytes::from_static(b"one"));
            sessions[1].handle_command(now(), LinkCommand::Transmit { transfer, length });
            sessions[1].handle_command(now(), LinkCommand::Supply { transfer, octets });
            assert_eq!(sessions[1].queued_octets(), 3);
            let happened = talk(&mut sessions, chunk);
            assert!(matches!(
                happened[0].last(),
                Some(LinkEvent::Segment { end: true, .. })
            ));
            let octets = 3;
            sessions[0].handle_command(now(), LinkCommand::Acknowledge { transfer, octets });
            let happened = talk(&mut sessions, chunk);
            assert!(matches!(happened[1][..], [LinkEvent::Transmitted { .. }]));
            assert!(!sessions[1].may_have_octets());
        }
    }
}

macro_rules! capture {
    ($name:literal) => {
        &include_bytes!(concat!("../../tests/data/captures/", $name, ".bin"))[..]
    };
}

fn mismatch(events: &[LinkEvent]) -> bool {
    let reason = DownReason::Terminated(TerminateReason::VersionMismatch);
    matches!(events.last(), Some(LinkEvent::Down(down)) if *down == reason)
}

/// RFC 9174 4.3: programs of version 3 that accept a connection say their contact header at once, whatever they are told.
#[test]
fn peers_of_version_3_are_found_by_dialling_version_4() {
    for octets in [
        capture!("v3/ion-bpv7-0-s2c"),
        capture!("v3/ibrdtn-0-s2c"),
        capture!("v3/dtnme-ibrdtn-0-s2c"),
        capture!("v3/hdtn-0-s2c"),
    ] {
        let mut session = Session::dial(Version::V4, config("ipn:9.0"), now());
        assert_eq!(drain(&mut session), b"dtn!\x04\x00");
        for octet in octets.get(..20).unwrap() {
            session.handle_octets(now(), Bytes::copy_from_slice(&[*octet]));
        }
        assert!(mismatch(&events(&mut session)));
        assert_eq!(session.peer_version(), Some(Version::V3));
        assert!(
            drain(&mut session).is_empty(),
            "a peer of version 3 knows no SESS_TERM"
        );
        let mut session = Session::dial(Version::V3, config("ipn:9.0"), now());
        session.handle_octets(now(), Bytes::from_static(octets));
        assert!(matches!(
            events(&mut session).first(),
            Some(LinkEvent::Up(_))
        ));
        assert_eq!(session.peer_version(), Some(Version::V3));
    }
}

/// RFC 7242 6.1: dtn7-rs answers version 3 with version 4.
#[test]
fn peers_of_version_4_are_found_by_dialling_version_3() {
    let mut session = Session::dial(Version::V3, config("dtn://disc-a/"), now());
    drain(&mut session);
    session.handle_octets(
        now(),
        Bytes::from_static(capture!("ibrdtn-tcpclv3-meets-s2c")),
    );
    assert!(mismatch(&events(&mut session)));
    assert_eq!(session.peer_version(), Some(Version::V4));
    assert_eq!(
        drain(&mut session),
        b"\x52\x01",
        "as IBR-DTN did, but for the delay"
    );
}

/// IBR-DTN gave up since it was answered with version 4; here it is answered with its own.
#[test]
fn ibrdtn_is_answered_in_its_own_version() {
    for chunk in [1, 4, 100] {
        let mut session = Session::accept(config("ipn:2.0"), now());
        let (header, shutdown) = capture!("ibrdtn-tcpclv3-meets-c2s").split_at(21);
        for octets in header.chunks(chunk) {
            session.handle_octets(now(), Bytes::from_static(octets));
        }
        assert!(drain(&mut session).starts_with(b"dtn!\x03"));
        assert!(matches!(events(&mut session)[..], [LinkEvent::Up(_)]));
        session.handle_octets(now(), Bytes::from_static(shutdown));
        drain(&mut session);
        assert!(mismatch(&events(&mut session)));
    }
}

/// A peer that ends the connection, or waits for more of a contact header, has not said what it speaks.
#[test]
fn a_peer_that_ends_before_its_contact_header_speaks_no_version() {
    for version in [Version::V4, Version::V3] {
        let mut session = Session::dial(version, config("ipn:9.0"), now());
        session.handle_octets(now(), Bytes::from_static(b"dtn"));
        session.handle_command(now(), LinkCommand::Disconnected);
        assert!(matches!(events(&mut session)[..], [LinkEvent::Down(_)]));
        assert_eq!(session.peer_version(), None);
    }
}

#[test]
fn a_session_that_ended_before_the_peer_spoke_stays_over() {
    let mut session = Session::accept(config("ipn:2.0"), now());
    let reason = TerminateReason::Busy;
    session.handle_command(now(), LinkCommand::Terminate { reason });
    assert_eq!(events(&mut session).len(), 1);
    session.handle_octets(now(), Bytes::from_static(capture!("v3/ion-bpv7-0-c2s")));
    assert!(events(&mut session).is_empty());
    assert!(drain(&mut session).is_empty());
}

#[test]
fn who_accepts_waits_no_longer_than_negotiation_may_take() {
    let mut session = Session::accept(config("ipn:2.0"), now());
    let deadline = session.poll_timeout();
    session.handle_octets(now(), Bytes::from_static(b"dtn!"));
    assert_eq!(session.poll_timeout(), deadline);
    session.handle_octets(now(), Bytes::from_static(b"\x03"));
    assert_eq!(session.poll_timeout(), deadline);
    session.handle_timeout(Now {
        monotonic: deadline.unwrap(),
        ..now()
    });
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Down(DownReason::NegotiationTimeout)]
    ));
}
