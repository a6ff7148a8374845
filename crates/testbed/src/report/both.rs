//! The same scenario on real sockets and in virtual time, side by side.

use dhow_page::{List, escaped, text};

use super::measure::{Measure, said};
use super::statistics::Spread;
use super::study::Study;
use crate::results::{Backend, Status};

/// Differences above this are told in a sentence.
const TELLING: f64 = 0.05;

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
    let mut sentences = Vec::new();
    for point in &combinations {
        for measure in &COMPARED {
            let mean = |backend: Backend| {
                let runs = study.runs.iter().filter(|told| {
                    told.run.backend == backend
                        && told.run.point.to_string() == *point
                        && told.run.status == Status::Done
                });
                Spread::of(runs.filter_map(|told| measure.of(told)).collect())
            };
            let (Some(real), Some(virtual_)) = (mean(Backend::Netns), mean(Backend::Sim)) else {
                continue;
            };
            let axis = measure.axis(&study.runs);
            let ratio = virtual_.mean / real.mean;
            list.line(&[
                text(escaped(point)),
                text(measure.to_string()),
                text(said(axis, real.mean)),
                text(said(axis, virtual_.mean)),
                text(format!("{ratio:.3}")),
            ]);
            if (ratio - 1.0).abs() > TELLING {
                sentences.push(sentence(
                    point,
                    measure,
                    ratio,
                    real.confidence(),
                    real.mean,
                ));
            }
        }
    }
    let words = if sentences.is_empty() {
        "No difference is above 5 %.".to_owned()
    } else {
        sentences.join(" ")
    };
    format!(
        "<h3>On real sockets and in virtual time</h3>{}<p>{words}</p>",
        list.whole()
    )
}

/// What a difference is, and what it comes from.
fn sentence(
    point: &str,
    measure: &Measure,
    ratio: f64,
    confidence: Option<f64>,
    real: f64,
) -> String {
    let of = if point.is_empty() {
        String::new()
    } else {
        format!(" with {}", escaped(point))
    };
    let more = if ratio > 1.0 { "more" } else { "less" };
    let percent = (ratio - 1.0).abs() * 100.0;
    let noisy = confidence.is_some_and(|half| half > real * (ratio - 1.0).abs());
    let cause = if noisy {
        "which is within the confidence of the runs on real sockets"
    } else {
        match (measure, ratio > 1.0) {
            (Measure::Delivery, _) => {
                "since what is under way when the scenario ends depends on how fast it was until then"
            }
            (Measure::Goodput, true) | (Measure::Delay(_) | Measure::Drain, false) => {
                "since processors take no time in a simulation, and octets have no packets around them"
            }
            (Measure::Goodput, false) | (Measure::Delay(_) | Measure::Drain, true) => {
                "since simulated disks and connections take the time that the scenario says, and those of this machine took less"
            }
            _ => "whose cause the figures do not tell",
        }
    };
    format!(
        "{}{of} is {percent:.0} % {more} in virtual time, {cause}.",
        super::curves::capital(&measure.to_string())
    )
}
