//! The measured values against the values set: the picture and the table.

use dhow_page::quantity::count;
use dhow_page::{Axis, Curve, List, Look, Picture, Scale, escaped, text, words as word_cell};

use super::measure::placed;
use super::statistics::Spread;
use super::study::{Cell, Others, Question, Study};
use super::worth::{axis_of, place};
use super::{doubt, limit, panels};
use crate::results::Backend;

/// The part by which means differ that are called the same.
const SAME: f64 = 0.01;

/// A cell with its values.
pub(crate) struct Point<'a> {
    pub(crate) cell: Cell<'a>,
    /// Nothing where no run has a value.
    pub(crate) spread: Option<Spread>,
    /// Runs without a value since something failed.
    pub(crate) failures: usize,
}

/// All cells with their values.
pub(crate) fn points(study: &Study) -> Vec<Point<'_>> {
    let cells = study.cells().into_iter();
    cells
        .map(|cell| Point {
            spread: cell.spread(&study.y),
            failures: cell.failures(&study.y),
            cell,
        })
        .collect()
}

/// The places of values on the horizontal axis.
struct Along {
    axis: Axis,
    names: Vec<String>,
}

impl Along {
    fn new(points: &[Point<'_>], others: &[Others]) -> Self {
        let here = points.iter().map(|point| point.cell.x.as_str());
        let mut names: Vec<String> = Vec::new();
        for name in here.clone().chain(others.iter().map(|it| it.x.as_str())) {
            if !names.iter().any(|it| it == name) {
                names.push(name.to_owned());
            }
        }
        let axis = axis_of(names.iter().map(String::as_str)).unwrap_or(Axis::Name);
        Self { axis, names }
    }

    fn place(&self, x: &str) -> u64 {
        match self.axis {
            Axis::Name => {
                let place = self.names.iter().position(|it| it == x);
                place.map_or(0, |place| count(place) + 1)
            }
            axis => place(x, axis),
        }
    }
}

/// The picture: every run a dot, means joined by a line with their confidence, and what others found.
pub(crate) fn picture(study: &Study, points: &[Point<'_>]) -> String {
    drawn(study, points, None)
}

/// A picture for each value of a key, and a table with the key; nothing where `[report]` names none.
pub(crate) fn apart(study: &Study) -> String {
    let Some((key, study)) = study.apart() else {
        return String::new();
    };
    let points = points(&study);
    drawn(&study, &points, Some(&key)) + &table(&study, &points)
}

/// The picture, or one for each value of a key.
fn drawn(study: &Study, points: &[Point<'_>], apart: Option<&str>) -> String {
    let question = &study.question;
    let Some(x) = &question.x else {
        return String::new();
    };
    let along = Along::new(points, &question.others);
    let up = study.y.axis(&study.runs);
    let (mut curves, mut has_negative): (Vec<Curve>, bool) = (Vec::new(), false);
    for point in points {
        if point.spread.is_none() && point.failures == 0 {
            continue;
        }
        let name = named(question, &point.cell.group);
        if curves.last().is_none_or(|curve| curve.name != name) {
            curves.push(Curve::new(name, Look::Coloured(curves.len())));
        }
        let Some(curve) = curves.last_mut() else {
            continue;
        };
        let at = along.place(&point.cell.x);
        curve.failures.extend((point.failures > 0).then_some(at));
        let Some(spread) = &point.spread else {
            continue;
        };
        // An axis begins at 0.
        has_negative |= spread.least() < 0.0;
        if spread.mean < 0.0 {
            continue;
        }
        curve.points.push((at, placed(up, spread.mean)));
        let values = spread.values.iter().filter(|value| **value >= 0.0);
        curve
            .dots
            .extend(values.map(|value| (at, placed(up, *value))));
        if let Some(half) = spread.confidence() {
            let (low, high) = (spread.mean - half, spread.mean + half);
            curve.bars.push((at, placed(up, low), placed(up, high)));
        }
    }
    let own = curves.len();
    curves.extend(of_others(question, points, &along, up));
    for curve in &mut curves {
        curve.points.sort_by_key(|point| point.0);
        // Between names there is nothing that a line could show.
        if along.axis == Axis::Name {
            let means = std::mem::take(&mut curve.points);
            curve.dots.extend(means);
        }
    }
    let scale = |log: bool| {
        if log {
            Scale::Logarithmic
        } else {
            Scale::Linear
        }
    };
    let each = apart.map_or_else(String::new, |key| format!(", for each {key}"));
    let title = format!("{}, by {x}{each}", capital(&study.y.to_string()));
    let mut whole = Picture::new(&title, &curves, along.axis, up);
    whole.along_scale = scale(question.log_x && along.axis != Axis::Name);
    whole.up_scale = scale(question.log_y);
    let keys = panels::keys(points, |group| named(question, group));
    let mut out = match apart.is_some() || own > panels::CURVES_MAX {
        true => panels::figure(&whole, &keys, apart),
        false => whole.figure(),
    };
    if along.axis == Axis::Name {
        let names = (1..).zip(&along.names);
        let names = names.map(|(number, name)| format!("{number}: {}", escaped(name)));
        out += &format!(
            "<p class=\"note\">{}.</p>",
            names.collect::<Vec<_>>().join(", ")
        );
    }
    if points.iter().any(|point| point.failures > 0) {
        out += "<p class=\"note\">A cross at the upper edge: runs that failed there, so that they have no value.</p>";
    }
    if has_negative {
        out += "<p class=\"note\">Values below 0 are in the table alone.</p>";
    }
    out
}

/// The name of a curve: the key that makes curves, and its value.
pub(crate) fn named(question: &Question, group: &str) -> String {
    match (question.group_by.as_slice(), group) {
        (_, "") => "measured here".to_owned(),
        // Other differences of runs are told with their keys; so is a backend by itself.
        ([key], group) => format!("{key} = {group}"),
        (_, group) => group.to_owned(),
    }
}

/// True if a curve has the group of a figure of others, on any backend.
fn is_of(curve: &str, group: &str) -> bool {
    let rest = curve.strip_prefix(group).and_then(|rest| match rest {
        "" => Some(""),
        rest => rest.strip_prefix(", "),
    });
    let backends = [Backend::Netns, Backend::Sim].map(|it| it.to_string());
    rest.is_some_and(|rest| rest.is_empty() || backends.iter().any(|it| it == rest))
}

/// The figures of others: points that no line joins, as between them nothing was measured.
fn of_others(question: &Question, points: &[Point<'_>], along: &Along, up: Axis) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for it in question.others.iter().filter(|it| it.value >= 0.0) {
        let is_ours = points
            .iter()
            .any(|point| is_of(&point.cell.group, &it.group));
        let name = match it.group.as_str() {
            "" => "the paper".to_owned(),
            group if is_ours => format!("the paper: {}", named(question, group)),
            group => format!("the paper: {group}"),
        };
        if !curves.iter().any(|curve| curve.name == name) {
            curves.push(Curve::new(name.as_str(), Look::Faint));
        }
        let Some(curve) = curves.iter_mut().find(|curve| curve.name == name) else {
            continue;
        };
        let at = along.place(&it.x);
        curve.dots.push((at, placed(up, it.value)));
        if let Some((least, most)) = it.range() {
            let least = least.max(0.0);
            curve.bars.push((at, placed(up, least), placed(up, most)));
        }
    }
    curves
}

/// The findings of others at a cell.
pub(crate) fn paper_of<'a>(question: &'a Question, cell: &Cell<'_>) -> Option<&'a Others> {
    question
        .others
        .iter()
        .find(|it| it.x == cell.x && (it.group.is_empty() || is_of(&cell.group, &it.group)))
}

/// The sources of the numbers of others: each one, with its points where there are several.
pub(super) fn sources(others: &[Others]) -> String {
    let mut sources: Vec<(&str, Vec<String>)> = Vec::new();
    for it in others {
        let parts = [it.x.as_str(), it.group.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let point = parts.join(" ");
        match sources.iter_mut().find(|(source, _)| *source == it.source) {
            Some((_, points)) => points.push(point),
            None => sources.push((&it.source, vec![point])),
        }
    }
    let summary = |source: &str| match source {
        "" => "a place that the file does not name".to_owned(),
        source => escaped(source),
    };
    let words = match sources.as_slice() {
        [] => return String::new(),
        [(source, _)] => summary(source),
        all => {
            let each = all.iter();
            let each = each
                .map(|(it, points)| format!("{} ({})", summary(it), escaped(&points.join(", "))));
            each.collect::<Vec<_>>().join("; ")
        }
    };
    let deviations = match others.iter().any(|it| it.deviation.is_some()) {
        true => " Behind ± is its standard deviation.",
        false => "",
    };
    format!("<p class=\"note\">The paper's numbers are from {words}.{deviations}</p>")
}

/// The keys that make curves, in the order in which points name them: a column of each.
pub(crate) fn keys<'a>(points: &'a [Point<'_>]) -> Vec<&'a str> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in points.iter().flat_map(|point| &point.cell.keys) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    keys
}

/// The value that a cell has of a key; nothing if it has none.
pub(crate) fn value<'a>(cell: &'a Cell<'_>, key: &str) -> &'a str {
    let found = cell.keys.iter().find(|(name, _)| name == key);
    found.map_or("", |(_, value)| value)
}

/// The table: every point with its spread, what others found there, and what limited it.
pub(crate) fn table(study: &Study, points: &[Point<'_>]) -> String {
    let question = &study.question;
    let reading = study.y.reading(&study.runs);
    let others = !question.others.is_empty();
    let mut columns = vec![question.x.clone().unwrap_or_else(|| "all runs".to_owned())];
    let keys = keys(points);
    columns.extend(keys.iter().map(|key| (*key).to_owned()));
    let measured = study.y.to_string();
    columns.extend([measured.as_str(), "±, 95 %", "σ", "least", "most", "runs"].map(str::to_owned));
    if others {
        columns.extend(["the paper", "times the paper"].map(str::to_owned));
    }
    // Without payloads and programs nobody knows what limited a run.
    let limited = study.done().any(limit::is_known);
    columns.extend(limited.then(|| "limit".to_owned()));
    let columns: Vec<String> = columns.iter().map(|it| escaped(it)).collect();
    let mut lines = Vec::new();
    for point in points {
        let mut cells = vec![text(escaped(&point.cell.x))];
        cells.extend(
            keys.iter()
                .map(|key| text(escaped(value(&point.cell, key)))),
        );
        let or = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |it| reading.said(it));
        let spread = point.spread.as_ref();
        cells.extend(
            [
                match spread {
                    None if point.failures > 0 => "failed".to_owned(),
                    _ => or(spread.map(|it| it.mean)),
                },
                spread
                    .and_then(|it| point.cell.confidence(it, &reading))
                    .unwrap_or_else(|| or(None)),
                or(spread.and_then(|it| it.deviation)),
                or(spread.map(Spread::least)),
                or(spread.map(Spread::most)),
                runs_of(point),
            ]
            .map(text),
        );
        if others {
            let found = paper_of(question, &point.cell);
            let times = found.zip(spread).filter(|(found, _)| found.value != 0.0);
            let deviation = found.and_then(|it| it.deviation);
            let deviation = deviation.map(|it| format!(" ± {}", reading.said(it)));
            let said = or(found.map(|it| it.value)) + &deviation.unwrap_or_default();
            cells.push(text(said));
            cells.push(text(times.map_or_else(
                || "–".to_owned(),
                |(found, spread)| format!("{:.2}", spread.mean / found.value),
            )));
        }
        cells.extend(limited.then(|| word_cell(limit::of_cell(&point.cell))));
        lines.push(cells);
    }
    List::of_known(&columns, &lines).whole() + &sources(&question.others)
}

/// The number of runs with a value, and of those that failed.
fn runs_of(point: &Point<'_>) -> String {
    let all = point.cell.runs.len() + point.cell.failed;
    match point.failures {
        0 => point.cell.runs.len().to_string(),
        failed => format!("{}, {failed} failed", all.saturating_sub(failed)),
    }
}

/// The result in a sentence or two: the range of the means, with the points of the least and the most.
pub(crate) fn words(study: &Study, points: &[Point<'_>]) -> String {
    let reading = study.y.reading(&study.runs);
    let known: Vec<(&Point<'_>, &Spread)> = points
        .iter()
        .filter_map(|point| Some((point, point.spread.as_ref()?)))
        .collect();
    let by_mean = |one: &&(&Point<'_>, &Spread), other: &&(&Point<'_>, &Spread)| {
        one.1.mean.total_cmp(&other.1.mean)
    };
    let (Some(least), Some(most)) = (known.iter().min_by(by_mean), known.iter().max_by(by_mean))
    else {
        return doubt::nothing(study);
    };
    let what = escaped(&capital(&study.y.to_string()));
    if known.len() == 1 {
        return format!("{what} was <strong>{}</strong>.", reading.said(most.1.mean));
    }
    let place = |point: &Point<'_>| escaped(&point.cell.name());
    if most.1.mean - least.1.mean <= most.1.mean.abs() * SAME {
        return format!(
            "{what} was the same everywhere: <strong>{}</strong>.",
            reading.said(most.1.mean)
        );
    }
    let mut words = format!(
        "{what} was <strong>{}</strong> at least ({}) and <strong>{}</strong> at most ({})",
        reading.said(least.1.mean),
        place(least.0),
        reading.said(most.1.mean),
        place(most.0)
    );
    if least.1.mean > 0.0 {
        words += &format!(", a factor of {:.2}", most.1.mean / least.1.mean);
    }
    words.push('.');
    words
}

pub(crate) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
