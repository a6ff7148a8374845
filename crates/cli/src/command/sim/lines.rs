//! The results of a seed, as a line.

use std::time::Duration;

use dhow_daemon::machine::peak_octets;
use dhow_scenario::plan::PlannedRun;
use dhow_sim::Outcome;
use dhow_sim::report::Summary;
use dhow_testbed::results::Figure;
use serde_json::{Map, Value, json};

use super::findings;
use crate::quantity;

/// The line for programs.
pub fn json(outcome: &Outcome, wall: Duration, command: &str) -> Value {
    let violations: Vec<Value> = outcome
        .findings
        .iter()
        .map(|it| {
            json!({
                "oracle": it.oracle,
                "at_s": it.at.as_secs_f64(),
                "sentence": it.sentence,
                "replay": findings::replay(outcome, it, command),
            })
        })
        .collect();
    let summary = Summary::of(outcome);
    let delay = |hundredths| summary.delay(hundredths).map(|it| it.as_secs_f64());
    let (sent, delivered) = (outcome.progress.sent, outcome.progress.delivered);
    json!({
        "seed": outcome.seed,
        "trace_hash": format!("{:016x}", outcome.trace_hash),
        "interrupted": outcome.interrupted,
        "violations": violations,
        "violation_count": outcome.violations,
        "events": outcome.progress.events,
        "virtual_s": outcome.progress.time.as_secs_f64(),
        "wall_s": wall.as_secs_f64(),
        "peak_octets": peak_octets(),
        "sent": outcome.progress.sent,
        "accepted": outcome.accepted,
        "refused": outcome.refused,
        "unaccepted": outcome.unaccepted,
        "delivered": outcome.progress.delivered,
        "expired": outcome.expired,
        "on_their_way": outcome.on_their_way(),
        "delivery_ratio": ratio(delivered, sent),
        "relayed": outcome.counts.relayed,
        "dropped": outcome.counts.dropped,
        "overhead_ratio": ratio(outcome.counts.relayed.saturating_sub(delivered), delivered),
        "delay_mean_s": mean_s(&outcome.delays()),
        "delay_median_s": delay(50),
        "delay_p95_s": delay(95),
        "delay_max_s": delay(100),
        "buffertime_avg_s": outcome.store_times.mean().map(|it| it.as_secs_f64()),
        "buffertime_med_s": outcome.store_times.median().map(|it| it.as_secs_f64()),
        "crashes": outcome.counts.crashes,
        "stalls": outcome.counts.stalls,
        "rotted": outcome.counts.rotted,
        "full_disks": outcome.counts.filled,
        "contacts": outcome.counts.contacts,
        "connections": outcome.counts.connections,
        "forwarded": outcome.counts.forwarded,
        "reports": outcome.reports,
        "duplicates": outcome.counts.duplicates,
    })
}

/// Adds to a run's line which run of a study it is, what was set for it, and its figures by the names of The ONE's message statistics.
pub fn add_point(line: &mut Value, planned: &PlannedRun, figures: &[Figure]) {
    let set = planned.point.iter();
    let set: Map<String, Value> = set.map(|(key, it)| (key.clone(), json!(it))).collect();
    let figures = figures.iter();
    let figures: Map<String, Value> = figures
        .map(|it| (it.name.clone(), json!(it.value)))
        .collect();
    if let Some(line) = line.as_object_mut() {
        line.insert("run".to_owned(), json!(planned.number));
        line.insert("repeat".to_owned(), json!(planned.repeat));
        line.insert("set".to_owned(), set.into());
        line.insert("figures".to_owned(), figures.into());
    }
}

/// The settings of a run of a study, before its line for people.
pub fn point(planned: &PlannedRun) -> String {
    let set = planned.point.iter();
    set.map(|(key, value)| format!("{key}={value}  ")).collect()
}

/// The quotient of two counts; nothing where the second is none.
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    let float = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    (whole > 0).then(|| float(part) / float(whole))
}

/// The mean of some times, seconds; nothing where there are none.
pub fn mean_s(times: &[Duration]) -> Option<f64> {
    let sum: Duration = times.iter().sum();
    let count = u32::try_from(times.len()).ok().filter(|count| *count > 0)?;
    Some(sum.as_secs_f64() / f64::from(count))
}

/// The line for people.
pub fn text(outcome: &Outcome, wall: Duration) -> String {
    let at = outcome.progress;
    format!(
        "seed {}{}  trace_hash {:016x}  {} in {} ({}, {} events/s, {})  {} of {} delivered, {} expired  {} refused  {} not accepted  {} crashes  {} violations",
        outcome.seed,
        if outcome.interrupted {
            " (interrupted)"
        } else {
            ""
        },
        outcome.trace_hash,
        quantity::span(u64::try_from(at.time.as_millis()).unwrap_or(u64::MAX)),
        quantity::elapsed(wall),
        times(at.time, wall),
        quantity::per_second(at.events, wall),
        quantity::size(peak_octets().unwrap_or(0)),
        at.delivered,
        at.sent,
        outcome.expired,
        outcome.refused,
        outcome.unaccepted,
        outcome.counts.crashes,
        quantity::thousands(outcome.violations)
    )
}

/// The ratio of virtual time to real time: `×1,200`.
pub fn times(virtual_time: Duration, wall: Duration) -> String {
    let times = virtual_time.as_nanos() / wall.as_nanos().max(1);
    format!(
        "×{}",
        quantity::thousands(u64::try_from(times).unwrap_or(u64::MAX))
    )
}
