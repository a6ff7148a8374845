//! The page: what came of it in words, pictures and tables; first of all seeds, then of one of them.

use std::fmt::Write as _;
use std::time::Duration;

use dhow_bundle::Instant;

use super::axis::Axis;
use super::picture::{Curve, Look, Picture};
use super::quantity::{count, span, things, thousands};
use super::summary::{PARTS, Summary, parts};
use super::words::escaped;
use super::{lists, spread, words};
use crate::run::Outcome;
use crate::sample::Sample;

/// It asks for nothing from elsewhere, follows what the reader's system wants, and is for paper too.
const STYLE: &str = include_str!("style.css");

/// A page about the runs of a scenario; the pictures are of `shown`.
#[must_use]
pub fn page(name: &str, runs: &[Summary], shown: &Outcome) -> String {
    let name = escaped(name);
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>{name}</title><style>{STYLE}</style></head><body><h1>{name}</h1>"
    );
    // Of a run that was ended early nothing is said that is compared with others.
    let whole: Vec<&Summary> = runs.iter().filter(|run| !run.interrupted).collect();
    let many = runs.len() > 1 && !whole.is_empty();
    // Writing into a text does not fail.
    let _ = if many {
        write!(out, "<p class=\"lead\">{}</p>", spread::words(&whole))
    } else {
        write!(
            out,
            "<p class=\"lead\">Seed {}. {}</p>",
            shown.seed,
            words::delivered(shown)
        )
    };
    if !many {
        write_words(&mut out, shown);
    }
    let partial = runs.len() - whole.len();
    if partial > 0 {
        let _ = write!(
            out,
            "<p class=\"bad\">Interrupted: {} before the end, and in no figure over all seeds.</p>",
            things(count(partial), "seed was ended", "seeds were ended")
        );
    }
    write_findings(&mut out, runs);
    if many {
        out += &spread::delays(&whole);
        out += &spread::table(&whole);
        let _ = write!(
            out,
            "<h2>Seed {}</h2><p>{}</p>",
            shown.seed,
            words::delivered(shown)
        );
        write_words(&mut out, shown);
    }
    out += &over_time(shown);
    out += &delays(shown);
    out += &in_stores(shown);
    for (title, table) in [
        ("Traffic", lists::traffic(shown)),
        ("Links", lists::links(shown)),
        ("Stores", lists::nodes(shown)),
        ("Runs", lists::runs(runs)),
    ] {
        let _ = write!(out, "<h2>{title}</h2>{table}");
    }
    out += "<p class=\"note\">The same scenario and seed have the same hash, on every machine.</p></body></html>\n";
    out
}

fn write_words(out: &mut String, shown: &Outcome) {
    for words in [words::limits(shown), words::cost(shown)] {
        if !words.is_empty() {
            let _ = write!(out, "<p>{words}</p>");
        }
    }
}

fn write_findings(out: &mut String, runs: &[Summary]) {
    if runs.iter().all(|run| run.findings.is_empty()) {
        if runs.len() == 1 {
            *out += "<p>No oracle found a violation.</p>";
        }
        return;
    }
    *out += "<h2 class=\"bad\">Violations</h2>";
    for run in runs {
        for finding in &run.findings {
            let _ = write!(
                out,
                "<p class=\"bad\">Seed {}, <code>{}</code>, at {}: {}</p><pre>",
                run.seed,
                finding.oracle,
                span(finding.at),
                escaped(&finding.sentence)
            );
            for (name, step) in &finding.steps {
                let _ = writeln!(out, "{} {step}", escaped(name));
            }
            *out += "</pre>";
        }
        if run.violations > count(run.findings.len()) {
            let _ = write!(
                out,
                "<p class=\"note\">The first {} of {} violations of seed {}.</p>",
                run.findings.len(),
                thousands(run.violations),
                run.seed
            );
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A curve of something over time.
fn course(shown: &Outcome, name: &'static str, look: Look, value: fn(&Sample) -> u64) -> Curve {
    let points = shown.samples.iter();
    let points = points.map(|it| (milliseconds(it.at.since(Instant::START)), value(it)));
    Curve {
        name,
        look,
        points: [(0, 0)].into_iter().chain(points).collect(),
        band: Vec::new(),
    }
}

fn over_time(shown: &Outcome) -> String {
    Picture {
        title: "Payloads sent and delivered",
        curves: &[
            course(shown, "sent", Look::Faint, |it| it.sent),
            course(shown, "delivered", Look::Main, |it| it.delivered),
        ],
        along: Axis::Time,
        up: Axis::Count,
    }
    .svg()
}

fn in_stores(shown: &Outcome) -> String {
    Picture {
        title: "Octets in all stores",
        curves: &[course(shown, "stored", Look::Main, |it| it.octets)],
        along: Axis::Time,
        up: Axis::Octets,
    }
    .svg()
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
    Picture {
        title: "Delay: share of the payloads that were delivered within a time",
        curves: &[Curve {
            name: "delivered",
            look: Look::Main,
            points: points
                .map(|(part, delay)| (milliseconds(*delay), share(part)))
                .collect(),
            band: Vec::new(),
        }],
        along: Axis::Time,
        up: Axis::Share,
    }
    .svg()
}
