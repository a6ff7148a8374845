//! Signals that this node owes.

use dhow_bundle::v6::admin::ReportTime;
use dhow_bundle::v7::admin::bibe::Disposition;

use super::super::AggregationLimits;
use super::super::aggregates::{AGGREGATES_BOUND, IDS_BOUND, READY_BOUND};
use super::super::owed::SINGLES_BOUND;
use super::*;

const REFUSED: Disposition = Disposition::DepletedStorage;

/// Custody of bundles with these IDs of node 9 is taken, each a second after the other.
fn accept(custody: &mut Custody, ids: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let accepted = ids.into_iter().enumerate().map(|(seconds, id)| {
        let key = u32::try_from(id).unwrap();
        let seconds = u64::try_from(seconds).unwrap();
        taken_from(custody, seconds, key, custodian(9, Some(id)))
    });
    accepted.collect()
}

#[test]
fn a_signal_gathers_until_its_first_bundle_has_waited() {
    let mut custody = Custody::default();
    let own = accept(&mut custody, [1, 2, 3, 5, 4, 9]);
    assert_eq!(custody.poll_timeout(), Some(at(15)));
    assert_eq!(signals(&mut custody, 14), []);
    let told = signals(&mut custody, 15);
    assert_eq!(told.len(), 1);
    assert_eq!(runs(&told[0]), [(1, 5), (9, 9)]);
    assert_eq!(told[0].custodian, node(9));
    assert_eq!(told[0].settles.to_vec(), [(own[0], own[5])]);
    assert_eq!(told[0].record.encode(), [0x40, 0x80, 1, 5, 4, 1]);
    assert_eq!(
        (custody.poll_timeout(), signals(&mut custody, 99)),
        (None, Vec::new())
    );
}

#[test]
fn custody_that_is_not_durable_yet_is_not_signalled() {
    let mut custody = Custody::default();
    let before = custodian(9, Some(1));
    custody.handle_request(BundleKey(1), Some(before.clone()));
    assert_eq!(
        (custody.poll_timeout(), signals(&mut custody, 99)),
        (None, Vec::new())
    );
    assert!(!custody.handle_duplicate(at(0), BundleKey(1), before.clone()));
    assert!(!custody.handle_duplicate(at(0), BundleKey(2), before.clone()));
    custody.handle_declined(at(0), BundleKey(1), REFUSED);
    let told = signals(&mut custody, 15);
    assert_eq!(told[0].record.encode(), [0x40, 4, 1, 1]);
    assert_eq!(custody.counters().refused, 1);
    // RFC 5050 6.1.2: redundant reception, once custody is here.
    taken_from(&mut custody, 20, 1, before.clone());
    assert!(custody.handle_duplicate(at(20), BundleKey(1), before));
    let told = signals(&mut custody, 35);
    let octets: Vec<_> = told.iter().map(|it| it.record.encode()).collect();
    assert_eq!(octets, [[0x40, 0x80, 1, 1], [0x40, 3, 1, 1]]);
}

#[test]
fn custodians_and_reasons_have_signals_of_their_own() {
    let mut custody = Custody::default();
    for (number, id) in [(8, 1), (9, 2), (8, 3)] {
        let key = u32::try_from(id).unwrap();
        taken_from(&mut custody, 0, key, custodian(number, Some(id)));
    }
    custody.handle_refused(at(0), custodian(8, Some(2)), REFUSED);
    custody.handle_refused(at(0), custodian(8, Some(4)), Disposition::NoRoute);
    let told = signals(&mut custody, 15);
    let told: Vec<_> = told.iter().map(|it| (&it.custodian, runs(it))).collect();
    let (eight, nine) = (node(8), node(9));
    let expected: [(&EndpointId, &[(u64, u64)]); 4] = [
        (&eight, &[(1, 1), (3, 3)]),
        (&eight, &[(2, 2)]),
        (&eight, &[(4, 4)]),
        (&nine, &[(2, 2)]),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_signal_that_would_be_too_long_leaves_before() {
    let limits = |octets, runs| AggregationLimits {
        octets,
        runs,
        ..AggregationLimits::default()
    };
    let told = |limits, ids: &[u64]| {
        let mut custody = Custody::default().with_aggregation(None, limits);
        accept(&mut custody, ids.iter().copied());
        let at_once = signals(&mut custody, 0).len();
        let all = signals(&mut custody, 99);
        let lengths: Vec<_> = all.iter().map(|it| it.record.encode().len()).collect();
        (at_once, lengths)
    };
    let apart: Vec<u64> = (1..=10).map(|id| id * 2).collect();
    // Two octets, and two for each run.
    assert_eq!(told(limits(22, 99), &apart), (0, [22].to_vec()));
    assert_eq!(told(limits(21, 99), &apart), (1, [4].to_vec()));
    assert_eq!(told(limits(99, 10), &apart), (0, [22].to_vec()));
    assert_eq!(told(limits(99, 9), &apart), (1, [4].to_vec()));
    // An ID that joins two runs makes it shorter.
    assert_eq!(told(limits(6, 99), &[1, 3, 2]), (0, [4].to_vec()));
    // Each at once.
    assert_eq!(told(limits(0, 99), &[1, 2, 3]), (3, Vec::new()));
    assert_eq!(told(limits(3, 99), &[1, 2, 3]), (3, Vec::new()));
}

#[test]
fn a_custodian_may_have_limits_of_its_own() {
    let hasty = AggregationLimits {
        delay: Duration::from_secs(2),
        ..AggregationLimits::default()
    };
    let mut custody = Custody::default().with_aggregation(Some(node(8)), hasty);
    taken_from(&mut custody, 0, 1, custodian(9, Some(1)));
    taken_from(&mut custody, 0, 2, custodian(8, Some(1)));
    assert_eq!(custody.poll_timeout(), Some(at(2)));
    assert_eq!(signals(&mut custody, 2)[0].custodian, node(8));
    assert_eq!(custody.poll_timeout(), Some(at(15)));
}

#[test]
fn a_signal_tells_of_so_many_bundles() {
    let mut custody = Custody::default();
    let bound = u64::try_from(IDS_BOUND).unwrap();
    for id in 1..=bound + 1 {
        custody.handle_refused(at(0), custodian(9, Some(id)), REFUSED);
    }
    let told = signals(&mut custody, 0);
    assert_eq!(runs(&told[0]), [(1, bound)]);
    assert_eq!(told.len(), 1);
}

/// RFC 5050 6.1.2.
#[test]
fn a_bundle_without_a_valid_custody_id_has_a_signal_for_itself() {
    let mut custody = Custody::default();
    taken_from(&mut custody, 0, 1, custodian(9, None));
    assert_eq!(custody.poll_timeout(), Some(Instant::START));
    let told = signals(&mut custody, 3);
    let AdministrativeRecord::CustodySignal(signal) = &told[0].record else {
        panic!("{told:?}")
    };
    assert_eq!((signal.is_success, signal.reason), (true, 0));
    assert_eq!(signal.subject, subject(0));
    let time = ReportTime {
        seconds: 800_000_003,
        nanoseconds: 250_000_000,
    };
    assert_eq!(signal.time, time);
    assert_eq!(told[0].settles.to_vec(), [(1, 1)]);
    let mut nobody = custodian(9, None);
    nobody.endpoint = EndpointId::Null;
    custody.handle_refused(at(0), nobody, REFUSED);
    assert_eq!(signals(&mut custody, 99), []);
}

#[test]
fn where_too_many_signals_gather_bundles_have_signals_for_themselves() {
    let mut custody = Custody::default();
    let bound = u32::try_from(AGGREGATES_BOUND).unwrap();
    for number in 1..=bound {
        custody.handle_refused(at(0), custodian(number, Some(1)), REFUSED);
    }
    assert_eq!(custody.owed.counts(), (AGGREGATES_BOUND, 0, 0));
    custody.handle_refused(at(0), custodian(bound + 1, Some(1)), REFUSED);
    // One that gathers already takes more.
    custody.handle_refused(at(0), custodian(1, Some(2)), REFUSED);
    assert_eq!(custody.owed.counts(), (AGGREGATES_BOUND, 0, 1));
    assert!(custody.has_room_for_signals());
    for id in 1..SINGLES_BOUND {
        let id = u64::try_from(id).unwrap();
        custody.handle_refused(at(0), custodian(bound + 1, Some(id)), REFUSED);
    }
    assert!(!custody.has_room_for_signals());
    assert_eq!(custody.counters().signals_dropped, 0);
    custody.handle_refused(at(0), custodian(bound + 1, Some(1)), REFUSED);
    assert_eq!(custody.counters().signals_dropped, 1);
    assert_eq!(signals(&mut custody, 0).len(), SINGLES_BOUND);
}

#[test]
fn so_many_signals_are_ready_at_a_time() {
    let each = AggregationLimits {
        runs: 1,
        ..AggregationLimits::default()
    };
    let mut custody = Custody::default().with_aggregation(None, each);
    for id in 0..=READY_BOUND {
        let id = u64::try_from(id * 2).unwrap();
        custody.handle_refused(at(0), custodian(9, Some(id)), REFUSED);
    }
    assert_eq!(custody.owed.counts(), (1, READY_BOUND, 0));
    custody.handle_refused(at(0), custodian(9, Some(1_000_000)), REFUSED);
    assert_eq!(custody.owed.counts(), (1, READY_BOUND, 1));
    assert_eq!(signals(&mut custody, 0).len(), READY_BOUND + 1);
}

#[test]
#[should_panic(expected = "acceptance is not a reason to refuse")]
fn acceptance_is_no_refusal() {
    Custody::default().handle_refused(at(0), custodian(9, None), Disposition::Accepted);
}

#[test]
fn memory_is_counted_and_given_back() {
    let mut custody = Custody::default();
    let before = custody.memory_octets();
    for id in 1..100 {
        let key = u32::try_from(id).unwrap();
        taken_from(&mut custody, 0, key, custodian(9, Some(id)));
        custody.handle_sent(at(0), BundleKey(key), Duration::from_secs(1));
    }
    let held = custody.memory_octets();
    assert!(held > before + 99 * 100, "{held}");
    signals(&mut custody, 15);
    for key in 1..100 {
        custody.handle_removed(at(0), BundleKey(key));
    }
    assert_eq!(custody.memory_octets(), before);
}
