//! Small bundles that go on while they are being made durable: an application's and an answer of the echo service
//! leave, a neighbour's is delivered.

use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_bundle::storage::StoreRefusal;
use dhow_node::api::wire::{BundleAdu, STATUS_ERROR, STATUS_SUCCESS};
use dhow_node::config::{Config, Enabled};
use dhow_node::driver::{Occurrence, StreamId};

fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(600_000),
        ..BundleAdu::default()
    }
}

/// Two nodes, and applications on both, between which one bundle has crossed.
struct Pair {
    world: World,
    sender: StreamId,
    receiver: StreamId,
    asker: StreamId,
}

impl Pair {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(edit: impl Fn(&mut Config)) -> Self {
        let mut world = World::line(2, 5, |_, config| edit(config));
        let sender = world.connect(0, Client::new("ipn:1.9", false));
        let receiver = world.connect(1, Client::new("ipn:2.42", true));
        let asker = world.connect(0, Client::new("ipn:1.9", true));
        let mut pair = Self {
            world,
            sender,
            receiver,
            asker,
        };
        // By then creation timestamps are reserved.
        pair.send("ipn:2.42", b"first");
        pair.send("ipn:2.7", b"first");
        pair.world.until("both are there", |world| {
            world.client(1, receiver).received.len() == 1
                && world.client(0, asker).received.len() == 1
        });
        pair.settle();
        pair
    }

    fn send(&mut self, destination: &str, payload: &[u8]) {
        let client = self.world.client(0, self.sender);
        client.send(adu(destination), payload);
    }

    fn stall(&mut self, at: usize, stalled: bool) {
        self.world.machines[at].stalled = stalled;
        self.settle();
    }

    /// Everything happens that can, and the nodes are as they must be.
    fn settle(&mut self) {
        self.world.settle();
        let nodes = self.world.machines.iter().filter_map(|it| it.node.as_ref());
        for node in nodes {
            assert_eq!(node.check_invariants(), Ok(()));
        }
    }

    /// Payloads that came to an application of the second node.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let received = &self.world.client(1, self.receiver).received;
        received.iter().map(|(_, octets)| octets.clone()).collect()
    }

    fn answers(&mut self) -> Vec<(u64, u64)> {
        let received = &self.world.client(0, self.asker).received;
        let creation = |adu: &BundleAdu| (adu.creation_timestamp_ms, adu.sequence_number);
        received.iter().map(|(adu, _)| creation(adu)).collect()
    }

    /// The last answer to the sender, once there is a new one.
    fn told(&mut self, before: usize) -> Option<(i32, String)> {
        let responses = &self.world.client(0, self.sender).responses;
        let response = responses.get(before)?;
        Some((response.response_status, response.message.clone()))
    }

    fn is_empty(&self) -> bool {
        let mut machines = self.world.machines.iter();
        machines.all(|it| it.store.kept.bundles.is_empty())
    }

    /// Everything comes to its end, and the nodes are as they must be.
    fn finish(&mut self) {
        self.world.until("nothing is left", |world| {
            let mut stores = world.machines.iter().map(|it| &it.store);
            stores.all(|store| store.kept.bundles.is_empty() && store.is_clean())
        });
        for machine in &self.world.machines {
            assert!(machine.node.as_ref().unwrap().is_at_rest());
        }
    }
}

#[test]
fn an_applications_bundle_leaves_while_its_sync_runs_and_is_answered_after_it() {
    let mut pair = Pair::new();
    let before = pair.world.client(0, pair.sender).responses.len();
    pair.stall(0, true);
    pair.send("ipn:2.42", b"second");
    pair.settle();
    assert_eq!(pair.received(), [b"first".to_vec(), b"second".to_vec()]);
    assert_eq!(pair.told(before), None, "acknowledged before it is durable");
    pair.stall(0, false);
    assert_eq!(pair.told(before).map(|it| it.0), Some(STATUS_SUCCESS));
    pair.finish();
}

#[test]
fn a_creation_timestamp_that_is_not_reserved_durably_does_not_leave() {
    let mut pair = Pair::new();
    pair.world.pass(Duration::from_secs(60));
    for at in 0..2 {
        pair.stall(at, true);
    }
    pair.send("ipn:2.42", b"second");
    pair.send("ipn:2.7", b"second");
    pair.settle();
    assert_eq!((pair.received().len(), pair.answers().len()), (1, 1));
    for at in 0..2 {
        pair.stall(at, false);
    }
    assert_eq!((pair.received().len(), pair.answers().len()), (2, 2));
    pair.finish();
}

#[test]
fn what_left_and_was_lost_in_a_crash_was_answered_to_nobody_and_its_timestamp_never_comes_again() {
    let mut pair = Pair::new();
    let before = pair.world.client(0, pair.sender).responses.len();
    pair.stall(0, true);
    pair.send("ipn:2.42", b"second");
    pair.settle();
    assert_eq!(pair.told(before), None);
    pair.world.crash(0);
    pair.stall(0, false);
    pair.world.start(0);
    pair.sender = pair.world.connect(0, Client::new("ipn:1.9", false));
    pair.send("ipn:2.42", b"second");
    let receiver = pair.receiver;
    pair.world.until("it comes", |world| {
        world.client(1, receiver).received.len() == 3
    });
    let received = &pair.world.client(1, receiver).received;
    let creation = |at: usize| {
        (
            received[at].0.creation_timestamp_ms,
            received[at].0.sequence_number,
        )
    };
    assert_ne!(creation(1), creation(2));
    pair.finish();
}

/// The next hop's answer decides over what the store cannot keep.
#[test]
fn what_left_and_the_store_refused_is_accepted_where_the_next_hop_has_it() {
    for next_hop_stalls in [false, true] {
        let mut pair = Pair::new();
        let before = pair.world.client(0, pair.sender).responses.len();
        pair.world.machines[1].stalled = next_hop_stalls;
        pair.stall(0, true);
        pair.send("ipn:2.42", b"second");
        pair.settle();
        pair.world.machines[0].store.capacity = Some(0);
        pair.stall(0, false);
        assert_eq!(pair.told(before).is_none(), next_hop_stalls);
        pair.stall(1, false);
        assert_eq!(pair.told(before).map(|it| it.0), Some(STATUS_SUCCESS));
        assert_eq!(pair.received().len(), 2);
        pair.finish();
    }
}

#[test]
fn what_left_and_the_store_refused_is_refused_where_nobody_knows_and_the_answer_says_so() {
    let mut pair = Pair::new();
    let before = pair.world.client(0, pair.sender).responses.len();
    pair.world.machines[1].stalled = true;
    pair.stall(0, true);
    pair.send("ipn:2.42", b"second");
    pair.settle();
    pair.world.machines[0].store.capacity = Some(0);
    pair.stall(0, false);
    pair.world.cut(0, 1);
    pair.settle();
    let (_, message) = pair.told(before).expect("it is answered");
    assert!(message.contains("may have left"), "{message}");
    pair.world.machines[0].store.capacity = None;
    pair.world.join(0, 1);
    pair.stall(1, false);
    pair.finish();
}

#[test]
fn an_answer_of_the_echo_service_leaves_with_nothing_synced_there() {
    let mut pair = Pair::new();
    pair.stall(1, true);
    pair.send("ipn:2.7", b"second");
    pair.settle();
    assert_eq!(pair.answers().len(), 2);
    assert!(
        !pair.is_empty(),
        "the question is kept until it is durable there"
    );
    pair.stall(1, false);
    pair.finish();
    assert_eq!(pair.answers().len(), 2);
}

#[test]
fn an_answer_that_left_and_that_the_store_refused_is_no_longer_known_here() {
    let mut pair = Pair::new();
    pair.stall(0, true);
    pair.stall(1, true);
    pair.send("ipn:2.7", b"second");
    pair.settle();
    assert_eq!(pair.answers().len(), 2);
    pair.world.machines[1].store.capacity = Some(0);
    pair.stall(1, false);
    pair.world.machines[1].store.capacity = None;
    pair.stall(0, false);
    // The question was refused, too, and is asked again.
    pair.finish();
    assert_eq!(pair.answers().len(), 3);
}

/// The question was not acknowledged, so it is asked again, and answered by another bundle.
#[test]
fn an_answer_that_left_before_a_crash_is_not_made_again_with_the_same_timestamp() {
    let mut pair = Pair::new();
    pair.stall(1, true);
    pair.send("ipn:2.7", b"second");
    pair.settle();
    assert_eq!(pair.answers().len(), 2);
    pair.world.crash(1);
    pair.stall(1, false);
    pair.world.start(1);
    let asker = pair.asker;
    pair.world.until("it is asked again", |world| {
        world.client(0, asker).received.len() == 3
    });
    let answers = pair.answers();
    assert_ne!(answers[1], answers[2]);
    pair.receiver = pair.world.connect(1, Client::new("ipn:2.42", true));
    pair.finish();
}

#[test]
fn a_bundle_is_delivered_while_its_sync_runs_and_its_sender_keeps_it_until_after() {
    let mut pair = Pair::new();
    pair.stall(1, true);
    for number in 0..20_u8 {
        pair.send("ipn:2.42", &[number]);
    }
    pair.settle();
    assert!(pair.received().len() > 1);
    assert!(!pair.is_empty());
    pair.stall(1, false);
    pair.finish();
    let expected = (0..20).map(|number| vec![number]);
    let expected: Vec<Vec<u8>> = std::iter::once(b"first".to_vec()).chain(expected).collect();
    assert_eq!(pair.received(), expected, "in order, each once");
}

#[test]
fn a_small_bundle_is_not_delivered_before_a_large_one_that_came_first() {
    let mut pair = Pair::new();
    pair.stall(1, true);
    pair.send("ipn:2.42", &[1; 30_000]);
    pair.send("ipn:2.42", &[2]);
    pair.settle();
    pair.stall(1, false);
    pair.finish();
    assert_eq!(pair.received()[1..], [vec![1; 30_000], vec![2]]);
}

/// Its confirmation was not durable when the node died.
#[test]
fn a_bundle_delivered_before_a_crash_comes_again_and_none_is_lost() {
    let mut pair = Pair::new();
    pair.stall(1, true);
    pair.send("ipn:2.42", b"second");
    pair.settle();
    assert_eq!(pair.received().len(), 2);
    pair.world.crash(1);
    pair.stall(1, false);
    pair.world.start(1);
    pair.receiver = pair.world.connect(1, Client::new("ipn:2.42", true));
    pair.finish();
    assert_eq!(pair.received(), [b"second".to_vec()]);
}

/// The octets that an application does with a bundle that the store cannot keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    ConfirmsBefore,
    ConfirmsAfter,
    Leaves,
}

#[test]
fn a_bundle_that_was_delivered_and_refused_by_the_store_comes_again_only_if_it_was_not_confirmed() {
    for reaction in [
        Reaction::ConfirmsBefore,
        Reaction::ConfirmsAfter,
        Reaction::Leaves,
    ] {
        let mut pair = Pair::new();
        pair.world.client(1, pair.receiver).confirms = reaction == Reaction::ConfirmsBefore;
        pair.stall(1, true);
        pair.send("ipn:2.42", b"second");
        pair.settle();
        assert_eq!(pair.received().len(), 2);
        pair.world.machines[1].store.capacity = Some(0);
        pair.stall(1, false);
        let is_full = |it: &Occurrence| {
            matches!(
                it,
                Occurrence::StoreRefused {
                    refusal: StoreRefusal::Full
                }
            )
        };
        assert!(pair.world.machines[1].occurrences.iter().any(is_full));
        pair.world.machines[1].store.capacity = None;
        match reaction {
            Reaction::ConfirmsBefore => {}
            Reaction::ConfirmsAfter => {
                pair.world.client(1, pair.receiver).respond(STATUS_SUCCESS);
                pair.world.client(1, pair.receiver).confirms = true;
            }
            Reaction::Leaves => {
                pair.world.leave(1, pair.receiver);
                pair.receiver = pair.world.connect(1, Client::new("ipn:2.42", true));
            }
        }
        pair.settle();
        pair.finish();
        let came = match reaction {
            Reaction::Leaves => vec![b"second".to_vec()],
            _ => vec![b"first".to_vec(), b"second".to_vec()],
        };
        assert_eq!(pair.received(), came, "{reaction:?}");
        // A confirmation is known after a crash, too.
        let remembered = pair.world.machines[1].store.kept.removed.iter();
        let remembered = remembered.filter(|(id, _)| !id.source.is_null()).count();
        assert_eq!(remembered, 3, "{reaction:?}");
    }
}

/// It would be delivered twice, once as a whole of its fragments.
#[test]
fn fragments_of_a_bundle_wait_while_an_application_has_it_and_the_store_has_not() {
    let mut pair = Pair::new();
    pair.world.client(1, pair.receiver).confirms = false;
    pair.stall(1, true);
    pair.send("ipn:2.42", b"second");
    pair.settle();
    assert_eq!(pair.received().len(), 2);
    pair.world.machines[1].store.capacity = Some(0);
    pair.stall(1, false);
    pair.world.machines[1].store.capacity = None;
    // The sender cuts it now: the peer that it asked to keep it has not.
    pair.world.crash(0);
    for link in &mut pair.world.machines[0].config.links {
        link.policy.fragment_octets = Some(2);
    }
    pair.world.start(0);
    pair.settle();
    assert_eq!(pair.received().len(), 2, "it is handed over once");
    assert_eq!(pair.world.machines[0].store.kept.bundles.len(), 1);
    let client = pair.world.client(1, pair.receiver);
    client.respond(STATUS_SUCCESS);
    client.confirms = true;
    pair.settle();
    pair.world.pass(Duration::from_secs(60));
    pair.settle();
    assert_eq!(pair.received().len(), 2, "it is known");
    assert!(pair.is_empty());
}

#[test]
fn a_bundle_that_was_delivered_ahead_and_declined_is_delivered_again() {
    let mut pair = Pair::new();
    pair.world.client(1, pair.receiver).confirms = false;
    pair.stall(1, true);
    pair.send("ipn:2.42", b"second");
    pair.settle();
    pair.world.client(1, pair.receiver).respond(STATUS_ERROR);
    pair.world.client(1, pair.receiver).confirms = true;
    pair.stall(1, false);
    pair.finish();
    let second = b"second".to_vec();
    assert_eq!(pair.received(), [b"first".to_vec(), second.clone(), second]);
}

#[test]
fn where_cut_through_is_off_nothing_leaves_ahead() {
    let mut pair = Pair::with(|config| {
        for link in &mut config.links {
            link.policy.cut_through = Enabled::No;
        }
    });
    pair.stall(0, true);
    pair.send("ipn:2.42", b"second");
    pair.settle();
    assert_eq!(pair.received().len(), 1);
    pair.stall(0, false);
    assert_eq!(pair.received().len(), 2);
    pair.finish();
}
