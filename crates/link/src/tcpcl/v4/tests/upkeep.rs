//! KEEPALIVE, `MSG_REJECT` and `SESS_TERM`: RFC 9174 5.1 and 6.

use super::*;
use crate::stream::{DownReason, RefuseReason, TerminateReason};

fn up_with(keepalive_s: u16, idle_timeout: Option<Duration>) -> Pair {
    let active = Config {
        keepalive_s,
        idle_timeout,
        ..config("ipn:1.0")
    };
    let mut pair = Pair::new(active, config("ipn:2.0"));
    pair.settle();
    pair.events = [Vec::new(), Vec::new()];
    pair
}

fn wait(pair: &mut Pair, milliseconds: u64) {
    pair.now.monotonic = pair.now.monotonic + Duration::from_millis(milliseconds);
}

fn terminate(pair: &mut Pair, side: usize, reason: TerminateReason) {
    pair.command(side, LinkCommand::Terminate { reason });
}

fn down(pair: &Pair, side: usize) -> Option<&DownReason> {
    match pair.events[side].last() {
        Some(LinkEvent::Down(reason)) => Some(reason),
        _ => None,
    }
}

#[test]
fn a_keepalive_follows_an_interval_of_silence_and_only_that_5_1_1() {
    let mut pair = up_with(10, None);
    wait(&mut pair, 9_000);
    pair.sessions[0].handle_timeout(pair.now);
    assert!(drain(&mut pair.sessions[0], pair.now).is_empty());
    pair.transmit(0, 0, b"x");
    pair.send(0, usize::MAX);
    let next = pair.sessions[0].poll_timeout();
    assert_eq!(next, Some(pair.now.monotonic + Duration::from_secs(10)));
    wait(&mut pair, 10_000);
    pair.sessions[0].handle_timeout(pair.now);
    assert_eq!(drain(&mut pair.sessions[0], pair.now), [4]);
    assert!(drain(&mut pair.sessions[0], pair.now).is_empty());
}

#[test]
fn an_idle_session_has_nothing_to_write_until_its_keepalive_is_due_5_1_1() {
    let mut pair = up_with(10, None);
    assert!(!pair.sessions[0].may_have_octets());
    wait(&mut pair, 10_000);
    pair.sessions[0].handle_timeout(pair.now);
    assert!(pair.sessions[0].may_have_octets());
    pair.send(0, usize::MAX);
    assert!(!pair.sessions[0].may_have_octets());
    pair.deliver(1, usize::MAX);
    assert!(!pair.sessions[1].may_have_octets());
}

#[test]
fn two_idle_sessions_stay_up_by_keepalives_5_1_1() {
    let mut pair = up_with(10, None);
    for _ in 0..200 {
        pair.jump();
        pair.settle();
    }
    assert!(pair.now.monotonic > at(900_000).monotonic);
    assert!(pair.events.iter().all(Vec::is_empty));
}

#[test]
fn keepalives_are_off_when_either_side_says_0_4_7() {
    let pair = up_with(0, None);
    assert_eq!(pair.sessions[0].poll_timeout(), None);
    assert_eq!(pair.sessions[1].poll_timeout(), None);
}

#[test]
fn silence_for_two_intervals_is_the_end_5_1_1() {
    let mut pair = up_with(10, None);
    pair.transmit(0, 0, b"x");
    pair.send(0, usize::MAX);
    wait(&mut pair, 20_000);
    pair.sessions[0].handle_timeout(pair.now);
    // The keepalive is due first, the silence after it.
    pair.send(0, usize::MAX);
    pair.sessions[0].handle_timeout(pair.now);
    pair.take(0);
    assert!(matches!(
        pair.events[0][..],
        [
            LinkEvent::Failed {
                transfer: TransferId(0),
                refused: None,
                acknowledged: 0
            },
            LinkEvent::Down(DownReason::KeepaliveTimeout)
        ]
    ));
    let sent = messages(&drain(&mut pair.sessions[0], pair.now));
    assert_eq!(
        sent,
        vec![Message::SessTerm {
            flags: 0,
            reason: 1
        }]
    );
}

#[test]
fn octets_of_a_long_segment_are_no_silence_5_1_1() {
    let mut pair = up_with(10, None);
    pair.transmit(0, 0, &[1; 60_000]);
    pair.send(0, usize::MAX);
    for _ in 0..100 {
        wait(&mut pair, 9_000);
        pair.deliver(1, 100);
        pair.sessions[1].handle_timeout(pair.now);
        pair.take(1);
    }
    assert_eq!(down(&pair, 1), None);
}

#[test]
fn no_keepalive_comes_inside_a_segment_6_1() {
    let mut pair = up_with(10, None);
    pair.transmit(0, 0, &[1; 60_000]);
    pair.send(0, 100);
    wait(&mut pair, 10_000);
    pair.sessions[0].handle_timeout(pair.now);
    let mut gather = Gather::new();
    pair.sessions[0].poll_octets(pair.now, 0, &mut gather);
    assert!(gather.is_empty());
    pair.settle();
    assert_eq!(pair.received(1).len(), 1);
}

#[test]
fn a_keepalive_from_the_peer_asks_for_nothing_5_1_1() {
    let mut pair = Pair::up();
    pair.sessions[1].handle_octets(pair.now, Bytes::from_static(&[4, 4, 4]));
    assert!(drain(&mut pair.sessions[1], pair.now).is_empty());
    assert_eq!(pair.sessions[1].state(), State::Idle);
}

#[test]
fn an_unknown_message_type_is_rejected_and_the_connection_closed_5_1_2() {
    let mut pair = Pair::up();
    pair.sessions[1].handle_octets(pair.now, Bytes::from_static(&[0xee, 1, 2, 3]));
    assert_eq!(drain(&mut pair.sessions[1], pair.now), [6, 1, 0xee]);
    pair.take(1);
    assert!(matches!(down(&pair, 1), Some(DownReason::PeerFault(fault)) if fault.contains("0xee")));
}

#[test]
fn sess_init_in_an_established_session_is_rejected_and_the_session_goes_on_5_1_2() {
    let mut pair = Pair::up();
    let mut octets = vec![7];
    octets.extend([0; 2 + 8 + 8 + 2 + 4]);
    pair.sessions[1].handle_octets(pair.now, Bytes::from(octets));
    assert_eq!(drain(&mut pair.sessions[1], pair.now), [6, 3, 7]);
    assert_eq!(pair.sessions[1].state(), State::Idle);
}

#[test]
fn a_rejection_is_told_and_a_rejected_segment_ends_the_session_in_order_5_1_2() {
    let mut pair = Pair::up();
    pair.sessions[0].handle_octets(pair.now, Bytes::from_static(&[6, 3, 2]));
    pair.take(0);
    assert!(matches!(
        pair.events[0][..],
        [LinkEvent::Rejected {
            reason: 3,
            message: 2
        }]
    ));
    assert_eq!(pair.sessions[0].state(), State::Idle);
    pair.sessions[0].handle_octets(pair.now, Bytes::from_static(&[6, 2, 1]));
    assert_eq!(pair.sessions[0].state(), State::Ending);
    // A peer that rejects everything is broken.
    let mut pair = Pair::up();
    pair.sessions[0].handle_octets(pair.now, Bytes::from([6, 3, 2].repeat(17)));
    assert_eq!(pair.sessions[0].state(), State::Closed);
}

#[test]
fn an_idle_session_ends_in_order_after_the_idle_timeout_6_2() {
    let mut pair = up_with(10, Some(Duration::from_secs(35)));
    let start = pair.now.monotonic;
    for _ in 0..100 {
        pair.jump();
        pair.settle();
        if down(&pair, 0).is_some() {
            break;
        }
    }
    assert_eq!(pair.now.monotonic, start + Duration::from_secs(35));
    for side in [0, 1] {
        assert_eq!(
            down(&pair, side),
            Some(&DownReason::Terminated(TerminateReason::IdleTimeout))
        );
        assert!(matches!(pair.events[side][0], LinkEvent::Ending));
    }
}

#[test]
fn a_transfer_under_way_is_not_idleness_6_2() {
    let mut pair = up_with(10, Some(Duration::from_secs(35)));
    pair.transmit(0, 0, b"x");
    for _ in 0..50 {
        pair.jump();
        pair.settle();
    }
    assert_eq!(down(&pair, 0), None);
    pair.command(
        1,
        LinkCommand::Acknowledge {
            transfer: TransferId(0),
            octets: 1,
        },
    );
    let done = pair.now.monotonic;
    while down(&pair, 0).is_none() {
        pair.settle();
        pair.jump();
        pair.settle();
    }
    assert_eq!(pair.now.monotonic, done + Duration::from_secs(35));
}

#[test]
fn an_ending_session_finishes_what_has_begun_and_begins_nothing_6_1() {
    let mut pair = Pair::up();
    pair.command(
        0,
        LinkCommand::Transmit {
            transfer: TransferId(0),
            length: 6,
        },
    );
    let octets = Piece::Octets(Bytes::from_static(b"abc"));
    pair.command(
        0,
        LinkCommand::Supply {
            transfer: TransferId(0),
            octets: octets.clone(),
        },
    );
    pair.transmit(0, 1, b"queued behind it");
    pair.settle();
    terminate(&mut pair, 0, TerminateReason::Busy);
    pair.settle();
    assert!(matches!(
        pair.events[0][..],
        [
            LinkEvent::Ending,
            LinkEvent::Failed {
                transfer: TransferId(1),
                refused: None,
                ..
            }
        ]
    ));
    assert!(matches!(
        pair.events[1][..],
        [LinkEvent::Segment { .. }, LinkEvent::Ending]
    ));
    // RFC 9174 6.1: no new transfer in either direction.
    for side in [0, 1] {
        pair.transmit(side, 7, b"new");
        pair.take(side);
        assert!(matches!(
            pair.events[side].last(),
            Some(LinkEvent::Failed {
                transfer: TransferId(7),
                refused: None,
                ..
            })
        ));
    }
    pair.command(
        0,
        LinkCommand::Supply {
            transfer: TransferId(0),
            octets,
        },
    );
    pair.settle();
    assert_eq!(pair.received(1), vec![(TransferId(0), b"abcabc".to_vec())]);
    assert_eq!(down(&pair, 0), None);
    pair.command(
        1,
        LinkCommand::Acknowledge {
            transfer: TransferId(0),
            octets: 6,
        },
    );
    pair.settle();
    assert!(pair.events[0].iter().any(|event| matches!(
        event,
        LinkEvent::Transmitted {
            transfer: TransferId(0)
        }
    )));
    for side in [0, 1] {
        assert_eq!(
            down(&pair, side),
            Some(&DownReason::Terminated(TerminateReason::Busy))
        );
        assert!(drain(&mut pair.sessions[side], pair.now).is_empty());
    }
}

#[test]
fn a_transfer_that_begins_while_the_session_ends_is_refused_6_1() {
    let mut pair = Pair::up();
    terminate(&mut pair, 1, TerminateReason::Unknown);
    pair.transmit(0, 4, b"crossing");
    pair.settle();
    assert!(matches!(
        pair.events[0][..],
        [
            LinkEvent::Failed {
                transfer: TransferId(4),
                refused: Some(RefuseReason::SessionTerminating),
                acknowledged: 0
            },
            LinkEvent::Ending,
            LinkEvent::Down(DownReason::Terminated(TerminateReason::Unknown))
        ]
    ));
    assert!(pair.received(1).is_empty());
}

#[test]
fn sess_term_is_answered_with_the_same_reason_and_reply_6_1() {
    for reason in 0..=u8::MAX {
        let mut pair = Pair::up();
        pair.sessions[1].handle_octets(pair.now, Bytes::copy_from_slice(&[5, 0xfe, reason]));
        assert_eq!(drain(&mut pair.sessions[1], pair.now), [5, 1, reason]);
        pair.take(1);
        let expected = DownReason::Terminated(TerminateReason::from_code(reason));
        assert_eq!(down(&pair, 1), Some(&expected));
    }
}

#[test]
fn both_sides_may_end_the_session_at_once_6_1() {
    let mut pair = Pair::up();
    terminate(&mut pair, 0, TerminateReason::Busy);
    terminate(&mut pair, 1, TerminateReason::ResourceExhaustion);
    pair.send(0, usize::MAX);
    pair.send(1, usize::MAX);
    pair.settle();
    assert_eq!(
        down(&pair, 0),
        Some(&DownReason::Terminated(TerminateReason::Busy))
    );
    assert_eq!(
        down(&pair, 1),
        Some(&DownReason::Terminated(TerminateReason::ResourceExhaustion))
    );
}

#[test]
fn an_ending_session_that_does_not_move_is_given_up() {
    let mut pair = up_with(3, None);
    terminate(&mut pair, 0, TerminateReason::Unknown);
    pair.send(0, usize::MAX);
    let start = pair.now.monotonic;
    // The peer answers nothing but goes on with keepalives.
    while down(&pair, 0).is_none() {
        let next = pair.sessions[0]
            .poll_timeout()
            .expect("an ending session waits");
        pair.now.monotonic = next;
        pair.sessions[0].handle_octets(pair.now, Bytes::from_static(&[4]));
        pair.sessions[0].handle_timeout(pair.now);
        pair.sessions[0].poll_octets(pair.now, 1_000, &mut Gather::new());
        pair.take(0);
    }
    assert_eq!(down(&pair, 0), Some(&DownReason::NegotiationTimeout));
    assert_eq!(pair.now.monotonic, start + Duration::from_secs(10));
}

#[test]
fn a_lost_connection_fails_what_is_under_way_6_1() {
    let mut pair = Pair::up();
    pair.transmit(0, 0, &[1; 100_000]);
    pair.transmit(0, 1, b"x");
    pair.send(0, 70_000);
    pair.deliver(1, 70_000);
    for side in [0, 1] {
        pair.command(side, LinkCommand::Disconnected);
        pair.take(side);
        assert_eq!(down(&pair, side), Some(&DownReason::Disconnected));
        assert!(drain(&mut pair.sessions[side], pair.now).is_empty());
        assert_eq!(pair.sessions[side].poll_timeout(), None);
    }
    assert!(matches!(
        pair.events[0][..],
        [
            LinkEvent::Failed {
                transfer: TransferId(0),
                ..
            },
            LinkEvent::Failed {
                transfer: TransferId(1),
                ..
            },
            LinkEvent::Down(_)
        ]
    ));
    assert!(matches!(
        pair.events[1][pair.events[1].len() - 2],
        LinkEvent::Abandoned {
            transfer: TransferId(0),
            refused: None,
        }
    ));
    // Nothing brings a session back.
    pair.sessions[0].handle_octets(pair.now, Bytes::from_static(&[4]));
    pair.transmit(0, 9, b"x");
    pair.take(0);
    assert!(matches!(
        pair.events[0].last(),
        Some(LinkEvent::Failed {
            transfer: TransferId(9),
            ..
        })
    ));
}

#[test]
fn a_peer_that_closes_after_our_sess_term_has_ended_the_session_6_1() {
    let mut pair = Pair::up();
    terminate(&mut pair, 0, TerminateReason::Busy);
    pair.send(0, usize::MAX);
    pair.command(0, LinkCommand::Disconnected);
    pair.take(0);
    assert_eq!(
        down(&pair, 0),
        Some(&DownReason::Terminated(TerminateReason::Busy))
    );
}

#[test]
fn durable_segments_are_acknowledged_before_an_unclean_end_6_1() {
    let mut pair = Pair::up();
    pair.transmit(0, 0, b"abc");
    pair.settle();
    pair.command(
        1,
        LinkCommand::Acknowledge {
            transfer: TransferId(0),
            octets: 3,
        },
    );
    pair.sessions[1].handle_octets(
        pair.now,
        Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]),
    );
    let sent = messages(&drain(&mut pair.sessions[1], pair.now));
    assert!(matches!(
        sent[..],
        [
            Message::XferAck {
                flags: 3,
                transfer: 0,
                acknowledged_length: 3
            },
            Message::MsgReject { .. },
            Message::SessTerm { .. }
        ]
    ));
}

#[test]
fn a_node_may_end_a_session_before_it_is_established_6_1() {
    // The passive side has not sent its contact header: the connection just closes.
    let mut session = Session::new(Role::Passive, config("ipn:2.0"), at(0));
    session.handle_command(
        at(0),
        LinkCommand::Terminate {
            reason: TerminateReason::Busy,
        },
    );
    assert!(drain(&mut session, at(0)).is_empty());
    // The active side has.
    let mut session = Session::new(Role::Active, config("ipn:2.0"), at(0));
    session.handle_command(
        at(0),
        LinkCommand::Terminate {
            reason: TerminateReason::Busy,
        },
    );
    assert_eq!(drain(&mut session, at(0)), b"dtn!\x04\x00\x05\x00\x03");
    let expected = DownReason::Terminated(TerminateReason::Busy);
    assert!(matches!(&events(&mut session)[..], [LinkEvent::Down(reason)] if *reason == expected));
}

/// The peer of a session that puts up with a transfer standing still for 35 s; it has begun one of ten octets.
fn begun() -> Pair {
    let passive = Config {
        transfer_timeout: Some(Duration::from_secs(35)),
        ..config("ipn:2.0")
    };
    let active = Config {
        keepalive_s: 10,
        ..config("ipn:1.0")
    };
    let mut pair = Pair::new(active, passive);
    pair.settle();
    pair.events = [Vec::new(), Vec::new()];
    pair.command(
        0,
        LinkCommand::Transmit {
            transfer: TransferId(0),
            length: 10,
        },
    );
    supply_one(&mut pair);
    pair
}

fn supply_one(pair: &mut Pair) {
    let (transfer, octets) = (TransferId(0), Piece::Octets(Bytes::from_static(b"x")));
    pair.command(0, LinkCommand::Supply { transfer, octets });
    pair.settle();
}

#[test]
fn a_transfer_that_stands_still_ends_the_session_also_where_keepalives_come_6_1() {
    let mut pair = begun();
    let start = pair.now.monotonic;
    while down(&pair, 1).is_none() {
        pair.jump();
        pair.settle();
    }
    assert_eq!(pair.now.monotonic, start + Duration::from_secs(35));
    assert_eq!(down(&pair, 1), Some(&DownReason::TransferTimeout));
    let abandoned = |event: &LinkEvent| matches!(event, LinkEvent::Abandoned { refused: None, .. });
    assert!(pair.events[1].iter().any(abandoned));
    // RFC 9174 6.1: the peer is told.
    let is_told = |event: &LinkEvent| matches!(event, LinkEvent::Ending);
    assert!(pair.events[0].iter().any(is_told));
}

#[test]
fn a_transfer_that_comes_slowly_is_none_that_stands_still_6_1() {
    let mut pair = begun();
    for _ in 1..9 {
        wait(&mut pair, 34_000);
        for session in &mut pair.sessions {
            session.handle_timeout(pair.now);
        }
        supply_one(&mut pair);
    }
    assert_eq!(down(&pair, 1), None);
    supply_one(&mut pair);
    assert_eq!(pair.received(1).len(), 1);
    // Whole, it waits for its acknowledgment as long as the node likes.
    for _ in 0..100 {
        pair.jump();
        pair.settle();
    }
    assert_eq!(down(&pair, 1), None);
}

#[test]
fn an_own_end_that_leaves_after_the_peers_came_is_its_answer_6_1() {
    let end = |reason| LinkCommand::Terminate { reason };
    let mut pair = up_with(30, None);
    let session = &mut pair.sessions[0];
    session.handle_command(pair.now, end(TerminateReason::IdleTimeout));
    session.handle_octets(pair.now, Bytes::from_static(&[5, 0, 3]));
    let answer = Message::SessTerm {
        flags: 1,
        reason: 3,
    };
    assert_eq!(messages(&drain(session, pair.now)), vec![answer]);
    // One that has left is none, and nothing more is said.
    let session = &mut pair.sessions[1];
    session.handle_command(pair.now, end(TerminateReason::IdleTimeout));
    let own = Message::SessTerm {
        flags: 0,
        reason: 1,
    };
    assert_eq!(messages(&drain(session, pair.now)), vec![own]);
    session.handle_octets(pair.now, Bytes::from_static(&[5, 0, 3]));
    assert!(drain(session, pair.now).is_empty());
}
