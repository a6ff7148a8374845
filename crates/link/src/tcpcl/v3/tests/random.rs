//! Any chunking, any interleaving of commands, whatever was agreed on: everything arrives and is answered.

use alloc::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// One thing that happens to a pair of sessions. The first field of each says to which side.
#[derive(Clone, Debug)]
enum Step {
    Transmit(usize, u16),
    /// Supply up to so many octets to the oldest bundle that lacks some.
    Supply(usize, u16),
    Send(usize, u16),
    Deliver(usize, u16),
    /// Acknowledge up to so many octets of the oldest bundle.
    Acknowledge(usize, u16),
    Refuse(usize),
    Cancel(usize),
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
    ]
}

/// The knowledge of the node on one side.
#[derive(Default)]
struct Node {
    next: u64,
    /// Outgoing: length and octets supplied so far.
    outgoing: BTreeMap<u64, (u64, u64)>,
    /// Outgoing bundles that are over, and how.
    over: BTreeMap<u64, Over>,
    /// Incoming, by the session's own numbers.
    incoming: BTreeMap<u64, Incoming>,
}

#[derive(Default)]
struct Incoming {
    octets: Vec<u8>,
    whole: bool,
    acknowledged: u64,
    /// Whether its end was acknowledged.
    confirmed: bool,
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Transmitted,
    Refused,
    Cancelled,
}

/// The octets of a bundle of one side.
fn bundle(side: usize, number: u64, range: core::ops::Range<u64>) -> Vec<u8> {
    range
        .map(|at| log_octet((side as u64) << 40 | number << 20 | at))
        .collect()
}

struct World {
    pair: Pair,
    nodes: [Node; 2],
    offer: u8,
}

impl World {
    fn new(offer: u8) -> Self {
        let session = |id| {
            let config = Config {
                // Small segments, so that bundles have several.
                segment_length: 700,
                ..config(id)
            };
            Session::offering(offer, config, at(1_000))
        };
        Self {
            pair: Pair::new([session("ipn:1.0"), session("ipn:2.0")], at(1_000)),
            nodes: [Node::default(), Node::default()],
            offer,
        }
    }

    fn offers(&self, flags: u8) -> bool {
        self.offer & flags == flags
    }

    fn supply(&mut self, side: usize, length: u64) {
        let mut all = self.nodes[side].outgoing.iter_mut();
        let Some((&number, (whole, supplied))) =
            all.find(|(_, (whole, supplied))| supplied < whole)
        else {
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
            Piece::Octets(bundle(side, number, *supplied..*supplied + length).into())
        };
        *supplied += length;
        let transfer = TransferId(number);
        self.pair
            .command(side, LinkCommand::Supply { transfer, octets });
    }

    fn acknowledge(&mut self, side: usize, octets: u64) {
        let mut all = self.nodes[side].incoming.iter_mut();
        let Some((&number, incoming)) = all.find(|(_, it)| {
            let arrived = it.octets.len() as u64;
            !it.refused && (it.acknowledged < arrived || (it.whole && !it.confirmed))
        }) else {
            return;
        };
        let arrived = incoming.octets.len() as u64;
        incoming.acknowledged = arrived.min(incoming.acknowledged + octets);
        incoming.confirmed = incoming.whole && incoming.acknowledged == arrived;
        let (transfer, octets) = (TransferId(number), incoming.acknowledged);
        self.pair
            .command(side, LinkCommand::Acknowledge { transfer, octets });
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
                    let incoming = node.incoming.entry(transfer.0).or_default();
                    assert_eq!(start, incoming.octets.is_empty() && !incoming.whole);
                    assert!(!incoming.whole, "nothing comes after the end");
                    incoming.octets.extend_from_slice(&octets);
                    incoming.whole = end;
                }
                LinkEvent::Transmitted { transfer } => {
                    assert_eq!(node.over.insert(transfer.0, Over::Transmitted), None);
                }
                LinkEvent::Failed {
                    transfer, refused, ..
                } => {
                    let over = match refused {
                        Some(_) => Over::Refused,
                        None => Over::Cancelled,
                    };
                    assert_eq!(node.over.insert(transfer.0, over), None);
                }
                // It ended early.
                LinkEvent::Abandoned { transfer, .. } => {
                    node.incoming.entry(transfer.0).or_default().refused = true;
                }
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
            // A peer that knows no refusals makes the session end: another test.
            Step::Refuse(_) if !self.offers(REFUSED) => {}
            Step::Refuse(side) => {
                let mut all = self.nodes[side].incoming.iter_mut();
                if let Some((&number, incoming)) = all.find(|(_, it)| !it.confirmed && !it.refused)
                {
                    incoming.refused = true;
                    let (transfer, reason) = (TransferId(number), RefuseReason::Retransmit);
                    self.pair
                        .command(side, LinkCommand::Refuse { transfer, reason });
                }
            }
            // Likewise.
            Step::Cancel(_) if !self.offers(REFUSED | ANNOUNCED) => {}
            Step::Cancel(side) => {
                // Only what lacks octets: begun or not.
                let mut all = self.nodes[side].outgoing.iter_mut();
                if let Some((&number, (whole, supplied))) =
                    all.find(|(_, (whole, supplied))| supplied < whole)
                {
                    *supplied = *whole;
                    let transfer = TransferId(number);
                    self.pair.command(side, LinkCommand::Cancel { transfer });
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
                let reason = TerminateReason::Busy;
                self.pair.command(0, LinkCommand::Terminate { reason });
            }
            let mut sessions = self.pair.sessions.iter();
            if sessions.all(|session| session.state() == State::Closed) {
                return;
            }
        }
        panic!("the sessions do not come to an end");
    }

    fn check(&self) {
        for side in [0, 1] {
            let (sender, receiver) = (&self.nodes[side], &self.nodes[1 - side]);
            // The wire numbers nothing: a bundle is known by its octets. Whole bundles came in order.
            let mut whole = receiver
                .incoming
                .values()
                .filter(|it| it.whole && !it.refused);
            let mut refusals = 0;
            for (number, (length, _)) in &sender.outgoing {
                match sender.over[number] {
                    Over::Transmitted => {
                        let incoming = whole.next().expect("what was transmitted has come");
                        assert_eq!(incoming.octets, bundle(side, *number, 0..*length));
                        assert!(
                            incoming.confirmed || !self.offers(ACKNOWLEDGED),
                            "nothing is acknowledged before it is durable"
                        );
                    }
                    Over::Refused => refusals += 1,
                    Over::Cancelled => {}
                }
            }
            assert!(
                whole.next().is_none(),
                "nothing came that was not transmitted"
            );
            let refused = receiver.incoming.values().filter(|it| it.refused).count();
            assert!(refusals <= refused, "nothing is refused that was not");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn everything_arrives_and_is_answered_whatever_happens_when(
        steps in proptest::collection::vec(step(), 0..400),
        offer in prop_oneof![
            4 => Just(ACKNOWLEDGED | REFUSED | ANNOUNCED),
            1 => Just(ACKNOWLEDGED | REFUSED),
            1 => Just(ACKNOWLEDGED),
            1 => Just(ANNOUNCED),
            1 => Just(0),
        ],
    ) {
        let mut world = World::new(offer);
        for step in steps {
            world.step(step);
        }
        world.finish();
        world.check();
    }
}
