//! Contact headers: RFC 7242 4.

use super::*;
use crate::stream::SessionParameters;
use crate::tcpcl::config::TlsPolicy;

/// The events of a session that got these octets first, and all that it said.
fn meet(config: Config, octets: &[u8]) -> (Session, Vec<LinkEvent>, Vec<u8>) {
    let mut session = Session::new(config, at(0));
    for octet in octets {
        session.handle_octets(at(0), Bytes::copy_from_slice(&[*octet]));
    }
    let sent = drain(&mut session, at(0));
    let events = events(&mut session);
    (session, events, sent)
}

fn up(config: Config, octets: &[u8]) -> SessionParameters {
    match &meet(config, octets).1[..] {
        [LinkEvent::Up(parameters)] => parameters.clone(),
        other => panic!("{other:?}"),
    }
}

/// RFC 7242 4, 4.1: both sides send their contact headers at once.
#[test]
fn both_sides_begin_with_their_contact_headers() {
    let mut session = Session::new(config("dtn://here/"), at(0));
    assert_eq!(
        drain(&mut session, at(0)),
        b"dtn!\x03\x0d\x00\x1e\x0bdtn://here/"
    );
    let keeping = Config {
        keeps_reactive_fragments: true,
        ..config("ipn:2.0")
    };
    let mut session = Session::new(keeping, at(0));
    assert_eq!(
        drain(&mut session, at(0)),
        b"dtn!\x03\x0f\x00\x1e\x07ipn:2.0"
    );
}

/// RFC 7242 4.1: any endpoint of the node says which node it is; programs of version 6 bundles write no final slash.
#[test]
fn any_endpoint_names_its_node() {
    for (endpoint, name) in [
        ("ipn:7.0", "ipn:7.0"),
        ("ipn:7.42", "ipn:7.0"),
        ("dtn://there", "dtn://there/"),
        ("dtn://there/", "dtn://there/"),
        ("dtn://there/app", "dtn://there/"),
    ] {
        let parameters = up(config("ipn:2.0"), &header(1, 5, endpoint));
        assert_eq!(parameters.peer, node(name));
    }
}

/// RFC 7242 4.2: a capability is there when both sides offer it, and parts are kept only where they are acknowledged.
#[test]
fn what_both_offer_is_agreed_on() {
    for ours in [false, true] {
        for theirs in 0..=u8::MAX {
            let config = Config {
                keeps_reactive_fragments: ours,
                ..config("ipn:2.0")
            };
            let parameters = up(config, &header(theirs, 5, "ipn:1.0"));
            let both = ACKNOWLEDGED | FRAGMENTED;
            assert_eq!(
                parameters.keeps_reactive_fragments,
                ours && theirs & both == both,
                "{theirs:#x}"
            );
            assert_eq!(parameters.keepalive_s, 5);
            assert!(!parameters.secured);
        }
    }
}

/// RFC 7242 4.2: the smaller interval; 0 on either side is none.
#[test]
fn the_smaller_keepalive_interval_holds() {
    for (ours, theirs, agreed) in [(30, 15, 15), (15, 30, 15), (0, 15, 0), (15, 0, 0)] {
        let config = Config {
            keepalive_s: ours,
            ..config("ipn:2.0")
        };
        let parameters = up(config, &header(1, theirs, "ipn:1.0"));
        assert_eq!(parameters.keepalive_s, agreed);
    }
}

/// RFC 7242 6.1: a connection is refused after our contact header, with a reason.
#[test]
fn headers_that_name_no_other_node_are_refused() {
    let expecting = Config {
        expected_peer: Some(node("ipn:9.0")),
        ..config("ipn:2.0")
    };
    let secure = Config {
        tls: TlsPolicy::Required,
        ..config("ipn:2.0")
    };
    for (config, endpoint) in [
        (config("ipn:2.0"), ""),
        (config("ipn:2.0"), "dtn:none"),
        (config("ipn:2.0"), "nonsense"),
        (config("ipn:2.0"), "ipn:2.7"),
        (expecting, "ipn:1.0"),
        (secure, "ipn:1.0"),
    ] {
        let (session, events, sent) = meet(config, &header(1, 5, endpoint));
        assert_eq!(session.state(), State::Closed);
        let head = header(0, 0, "ipn:2.0").len();
        assert_eq!(messages(&sent[head..]), [shutdown(Some(2))], "{endpoint}");
        assert!(matches!(
            events[..],
            [LinkEvent::Down(
                DownReason::PeerFault(_) | DownReason::Security(_)
            )]
        ));
    }
}

/// RFC 7242 4.2: without the magic the connection ends, and nothing more is said.
#[test]
fn other_protocols_are_not_talked_to() {
    for octets in [&b"GET / HTTP/1.1"[..], b"dtx", b"dtn?"] {
        let (session, events, sent) = meet(config("ipn:2.0"), octets);
        assert_eq!(session.state(), State::Closed);
        assert!(sent.is_empty());
        assert!(fault(&events).contains("RFC 7242 4.2"));
    }
}

/// RFC 7242 6.1: reason 1 where versions do not match, as IBR-DTN says it to a node of version 4.
#[test]
fn another_version_is_refused_by_its_name() {
    for version in [0, 2, 4, 5, 255] {
        let (_, events, sent) = meet(config("ipn:2.0"), &[b'd', b't', b'n', b'!', version, 0]);
        let head = header(0, 0, "ipn:2.0").len();
        assert_eq!(messages(&sent[head..]), [shutdown(Some(1))]);
        let expected = DownReason::Terminated(TerminateReason::VersionMismatch);
        assert!(matches!(&events[..], [LinkEvent::Down(reason)] if *reason == expected));
    }
}

#[test]
fn a_peer_that_says_nothing_is_waited_for_in_vain_once() {
    let mut session = Session::new(config("ipn:2.0"), at(0));
    drain(&mut session, at(0));
    session.handle_octets(at(9_000), Bytes::from_static(b"dtn!\x03"));
    assert_eq!(session.poll_timeout(), Some(at(10_000).monotonic));
    session.handle_timeout(at(10_000));
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Down(DownReason::NegotiationTimeout)]
    ));
}

#[test]
fn an_endpoint_longer_than_any_is_not_waited_for() {
    let mut octets = b"dtn!\x03\x01\x00\x05".to_vec();
    octets.extend(b"\x88\x01");
    let (_, events, _) = meet(config("ipn:2.0"), &octets);
    assert!(fault(&events).contains("1025 octets"), "{events:?}");
    let (_, events, _) = meet(
        config("ipn:2.0"),
        b"dtn!\x03\x01\x00\x05\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
    );
    assert!(fault(&events).contains("RFC 6256"), "{events:?}");
    let (_, events, _) = meet(config("ipn:2.0"), b"dtn!\x03\x01\x00\x05\x02\xff\xff");
    assert!(fault(&events).contains("not text"), "{events:?}");
}
