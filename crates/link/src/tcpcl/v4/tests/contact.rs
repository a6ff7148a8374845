//! Contact headers, TLS and `SESS_INIT`: RFC 9174 4.

use alloc::format;
use alloc::string::String;

use super::*;
use crate::stream::{DownReason, PeerIdentities, SessionParameters, TerminateReason};
use crate::tcpcl::v4::{IdentityPolicy, TlsPolicy};

fn with_tls(node_id: &str, tls: TlsPolicy) -> Config {
    Config {
        tls,
        ..config(node_id)
    }
}

/// A `SESS_INIT` as a peer may send it.
fn sess_init(
    keepalive_s: u16,
    segment_mru: u64,
    transfer_mru: u64,
    node_id: &[u8],
    items: &[u8],
) -> Vec<u8> {
    let mut octets = vec![7];
    octets.extend(keepalive_s.to_be_bytes());
    octets.extend(segment_mru.to_be_bytes());
    octets.extend(transfer_mru.to_be_bytes());
    octets.extend((node_id.len() as u16).to_be_bytes());
    octets.extend(node_id);
    octets.extend((items.len() as u32).to_be_bytes());
    octets.extend(items);
    octets
}

/// A passive session that has got a contact header and `init`, its events, and its messages.
fn meet(config: Config, init: &[u8]) -> (Session, Vec<LinkEvent>, Vec<Message>) {
    let mut session = Session::new(Role::Passive, config, at(0));
    session.handle_octets(at(0), Bytes::from_static(b"dtn!\x04\x00"));
    session.handle_octets(at(0), Bytes::copy_from_slice(init));
    let sent = drain(&mut session, at(0));
    let events = events(&mut session);
    (session, events, messages(&sent[6..]))
}

/// Assert that a `SESS_INIT` was refused with "Contact Failure"; the reason given to the node.
fn refused(config: Config, init: &[u8]) -> String {
    let (session, events, sent) = meet(config, init);
    assert_eq!(session.state(), State::Closed);
    assert_eq!(
        sent,
        vec![Message::SessTerm {
            flags: 0,
            reason: 4
        }]
    );
    match &events[..] {
        [LinkEvent::Down(DownReason::PeerFault(fault) | DownReason::Security(fault))] => {
            fault.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_sides_agree_on_the_smaller_keepalive_and_learn_each_others_limits_4_7() {
    let active = Config {
        keepalive_s: 20,
        segment_mru: 5_000,
        transfer_mru: 70_000,
        ..config("ipn:1.0")
    };
    let mut pair = Pair::new(active, config("dtn://two/"));
    pair.settle();
    let [LinkEvent::Up(first)] = &pair.events[0][..] else {
        panic!()
    };
    let [LinkEvent::Up(second)] = &pair.events[1][..] else {
        panic!()
    };
    let passive = Config::new(node("dtn://two/"));
    assert_eq!(
        *first,
        SessionParameters {
            peer: node("dtn://two/"),
            secured: false,
            proven: false,
            keepalive_s: 20,
            segment_mru: passive.segment_mru,
            transfer_mru: passive.transfer_mru,
            keeps_reactive_fragments: false,
        }
    );
    assert_eq!(
        (second.keepalive_s, second.segment_mru, second.transfer_mru),
        (20, 5_000, 70_000)
    );
    assert_eq!(second.peer, node("ipn:1.0"));
}

#[test]
fn the_passive_side_waits_for_the_contact_header_4_1() {
    let mut session = Session::new(Role::Passive, config("ipn:2.0"), at(0));
    assert!(drain(&mut session, at(0)).is_empty());
    session.handle_octets(at(0), Bytes::from_static(b"dtn!\x04"));
    assert!(drain(&mut session, at(0)).is_empty());
    session.handle_octets(at(0), Bytes::from_static(b"\x00"));
    assert_eq!(drain(&mut session, at(0)), b"dtn!\x04\x00");
}

#[test]
fn reserved_contact_flags_are_ignored_4_2() {
    let mut session = Session::new(Role::Passive, config("ipn:2.0"), at(0));
    session.handle_octets(at(0), Bytes::from_static(b"dtn!\x04\xff"));
    assert_eq!(session.state(), State::Initiation);
}

#[test]
fn a_stream_without_the_magic_is_closed_without_a_word_4_3() {
    let mut session = Session::new(Role::Passive, config("ipn:2.0"), at(0));
    session.handle_octets(at(0), Bytes::from_static(b"GET"));
    assert!(drain(&mut session, at(0)).is_empty());
    let events = events(&mut session);
    assert!(
        matches!(&events[..], [LinkEvent::Down(DownReason::PeerFault(fault))] if fault.contains("4.3"))
    );
}

#[test]
fn the_active_side_closes_on_a_lower_version_and_names_a_higher_one_4_3() {
    for (version, farewell) in [
        (3, vec![]),
        (
            5,
            vec![Message::SessTerm {
                flags: 0,
                reason: 2,
            }],
        ),
    ] {
        let mut session = Session::new(Role::Active, config("ipn:1.0"), at(0));
        assert_eq!(drain(&mut session, at(0)).len(), 6);
        session.handle_octets(
            at(0),
            Bytes::copy_from_slice(&[b'd', b't', b'n', b'!', version, 0]),
        );
        assert_eq!(messages(&drain(&mut session, at(0))), farewell);
        let expected = DownReason::Terminated(TerminateReason::VersionMismatch);
        assert!(
            matches!(&events(&mut session)[..], [LinkEvent::Down(reason)] if *reason == expected)
        );
    }
}

#[test]
fn a_contact_header_that_never_comes_closes_the_connection_4_1() {
    for role in [Role::Active, Role::Passive] {
        let mut session = Session::new(role, config("ipn:1.0"), at(500));
        drain(&mut session, at(500));
        assert_eq!(session.poll_timeout(), Some(at(10_500).monotonic));
        session.handle_timeout(at(10_499));
        assert_eq!(session.state(), State::Contact);
        session.handle_timeout(at(10_500));
        assert!(drain(&mut session, at(10_500)).is_empty());
        assert!(matches!(
            events(&mut session)[..],
            [LinkEvent::Down(DownReason::NegotiationTimeout)]
        ));
        assert_eq!(session.poll_timeout(), None);
    }
}

#[test]
fn a_sess_init_that_never_comes_terminates_the_session_3_3() {
    let mut session = Session::new(Role::Active, config("ipn:1.0"), at(0));
    session.handle_octets(at(0), Bytes::from_static(b"dtn!\x04\x00"));
    drain(&mut session, at(0));
    session.handle_timeout(at(10_000));
    let sent = messages(&drain(&mut session, at(10_000)));
    assert_eq!(
        sent,
        vec![Message::SessTerm {
            flags: 0,
            reason: 4
        }]
    );
}

#[test]
fn a_peer_that_claims_our_node_id_is_refused() {
    let fault = refused(
        config("ipn:2.0"),
        &sess_init(30, 1_000, 1_000, b"ipn:2.0", b""),
    );
    assert_eq!(fault, "the peer claims our node ID, ipn:2.0");
}

#[test]
fn what_is_not_a_node_id_is_refused_4_6() {
    for text in [
        &b""[..],
        b"ipn:2.1",
        b"dtn:none",
        b"nonsense",
        b"http://example/",
        b"ipn:5.0\0",
    ] {
        let fault = refused(config("ipn:2.0"), &sess_init(30, 1_000, 1_000, text, b""));
        assert!(fault.contains("4.6"), "{fault}");
    }
    let fault = refused(
        config("ipn:2.0"),
        &sess_init(30, 1_000, 1_000, b"dtn://\xff/", b""),
    );
    assert!(fault.contains("UTF-8"), "{fault}");
    let long = format!("dtn://{}/", "x".repeat(2_000));
    let fault = refused(
        config("ipn:2.0"),
        &sess_init(30, 1_000, 1_000, long.as_bytes(), b""),
    );
    assert!(fault.contains("2007"), "{fault}");
}

#[test]
fn another_node_than_the_expected_one_is_refused_4_6() {
    let picky = Config {
        expected_peer: Some(node("ipn:7.0")),
        ..config("ipn:2.0")
    };
    let fault = refused(picky.clone(), &sess_init(30, 1_000, 1_000, b"ipn:8.0", b""));
    assert!(fault.contains("ipn:8.0, not ipn:7.0"), "{fault}");
    let (session, ..) = meet(picky, &sess_init(30, 1_000, 1_000, b"ipn:7.0", b""));
    assert_eq!(session.state(), State::Idle);
}

#[test]
fn a_segment_mru_that_makes_data_dribble_is_refused_7_10() {
    let fault = refused(
        config("ipn:2.0"),
        &sess_init(30, 63, 1_000, b"ipn:1.0", b""),
    );
    assert!(fault.contains("63 octets"), "{fault}");
    let (session, ..) = meet(config("ipn:2.0"), &sess_init(30, 64, 0, b"ipn:1.0", b""));
    assert_eq!(
        session.state(),
        State::Idle,
        "a peer that takes nothing may still send"
    );
}

#[test]
fn only_unknown_critical_session_extensions_are_refused_4_8() {
    let skipped = [0, 0x80, 0x01, 0, 2, 9, 9, 0xfe, 0x12, 0x34, 0, 0];
    let (session, ..) = meet(
        config("ipn:2.0"),
        &sess_init(30, 1_000, 1_000, b"ipn:1.0", &skipped),
    );
    assert_eq!(session.state(), State::Idle);
    let critical = [0, 0x80, 0x01, 0, 0, 0x01, 0x12, 0x34, 0, 0];
    let fault = refused(
        config("ipn:2.0"),
        &sess_init(30, 1_000, 1_000, b"ipn:1.0", &critical),
    );
    assert!(fault.contains("0x1234"), "{fault}");
}

/// RFC 9174 4.8, docs/tcpcl-extensions.md 1: an item of type 0xD401 with one octet, the version.
#[test]
fn prefixes_are_kept_where_both_sides_say_so_4_8() {
    let keeping = |id| Config {
        keeps_reactive_fragments: true,
        ..config(id)
    };
    let item = [0, 0xd4, 0x01, 0, 1, 1];
    let newer = [0, 0xd4, 0x01, 0, 1, 2];
    let cases = [
        (keeping("ipn:2.0"), &item[..], true),
        (keeping("ipn:2.0"), &newer, false),
        (keeping("ipn:2.0"), b"", false),
        (config("ipn:2.0"), &item, false),
    ];
    for (config, items, kept) in cases {
        let says = config.keeps_reactive_fragments;
        let init = sess_init(30, 1_000, 1_000, b"ipn:1.0", items);
        let (session, _, sent) = meet(config, &init);
        assert_eq!(session.parameters().unwrap().keeps_reactive_fragments, kept);
        let Some(Message::SessInit(ours)) = sent.first() else {
            panic!("{sent:?}")
        };
        assert_eq!(ours.extensions[..] == item, says);
    }
}

#[test]
fn extension_items_that_disagree_with_their_length_are_refused_4_6() {
    for items in [
        &[0, 0x80, 0x01, 0, 3, 9, 9][..],
        &[0, 0x80],
        &[0, 0x80, 0x01, 0, 0, 0],
    ] {
        let fault = refused(
            config("ipn:2.0"),
            &sess_init(30, 1_000, 1_000, b"ipn:1.0", items),
        );
        assert!(fault.contains("disagree"), "{fault}");
    }
}

#[test]
fn too_many_extension_octets_exhaust_us_and_are_not_kept_4_8() {
    let mut init = sess_init(30, 1_000, 1_000, b"ipn:1.0", b"");
    let length = init.len();
    init[length - 4..].copy_from_slice(&0xffff_ffff_u32.to_be_bytes());
    let (session, _, sent) = meet(config("ipn:2.0"), &init);
    assert_eq!(session.state(), State::Closed);
    assert_eq!(
        sent,
        vec![Message::SessTerm {
            flags: 0,
            reason: 5
        }]
    );
}

#[test]
fn a_message_before_sess_init_is_unexpected_5_1_2() {
    for message in [
        &[4][..],
        &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let (session, events, sent) = meet(config("ipn:2.0"), message);
        assert_eq!(session.state(), State::Closed);
        assert!(matches!(
            events[..],
            [LinkEvent::Down(DownReason::PeerFault(_))]
        ));
        let reject = Message::MsgReject {
            reason: 3,
            rejected: message[0],
        };
        assert_eq!(
            sent,
            vec![
                reject,
                Message::SessTerm {
                    flags: 0,
                    reason: 4
                }
            ]
        );
    }
}

#[test]
fn a_session_refused_by_the_peer_is_answered_and_over_6_1() {
    let mut session = Session::new(Role::Active, config("ipn:1.0"), at(0));
    session.handle_octets(at(0), Bytes::from_static(b"dtn!\x04\x00\x05\x00\x03"));
    let sent = messages(&drain(&mut session, at(0))[6..]);
    assert!(matches!(
        sent[..],
        [
            Message::SessInit(_),
            Message::SessTerm {
                flags: 1,
                reason: 3
            }
        ]
    ));
    let expected = DownReason::Terminated(TerminateReason::Busy);
    assert!(matches!(&events(&mut session)[..], [LinkEvent::Down(reason)] if *reason == expected));
}

#[test]
fn tls_is_used_when_both_can_and_required_where_policy_says_so_4_3() {
    use TlsPolicy::{Never, Preferred, Required};
    for (ours, theirs, expected) in [
        (Never, Never, State::Idle),
        (Never, Preferred, State::Idle),
        (Preferred, Never, State::Idle),
        (Preferred, Preferred, State::Securing),
        (Preferred, Required, State::Securing),
        (Required, Required, State::Securing),
        (Required, Never, State::Closed),
        (Never, Required, State::Closed),
    ] {
        let mut pair = Pair::new(with_tls("ipn:1.0", ours), with_tls("ipn:2.0", theirs));
        pair.settle();
        for side in [0, 1] {
            assert_eq!(
                pair.sessions[side].state(),
                expected,
                "{ours:?} meets {theirs:?}"
            );
            let starts = pair.events[side]
                .iter()
                .filter(|event| matches!(event, LinkEvent::StartTls))
                .count();
            assert_eq!(starts, usize::from(expected == State::Securing));
        }
    }
}

#[test]
fn the_side_that_requires_tls_says_contact_failure_4_3() {
    let required = with_tls("ipn:2.0", TlsPolicy::Required);
    let mut session = Session::new(Role::Passive, required, at(0));
    session.handle_octets(at(0), Bytes::from_static(b"dtn!\x04\x00"));
    let sent = drain(&mut session, at(0));
    assert_eq!(sent, b"dtn!\x04\x01\x05\x00\x04");
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Down(DownReason::Security(_))]
    ));
}

#[test]
fn nothing_passes_between_contact_header_and_handshake_4_4_3() {
    let mut pair = Pair::new(
        with_tls("ipn:1.0", TlsPolicy::Required),
        with_tls("ipn:2.0", TlsPolicy::Required),
    );
    pair.settle();
    pair.transmit(0, 0, b"early");
    assert!(drain(&mut pair.sessions[0], pair.now).is_empty());
    // Octets that came in the clear would otherwise be taken for something said inside TLS.
    for early in [&b"dtn!\x04\x01\x04"[..], b"dtn!\x04\x01"] {
        let mut session = Session::new(
            Role::Passive,
            with_tls("ipn:2.0", TlsPolicy::Preferred),
            at(0),
        );
        session.handle_octets(at(0), Bytes::from_static(early));
        if early.len() == 6 {
            assert_eq!(session.state(), State::Securing);
            session.handle_octets(at(0), Bytes::from_static(&[4]));
        }
        let events = events(&mut session);
        assert!(matches!(
            &events[..],
            [
                LinkEvent::StartTls,
                LinkEvent::Down(DownReason::Security(_))
            ]
        ));
    }
}

#[test]
fn a_failed_handshake_closes_without_a_word_4_4_3() {
    let mut pair = Pair::new(
        with_tls("ipn:1.0", TlsPolicy::Preferred),
        with_tls("ipn:2.0", TlsPolicy::Preferred),
    );
    pair.settle();
    pair.command(0, LinkCommand::Insecure);
    assert!(drain(&mut pair.sessions[0], pair.now).is_empty());
    assert!(matches!(
        events(&mut pair.sessions[0])[..],
        [LinkEvent::Down(DownReason::Security(_))]
    ));
}

#[test]
fn a_refusal_that_is_heard_after_the_handshake_closes_too() {
    let mut pair = Pair::new(
        with_tls("ipn:1.0", TlsPolicy::Preferred),
        with_tls("ipn:2.0", TlsPolicy::Preferred),
    );
    pair.settle();
    let identities = PeerIdentities::default();
    pair.command(0, LinkCommand::Secured { identities });
    assert!(
        !drain(&mut pair.sessions[0], pair.now).is_empty(),
        "its SESS_INIT"
    );
    pair.command(0, LinkCommand::Insecure);
    assert!(matches!(
        events(&mut pair.sessions[0])[..],
        [LinkEvent::Down(DownReason::Security(_))]
    ));
}

#[test]
fn a_handshake_that_takes_too_long_is_given_up_4_1() {
    let mut pair = Pair::new(
        with_tls("ipn:1.0", TlsPolicy::Preferred),
        with_tls("ipn:2.0", TlsPolicy::Preferred),
    );
    pair.settle();
    pair.jump();
    for side in [0, 1] {
        assert!(matches!(
            pair.events[side][..],
            [
                LinkEvent::StartTls,
                LinkEvent::Down(DownReason::NegotiationTimeout)
            ]
        ));
    }
}

/// Secure both sides of a pair; the second one judges `identities` by `policy`.
fn judged(policy: IdentityPolicy, identities: PeerIdentities) -> (Pair, bool) {
    let active = Config {
        identity: IdentityPolicy::Unauthenticated,
        ..with_tls("ipn:1.0", TlsPolicy::Required)
    };
    let passive = Config {
        identity: policy,
        ..with_tls("ipn:2.0", TlsPolicy::Required)
    };
    let mut pair = Pair::new(active, passive);
    pair.settle();
    pair.command(
        0,
        LinkCommand::Secured {
            identities: PeerIdentities::default(),
        },
    );
    pair.command(1, LinkCommand::Secured { identities });
    pair.settle();
    let up = pair.events[1]
        .iter()
        .any(|event| matches!(event, LinkEvent::Up(parameters) if parameters.secured));
    (pair, up)
}

#[test]
fn the_certificate_must_prove_what_policy_asks_for_4_4_4() {
    use IdentityPolicy::{NodeId, NodeIdAndNetwork, NodeIdElseNetwork, Unauthenticated};
    let ids = |list: &[&str]| list.iter().map(|id| node(id)).collect::<Vec<_>>();
    let (right, wrong, none) = (ids(&["ipn:9.0", "ipn:1.0"]), ids(&["ipn:9.0"]), ids(&[]));
    for (node_ids, dns, address, expected) in [
        // Allowed by: node ID, node ID or else network, node ID and network, unauthenticated.
        (&right, None, None, [true, true, false, true]),
        (&right, Some(false), None, [true, true, false, true]),
        (&right, Some(true), None, [true, true, true, true]),
        (&right, Some(false), Some(true), [true, true, true, true]),
        (&wrong, Some(true), Some(true), [false, false, false, true]),
        (&none, Some(true), None, [false, true, false, true]),
        (&none, None, Some(true), [false, true, false, true]),
        (&none, Some(false), Some(false), [false, false, false, true]),
        (&none, None, None, [false, false, false, true]),
    ] {
        for (policy, expected) in [NodeId, NodeIdElseNetwork, NodeIdAndNetwork, Unauthenticated]
            .into_iter()
            .zip(expected)
        {
            let identities = PeerIdentities {
                node_ids: node_ids.clone(),
                dns_matches: dns,
                address_matches: address,
            };
            let (pair, up) = judged(policy, identities.clone());
            assert_eq!(up, expected, "{policy:?} {identities:?}");
            if !expected {
                let last = pair.events[1].last();
                assert!(
                    matches!(last, Some(LinkEvent::Down(DownReason::Security(_)))),
                    "{last:?}"
                );
                // RFC 9174 4.4.4.2, 4.4.4.3: the session ends with "Contact Failure".
                let failure = DownReason::Terminated(TerminateReason::ContactFailure);
                assert!(
                    matches!(pair.events[0].last(), Some(LinkEvent::Down(reason)) if *reason == failure)
                );
            }
        }
    }
}
