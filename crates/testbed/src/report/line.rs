//! The values of a run's report, for its line of `runs.csv`.

use dhow_scenario::Scenario;

use super::measure::Measure;
use super::summary::Course;
use crate::results::{Cost, Results, ResultsError, Run, Used};

/// A run with what was measured of it and what a megabyte of it cost, by the tables that it has.
///
/// # Errors
/// When they cannot be read.
pub fn measured(run: Run, results: &Results, scenario: &Scenario) -> Result<Run, ResultsError> {
    let summary = Course::read(run, results)?.summary;
    // An impossible figure is none: its status says so.
    if summary.is_impossible {
        return Ok(summary.run);
    }
    let hosts = scenario.nodes.iter().filter(|it| it.guest_of.is_none());
    let wires = scenario.links.iter().filter(|it| it.over.is_none());
    let used = Used {
        delivered_octets: summary.run.delivered_octets,
        duration_s: summary.run.duration_s,
        hosts: hosts.count(),
        links: wires.count(),
        contacts: &summary.contacts,
        passed: &summary.links,
        resources: &summary.resources,
    };
    let cost = Cost::of(&used, scenario.energy.as_ref());
    Ok(Run {
        cpu_s_per_mb: cost.processor_s,
        link_s_per_mb: cost.link_s,
        joules_per_mb: cost.joules,
        goodput_bit_s: Measure::Goodput.of(&summary),
        delivery: Measure::Delivery.of(&summary),
        delay_median_s: Measure::Delay(50).of(&summary),
        delay_p95_s: Measure::Delay(95).of(&summary),
        drain_s: Measure::Drain.of(&summary),
        ..summary.run
    })
}
