//! The page: the results in words, pictures and tables; first of all seeds, then of one of them.

use std::fmt::Write as _;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_page::quantity::{count, span, things, thousands};
use dhow_page::{Axis, Curve, Look, Page, Picture, escaped};

use super::summary::{PARTS, Summary, parts};
use super::{lists, spread, words};
use crate::run::Outcome;
use crate::sample::Sample;

/// A page about the runs of a scenario; the pictures are of `shown`.
#[must_use]
pub fn page(name: &str, runs: &[Summary], shown: &Outcome) -> String {
    let mut page = Page::new(name);
    // Of a run that was ended early nothing is said that is compared with others.
    let whole: Vec<&Summary> = runs.iter().filter(|run| !run.interrupted).collect();
    let many = runs.len() > 1 && !whole.is_empty();
    if many {
        page.lead(&spread::words(&whole));
    } else {
        page.lead(&format!("Seed {}. {}", shown.seed, words::delivered(shown)));
        write_words(&mut page, shown);
    }
    let partial = runs.len() - whole.len();
    if partial > 0 {
        page.warning(&format!(
            "Interrupted: {} before the end, and in no figure over all seeds.",
            things(count(partial), "seed was ended", "seeds were ended")
        ));
    }
    write_findings(&mut page, runs);
    if many {
        page.add(&spread::delays(&whole));
        page.add(&spread::table(&whole));
        page.heading(&format!("Seed {}", shown.seed));
        page.paragraph(&words::delivered(shown));
        write_words(&mut page, shown);
    }
    page.add(&over_time(shown));
    page.add(&delays(shown));
    page.add(&in_stores(shown));
    for (title, table) in [
        ("Traffic", lists::traffic(shown)),
        ("Links", lists::links(shown)),
        ("Stores", lists::nodes(shown)),
        ("Runs", lists::runs(runs)),
    ] {
        page.heading(title);
        page.add(&table);
    }
    page.note("The same scenario and seed have the same hash, on every machine.");
    page.end()
}

fn write_words(page: &mut Page, shown: &Outcome) {
    page.paragraph(&words::limits(shown));
    page.paragraph(&words::cost(shown));
}

fn write_findings(page: &mut Page, runs: &[Summary]) {
    if runs.iter().all(|run| run.findings.is_empty()) {
        if runs.len() == 1 {
            page.paragraph("No oracle found a violation.");
        }
        return;
    }
    page.add("<h2 class=\"bad\">Violations</h2>");
    for run in runs {
        for finding in &run.findings {
            page.warning(&format!(
                "Seed {}, <code>{}</code>, at {}: {}",
                run.seed,
                finding.oracle,
                span(finding.at),
                escaped(&finding.sentence)
            ));
            let mut steps = String::new();
            for (name, step) in &finding.steps {
                // Writing into a text does not fail.
                let _ = writeln!(steps, "{} {step}", escaped(name));
            }
            page.add(&format!("<pre>{steps}</pre>"));
        }
        if run.violations > count(run.findings.len()) {
            page.note(&format!(
                "The first {} of {} violations of seed {}.",
                run.findings.len(),
                thousands(run.violations),
                run.seed
            ));
        }
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A curve of something over time.
fn course(shown: &Outcome, name: &'static str, look: Look, value: fn(&Sample) -> u64) -> Curve {
    let points = shown.samples.iter();
    let points = points.map(|it| (microseconds(it.at.since(Instant::START)), value(it)));
    Curve::new(name, look).through([(0, 0)].into_iter().chain(points).collect())
}

fn over_time(shown: &Outcome) -> String {
    let curves = [
        course(shown, "sent", Look::Faint, |it| it.sent),
        course(shown, "delivered", Look::Main, |it| it.delivered),
    ];
    Picture::new(
        "Payloads sent and delivered",
        &curves,
        Axis::Time,
        Axis::Count,
    )
    .figure()
}

fn in_stores(shown: &Outcome) -> String {
    let curves = [course(shown, "stored", Look::Main, |it| it.octets)];
    Picture::new("Octets in all stores", &curves, Axis::Time, Axis::Octets).figure()
}

fn delays(shown: &Outcome) -> String {
    let delays = parts(&shown.delays());
    if delays.is_empty() {
        return String::new();
    }
    let share = |part: usize| {
        let delivered = count(part) * 10_000 / count(PARTS);
        delivered * shown.progress.delivered / shown.progress.sent.max(1)
    };
    let points = delays.iter().enumerate();
    let points = points.map(|(part, delay)| (microseconds(*delay), share(part)));
    let curves = [Curve::new("delivered", Look::Main).through(points.collect())];
    let title = "Delay: share of the payloads that were delivered within a time";
    Picture::new(title, &curves, Axis::Time, Axis::Share).figure()
}
