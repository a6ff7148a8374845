//! The same scenario on real sockets and in virtual time, side by side.

use std::collections::BTreeSet;

use dhow_page::{List, escaped, text, words};

use super::cause;
use super::measure::Measure;
use super::statistics::Spread;
use super::study::Study;
use super::summary::RunSummary;
use crate::results::Backend;

/// Differences above this are told in a sentence.
const TELLING: f64 = 0.05;

/// Differences of one cause that are told.
const NAMED_MAX: usize = 6;

/// Repeats of each from which a difference can be told from chance, at least.
const REPEATS_MIN: usize = 3;

/// The measures that are compared.
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
    for summary in &study.runs {
        let point = summary.run.point.to_string();
        if !combinations.contains(&point) {
            combinations.push(point);
        }
    }
    let mut list = List::new(&["", "measured", "netns", "sim", "sim ÷ netns"]);
    // Points of which nothing has a value on both.
    let mut alone: Vec<String> = Vec::new();
    // The differences, by their cause.
    let mut differences: Vec<(String, Vec<String>)> = Vec::new();
    for point in &combinations {
        let of = |backend: Backend| -> Vec<&RunSummary> {
            let runs = study
                .done()
                .filter(|summary| summary.run.backend == backend);
            runs.filter(|summary| summary.run.point.to_string() == *point)
                .collect()
        };
        let (on_sockets, in_virtual_time) = (of(Backend::Netns), of(Backend::Sim));
        let mut is_compared = false;
        for measure in &COMPARED {
            let mean = |runs: &[&RunSummary]| {
                Spread::of(
                    runs.iter()
                        .filter_map(|summary| measure.of(summary))
                        .collect(),
                )
            };
            let (Some(real), Some(virtual_)) = (mean(&on_sockets), mean(&in_virtual_time)) else {
                continue;
            };
            is_compared = true;
            let reading = measure.reading(&study.runs);
            let ratio = ratio(&real, &virtual_);
            list.line(&[
                words(escaped(point)),
                text(measure.to_string()),
                text(reading.said(real.mean)),
                text(reading.said(virtual_.mean)),
                text(ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"))),
            ]);
            let differs = match ratio {
                Some(ratio) => (ratio - 1.0).abs() > TELLING,
                None => virtual_.mean != 0.0,
            };
            if differs {
                let cause = chance(&real, &virtual_).map(str::to_owned);
                let difference_of = cause::Difference {
                    measure,
                    on_sockets: &on_sockets,
                    in_virtual_time: &in_virtual_time,
                    ratio: ratio.unwrap_or(f64::INFINITY),
                };
                let cause = cause.unwrap_or_else(|| difference_of.cause());
                let what = match ratio {
                    Some(ratio) => difference(point, measure, ratio),
                    None => beside_nothing(point, measure, &reading.said(virtual_.mean)),
                };
                match differences.iter_mut().find(|(known, _)| *known == cause) {
                    Some((_, all)) => all.push(what),
                    None => differences.push((cause, vec![what])),
                }
            }
        }
        if !is_compared {
            alone.push(without_both(point, &on_sockets, &in_virtual_time));
        }
    }
    let summary = match (alone.len() == combinations.len(), differences.is_empty()) {
        (true, _) => "Nothing was compared.".to_owned(),
        (_, true) => "No difference is above 5 %.".to_owned(),
        (_, false) => sentences(&differences),
    };
    let table = match alone.len() == combinations.len() {
        true => String::new(),
        false => list.whole(),
    };
    format!(
        "<h3>On real sockets and in virtual time</h3>{table}<p>{summary} {} {}</p>",
        not_compared(&alone),
        congestion(study)
    )
}

/// The mean of virtual time by that of sockets; nothing where that is 0 or the ratio is no number.
fn ratio(real: &Spread, virtual_: &Spread) -> Option<f64> {
    let ratio = virtual_.mean / real.mean;
    (real.mean != 0.0 && ratio.is_finite()).then_some(ratio)
}

/// Why nothing of a point is compared.
fn without_both(
    point: &str,
    on_sockets: &[&RunSummary],
    in_virtual_time: &[&RunSummary],
) -> String {
    let of = of_point(point);
    match (on_sockets, in_virtual_time) {
        ([], []) => format!("no run{of} came to its end"),
        ([], _) => format!("no run{of} on sockets came to its end"),
        (_, []) => format!("no run{of} in virtual time came to its end"),
        _ => format!("nothing that is measured{of} has a value in both"),
    }
}

/// A sentence on the points that are not compared.
fn not_compared(alone: &[String]) -> String {
    if alone.is_empty() {
        return String::new();
    }
    let shown = alone.iter().take(NAMED_MAX).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join("; ");
    let more = match alone.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("; and so of {more} more"),
    };
    format!("One side alone cannot be compared: {shown}{more}.")
}

/// The point of a figure, behind its name.
fn of_point(point: &str) -> String {
    match point {
        "" => String::new(),
        point => format!(" with {}", escaped(point)),
    }
}

/// A difference from a mean of 0, of which there is no ratio.
fn beside_nothing(point: &str, measure: &Measure, virtual_: &str) -> String {
    let of = of_point(point);
    format!("{measure}{of} is {virtual_}, and 0 on sockets")
}

/// The congestion controls of either backend.
fn congestion(study: &Study) -> String {
    let of = |backend: Backend| {
        let runs = study
            .done()
            .filter(|summary| summary.run.backend == backend);
        let names: BTreeSet<&str> = runs
            .flat_map(|summary| &summary.congestion)
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
    let of = of_point(point);
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

/// Why a difference may be chance; nothing where the intervals of both means lie apart.
fn chance(real: &Spread, virtual_: &Spread) -> Option<&'static str> {
    if real.values.len().min(virtual_.values.len()) < REPEATS_MIN {
        return Some("that may be chance: three repeats of each are needed to tell");
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
    fn a_mean_of_nothing_has_no_ratio() {
        let spread = |value: f64| Spread::of(vec![value]).unwrap();
        assert_eq!(ratio(&spread(4.0), &spread(2.0)), Some(0.5));
        assert_eq!(ratio(&spread(0.0), &spread(2.0)), None);
        assert_eq!(ratio(&spread(0.0), &spread(0.0)), None);
        assert_eq!(ratio(&spread(1e-300), &spread(1e300)), None);
        let summary = beside_nothing("x=1", &Measure::Goodput, "5.00 Mbit/s");
        assert_eq!(summary, "goodput with x=1 is 5.00 Mbit/s, and 0 on sockets");
    }

    #[test]
    fn what_has_one_cause_is_one_sentence() {
        let all = (0..8).map(|number| difference(&format!("x={number}"), &Measure::Goodput, 1.5));
        let summary = sentences(&[("so it is".to_owned(), all.collect())]);
        assert!(
            summary.starts_with("In virtual time goodput with x=0 is 50 % more; goodput"),
            "{summary}"
        );
        assert!(
            summary.ends_with("; and 2 more differ: so it is."),
            "{summary}"
        );
        assert_eq!(summary.matches("so it is").count(), 1);
    }
}
