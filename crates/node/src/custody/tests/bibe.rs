//! Peers of Bundle-in-Bundle Encapsulation.

use bytes::Bytes;
use dhow_bundle::v7::admin::bibe::{
    BibeRefusal, BibeSignal, BibeTypes, BpduHead, Disposition, Numbering,
};

use super::super::{BibePeer, Outcome, PEERS_BOUND, TRANSMISSIONS_BOUND};
use super::*;

const WAIT: Duration = Duration::from_secs(60);

fn with_peers(settings: BibePeer) -> Custody {
    let mut custody = Custody::default();
    for number in [2, 3] {
        assert!(custody.set_peer(node(number), settings));
    }
    custody
}

fn send(custody: &mut Custody, peer: u32, key: u32) -> Option<u64> {
    let given = custody.handle_encapsulated(at(0), &node(peer), BundleKey(key), WAIT);
    custody.peers.check();
    Some(given?.id)
}

fn outcomes(custody: &mut Custody, seconds: u64) -> Vec<(u32, Outcome)> {
    let outcomes = core::iter::from_fn(|| custody.poll_outcome(at(seconds)));
    let outcomes = outcomes.map(|(key, outcome)| (key.0, outcome)).collect();
    custody.peers.check();
    outcomes
}

/// A signal of a peer came, in the draft's codes.
fn signal(custody: &mut Custody, peer: u32, disposition: Disposition, runs: &[(u64, u64)]) {
    let signal = BibeSignal {
        disposition,
        runs: runs.to_vec(),
    };
    let payload = signal.encode(BibeTypes::Draft, Numbering::Draft);
    custody.handle_bibe_signal(&node(peer), &payload).unwrap();
}

fn head(id: u64, expected_by: DtnTime) -> BpduHead {
    BpduHead::custodial(BibeTypes::Draft, id, expected_by, 100)
}

fn owe(custody: &mut Custody, seconds: u64, id: u64, disposition: Disposition) -> bool {
    let head = head(id, DtnTime::UNKNOWN);
    custody.handle_bpdu(now(seconds), &node(2), &head, disposition)
}

fn told(custody: &mut Custody, seconds: u64) -> Vec<(EndpointId, Bytes)> {
    core::iter::from_fn(|| custody.poll_bibe_signal(at(seconds))).collect()
}

/// draft-ietf-dtn-bibect-03 4.1, 4.3 and 4.4.
#[test]
fn transmissions_are_counted_for_each_peer_and_end_by_signal_or_time() {
    let mut custody = with_peers(BibePeer::default());
    let ids = [(2, 10), (2, 11), (3, 12), (2, 13), (2, 14)];
    let ids = ids.map(|(peer, key)| send(&mut custody, peer, key).unwrap());
    assert_eq!(ids, [1, 2, 1, 3, 4]);
    // A peer signals for what it was sent alone.
    signal(&mut custody, 3, Disposition::Accepted, &[(2, 9)]);
    assert_eq!(outcomes(&mut custody, 1), []);
    signal(
        &mut custody,
        2,
        Disposition::Accepted,
        &[(1, 1), (4, u64::MAX)],
    );
    signal(&mut custody, 2, Disposition::NoRoute, &[(1, 2)]);
    assert_eq!(
        outcomes(&mut custody, 1),
        [
            (10, Outcome::Released),
            (14, Outcome::Released),
            (11, Outcome::ForwardElsewhere(Disposition::NoRoute))
        ]
    );
    assert_eq!(custody.poll_timeout(), Some(at(60)));
    let again = [(12, Outcome::SendAgain), (13, Outcome::SendAgain)];
    assert_eq!(outcomes(&mut custody, 60), again);
    assert_eq!(send(&mut custody, 2, 13), Some(5));
    signal(&mut custody, 2, Disposition::Redundant, &[(3, 3), (5, 5)]);
    assert_eq!(outcomes(&mut custody, 61), [(13, Outcome::Released)]);
    signal(&mut custody, 4, Disposition::Redundant, &[(1, 9)]);
    assert_eq!(outcomes(&mut custody, 61), []);
}

#[test]
fn transmissions_to_the_peer_before_mean_nothing() {
    let mut custody = with_peers(BibePeer::default());
    send(&mut custody, 2, 1);
    send(&mut custody, 3, 1);
    signal(&mut custody, 2, Disposition::Accepted, &[(1, 1)]);
    assert_eq!(outcomes(&mut custody, 0), []);
    custody.handle_removed(at(0), BundleKey(1));
    signal(&mut custody, 3, Disposition::Accepted, &[(1, 1)]);
    assert_eq!(outcomes(&mut custody, 99), []);
    assert_eq!(custody.poll_timeout(), None);
}

/// The carrier of a bundle may wait here for a contact: until it has left, no other is made. Without a signal the next wait is twice as long.
#[test]
fn a_signal_is_waited_for_from_when_the_carrier_left_and_longer_each_time() {
    let mut custody = with_peers(BibePeer::default());
    let (key, carrier) = (BundleKey(1), BundleKey(7));
    send(&mut custody, 2, 1);
    custody.handle_carried(key, carrier);
    assert_eq!(outcomes(&mut custody, 1_000), []);
    custody.handle_carrier_gone(at(1_030), BundleKey(8));
    custody.handle_carrier_gone(at(1_030), carrier);
    assert_eq!(custody.poll_timeout(), Some(at(1_090)));
    custody.handle_carrier_gone(at(1_050), carrier);
    assert_eq!(outcomes(&mut custody, 1_089), []);
    assert_eq!(outcomes(&mut custody, 1_090), [(1, Outcome::SendAgain)]);
    for (at_s, wait_s) in [(2_000, 120), (3_000, 240)] {
        let given = custody.handle_encapsulated(at(at_s), &node(2), key, WAIT);
        assert!(given.is_some());
        custody.handle_carried(key, carrier);
        custody.handle_removed(at(at_s), carrier);
        assert_eq!(outcomes(&mut custody, at_s + wait_s - 1), []);
        let again = [(1, Outcome::SendAgain)];
        assert_eq!(outcomes(&mut custody, at_s + wait_s), again);
    }
    custody.handle_removed(at(4_000), key);
    send(&mut custody, 2, 1);
    assert_eq!(custody.poll_timeout(), Some(at(60)), "another bundle");
}

/// The way forth and back may take longer than the wait: a signal about any transmission of a bundle that the peer has releases it.
#[test]
fn a_signal_that_comes_late_releases_the_bundle() {
    for is_sent_again in [false, true] {
        let mut custody = with_peers(BibePeer::default());
        assert_eq!(send(&mut custody, 2, 1), Some(1));
        assert_eq!(outcomes(&mut custody, 60), [(1, Outcome::SendAgain)]);
        if is_sent_again {
            let given = custody.handle_encapsulated(at(60), &node(2), BundleKey(1), WAIT);
            assert_eq!(given.unwrap().id, 2);
        }
        // That it had no room the first time says nothing of the second.
        signal(&mut custody, 2, Disposition::DepletedStorage, &[(1, 1)]);
        assert_eq!(outcomes(&mut custody, 61), []);
        signal(&mut custody, 2, Disposition::Accepted, &[(1, 1)]);
        assert_eq!(outcomes(&mut custody, 62), [(1, Outcome::Released)]);
        assert_eq!(custody.poll_timeout(), None);
        signal(&mut custody, 2, Disposition::Accepted, &[(1, 9)]);
        assert_eq!(outcomes(&mut custody, 63), []);
    }
}

#[test]
fn a_bundle_has_so_many_transmissions_that_are_known() {
    let mut custody = with_peers(BibePeer::default());
    let mut now_s = 0;
    for _ in 0..40 {
        let given = custody.handle_encapsulated(at(now_s), &node(2), BundleKey(1), WAIT);
        assert!(given.is_some());
        now_s += 100_000;
        let again = [(1, Outcome::SendAgain)];
        assert_eq!(outcomes(&mut custody, now_s), again);
    }
    signal(&mut custody, 2, Disposition::Accepted, &[(1, 24)]);
    assert_eq!(outcomes(&mut custody, now_s), [], "too long ago");
    signal(&mut custody, 2, Disposition::Accepted, &[(25, 1)]);
    let released = [(1, Outcome::Released)];
    assert_eq!(outcomes(&mut custody, now_s), released);
}

#[test]
fn transmission_ids_go_on_behind_those_before_a_restart_or_removal() {
    let mut custody = with_peers(BibePeer::default());
    let given = custody.handle_encapsulated(at(0), &node(2), BundleKey(1), WAIT);
    let mark = given.unwrap().reserve.unwrap();
    assert!(!custody.is_reserved_durably(1));
    custody.confirm_reservation(mark);
    assert!(custody.is_reserved_durably(1));
    send(&mut custody, 2, 2);
    assert_eq!(custody.remove_peer(&node(2)), [BundleKey(1), BundleKey(2)]);
    assert_eq!(custody.remove_peer(&node(2)), []);
    custody.peers.check();
    assert_eq!(send(&mut custody, 2, 1), None);
    custody.set_peer(node(2), BibePeer::default());
    assert_eq!(send(&mut custody, 2, 1), Some(3));
    let mut next = with_peers(BibePeer::default());
    next.resume(mark);
    for peer in [2, 3] {
        assert_eq!(send(&mut next, peer, peer), Some(mark + 1));
    }
}

#[test]
fn peers_and_transmissions_have_bounds() {
    let mut custody = Custody::default();
    for number in 2..2 + u32::try_from(PEERS_BOUND).unwrap() {
        assert!(custody.set_peer(node(number), BibePeer::default()));
    }
    assert!(!custody.set_peer(node(1), BibePeer::default()));
    assert!(
        custody.set_peer(node(2), BibePeer::default()),
        "it is there"
    );
    let bound = u32::try_from(TRANSMISSIONS_BOUND).unwrap();
    for key in 0..bound {
        let given = custody.handle_encapsulated(at(0), &node(2), BundleKey(key), WAIT);
        assert!(given.is_some());
    }
    assert_eq!(send(&mut custody, 2, bound), None);
    assert_eq!(
        send(&mut custody, 2, 0),
        Some(u64::from(bound) + 1),
        "in its own place"
    );
    assert!(send(&mut custody, 3, bound).is_some());
}

#[test]
fn a_signal_that_is_none_is_refused() {
    let mut custody = with_peers(BibePeer::default());
    let refused = custody.handle_bibe_signal(&node(2), &[0x82, 4, 0x82, 0, 0x80]);
    assert_eq!(refused, Err(BibeRefusal::EmptySignal));
}

/// draft-ietf-dtn-bibect-03 4.2.
#[test]
fn what_came_is_signalled_by_disposition() {
    let mut custody = with_peers(BibePeer::default());
    for (id, disposition) in [
        (1, Disposition::Accepted),
        (2, Disposition::Accepted),
        (3, Disposition::Redundant),
        (4, Disposition::Accepted),
        (5, Disposition::NoRoute),
    ] {
        assert!(owe(&mut custody, id, id, disposition));
    }
    assert!(
        !owe(&mut custody, 0, 0, Disposition::Accepted),
        "not asked for"
    );
    let stranger = node(9);
    let head = head(1, DtnTime::UNKNOWN);
    assert!(!custody.handle_bpdu(now(0), &stranger, &head, Disposition::Accepted));
    assert_eq!(custody.poll_timeout(), Some(at(16)));
    assert_eq!(told(&mut custody, 15), []);
    let read = |(peer, payload): (EndpointId, Bytes)| {
        assert_eq!(peer, node(2));
        let signal = BibeSignal::decode(&payload, Numbering::Draft).unwrap();
        (signal.disposition, signal.runs)
    };
    let signals: Vec<_> = told(&mut custody, 20).into_iter().map(read).collect();
    assert_eq!(
        signals,
        [
            (Disposition::Accepted, [(1, 2), (4, 4)].to_vec()),
            (Disposition::Redundant, [(3, 3)].to_vec()),
            (Disposition::NoRoute, [(5, 5)].to_vec()),
        ]
    );
}

#[test]
fn a_peer_has_its_own_codes() {
    let mut custody = with_peers(BibePeer {
        types: BibeTypes::Ion,
        numbering: Numbering::Dtnme,
        ..BibePeer::default()
    });
    assert!(owe(&mut custody, 0, 7, Disposition::Redundant));
    let payload = [0x82, 8, 0x82, 2, 0x81, 0x82, 7, 1];
    assert_eq!(
        told(&mut custody, 15),
        [(node(2), Bytes::from(payload.to_vec()))]
    );
    send(&mut custody, 2, 1);
    let depleted = [0x82, 4, 0x82, 3, 0x81, 0x82, 1, 1];
    custody.handle_bibe_signal(&node(2), &depleted).unwrap();
    let elsewhere = Outcome::ForwardElsewhere(Disposition::DepletedStorage);
    assert_eq!(outcomes(&mut custody, 0), [(1, elsewhere)]);
}

#[test]
fn a_peer_that_expects_a_signal_soon_has_it_sooner() {
    let due = |expected_s: Option<u64>, known: bool| {
        let mut custody = with_peers(BibePeer {
            latency: Duration::from_secs(3),
            ..BibePeer::default()
        });
        let mut now = now(100);
        let expected =
            expected_s.map_or(0, |seconds| now.dtn.as_millis() - 50_000 + seconds * 1_000);
        let head = head(1, DtnTime::from_millis(expected));
        if !known {
            now.dtn = DtnTime::UNKNOWN;
        }
        custody.handle_bpdu(now, &node(2), &head, Disposition::Accepted);
        (custody.poll_timeout().unwrap() - at(100)).as_secs()
    };
    assert_eq!(due(None, true), 15);
    // It leaves 3 s of latency and 10 s of margin before.
    assert_eq!(due(Some(50 + 28), true), 15);
    assert_eq!(due(Some(50 + 27), true), 14);
    assert_eq!(due(Some(50 + 13), true), 0);
    assert_eq!(due(Some(0), true), 0, "in the past");
    assert_eq!(due(Some(u64::from(u32::MAX)), true), 15);
    assert_eq!(due(Some(50), false), 15, "nobody knows the time");
}

#[test]
fn a_signal_that_would_be_too_long_leaves_before() {
    let mut custody = with_peers(BibePeer {
        octets: 30,
        ..BibePeer::default()
    });
    for id in 1..=10 {
        assert!(owe(&mut custody, 0, id * 2, Disposition::Accepted));
    }
    let at_once = told(&mut custody, 0);
    assert_eq!(at_once.len(), 2);
    for (_, payload) in &at_once {
        assert!(payload.len() <= 30, "{}", payload.len());
    }
    let all = at_once.into_iter().chain(told(&mut custody, 15));
    let ids = all.flat_map(|(_, payload)| {
        let signal = BibeSignal::decode(&payload, Numbering::Draft).unwrap();
        signal.runs.into_iter().map(|(first, _)| first)
    });
    let ids: Vec<u64> = ids.collect();
    assert_eq!(ids, (1..=10).map(|id| id * 2).collect::<Vec<u64>>());
}

#[test]
fn a_peer_that_is_removed_is_told_nothing() {
    let mut custody = with_peers(BibePeer {
        octets: 0,
        ..BibePeer::default()
    });
    for id in [1, 2] {
        owe(&mut custody, 0, id, Disposition::Accepted);
        owe(&mut custody, 0, id, Disposition::NoRoute);
    }
    let other = head(1, DtnTime::UNKNOWN);
    custody.handle_bpdu(now(0), &node(3), &other, Disposition::Accepted);
    custody.remove_peer(&node(2));
    custody.peers.check();
    let peers: Vec<_> = told(&mut custody, 99)
        .into_iter()
        .map(|(peer, _)| peer)
        .collect();
    assert_eq!(peers, [node(3)]);
}
