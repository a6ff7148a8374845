//! The page: what came of all seeds in one table, and pictures of one of them.

use std::fmt::Write as _;
use std::time::Duration;

use dhow_bundle::Instant;

use super::picture::{Curve, Picture};
use super::{percent, size, span};
use crate::run::Outcome;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;color:#24292f;max-width:60em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;border-bottom:1px solid #d0d7de;text-align:right}\
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto;margin:1em 0}svg text{font:12px system-ui,sans-serif}\
svg .title{font-size:14px;font-weight:600}.faint{fill:#57606a}.grid{stroke:#d0d7de}.bad{color:#cf222e}pre{overflow-x:auto}";

/// A page about the runs of a scenario; the pictures are of `shown`.
#[must_use]
pub fn page(name: &str, outcomes: &[Outcome], shown: &Outcome) -> String {
    let name = escaped(name);
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{name}</title><style>{STYLE}</style><h1>{name}</h1>"
    );
    let findings: usize = outcomes.iter().map(|it| it.findings.len()).sum();
    // Writing into a text does not fail.
    let _ = write!(
        out,
        "<p>{} run{}, {} of virtual time each, {findings} violation{}.</p>",
        outcomes.len(),
        if outcomes.len() == 1 { "" } else { "s" },
        span(shown.progress.time),
        if findings == 1 { "" } else { "s" }
    );
    write_findings(&mut out, outcomes);
    let _ = write!(out, "<h2>Seed {}</h2>", shown.seed);
    out.push_str(&over_time(shown));
    out.push_str(&in_stores(shown));
    out.push_str(&delays(shown));
    write_traffic(&mut out, shown);
    write_links(&mut out, shown);
    write_runs(&mut out, outcomes);
    out.push_str("</html>\n");
    out
}

fn write_findings(out: &mut String, outcomes: &[Outcome]) {
    for outcome in outcomes {
        for finding in &outcome.findings {
            let _ = write!(
                out,
                "<p class=\"bad\">Seed {}, {}, at {}: {}</p><pre>",
                outcome.seed,
                finding.oracle,
                span(finding.at),
                escaped(&finding.sentence)
            );
            for (name, step) in &finding.steps {
                let _ = writeln!(out, "{} {step}", escaped(name));
            }
            out.push_str("</pre>");
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn along_time(value: u64) -> String {
    span(Duration::from_millis(value))
}

fn over_time(shown: &Outcome) -> String {
    let curve = |name, colour, count: fn(&crate::sample::Sample) -> u64| Curve {
        name,
        colour,
        points: (shown.samples.iter())
            .map(|it| (milliseconds(it.at.since(Instant::START)), count(it)))
            .collect(),
    };
    Picture {
        title: "Payloads sent and delivered",
        curves: &[
            curve("sent", "#8c959f", |it| it.sent),
            curve("delivered", "#0b5cad", |it| it.delivered),
        ],
        along: along_time,
        up: |value| value.to_string(),
    }
    .svg()
}

fn in_stores(shown: &Outcome) -> String {
    let points = shown.samples.iter();
    let points = points.map(|it| (milliseconds(it.at.since(Instant::START)), it.octets));
    Picture {
        title: "Octets in all stores",
        curves: &[Curve {
            name: "stored",
            colour: "#0b5cad",
            points: points.collect(),
        }],
        along: along_time,
        up: size,
    }
    .svg()
}

fn delays(shown: &Outcome) -> String {
    let delays = shown.delays();
    let count = u64::try_from(delays.len()).unwrap_or(u64::MAX).max(1);
    let points = (1_u64..).zip(&delays);
    Picture {
        title: "Delay: share of the delivered payloads that took at most so long",
        curves: &[Curve {
            name: "delivered",
            colour: "#0b5cad",
            points: points
                .map(|(number, it)| (milliseconds(*it), number * 1_000 / count))
                .collect(),
        }],
        along: along_time,
        up: |value| percent(value, 1_000),
    }
    .svg()
}

fn write_traffic(out: &mut String, shown: &Outcome) {
    out.push_str(
        "<h2>Traffic</h2><table><tr><th>from – to</th><th>sent</th><th>delivered</th><th>median delay</th>\
         <th>longest</th><th>octets delivered</th></tr>",
    );
    let last = shown.payloads.iter().map(|it| it.name.traffic).max();
    for traffic in 0..=last.unwrap_or(0) {
        let of = || {
            shown
                .payloads
                .iter()
                .filter(move |it| it.name.traffic == traffic)
        };
        let Some(first) = of().next() else { continue };
        let mut delays: Vec<Duration> = of().filter_map(|it| it.delay()).collect();
        delays.sort_unstable();
        let sent = u64::try_from(of().count()).unwrap_or(u64::MAX);
        let delivered = u64::try_from(delays.len()).unwrap_or(u64::MAX);
        let octets: u64 = of()
            .filter(|it| it.delivered.is_some())
            .map(|it| it.octets)
            .sum();
        let shown = |delay: Option<&Duration>| delay.map_or_else(|| "–".to_owned(), |it| span(*it));
        let _ = write!(
            out,
            "<tr><td>{} – {}</td><td>{sent}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&first.from),
            escaped(&first.to),
            percent(delivered, sent),
            shown(delays.get(delays.len() / 2)),
            shown(delays.last()),
            size(octets)
        );
    }
    out.push_str("</table>");
}

fn write_links(out: &mut String, shown: &Outcome) {
    out.push_str("<h2>Links</h2><table><tr><th>link</th><th>there for</th><th>sent</th><th>used</th><th>sent back</th><th>used</th></tr>");
    for it in &shown.links {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&it.name),
            span(it.open),
            size(it.octets.0),
            percent(it.octets.0, it.capacity),
            size(it.octets.1),
            percent(it.octets.1, it.capacity)
        );
    }
    out.push_str("</table>");
}

fn write_runs(out: &mut String, outcomes: &[Outcome]) {
    out.push_str(
        "<h2>Runs</h2><table><tr><th>seed</th><th>hash</th><th>events</th><th>accepted</th><th>delivered</th><th>expired</th>\
         <th>crashes</th><th>stalls</th><th>duplicates</th><th>violations</th></tr>",
    );
    for it in outcomes {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{:016x}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            it.seed,
            it.trace_hash,
            it.progress.events,
            it.accepted,
            percent(it.progress.delivered, it.progress.sent),
            it.expired,
            it.counts.crashes,
            it.counts.stalls,
            it.counts.duplicates,
            it.findings.len()
        );
    }
    out.push_str("</table>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_place_in_the_page() {
        assert_eq!(escaped("<b & \"c\">"), "&lt;b &amp; &quot;c&quot;&gt;");
    }
}
