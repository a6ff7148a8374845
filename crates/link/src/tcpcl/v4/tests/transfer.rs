//! Transfers and their acknowledgments and refusals: RFC 9174 5.2.

use super::super::extension::TransferExtensions;
use super::super::message::XferSegment;
use super::*;
use crate::stream::{DownReason, RefuseReason};

const START: u8 = 2;
const END: u8 = 1;

/// A passive session that is established with a peer that takes segments of `segment_mru` octets.
fn established(config: Config, segment_mru: u64, transfer_mru: u64) -> Session {
    let mut session = Session::new(Role::Passive, config, at(0));
    let mut opening = BytesMut::from(&b"dtn!\x04\x00"[..]);
    Message::SessInit(super::super::message::SessInit {
        keepalive_s: 0,
        segment_mru,
        transfer_mru,
        node_id: "ipn:1.0".into(),
        extensions: Bytes::new(),
    })
    .encode(&mut opening);
    session.handle_octets(at(0), opening.freeze());
    drain(&mut session, at(0));
    events(&mut session);
    session
}

fn passive() -> Session {
    established(config("ipn:2.0"), 1_000, 1 << 30)
}

/// A segment with raw extension items.
fn segment_with(flags: u8, transfer: u64, items: &[u8], octets: &[u8]) -> Bytes {
    let mut message = vec![1, flags];
    message.extend(transfer.to_be_bytes());
    if flags & START != 0 {
        message.extend((items.len() as u32).to_be_bytes());
        message.extend(items);
    }
    message.extend((octets.len() as u64).to_be_bytes());
    message.extend(octets);
    Bytes::from(message)
}

fn segment(flags: u8, transfer: u64, octets: &[u8]) -> Bytes {
    segment_with(flags, transfer, &[], octets)
}

fn length_item(length: u64) -> Vec<u8> {
    let mut item = vec![0, 0, 1, 0, 8];
    item.extend(length.to_be_bytes());
    item
}

fn ack(flags: u8, transfer: u64, acknowledged_length: u64) -> Message {
    Message::XferAck {
        flags,
        transfer,
        acknowledged_length,
    }
}

fn octets_of(message: &Message) -> Bytes {
    let mut octets = BytesMut::new();
    message.encode(&mut octets);
    octets.freeze()
}

fn refusal(reason: RefuseReason, transfer: u64) -> Message {
    Message::XferRefuse {
        reason: reason.code(),
        transfer,
    }
}

fn sent(session: &mut Session) -> Vec<Message> {
    messages(&drain(session, at(0)))
}

fn acknowledge(session: &mut Session, transfer: u64, octets: u64) {
    session.handle_command(
        at(0),
        LinkCommand::Acknowledge {
            transfer: TransferId(transfer),
            octets,
        },
    );
}

fn transmit(session: &mut Session, transfer: u64, length: u64) {
    session.handle_command(
        at(0),
        LinkCommand::Transmit {
            transfer: TransferId(transfer),
            length,
        },
    );
}

fn supply(session: &mut Session, transfer: u64, octets: &[u8]) {
    let octets = Piece::Octets(Bytes::copy_from_slice(octets));
    session.handle_command(
        at(0),
        LinkCommand::Supply {
            transfer: TransferId(transfer),
            octets,
        },
    );
}

#[test]
fn each_segment_is_acknowledged_with_its_flags_and_the_sum_of_lengths_5_2_3() {
    // The example of RFC 9174 5.2.3: segments of 100, 200, 500 and 1,000 octets; reserved flags are
    // repeated too.
    let mut session = passive();
    session.handle_octets(at(0), segment(START, 9, &[1; 100]));
    session.handle_octets(at(0), segment(0x80, 9, &[2; 200]));
    session.handle_octets(at(0), segment(0, 9, &[3; 500]));
    session.handle_octets(at(0), segment(END | 0x40, 9, &[4; 1_000]));
    assert!(sent(&mut session).is_empty(), "nothing is durable yet");
    events(&mut session);
    acknowledge(&mut session, 9, 299);
    assert_eq!(sent(&mut session), vec![ack(START, 9, 100)]);
    acknowledge(&mut session, 9, 800);
    assert_eq!(sent(&mut session), vec![ack(0x80, 9, 300), ack(0, 9, 800)]);
    acknowledge(&mut session, 9, 1_800);
    assert_eq!(sent(&mut session), vec![ack(END | 0x40, 9, 1_800)]);
    assert_eq!(session.state(), State::Idle);
}

#[test]
fn the_final_acknowledgment_waits_for_a_node_that_knows_the_end_5_2_3() {
    let mut session = passive();
    session.handle_octets(at(0), segment(START, 0, b"all there is"));
    events(&mut session);
    acknowledge(&mut session, 0, 12);
    assert_eq!(sent(&mut session), vec![ack(START, 0, 12)]);
    // The end comes with an empty segment, which the node has not seen when it says 12 again.
    session.handle_octets(at(0), segment(END, 0, b""));
    acknowledge(&mut session, 0, 12);
    assert!(sent(&mut session).is_empty());
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Segment { end: true, .. }]
    ));
    acknowledge(&mut session, 0, 12);
    assert_eq!(sent(&mut session), vec![ack(END, 0, 12)]);
}

#[test]
fn an_empty_transfer_passes_5_2_2() {
    let mut pair = Pair::up();
    pair.command(
        0,
        LinkCommand::Transmit {
            transfer: TransferId(3),
            length: 0,
        },
    );
    pair.settle();
    let [
        LinkEvent::Segment {
            transfer: TransferId(3),
            octets,
            start: true,
            end: true,
            length: Some(0),
        },
    ] = &pair.events[1][..]
    else {
        panic!("{:?}", pair.events[1]);
    };
    assert!(octets.is_empty());
    pair.command(
        1,
        LinkCommand::Acknowledge {
            transfer: TransferId(3),
            octets: 0,
        },
    );
    pair.settle();
    assert!(matches!(
        pair.events[0][..],
        [LinkEvent::Transmitted {
            transfer: TransferId(3)
        }]
    ));
}

#[test]
fn acknowledgments_leave_in_the_order_of_transfers() {
    let mut session = passive();
    for transfer in [5, 6, 1] {
        session.handle_octets(at(0), segment(START | END, transfer, b"abc"));
    }
    events(&mut session);
    acknowledge(&mut session, 1, 3);
    acknowledge(&mut session, 6, 3);
    assert!(sent(&mut session).is_empty());
    acknowledge(&mut session, 5, 3);
    assert_eq!(
        sent(&mut session),
        vec![ack(3, 5, 3), ack(3, 6, 3), ack(3, 1, 3)]
    );
}

#[test]
fn a_segment_is_handed_on_as_it_arrives_and_never_copied() {
    let mut session = passive();
    let whole = segment_with(START, 4, &length_item(900), &[7; 600]);
    let (head, rest) = (whole.slice(..100), whole.slice(100..));
    session.handle_octets(at(0), head.clone());
    session.handle_octets(at(0), rest.clone());
    session.handle_octets(at(0), segment(END, 4, &[8; 300]));
    let events = events(&mut session);
    let [
        LinkEvent::Segment {
            octets: first,
            start: true,
            end: false,
            length: Some(900),
            ..
        },
        LinkEvent::Segment {
            octets: second,
            start: false,
            end: false,
            length: None,
            ..
        },
        LinkEvent::Segment {
            octets: third,
            start: false,
            end: true,
            length: None,
            ..
        },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(
        (first.len(), second.len(), third.len()),
        (100 - 35, 535, 300)
    );
    assert!(head.as_ptr_range().contains(&first.as_ptr()));
    assert_eq!(second.as_ptr(), rest.as_ptr());
}

#[test]
fn a_whole_transfer_in_one_segment_tells_its_length_5_2_5_1() {
    let mut session = passive();
    let whole = segment(START | END, 4, &[7; 600]);
    session.handle_octets(at(0), whole.slice(..50));
    let events = events(&mut session);
    assert!(matches!(
        events[..],
        [LinkEvent::Segment {
            start: true,
            end: false,
            length: Some(600),
            ..
        }]
    ));
}

#[test]
fn segments_are_no_longer_than_the_peer_takes_and_the_first_tells_the_length_4_6() {
    let mut session = established(config("ipn:2.0"), 400, 1 << 20);
    transmit(&mut session, 0, 1_000);
    supply(&mut session, 0, &[5; 1_000]);
    transmit(&mut session, 1, 400);
    supply(&mut session, 1, &[6; 400]);
    let octets = drain(&mut session, at(0));
    let heads: Vec<_> = messages(&octets)
        .into_iter()
        .map(|message| match message {
            Message::XferSegment(segment) => (
                segment.flags,
                segment.transfer,
                segment.extensions.length,
                segment.data_length,
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    // RFC 9174 5.2.5.1: no Transfer Length where one segment is all.
    assert_eq!(
        heads,
        vec![
            (START, 0, Some(1_000), 400),
            (0, 0, None, 400),
            (END, 0, None, 200),
            (START | END, 1, None, 400)
        ]
    );
}

#[test]
fn our_own_segment_length_bounds_segments_too() {
    let mut session = established(
        Config {
            segment_length: 100,
            ..config("ipn:2.0")
        },
        400,
        1 << 20,
    );
    transmit(&mut session, 0, 250);
    supply(&mut session, 0, &[5; 250]);
    assert_eq!(sent(&mut session).len(), 3);
}

#[test]
fn what_is_supplied_goes_out_before_the_rest_is_there() {
    let mut session = passive();
    transmit(&mut session, 0, 30);
    transmit(&mut session, 1, 5);
    assert!(sent(&mut session).is_empty());
    supply(&mut session, 1, b"later");
    assert!(
        sent(&mut session).is_empty(),
        "transfers are not interleaved (5.2.2)"
    );
    supply(&mut session, 0, &[1; 10]);
    let [Message::XferSegment(first)] = &sent(&mut session)[..] else {
        panic!()
    };
    assert_eq!(
        (first.flags, first.data_length, first.extensions.length),
        (START, 10, Some(30))
    );
    // Meanwhile acknowledgments and other messages go out.
    session.handle_octets(at(0), segment(START | END, 7, b"abc"));
    events(&mut session);
    acknowledge(&mut session, 7, 3);
    assert_eq!(sent(&mut session), vec![ack(3, 7, 3)]);
    supply(&mut session, 0, &[1; 20]);
    let flags: Vec<_> = sent(&mut session)
        .iter()
        .map(|message| match message {
            Message::XferSegment(segment) => (segment.transfer, segment.flags, segment.data_length),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(flags, vec![(0, END, 20), (1, START | END, 5)]);
}

#[test]
fn extents_and_large_octets_go_out_as_they_are() {
    let mut session = established(config("ipn:2.0"), 1 << 20, 1 << 20);
    let large = Bytes::from(vec![3; 4_000]);
    transmit(&mut session, 0, 16_050);
    supply(&mut session, 0, &[9; 50]);
    for octets in [
        Piece::Extent(Extent {
            offset: 5_000,
            length: 12_000,
        }),
        Piece::Octets(large.clone()),
    ] {
        session.handle_command(
            at(0),
            LinkCommand::Supply {
                transfer: TransferId(0),
                octets,
            },
        );
    }
    let mut gather = Gather::new();
    session.poll_octets(at(0), 1 << 20, &mut gather);
    // The head and the small piece share an entry.
    let [
        Piece::Octets(head),
        Piece::Extent(extent),
        Piece::Octets(octets),
    ] = gather.pieces()
    else {
        panic!("{gather:?}");
    };
    assert_eq!(head.len(), 22 + 50);
    assert_eq!(
        *extent,
        Extent {
            offset: 5_000,
            length: 12_000
        }
    );
    assert_eq!(
        (octets.as_ptr(), octets.len()),
        (large.as_ptr(), large.len())
    );
}

#[test]
fn nothing_comes_inside_a_segment_6_1() {
    let mut session = established(config("ipn:2.0"), 1 << 20, 1 << 20);
    transmit(&mut session, 0, 15_000);
    let octets = Piece::Extent(Extent {
        offset: 0,
        length: 15_000,
    });
    session.handle_command(
        at(0),
        LinkCommand::Supply {
            transfer: TransferId(0),
            octets,
        },
    );
    let mut gather = Gather::new();
    session.poll_octets(at(0), 1_000, &mut gather);
    assert!((1_000..1_100).contains(&gather.octets()));
    session.handle_octets(at(0), segment(START | END, 7, b"abc"));
    events(&mut session);
    acknowledge(&mut session, 7, 3);
    session.handle_command(
        at(0),
        LinkCommand::Terminate {
            reason: crate::stream::TerminateReason::Busy,
        },
    );
    let mut octets = flatten(&gather);
    octets.extend(drain(&mut session, at(0)));
    let sent = messages(&octets);
    assert!(matches!(sent[0], Message::XferSegment(_)));
    assert_eq!(
        sent[1..],
        [
            ack(3, 7, 3),
            Message::SessTerm {
                flags: 0,
                reason: 3
            }
        ]
    );
    let data = &octets[22..22 + 15_000];
    assert!(
        data.iter()
            .enumerate()
            .all(|(at, octet)| *octet == log_octet(at as u64))
    );
}

#[test]
fn a_transfer_longer_than_the_peers_transfer_mru_fails_at_once_4_6() {
    // Before the peer has said its limit, and after.
    let mut pair = Pair::new(
        config("ipn:1.0"),
        Config {
            transfer_mru: 100,
            ..config("ipn:2.0")
        },
    );
    pair.transmit(0, 0, &[1; 101]);
    pair.transmit(0, 1, &[1; 100]);
    pair.settle();
    pair.transmit(0, 2, &[1; 101]);
    pair.take(0);
    let failed: Vec<_> = pair.events[0]
        .iter()
        .filter_map(|event| match event {
            LinkEvent::Failed {
                transfer,
                refused: Some(RefuseReason::NoResources),
                acknowledged: 0,
            } => Some(transfer.0),
            _ => None,
        })
        .collect();
    assert_eq!(failed, vec![0, 2]);
    assert_eq!(pair.received(1), vec![(TransferId(1), vec![1; 100])]);
}

#[test]
fn progress_is_told_and_the_last_acknowledgment_completes_5_2_3() {
    let mut session = established(config("ipn:2.0"), 100, 1 << 20);
    transmit(&mut session, 0, 250);
    supply(&mut session, 0, &[5; 250]);
    sent(&mut session);
    for message in [ack(START, 0, 100), ack(0, 0, 200), ack(END, 0, 250)] {
        session.handle_octets(at(0), octets_of(&message));
    }
    assert!(matches!(
        events(&mut session)[..],
        [
            LinkEvent::Acknowledged {
                transfer: TransferId(0),
                octets: 100
            },
            LinkEvent::Acknowledged {
                transfer: TransferId(0),
                octets: 200
            },
            LinkEvent::Transmitted {
                transfer: TransferId(0)
            }
        ]
    ));
}

#[test]
fn transfers_may_be_acknowledged_in_any_order() {
    let mut session = passive();
    for transfer in [10, 11, 12, 4] {
        transmit(&mut session, transfer, 3);
        supply(&mut session, transfer, b"abc");
    }
    sent(&mut session);
    for transfer in [12, 4, 10, 11] {
        session.handle_octets(at(0), octets_of(&ack(3, transfer, 3)));
        let events = events(&mut session);
        assert!(
            matches!(events[..], [LinkEvent::Transmitted { transfer: TransferId(done) }] if done == transfer)
        );
    }
    assert_eq!(session.state(), State::Idle);
}

#[test]
fn an_acknowledgment_of_octets_never_sent_ends_the_session_5_2_3() {
    let mut session = established(config("ipn:2.0"), 100, 1 << 20);
    transmit(&mut session, 0, 250);
    supply(&mut session, 0, &[5; 150]);
    sent(&mut session);
    session.handle_octets(at(0), octets_of(&ack(END, 0, 250)));
    let reject = Message::MsgReject {
        reason: 3,
        rejected: 2,
    };
    assert_eq!(
        sent(&mut session),
        vec![
            reject,
            Message::SessTerm {
                flags: 0,
                reason: 0
            }
        ]
    );
    assert!(matches!(
        &events(&mut session)[..],
        [LinkEvent::Failed { refused: None, acknowledged: 0, .. }, LinkEvent::Down(DownReason::PeerFault(fault))] if fault.contains("150 were sent")
    ));
}

#[test]
fn octets_of_a_segment_that_is_not_whole_cannot_be_acknowledged_5_2_3() {
    let mut session = established(config("ipn:2.0"), 1_000, 1 << 20);
    transmit(&mut session, 0, 1_000);
    supply(&mut session, 0, &[5; 1_000]);
    let mut gather = Gather::new();
    session.poll_octets(at(0), 100, &mut gather);
    session.handle_octets(at(0), octets_of(&ack(3, 0, 1_000)));
    assert_eq!(session.state(), State::Closed);
    // RFC 9174 6.1: inside a segment, the connection closes without SESS_TERM.
    assert!(drain(&mut session, at(0)).is_empty());
}

#[test]
fn repeated_and_unknown_acknowledgments_are_rejected_and_counted_5_1_2() {
    let mut session = established(config("ipn:2.0"), 100, 1 << 20);
    transmit(&mut session, 0, 250);
    supply(&mut session, 0, &[5; 250]);
    sent(&mut session);
    session.handle_octets(at(0), octets_of(&ack(START, 0, 100)));
    let reject = Message::MsgReject {
        reason: 3,
        rejected: 2,
    };
    for message in [ack(START, 0, 100), ack(0, 0, 50), ack(3, 77, 3)] {
        session.handle_octets(at(0), octets_of(&message));
        assert_eq!(sent(&mut session), vec![reject.clone()]);
    }
    assert_eq!(session.state(), State::Live);
    for _ in 3..17 {
        session.handle_octets(at(0), octets_of(&ack(3, 77, 3)));
    }
    assert_eq!(session.state(), State::Closed);
}

#[test]
fn a_refused_transfer_is_sent_no_further_5_2_4() {
    let mut session = established(config("ipn:2.0"), 1_000, 1 << 20);
    transmit(&mut session, 0, 3_000);
    supply(&mut session, 0, &[5; 3_000]);
    transmit(&mut session, 1, 3);
    supply(&mut session, 1, b"abc");
    let mut gather = Gather::new();
    session.poll_octets(at(0), 1_500, &mut gather);
    session.handle_octets(at(0), octets_of(&ack(START, 0, 1_000)));
    session.handle_octets(at(0), octets_of(&refusal(RefuseReason::NotAcceptable, 0)));
    // The segment begun is finished before the transfer fails: its octets must stay readable.
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Acknowledged { octets: 1_000, .. }]
    ));
    let mut octets = flatten(&gather);
    octets.extend(drain(&mut session, at(0)));
    let heads: Vec<_> = messages(&octets)
        .iter()
        .map(|message| match message {
            Message::XferSegment(segment) => (segment.transfer, segment.flags),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(heads, vec![(0, START), (0, 0), (1, START | END)]);
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Failed {
            transfer: TransferId(0),
            refused: Some(RefuseReason::NotAcceptable),
            acknowledged: 1_000
        }]
    ));
    // Segments that crossed the refusal are refused again, which says nothing new.
    session.handle_octets(at(0), octets_of(&refusal(RefuseReason::NotAcceptable, 0)));
    assert!(sent(&mut session).is_empty());
    session.handle_octets(at(0), octets_of(&ack(3, 1, 3)));
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Transmitted {
            transfer: TransferId(1)
        }]
    ));
}

#[test]
fn every_refusal_reason_is_told_and_completed_counts_as_transmitted_5_2_4() {
    for code in 0..=u8::MAX {
        let mut session = passive();
        transmit(&mut session, 0, 3);
        supply(&mut session, 0, b"abc");
        sent(&mut session);
        let reason = RefuseReason::from_code(code);
        session.handle_octets(at(0), octets_of(&refusal(reason, 0)));
        match (reason, &events(&mut session)[..]) {
            (RefuseReason::Completed, [LinkEvent::Transmitted { .. }]) => {}
            (
                _,
                [
                    LinkEvent::Failed {
                        refused: Some(told),
                        ..
                    },
                ],
            ) => assert_eq!(*told, reason),
            (_, other) => panic!("{other:?}"),
        }
        assert_eq!(session.state(), State::Idle);
    }
}

#[test]
fn a_refusal_of_nothing_is_rejected_5_1_2() {
    let mut session = passive();
    transmit(&mut session, 0, 3);
    session.handle_octets(at(0), octets_of(&refusal(RefuseReason::Unknown, 0)));
    assert_eq!(
        sent(&mut session),
        vec![Message::MsgReject {
            reason: 3,
            rejected: 3
        }]
    );
    assert_eq!(session.state(), State::Live);
}

#[test]
fn a_transfer_that_the_node_refuses_is_dropped_and_refused_again_5_2_4() {
    let mut session = passive();
    session.handle_octets(at(0), segment(START, 0, &[1; 100]));
    assert_eq!(events(&mut session).len(), 1);
    session.handle_command(
        at(0),
        LinkCommand::Refuse {
            transfer: TransferId(0),
            reason: RefuseReason::Completed,
        },
    );
    session.handle_octets(at(0), segment(0, 0, &[1; 100]));
    assert_eq!(
        sent(&mut session),
        vec![refusal(RefuseReason::Completed, 0)]
    );
    session.handle_octets(at(0), segment(0, 0, &[1; 100]));
    session.handle_octets(at(0), segment(0, 0, &[1; 100]));
    assert_eq!(
        sent(&mut session),
        vec![refusal(RefuseReason::Completed, 0); 2]
    );
    assert!(events(&mut session).is_empty());
    // The sender stops without END; the next transfer begins with START.
    session.handle_octets(at(0), segment(START | END, 1, b"next"));
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Segment {
            transfer: TransferId(1),
            start: true,
            end: true,
            ..
        }]
    ));
}

#[test]
fn a_refusal_waits_for_all_transfers_before_it_5_2_4() {
    let mut session = passive();
    session.handle_octets(at(0), segment(START | END, 0, b"first"));
    session.handle_octets(at(0), segment(START | END, 1, b"second"));
    events(&mut session);
    session.handle_command(
        at(0),
        LinkCommand::Refuse {
            transfer: TransferId(1),
            reason: RefuseReason::NoResources,
        },
    );
    assert!(sent(&mut session).is_empty());
    acknowledge(&mut session, 0, 5);
    assert_eq!(
        sent(&mut session),
        vec![ack(3, 0, 5), refusal(RefuseReason::NoResources, 1)]
    );
    assert_eq!(session.state(), State::Idle);
}

#[test]
fn transfer_extensions_that_must_be_understood_are_refused_5_2_5() {
    for (items, refused) in [
        (vec![1, 0x80, 0x01, 0, 0], true),
        (vec![0, 0x80, 0x01, 0, 2, 1, 2], false),
        // A critical Transfer Length is understood; it may not come twice or have another size.
        ([&[1], &length_item(3)[1..]].concat(), false),
        ([length_item(3), length_item(3)].concat(), true),
        (vec![0, 0, 1, 0, 4, 0, 0, 0, 3], true),
        // A list that is not filled exactly.
        (vec![0, 0x80, 0x01, 0, 9, 1], true),
    ] {
        let mut session = passive();
        session.handle_octets(at(0), segment_with(START | END, 0, &items, b"abc"));
        let events = events(&mut session);
        if refused {
            assert_eq!(
                sent(&mut session),
                vec![refusal(RefuseReason::ExtensionFailure, 0)],
                "{items:?}"
            );
            assert!(events.is_empty());
        } else {
            assert!(
                matches!(events[..], [LinkEvent::Segment { end: true, .. }]),
                "{items:?}"
            );
        }
    }
}

#[test]
fn another_length_than_the_announced_one_is_not_acceptable_5_2_5_1() {
    // Too short, too long within the first segment, too long later.
    for (announced, segments, told) in [
        (300, [(START, 100), (END, 100)], 2),
        (99, [(START, 100), (END, 100)], 0),
        (150, [(START, 100), (0, 100)], 2),
    ] {
        let mut session = passive();
        let items = length_item(announced);
        for (flags, length) in segments {
            session.handle_octets(at(0), segment_with(flags, 0, &items, &vec![1; length]));
        }
        assert_eq!(
            sent(&mut session)[0],
            refusal(RefuseReason::NotAcceptable, 0)
        );
        let events = events(&mut session);
        assert_eq!(events.len(), told);
        if told > 0 {
            assert!(matches!(
                events[1],
                LinkEvent::Abandoned {
                    transfer: TransferId(0),
                    refused: Some(RefuseReason::NotAcceptable),
                }
            ));
        }
    }
}

#[test]
fn transfers_beyond_our_transfer_mru_are_refused_4_6() {
    let small = Config {
        transfer_mru: 150,
        ..config("ipn:2.0")
    };
    // Announced at the start, or found on the way.
    let mut session = established(small.clone(), 1_000, 1_000);
    session.handle_octets(at(0), segment_with(START, 0, &length_item(151), &[1; 10]));
    assert_eq!(
        sent(&mut session),
        vec![refusal(RefuseReason::NoResources, 0)]
    );
    let mut session = established(small, 1_000, 1_000);
    session.handle_octets(at(0), segment(START, 0, &[1; 100]));
    session.handle_octets(at(0), segment(END, 0, &[1; 51]));
    assert_eq!(
        sent(&mut session),
        vec![refusal(RefuseReason::NoResources, 0)]
    );
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Segment { .. }, LinkEvent::Abandoned { .. }]
    ));
}

#[test]
fn segments_beyond_our_segment_mru_are_rejected_and_the_transfer_refused_5_1_2() {
    let small = Config {
        segment_mru: 100,
        ..config("ipn:2.0")
    };
    let mut session = established(small, 1_000, 1_000);
    session.handle_octets(at(0), segment(START | END, 0, &[1; 101]));
    session.handle_octets(at(0), segment(START | END, 1, &[1; 100]));
    let reject = Message::MsgReject {
        reason: 2,
        rejected: 1,
    };
    assert_eq!(
        sent(&mut session),
        vec![refusal(RefuseReason::NotAcceptable, 0), reject]
    );
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Segment {
            transfer: TransferId(1),
            ..
        }]
    ));
}

#[test]
fn segments_out_of_order_end_the_session_5_2_2() {
    for second in [
        segment(START, 1, b"x"),
        segment(0, 1, b"x"),
        segment(START, 0, b"x"),
    ] {
        let mut session = passive();
        session.handle_octets(at(0), segment(START, 0, b"x"));
        session.handle_octets(at(0), second);
        let reject = Message::MsgReject {
            reason: 3,
            rejected: 1,
        };
        assert_eq!(
            sent(&mut session),
            vec![
                reject,
                Message::SessTerm {
                    flags: 0,
                    reason: 0
                }
            ]
        );
        assert!(matches!(
            events(&mut session)[..],
            [
                LinkEvent::Segment { .. },
                LinkEvent::Abandoned { .. },
                LinkEvent::Down(DownReason::PeerFault(_))
            ]
        ));
    }
}

#[test]
fn a_transfer_id_used_again_while_unanswered_ends_the_session_5_2_1() {
    let mut session = passive();
    session.handle_octets(at(0), segment(START | END, 0, b"x"));
    session.handle_octets(at(0), segment(START | END, 0, b"y"));
    assert_eq!(session.state(), State::Closed);
}

fn cancel(session: &mut Session, transfer: u64) {
    let transfer = TransferId(transfer);
    session.handle_command(at(0), LinkCommand::Cancel { transfer });
}

fn end(transfer: u64) -> Message {
    Message::XferSegment(XferSegment {
        flags: END,
        transfer,
        extensions: TransferExtensions::default(),
        data_length: 0,
    })
}

#[test]
fn a_queued_transfer_is_cancelled_in_silence() {
    let mut session = established(config("ipn:2.0"), 100, 1 << 20);
    transmit(&mut session, 0, 250);
    transmit(&mut session, 1, 3);
    supply(&mut session, 0, &[5; 150]);
    sent(&mut session);
    cancel(&mut session, 1);
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Failed {
            transfer: TransferId(1),
            refused: None,
            ..
        }]
    ));
    assert!(sent(&mut session).is_empty());
}

#[test]
fn a_begun_transfer_that_is_cancelled_ends_before_its_announced_length_5_2_5_1() {
    let mut session = established(config("ipn:2.0"), 100, 1 << 20);
    transmit(&mut session, 0, 250);
    transmit(&mut session, 1, 3);
    supply(&mut session, 0, &[5; 200]);
    supply(&mut session, 1, b"two");
    sent(&mut session);
    session.handle_octets(at(0), octets_of(&ack(START, 0, 100)));
    events(&mut session);
    cancel(&mut session, 0);
    assert!(
        matches!(
            events(&mut session)[..],
            [LinkEvent::Failed {
                transfer: TransferId(0),
                refused: None,
                acknowledged: 100,
            }]
        ),
        "the node is told once, and at once"
    );
    // The next transfer follows: the session goes on.
    let messages = sent(&mut session);
    assert_eq!(messages[0], end(0));
    assert!(matches!(&messages[1], Message::XferSegment(segment) if segment.transfer == 1));
    // Octets that crossed the end are acknowledged, and then the transfer is refused.
    session.handle_octets(at(0), octets_of(&ack(0, 0, 200)));
    session.handle_octets(at(0), octets_of(&refusal(RefuseReason::NotAcceptable, 0)));
    assert!(events(&mut session).is_empty());
    session.handle_octets(at(0), octets_of(&ack(START | END, 1, 3)));
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Transmitted {
            transfer: TransferId(1)
        }]
    ));
    assert_eq!(session.state(), State::Idle);
}

#[test]
fn a_segment_begun_is_sent_to_its_end_with_nothing_of_a_cancelled_transfer_6_1() {
    let mut session = established(config("ipn:2.0"), 200_000, 1 << 20);
    transmit(&mut session, 0, 300_000);
    supply(&mut session, 0, &[5; 150_000]);
    let mut out = Gather::new();
    session.poll_octets(at(0), 1_000, &mut out);
    let begun = out.octets();
    cancel(&mut session, 0);
    let octets = drain(&mut session, at(0));
    let heads = 2 + 8 + 4 + 13 + 8 + 2 + 8 + 8 + 1;
    let rest = 150_000 + heads - usize::try_from(begun).unwrap();
    assert!(octets.len() <= rest, "{} of {rest}", octets.len());
    let at_end = octets.len() - 18;
    assert!(octets[..at_end].iter().all(|octet| *octet == 0));
    assert_eq!(messages(&octets[at_end..]), vec![end(0)]);
}

/// A peer that does not look at the length acknowledges what it should refuse.
#[test]
fn an_early_end_that_is_acknowledged_is_no_transmission_5_2_5_1() {
    let mut session = established(config("ipn:2.0"), 100, 1 << 20);
    transmit(&mut session, 0, 250);
    supply(&mut session, 0, &[5; 100]);
    sent(&mut session);
    cancel(&mut session, 0);
    sent(&mut session);
    events(&mut session);
    session.handle_octets(at(0), octets_of(&ack(START, 0, 100)));
    session.handle_octets(at(0), octets_of(&ack(END, 0, 100)));
    assert!(events(&mut session).is_empty());
    assert_eq!(session.state(), State::Idle);
    // Nothing is left that could fail again.
    session.handle_command(at(0), LinkCommand::Disconnected);
    assert!(matches!(events(&mut session)[..], [LinkEvent::Down(_)]));
}

/// RFC 9174 5.2.5.1: the receiver of an early end refuses, and the session goes on.
#[test]
fn an_early_end_is_refused_and_what_came_is_abandoned_5_2_5_1() {
    let mut session = passive();
    let items = length_item(250);
    session.handle_octets(at(0), segment_with(START, 7, &items, &[1; 100]));
    session.handle_octets(at(0), segment(END, 7, &[]));
    let told = events(&mut session);
    assert!(
        matches!(
            told[..],
            [
                LinkEvent::Segment { end: false, .. },
                LinkEvent::Abandoned {
                    transfer: TransferId(7),
                    refused: Some(RefuseReason::NotAcceptable),
                }
            ]
        ),
        "{told:?}"
    );
    assert_eq!(
        sent(&mut session),
        vec![refusal(RefuseReason::NotAcceptable, 7)]
    );
    session.handle_octets(at(0), segment(START | END, 8, b"next"));
    assert!(matches!(
        events(&mut session)[..],
        [LinkEvent::Segment { end: true, .. }]
    ));
}

/// docs/tcpcl-extensions.md 2: an item of type 0xD402 without value.
#[test]
fn a_transfer_that_is_not_verified_says_so_where_prefixes_are_kept_5_2_5() {
    let keeping = |id| Config {
        keeps_reactive_fragments: true,
        segment_length: 100,
        ..config(id)
    };
    for peer in [keeping("ipn:2.0"), config("ipn:2.0")] {
        let keeps = peer.keeps_reactive_fragments;
        let mut pair = Pair::new(keeping("ipn:1.0"), peer);
        pair.settle();
        let transfer = TransferId(0);
        let length = 200;
        pair.command(0, LinkCommand::Transmit { transfer, length });
        pair.command(0, LinkCommand::Unverified { transfer });
        let octets = Piece::Octets(Bytes::from_static(&[1; 150]));
        pair.command(0, LinkCommand::Supply { transfer, octets });
        pair.events[1].clear();
        pair.settle();
        let told = |event: &LinkEvent| matches!(event, LinkEvent::Unverified { .. });
        assert_eq!(
            pair.events[1].iter().filter(|it| told(it)).count(),
            usize::from(keeps)
        );
        assert!(!keeps || told(&pair.events[1][0]), "before its octets");
    }
}

/// docs/tcpcl-extensions.md 3: reason 0xF0 where both sides have the extensions, and "No Resources" for everybody else.
#[test]
fn a_source_that_is_full_is_named_to_a_peer_that_knows_it_5_2_4() {
    let keeping = |id| Config {
        keeps_reactive_fragments: true,
        ..config(id)
    };
    for (peer, told) in [
        (keeping("ipn:2.0"), RefuseReason::SourceFull),
        (config("ipn:2.0"), RefuseReason::NoResources),
    ] {
        let mut pair = Pair::new(keeping("ipn:1.0"), peer);
        pair.settle();
        let transfer = TransferId(0);
        pair.command(
            0,
            LinkCommand::Transmit {
                transfer,
                length: 9,
            },
        );
        let octets = Piece::Octets(Bytes::from_static(b"too much!"));
        pair.command(0, LinkCommand::Supply { transfer, octets });
        pair.settle();
        let reason = RefuseReason::SourceFull;
        pair.command(1, LinkCommand::Refuse { transfer, reason });
        pair.settle();
        let refused = pair.events[0].iter().find_map(|event| match event {
            LinkEvent::Failed { refused, .. } => *refused,
            _ => None,
        });
        assert_eq!(refused, Some(told));
    }
}

#[test]
fn a_transfer_that_has_wholly_left_cannot_be_taken_back() {
    let mut session = established(config("ipn:2.0"), 1_000, 1 << 20);
    transmit(&mut session, 0, 100);
    supply(&mut session, 0, &[5; 100]);
    sent(&mut session);
    cancel(&mut session, 0);
    assert_eq!(session.state(), State::Closed);
}

#[test]
fn equal_tiny_segments_take_no_room_and_different_ones_are_bounded() {
    let config = Config {
        awaiting_acknowledgment: 100,
        ..config("ipn:2.0")
    };
    let mut session = established(config.clone(), 1_000, 1 << 20);
    session.handle_octets(at(0), segment(START, 0, b"x"));
    for _ in 0..1_000 {
        session.handle_octets(at(0), segment(0, 0, b"x"));
    }
    assert!(session.wants_octets());
    events(&mut session);
    acknowledge(&mut session, 0, 1_001);
    assert_eq!(sent(&mut session).len(), 1_001);
    // Segments that differ: first the session wants no more, then it ends (RFC 9174 table 9).
    let mut session = established(config, 1_000, 1 << 20);
    session.handle_octets(at(0), segment(START, 0, b"x"));
    let mut accepted = 1;
    while session.state() != State::Closed {
        assert!(accepted <= 100);
        assert_eq!(session.wants_octets(), accepted < 49);
        session.handle_octets(
            at(0),
            segment(0, 0, if accepted % 2 == 0 { b"x" } else { b"xy" }),
        );
        events(&mut session);
        accepted += 1;
    }
    assert_eq!(
        sent(&mut session),
        vec![Message::SessTerm {
            flags: 0,
            reason: 5
        }]
    );
}

#[test]
fn acknowledgments_of_a_peer_that_does_not_read_do_not_pile_up() {
    let mut session = passive();
    session.handle_octets(at(0), segment(START, 0, b"x"));
    for _ in 0..10_000 {
        session.handle_octets(at(0), segment(0, 0, b"x"));
    }
    events(&mut session);
    acknowledge(&mut session, 0, 10_001);
    let mut gather = Gather::new();
    session.poll_octets(at(0), 1_000, &mut gather);
    assert!(gather.octets() < 1_100);
}

#[test]
fn many_small_transfers_share_a_gather_list_with_few_entries() {
    let mut session = passive();
    for transfer in 0..100 {
        transmit(&mut session, transfer, 700);
        let octets = Piece::Extent(Extent {
            offset: transfer * 1_000,
            length: 700,
        });
        session.handle_command(
            at(0),
            LinkCommand::Supply {
                transfer: TransferId(transfer),
                octets,
            },
        );
    }
    let mut gather = Gather::new();
    session.poll_octets(at(0), 50_000, &mut gather);
    assert!((50_000..51_000).contains(&gather.octets()));
    assert_eq!(gather.pieces().len(), 2 * 70);
}
