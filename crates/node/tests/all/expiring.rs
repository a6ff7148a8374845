//! Many bundles that expire at the same instant, and others who want something of the node meanwhile.

use std::time::Duration;

use dhow_bundle::storage::{Extent, Extents, StoredBundle};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, Instant, Now};
use dhow_node::Node;
use dhow_node::driver::{Action, Event, Occurrence, OperatorCommand, Purpose, StreamId, Ticket};

const BUNDLES: u64 = 20_000;

/// Actions that one turn may make: some for each bundle that expires in it.
const ACTIONS_PER_TURN: usize = 2_000;

fn now(seconds: u64) -> Now {
    Now {
        monotonic: Instant::START + Duration::from_secs(seconds),
        dtn: DtnTime::from_millis(crate::world::EPOCH.as_millis() + seconds * 1_000),
    }
}

/// A node that found so many bundles of a minute's lifetime for its own application.
fn node(bundles: u64) -> Node {
    let mut node = Node::new(crate::world::config(1));
    for sequence in 0..bundles {
        let id = BundleId {
            source: "ipn:1.5".parse().unwrap(),
            creation: CreationTimestamp {
                time: crate::world::EPOCH,
                sequence,
            },
            fragment: None,
        };
        let bundle = StoredBundle {
            id,
            destination: "ipn:1.42".parse().unwrap(),
            report_to: "dtn:none".parse().unwrap(),
            version: 7,
            flags: 4,
            lifetime_ms: 60_000,
            age_at_reception_ms: 0,
            received: crate::world::EPOCH,
            header_octets: 90,
            payload_octets: 1,
            total_adu_octets: 0,
            previous: None,
            reads_aggregated_reports: false,
            priority: dhow_bundle::Priority::Normal,
            note: bytes::Bytes::new(),
        };
        let extent = Extent {
            offset: sequence * 100,
            length: 92,
        };
        node.handle(
            now(0),
            Event::Recovered {
                bundle: Box::new(bundle),
                extents: Extents::One(extent),
            },
        );
    }
    node.handle(
        now(0),
        Event::Opened {
            reserved_time: crate::world::EPOCH,
            reserved_sequence: bundles,
            removed: Vec::new(),
        },
    );
    node
}

/// The node's actions in a turn.
fn turn(node: &mut Node, at: Now) -> Vec<Action> {
    std::iter::from_fn(|| node.poll(at)).collect()
}

fn expired(actions: &[Action]) -> u64 {
    let is_expiry = |action: &&Action| {
        matches!(
            action,
            Action::Occurred(Occurrence::Deleted { reason: 1, .. })
        )
    };
    u64::try_from(actions.iter().filter(is_expiry).count()).unwrap()
}

#[test]
fn bundles_that_expire_together_do_so_in_portions_and_others_have_their_turn_between() {
    let mut node = node(BUNDLES);
    turn(&mut node, now(1));
    let mut gone = 0;
    let mut turns = 0;
    while gone < BUNDLES {
        assert!(
            node.poll_timeout().unwrap() <= now(61).monotonic,
            "it is due at once"
        );
        node.handle_timeout(now(61));
        let actions = turn(&mut node, now(61));
        assert!(
            actions.len() <= ACTIONS_PER_TURN,
            "{} actions",
            actions.len()
        );
        gone += expired(&actions);
        turns += 1;
        assert!(turns <= 1_000, "{gone} are gone");
        // An operator is answered in the turn in which he asks.
        let ticket = Ticket(turns);
        let command = OperatorCommand::LinkDown("nobody".to_owned());
        node.handle(now(61), Event::Operator { ticket, command });
        let actions = turn(&mut node, now(61));
        assert!(
            matches!(&actions[..], [Action::Answer { .. }]),
            "{actions:?}"
        );
    }
    assert_eq!(node.counters().expired, BUNDLES);
    node.check_invariants().unwrap();
}

/// An application that comes between two portions gets nothing that has expired.
#[test]
fn what_has_expired_and_is_not_deleted_yet_is_not_delivered() {
    let mut node = node(BUNDLES);
    turn(&mut node, now(1));
    node.handle_timeout(now(61));
    let mut gone = expired(&turn(&mut node, now(61)));
    assert!(gone < BUNDLES);
    let mut application = crate::world::client::Client::new("ipn:1.42", true);
    let stream = StreamId(1);
    let purpose = Purpose::Client;
    node.handle(now(61), Event::Connected { stream, purpose });
    while let Some(octets) = application.to_node.pop_front() {
        node.handle(now(61), Event::Octets { stream, octets });
    }
    let mut actions = turn(&mut node, now(61));
    // It may take more than a turn to make way for what might be behind.
    for _ in 0..100 {
        node.handle_timeout(now(61));
        actions.extend(turn(&mut node, now(61)));
    }
    gone += expired(&actions);
    assert_eq!(gone, BUNDLES);
    let reads = actions
        .iter()
        .filter(|it| matches!(it, Action::Read { .. }));
    assert_eq!((reads.count(), node.counters().delivered), (0, 0));
    let mut out = dhow_link::Gather::new();
    node.poll_octets(now(61), stream, 1 << 20, &mut out);
    assert!(out.octets() < 1_000, "{} octets", out.octets());
    node.check_invariants().unwrap();
}
