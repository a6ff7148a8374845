//! Two nodes that use Bundle-in-Bundle Encapsulation, and a link between them that loses bundles and signals.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;

use bytes::Bytes;
use dhow_bundle::v7::admin::bibe::{BibeTypes, BpduHead, Disposition};
use proptest::prelude::*;

use super::super::{BibePeer, Outcome};
use super::*;

/// The wait for a signal: longer than signals gather.
const WAIT: Duration = Duration::from_secs(40);

#[derive(Clone, Debug)]
enum Step {
    /// All bundles that the sender has to send leave, and arrive, or none does.
    Send {
        is_lost: bool,
    },
    /// All signals that are to leave do.
    Signal {
        is_lost: bool,
    },
    Pass {
        seconds: u64,
    },
    /// The receiver takes no bundles, or does again.
    Fill {
        is_full: bool,
    },
    RestartSender,
    RestartReceiver,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<bool>().prop_map(|is_lost| Step::Send { is_lost }),
        3 => any::<bool>().prop_map(|is_lost| Step::Signal { is_lost }),
        3 => (0_u64..50).prop_map(|seconds| Step::Pass { seconds }),
        1 => any::<bool>().prop_map(|is_full| Step::Fill { is_full }),
        1 => Just(Step::RestartSender),
        1 => Just(Step::RestartReceiver),
    ]
}

struct Pair {
    types: BibeTypes,
    seconds: u64,
    sender: Custody,
    receiver: Custody,
    /// Bundles that the sender has, and whether they are to be sent.
    held: BTreeMap<u32, bool>,
    /// Bundles that are durable at the receiver.
    taken: BTreeSet<u32>,
    is_full: bool,
    mark: u64,
    given: BTreeSet<u64>,
}

impl Pair {
    fn new(types: BibeTypes, bundles: u32) -> Self {
        Self {
            types,
            seconds: 0,
            sender: Self::node_with(types, 2),
            receiver: Self::node_with(types, 1),
            held: (0..bundles).map(|key| (key, true)).collect(),
            taken: BTreeSet::new(),
            is_full: false,
            mark: 0,
            given: BTreeSet::new(),
        }
    }

    fn node_with(types: BibeTypes, peer: u32) -> Custody {
        let settings = BibePeer {
            types,
            octets: 24,
            ..BibePeer::default()
        };
        let mut custody = Custody::default();
        custody.set_peer(node(peer), settings);
        custody
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Send { is_lost } => self.send(*is_lost),
            Step::Signal { is_lost } => self.signal(*is_lost),
            Step::Pass { seconds } => self.seconds += seconds,
            Step::Fill { is_full } => self.is_full = *is_full,
            Step::RestartSender => {
                self.sender = Self::node_with(self.types, 2);
                self.sender.resume(self.mark);
                self.held.values_mut().for_each(|waits| *waits = true);
            }
            Step::RestartReceiver => self.receiver = Self::node_with(self.types, 1),
        }
        self.hear();
        self.sender.peers.check();
        self.receiver.peers.check();
    }

    fn send(&mut self, is_lost: bool) {
        let waiting = self.held.iter_mut().filter(|(_, waits)| **waits);
        for (&key, waits) in waiting {
            *waits = false;
            let sent = at(self.seconds);
            let given = (self.sender).handle_encapsulated(sent, &node(2), BundleKey(key), WAIT);
            let given = given.unwrap();
            self.mark = given.reserve.unwrap_or(self.mark);
            assert!(given.id <= self.mark && self.given.insert(given.id));
            if is_lost {
                continue;
            }
            let expected_by = now(self.seconds + WAIT.as_secs()).dtn;
            let mut octets = Vec::new();
            BpduHead::custodial(self.types, given.id, expected_by, 9).encode(&mut octets);
            let (head, _) = BpduHead::decode(&octets).unwrap().unwrap();
            let disposition = if self.taken.contains(&key) {
                Disposition::Redundant
            } else if self.is_full {
                Disposition::DepletedStorage
            } else {
                self.taken.insert(key);
                Disposition::Accepted
            };
            (self.receiver).handle_bpdu(now(self.seconds), &node(1), &head, disposition);
        }
    }

    fn signal(&mut self, is_lost: bool) {
        let seconds = self.seconds;
        let signals = core::iter::from_fn(|| self.receiver.poll_bibe_signal(at(seconds)));
        let signals: Vec<(EndpointId, Bytes)> = signals.collect();
        for (peer, payload) in signals {
            assert_eq!(peer, node(1));
            assert!(payload.len() <= 24);
            if !is_lost {
                self.sender.handle_bibe_signal(&node(2), &payload).unwrap();
            }
        }
        let timeout = self.receiver.poll_timeout();
        assert!(
            timeout.is_none_or(|it| it > at(seconds)),
            "all that is due left"
        );
    }

    /// The sender hears of the fate of its bundles.
    fn hear(&mut self) {
        while let Some((key, outcome)) = self.sender.poll_outcome(at(self.seconds)) {
            match outcome {
                Outcome::Released => {
                    assert!(
                        self.taken.contains(&key.0),
                        "a bundle was released and is lost"
                    );
                    // A late signal finds it on its way out again.
                    assert!(self.held.remove(&key.0).is_some());
                }
                Outcome::ForwardElsewhere(reason) => {
                    assert_eq!(reason, Disposition::DepletedStorage);
                    self.held.insert(key.0, true);
                }
                Outcome::SendAgain => {
                    self.held.insert(key.0, true);
                }
            }
        }
        let waited_for = self.held.values().any(|waits| !waits);
        assert_eq!(self.sender.poll_timeout().is_some(), waited_for);
    }
}

proptest! {
    /// draft-ietf-dtn-bibect-03 4: whatever is lost, no bundle is released that the peer has not, and all are once the link works.
    #[test]
    fn no_bundle_is_lost_between_two_nodes(
        types in prop_oneof![Just(BibeTypes::Draft), Just(BibeTypes::Ion), Just(BibeTypes::Ud3tn)],
        bundles in 1_u32..20,
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let mut pair = Pair::new(types, bundles);
        let in_the_end = vec![
            Step::Fill { is_full: false },
            // No wait is longer than a day.
            Step::Pass { seconds: 86_401 },
            Step::Send { is_lost: false },
            Step::Pass { seconds: 15 },
            Step::Signal { is_lost: false },
        ];
        for step in steps.iter().chain(&in_the_end) {
            pair.take(step);
        }
        prop_assert!(pair.held.is_empty(), "{:?}", pair.held);
        prop_assert_eq!(pair.taken.len(), usize::try_from(bundles).unwrap());
    }
}
