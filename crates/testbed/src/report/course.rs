//! One run over time: contacts, goodput and processors; and the delays of all.

use dhow_page::{Axis, Curve, Look, Picture, escaped};

use super::curves;
use super::statistics::quantile;
use super::study::{Cell, Study};
use super::summary::{Course, RunSummary};
use crate::number::{float, micros, whole};

/// Places of a curve over time.
const PLACES: u32 = 200;

/// Curves of one picture, at most.
const CURVES_MAX: usize = 8;

/// Pictures of one run over time.
pub(crate) fn of_run(course: &Course) -> String {
    let summary = &course.summary;
    let end = summary.run.duration_s;
    if end <= 0.0 {
        return String::new();
    }
    let shades = shades(summary);
    let mut out = String::new();
    let mut draw = |title: &str, curves: &[Curve], up: Axis| {
        if curves.iter().any(|curve| !curve.points.is_empty()) {
            let mut picture = Picture::new(title, curves, Axis::Time, up);
            picture.shades = &shades;
            out += &picture.figure();
        }
    };
    if !course.payloads.is_empty() {
        let delivered = Curve::new("delivered payload", Look::Main).through(goodput(course, end));
        let title = "Payload delivered over time; contacts are shaded";
        draw(title, &[delivered], Axis::Rate);
        let title = "Payloads that are sent and not yet delivered";
        draw(title, &waiting(course, end), Axis::Octets);
    }
    draw(
        "Processors: user and system time, of one core",
        &processors(course),
        Axis::Share,
    );
    out
}

/// When any link that comes and goes was there.
fn shades(summary: &RunSummary) -> Vec<(u64, u64)> {
    let mut shades: Vec<(u64, u64)> = summary
        .planned()
        .map(|it| (micros(it.start_s), micros(it.end_s)))
        .collect();
    shades.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in shades {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

fn goodput(course: &Course, end: f64) -> Vec<(u64, u64)> {
    let part = end / f64::from(PLACES);
    let mut parts = vec![0.0; usize::try_from(PLACES).unwrap_or(0) + 1];
    for payload in &course.payloads {
        let place = payload.delivered_s.map(|time| whole((time / part).floor()));
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(sum) = place.and_then(|place| parts.get_mut(place)) {
            *sum += float(payload.octets) * 8.0;
        }
    }
    let parts = (0_u32..).zip(parts);
    let rates = parts.map(|(place, bits)| (micros(f64::from(place) * part), whole(bits / part)));
    rates.collect()
}

/// Octets that were sent and not yet delivered, at each place.
fn waiting(course: &Course, end: f64) -> Vec<Curve> {
    let mut changes: Vec<(f64, f64)> = Vec::new();
    for payload in &course.payloads {
        changes.push((payload.sent_s, float(payload.octets)));
        changes.extend(
            payload
                .delivered_s
                .map(|time| (time, -float(payload.octets))),
        );
    }
    changes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut changes = changes.into_iter().peekable();
    let mut sum = 0.0;
    let points = (0..=PLACES).map(|place| {
        let time = end * f64::from(place) / f64::from(PLACES);
        while let Some((_, octets)) = changes.next_if(|change| change.0 <= time) {
            sum += octets;
        }
        (micros(time), whole(sum))
    });
    vec![Curve::new("waiting or on their way", Look::Main).through(points.collect())]
}

fn processors(course: &Course) -> Vec<Curve> {
    let mut nodes: Vec<&str> = Vec::new();
    for sample in &course.resources {
        if !nodes.contains(&sample.node.as_str()) {
            nodes.push(&sample.node);
        }
    }
    let curves = nodes.iter().take(CURVES_MAX).enumerate();
    let curves = curves.map(|(number, node)| {
        let samples: Vec<_> = course
            .resources
            .iter()
            .filter(|it| it.node == **node)
            .collect();
        // Processor time comes in hundredths of a second: over half a second they hardly show.
        let step = (samples.len() / 100).max(5);
        let points = samples.iter().zip(samples.iter().skip(step)).step_by(step);
        let points = points.map(|(from, to)| {
            let used = (to.user_s + to.system_s) - (from.user_s + from.system_s);
            let time = (to.time_s - from.time_s).max(1e-3);
            (micros(to.time_s), whole(used / time * 10_000.0).min(10_000))
        });
        Curve::new(*node, Look::Coloured(number)).through(points.collect())
    });
    curves.collect()
}

/// The share of payloads that were delivered within a time, of each combination, over all its runs that came to their end.
pub(crate) fn delays(study: &Study) -> String {
    let mut cells = study.cells();
    cells.retain(|cell| cell.runs.iter().any(|summary| !summary.delays.is_empty()));
    let all = cells.len();
    // Of many the first, the last, and some between.
    let shown_count = all.min(CURVES_MAX - 2);
    let places = (0..shown_count).map(|place| place * (all - 1) / (shown_count - 1).max(1));
    let shown: Vec<_> = places.filter_map(|place| cells.get(place)).collect();
    let curves = shown.iter().enumerate().map(|(number, cell)| {
        let mut delays: Vec<f64> = Vec::new();
        let (mut sent, mut delivered) = (0, 0);
        for summary in &cell.runs {
            delays.extend_from_slice(&summary.delays);
            sent += summary.run.sent;
            delivered += summary.run.delivered;
        }
        delays.sort_by(f64::total_cmp);
        let part = (float(delivered) / float(sent.max(1))).min(1.0);
        let points = (0..=PLACES).filter_map(|place| {
            let share = f64::from(place) / f64::from(PLACES);
            let delay = quantile(&delays, share)?;
            Some((micros(delay), whole(share * part * 10_000.0)))
        });
        let name = curve_name(study, cell);
        Curve::new(name, Look::Coloured(number)).through(points.collect())
    });
    let curves: Vec<Curve> = curves.collect();
    if curves.is_empty() {
        return String::new();
    }
    let title = "Delay: share of the payloads that were delivered within a time";
    let mut out = Picture::new(title, &curves, Axis::Time, Axis::Share).figure();
    if shown.len() < all {
        let names = shown.iter().map(|cell| escaped(&curve_name(study, cell)));
        let names = names.collect::<Vec<_>>();
        out += &format!(
            "<p class=\"note\">{} of {all} combinations: {}.</p>",
            shown.len(),
            names.join("; ")
        );
    }
    out
}

/// The name of a combination, with its keys.
fn curve_name(study: &Study, cell: &Cell<'_>) -> String {
    let question = &study.question;
    let x = question.x.as_ref().filter(|_| !cell.x.is_empty());
    let x = x.map(|key| format!("{key} = {}", cell.x));
    let group = (!cell.group.is_empty()).then(|| curves::named(question, &cell.group));
    let parts: Vec<String> = x.into_iter().chain(group).collect();
    match parts.is_empty() {
        true => "delivered".to_owned(),
        false => parts.join(", "),
    }
}
