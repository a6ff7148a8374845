//! The size of bundles that a path carries best.

use std::time::{Duration, Instant};

use dhow_bundle::{EndpointId, NodeId};
use dhow_client::{Address, Registration};

use super::flight::{Flight, WINDOW};
use super::plan::{self, Limit, Plan};
use crate::application;
use crate::failure::Failure;
use crate::interrupt::{self, LOOK};

/// Sizes that are tried, octets, the smallest first.
const SIZES: [u64; 6] = [SIZE_MIN, 10_000, 50_000, 200_000, 1_000_000, 4_000_000];

/// The smallest size that is tried, octets.
pub const SIZE_MIN: u64 = 2_000;

/// The size where nobody answers: a few times what a node needs to be at its best, and a second of a slow
/// link.
pub const DEFAULT: u64 = 100_000;

/// The time that the first answer may take: with a path that is down, or longer, nothing can be tried.
const ANSWER: Duration = Duration::from_secs(3);

/// The time that all of it may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time of one trial, about.
const TRIAL: Duration = Duration::from_millis(400);

/// The number of trials of each size: the best of its trials counts, since other work of the machines only
/// makes it worse.
const ROUNDS: usize = 2;

/// Octets of one trial, at most.
const TRIAL_OCTETS_MAX: u64 = 64 << 20;

/// Bundles of one trial, at least: fewer say nothing.
const TRIAL_BUNDLES_MIN: u64 = 4;

/// A size as good as this part of the best one is good enough, percent.
const GOOD_ENOUGH_PERCENT: u64 = 95;

/// The result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Octets of each bundle.
    pub size: u64,
    /// Octets a second that came, by the receiver's clock.
    pub goodput: u64,
}

/// Tries sizes up to `largest` against the perf service of the node that `destination` belongs to; no trial
/// when nobody answers.
pub fn trials(
    address: &Address,
    destination: &EndpointId,
    largest: u64,
) -> Result<Vec<Trial>, Failure> {
    let Some(node) = destination.node_id() else {
        return Ok(Vec::new());
    };
    let begun = Instant::now();
    let client = application::connect(address, Some(PATIENCE))?;
    let registration = Registration::new(application::random_endpoint(client.node_id())?);
    let finder = Finder {
        address,
        node,
        registration: registration.with_window(WINDOW),
        end: begun + PATIENCE,
    };
    // The first says whether there is an answer, the second about how fast it is.
    let Some(first) = finder.attempt(1_000, TRIAL_BUNDLES_MIN, begun + ANSWER)? else {
        return Ok(Vec::new());
    };
    let second = finder.attempt(10_000, 16, finder.end)?;
    let mut expected = second.unwrap_or(first).goodput.max(first.goodput);
    let mut trials: Vec<Trial> = Vec::new();
    for _ in 0..ROUNDS {
        for size in SIZES.into_iter().filter(|size| *size <= largest) {
            let Some(bundles) = bundles(size, expected, trials.is_empty()) else {
                break;
            };
            let Some(trial) = finder.attempt(size, bundles, finder.end)? else {
                return Ok(trials);
            };
            expected = expected.max(trial.goodput);
            match trials.iter_mut().find(|known| known.size == size) {
                Some(known) => known.goodput = known.goodput.max(trial.goodput),
                None => trials.push(trial),
            }
        }
    }
    Ok(trials)
}

/// The number of bundles of a size that are worth a trial over a path that is expected to carry so many octets a
/// second; `None` when so few as must be would take too long, unless it is the first trial.
fn bundles(size: u64, expected: u64, is_first: bool) -> Option<u64> {
    let carried = |time: Duration| {
        let octets = u128::from(expected) * time.as_millis() / 1000;
        u64::try_from(octets).unwrap_or(u64::MAX)
    };
    let bundles = (carried(TRIAL).min(TRIAL_OCTETS_MAX) / size).max(TRIAL_BUNDLES_MIN);
    (is_first || size.saturating_mul(bundles) <= carried(TRIAL * 4)).then_some(bundles)
}

/// The smallest size that is nearly as good as the best.
pub fn choose(trials: &[Trial]) -> Option<Trial> {
    let best = trials.iter().map(|trial| trial.goodput).max()?;
    let enough = u128::from(best) * u128::from(GOOD_ENOUGH_PERCENT);
    trials
        .iter()
        .find(|trial| u128::from(trial.goodput) * 100 >= enough)
        .copied()
}

struct Finder<'a> {
    address: &'a Address,
    node: NodeId,
    registration: Registration,
    end: Instant,
}

impl Finder<'_> {
    /// One measurement; `None` when not all has come by then.
    fn attempt(&self, size: u64, bundles: u64, end: Instant) -> Result<Option<Trial>, Failure> {
        let plan = Plan {
            service: plan::service(self.node.endpoint()),
            registration: self.registration.clone(),
            size,
            limit: Limit::Count(bundles),
            streams: 1,
            rate: None,
            window_octets: u64::MAX,
            interval: Duration::from_millis(100),
            // Bundles that are still on their way when this has ended must not burden the path for long.
            lifetime: PATIENCE,
            timeout: PATIENCE,
        };
        let mut flight = Flight::begin(self.address, &plan)?;
        while !flight.is_complete() && Instant::now() < end && !interrupt::is_requested() {
            let left = end.saturating_duration_since(Instant::now());
            flight.poll(left.clamp(Duration::from_millis(1), LOOK))?;
        }
        let totals = flight.totals();
        let is_complete = flight.is_complete();
        flight.end()?;
        let micros = totals.span.as_micros().max(1);
        let goodput = u128::from(totals.octets) * 1_000_000 / micros;
        Ok(is_complete.then(|| Trial {
            size,
            goodput: u64::try_from(goodput).unwrap_or(u64::MAX),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_takes_about_its_time_and_is_left_out_where_it_would_take_much_longer() {
        assert_eq!(bundles(2_000, 100_000_000, false), Some(20_000));
        assert_eq!(bundles(1_000_000, 100_000_000, false), Some(40));
        assert_eq!(bundles(1_000_000, 10_000_000, false), Some(4));
        assert_eq!(bundles(1_000_000, 1_000_000, false), None);
        assert_eq!(bundles(2_000, 100, true), Some(4));
        assert_eq!(bundles(2_000, u64::MAX, false), Some(33_554));
    }

    #[test]
    fn the_smallest_size_that_is_nearly_as_good_as_the_best_is_chosen() {
        let trials = [
            (2_000, 40),
            (10_000, 90),
            (50_000, 96),
            (200_000, 100),
            (1_000_000, 99),
        ];
        let trials = trials.map(|(size, goodput)| Trial { size, goodput });
        assert_eq!(choose(&trials).unwrap().size, 50_000);
        assert_eq!(choose(&trials[..2]).unwrap().size, 10_000);
        assert_eq!(choose(&[]), None);
    }
}
