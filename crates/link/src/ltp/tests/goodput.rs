//! The time that blocks take, in virtual time.

use alloc::string::String;
use core::fmt::Write as _;
use core::time::Duration;

use super::super::{Config, Rate};
use super::world::{Conditions, World, block};

const SECOND: u64 = 1_000_000;

/// Runs of each kind.
const RUNS: u64 = 5;

/// Octets a second, as in the default configuration.
const RATE: u64 = 1_250_000;

struct Kind {
    length: usize,
    delay_ms: u64,
    /// Lost datagrams of a thousand, both ways.
    lost: u64,
}

struct Outcome {
    /// Mean microseconds until the sender knows.
    mean: u64,
    /// The microseconds of the slowest run.
    most: u64,
    /// Octets of the block sent for each hundred of it.
    sent: u64,
}

fn measure(kind: &Kind) -> Outcome {
    let delay = Duration::from_millis(kind.delay_ms);
    let config = Config {
        light_time: delay,
        margin: Duration::from_millis(100),
        rate: Rate {
            octets_per_s: RATE,
            burst_octets: 3_000,
        },
        ..Config::default()
    };
    let conditions = Conditions {
        lost: kind.lost,
        delay: kind.delay_ms * 1_000,
        sync: 2_000,
        ..Conditions::default()
    };
    let (mut sum, mut most, mut sent) = (0, 0, 0);
    for seed in 0..RUNS {
        let mut world = World::new(&config, conditions.clone(), seed);
        let transfer = world.transmit(0, block(seed, kind.length));
        world.settle(3_000 * SECOND);
        let time = world.ends[0].transmitted[&transfer];
        (sum, most) = (sum + time, most.max(time));
        sent += world.referee.counts.octets;
    }
    Outcome {
        mean: sum / RUNS,
        most,
        sent: sent * 100 / RUNS / kind.length as u64,
    }
}

/// The time that a block takes without loss: its octets at the rate, there and back, and the sync.
fn least(kind: &Kind) -> u64 {
    kind.length as u64 * SECOND / RATE + 2 * kind.delay_ms * 1_000 + 2_000
}

fn table() -> (String, u64) {
    let mut table = String::from(
        "octets   delay/ms loss/% mean/ms max/ms round trips waited: mean, max; sent/% goodput/kB/s\n",
    );
    let mut worst = 0;
    for length in [1_000, 20_000, 100_000, 1_000_000] {
        for delay_ms in [10, 100, 1_000] {
            for lost in [0, 10, 50, 200] {
                let kind = Kind {
                    length,
                    delay_ms,
                    lost,
                };
                let outcome = measure(&kind);
                let round_trip = 2 * delay_ms * 1_000;
                let waited = |time: u64| time.saturating_sub(least(&kind)) * 100 / round_trip;
                let (mean, most) = (waited(outcome.mean), waited(outcome.most));
                if lost == 50 && delay_ms >= 100 {
                    worst = worst.max(mean);
                }
                let _ = writeln!(
                    table,
                    "{length:8} {delay_ms:8} {:6} {:7} {:6} {:>22}.{:02} {:>3}.{:02} {:7} {:8}",
                    lost / 10,
                    outcome.mean / 1_000,
                    outcome.most / 1_000,
                    mean / 100,
                    mean % 100,
                    most / 100,
                    most % 100,
                    outcome.sent,
                    length as u64 * 1_000 / outcome.mean,
                );
            }
        }
    }
    (table, worst)
}

/// `UPDATE_SNAPSHOTS=1` writes the table anew.
#[test]
fn at_a_loss_of_five_percent_a_block_waits_two_round_trips_at_most() {
    extern crate std;
    let (table, worst) = table();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ltp_goodput.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    assert!(worst <= 200, "{worst} hundredths of a round trip\n{table}");
    assert_eq!(table, std::fs::read_to_string(path).unwrap(), "{table}");
}

/// A file over a long path: its octets with those that are lost leave without a pause, and after the last of them there are two round trips, one of
/// which is for the repairs. No checkpoint waits for a timer because reports of gaps have taken all room.
#[test]
fn a_long_path_that_loses_is_busy_until_the_end() {
    const LENGTH: u64 = 25_000_000;
    let round_trip = 4 * SECOND;
    for (seed, lost) in [(1, 10), (2, 10), (3, 50)] {
        let config = Config {
            light_time: Duration::from_secs(2),
            checkpoint_octets: 0,
            rate: Rate {
                octets_per_s: RATE,
                burst_octets: 3_000,
            },
            ..Config::default()
        };
        let conditions = Conditions {
            lost,
            delay: round_trip / 2,
            sync: 2_000,
            ..Conditions::default()
        };
        let mut world = World::new(&config, conditions, seed);
        let transfer = world.transmit(0, block(seed, LENGTH as usize));
        world.settle(3_000 * SECOND);
        assert!(
            world.ends[1].faults.is_empty(),
            "{:?}",
            world.ends[1].faults
        );
        let sent = world.referee.counts.octets * 1_400 / 1_380 * SECOND / RATE;
        let time = world.ends[0].transmitted[&transfer];
        let idle = time - sent;
        assert!(idle < 2 * round_trip + SECOND / 2, "seed {seed}: {idle} us");
        let again = world.referee.counts.octets - LENGTH;
        let expected = LENGTH * lost / 1_000;
        assert!(again < 2 * expected, "seed {seed}: {again} octets again");
    }
}

/// A block that lasts for hundreds of round trips has more reports than a short one may have: as many as its losses take.
#[test]
fn a_long_block_has_a_report_for_each_of_its_losses() {
    let config = Config {
        light_time: Duration::from_millis(5),
        checkpoint_octets: 0,
        reports: 2,
        ..Config::default()
    };
    for seed in 0..4 {
        let conditions = Conditions {
            lost: 50,
            delay: 5_000,
            ..Conditions::default()
        };
        let mut world = World::new(&config, conditions, seed);
        let transfer = world.transmit(0, block(seed, 5_000_000));
        world.settle(3_000 * SECOND);
        assert!(world.ends[0].transmitted.contains_key(&transfer));
    }
}
