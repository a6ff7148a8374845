//! Bundles and their answers: RFC 7242 5.2 to 5.5.

use super::*;

const ALL: u8 = ACKNOWLEDGED | REFUSED | ANNOUNCED;

fn refuse_command(transfer: u64, reason: RefuseReason) -> LinkCommand {
    let transfer = TransferId(transfer);
    LinkCommand::Refuse { transfer, reason }
}

fn small() -> Config {
    Config {
        segment_length: 100,
        transfer_mru: 1_000,
        ..config("ipn:2.0")
    }
}

/// RFC 7242 5.3: the example of the standard.
#[test]
fn acknowledgments_count_the_octets_of_the_bundle_so_far() {
    let mut session = established(config("ipn:2.0"), ALL);
    let sent = [
        data(START, 100),
        data(0, 200),
        data(0, 500),
        data(END, 1_000),
    ];
    receive(&mut session, at(0), &sent);
    assert_eq!(
        said(&mut session),
        [],
        "nothing is acknowledged before it is durable"
    );
    acknowledge(&mut session, 0, 799);
    assert_eq!(
        said(&mut session),
        [ack(100), ack(300)],
        "full segments alone"
    );
    acknowledge(&mut session, 0, 1_800);
    assert_eq!(said(&mut session), [ack(800), ack(1_800)]);
    assert_eq!(session.state(), State::Idle);
}

/// ION acknowledges each 64 KiB that it has read, also within a segment.
#[test]
fn no_segment_is_longer_than_what_ion_acknowledges_at_once() {
    let config = Config {
        segment_length: 1 << 20,
        ..config("ipn:2.0")
    };
    let mut session = established(config, ALL);
    let mut longest = 0;
    for transfer in 0..20 {
        let now = 100 * transfer;
        transmit(&mut session, at(now), transfer, &vec![7; 1_000_000]);
        let mut sent = 0;
        for message in messages(&drain(&mut session, at(now))) {
            if let Message::DataSegment(segment) = message {
                sent += segment.length;
                longest = longest.max(segment.length);
                receive(&mut session, at(now + 12), &[ack(sent)]);
            }
        }
        assert_eq!(sent, 1_000_000);
    }
    assert_eq!(longest, 64 * 1024);
}

/// RFC 7242 5.5: LENGTH right before a bundle of several segments, if the peer asked for it.
#[test]
fn lengths_are_announced_to_whoever_asks() {
    for (offer, announced) in [
        (ALL, true),
        (ACKNOWLEDGED | REFUSED, false),
        (ANNOUNCED, true),
    ] {
        let mut session = established(small(), offer);
        transmit(&mut session, at(0), 0, &[7; 250]);
        transmit(&mut session, at(0), 1, &[7; 30]);
        let mut expected = Vec::new();
        if announced {
            expected.push(Message::Length { octets: 250 });
        }
        expected.extend([
            data(START, 100),
            data(0, 100),
            data(END, 50),
            data(START | END, 30),
        ]);
        assert_eq!(said(&mut session), expected);
    }
}

/// RFC 7242 5.3: where acknowledgments were not agreed on, none are given, and a bundle that wholly left is over.
#[test]
fn without_acknowledgments_a_bundle_is_merely_sent() {
    let mut session = established(small(), 0);
    transmit(&mut session, at(0), 4, &[7; 150]);
    assert!(events(&mut session).is_empty());
    assert_eq!(said(&mut session), [data(START, 100), data(END, 50)]);
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Transmitted {
            transfer: TransferId(4)
        }]
    ));
    let came = receive(&mut session, at(0), &[data(START, 5), data(END, 5)]);
    assert_eq!(came.len(), 2);
    acknowledge(&mut session, 0, 10);
    session.handle_command(at(0), refuse_command(0, RefuseReason::NoResources));
    assert_eq!(said(&mut session), []);
    assert_eq!(session.state(), State::Idle);
    let came = receive(&mut session, at(0), &[ack(5)]);
    assert!(fault(&came).contains("RFC 7242 4.2"));
}

/// RFC 7242 5.4: the segments that wait for an answer and all that follow are refused, each once.
#[test]
fn every_segment_of_a_refused_bundle_is_refused() {
    let mut session = established(config("ipn:2.0"), ALL);
    receive(
        &mut session,
        at(0),
        &[data(START | END, 9), data(START, 10), data(0, 10)],
    );
    session.handle_command(at(0), refuse_command(1, RefuseReason::NoResources));
    assert_eq!(
        said(&mut session),
        [],
        "the bundle before has no answer yet"
    );
    acknowledge(&mut session, 0, 9);
    assert_eq!(said(&mut session), [ack(9), refuse(2), refuse(2)]);
    let came = receive(
        &mut session,
        at(0),
        &[data(0, 10), data(END, 4), data(START | END, 3)],
    );
    assert_eq!(came.len(), 1, "{came:?}");
    acknowledge(&mut session, 2, 3);
    assert_eq!(said(&mut session), [refuse(2), refuse(2), ack(3)]);
    assert_eq!(session.state(), State::Idle);
}

/// RFC 7242 5.4: a refused bundle may have no end; S begins the next.
#[test]
fn a_refused_bundle_may_be_left_off() {
    let mut session = established(config("ipn:2.0"), ALL);
    receive(&mut session, at(0), &[data(START, 10)]);
    acknowledge(&mut session, 0, 10);
    assert_eq!(said(&mut session), [ack(10)]);
    session.handle_command(at(0), refuse_command(0, RefuseReason::Completed));
    assert_eq!(said(&mut session), [], "no segment waits for an answer");
    receive(
        &mut session,
        at(0),
        &[Message::Length { octets: 4 }, data(START, 1), data(END, 3)],
    );
    acknowledge(&mut session, 1, 4);
    assert_eq!(said(&mut session), [ack(1), ack(4)]);
    assert_eq!(session.state(), State::Idle);
}

/// RFC 7242 5.4: a peer that does not know refusals keeps what it has no acknowledgment of.
#[test]
fn without_refusals_a_bundle_for_which_there_is_no_room_ends_the_session() {
    let mut session = established(config("ipn:2.0"), ACKNOWLEDGED);
    receive(&mut session, at(0), &[data(START, 10)]);
    session.handle_command(at(0), refuse_command(0, RefuseReason::NoResources));
    assert_eq!(said(&mut session), [shutdown(Some(2))]);
    let down = DownReason::Terminated(TerminateReason::Busy);
    let last = events(&mut session).pop();
    assert!(matches!(last, Some(LinkEvent::Down(reason)) if reason == down));
}

/// A bundle that the node has, or that nobody should have, is acknowledged as it comes: it would come for ever.
#[test]
fn without_refusals_a_bundle_that_is_not_needed_is_acknowledged() {
    for reason in [RefuseReason::Completed, RefuseReason::NotAcceptable] {
        let mut session = established(config("ipn:2.0"), ACKNOWLEDGED);
        receive(&mut session, at(0), &[data(START, 10)]);
        session.handle_octets(at(0), Bytes::from_static(&[0x10, 10, 1, 2]));
        session.handle_command(at(0), refuse_command(0, reason));
        assert_eq!(
            said(&mut session),
            [ack(10)],
            "the second segment is not there"
        );
        session.handle_octets(at(0), Bytes::from_static(&[0; 8]));
        assert_eq!(said(&mut session), [ack(20)]);
        let came = receive(&mut session, at(0), &[data(END, 5), data(START | END, 6)]);
        assert!(said(&mut session).contains(&ack(25)));
        // The node has taken the end of the second bundle and does not need it either.
        assert!(!came.is_empty());
        session.handle_command(at(0), refuse_command(1, reason));
        assert_eq!(said(&mut session), [ack(6)]);
        assert_eq!(session.state(), State::Idle);
    }
}

/// RFC 7242 5.5: longer than we take, or another length than announced.
#[test]
fn bundles_of_a_wrong_length_are_refused_or_end_the_session() {
    for (sent, code) in [
        (vec![Message::Length { octets: 1_001 }, data(START, 10)], 2),
        (vec![data(START, 1_001)], 2),
        (vec![data(START | END, 1_001)], 2),
        (vec![Message::Length { octets: 20 }, data(START, 21)], 3),
        (
            vec![Message::Length { octets: 20 }, data(START | END, 19)],
            3,
        ),
    ] {
        let mut session = established(small(), ALL);
        assert!(receive(&mut session, at(0), &sent).is_empty());
        assert_eq!(said(&mut session), [refuse(code)]);
        assert_eq!(session.state(), State::Idle);
        let mut session = established(small(), ACKNOWLEDGED | ANNOUNCED);
        let came = receive(&mut session, at(0), &sent);
        assert!(fault(&came).contains("RFC 7242 5.4"));
        assert_eq!(said(&mut session), [shutdown(Some(2))]);
    }
    let mut session = established(small(), ALL);
    let sent = [data(START, 1_000), data(0, 1)];
    let came = receive(&mut session, at(0), &sent);
    assert!(matches!(
        came[..],
        [LinkEvent::Segment { .. }, LinkEvent::Abandoned { .. }]
    ));
    assert_eq!(said(&mut session), [refuse(2), refuse(2)]);
}

#[test]
fn segments_out_of_order_end_the_session() {
    for (sent, section) in [
        (vec![data(0, 1)], "5.2"),
        (vec![data(END, 1)], "5.2"),
        (vec![data(START, 1), data(START, 1)], "5.2"),
        (vec![data(START, 1), Message::Length { octets: 3 }], "5.5"),
        (vec![Message::Length { octets: 3 }; 2], "5.5"),
        (vec![shutdown(None), data(START, 1)], "after SHUTDOWN"),
    ] {
        let mut session = established(config("ipn:2.0"), ALL);
        let came = receive(&mut session, at(0), &sent);
        assert!(fault(&came).contains(section), "{came:?}");
        assert_eq!(said(&mut session), [shutdown(None)]);
    }
}

/// A session that has sent bundles of 250 and 30 octets, in segments of 100.
fn sending(offer: u8) -> Session {
    let mut session = established(small(), offer);
    transmit(&mut session, at(0), 0, &[7; 250]);
    transmit(&mut session, at(0), 1, &[7; 30]);
    said(&mut session);
    session
}

/// RFC 7242 5.3, 5.4: answers belong to segments in their order.
#[test]
fn answers_find_their_bundles_by_order() {
    let mut session = sending(ALL);
    let came = receive(
        &mut session,
        at(0),
        &[ack(100), ack(200), ack(250), ack(30)],
    );
    assert!(matches!(
        came[..],
        [
            LinkEvent::Acknowledged { octets: 100, .. },
            LinkEvent::Acknowledged { octets: 200, .. },
            LinkEvent::Transmitted {
                transfer: TransferId(0)
            },
            LinkEvent::Transmitted {
                transfer: TransferId(1)
            },
        ]
    ));
    // Each segment refused, or the bundle once: both are understood.
    for refusals in [vec![refuse(3); 2], vec![refuse(3)]] {
        let mut session = sending(ALL);
        let mut answers = vec![ack(100)];
        answers.extend(refusals);
        answers.push(ack(30));
        let came = receive(&mut session, at(0), &answers);
        assert!(matches!(
            came[1..],
            [
                LinkEvent::Failed {
                    transfer: TransferId(0),
                    refused: Some(RefuseReason::Retransmit),
                    acknowledged: 100
                },
                LinkEvent::Transmitted {
                    transfer: TransferId(1)
                },
            ]
        ));
    }
    let mut session = sending(ALL);
    let came = receive(&mut session, at(0), &[refuse(1)]);
    assert!(
        matches!(came[..], [LinkEvent::Transmitted { .. }]),
        "the peer has it"
    );
}

/// RFC 7242 5.3: answers that fit no segment end the session, since nobody knows what they were meant for.
#[test]
fn answers_that_fit_nothing_end_the_session() {
    for answers in [
        vec![ack(251)],
        vec![ack(50)],
        vec![ack(200), ack(100)],
        vec![ack(250), ack(30), ack(1)],
        vec![refuse(0), refuse(0), ack(30)],
        vec![refuse(0), refuse(0), refuse(0), refuse(0), refuse(0)],
    ] {
        let mut session = sending(ALL);
        let came = receive(&mut session, at(0), &answers);
        assert!(fault(&came).contains("RFC 7242 5."), "{answers:?}");
        assert_eq!(said(&mut session), [shutdown(None)]);
    }
    let mut session = sending(ACKNOWLEDGED);
    let came = receive(&mut session, at(0), &[refuse(0)]);
    assert!(fault(&came).contains("negotiated"));
    let mut session = established(config("ipn:2.0"), ALL);
    assert!(fault(&receive(&mut session, at(0), &[ack(0)])).contains("5.4"));
}

/// RFC 7242 5.4: the segment begun is sent to its end, and none of the bundle after it.
#[test]
fn a_refusal_waits_for_the_end_of_the_segment() {
    let mut session = established(small(), ALL);
    transmit(&mut session, at(0), 0, &[7; 250]);
    let mut gather = Gather::new();
    session.poll_octets(at(0), 60, &mut gather);
    let mut octets = flatten(&gather);
    assert!(receive(&mut session, at(0), &[refuse(2)]).is_empty());
    octets.extend(drain(&mut session, at(0)));
    assert_eq!(
        messages(&octets),
        [Message::Length { octets: 250 }, data(START, 100)]
    );
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Failed {
            refused: Some(RefuseReason::NoResources),
            ..
        }]
    ));
    assert_eq!(session.state(), State::Idle);
}

/// A bundle that began ends early where the peer knows its length and can refuse it; elsewhere it would be taken for one.
#[test]
fn a_bundle_given_up_ends_early_or_with_the_session() {
    for offer in [ALL, ACKNOWLEDGED | REFUSED, ACKNOWLEDGED | ANNOUNCED, 0] {
        let mut session = established(small(), offer);
        let transfer = TransferId(0);
        let command = LinkCommand::Transmit {
            transfer,
            length: 250,
        };
        session.handle_command(at(0), command);
        let octets = Piece::Octets(Bytes::from_static(&[7; 120]));
        session.handle_command(at(0), LinkCommand::Supply { transfer, octets });
        said(&mut session);
        session.handle_command(at(0), LinkCommand::Cancel { transfer });
        let came = events(&mut session);
        assert!(matches!(came[0], LinkEvent::Failed { refused: None, .. }));
        if offer == ALL {
            assert_eq!(said(&mut session), [data(END, 0)]);
            assert_eq!(session.state(), State::Live);
            let answers = [ack(100), ack(120), refuse(3)];
            assert!(receive(&mut session, at(0), &answers).is_empty());
            assert_eq!(session.state(), State::Idle);
        } else {
            assert_eq!(said(&mut session), [shutdown(None)]);
            assert_eq!(session.state(), State::Closed);
        }
    }
}

/// A peer that keeps parts cannot be told that they are not verified: it gets none before the whole is here.
#[test]
fn what_is_not_verified_waits_for_its_end_where_parts_are_kept() {
    for (offer, held) in [(ALL | FRAGMENTED, true), (ALL, false)] {
        let keeping = Config {
            keeps_reactive_fragments: true,
            ..small()
        };
        let mut session = established(keeping, offer);
        let transfer = TransferId(0);
        let command = LinkCommand::Transmit {
            transfer,
            length: 20,
        };
        session.handle_command(at(0), command);
        session.handle_command(at(0), LinkCommand::Unverified { transfer });
        let piece = || Piece::Octets(Bytes::from_static(&[7; 10]));
        session.handle_command(
            at(0),
            LinkCommand::Supply {
                transfer,
                octets: piece(),
            },
        );
        assert_eq!(said(&mut session).is_empty(), held);
        session.handle_command(
            at(0),
            LinkCommand::Supply {
                transfer,
                octets: piece(),
            },
        );
        assert!(!said(&mut session).is_empty());
    }
}

/// RFC 7242 5.2: a segment may have any length, also none.
#[test]
fn segments_of_any_length_are_taken() {
    let mut session = established(config("ipn:2.0"), ALL);
    let sent = [
        data(START, 0),
        data(0, 300_000),
        data(0, 0),
        data(END, 0),
        data(START | END, 0),
    ];
    let came = receive(&mut session, at(0), &sent);
    let ends = came
        .iter()
        .filter(|it| matches!(it, LinkEvent::Segment { end: true, .. }));
    assert_eq!(ends.count(), 2);
    acknowledge(&mut session, 0, 300_000);
    acknowledge(&mut session, 1, 0);
    let expected = [ack(0), ack(300_000), ack(300_000), ack(300_000), ack(0)];
    assert_eq!(said(&mut session), expected);
    assert_eq!(session.state(), State::Idle);
}

/// A segment of 2^63 octets is no reason to make room for it.
#[test]
fn lengths_are_not_believed() {
    let huge = Config {
        transfer_mru: u64::MAX,
        ..config("ipn:2.0")
    };
    let mut session = established(huge, ALL);
    let mut octets = BytesMut::new();
    data(START, u64::MAX).encode(&mut octets);
    octets.extend_from_slice(&[1; 100]);
    session.handle_octets(at(0), octets.freeze());
    let came = events(&mut session);
    assert!(matches!(&came[..], [LinkEvent::Segment { octets, .. }] if octets.len() == 100));
}

/// The bound of what awaits an answer, at its edge.
#[test]
fn too_many_unanswered_segments_end_the_session() {
    let few = Config {
        awaiting_acknowledgment: 10,
        ..config("ipn:2.0")
    };
    let mut session = established(few, ALL);
    for _ in 0..5 {
        assert!(session.incoming.awaiting() < 10);
        receive(&mut session, at(0), &[data(START | END, 1)]);
    }
    assert!(!session.wants_octets());
    let came = receive(&mut session, at(0), &[data(START | END, 1)]);
    assert!(fault(&came).contains("too many"));
    // Those of a bundle that is refused count while one before it has no answer.
    for fate in [data(START, 1), data(START, 2_000_000)] {
        let few = Config {
            awaiting_acknowledgment: 10,
            transfer_mru: 1_000_000,
            ..config("ipn:2.0")
        };
        let mut session = established(few, ALL);
        receive(&mut session, at(0), &[data(START | END, 1), fate]);
        let mut came = Vec::new();
        for length in 1..10 {
            assert!(session.incoming.awaiting() <= 10);
            came.extend(receive(&mut session, at(0), &[data(0, length)]));
        }
        assert!(fault(&came).contains("too many"), "{came:?}");
    }
    // Equal segments of one bundle take the room of one.
    let mut session = established(small(), ALL);
    receive(&mut session, at(0), &[data(START, 1)]);
    receive(&mut session, at(0), &vec![data(0, 1); 900]);
    assert!(session.incoming.awaiting() <= 3);
}
