//! Engines over channels of all kinds, many seeds each.

use alloc::vec;
use alloc::vec::Vec;

use super::super::segment::{Party, Reason};
use super::super::{Config, Rate, Red};
use super::world::{Conditions, Dice, World, block, has};
use crate::stream::{LinkCommand, RefuseReason, TransferId};

const SECOND: u64 = 1_000_000;

fn config(dice: &mut Dice, red: Red) -> Config {
    let delay = core::time::Duration::from_micros;
    Config {
        red,
        mtu: 128 + dice.below(1_300),
        checkpoint_octets: [0, 3_000, 20_000][dice.below(3) as usize],
        rate: Rate {
            octets_per_s: [20_000, 200_000, 1 << 30][dice.below(3) as usize],
            burst_octets: 3_000 + dice.below(60_000),
        },
        light_time: delay(dice.below(2 * SECOND)),
        margin: delay(SECOND / 2),
        reordering: delay(dice.below(100_000)),
        reassembly_octets: [20_000, 1 << 20][dice.below(2) as usize],
        sessions: 1 + dice.below(8) as usize,
        gaps: 4 + dice.below(100) as usize,
        reports_under_way: 4 + dice.below(20) as usize,
        transmissions: 60,
        cycles: 400,
        ..Config::default()
    }
}

fn conditions(dice: &mut Dice, config: &Config) -> Conditions {
    let delay = config.light_time.as_micros() as u64;
    let mut closed = vec![];
    for way in [0, 1] {
        let mut from = 0;
        for _ in 0..dice.below(3) {
            from += dice.below(20 * SECOND);
            let until = from + dice.below(30 * SECOND);
            closed.push((from, until, way));
            from = until;
        }
    }
    Conditions {
        lost: dice.below(201),
        doubled: dice.below(100),
        delay,
        jitter: dice.below(SECOND / 5),
        sync: dice.below(100_000),
        socket: dice.below(3) * 10_000,
        closed,
    }
}

fn sizes(dice: &mut Dice) -> usize {
    let size = match dice.below(10) {
        0 => 1 + dice.below(4),
        1..=5 => 1 + dice.below(2_000),
        6..=8 => 1 + dice.below(20_000),
        _ => 1 + dice.below(60_000),
    };
    size as usize
}

fn run(seed: u64, red: Red) -> World {
    run_with_cookies(seed, red, 0)
}

fn run_with_cookies(seed: u64, red: Red, cookie_octets: u64) -> World {
    run_as(seed, red, |config| config.cookie_octets = cookie_octets)
}

fn run_as(seed: u64, red: Red, change: impl Fn(&mut Config)) -> World {
    let mut dice = Dice(seed);
    let mut config = config(&mut dice, red);
    change(&mut config);
    let conditions = conditions(&mut dice, &config);
    let mut world = World::new(&config, conditions, seed);
    for number in 0..1 + dice.below(12) {
        world.pass(world.now + dice.below(3 * SECOND));
        let octets = block(seed << 8 | number, sizes(&mut dice));
        world.transmit(dice.below(2) as usize, octets);
        if dice.permille(100) {
            // The machine slept: everything that was to happen is late.
            world.now += dice.below(100 * SECOND);
        }
    }
    world.settle(3_000 * SECOND);
    world.check_empty();
    world
}

/// Every red block arrives once and whole, and its sender knows, over any channel that is not closed for ever.
#[test]
fn red_blocks_arrive_once_and_whole_and_their_senders_know() {
    for seed in 0..300 {
        let world = run(seed, Red::All);
        for from in [0, 1] {
            let (sent, whole) = world.both(from);
            assert!(sent == whole, "seed {seed}");
            let end = &world.ends[from];
            assert_eq!(end.transmitted.len(), sent.len(), "seed {seed}");
            assert!(end.failed.is_empty(), "seed {seed}");
        }
    }
}

/// RFC 5327 2.2: so they do where each session has a cookie, or two that crossed, whatever is lost, late or overtaken.
#[test]
fn red_blocks_arrive_where_sessions_have_cookies() {
    for seed in 0..150 {
        let world = run_with_cookies(seed, Red::All, 1 + seed % 16);
        for from in [0, 1] {
            let (sent, whole) = world.both(from);
            assert!(sent == whole, "seed {seed}");
            assert_eq!(world.ends[from].transmitted.len(), sent.len());
        }
    }
}

/// So they do where those that wait share a block: it has all octets of each in one place, and nothing else.
#[test]
fn transfers_that_share_blocks_arrive_once_and_whole_and_their_senders_know() {
    let mut shared = 0;
    for seed in 0..150 {
        let world = run_as(seed, Red::All, |config| config.aggregate = 30_000);
        for from in [0, 1] {
            let (sent, whole) = world.both(from);
            assert_eq!(world.ends[from].transmitted.len(), sent.len());
            let octets = |blocks: &[Vec<u8>]| blocks.iter().map(Vec::len).sum::<usize>();
            assert_eq!(octets(&sent), octets(&whole), "seed {seed}");
            for transfer in &sent {
                assert!(
                    whole.iter().any(|block| has(block, transfer)),
                    "seed {seed}"
                );
            }
            shared += sent.len() - whole.len();
        }
    }
    assert!(shared >= 75, "{shared} of them shared a block");
}

/// Green blocks arrive once where they do, and nobody is told more than that they were sent.
#[test]
fn green_blocks_arrive_once_or_are_abandoned() {
    for seed in 0..100 {
        let world = run(seed, Red::None);
        for from in [0, 1] {
            let (sent, whole) = world.both(from);
            assert!(whole.iter().all(|block| sent.contains(block)));
            assert_eq!(world.ends[from].sent.len(), sent.len());
            assert!(whole.len() + world.ends[1 - from].ledger.abandoned <= sent.len());
            let is_lossless = world.conditions.lost == 0 && world.conditions.closed.is_empty();
            // Octets that have no room behind gaps are lost like others.
            let has_room = world.ends[1 - from].faults.is_empty();
            if is_lossless && has_room {
                assert!(sent == whole, "seed {seed}");
            }
        }
        assert_eq!(world.referee.counts.reports, 0);
    }
}

/// The red part of a mixed block arrives in any case; the block is sent when the peer has that.
#[test]
fn blocks_of_both_colours_end() {
    for seed in 0..100 {
        let world = run(seed, Red::Octets(1_000));
        for from in [0, 1] {
            let (sent, whole) = world.both(from);
            assert!(whole.iter().all(|block| sent.contains(block)));
            assert_eq!(world.ends[from].sent.len(), sent.len(), "seed {seed}");
            let short = sent.iter().filter(|block| block.len() <= 1_000);
            assert!(short.clone().all(|block| whole.contains(block)));
        }
    }
}

/// Cancellations and refusals at any time: every transfer ends once, and no session stays at either end.
#[test]
fn cancelled_sessions_end_for_both() {
    let mut cancelled = 0;
    for seed in 0..150 {
        let mut dice = Dice(seed);
        let config = config(&mut dice, Red::All);
        let conditions = conditions(&mut dice, &config);
        let mut world = World::new(&config, conditions, seed);
        for number in 0..2 + dice.below(6) {
            world.pass(world.now + dice.below(3 * SECOND));
            let from = dice.below(2) as usize;
            let transfer = world.transmit(from, block(seed << 8 | number, sizes(&mut dice)));
            world.pass(world.now + dice.below(3 * SECOND));
            if dice.permille(300) {
                world.command(from, LinkCommand::Cancel { transfer });
            }
            if dice.permille(300) {
                let transfer = TransferId(dice.below(number + 1));
                let reason = [RefuseReason::NoResources, RefuseReason::Completed];
                let reason = reason[dice.below(2) as usize];
                if world.ends[1 - from].ledger.has_begun(transfer) {
                    world.command(1 - from, LinkCommand::Refuse { transfer, reason });
                }
            }
        }
        world.settle(3_000 * SECOND);
        world.check_empty();
        for end in &world.ends {
            let over = end.transmitted.len() + end.failed.len();
            assert_eq!(over, end.blocks.len(), "seed {seed}");
        }
        let reasons = [Party::Sender, Party::Receiver].map(|by| world.referee.cancelled(by));
        for reason in reasons.iter().flatten() {
            let wished = matches!(reason, Reason::UserCancelled | Reason::SystemCancelled);
            assert!(wished, "seed {seed}: {reason:?}");
            cancelled += 1;
        }
    }
    assert!(cancelled > 100, "{cancelled} sessions were cancelled");
}

/// RFC 5326 6.22: a receiver that crashes and knows nothing of its sessions. No sender is told that a block arrived of which
/// a part was lost with the crash (`World` looks at that each time), and every transfer ends.
#[test]
fn a_crash_of_the_receiver_is_no_delivery() {
    let (mut transmitted, mut failed) = (0, 0);
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let config = config(&mut dice, Red::All);
        let conditions = Conditions {
            closed: vec![],
            ..conditions(&mut dice, &config)
        };
        let mut world = World::new(&config, conditions, seed);
        for number in 0..3 {
            let length = 1 + dice.below(20_000) as usize;
            world.transmit(0, block(seed << 8 | number, length));
            world.pass(world.now + dice.below(SECOND));
        }
        for crash in 0..1 + dice.below(3) {
            world.pass(world.now + dice.below(4 * SECOND));
            world.crash(1, seed << 8 | crash);
        }
        world.settle(5_000 * SECOND);
        let sender = &world.ends[0];
        assert_eq!(
            sender.transmitted.len() + sender.failed.len(),
            3,
            "seed {seed}"
        );
        transmitted += sender.transmitted.len();
        failed += sender.failed.len();
    }
    assert!(
        transmitted > 100 && failed > 100,
        "{transmitted} and {failed}"
    );
}
