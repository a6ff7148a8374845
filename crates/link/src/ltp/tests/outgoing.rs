//! Sessions in which the engine sends.

use alloc::vec;
use alloc::vec::Vec;

use super::super::segment::*;
use super::super::{Config, Red};
use super::script::{SECOND, Script, all, config, data, short};
use crate::datagram::{DatagramLink, PathState};
use crate::stream::{LinkCommand, TerminateReason, TransferId};

use DataKind::{BlockGreenEnd, BlockRedEnd, Green, RedCheckpoint, RedEnd};

fn heads(segments: &[Segment]) -> Vec<DataHead> {
    segments
        .iter()
        .filter_map(|segment| match segment {
            Segment::Data(data) => Some(data.head),
            _ => None,
        })
        .collect()
}

fn report(
    id: SessionId,
    serials: (u64, u64),
    bounds: (u64, u64),
    claims: &[(u64, u64)],
) -> Segment {
    Segment::Report(
        id,
        Report {
            serial: serials.0,
            checkpoint: serials.1,
            lower: bounds.0,
            upper: bounds.1,
            claims: claims.to_vec(),
        },
    )
}

/// RFC 5326 4.1: the last red segment is the end of the red part and a checkpoint, the last segment the end of the block.
#[test]
fn segments_are_marked_as_what_they_are() {
    let kinds = |red, length| {
        let mut script = Script::new(Config { red, ..config() });
        script.transmit(0, length);
        let heads = heads(&script.sent());
        assert_eq!(heads.iter().map(|head| head.length).sum::<u64>(), length);
        heads.iter().map(|head| head.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(Red::All, 1), [BlockRedEnd]);
    assert_eq!(
        kinds(Red::All, 300),
        [DataKind::Red, DataKind::Red, BlockRedEnd]
    );
    assert_eq!(kinds(Red::None, 300), [Green, Green, BlockGreenEnd]);
    assert_eq!(
        kinds(Red::Octets(150), 300),
        [DataKind::Red, RedEnd, Green, BlockGreenEnd]
    );
    assert_eq!(
        kinds(Red::Octets(300), 300),
        [DataKind::Red, DataKind::Red, BlockRedEnd]
    );
}

/// RFC 5326 6.7, 6.2: a checkpoint without report is sent again as it was, and the session cancelled at the limit; so is
/// the wait for that (6.16).
#[test]
fn a_checkpoint_is_sent_again_until_the_limit() {
    let mut script = Script::new(config());
    script.transmit(0, 100);
    let sent = script.pass(60 * SECOND);
    let times: Vec<_> = sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 21, 42, 63, 84, 105]);
    let segments: Vec<_> = sent.into_iter().map(|(_, segment)| segment).collect();
    assert!(segments[..3].iter().all(|segment| *segment == segments[0]));
    assert_eq!(short(&segments[3]), "cancel by Sender: RetransmissionLimit");
    assert_eq!(script.told(), ["sent 0", "failed 0: Some(Retransmit), 0"]);
    assert_eq!(script.engine.outgoing.begun(), 0);
}

/// A checkpoint's countdown begins when it has left, and what left in a burst before it takes its time on the path.
#[test]
fn a_countdown_begins_when_the_segment_left() {
    let rate = super::super::Rate {
        octets_per_s: 1_000,
        burst_octets: 4_000,
    };
    let mut script = Script::new(Config { rate, ..config() });
    script.transmit(0, 900);
    let given = script.given();
    script.now = 5 * SECOND;
    assert_eq!(script.engine.poll_timeout(), None);
    let octets: usize = given.iter().map(Vec::len).sum();
    // These octets have been on the path for five seconds.
    assert!(octets < 5_000);
    script
        .engine
        .handle_left(super::world::at(script.now), given.len() as u64);
    let due = script.engine.poll_timeout().unwrap().as_nanos() / 1_000;
    assert_eq!(due, 5 * SECOND + 2 * SECOND + SECOND / 10);
    script.transmit(1, 900);
    let before = script.now;
    let octets: usize = {
        let given = script.given();
        script
            .engine
            .handle_left(super::world::at(before), given.len() as u64);
        given.iter().map(Vec::len).sum()
    };
    let all: Vec<_> = script
        .pass(20 * SECOND)
        .into_iter()
        .filter(|(_, segment)| matches!(segment, Segment::Data(_)))
        .collect();
    let second = all.iter().find(|(at, _)| *at > 71).unwrap().0;
    assert_eq!(
        second,
        (before + 21 * SECOND / 10 + octets as u64 * 1_000) * 10 / SECOND
    );
}

/// RFC 5326 6.13: a report is acknowledged, each time; what it does not claim is sent again, the last of it as a checkpoint
/// with the next serial number and the report's.
#[test]
fn missing_octets_are_sent_again() {
    let mut script = Script::new(Config {
        doubling: 0,
        ..config()
    });
    script.transmit(0, 500);
    let first = heads(&script.sent());
    let (id, last) = (first[0].session, *first.last().unwrap());
    let serial = last.serials.unwrap().checkpoint;
    assert_eq!(last.serials.unwrap().report, 0);
    let part = report(id, (9, serial), (0, 500), &[(0, 100), (150, 480)]);
    script.receive(core::slice::from_ref(&part));
    let again = script.sent();
    assert_eq!(
        all(&again),
        [
            "ack of 9".into(),
            "Red 100..150 None".into(),
            alloc::format!("RedCheckpoint 480..500 Some(({}, 9))", serial + 1),
        ]
    );
    // Redundant.
    script.receive(&[part]);
    assert_eq!(all(&script.sent()), ["ack of 9"]);
    assert_eq!(script.told(), ["sent 0"]);
    script.receive(&[report(id, (10, serial + 1), (0, 500), &[(0, 500)])]);
    assert_eq!(all(&script.sent()), ["ack of 10"]);
    assert_eq!(script.told(), ["transmitted 0"]);
    // RFC 5326 8.1: reports of sessions that are over are acknowledged.
    script.receive(&[report(id, (10, serial + 1), (0, 500), &[(0, 500)])]);
    assert_eq!(all(&script.sent()), ["ack of 10"]);
    assert_eq!(script.engine.poll_timeout(), None);
}

/// RFC 5326 9.3: what a report cannot tell is a fault, and changes nothing.
#[test]
fn reports_of_what_was_not_sent_are_faults() {
    let mut script = Script::new(Config {
        red: Red::Octets(100),
        ..config()
    });
    script.transmit(0, 500);
    let id = heads(&script.sent())[0].session;
    let never = SessionId {
        number: id.number ^ 1 << 30,
        ..id
    };
    let other = SessionId {
        originator: 9,
        ..id
    };
    script.receive(&[
        report(id, (9, 0), (0, 101), &[(0, 101)]),
        report(id, (9, 77), (0, 100), &[(0, 100)]),
        report(never, (9, 0), (0, 100), &[(0, 100)]),
        report(other, (9, 0), (0, 100), &[(0, 100)]),
        Segment::Cancel(never, Party::Receiver, Reason::UserCancelled),
    ]);
    // RFC 5326 6.13, 6.17: those of sessions that are not known are answered as well.
    assert_eq!(
        script.sent(),
        [
            Segment::ReportAck(never, 9),
            Segment::CancelAck(never, Party::Receiver)
        ]
    );
    script.receive(&[
        Segment::ReportAck(never, 9),
        Segment::CancelAck(never, Party::Receiver),
        Segment::CancelAck(never, Party::Sender),
    ]);
    assert_eq!(script.sent(), [], "an acknowledgment is not answered");
    script.pass(SECOND);
    let told = script.told();
    for rule in [
        "octets that were not sent",
        "answers no checkpoint",
        "a session that never was",
        "between other engines",
    ] {
        assert!(
            told.iter().any(|told| told.contains(rule)),
            "{rule}: {told:?}"
        );
    }
    assert!(!told.iter().any(|told| told.starts_with("sent")));
}

/// RFC 5326 4.2: a session that has begun is cancelled, another closed; the transfer fails once its datagrams have left.
#[test]
fn cancelled_transfers_fail_once_their_datagrams_left() {
    let mut script = Script::new(config());
    script.transmit(0, 100);
    let given = script.given();
    script.transmit(1, 100);
    for transfer in [0, 1] {
        script.command(LinkCommand::Cancel {
            transfer: TransferId(transfer),
        });
    }
    assert_eq!(script.told(), ["failed 1: None, 0"]);
    script
        .engine
        .handle_left(super::world::at(0), given.len() as u64);
    assert_eq!(script.told(), ["sent 0", "failed 0: None, 0"]);
    let sent = script.sent();
    assert_eq!(all(&sent), ["cancel by Sender: UserCancelled"]);
    script.receive(&[Segment::CancelAck(sent[0].session(), Party::Sender)]);
    assert_eq!(
        (script.pass(100 * SECOND), script.engine.outgoing.begun()),
        (vec![], 0)
    );
}

/// RFC 5326 6.17: a cancellation of the receiver is acknowledged each time, and its reason told once.
#[test]
fn cancellations_of_the_receiver_are_acknowledged() {
    let reasons = [
        (Reason::UserCancelled, "Unknown"),
        (Reason::Unreachable, "NotAcceptable"),
        (Reason::RetransmissionLimit, "Retransmit"),
        (Reason::Miscolored, "Retransmit"),
        (Reason::SystemCancelled, "NoResources"),
        (Reason::CycleLimit, "Retransmit"),
    ];
    for (reason, refused) in reasons {
        let mut script = Script::new(config());
        script.transmit(0, 400);
        let id = heads(&script.sent())[0].session;
        for _ in 0..2 {
            script.receive(&[Segment::Cancel(id, Party::Receiver, reason)]);
            assert_eq!(all(&script.sent()), ["ack of cancel by Receiver"]);
        }
        let failed = alloc::format!("failed 0: Some({refused}), 0");
        assert_eq!(script.told(), ["sent 0".into(), failed]);
        assert_eq!(script.pass(100 * SECOND), []);
    }
}

/// RFC 5326 6.22: a session whose octets are lost again and again.
#[test]
fn retransmission_cycles_are_limited() {
    let mut script = Script::new(Config {
        cycles: 3,
        doubling: 0,
        ..config()
    });
    script.transmit(0, 100);
    for serial in 1..10 {
        let sent = script.sent();
        if let Some(Segment::Cancel(..)) = sent.last() {
            assert_eq!(short(sent.last().unwrap()), "cancel by Sender: CycleLimit");
            assert_eq!(serial, 5);
            assert_eq!(script.told(), ["sent 0", "failed 0: Some(Retransmit), 0"]);
            return;
        }
        let head = *heads(&sent).last().unwrap();
        let checkpoint = head.serials.unwrap().checkpoint;
        script.receive(&[report(
            head.session,
            (serial, checkpoint),
            (0, 100),
            &[(1, 100)],
        )]);
    }
    panic!("it is cancelled");
}

/// RFC 5326 6.5, 6.6: no countdown runs while the peer cannot answer, and nothing leaves while nothing can (6.4).
#[test]
fn countdowns_wait_for_the_peer() {
    let mut script = Script::new(config());
    script.path(PathState::Closed, PathState::Closed);
    script.transmit(0, 100);
    assert_eq!(script.pass(100 * SECOND), []);
    script.path(PathState::Open, PathState::Closed);
    assert_eq!(script.pass(100 * SECOND).len(), 1);
    script.path(PathState::Open, PathState::Open);
    let sent = script.pass(3 * SECOND);
    // A light time from now on: the answer may leave as the path opens.
    assert_eq!(sent.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [2_010]);
}

/// Discretionary checkpoints, whose reports bring losses to light before the end.
#[test]
fn large_blocks_have_checkpoints_within() {
    let mut script = Script::new(Config {
        checkpoint_octets: 300,
        ..config()
    });
    script.transmit(0, 1_000);
    let checkpoints: Vec<_> = heads(&script.sent())
        .into_iter()
        .filter(|head| head.serials.is_some())
        .collect();
    let kinds: Vec<_> = checkpoints.iter().map(|head| head.kind).collect();
    assert_eq!(kinds, [RedCheckpoint, RedCheckpoint, BlockRedEnd]);
    for pair in checkpoints.windows(2) {
        assert_eq!(
            pair[0].serials.unwrap().checkpoint + 1,
            pair[1].serials.unwrap().checkpoint
        );
    }
}

/// Sessions that are open at a time are bounded, and the others wait for their turn.
#[test]
fn sessions_wait_for_each_other() {
    let mut script = Script::new(Config {
        sessions: 2,
        ..config()
    });
    (0..4).for_each(|transfer| script.transmit(transfer, 50));
    let first = heads(&script.sent());
    assert_eq!((first.len(), script.engine.queued_octets()), (2, 100));
    for head in first {
        let checkpoint = head.serials.unwrap().checkpoint;
        script.receive(&[report(head.session, (1, checkpoint), (0, 50), &[(0, 50)])]);
    }
    assert_eq!(heads(&script.sent()).len(), 2);
    assert_eq!(
        script.told(),
        [
            "sent 0",
            "sent 1",
            "transmitted 0",
            "transmitted 1",
            "sent 2",
            "sent 3"
        ]
    );
}

/// No bundle is empty, and none longer than a block may be.
#[test]
fn blocks_have_octets_and_not_too_many() {
    let mut script = Script::new(Config {
        transfer_mru: 100,
        ..config()
    });
    for (transfer, length) in [(0, 0), (1, 101), (2, 100)] {
        let transfer = TransferId(transfer);
        script.command(LinkCommand::Transmit { transfer, length });
    }
    assert_eq!(
        script.told(),
        [
            "failed 0: Some(NotAcceptable), 0",
            "failed 1: Some(NoResources), 0"
        ]
    );
}

/// An ending link lets sessions that have begun come to their end.
#[test]
fn an_ending_link_waits_for_its_sessions() {
    let mut script = Script::new(Config {
        sessions: 1,
        ..config()
    });
    script.transmit(0, 50);
    script.transmit(1, 50);
    let head = heads(&script.sent())[0];
    let reason = TerminateReason::Busy;
    script.command(LinkCommand::Terminate { reason });
    assert_eq!(script.told(), ["sent 0", "Ending", "failed 1: None, 0"]);
    let checkpoint = head.serials.unwrap().checkpoint;
    script.receive(&[report(head.session, (1, checkpoint), (0, 50), &[(0, 50)])]);
    assert_eq!(all(&script.sent()), ["ack of 1"]);
    script.pass(SECOND);
    assert_eq!(script.told(), ["transmitted 0", "Down(Terminated(Busy))"]);
    script.receive(&[data(1, BlockRedEnd, 0..10, (1, 0))]);
    assert_eq!((script.told(), script.sent()), (vec![], vec![]));
}

/// A peer would keep the places of blocks that are given up until it has waited long enough.
#[test]
fn an_engine_that_ends_at_once_cancels_its_blocks() {
    let mut script = Script::new(config());
    script.transmit(0, 50);
    script.transmit(1, 50);
    assert_eq!(script.sent().len(), 2);
    let reason = TerminateReason::Unknown;
    script.command(LinkCommand::Terminate { reason });
    assert_eq!(script.sent(), []);
    script.command(LinkCommand::Terminate { reason });
    let cancel = "cancel by Sender: SystemCancelled";
    assert_eq!(all(&script.sent()), [cancel, cancel]);
    let told = script.told();
    assert_eq!(told.last().unwrap(), "Down(Terminated(Unknown))");
    assert_eq!(script.engine.poll_timeout(), None);
}

/// A peer that claims every second octet is listened to as far as there is room, and the session goes on.
#[test]
fn claims_are_bounded() {
    let mut script = Script::new(Config {
        mtu: 60_000,
        doubling: 0,
        ..config()
    });
    script.transmit(0, 60_000);
    let id = heads(&script.sent())[0].session;
    for serial in 1..10_u64 {
        let lower = serial * 6_000 - 6_000;
        let claims: Vec<_> = (0..3_000)
            .map(|at| (lower + at * 2, lower + at * 2 + 1))
            .collect();
        script.receive(&[report(id, (serial, 0), (lower, lower + 6_000), &claims)]);
    }
    let acks = script
        .sent()
        .iter()
        .filter(|segment| matches!(segment, Segment::ReportAck(..)))
        .count();
    assert_eq!(acks, 5);
    script.receive(&[report(id, (10, 0), (0, 60_000 - 10), &[(0, 60_000 - 10)])]);
    assert!(
        script
            .sent()
            .iter()
            .any(|segment| *segment == Segment::ReportAck(id, 10))
    );
}

/// Octets that are lost while others leave for the first time for a round trip more are sent again once, and at the end of a block with copies.
#[test]
fn only_what_is_lost_near_the_end_has_copies() {
    let rate = super::super::Rate {
        octets_per_s: 1_000,
        burst_octets: 150,
    };
    // A round trip takes 2,000 octets.
    for (sent_s, copies) in [(3, 1), (10, 2)] {
        let mut script = Script::new(Config { rate, ..config() });
        script.transmit(0, 10_000);
        let before = script.pass(sent_s * SECOND);
        let Segment::Data(first) = &before[0].1 else {
            panic!("data");
        };
        let (id, end) = (first.head.session, first.head.end());
        script.receive(&[report(id, (7, 0), (0, 2 * end), &[(end, 2 * end)])]);
        let after = script.pass(2 * SECOND);
        let segments: Vec<_> = after.into_iter().map(|(_, segment)| segment).collect();
        let again = heads(&segments).into_iter();
        let again = again.filter(|head| head.offset == 0);
        assert_eq!(again.count(), copies, "after {sent_s} s");
    }
}

/// ION answers a checkpoint whose octets it has with reports up to the end of the red part, each of which asks for another checkpoint.
#[test]
fn a_peer_that_tells_of_more_than_it_was_asked_gets_no_copies() {
    for (upper, has_copies) in [(200, true), (500, false)] {
        let mut script = Script::new(config());
        script.transmit(0, 500);
        let first = heads(&script.sent());
        let (id, last) = (first[0].session, *first.last().unwrap());
        let serial = last.serials.unwrap().checkpoint;
        script.receive(&[report(id, (9, serial), (0, 200), &[(0, 100)])]);
        let again = heads(&script.sent());
        assert!(again.len() > 1, "the last octets have copies: {again:?}");
        // The second is of the copy.
        script.receive(&[report(id, (10, serial + 1), (0, 200), &[(0, 150)])]);
        script.sent();
        let claims = [(0, 160), (200, 300)];
        let claims = if upper == 500 {
            &claims[..]
        } else {
            &claims[..1]
        };
        script.receive(&[report(id, (11, serial + 1), (0, upper), claims)]);
        script.sent();
        script.receive(&[report(id, (12, serial), (200, 500), &[(200, 310)])]);
        let again = heads(&script.sent());
        let mut offsets: Vec<_> = again.iter().map(|head| head.offset).collect();
        offsets.sort_unstable();
        let count = offsets.len();
        offsets.dedup();
        assert_eq!(count > offsets.len(), has_copies, "{again:?}");
    }
}
