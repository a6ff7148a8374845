//! The fate of the bundles of a run in virtual time, by the names of The ONE's message statistics.

use std::time::Duration;

use dhow_sim::run::Outcome;

use crate::number::float;
use crate::report::{Spread, quantile};
use crate::results::Figure;

/// The program that figures of a whole network are said to be of.
pub const NETWORK: &str = "network";

/// Figures of a whole network: counts of bundles, times in seconds, hops, and the mean share of all stores that was taken. Those that nothing was counted for
/// are left out, and all of a run without bundles.
#[must_use]
pub fn figures(outcome: &Outcome) -> Vec<Figure> {
    let at = &outcome.progress;
    if at.sent == 0 {
        return Vec::new();
    }
    let counts = &outcome.counts;
    let delays = outcome.delays();
    let delays = Spread::of(delays.iter().map(|it| it.as_secs_f64()).collect());
    let hops = (0_u32..).zip(counts.hops);
    let hops = hops.flat_map(|(hops, times)| (0..times).map(move |_| f64::from(hops)));
    let hops = Spread::of(hops.collect());
    let median = |spread: Option<&Spread>| quantile(&spread?.values, 0.5);
    let extra = counts.relayed.saturating_sub(at.delivered);
    let rows = [
        ("created", Some(float(at.sent)), ""),
        ("relayed", Some(float(counts.relayed)), ""),
        ("dropped", Some(float(counts.dropped)), ""),
        ("delivered", Some(float(at.delivered)), ""),
        ("delivery_prob", quotient(at.delivered, at.sent), "share"),
        ("overhead_ratio", quotient(extra, at.delivered), ""),
        ("latency_avg", delays.as_ref().map(|it| it.mean), "s"),
        ("latency_med", median(delays.as_ref()), "s"),
        ("hopcount_avg", hops.as_ref().map(|it| it.mean), ""),
        ("hopcount_med", median(hops.as_ref()), ""),
        ("buffertime_avg", seconds(outcome.store_times.mean()), "s"),
        ("buffertime_med", seconds(outcome.store_times.median()), "s"),
        ("occupancy", occupancy(outcome), "share"),
    ];
    let rows = rows.into_iter().filter_map(|(name, value, unit)| {
        Some(Figure {
            program: NETWORK.to_owned(),
            name: name.to_owned(),
            time_s: at.time.as_secs_f64(),
            value: value?,
            unit: unit.to_owned(),
            ..Figure::default()
        })
    });
    rows.collect()
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}

fn quotient(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| float(part) / float(whole))
}

/// The mean share of all nodes' quotas that bundles took.
fn occupancy(outcome: &Outcome) -> Option<f64> {
    let quota: u64 = outcome.nodes.iter().map(|it| it.quota_octets).sum();
    let taken = outcome.samples.iter().map(|it| float(it.octets));
    let taken = Spread::of(taken.collect())?;
    (quota > 0).then(|| taken.mean / float(quota))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dhow_scenario::Scenario;
    use dhow_sim::run::Run;

    use super::*;

    #[test]
    fn a_bundle_over_two_links_has_two_hops_and_is_relayed_once_more_than_it_is_delivered() {
        let text = "[[node]]\nname = \"a\"\nquota = \"100kB\"\n[[node]]\nname = \"b\"\nquota = \"100kB\"\n[[node]]\nname = \"c\"\nquota = \"100kB\"\n\
            [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"8Mbit\"\ndelay = \"1s\"\n[[link]]\nbetween = [\"b\", \"c\"]\nrate = \"8Mbit\"\ndelay = \"1s\"\n\
            [[traffic]]\nfrom = \"a\"\nto = \"c\"\nsize = 1000\ncount = 3\nstart = \"20s\"\nevery = \"1s\"\n[stop]\nat = \"60s\"\n";
        let scenario = Scenario::parse(Path::new("s.toml"), text).expect("a scenario");
        let mut run = Run::new(&scenario, 1).expect("a network");
        while run.advance(1_000) {}
        let figures = figures(&run.finish());
        let value = |name: &str| {
            let found = figures.iter().find(|it| it.name == name);
            found.map_or(f64::NAN, |it| it.value)
        };
        assert_eq!(value("created"), 3.0);
        assert_eq!(value("delivery_prob"), 1.0);
        assert_eq!((value("relayed"), value("overhead_ratio")), (6.0, 1.0));
        assert_eq!((value("hopcount_avg"), value("hopcount_med")), (2.0, 2.0));
        assert!(value("latency_avg") >= 2.0 && value("latency_med") >= 2.0);
        assert!(value("occupancy") < 0.1);
        // All are connected by then: each bundle is at two nodes until the next one has acknowledged it, 2 s later.
        for name in ["buffertime_avg", "buffertime_med"] {
            let it = value(name);
            assert!((1.9..2.2).contains(&it), "{name} {it}");
        }
    }
}
