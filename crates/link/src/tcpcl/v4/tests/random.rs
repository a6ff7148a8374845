//! Any chunking, any interleaving of commands: everything arrives, everything is acknowledged.

use alloc::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::stream::{DownReason, RefuseReason, TerminateReason};

/// One thing that happens to a pair of sessions. The first field of each says to which side.
#[derive(Clone, Debug)]
enum Step {
    Transmit(usize, u16),
    /// Supply up to so many octets to the newest transfers that lack some.
    Supply(usize, u16),
    Send(usize, u16),
    Deliver(usize, u16),
    /// Acknowledge up to so many octets of the oldest transfers.
    Acknowledge(usize, u16),
    Refuse(usize),
    Cancel(usize),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let side = 0..2_usize;
    prop_oneof![
        3 => (side.clone(), 0..5_000_u16).prop_map(|(side, length)| Step::Transmit(side, length)),
        4 => (side.clone(), 1..3_000_u16).prop_map(|(side, length)| Step::Supply(side, length)),
        6 => (side.clone(), 0..4_000_u16).prop_map(|(side, limit)| Step::Send(side, limit)),
        6 => (side.clone(), 1..4_000_u16).prop_map(|(side, limit)| Step::Deliver(side, limit)),
        4 => (side.clone(), 1..3_000_u16).prop_map(|(side, octets)| Step::Acknowledge(side, octets)),
        1 => side.clone().prop_map(Step::Refuse),
        1 => side.prop_map(Step::Cancel),
        1 => (0..3_000_u16).prop_map(Step::Wait),
    ]
}

/// The knowledge of the node on one side.
#[derive(Default)]
struct Node {
    next: u64,
    /// Outgoing: length and octets supplied so far.
    outgoing: BTreeMap<u64, (u64, u64)>,
    /// Outgoing transfers that are over, and how.
    over: BTreeMap<u64, Over>,
    /// Incoming: octets so far, whether whole, octets acknowledged.
    incoming: BTreeMap<u64, (Vec<u8>, bool, u64)>,
    refused: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Transmitted,
    Refused,
    Cancelled,
}

/// The octet of a transfer of one side.
fn octet(side: usize, transfer: u64, at: u64) -> u8 {
    log_octet((side as u64) << 40 | transfer << 20 | at)
}

struct World {
    pair: Pair,
    nodes: [Node; 2],
}

impl World {
    fn new() -> Self {
        // Small segments, so that transfers have several; tiny waits never end a session.
        let small = |id| Config {
            segment_length: 700,
            segment_mru: 900,
            ..config(id)
        };
        let mut pair = Pair::new(small("ipn:1.0"), small("ipn:2.0"));
        pair.sessions[0].handle_timeout(pair.now);
        Self {
            pair,
            nodes: [Node::default(), Node::default()],
        }
    }

    fn supply(&mut self, side: usize, length: u64) {
        let node = &mut self.nodes[side];
        let lacking = node
            .outgoing
            .iter_mut()
            .find(|(_, (whole, supplied))| supplied < whole);
        let Some((&number, (whole, supplied))) = lacking else {
            return;
        };
        let length = length.min(*whole - *supplied);
        // Extents and octets by turns.
        let octets = if (length + number).is_multiple_of(2) {
            Piece::Extent(Extent {
                offset: (side as u64) << 40 | number << 20 | *supplied,
                length,
            })
        } else {
            let from = *supplied;
            Piece::Octets(
                (from..from + length)
                    .map(|at| octet(side, number, at))
                    .collect(),
            )
        };
        *supplied += length;
        self.pair.command(
            side,
            LinkCommand::Supply {
                transfer: TransferId(number),
                octets,
            },
        );
    }

    fn acknowledge(&mut self, side: usize, octets: u64) {
        let node = &mut self.nodes[side];
        let oldest = node
            .incoming
            .iter_mut()
            .find(|(number, (octets, whole, acknowledged))| {
                !node.refused.contains(number)
                    && (*acknowledged < octets.len() as u64
                        || (*whole && *acknowledged != u64::MAX))
            });
        let Some((&number, (arrived, whole, acknowledged))) = oldest else {
            return;
        };
        let durable = (arrived.len() as u64).min(acknowledged.saturating_add(octets));
        // u64::MAX marks a transfer whose end was acknowledged.
        *acknowledged = if *whole && durable == arrived.len() as u64 {
            u64::MAX
        } else {
            durable
        };
        self.pair.command(
            side,
            LinkCommand::Acknowledge {
                transfer: TransferId(number),
                octets: durable,
            },
        );
    }

    fn take(&mut self, side: usize) {
        self.pair.take(side);
        let node = &mut self.nodes[side];
        for event in self.pair.events[side].drain(..) {
            match event {
                LinkEvent::Segment {
                    transfer,
                    octets,
                    start,
                    end,
                    ..
                } => {
                    let (arrived, whole, _) = node.incoming.entry(transfer.0).or_default();
                    assert_eq!(start, arrived.is_empty() && !*whole, "start comes once");
                    assert!(!*whole, "nothing comes after the end");
                    arrived.extend_from_slice(&octets);
                    *whole = end;
                }
                LinkEvent::Transmitted { transfer } => {
                    assert_eq!(node.over.insert(transfer.0, Over::Transmitted), None);
                }
                LinkEvent::Failed {
                    transfer, refused, ..
                } => {
                    let over = if refused.is_some() {
                        Over::Refused
                    } else {
                        Over::Cancelled
                    };
                    assert_eq!(node.over.insert(transfer.0, over), None);
                }
                // It ended early.
                LinkEvent::Abandoned { transfer, .. } => node.refused.push(transfer.0),
                LinkEvent::Acknowledged { .. } | LinkEvent::Up(_) | LinkEvent::Ending => {}
                LinkEvent::Down(DownReason::Terminated(TerminateReason::Busy)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Transmit(side, length) => {
                let node = &mut self.nodes[side];
                let (transfer, length) = (TransferId(node.next), u64::from(length));
                node.outgoing.insert(node.next, (length, 0));
                // Numbers mostly follow each other.
                node.next += if length % 7 == 0 { 3 } else { 1 };
                self.pair
                    .command(side, LinkCommand::Transmit { transfer, length });
            }
            Step::Supply(side, length) => self.supply(side, u64::from(length)),
            Step::Send(side, limit) => {
                self.pair.send(side, usize::from(limit));
            }
            Step::Deliver(side, limit) => {
                self.pair.deliver(side, usize::from(limit));
            }
            Step::Acknowledge(side, octets) => self.acknowledge(side, u64::from(octets)),
            Step::Refuse(side) => {
                let node = &mut self.nodes[side];
                let candidate = node.incoming.iter().find(|(number, (.., acknowledged))| {
                    *acknowledged != u64::MAX && !node.refused.contains(number)
                });
                if let Some((&number, _)) = candidate {
                    node.refused.push(number);
                    let reason = RefuseReason::Retransmit;
                    self.pair.command(
                        side,
                        LinkCommand::Refuse {
                            transfer: TransferId(number),
                            reason,
                        },
                    );
                }
            }
            Step::Cancel(side) => {
                // Only what lacks octets: begun or not.
                let mut all = self.nodes[side].outgoing.iter_mut();
                if let Some((&number, (whole, supplied))) =
                    all.find(|(_, (whole, supplied))| supplied < whole)
                {
                    *supplied = *whole;
                    self.pair.command(
                        side,
                        LinkCommand::Cancel {
                            transfer: TransferId(number),
                        },
                    );
                }
            }
            Step::Wait(milliseconds) => {
                let pair = &mut self.pair;
                pair.now.monotonic =
                    pair.now.monotonic + Duration::from_millis(u64::from(milliseconds) % 20);
                for session in &mut pair.sessions {
                    session.handle_timeout(pair.now);
                }
            }
        }
        self.take(0);
        self.take(1);
    }

    /// Supply, send, deliver and acknowledge all there is, and end the session.
    fn finish(&mut self) {
        let mut terminated = false;
        for _ in 0..100_000 {
            let mut moved = 0;
            for side in [0, 1] {
                self.supply(side, 3_000);
                moved += self.pair.send(side, 5_000);
                moved += self.pair.deliver(1 - side, 6_000);
                self.take(side);
                self.take(1 - side);
                self.acknowledge(side, 1 << 30);
            }
            let all_over = self
                .nodes
                .iter()
                .all(|node| node.over.len() == node.outgoing.len());
            if all_over && moved == 0 && !terminated {
                terminated = true;
                self.pair.command(
                    0,
                    LinkCommand::Terminate {
                        reason: TerminateReason::Busy,
                    },
                );
            }
            if self
                .pair
                .sessions
                .iter()
                .all(|session| session.state() == State::Closed)
            {
                return;
            }
        }
        panic!("the sessions do not come to an end");
    }

    fn check(&self) {
        for side in [0, 1] {
            let (sender, receiver) = (&self.nodes[side], &self.nodes[1 - side]);
            for (number, (length, _)) in &sender.outgoing {
                match sender.over[number] {
                    Over::Transmitted => {
                        let (octets, whole, acknowledged) = &receiver.incoming[number];
                        assert!(*whole);
                        assert_eq!(
                            *acknowledged,
                            u64::MAX,
                            "nothing is acknowledged before it is durable"
                        );
                        let expected: Vec<u8> =
                            (0..*length).map(|at| octet(side, *number, at)).collect();
                        assert_eq!(*octets, expected);
                    }
                    Over::Refused => assert!(receiver.refused.contains(number)),
                    Over::Cancelled => {
                        let incoming = receiver.incoming.get(number);
                        assert!(incoming.is_none_or(|(_, whole, _)| !whole));
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn everything_arrives_and_is_acknowledged_whatever_happens_when(steps in proptest::collection::vec(step(), 0..400)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.finish();
        world.check();
    }
}
