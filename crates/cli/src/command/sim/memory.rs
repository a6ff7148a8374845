//! Whether the machine's memory is expected to hold a scenario in virtual time.

use std::num::NonZero;
use std::thread;

use dhow_daemon::machine::memory_octets;
use dhow_scenario::Scenario;
use dhow_sim::Estimate;

use super::count;
use crate::failure::Failure;
use crate::quantity;

/// Octets that a run in virtual time may take where nobody says it: nine tenths of the machine's memory.
pub fn limit() -> u64 {
    memory_octets() / 10 * 9
}

/// The number of runs of a scenario at once: those that are asked for, or as many as there are cores and as so much memory is expected to hold.
///
/// # Errors
/// When more are asked for than fit.
pub fn jobs(asked: Option<u64>, scenario: &Scenario, limit: u64) -> Result<u64, Failure> {
    let each = Estimate::of(scenario).octets().max(1);
    let fit = (limit / each).max(1);
    let Some(jobs) = asked else {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        return Ok(count(cores).min(fit));
    };
    if jobs > fit {
        let what = format!(
            "cannot run {jobs} at once: each would take about {}, and {} may be taken",
            quantity::size(each),
            quantity::size(limit)
        );
        return Err(Failure::usage(what).with_hint(format!("--jobs {fit} fits")));
    }
    Ok(jobs)
}

/// Refuses what is expected not to fit into so many octets.
pub fn check(scenario: &Scenario, limit: u64) -> Result<(), Failure> {
    let estimate = Estimate::of(scenario);
    if estimate.octets() <= limit {
        return Ok(());
    }
    let what = format!(
        "cannot run the scenario: it would take about {} ({} nodes and {} links: {}; {} bundles: {}), and {} may be taken",
        quantity::size(estimate.octets()),
        quantity::thousands(count(scenario.nodes.len())),
        quantity::thousands(count(scenario.links.len())),
        quantity::size(estimate.network_octets),
        quantity::thousands(estimate.bundles),
        quantity::size(estimate.bundle_octets),
        quantity::size(limit),
    );
    let hint = "fewer nodes, less traffic or shorter lifetimes take less";
    Err(Failure::usage(what).with_hint(hint))
}
