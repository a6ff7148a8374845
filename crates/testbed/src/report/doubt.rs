//! The reasons for which a number says less than it seems to, or for which there is none.

use dhow_page::quantity::{count, things};

use super::measure::Measure;
use super::study::Study;

/// Why no run has a value of what is measured.
pub(crate) fn nothing(study: &Study) -> String {
    if study.done().next().is_none() {
        return "No run came to its end.".to_owned();
    }
    if study.done().any(|summary| summary.run.sent > 0) {
        let y = dhow_page::escaped(&study.y.to_string());
        return format!("The runs came to their end, but none has a value of {y}.");
    }
    let figures = study.done().any(|summary| !summary.figures.is_empty());
    let figures = match figures {
        true => {
            "figures reported by programs are in the table below, and <code>y</code> of [report] may be a figure of it"
        }
        false => {
            "what hosts used is in resources.csv, what was measured in measurements.sq3 of each run"
        }
    };
    format!("The runs came to their end and have no payloads: {figures}.")
}

/// Why what was measured does not say whether it went as was expected; nothing where it does.
pub(crate) fn doubt(study: &Study) -> Option<String> {
    let runs = study.done().filter(|summary| summary.run.sent > 0);
    let runs: Vec<_> = runs.collect();
    let doubt = match study.y {
        Measure::Drain => {
            let left = runs.iter().filter(|summary| !summary.is_drained()).count();
            (left > 0).then(|| {
                format!(
                    "Not all was delivered in {} of {}, which {} no such time",
                    left,
                    things(count(runs.len()), "run", "runs"),
                    if left == 1 { "has" } else { "have" }
                )
            })
        }
        Measure::Goodput => {
            let bounded =
                !runs.is_empty() && runs.iter().all(|summary| summary.is_bounded_by_load());
            bounded
                .then(|| "Everything that was sent arrived, so goodput is what was sent".to_owned())
        }
        _ => None,
    }?;
    Some(match study.question.expects {
        Some(_) => format!("{doubt}: whether it went as was expected cannot be said."),
        None => format!("{doubt}."),
    })
}
