//! Bundles that go round in a ring of nodes, made by somebody whose bundles have no hop count.

#[allow(
    dead_code,
    reason = "each test program uses what it needs of the world"
)]
use std::collections::BTreeMap;
use std::time::Duration;

use crate::world::World;
use bytes::{BufMut, BytesMut};
use dhow_bundle::{BundleBuilder, BundleFlags, BundleId, CreationTimestamp, EndpointId, Instant};
use dhow_node::config::ListenerId;
use dhow_node::driver::{Event, Occurrence, Purpose, StreamId};

/// Time for which a bundle rests at a node that it comes back to, at least.
const REST: Duration = Duration::from_secs(5);

const NODES: u32 = 3;

/// A foreign node gives the first node of a ring bundles, and goes.
fn give(world: &mut World, bundles: &[Vec<u8>]) {
    let stream = StreamId(1 << 40);
    let purpose = Purpose::Accepted {
        listener: ListenerId(0),
    };
    world.handle(0, Event::Connected { stream, purpose });
    let mut octets = BytesMut::from(&b"dtn!\x04\x00"[..]);
    let name = "ipn:66.0";
    octets.put_u8(7);
    octets.put_u16(0);
    octets.put_u64(1 << 20);
    octets.put_u64(1 << 40);
    octets.put_u16(u16::try_from(name.len()).unwrap());
    octets.put_slice(name.as_bytes());
    octets.put_u32(0);
    for (transfer, bundle) in (0..).zip(bundles) {
        octets.put_slice(&[1, 3]);
        octets.put_u64(transfer);
        octets.put_u32(0);
        octets.put_u64(u64::try_from(bundle.len()).unwrap());
        octets.put_slice(bundle);
    }
    let octets = octets.freeze();
    world.handle(0, Event::Octets { stream, octets });
    world.settle();
    world.handle(0, Event::Disconnected { stream });
}

/// Bundles for a node that nobody is, without a hop count.
fn foreign(source: &EndpointId, count: u64, flags: BundleFlags) -> Vec<Vec<u8>> {
    let bundle = |sequence| {
        let time = crate::world::EPOCH;
        let creation = CreationTimestamp { time, sequence };
        let destination = "ipn:9.1".parse().unwrap();
        BundleBuilder::new(source.clone(), destination, creation, 600_000)
            .with_flags(flags)
            .with_report_to("ipn:66.1".parse().unwrap())
            .bundle(&[7; 300])
            .unwrap()
            .to_vec()
    };
    (0..count).map(bundle).collect()
}

/// Bundles that nodes have forwarded.
#[derive(Default)]
struct Seen {
    last: BTreeMap<(usize, BundleId), Instant>,
    forwarded: u64,
    too_soon: Vec<String>,
}

impl Seen {
    fn look(&mut self, world: &mut World) {
        let now = world.monotonic;
        for (at, machine) in world.machines.iter_mut().enumerate() {
            for occurrence in machine.occurrences.drain(..) {
                let Occurrence::Forwarded { id, .. } = occurrence else {
                    continue;
                };
                self.forwarded += 1;
                let before = self.last.insert((at, id.clone()), now);
                if let Some(before) = before.filter(|before| now - *before < REST) {
                    let after = now - before;
                    self.too_soon
                        .push(format!("{id} leaves {at} after {after:?}"));
                }
            }
        }
    }
}

/// Lets a ring have bundles for so long; the number forwarded meanwhile comes back.
fn turn(world: &mut World, bundles: &[Vec<u8>], duration: Duration) -> Seen {
    world.settle();
    let mut seen = Seen::default();
    give(world, bundles);
    seen.look(world);
    let end = world.monotonic + duration;
    while world.monotonic < end {
        world.pass(Duration::from_millis(20));
        for _ in 0..200 {
            if !world.step() {
                break;
            }
        }
        seen.look(world);
    }
    seen
}

fn reports(world: &World) -> u64 {
    let nodes = world.machines.iter().filter_map(|it| it.node.as_ref());
    nodes.map(|node| node.counters().reports).sum()
}

#[test]
fn a_bundle_that_comes_back_leaves_again_after_it_has_rested() {
    let mut world = World::circle(NODES, 18, |_, _| ());
    let bundles = foreign(&"ipn:66.1".parse().unwrap(), 20, BundleFlags::NONE);
    let seen = turn(&mut world, &bundles, Duration::from_secs(60));
    assert!(seen.too_soon.is_empty(), "{:?}", seen.too_soon.first());
    assert!(seen.forwarded > 20 * 6, "{}", seen.forwarded);
}

#[test]
fn a_bundle_without_a_source_rests_too() {
    let mut world = World::circle(NODES, 19, |_, _| ());
    let flags = BundleFlags::MUST_NOT_FRAGMENT;
    let bundles = foreign(&EndpointId::Null, 20, flags);
    let seen = turn(&mut world, &bundles, Duration::from_secs(60));
    assert!(seen.too_soon.is_empty(), "{:?}", seen.too_soon.first());
    assert!(seen.forwarded > 20 * 6, "{}", seen.forwarded);
}

#[test]
fn more_bundles_than_are_remembered_rest_too() {
    let mut world = World::circle(NODES, 20, |_, config| config.removed_bound = 10);
    let bundles = foreign(&"ipn:66.1".parse().unwrap(), 40, BundleFlags::NONE);
    let seen = turn(&mut world, &bundles, Duration::from_secs(60));
    assert!(seen.too_soon.is_empty(), "{:?}", seen.too_soon.first());
}

#[test]
fn each_node_reports_once_of_a_bundle_that_goes_round() {
    for flags in [BundleFlags::NONE, BundleFlags::STATUS_TIME_REQUESTED] {
        let mut world = World::circle(NODES, 21, |_, config| {
            config.reports.generate = BundleFlags::ALL_REPORTS.bits();
        });
        let flags = flags | BundleFlags::ALL_REPORTS;
        let bundles = foreign(&"ipn:66.1".parse().unwrap(), 20, flags);
        let seen = turn(&mut world, &bundles, Duration::from_secs(60));
        assert!(seen.too_soon.is_empty(), "{:?}", seen.too_soon.first());
        // Of reception and of forwarding.
        assert_eq!(reports(&world), 20 * u64::from(NODES) * 2);
        let counts = |world: &World| -> u64 {
            let nodes = world.machines.iter().filter_map(|it| it.node.as_ref());
            nodes.map(|node| node.counters().duplicates).sum()
        };
        assert_eq!(counts(&world), 0);
    }
}
