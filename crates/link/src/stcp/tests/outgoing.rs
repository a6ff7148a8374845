//! The side that dials.

use super::*;

#[test]
fn a_bundle_is_sent_when_the_session_is_asked_again() {
    let mut session = sender(Config::new(Framing::Stcp));
    transmit(&mut session, 0, 100, 6);
    transmit(&mut session, 1, 200, 3);
    assert_eq!(session.queued_octets(), 9);
    let mut written = poll(&mut session, at(0), 8);
    assert_eq!(written.len(), 8);
    assert_eq!(session.queued_octets(), 3);
    written.extend(poll(&mut session, at(0), 8));
    assert_eq!(
        sent(&events(&mut session)),
        [],
        "no bundle was whole before"
    );
    assert!(session.may_have_octets());
    written.extend(poll(&mut session, at(0), 8));
    assert_eq!(sent(&events(&mut session)), [0]);
    assert_eq!(poll(&mut session, at(0), 8), []);
    assert_eq!(sent(&events(&mut session)), [1]);
    assert!(!session.may_have_octets());
    let mut expected = vec![0, 0, 0, 6];
    expected.extend(log_octets(100, 6));
    expected.extend([0, 0, 0, 3]);
    expected.extend(log_octets(200, 3));
    assert_eq!(written, expected);
}

#[test]
fn what_is_not_known_to_be_written_fails_with_the_connection() {
    let mut session = sender(Config::new(Framing::Mtcp));
    for transfer in 0..3 {
        transmit(&mut session, transfer, 0, 5);
    }
    poll(&mut session, at(0), 6);
    poll(&mut session, at(0), 6);
    session.handle_command(at(0), LinkCommand::Disconnected);
    let said = events(&mut session);
    assert_eq!(sent(&said), [0]);
    let failed = said.iter().filter_map(|event| match event {
        LinkEvent::Failed {
            transfer,
            refused: None,
            ..
        } => Some(transfer.0),
        _ => None,
    });
    assert_eq!(failed.collect::<Vec<_>>(), [1, 2]);
    assert_eq!(down(&said), Some(&DownReason::Disconnected));
    assert_eq!(poll(&mut session, at(0), 100), []);
    assert_eq!(session.poll_timeout(), None);
}

#[test]
fn what_has_keepalives_says_that_it_is_there_and_nothing_else_does() {
    let mut session = sender(Config::new(Framing::Stcp));
    assert_eq!(session.poll_timeout(), Some(at(15_000).monotonic));
    session.handle_timeout(at(15_000));
    assert!(session.may_have_octets());
    assert_eq!(poll(&mut session, at(15_000), 100), [0; 4]);
    assert!(!session.may_have_octets());
    assert_eq!(session.poll_timeout(), Some(at(30_000).monotonic));
    transmit(&mut session, 0, 0, 1);
    poll(&mut session, at(20_000), 100);
    assert_eq!(session.poll_timeout(), Some(at(35_000).monotonic));
    for framing in [Framing::StcpDraft, Framing::Mtcp] {
        assert_eq!(sender(Config::new(framing)).poll_timeout(), None);
    }
    let config = Config {
        keepalive: None,
        ..Config::new(Framing::Stcp)
    };
    assert_eq!(sender(config).poll_timeout(), None);
    let mut session = sender(Config::new(Framing::Encapsulation));
    session.handle_timeout(at(15_000));
    assert_eq!(poll(&mut session, at(15_000), 100), [0xe0]);
}

#[test]
fn headers_of_encapsulation_packets_are_as_short_as_they_can_be() {
    for (length, head) in [
        (1, "f103"),
        (253, "f1ff"),
        (254, "f2000102"),
        (65_531, "f200ffff"),
        (65_532, "f300000000010004"),
    ] {
        let mut session = sender(Config::new(Framing::Encapsulation));
        transmit(&mut session, 0, 0, length);
        let written = poll(&mut session, at(0), 100_000);
        let (said, bundle) = written.split_at(head.len() / 2);
        assert_eq!(said, hex(head), "{length}");
        assert_eq!(bundle, log_octets(0, length));
    }
}

#[test]
fn no_keepalive_comes_between_the_octets_of_a_bundle() {
    let mut session = sender(Config::new(Framing::Stcp));
    let (transfer, length) = (TransferId(0), 4);
    session.handle_command(at(0), LinkCommand::Transmit { transfer, length });
    let supply = |session: &mut Session| {
        let octets = Piece::Octets(Bytes::from_static(&[7, 7]));
        session.handle_command(at(0), LinkCommand::Supply { transfer, octets });
    };
    supply(&mut session);
    assert_eq!(poll(&mut session, at(0), 100), [0, 0, 0, 4, 7, 7]);
    session.handle_timeout(at(15_000));
    assert_eq!(poll(&mut session, at(15_000), 100), []);
    supply(&mut session);
    assert_eq!(poll(&mut session, at(16_000), 100), [7, 7]);
}

#[test]
fn a_peer_that_talks_is_told_of() {
    let mut session = sender(Config::new(Framing::Stcp));
    session.handle_octets(at(0), Bytes::from_static(b"dtn!\x04"));
    let said = events(&mut session);
    assert!(fault(&said).contains("may speak another convergence layer"));
}

#[test]
fn an_ending_sender_finishes_what_has_begun() {
    let mut session = sender(Config::new(Framing::Mtcp));
    transmit(&mut session, 0, 0, 5);
    transmit(&mut session, 1, 0, 5);
    let mut written = poll(&mut session, at(0), 3);
    terminate(&mut session, at(0));
    transmit(&mut session, 2, 0, 5);
    let said = events(&mut session);
    let failed = said
        .iter()
        .filter(|it| matches!(it, LinkEvent::Failed { .. }));
    assert_eq!(failed.count(), 2);
    assert_eq!(down(&said), None);
    written.extend(poll(&mut session, at(0), 100));
    assert_eq!(written.len(), 6);
    assert_eq!(down(&events(&mut session)), None);
    assert_eq!(poll(&mut session, at(0), 100), []);
    let said = events(&mut session);
    assert_eq!(sent(&said), [0]);
    let ended = DownReason::Terminated(TerminateReason::Unknown);
    assert_eq!(down(&said), Some(&ended));
}

#[test]
fn a_bundle_given_up_before_it_begins_is_dropped_and_ends_the_session_after() {
    let mut session = sender(Config::new(Framing::Mtcp));
    transmit(&mut session, 0, 0, 5);
    transmit(&mut session, 1, 0, 5);
    poll(&mut session, at(0), 3);
    let cancel = |session: &mut Session, transfer| {
        let transfer = TransferId(transfer);
        session.handle_command(at(0), LinkCommand::Cancel { transfer });
        events(session)
    };
    assert!(matches!(
        cancel(&mut session, 1).as_slice(),
        [LinkEvent::Failed {
            transfer: TransferId(1),
            ..
        }]
    ));
    let said = cancel(&mut session, 0);
    assert!(matches!(said[0], LinkEvent::Failed { .. }));
    assert!(down(&said).is_some());
}

#[test]
fn stcp_takes_no_bundle_whose_length_it_cannot_say() {
    let longest = u64::from(u32::MAX);
    let mut session = sender(Config::new(Framing::Stcp));
    transmit(&mut session, 0, 0, longest + 1);
    assert!(matches!(
        events(&mut session).as_slice(),
        [LinkEvent::Failed {
            refused: Some(RefuseReason::NoResources),
            ..
        }]
    ));
    for (framing, head) in [
        (Framing::Stcp, "ffffffff"),
        (Framing::Mtcp, "5affffffff"),
        (Framing::StcpDraft, "821affffffff5affffffff"),
    ] {
        let mut session = sender(Config::new(framing));
        transmit(&mut session, 0, 0, longest);
        let mut out = Gather::new();
        session.poll_octets(at(0), usize::MAX, &mut out);
        let head = hex(head);
        assert_eq!(out.octets(), longest + head.len() as u64);
        assert_eq!(out.pieces()[0], Piece::Octets(head.into()));
    }
    let mut session = sender(Config::new(Framing::Mtcp));
    transmit(&mut session, 0, 0, longest + 1);
    let mut out = Gather::new();
    session.poll_octets(at(0), 16, &mut out);
    assert_eq!(
        out.pieces()[0],
        Piece::Octets(hex("5b0000000100000000").into())
    );
}

#[test]
fn a_session_that_accepted_takes_no_bundles() {
    for framing in Framing::ALL {
        let mut session = Session::accept(Config::new(framing), at(0));
        transmit(&mut session, 0, 0, 5);
        assert!(matches!(
            events(&mut session).as_slice(),
            [LinkEvent::Failed { refused: None, .. }]
        ));
        assert_eq!(poll(&mut session, at(0), 100), []);
    }
}
