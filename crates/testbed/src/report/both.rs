//! The same scenario on real sockets and in virtual time, side by side.

use std::collections::BTreeSet;

use dhow_page::{List, escaped, text, words};

use super::limit;
use super::measure::{Measure, said};
use super::statistics::Spread;
use super::study::Study;
use super::told::{Told, Wait};
use crate::number::float;
use crate::results::Backend;

/// Differences above this are told in a sentence.
const TELLING: f64 = 0.05;

/// The difference that headers may make which virtual time does not count: those of segments that are not full, and of acknowledgments.
const PACKETS: f64 = 0.1;

/// Payloads that may be under way when a contact or a run ends.
const UNDER_WAY: f64 = 2.0;

/// Differences of one cause that are told.
const NAMED_MAX: usize = 6;

/// Repeats of each from which a difference can be told from chance, at least.
const REPEATS_MIN: usize = 3;

/// What is compared.
const COMPARED: [Measure; 5] = [
    Measure::Goodput,
    Measure::Delivery,
    Measure::Delay(50),
    Measure::Delay(95),
    Measure::Drain,
];

/// A table with a column of each; nothing where only one of them ran.
pub(crate) fn table(study: &Study) -> String {
    if study.backends().len() < 2 {
        return String::new();
    }
    let mut combinations: Vec<String> = Vec::new();
    for told in &study.runs {
        let point = told.run.point.to_string();
        if !combinations.contains(&point) {
            combinations.push(point);
        }
    }
    let mut list = List::new(&["", "measured", "netns", "sim", "sim ÷ netns"]);
    // The differences, by their cause.
    let mut differences: Vec<(String, Vec<String>)> = Vec::new();
    for point in &combinations {
        let of = |backend: Backend| -> Vec<&Told> {
            let runs = study.done().filter(|told| told.run.backend == backend);
            runs.filter(|told| told.run.point.to_string() == *point)
                .collect()
        };
        let (on_sockets, in_virtual_time) = (of(Backend::Netns), of(Backend::Sim));
        for measure in &COMPARED {
            let mean = |runs: &[&Told]| {
                Spread::of(runs.iter().filter_map(|told| measure.of(told)).collect())
            };
            let (Some(real), Some(virtual_)) = (mean(&on_sockets), mean(&in_virtual_time)) else {
                continue;
            };
            let axis = measure.axis(&study.runs);
            let ratio = virtual_.mean / real.mean;
            list.line(&[
                words(escaped(point)),
                text(measure.to_string()),
                text(said(axis, real.mean)),
                text(said(axis, virtual_.mean)),
                text(format!("{ratio:.3}")),
            ]);
            if (ratio - 1.0).abs() > TELLING {
                let cause = chance(&real, &virtual_).map(str::to_owned);
                let cause = cause.unwrap_or_else(|| cause_of(&on_sockets, &in_virtual_time, ratio));
                let what = difference(point, measure, ratio);
                match differences.iter_mut().find(|(known, _)| *known == cause) {
                    Some((_, all)) => all.push(what),
                    None => differences.push((cause, vec![what])),
                }
            }
        }
    }
    let told = match differences.is_empty() {
        true => "No difference is above 5 %.".to_owned(),
        false => sentences(&differences),
    };
    format!(
        "<h3>On real sockets and in virtual time</h3>{}<p>{told} {}</p>",
        list.whole(),
        congestion(study)
    )
}

/// Which congestion control either has.
fn congestion(study: &Study) -> String {
    let of = |backend: Backend| {
        let runs = study.done().filter(|told| told.run.backend == backend);
        let names: BTreeSet<&str> = runs
            .flat_map(|told| &told.congestion)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
            .collect();
        escaped(&names.into_iter().collect::<Vec<_>>().join(", "))
    };
    let (real, virtual_) = (of(Backend::Netns), of(Backend::Sim));
    match real.is_empty() || virtual_.is_empty() {
        true => String::new(),
        false => format!(
            "TCP of the hosts had the congestion control {real}; connections of virtual time resemble {virtual_}."
        ),
    }
}

/// A difference of the two.
fn difference(point: &str, measure: &Measure, ratio: f64) -> String {
    let of = match point {
        "" => String::new(),
        point => format!(" with {}", escaped(point)),
    };
    let more = if ratio > 1.0 { "more" } else { "less" };
    let percent = (ratio - 1.0).abs() * 100.0;
    format!("{measure}{of} is {percent:.0} % {more}")
}

/// A sentence on each cause, with all that it may be the cause of.
fn sentences(differences: &[(String, Vec<String>)]) -> String {
    let each = differences.iter().map(|(cause, all)| {
        let shown = all.iter().take(NAMED_MAX).map(String::as_str);
        let shown = shown.collect::<Vec<_>>().join("; ");
        let more = match all.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!("; and {more} more differ"),
        };
        format!("In virtual time {shown}{more}: {cause}.")
    });
    each.collect::<Vec<_>>().join(" ")
}

/// The cause of a difference, as far as measurements tell.
fn cause_of(on_sockets: &[&Told], in_virtual_time: &[&Told], ratio: f64) -> String {
    let of = |runs: &[&Told], measure: Measure| {
        Spread::of(runs.iter().filter_map(|told| measure.of(told)).collect())
    };
    let days = || on_sockets.iter().flat_map(|told| &told.days);
    let waits = |wait: Wait| days().find(|day| day.waited_for() == Some(wait));
    if let Some(day) = waits(Wait::Processor) {
        return format!(
            "node {} waited for a processor most of its time, and virtual time has none",
            escaped(&day.node)
        );
    }
    if let Some((node, limit)) = on_sockets
        .iter()
        .find_map(|told| limit::full_processor(told))
    {
        let node = escaped(&node);
        return format!("node {node} used {limit} of its processors, and virtual time has none");
    }
    if let Some(day) = days().find(|day| day.waited_for().is_none()) {
        return format!(
            "node {} was busy most of its time, and virtual time has no processors",
            escaped(&day.node)
        );
    }
    if let Some((day, what)) = waits(Wait::Memory)
        .map(|day| (day, "room in its memory"))
        .or_else(|| waits(Wait::Locks).map(|day| (day, "locks")))
    {
        return format!(
            "node {} waited for {what} most of its time, and nothing in virtual time does",
            escaped(&day.node)
        );
    }
    if let Some(day) = waits(Wait::Disk) {
        return format!(
            "node {} waited for its disk most of its time, and disks of virtual time take as long as the scenario says",
            escaped(&day.node)
        );
    }
    let shares = of(on_sockets, Measure::Delivery).zip(of(in_virtual_time, Measure::Delivery));
    let shares = shares.map(|(real, virtual_)| (real.mean, virtual_.mean));
    if let Some((real, virtual_)) = shares.filter(|(one, other)| (one - other).abs() > TELLING) {
        let said = |share| said(dhow_page::Axis::Share, share);
        return format!(
            "{} of the payloads were delivered in it, and {} on sockets, so these figures are not of the same payloads",
            said(virtual_),
            said(real)
        );
    }
    let payloads =
        |runs: &[&Told]| Spread::of(runs.iter().map(|told| float(told.run.delivered)).collect());
    let payloads = payloads(on_sockets).zip(payloads(in_virtual_time));
    let payloads = payloads.map(|(real, virtual_)| (real.mean, virtual_.mean));
    let few = payloads.filter(|(real, virtual_)| {
        let difference = (real - virtual_).abs();
        difference > 0.0 && difference <= UNDER_WAY
    });
    if let Some((real, virtual_)) = few {
        return format!(
            "{virtual_:.1} payloads were delivered in it and {real:.1} on sockets, and as many as they differ by are under way when a contact or the run ends"
        );
    }
    let full = on_sockets.iter().find_map(|told| limit::full_link(told));
    if let Some(link) = full.filter(|_| (ratio - 1.0).abs() < PACKETS) {
        return format!(
            "link {} was full, and virtual time counts headers as if all segments of TCP were full",
            escaped(&link)
        );
    }
    "the cause is not known, as no node was busy or waited for a processor or its disk most of its time".to_owned()
}

/// Why a difference may be chance; nothing where the intervals of both means lie apart.
fn chance(real: &Spread, virtual_: &Spread) -> Option<&'static str> {
    if real.values.len().min(virtual_.values.len()) < REPEATS_MIN {
        return Some("that may be chance, as it takes three repeats of each to tell");
    }
    let halves = real.confidence()? + virtual_.confidence()?;
    let apart = (real.mean - virtual_.mean).abs() > halves;
    (!apart).then_some("that may be chance, as the confidence intervals of both overlap")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_chance_until_repeats_say_otherwise() {
        let said = |real: &[f64], virtual_: &[f64]| {
            let spread = |values: &[f64]| Spread::of(values.to_vec()).unwrap();
            chance(&spread(real), &spread(virtual_))
        };
        let few = said(&[10.0, 10.0], &[20.0, 20.0, 20.0]);
        assert!(few.unwrap().contains("three repeats"));
        // 12 ± 4.97 holds 16, and not 18.
        let near = said(&[10.0, 12.0, 14.0], &[16.0, 16.0, 16.0]);
        assert!(near.unwrap().contains("overlap"));
        assert_eq!(said(&[10.0, 12.0, 14.0], &[18.0, 18.0, 18.0]), None);
    }

    #[test]
    fn what_has_one_cause_is_one_sentence() {
        let all = (0..8).map(|number| difference(&format!("x={number}"), &Measure::Goodput, 1.5));
        let told = sentences(&[("so it is".to_owned(), all.collect())]);
        assert!(
            told.starts_with("In virtual time goodput with x=0 is 50 % more; goodput"),
            "{told}"
        );
        assert!(told.ends_with("; and 2 more differ: so it is."), "{told}");
        assert_eq!(told.matches("so it is").count(), 1);
    }
}
