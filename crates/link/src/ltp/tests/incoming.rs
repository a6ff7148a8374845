//! Sessions in which the engine receives.

use alloc::vec;
use alloc::vec::Vec;

use super::super::Config;
use super::super::segment::*;
use super::script::{SECOND, Script, all, config, data, theirs};
use crate::datagram::{DatagramLink, PathState};
use crate::stream::{LinkCommand, RefuseReason, TerminateReason};

use DataKind::{BlockGreenEnd, BlockRedEnd, Green, Red, RedCheckpoint, RedEnd};

/// The serial number of the only report that leaves now.
fn serial(script: &mut Script) -> u64 {
    match script.sent().as_slice() {
        [Segment::Report(_, report)] => report.serial,
        other => panic!("{other:?}"),
    }
}

/// RFC 5326 6.9, 6.11: the report of a whole red part waits for the node's disk, and the session ends with its
/// acknowledgment (6.14).
#[test]
fn a_block_is_reported_once_it_is_durable() {
    let mut script = Script::new(config());
    script.receive(&[
        data(1, Red, 0..100, (0, 0)),
        data(1, BlockRedEnd, 100..150, (7, 0)),
    ]);
    assert_eq!(
        script.told(),
        [
            "piece of 0: 0+100 of None",
            "piece of 0: 100+50 of Some(150)",
            "complete 0: 150"
        ]
    );
    script.acknowledge(0, 149);
    assert_eq!(
        all(&script
            .pass(5 * SECOND)
            .into_iter()
            .map(|(_, segment)| segment)
            .collect::<Vec<_>>()),
        [""; 0]
    );
    script.acknowledge(0, 150);
    let sent = script.sent();
    assert_eq!(all(&sent), ["report for 7 of 0..150: [(0, 150)]"]);
    let Segment::Report(_, report) = &sent[0] else {
        unreachable!()
    };
    script.receive(&[Segment::ReportAck(theirs(1), report.serial)]);
    assert_eq!(script.engine.incoming.held(), (0, 0, 1));
    assert_eq!(script.engine.poll_timeout(), None);
}

/// The peer sends what it begins meanwhile again, and the link that follows takes it under its own terms.
#[test]
fn an_ending_link_takes_no_block_that_begins() {
    let mut script = Script::new(config());
    script.transmit(0, 50);
    script.sent();
    script.receive(&[data(1, Red, 0..100, (0, 0))]);
    let reason = TerminateReason::Unknown;
    script.command(LinkCommand::Terminate { reason });
    script.told();
    script.receive(&[
        data(2, BlockRedEnd, 0..10, (9, 0)),
        data(1, BlockRedEnd, 100..150, (7, 0)),
    ]);
    assert_eq!(
        script.told(),
        ["piece of 0: 100+50 of Some(150)", "complete 0: 150"]
    );
    script.acknowledge(0, 150);
    assert_eq!(
        all(&script.sent()),
        ["report for 7 of 0..150: [(0, 150)]"],
        "the block that was under way comes to its end"
    );
}

/// RFC 5326 6.8, 6.3: a report without answer is sent again as it was, until the limit: then the session is cancelled, and
/// so is the wait for that (6.16).
#[test]
fn a_report_is_sent_again_until_the_limit() {
    let mut script = Script::new(config());
    script.receive(&[data(1, RedCheckpoint, 50..150, (7, 0))]);
    let sent = script.pass(60 * SECOND);
    let report = "report for 7 of 0..150: [(50, 150)]";
    let times: Vec<_> = sent
        .iter()
        .map(|(at, segment)| (*at, super::script::short(segment)))
        .collect();
    let cancel = "cancel by Receiver: RetransmissionLimit";
    let expected = [
        (0, report),
        (0, report),
        (21, report),
        (42, report),
        (63, cancel),
        (84, cancel),
        (105, cancel),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(at, text)| (*at, (*text).into()))
        .collect::<Vec<(u64, alloc::string::String)>>();
    assert_eq!(times, expected);
    let serials: Vec<_> = sent
        .iter()
        .filter_map(|(_, segment)| match segment {
            Segment::Report(_, report) => Some(report.serial),
            _ => None,
        })
        .collect();
    assert!(serials.iter().all(|serial| *serial == serials[0]));
    assert!(script.told().contains(&"abandoned 0: None".into()));
    assert_eq!(script.engine.incoming.held(), (0, 0, 1));
}

/// RFC 5326 6.8 b: a checkpoint that comes again is answered by the same report, and not when that was acknowledged.
#[test]
fn a_checkpoint_that_comes_again_is_answered_again() {
    let mut script = Script::new(Config {
        doubling: 0,
        ..config()
    });
    let checkpoint = data(1, RedCheckpoint, 50..150, (7, 0));
    script.receive(core::slice::from_ref(&checkpoint));
    let first = serial(&mut script);
    script.pass(SECOND);
    script.receive(core::slice::from_ref(&checkpoint));
    assert_eq!(serial(&mut script), first);
    // The network doubled it.
    script.receive(core::slice::from_ref(&checkpoint));
    assert_eq!(script.sent(), []);
    script.receive(&[Segment::ReportAck(theirs(1), first), checkpoint]);
    assert_eq!(script.sent(), []);
}

/// A peer that sends checkpoints and acknowledges no report has the claims of a block put together once more than there is room for, not for each.
#[test]
fn checkpoints_without_end_cost_no_more_than_the_reports_that_may_wait() {
    const GAPS: u64 = 2_000;
    let mut script = Script::new(config());
    for offset in (1..=GAPS).map(|gap| 2 * gap) {
        script.receive(&[data(1, Red, offset..offset + 1, (0, 0))]);
    }
    let checkpoints = |serials: core::ops::Range<u64>| {
        let checkpoint = |serial| data(1, RedCheckpoint, 2..3, (serial, 0));
        serials.map(checkpoint).collect::<Vec<_>>()
    };
    let end = 2 * GAPS + 1;
    script.receive(&[data(1, RedCheckpoint, end - 1..end, (7, 0))]);
    // Each leaves twice.
    let reports = script.sent();
    let fitting = 64 / (reports.len() / 2);
    assert!((1..4).contains(&fitting), "{}", reports.len());
    let claims = usize::try_from(GAPS).unwrap();
    let at_end = |serial| data(1, RedCheckpoint, end - 1..end, (serial, 0));
    for serial in 8..1_000 {
        script.receive(&[at_end(serial)]);
    }
    let put_together = script.engine.incoming.claims_put_together();
    assert_eq!(put_together, (fitting + 1) * claims);
    // There is room for one that tells of less.
    script.sent();
    script.receive(&checkpoints(1_000..1_001));
    assert_eq!(
        all(&script.sent()),
        ["report for 1000 of 0..3: [(2, 3)]"; 2]
    );
    // And for all once some are acknowledged.
    let acknowledged = reports.iter().filter_map(|segment| match segment {
        Segment::Report(id, report) => Some(Segment::ReportAck(*id, report.serial)),
        _ => None,
    });
    let acknowledged: Vec<_> = acknowledged.collect();
    script.receive(&acknowledged);
    script.receive(&[at_end(1_001)]);
    assert_eq!(script.sent().len(), reports.len());
}

/// RFC 5326 6.11: scopes. A primary report begins where the last ended, a secondary one where the report began that it
/// answers; a checkpoint that came too late for that, and would have none, is answered from zero.
#[test]
fn scopes_follow_each_other() {
    let mut script = Script::new(Config {
        doubling: 0,
        ..config()
    });
    script.receive(&[
        data(1, Red, 0..10, (0, 0)),
        data(1, RedCheckpoint, 20..30, (7, 0)),
    ]);
    let sent = script.sent();
    assert_eq!(all(&sent), ["report for 7 of 0..30: [(0, 10), (20, 30)]"]);
    let Segment::Report(_, first) = &sent[0] else {
        unreachable!()
    };
    script.receive(&[
        Segment::ReportAck(theirs(1), first.serial),
        data(1, RedCheckpoint, 50..60, (9, 0)),
    ]);
    let sent = script.sent();
    assert_eq!(all(&sent), ["report for 9 of 30..60: [(50, 60)]"]);
    let Segment::Report(_, second) = &sent[0] else {
        unreachable!()
    };
    assert_eq!(second.serial, first.serial + 1);
    script.receive(&[data(1, RedCheckpoint, 32..40, (10, second.serial))]);
    assert_eq!(all(&script.sent()), ["report for 10 of 30..40: [(32, 40)]"]);
    script.receive(&[data(1, RedCheckpoint, 38..45, (8, 0))]);
    assert_eq!(
        all(&script.sent()),
        ["report for 8 of 0..45: [(0, 10), (20, 30), (32, 45)]"]
    );
}

/// RFC 5326 6.11 b: a gap is reported unasked when it stays, from the end of the last report; not once the end of the red
/// part came.
#[test]
fn a_gap_that_stays_is_reported_unasked() {
    let mut script = Script::new(Config {
        doubling: 0,
        ..config()
    });
    script.receive(&[data(1, Red, 0..10, (0, 0)), data(1, Red, 20..30, (0, 0))]);
    script.now += 10_000;
    script.receive(&[data(1, Red, 10..20, (0, 0)), data(1, Red, 40..50, (0, 0))]);
    assert_eq!(script.sent(), []);
    let sent: Vec<_> = script
        .pass(SECOND / 2)
        .into_iter()
        .map(|(_, segment)| segment)
        .collect();
    assert_eq!(all(&sent), ["report for 0 of 0..50: [(0, 30), (40, 50)]"]);
    script.receive(&[data(1, Red, 55..60, (0, 0))]);
    let sent: Vec<_> = script
        .pass(SECOND / 2)
        .into_iter()
        .map(|(_, segment)| segment)
        .collect();
    assert_eq!(all(&sent), ["report for 0 of 50..60: [(55, 60)]"]);
    script.receive(&[
        data(1, Red, 65..70, (0, 0)),
        data(1, BlockRedEnd, 70..80, (4, 0)),
    ]);
    let sent: Vec<_> = script
        .pass(SECOND / 2)
        .into_iter()
        .map(|(_, segment)| segment)
        .collect();
    assert_eq!(all(&sent), ["report for 4 of 60..80: [(65, 80)]"]);
}

/// Answers that wait, of a path whose repairs are lost again, keep no gap from being reported: half of the room is for unasked reports.
#[test]
fn a_gap_is_reported_unasked_while_answers_wait() {
    let mut script = Script::new(Config {
        doubling: 0,
        reports_under_way: 8,
        ..config()
    });
    let waiting = |script: &mut Script, serial: u64| {
        let at = serial * 20;
        script.receive(&[data(1, RedCheckpoint, at..at + 10, (serial, 0))]);
        assert_eq!(script.sent().len(), 1);
    };
    (1..=4).for_each(|serial| waiting(&mut script, serial));
    script.receive(&[data(1, Red, 200..210, (0, 0))]);
    let sent = script.pass(SECOND / 20);
    let unasked =
        |(_, it): &(u64, Segment)| matches!(it, Segment::Report(_, it) if it.checkpoint == 0);
    assert_eq!(sent.iter().filter(|it| unasked(it)).count(), 1, "{sent:?}");
}

/// A sender that repairs late gets few unasked reports: one for each gap would let it take its block for lost (ION's limit).
#[test]
fn unasked_reports_are_few_where_gaps_are_many() {
    let mut script = Script::new(Config {
        doubling: 0,
        ..config()
    });
    let (gaps, mut unasked) = (640, 0);
    for gap in 0..gaps {
        let at = gap * 20;
        script.receive(&[data(1, Red, at..at + 10, (0, 0))]);
        let sent = script.pass(SECOND / 2);
        let acks: Vec<_> = (sent.into_iter())
            .map(|(_, segment)| match segment {
                Segment::Report(_, report) => Segment::ReportAck(theirs(1), report.serial),
                other => unreachable!("{other:?}"),
            })
            .collect();
        unasked += acks.len();
        script.receive(&acks);
    }
    // Four, and one for each 32 gaps.
    assert_eq!(unasked, 4 + 19);
}

/// RFC 5326 6: a client service that is not here.
#[test]
fn a_service_that_does_not_exist_is_unreachable() {
    for kind in [Red, Green] {
        let mut script = Script::new(config());
        let Segment::Data(mut of_other) = data(1, kind, 0..10, (0, 0)) else {
            unreachable!()
        };
        of_other.head.service = 5;
        script.receive(&[Segment::Data(of_other)]);
        assert_eq!(all(&script.sent()), ["cancel by Receiver: Unreachable"]);
        assert_eq!(
            script.told(),
            ["1 x a segment is for an unknown client service (6)"]
        );
        script.receive(&[Segment::CancelAck(theirs(1), Party::Receiver)]);
        assert_eq!(script.engine.incoming.held(), (0, 0, 1));
    }
}

/// RFC 5326 3.2.4: a block that is longer than is taken is cancelled by the first segment that tells so, wherever that lies.
#[test]
fn the_first_segment_beyond_the_longest_block_cancels_its_session() {
    let longest = Config {
        transfer_mru: 1_000,
        ..config()
    };
    let mut script = Script::new(longest);
    script.receive(&[data(1, Red, 990..1_000, (0, 0))]);
    assert_eq!(script.sent(), []);
    assert_eq!(script.told(), ["piece of 0: 990+10 of None"]);
    script.receive(&[data(1, Red, 991..1_001, (0, 0))]);
    assert_eq!(all(&script.sent()), ["cancel by Receiver: UserCancelled"]);
    assert!(script.told().contains(&"abandoned 0: Some(Unknown)".into()));
    script.receive(&[data(2, Red, u64::MAX - 10..u64::MAX, (0, 0))]);
    assert_eq!(all(&script.sent()), ["cancel by Receiver: UserCancelled"]);
}

/// RFC 5326 6.21: red behind green, and green before red.
#[test]
fn miscolored_segments_cancel_their_session() {
    let cases = [
        [data(1, Green, 50..60, (0, 0)), data(1, Red, 60..70, (0, 0))],
        [data(1, Red, 60..70, (0, 0)), data(1, Green, 50..60, (0, 0))],
        [
            data(1, RedEnd, 60..70, (3, 0)),
            data(1, Green, 65..75, (0, 0)),
        ],
    ];
    for case in cases {
        let mut script = Script::new(config());
        script.receive(&case);
        let sent = all(&script.sent());
        assert_eq!(sent.last().unwrap(), "cancel by Receiver: Miscolored");
        let told = script.told();
        assert!(
            told.contains(&"abandoned 0: Some(Retransmit)".into()),
            "{told:?}"
        );
        // Nothing more of it is taken.
        script.receive(&case);
        assert_eq!(script.sent(), []);
        script.receive(&[Segment::CancelAck(theirs(1), Party::Receiver)]);
        script.receive(&case);
        assert_eq!(
            (script.sent(), script.engine.incoming.held()),
            (vec![], (0, 0, 1))
        );
    }
}

/// RFC 5326 6.17: a cancellation is acknowledged each time, of sessions that nobody knows too, and opens none.
#[test]
fn cancellations_of_the_sender_are_acknowledged() {
    let mut script = Script::new(config());
    script.receive(&[data(1, Red, 0..10, (0, 0))]);
    for number in [1, 1, 2] {
        script.receive(&[Segment::Cancel(
            theirs(number),
            Party::Sender,
            Reason::SystemCancelled,
        )]);
        assert_eq!(all(&script.sent()), ["ack of cancel by Sender"]);
    }
    assert_eq!(
        script.told(),
        ["piece of 0: 0+10 of None", "abandoned 0: Some(NoResources)"]
    );
    script.receive(&[data(1, Red, 10..20, (0, 0)), data(2, Red, 0..10, (0, 0))]);
    assert_eq!(script.told(), [""; 0]);
}

/// A node that has no room cancels; one that has the bundle already lets the sender come to its end.
#[test]
fn refusals_cancel_or_go_on_in_silence() {
    let mut script = Script::new(config());
    script.receive(&[data(1, Red, 0..10, (0, 0)), data(2, Red, 0..10, (0, 0))]);
    script.refuse(0, RefuseReason::NoResources);
    assert_eq!(all(&script.sent()), ["cancel by Receiver: SystemCancelled"]);
    script.refuse(1, RefuseReason::Completed);
    assert_eq!(
        script.told(),
        ["piece of 0: 0+10 of None", "piece of 1: 0+10 of None"]
    );
    script.receive(&[
        data(1, Red, 10..20, (0, 0)),
        data(2, BlockRedEnd, 10..30, (4, 0)),
    ]);
    assert_eq!(all(&script.sent()), ["report for 4 of 0..30: [(0, 30)]"]);
    assert_eq!(script.told(), [""; 0]);
}

/// RFC 5326 6.20: late segments open no session, and a number that was used for another block is a fault.
#[test]
fn a_session_that_is_over_is_not_opened_again() {
    let mut script = Script::new(config());
    let block = [
        data(1, Green, 0..10, (0, 0)),
        data(1, BlockGreenEnd, 10..20, (0, 0)),
    ];
    script.receive(&block);
    assert_eq!(script.told().last().unwrap(), "complete 0: 20");
    script.receive(&block);
    assert_eq!(script.told(), [""; 0]);
    script.receive(&[data(1, BlockGreenEnd, 10..30, (0, 0))]);
    assert_eq!(
        script.told(),
        ["1 x a segment is of a session that is over (6.20)"]
    );
}

/// Bounds of sessions, gaps and octets behind gaps; flags of segments whose octets have no room count.
#[test]
fn what_comes_is_bounded() {
    let mut script = Script::new(Config {
        sessions: 2,
        gaps: 3,
        reassembly_octets: 100,
        doubling: 0,
        ..config()
    });
    script.receive(&[
        data(1, Red, 0..5, (0, 0)),
        data(2, Red, 0..5, (0, 0)),
        data(3, Red, 0..5, (0, 0)),
    ]);
    script.receive(&[
        data(1, Red, 10..15, (0, 0)),
        data(1, Red, 20..25, (0, 0)),
        data(1, Red, 30..35, (0, 0)),
    ]);
    script.receive(&[
        data(2, RedCheckpoint, 10..110, (4, 0)),
        data(1, Red, 5..10, (0, 0)),
        data(1, Red, 30..35, (0, 0)),
    ]);
    assert_eq!(all(&script.sent()), ["report for 4 of 0..110: [(0, 5)]"]);
    let told = script.pass(2 * SECOND).len()
        + script
            .told()
            .iter()
            .filter(|told| told.contains(" x "))
            .count();
    assert!(
        told >= 3,
        "too many sessions, too many gaps, and octets behind them"
    );
    assert_eq!(script.engine.incoming.held().1, 10);
}

/// If no place is left, the session gives way that has been silent longest, for three round trips at least (6.3 s here); its sender is told.
#[test]
fn the_session_that_is_silent_longest_gives_way() {
    let mut script = Script::new(Config {
        sessions: 2,
        ..config()
    });
    script.receive(&[data(1, Red, 0..5, (0, 0)), data(2, Red, 0..5, (0, 0))]);
    script.pass(SECOND);
    script.receive(&[data(1, Red, 5..10, (0, 0))]);
    script.pass(5 * SECOND);
    script.receive(&[data(3, Red, 0..5, (0, 0))]);
    assert_eq!(script.engine.incoming.held().0, 2, "both may go on");
    assert_eq!(script.sent(), []);
    script.pass(SECOND);
    script.receive(&[data(3, Red, 0..5, (0, 0))]);
    assert_eq!(
        all(&script.sent()),
        ["cancel by Receiver: SystemCancelled"],
        "of the second"
    );
    assert!(script.told().contains(&"abandoned 1: None".into()));
    script.receive(&[
        data(1, Red, 10..15, (0, 0)),
        data(3, BlockRedEnd, 5..9, (7, 0)),
    ]);
    let told = script.told();
    let goes_on = |it: &str| told.iter().any(|told| told.starts_with(it));
    assert!(
        goes_on("piece of 0: 10+5") && goes_on("complete 2: 9"),
        "{told:?}"
    );
}

/// A block that is whole keeps its place until its sender knows that it is durable.
#[test]
fn a_session_whose_block_is_whole_gives_way_to_none() {
    let mut script = Script::new(Config {
        sessions: 2,
        transmissions: 1_000,
        ..config()
    });
    script.receive(&[
        data(1, BlockRedEnd, 0..5, (7, 0)),
        data(2, BlockRedEnd, 0..5, (7, 0)),
    ]);
    script.acknowledge(0, 5);
    script.pass(300 * SECOND);
    script.receive(&[data(3, Red, 0..5, (0, 0))]);
    let told = script.told();
    assert!(!told.iter().any(|told| told.starts_with("abandoned")));
    assert_eq!(script.engine.incoming.held().0, 2);
}

/// Sessions that are cancelled have as many places as others; a sender that acknowledges no cancellation takes no more than both.
#[test]
fn sessions_that_give_way_are_bounded() {
    let mut script = Script::new(Config {
        sessions: 4,
        transmissions: 1_000,
        ..config()
    });
    let mut most = 0;
    for round in 0..10 {
        for number in 0..8 {
            script.receive(&[data(8 * round + number, Red, 0..5, (0, 0))]);
            most = most.max(script.engine.incoming.held().0);
        }
        script.pass(7 * SECOND);
    }
    assert_eq!(most, 8);
    // Refusals take the places of neither.
    for number in 100..200 {
        let mut unknown = data(number, Red, 0..5, (0, 0));
        if let Segment::Data(it) = &mut unknown {
            it.head.service = 99;
        }
        script.receive(&[unknown]);
    }
    assert!(script.engine.incoming.held().0 <= 8);
}

/// A flood of checkpoints is answered as far as their reports are acknowledged.
#[test]
fn reports_under_way_are_bounded() {
    let mut script = Script::new(Config {
        reports_under_way: 4,
        doubling: 0,
        ..config()
    });
    for serial in 1..100 {
        script.receive(&[data(1, RedCheckpoint, 0..serial, (serial, 0))]);
    }
    assert_eq!(script.sent().len(), 4);
    assert!(
        script
            .told()
            .iter()
            .any(|told| told.contains("too many reports wait"))
    );
}

/// RFC 5326 6.11: too many reports in one session.
#[test]
fn reports_of_a_session_are_limited() {
    let mut script = Script::new(Config {
        reports: 3,
        doubling: 0,
        ..config()
    });
    for serial in 1..10 {
        script.receive(&[data(1, RedCheckpoint, 0..serial, (serial, 0))]);
        for segment in script.sent() {
            if let Segment::Report(id, report) = segment {
                script.receive(&[Segment::ReportAck(id, report.serial)]);
            } else {
                assert_eq!(all(&[segment]), ["cancel by Receiver: RetransmissionLimit"]);
                assert_eq!(serial, 4);
            }
        }
    }
    assert!(
        script
            .told()
            .contains(&"abandoned 0: Some(Retransmit)".into())
    );
}

/// A session in which nothing comes is cancelled, but not for the time that nothing can come (RFC 5326 6.5).
#[test]
fn a_silent_session_is_cancelled() {
    let mut script = Script::new(config());
    script.receive(&[data(1, Red, 0..10, (0, 0))]);
    script.pass(100 * SECOND);
    script.path(PathState::Open, PathState::Closed);
    assert_eq!(script.pass(5_000 * SECOND), []);
    script.path(PathState::Open, PathState::Open);
    assert_eq!(script.pass(499 * SECOND), []);
    let sent: Vec<_> = script
        .pass(2 * SECOND)
        .into_iter()
        .map(|(_, segment)| segment)
        .collect();
    assert_eq!(all(&sent), ["cancel by Receiver: SystemCancelled"]);
}

/// A green part of which octets were lost is given up without a word.
#[test]
fn a_green_block_with_a_gap_is_abandoned() {
    let mut script = Script::new(config());
    script.receive(&[
        data(1, Green, 0..10, (0, 0)),
        data(1, BlockGreenEnd, 20..30, (0, 0)),
    ]);
    assert_eq!(script.pass(11 * SECOND), []);
    assert_eq!(script.told().last().unwrap(), "abandoned 0: None");
    assert_eq!(script.engine.incoming.held(), (0, 0, 1));
}
