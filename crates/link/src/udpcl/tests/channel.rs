//! Two conversations and a channel that loses, doubles, reorders and damages datagrams.

use alloc::collections::BTreeMap;

use proptest::prelude::*;

use super::super::transfer_in::MAX_INCOMPLETE;
use super::*;

/// The fate of a datagram on its way.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives(u64),
    Lost,
    Doubled(u64, u64),
    /// One octet changes: UDP's checksum finds most of these, not all.
    Damaged(u64, usize, u8),
}

fn fate(damage: bool) -> impl Strategy<Value = Fate> {
    let delay = 0_u64..3_000;
    let damaged = (delay.clone(), any::<usize>(), 1_u8..)
        .prop_map(|(delay, place, bits)| Fate::Damaged(delay, place, bits));
    prop_oneof![
        20 => delay.clone().prop_map(Fate::Arrives),
        2 => Just(Fate::Lost),
        2 => (delay.clone(), delay).prop_map(|(first, second)| Fate::Doubled(first, second)),
        u32::from(damage) * 3 => damaged,
    ]
}

/// A sender's steps: wait so many milliseconds, then transmit a bundle of so many octets.
fn traffic() -> impl Strategy<Value = Vec<(u64, usize)>> {
    let length = prop_oneof![9_usize..300, 300_usize..5_000];
    proptest::collection::vec((0_u64..2_000, length), 1..30)
}

struct World {
    sender: Conversation,
    receiver: Conversation,
    now: u64,
    /// Datagrams under way, by the millisecond of their arrival.
    wire: BTreeMap<u64, Vec<Vec<u8>>>,
    fates: Vec<Fate>,
    count: usize,
    ledger: Ledger,
    sent: usize,
    /// Bundles of one datagram that the channel doubled.
    doubled: usize,
    /// Octets that left, with the millisecond.
    passed: Vec<(u64, u64)>,
}

const RATE: Rate = Rate {
    octets_per_s: 4_000,
    burst_octets: 2_000,
};

impl World {
    fn new(config: Config, seed: u64, fates: Vec<Fate>) -> Self {
        Self {
            sender: Conversation::new(config.clone(), seed, at(0)),
            receiver: Conversation::new(config, !seed, at(0)),
            now: 0,
            wire: BTreeMap::new(),
            fates,
            count: 0,
            ledger: Ledger::default(),
            sent: 0,
            doubled: 0,
            passed: Vec::new(),
        }
    }

    /// Let time pass up to this millisecond, event by event.
    fn pass(&mut self, until: u64) {
        loop {
            self.exchange();
            let timeouts = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
            let timeouts = timeouts
                .into_iter()
                .flatten()
                .map(|at| at.as_nanos().div_ceil(1_000_000));
            let arrivals = self.wire.keys().copied();
            let next = timeouts.chain(arrivals).min().filter(|next| *next <= until);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            self.sender.handle_timeout(at(self.now));
            self.receiver.handle_timeout(at(self.now));
        }
        self.now = until;
    }

    fn exchange(&mut self) {
        let now = at(self.now);
        let datagrams = drain(&mut self.sender, now);
        self.sender.handle_left(now, datagrams.len() as u64);
        for datagram in datagrams {
            assert!(datagram.len() as u64 <= self.sender.config.mtu);
            self.passed.push((self.now, datagram.len() as u64));
            self.carry(datagram);
        }
        self.sent += events(&mut self.sender)
            .iter()
            .filter(|event| matches!(event, DatagramEvent::Sent { .. }))
            .count();
        while let Some(entry) = self.wire.first_entry() {
            if *entry.key() > self.now {
                break;
            }
            receive(&mut self.receiver, now, &entry.remove());
        }
        for event in events(&mut self.receiver) {
            self.ledger.note(&event);
        }
        assert_eq!(self.receiver.incoming.held(), self.ledger.held());
        assert!(self.ledger.held().0 <= MAX_INCOMPLETE);
        assert!(self.ledger.held().1 <= self.receiver.config.reassembly_octets);
    }

    fn carry(&mut self, mut datagram: Vec<u8>) {
        let fate = self.fates[self.count % self.fates.len()];
        self.count += 1;
        let mut arrive = |delay, datagram| {
            self.wire
                .entry(self.now + delay)
                .or_default()
                .push(datagram);
        };
        match fate {
            Fate::Lost => {}
            Fate::Arrives(delay) => arrive(delay, datagram),
            Fate::Doubled(first, second) => {
                // Not a map: a bundle by itself.
                self.doubled += usize::from(datagram[0] != 0xa1);
                arrive(first, datagram.clone());
                arrive(second, datagram);
            }
            Fate::Damaged(delay, place, bits) => {
                let place = place % datagram.len();
                datagram[place] ^= bits;
                arrive(delay, datagram);
            }
        }
    }

    /// The bucket held in every interval between two datagrams.
    fn check_pace(&self) {
        for (place, (from, _)) in self.passed.iter().enumerate() {
            let mut sum = 0;
            for (to, octets) in &self.passed[place..] {
                sum += octets;
                let allowed = RATE.burst_octets + (to - from) * RATE.octets_per_s / 1_000;
                assert!(sum <= allowed, "{sum} octets from {from} to {to} ms");
            }
        }
    }
}

fn play(
    framing: Framing,
    seed: u64,
    fates: Vec<Fate>,
    traffic: &[(u64, usize)],
) -> (World, Vec<Vec<u8>>) {
    let config = Config {
        mtu: 300,
        framing,
        rate: RATE,
        transfer_mru: 10_000,
        reassembly_octets: 40_000,
        ..Config::default()
    };
    let mut world = World::new(config, seed, fates);
    let mut bundles = Vec::new();
    for (number, (wait, length)) in (0..).zip(traffic) {
        world.pass(world.now + wait);
        let mut octets = bundle(seed << 8 | number, *length);
        // No two are equal.
        octets[1..9].copy_from_slice(&number.to_be_bytes());
        transmit(&mut world.sender, at(world.now), number, &octets);
        bundles.push(octets);
    }
    world.pass(world.now + 120_000);
    world.check_pace();
    assert_eq!(world.sent, bundles.len(), "all bundles leave");
    assert_eq!(world.ledger.held(), (0, 0), "nothing stays incomplete");
    (world, bundles)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A bundle comes whole as it was sent, and twice only where a datagram
    /// that was all of it was doubled.
    #[test]
    fn what_arrives_whole_is_what_was_sent(
        seed in any::<u32>(),
        always in any::<bool>(),
        fates in proptest::collection::vec(fate(false), 1..100),
        traffic in traffic(),
    ) {
        let framing = if always { Framing::Always } else { Framing::WhenNeeded };
        let lossless = !fates.iter().any(|fate| matches!(fate, Fate::Lost));
        let (world, bundles) = play(framing, u64::from(seed), fates, &traffic);
        let mut left: Vec<_> = bundles.clone();
        let mut twice = 0;
        for whole in &world.ledger.payloads() {
            match left.iter().position(|bundle| bundle == whole) {
                Some(place) => drop(left.swap_remove(place)),
                None => {
                    prop_assert!(bundles.contains(whole));
                    twice += 1;
                }
            }
        }
        prop_assert_eq!(twice, world.doubled);
        if lossless {
            prop_assert_eq!(left, Vec::<Vec<u8>>::new());
        }
    }

    /// Damage that no checksum found: whatever comes of it, bounds hold and the link goes on.
    #[test]
    fn damage_breaks_no_bound(
        seed in any::<u32>(),
        fates in proptest::collection::vec(fate(true), 1..100),
        traffic in traffic(),
    ) {
        let (mut world, _) = play(Framing::Always, u64::from(seed), fates, &traffic);
        world.fates = vec![Fate::Arrives(1)];
        let last = bundle(1, 9_000);
        transmit(&mut world.sender, at(world.now), 1_000, &last);
        world.pass(world.now + 20_000);
        prop_assert_eq!(world.ledger.payloads().pop(), Some(last));
    }
}
