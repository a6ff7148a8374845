//! The same scenario on real sockets and in virtual time, side by side.

use dhow_page::{List, escaped, text};

use super::measure::{Measure, said};
use super::statistics::Spread;
use super::study::Study;
use crate::results::{Backend, Status};

/// Differences above this are told in a sentence.
const TELLING: f64 = 0.05;

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
                sentences.push(sentence(point, measure, &real, &virtual_));
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

/// What a difference is, and whether it may be chance or what it may come from.
fn sentence(point: &str, measure: &Measure, real: &Spread, virtual_: &Spread) -> String {
    let of = if point.is_empty() {
        String::new()
    } else {
        format!(" with {}", escaped(point))
    };
    let ratio = virtual_.mean / real.mean;
    let more = if ratio > 1.0 { "more" } else { "less" };
    let percent = (ratio - 1.0).abs() * 100.0;
    let cause = chance(real, virtual_).unwrap_or(match (measure, ratio > 1.0) {
        (Measure::Delivery, _) => {
            "which may come from what was under way when the scenario ended, as that depends on how fast it was until then"
        }
        (Measure::Goodput, true) | (Measure::Delay(_) | Measure::Drain, false) => {
            "which may come from processors, which take no time in a simulation, and from packets, which it does not put around octets"
        }
        (Measure::Goodput, false) | (Measure::Delay(_) | Measure::Drain, true) => {
            "which may come from disks and connections, if those of this machine took less time than the scenario says"
        }
        _ => "whose cause the figures do not tell",
    });
    format!(
        "{}{of} is {percent:.0} % {more} in virtual time, {cause}.",
        super::curves::capital(&measure.to_string())
    )
}

/// Why a difference may be chance; nothing where the intervals of both means lie apart.
fn chance(real: &Spread, virtual_: &Spread) -> Option<&'static str> {
    if real.values.len().min(virtual_.values.len()) < REPEATS_MIN {
        return Some("which may be chance: it takes three repeats of each to tell");
    }
    let halves = real.confidence()? + virtual_.confidence()?;
    let apart = (real.mean - virtual_.mean).abs() > halves;
    (!apart).then_some("which may be chance: the confidence intervals of both overlap")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_chance_until_repeats_say_otherwise() {
        let said = |real: &[f64], virtual_: &[f64]| {
            let spread = |values: &[f64]| Spread::of(values.to_vec()).unwrap();
            sentence("", &Measure::Goodput, &spread(real), &spread(virtual_))
        };
        let few = said(&[10.0, 10.0], &[20.0, 20.0, 20.0]);
        assert_eq!(
            few,
            "Goodput is 100 % more in virtual time, which may be chance: it takes three repeats of each to tell."
        );
        // 12 ± 4.97 holds 16, and not 18.
        let near = said(&[10.0, 12.0, 14.0], &[16.0, 16.0, 16.0]);
        assert!(near.ends_with("the confidence intervals of both overlap."));
        let apart = said(&[10.0, 12.0, 14.0], &[18.0, 18.0, 18.0]);
        assert!(apart.contains("50 % more") && apart.contains("which may come from processors"));
        let less = said(&[18.0, 18.0, 18.0], &[9.0, 9.0, 9.0]);
        assert!(less.contains("50 % less") && less.contains("which may come from disks"));
    }
}
