//! KEEPALIVE, time-outs and the end: RFC 7242 5.6, 6.

use super::*;

const ALL: u8 = ACKNOWLEDGED | REFUSED | ANNOUNCED;

fn idle(keepalive_s: u16) -> Session {
    let config = Config {
        idle_timeout: Some(Duration::from_secs(100)),
        ..config("ipn:2.0")
    };
    let mut session = Session::new(config, at(0));
    session.handle_octets(at(0), header(ALL, keepalive_s, "ipn:1.0").into());
    drain(&mut session, at(0));
    events(&mut session);
    session
}

fn terminate(session: &mut Session, reason: TerminateReason) {
    session.handle_command(at(0), LinkCommand::Terminate { reason });
}

/// RFC 7242 5.6: after an interval without any message; twice the interval of silence ends the session.
#[test]
fn keepalives_are_sent_and_missed() {
    let mut session = idle(10);
    assert_eq!(session.poll_timeout(), Some(at(10_000).monotonic));
    session.handle_timeout(at(10_000));
    assert_eq!(
        messages(&drain(&mut session, at(10_000))),
        [Message::Keepalive]
    );
    receive(&mut session, at(15_000), &[Message::Keepalive]);
    for second in [20, 30] {
        session.handle_timeout(at(second * 1_000));
        assert_eq!(
            messages(&drain(&mut session, at(second * 1_000))),
            [Message::Keepalive]
        );
    }
    session.handle_timeout(at(35_000));
    assert_eq!(said(&mut session), [shutdown(None)], "of one octet");
    let expected = DownReason::KeepaliveTimeout;
    assert!(matches!(&events(&mut session)[..], [LinkEvent::Down(reason)] if *reason == expected));
}

/// RFC 7242 6.2: "Idle timeout"; the session is over when the peer answers.
#[test]
fn an_idle_session_ends_in_order() {
    let mut session = idle(0);
    assert_eq!(session.poll_timeout(), Some(at(100_000).monotonic));
    session.handle_timeout(at(100_000));
    assert_eq!(
        messages(&drain(&mut session, at(100_000))),
        [shutdown(Some(0))]
    );
    assert_eq!(session.state(), State::Ending);
    let came = receive(&mut session, at(100_001), &[shutdown(None)]);
    let down = DownReason::Terminated(TerminateReason::IdleTimeout);
    assert!(matches!(&came[..], [LinkEvent::Ending, LinkEvent::Down(reason)] if *reason == down));
}

/// RFC 7242 3: no data follow a SHUTDOWN, so our bundles finish before it; queued ones fail.
#[test]
fn bundles_under_way_finish_before_shutdown() {
    let mut session = idle(0);
    transmit(&mut session, at(0), 0, b"one");
    assert_eq!(said(&mut session), [data(START | END, 3)]);
    let (transfer, length) = (TransferId(1), 9);
    session.handle_command(at(0), LinkCommand::Transmit { transfer, length });
    receive(&mut session, at(0), &[data(START, 5)]);
    terminate(&mut session, TerminateReason::Unknown);
    assert!(matches!(
        events(&mut session)[..],
        [
            LinkEvent::Ending,
            LinkEvent::Failed {
                transfer: TransferId(1),
                ..
            }
        ]
    ));
    assert_eq!(said(&mut session), []);
    assert_eq!(session.state(), State::Finishing);
    receive(&mut session, at(0), &[ack(3)]);
    assert_eq!(said(&mut session), [], "the peer's bundle is under way");
    receive(&mut session, at(0), &[data(END, 5), data(START | END, 4)]);
    acknowledge(&mut session, 0, 10);
    assert_eq!(said(&mut session), [ack(5), ack(10), shutdown(None)]);
    // Acknowledgments may follow it, of bundles that began before the peer had it.
    acknowledge(&mut session, 1, 4);
    assert_eq!(said(&mut session), [ack(4)]);
    let came = receive(&mut session, at(0), &[shutdown(None)]);
    assert!(matches!(
        came[..],
        [LinkEvent::Down(DownReason::Terminated(_))]
    ));
}

/// RFC 7242 6.1: a peer's SHUTDOWN is answered once what came is acknowledged.
#[test]
fn a_shutdown_is_answered() {
    let mut session = idle(0);
    receive(
        &mut session,
        at(0),
        &[data(START | END, 5), shutdown(Some(2))],
    );
    assert_eq!(session.state(), State::Finishing);
    acknowledge(&mut session, 0, 5);
    assert_eq!(said(&mut session), [ack(5), shutdown(Some(2))]);
    let down = DownReason::Terminated(TerminateReason::Busy);
    let last = events(&mut session).pop();
    assert!(matches!(last, Some(LinkEvent::Down(reason)) if reason == down));
}

/// RFC 7242 3: the bundle that a SHUTDOWN interrupts will not be completed, and is not answered.
#[test]
fn a_bundle_that_shutdown_interrupts_is_abandoned() {
    for offer in [ALL, ACKNOWLEDGED, 0] {
        let mut session = established(config("ipn:2.0"), offer);
        let came = receive(&mut session, at(0), &[data(START, 5), shutdown(None)]);
        assert!(
            came.iter()
                .any(|it| matches!(it, LinkEvent::Abandoned { refused: None, .. }))
        );
        assert_eq!(said(&mut session), [shutdown(None)]);
        assert_eq!(session.state(), State::Closed);
    }
}

/// Most programs close right behind their SHUTDOWN.
#[test]
fn a_peer_that_closes_after_shutdown_ended_in_order() {
    let mut session = idle(0);
    terminate(&mut session, TerminateReason::Busy);
    drain(&mut session, at(0));
    session.handle_command(at(0), LinkCommand::Disconnected);
    let down = DownReason::Terminated(TerminateReason::Busy);
    let last = events(&mut session).pop();
    assert!(matches!(last, Some(LinkEvent::Down(reason)) if reason == down));
}

#[test]
fn a_peer_that_never_answers_shutdown_is_not_waited_for() {
    let mut session = idle(0);
    terminate(&mut session, TerminateReason::Unknown);
    drain(&mut session, at(0));
    assert_eq!(session.poll_timeout(), Some(at(10_000).monotonic));
    session.handle_timeout(at(10_000));
    assert_eq!(session.state(), State::Closed);
}

/// Bundles that cross our SHUTDOWN are taken; a peer that never stops breaks the protocol.
#[test]
fn a_peer_that_begins_bundles_for_ever_is_stopped() {
    let mut session = idle(0);
    terminate(&mut session, TerminateReason::Unknown);
    drain(&mut session, at(0));
    events(&mut session);
    assert_eq!(
        receive(&mut session, at(9_999), &[data(START | END, 5)]).len(),
        1
    );
    let came = receive(&mut session, at(10_000), &[data(START | END, 5)]);
    assert!(fault(&came).contains("after SHUTDOWN"));
}

/// RFC 7242 6.1: no SHUTDOWN within a segment.
#[test]
fn inside_a_segment_the_session_ends_in_silence() {
    let mut session = established(config("ipn:2.0"), ALL);
    transmit(&mut session, at(0), 0, &[7; 5_000]);
    let mut gather = Gather::new();
    session.poll_octets(at(0), 600, &mut gather);
    receive(&mut session, at(0), &[ack(9_999)]);
    assert_eq!(session.state(), State::Closed);
    assert!(drain(&mut session, at(0)).is_empty());
}

/// A transfer that began and came no further.
#[test]
fn a_stalled_bundle_ends_the_session_where_that_is_wanted() {
    let config = Config {
        transfer_timeout: Some(Duration::from_secs(3)),
        ..config("ipn:2.0")
    };
    let mut session = established(config, ALL);
    receive(&mut session, at(1_000), &[data(START, 5)]);
    assert_eq!(session.poll_timeout(), Some(at(4_000).monotonic));
    session.handle_timeout(at(4_000));
    let last = events(&mut session).pop();
    assert!(matches!(
        last,
        Some(LinkEvent::Down(DownReason::TransferTimeout))
    ));
}
