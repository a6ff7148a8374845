//! What was measured against what was set: the picture and the table.

use dhow_page::quantity::count;
use dhow_page::{Axis, Curve, List, Look, Picture, Scale, escaped, text};

use super::measure::{placed, said};
use super::statistics::Spread;
use super::study::{Cell, Others, Study};
use super::worth::{axis_of, worth};
use super::{doubt, limit};

/// A cell with its values.
pub(crate) struct Point<'a> {
    pub(crate) cell: Cell<'a>,
    /// Nothing where no run has a value.
    pub(crate) spread: Option<Spread>,
}

/// All cells with their values.
pub(crate) fn points(study: &Study) -> Vec<Point<'_>> {
    let cells = study.cells().into_iter();
    cells
        .map(|cell| {
            let values = cell.runs.iter();
            let values = values.filter_map(|told| study.y.of(told));
            let spread = Spread::of(values.collect());
            Point { cell, spread }
        })
        .collect()
}

/// Where values along have their places.
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
            _ => worth(x).map_or(0, |(place, _)| place),
        }
    }
}

/// The picture: every run a dot, means joined by a line with their confidence, and what others found.
pub(crate) fn picture(study: &Study, points: &[Point<'_>]) -> String {
    let question = &study.question;
    let Some(x) = &question.x else {
        return String::new();
    };
    let along = Along::new(points, &question.others);
    let up = study.y.axis(&study.runs);
    let mut curves: Vec<Curve> = Vec::new();
    for point in points {
        let Some(spread) = &point.spread else {
            continue;
        };
        let group = &point.cell.group;
        let name = if group.is_empty() {
            "measured here"
        } else {
            group
        };
        if curves.last().is_none_or(|curve| curve.name != name) {
            curves.push(Curve::new(name, Look::Coloured(curves.len())));
        }
        let Some(curve) = curves.last_mut() else {
            continue;
        };
        let at = along.place(&point.cell.x);
        curve.points.push((at, placed(up, spread.mean)));
        let dots = spread.values.iter().map(|value| (at, placed(up, *value)));
        curve.dots.extend(dots);
        if let Some(half) = spread.confidence() {
            let (low, high) = (spread.mean - half, spread.mean + half);
            curve.bars.push((at, placed(up, low), placed(up, high)));
        }
    }
    curves.extend(of_others(&question.others, &along, up));
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
    let title = format!("{}, by {x}", capital(&study.y.to_string()));
    let mut picture = Picture::new(&title, &curves, along.axis, up);
    picture.along_scale = scale(question.log_x && along.axis != Axis::Name);
    picture.up_scale = scale(question.log_y);
    let mut out = picture.svg();
    if along.axis == Axis::Name {
        let names = (1..).zip(&along.names);
        let names = names.map(|(number, name)| format!("{number}: {}", escaped(name)));
        out += &format!(
            "<p class=\"note\">{}.</p>",
            names.collect::<Vec<_>>().join(", ")
        );
    }
    out
}

fn of_others(others: &[Others], along: &Along, up: Axis) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for it in others {
        let name = match it.group.as_str() {
            "" => "the paper".to_owned(),
            group => format!("the paper: {group}"),
        };
        if !curves.iter().any(|curve| curve.name == name) {
            curves.push(Curve::new(name.as_str(), Look::Faint));
        }
        let Some(curve) = curves.iter_mut().find(|curve| curve.name == name) else {
            continue;
        };
        let at = along.place(&it.x);
        curve.points.push((at, placed(up, it.value)));
        if let (Some(least), Some(most)) = (it.least, it.most) {
            curve.bars.push((at, placed(up, least), placed(up, most)));
        }
    }
    curves
}

/// The table: every point with its spread, what others found there, and what limited it.
pub(crate) fn table(study: &Study, points: &[Point<'_>]) -> String {
    let question = &study.question;
    let axis = study.y.axis(&study.runs);
    let others = !question.others.is_empty();
    let mut columns = vec![question.x.clone().unwrap_or_else(|| "all runs".to_owned())];
    let grouped = points.iter().any(|point| !point.cell.group.is_empty());
    if grouped {
        columns.push(question.group_by.clone().unwrap_or_else(|| "of".to_owned()));
    }
    let measured = study.y.to_string();
    columns.extend([measured.as_str(), "±, 95 %", "σ", "least", "most", "runs"].map(str::to_owned));
    if others {
        columns.extend(["the paper", "times the paper"].map(str::to_owned));
    }
    columns.push("limit".to_owned());
    let columns: Vec<String> = columns.iter().map(|it| escaped(it)).collect();
    let mut list = List::new(&columns);
    for point in points {
        let mut cells = vec![text(escaped(&point.cell.x))];
        if grouped {
            cells.push(text(escaped(&point.cell.group)));
        }
        let or = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |it| said(axis, it));
        let spread = point.spread.as_ref();
        cells.extend(
            [
                or(spread.map(|it| it.mean)),
                spread
                    .and_then(|it| point.cell.confidence(it, axis))
                    .unwrap_or_else(|| or(None)),
                or(spread.and_then(|it| it.deviation)),
                or(spread.map(Spread::least)),
                or(spread.map(Spread::most)),
                point.cell.runs.len().to_string(),
            ]
            .map(text),
        );
        if others {
            let found = question.others.iter().find(|it| {
                it.x == point.cell.x && (it.group.is_empty() || it.group == point.cell.group)
            });
            let times = found.zip(spread).filter(|(found, _)| found.value != 0.0);
            cells.push(text(or(found.map(|it| it.value))));
            cells.push(text(times.map_or_else(
                || "–".to_owned(),
                |(found, spread)| format!("{:.2}", spread.mean / found.value),
            )));
        }
        let limit = point.cell.runs.first();
        let limit = limit.map_or_else(
            || "no run came to its end".to_owned(),
            |told| limit::limit(told),
        );
        cells.push(text(limit));
        list.line(&cells);
    }
    list.whole()
}

/// What was found, in a sentence or two: where it was least and where most, and whether that was expected.
pub(crate) fn words(study: &Study, points: &[Point<'_>]) -> String {
    let axis = study.y.axis(&study.runs);
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
        return format!("{what} was <strong>{}</strong>.", said(axis, most.1.mean));
    }
    let place = |point: &Point<'_>| escaped(&point.cell.name());
    if least.1.mean > most.1.mean * 0.99 {
        return format!(
            "{what} was the same everywhere: <strong>{}</strong>.",
            said(axis, most.1.mean)
        );
    }
    let mut words = format!(
        "{what} went from <strong>{}</strong> ({}) to <strong>{}</strong> ({})",
        said(axis, least.1.mean),
        place(least.0),
        said(axis, most.1.mean),
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
