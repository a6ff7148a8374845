//! The side that accepts.

use super::*;

fn receiver(framing: Framing) -> Session {
    let config = Config {
        transfer_mru: 1_000,
        transfer_timeout: Some(Duration::from_secs(5)),
        ..Config::new(framing)
    };
    Session::accept(config, at(0))
}

/// The events that a stream leads to, whatever its chunks are.
fn hear(framing: Framing, stream: &str) -> Vec<LinkEvent> {
    let stream = hex(stream);
    let mut all = Vec::new();
    for length in [1, 2, 3, stream.len().max(1)] {
        let mut session = receiver(framing);
        let mut said = Vec::new();
        for chunk in stream.chunks(length) {
            session.handle_octets(at(0), Bytes::copy_from_slice(chunk));
            said.extend(events(&mut session));
        }
        all = said;
    }
    all
}

#[test]
fn a_bundle_in_pieces_is_told_as_it_comes_and_its_length_at_the_start() {
    let mut session = receiver(Framing::Mtcp);
    session.handle_octets(at(0), Bytes::from_static(&[0x43, 1]));
    session.handle_octets(at(0), Bytes::from_static(&[2, 3, 0x41, 9]));
    let said = events(&mut session);
    let told: Vec<_> = said
        .iter()
        .map(|event| match event {
            LinkEvent::Segment {
                transfer,
                octets,
                start,
                end,
                length,
            } => (transfer.0, octets.as_ref(), *start, *end, *length),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            (0, &[1][..], true, false, Some(3)),
            (0, &[2, 3][..], false, true, None),
            (1, &[9][..], true, true, Some(1)),
        ]
    );
    assert_eq!(session.poll_timeout(), None, "nothing is waited for");
    assert!(!session.may_have_octets());
    assert_eq!(poll(&mut session, at(0), 100), []);
}

#[test]
fn heads_of_any_width_are_taken_and_empty_frames_passed_over() {
    let first = "ab".repeat(17);
    for (framing, heads) in [
        (Framing::Stcp, ["0000000000000011", "0000000000000002"]),
        (Framing::Mtcp, ["5811", "42"]),
        (Framing::Mtcp, ["40590011", "5b0000000000000002"]),
        (
            Framing::Mtcp,
            ["58005a00000011", "4058005b00000000000000005802"],
        ),
        (Framing::StcpDraft, ["82115811", "820242"]),
        (Framing::Encapsulation, ["f113", "f104"]),
        // Idle packets with and without content, headers longer than needed, and what users may write into them.
        (
            Framing::Encapsulation,
            [
                "e0e104ffffe20000060000f2ff0015",
                "e3000000000000090ae0f3ffffff0000000a",
            ],
        ),
        (
            Framing::StcpDraft,
            ["82004098021900115811", "8218025a00000002"],
        ),
    ] {
        let [before, between] = heads;
        let stream = [before, &first, between, "7777"].concat();
        assert_eq!(
            bundles(&hear(framing, &stream)),
            [vec![0xab; 17], vec![0x77; 2]],
            "{stream}"
        );
    }
}

#[test]
fn a_bundle_as_long_as_is_taken_is_and_a_longer_one_is_a_fault() {
    for (framing, longest, longer) in [
        (Framing::Stcp, "000003e8", "000003e9"),
        (Framing::Mtcp, "5903e8", "5903e9"),
        (Framing::StcpDraft, "821903e85903e8", "821903e95903e9"),
        (Framing::Encapsulation, "f20003ec", "f20003ed"),
    ] {
        let whole = String::from(longest) + &"ab".repeat(1_000);
        assert_eq!(bundles(&hear(framing, &whole)), [vec![0xab; 1_000]]);
        let said = hear(framing, longer);
        let why = fault(&said);
        assert!(
            why.contains("1001 octets") && why.contains("1000 is the most"),
            "{why}"
        );
        assert_eq!(said.len(), 1);
    }
}

#[test]
fn a_broken_framing_is_named_and_what_was_whole_stays() {
    for (framing, stream, rule) in [
        (
            Framing::Mtcp,
            "41ff5f",
            "0x5f, which begins no CBOR byte string",
        ),
        (Framing::Mtcp, "41ff00", "0x00, which begins no"),
        (Framing::Mtcp, "41ff5c", "0x5c, which"),
        (
            Framing::Mtcp,
            "41ff5bffffffffffffffff",
            "18446744073709551615 octets",
        ),
        (Framing::Stcp, "00000001ff82182a58", "2182621784 octets"),
        (
            Framing::StcpDraft,
            "820141ff9f",
            "0x9f, which begins no CBOR array",
        ),
        (Framing::StcpDraft, "820141ff83", "3 items"),
        (Framing::StcpDraft, "820141ff8241", "0x41 begins no length"),
        (
            Framing::StcpDraft,
            "820141ff820161",
            "0x61 begins no byte string",
        ),
        (
            Framing::StcpDraft,
            "820141ff82025f",
            "0x5f begins no byte string",
        ),
        (
            Framing::StcpDraft,
            "820141ff820243",
            "2 octets is in a byte string of 3",
        ),
        (
            Framing::StcpDraft,
            "820141ff00000001ff",
            "0x00, which begins no CBOR array",
        ),
        (
            Framing::Encapsulation,
            "f103fff0",
            "0xf0 begins no encapsulation packet",
        ),
        (
            Framing::Encapsulation,
            "f103ff9f",
            "0x9f begins no encapsulation packet",
        ),
        (
            Framing::Encapsulation,
            "f103ffe6000004",
            "an encapsulation packet of protocol 1",
        ),
        (
            Framing::Encapsulation,
            "f103fff101",
            "1 octets with a header of 2",
        ),
        (
            Framing::Encapsulation,
            "f103ffe2000003",
            "3 octets with a header of 4",
        ),
    ] {
        let said = hear(framing, stream);
        let why = fault(&said);
        assert!(why.contains(rule), "{stream}: {why}");
        assert_eq!(bundles(&said[..said.len() - 1]), [vec![0xff]], "{stream}");
    }
}

#[test]
fn a_stream_that_ends_within_a_bundle_is_a_fault_and_abandons_it() {
    let mut session = receiver(Framing::Stcp);
    session.handle_octets(at(0), Bytes::from_static(&[0, 0, 0, 9, 1, 2]));
    session.handle_command(at(0), LinkCommand::Disconnected);
    let said = events(&mut session);
    assert!(fault(&said).contains("after 2 of a bundle's 9 octets"));
    assert!(matches!(
        said[1],
        LinkEvent::Abandoned {
            transfer: TransferId(0),
            refused: None
        }
    ));
    let mut session = receiver(Framing::Stcp);
    session.handle_octets(at(0), Bytes::from_static(&[0, 0]));
    session.handle_command(at(0), LinkCommand::Disconnected);
    assert!(fault(&events(&mut session)).contains("within the length"));
}

#[test]
fn a_refused_bundle_is_skipped_and_the_next_one_taken() {
    let mut session = receiver(Framing::Stcp);
    session.handle_octets(at(0), Bytes::from_static(&[0, 0, 0, 9, 1, 2]));
    let (transfer, reason) = (TransferId(0), RefuseReason::NoResources);
    session.handle_command(at(0), LinkCommand::Refuse { transfer, reason });
    events(&mut session);
    let rest = [3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 1, 42];
    session.handle_octets(at(0), Bytes::copy_from_slice(&rest));
    let said = events(&mut session);
    assert!(matches!(
        said.as_slice(),
        [LinkEvent::Segment { transfer: TransferId(1), octets, end: true, .. }] if octets == &[42][..]
    ));
    // Nobody is told of acknowledgments.
    let (transfer, octets) = (TransferId(1), 1);
    session.handle_command(at(0), LinkCommand::Acknowledge { transfer, octets });
    assert_eq!(poll(&mut session, at(0), 100), []);
    assert_eq!(session.state(), State::Open);
}

#[test]
fn a_bundle_that_comes_no_further_ends_the_session_unless_nobody_reads() {
    let mut session = receiver(Framing::Mtcp);
    session.handle_octets(at(0), Bytes::from_static(&[0x43, 1]));
    assert_eq!(session.poll_timeout(), Some(at(5_000).monotonic));
    session.handle_octets(at(3_000), Bytes::from_static(&[2]));
    session.handle_timeout(at(5_000));
    assert_eq!(session.poll_timeout(), Some(at(8_000).monotonic));
    session.handle_timeout(at(8_000));
    assert_eq!(
        down(&events(&mut session)),
        Some(&DownReason::TransferTimeout)
    );

    let mut session = receiver(Framing::Mtcp);
    let mut chunk = [0x41, 1].repeat(16_384);
    chunk.push(0x43);
    session.handle_octets(at(0), chunk.into());
    assert!(!session.wants_octets(), "the node takes nothing");
    session.handle_timeout(at(5_000));
    assert_eq!(session.state(), State::Open);
    assert_eq!(events(&mut session).len(), 16_384);
    assert!(session.wants_octets());
}

#[test]
fn an_ending_receiver_waits_for_the_bundle_under_way_and_for_no_other() {
    let mut session = receiver(Framing::Mtcp);
    session.handle_octets(at(0), Bytes::from_static(&[0x43, 1]));
    terminate(&mut session, at(0));
    session.handle_octets(at(0), Bytes::from_static(&[2, 3, 0x41, 9]));
    let said = events(&mut session);
    let told = said.len();
    assert!(matches!(
        said[told - 2],
        LinkEvent::Segment { end: true, .. }
    ));
    let ended = DownReason::Terminated(TerminateReason::Unknown);
    assert_eq!(down(&said), Some(&ended));

    let mut session = receiver(Framing::Mtcp);
    terminate(&mut session, at(0));
    assert_eq!(down(&events(&mut session)), Some(&ended));

    let mut session = receiver(Framing::Mtcp);
    session.handle_octets(at(0), Bytes::from_static(&[0x43, 1]));
    terminate(&mut session, at(0));
    session.handle_timeout(session.poll_timeout().map_or(at(0), |_| at(10_000)));
    let said = events(&mut session);
    assert!(down(&said).is_some(), "not for longer than configured");
}

#[test]
fn an_idle_receiver_ends_where_that_is_configured() {
    let config = Config {
        idle_timeout: Some(Duration::from_secs(60)),
        ..Config::new(Framing::Stcp)
    };
    let mut session = Session::accept(config, at(0));
    // A keep-alive is no bundle.
    session.handle_octets(at(30_000), Bytes::from_static(&[0; 4]));
    session.handle_timeout(at(60_000));
    let reason = DownReason::Terminated(TerminateReason::IdleTimeout);
    assert_eq!(down(&events(&mut session)), Some(&reason));
}
