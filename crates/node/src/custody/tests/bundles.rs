//! Bundles that this node is custodian of.

use dhow_bundle::v7::admin::bibe::Disposition;

use super::super::bundles::BUNDLES_BOUND;
use super::super::incoming::RUNS_BOUND;
use super::super::{CustodyState, Outcome, Retransmission};
use super::*;

const RTT: Duration = Duration::from_secs(60);

const REFUSED: Disposition = Disposition::NoRoute;

fn outcomes(custody: &mut Custody, seconds: u64) -> Vec<(u32, Outcome)> {
    let outcomes = core::iter::from_fn(|| custody.poll_outcome(at(seconds)));
    outcomes.map(|(key, outcome)| (key.0, outcome)).collect()
}

/// RFC 5050 5.11.
#[test]
fn a_signal_that_succeeds_releases_custody() {
    let mut custody = Custody::default();
    let id = made_here(&mut custody, 7);
    assert_eq!(
        (id, custody.key(1), custody.custody_id(BundleKey(7))),
        (1, Some(BundleKey(7)), Some(1))
    );
    assert_eq!(custody.state(BundleKey(7)), CustodyState::Accepted);
    custody.handle_sent(at(10), BundleKey(7), RTT);
    assert_eq!(custody.state(BundleKey(7)), CustodyState::AwaitingSignal);
    assert_eq!(custody.poll_timeout(), Some(at(70)));
    custody.handle_signal(BundleKey(7), Disposition::Accepted);
    assert_eq!(outcomes(&mut custody, 20), [(7, Outcome::Released)]);
    assert_eq!(
        (custody.state(BundleKey(7)), custody.count()),
        (CustodyState::None, 0)
    );
    assert_eq!((custody.poll_timeout(), custody.key(1)), (None, None));
    custody.handle_signal(BundleKey(7), Disposition::Accepted);
    custody.handle_aggregate(Disposition::Accepted, &[(1, 1)]);
    assert_eq!(outcomes(&mut custody, 20), []);
    assert_eq!(custody.counters().unknown, 2);
}

/// RFC 5050 5.12.
#[test]
fn a_refusal_makes_it_go_elsewhere_and_redundant_reception_releases_it() {
    let mut custody = Custody::default();
    for key in 0..3 {
        made_here(&mut custody, key);
        custody.handle_sent(at(0), BundleKey(key), RTT);
    }
    custody.handle_aggregate(Disposition::DepletedStorage, &[(1, 2)]);
    let elsewhere = Outcome::ForwardElsewhere(Disposition::DepletedStorage);
    assert_eq!(outcomes(&mut custody, 1), [(0, elsewhere), (1, elsewhere)]);
    assert_eq!(custody.state(BundleKey(0)), CustodyState::AwaitingForward);
    assert_eq!(outcomes(&mut custody, 60), [(2, Outcome::SendAgain)]);
    assert_eq!(custody.poll_timeout(), None, "no timer runs");
    // The first hop took it after all, or the second one says that it has it.
    custody.handle_sent(at(70), BundleKey(1), RTT);
    custody.handle_aggregate(Disposition::Redundant, &[(1, 3)]);
    let released = [0, 1, 2].map(|key| (key, Outcome::Released));
    assert_eq!(outcomes(&mut custody, 71), released);
    let counters = custody.counters();
    assert_eq!((counters.released, counters.refused_there), (3, 2));
}

#[test]
fn the_wait_for_a_signal_doubles_up_to_its_cap() {
    let mut custody = Custody::default().with_retransmission(Retransmission {
        floor: Duration::from_secs(30),
        cap: Duration::from_secs(200),
    });
    made_here(&mut custody, 1);
    let mut waits = Vec::new();
    let mut sent = 0;
    for round_trip in [10, 60, 60, 60, 60, u64::MAX] {
        custody.handle_sent(at(sent), BundleKey(1), Duration::from_secs(round_trip));
        let deadline = custody.poll_timeout().unwrap();
        waits.push((deadline - at(sent)).as_secs());
        sent = (deadline - Instant::START).as_secs();
        assert_eq!(outcomes(&mut custody, sent - 1), []);
        assert_eq!(outcomes(&mut custody, sent), [(1, Outcome::SendAgain)]);
    }
    assert_eq!(waits, [30, 120, 200, 200, 200, 200]);
    for timeouts in [31, 32, 255] {
        let wait = Retransmission::default().wait(RTT, timeouts);
        assert_eq!(wait, Retransmission::default().cap);
    }
}

#[test]
fn what_is_sent_again_waits_anew_and_once() {
    let mut custody = Custody::default();
    made_here(&mut custody, 1);
    custody.handle_sent(at(0), BundleKey(1), RTT);
    custody.handle_sent(at(50), BundleKey(1), RTT);
    assert_eq!(outcomes(&mut custody, 109), []);
    assert_eq!(outcomes(&mut custody, 110), [(1, Outcome::SendAgain)]);
    assert_eq!(outcomes(&mut custody, 1_000), []);
}

#[test]
fn a_run_that_lies_names_only_what_was_sent_before_it_came() {
    let mut custody = Custody::default();
    for key in 0..4 {
        made_here(&mut custody, key);
    }
    for key in [1, 2] {
        custody.handle_sent(at(0), BundleKey(key), RTT);
    }
    custody.handle_aggregate(Disposition::Accepted, &[(0, u64::MAX)]);
    for key in 4..6 {
        made_here(&mut custody, key);
        custody.handle_sent(at(0), BundleKey(key), RTT);
    }
    let released = [1, 2].map(|key| (key, Outcome::Released));
    assert_eq!(outcomes(&mut custody, 1), released);
    assert_eq!(custody.count(), 4);
    custody.handle_aggregate(REFUSED, &[(1, 4), (7, u64::MAX), (5, 3)]);
    assert_eq!(outcomes(&mut custody, 1), []);
    assert_eq!(custody.counters().unknown, 3);
}

#[test]
fn a_bundle_that_was_not_sent_is_not_released_by_a_signal() {
    let mut custody = Custody::default();
    custody.handle_request(BundleKey(1), None).unwrap();
    custody.handle_signal(BundleKey(1), Disposition::Accepted);
    custody.handle_accepted(at(0), BundleKey(1));
    custody.handle_signal(BundleKey(1), Disposition::Accepted);
    assert_eq!(outcomes(&mut custody, 0), []);
    assert_eq!(custody.count(), 1);
}

/// The acknowledgment of a transfer and the signal come by different sessions.
#[test]
fn a_signal_that_overtakes_the_end_of_the_transfer_counts() {
    let mut custody = Custody::default();
    for (key, disposition, outcome) in [
        (1, Disposition::Accepted, Outcome::Released),
        (2, REFUSED, Outcome::ForwardElsewhere(REFUSED)),
    ] {
        made_here(&mut custody, key);
        custody.handle_leaving(BundleKey(key));
        custody.handle_signal(BundleKey(key), disposition);
        assert_eq!(outcomes(&mut custody, 1), [(key, outcome)]);
    }
    assert_eq!(custody.state(BundleKey(1)), CustodyState::None);
    custody.handle_sent(at(2), BundleKey(2), RTT);
    assert_eq!(custody.state(BundleKey(2)), CustodyState::AwaitingSignal);
}

#[test]
fn a_key_that_is_free_for_another_bundle_has_no_signal_under_way() {
    let mut custody = Custody::default();
    made_here(&mut custody, 1);
    custody.handle_sent(at(0), BundleKey(1), RTT);
    custody.handle_signal(BundleKey(1), Disposition::Accepted);
    custody.handle_removed(at(0), BundleKey(1));
    assert_eq!(made_here(&mut custody, 1), 2);
    custody.handle_sent(at(0), BundleKey(1), RTT);
    assert_eq!(outcomes(&mut custody, 1), []);
    assert_eq!(custody.state(BundleKey(1)), CustodyState::AwaitingSignal);
    assert_eq!(custody.poll_timeout(), Some(at(60)));
}

#[test]
fn what_the_table_does_not_have_is_counted_and_changes_nothing() {
    let mut custody = Custody::default();
    custody.handle_accepted(at(0), BundleKey(1));
    custody.handle_sent(at(0), BundleKey(1), RTT);
    custody.handle_request(BundleKey(1), None).unwrap();
    custody.handle_sent(at(0), BundleKey(1), RTT);
    assert_eq!(custody.handle_request(BundleKey(1), None), None);
    assert_eq!(custody.state(BundleKey(1)), CustodyState::Requested);
    assert_eq!(custody.counters().transitions_refused, 4);
    custody.handle_removed(at(0), BundleKey(2));
    custody.handle_declined(at(0), BundleKey(1), REFUSED);
    assert_eq!(custody.count(), 0);
    assert_eq!(custody.counters().transitions_refused, 4);
}

#[test]
fn a_restart_goes_on_with_what_notes_say() {
    let mut custody = Custody::default();
    let mut mark = 0;
    let mut notes = Vec::new();
    for key in 0..3 {
        let before = (key > 0).then(|| custodian(9, (key == 1).then_some(40)));
        let acceptance = custody.handle_request(BundleKey(key), before).unwrap();
        mark = acceptance.given.reserve.unwrap_or(mark);
        custody.handle_accepted(at(0), BundleKey(key));
        notes.push(acceptance.note);
    }
    let mut next = Custody::default();
    next.resume(mark);
    for (key, note) in (10..).zip(&notes) {
        assert!(next.recover(at(0), BundleKey(key), note, subject(6)));
        assert_eq!(next.state(BundleKey(key)), CustodyState::AwaitingForward);
    }
    // A signal for what was sent before the restart.
    next.handle_aggregate(Disposition::Accepted, &[(2, 2)]);
    assert_eq!(outcomes(&mut next, 0), [(11, Outcome::Released)]);
    let told = signals(&mut next, 15);
    assert_eq!(told.len(), 2);
    let AdministrativeRecord::CustodySignal(single) = &told[0].record else {
        panic!("{told:?}")
    };
    assert_eq!((&single.subject, single.is_success), (&subject(6), true));
    assert_eq!(runs(&told[1]), [(40, 40)]);
    assert!(made_here(&mut next, 20) > mark);
    // Notes that are none, or tell of somebody else's ID.
    assert!(!next.recover(at(0), BundleKey(30), &notes[0], subject(0)));
    assert!(!next.recover(at(0), BundleKey(31), b"", subject(0)));
    assert!(!next.recover(at(0), BundleKey(32), &[0x82, 4, 5], subject(0)));
    assert_eq!(next.counters().notes_refused, 3);
}

#[test]
fn an_id_in_a_note_is_not_given_again_even_if_its_reservation_was_lost() {
    let mut custody = Custody::default();
    assert!(custody.recover(at(0), BundleKey(1), &[0x82, 1, 17], subject(0)));
    assert_eq!(made_here(&mut custody, 2), 18);
}

#[test]
fn a_settled_debt_leaves_the_note() {
    let mut custody = Custody::default();
    let before = custodian(9, Some(4));
    let acceptance = custody.handle_request(BundleKey(1), Some(before)).unwrap();
    assert_eq!(Some(acceptance.note), custody.note(BundleKey(1)));
    custody.handle_accepted(at(0), BundleKey(1));
    let told = signals(&mut custody, 15);
    assert_eq!(custody.poll_note(), None);
    custody.handle_signalled(&told[0].settles);
    let settled = [0x82, 1, 1];
    assert_eq!(
        custody.poll_note(),
        Some((BundleKey(1), settled.to_vec().into()))
    );
    custody.handle_signalled(&told[0].settles);
    assert_eq!(custody.poll_note(), None);
    custody.handle_sent(at(0), BundleKey(1), RTT);
    assert_eq!(custody.note(BundleKey(1)).unwrap()[1], 2);
}

#[test]
fn custody_is_taken_of_so_many_bundles() {
    let mut custody = Custody::default();
    let bound = u32::try_from(BUNDLES_BOUND).unwrap();
    for key in 0..bound {
        assert!(custody.handle_request(BundleKey(key), None).is_some());
    }
    assert_eq!(custody.handle_request(BundleKey(bound), None), None);
    assert_eq!(custody.counters().without_room, 1);
    custody.handle_removed(at(0), BundleKey(3));
    assert!(custody.handle_request(BundleKey(bound), None).is_some());
}

#[test]
fn signals_that_nobody_polls_fill_only_so_much() {
    let mut custody = Custody::default();
    made_here(&mut custody, 1);
    custody.handle_sent(at(0), BundleKey(1), RTT);
    for _ in 0..RUNS_BOUND {
        custody.handle_aggregate(REFUSED, &[(1, 1)]);
    }
    assert_eq!(custody.counters().signals_left, 0);
    custody.handle_aggregate(REFUSED, &[(1, 1)]);
    assert_eq!(custody.counters().signals_left, 1);
    assert_eq!(custody.poll_timeout(), Some(Instant::START));
    assert_eq!(outcomes(&mut custody, 0).len(), RUNS_BOUND);
    // Runs that name nothing take no room.
    for _ in 0..RUNS_BOUND + 1 {
        custody.handle_aggregate(REFUSED, &[(2, u64::MAX)]);
    }
    assert_eq!(custody.counters().signals_left, 1);
}
