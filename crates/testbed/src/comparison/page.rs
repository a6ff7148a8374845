//! The comparison as a page: the result, every difference with its interval, and pictures of both sides.

use std::fmt::Write as _;

use dhow_page::quantity::{count, things};
use dhow_page::{Axis, Curve, List, Look, Page, Picture, escaped, text, words};

use super::estimate::Verdict;
use super::pairing::{Compared, Comparison};
use crate::number::whole;
use crate::report::{Measure, axis_of, placed, worth};

/// Pictures of one comparison, at most.
const PICTURES_MAX: usize = 12;

/// Curves of one side in a picture, at most: of more only the table tells.
const CURVES_MAX: usize = 4;

/// Rows of one side alone that are listed, at most.
const ALONE_MAX: usize = 60;

/// Half of the width of a drawn interval, in the drawing's units.
const HALF: f64 = 100.0;

/// A page about comparisons, each of one study by its name.
#[must_use]
pub fn page(comparisons: &[(String, Comparison)]) -> String {
    let Some((_, first)) = comparisons.first() else {
        return Page::new("Nothing to compare").end();
    };
    let mut page = Page::new("Two results compared");
    let (a, b) = (&first.a.directory, &first.b.directory);
    // Of several studies the directories of all are those that are compared.
    let whole = |path: &std::path::Path| match comparisons.len() {
        1 => path.display().to_string(),
        _ => path.parent().unwrap_or(path).display().to_string(),
    };
    page.lead(&format!(
        "A is <code>{}</code>, and B <code>{}</code>. Differences are those of B from A.",
        escaped(&whole(a)),
        escaped(&whole(b))
    ));
    for (name, comparison) in comparisons {
        if comparisons.len() > 1 {
            page.heading(&escaped(name));
        }
        add(&mut page, comparison);
    }
    page.end()
}

fn add(page: &mut Page, it: &Comparison) {
    page.paragraph(&escaped(&it.sentence()));
    for line in it.remarks() {
        page.warning(&escaped(&line));
    }
    page.subheading("Differences, and values that are not known");
    match it.differs.is_empty() {
        true => page.paragraph("Scenario, settings, version and machine are the same."),
        false => {
            let mut list = List::new(&["", "A", "B"]);
            for differing in &it.differs {
                list.line(&[
                    text(escaped(&differing.what)),
                    words(escaped(&differing.a)),
                    words(escaped(&differing.b)),
                ]);
            }
            page.add(&list.whole());
        }
    }
    page.subheading("Differences");
    page.note(
        "Medians of A and B, and the difference of means relative to the mean of A with its 95 % confidence interval: the bar. A bar across the middle line is noise; one that reaches the edge of its cell goes on beyond it.",
    );
    page.add(&differences(it));
    page.add(&pictures(it));
    alone(page, it);
}

/// A line of each figure, with its difference drawn.
fn differences(it: &Comparison) -> String {
    let reach = reach(it);
    let mut list = List::new(&[
        "figure",
        "set",
        "A",
        "B",
        "B ÷ A",
        "difference",
        "",
        "verdict",
    ]);
    let mut same: Vec<String> = Vec::new();
    for figure in &it.figures {
        if figure.verdict() == Verdict::Same {
            let set = it.set(figure);
            same.push(escaped(&format!("{} ({set})", figure.measure)));
            continue;
        }
        let (a, b) = figure.estimate.medians();
        let ratio = figure.estimate.ratio();
        list.line(&[
            text(escaped(&figure.measure.to_string())),
            words(escaped(&it.set(figure))),
            text(escaped(&figure.said(a))),
            text(escaped(&figure.said(b))),
            text(ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"))),
            text(escaped(&figure.difference())),
            text(drawn(figure, reach)),
            text(verdict(figure.verdict())),
        ]);
    }
    let all_same = same.len() == it.figures.len();
    let mut out = if all_same {
        String::new()
    } else {
        list.whole()
    };
    if !same.is_empty() {
        let figures = things(count(same.len()), "figure is", "figures are");
        let _ = write!(
            out,
            "<details><summary>{figures} the same in both</summary><p>{}.</p></details>",
            same.join(", ")
        );
    }
    out
}

/// A verdict with a sign of its own, so that its colour says nothing alone.
fn verdict(verdict: Verdict) -> String {
    let (sign, class) = match verdict {
        Verdict::Better => ("▲ ", ""),
        Verdict::Worse => ("▼ ", " class=\"bad\""),
        Verdict::Differs => ("◆ ", ""),
        Verdict::Noise | Verdict::Same | Verdict::Unknown => ("", ""),
    };
    format!("<span{class}>{sign}{}</span>", verdict.word())
}

/// The part of A's mean at both edges of the drawn intervals: the largest difference that is more than noise, and 5 % at least.
fn reach(it: &Comparison) -> f64 {
    let parts = it.figures.iter().filter_map(|figure| {
        let part = figure.part(figure.estimate.difference())?;
        let is_told = !matches!(figure.verdict(), Verdict::Noise | Verdict::Same);
        is_told.then_some(part.abs())
    });
    parts.fold(0.05, f64::max).min(2.0) * 1.1
}

/// The interval of a difference as a bar about its middle, with the line of no difference.
fn drawn(figure: &Compared, reach: f64) -> String {
    let place = |part: f64| whole((part / reach).clamp(-1.0, 1.0).mul_add(HALF, HALF));
    let Some(middle) = figure.part(figure.estimate.difference()) else {
        return "–".to_owned();
    };
    let said = escaped(&figure.difference());
    let mut out = format!(
        "<svg viewBox=\"0 0 200 16\" role=\"img\" style=\"min-width:7rem;margin:0\"><title>{said}</title><path class=\"grid\" d=\"M100 0v16\"/>"
    );
    let interval = figure.estimate.interval();
    let ends = interval.and_then(|it| Some((figure.part(it.low)?, figure.part(it.high)?)));
    // Colours are those of curves: the second of a loss, the third of a gain, and the last of all else.
    let class = match figure.verdict() {
        Verdict::Better => "c2",
        Verdict::Worse => "c1",
        Verdict::Differs => "c0",
        Verdict::Noise | Verdict::Same | Verdict::Unknown => "c5",
    };
    // Writing into a text does not fail.
    if let Some((low, high)) = ends {
        let (low, high) = (place(low), place(high));
        let _ = write!(
            out,
            "<path class=\"whisker {class}\" style=\"stroke-width:4\" d=\"M{low} 8H{high}\"/>"
        );
    }
    let _ = write!(
        out,
        "<circle class=\"dot {class}\" cx=\"{}\" cy=\"8\" r=\"4\"/></svg>",
        place(middle)
    );
    out
}

/// Pictures of both sides: along what both sweep where they do, and otherwise beside each other.
fn pictures(it: &Comparison) -> String {
    let asked = (it.a.x.as_ref()).filter(|x| it.keys.contains(x));
    let along = asked.or(it.keys.first());
    let is_drawn = |figure: &Compared| match figure.verdict() {
        Verdict::Better | Verdict::Worse | Verdict::Differs => true,
        Verdict::Same => false,
        // Two dots of nothing show nothing; a curve may show where it begins to differ.
        Verdict::Noise | Verdict::Unknown => along.is_some(),
    };
    let mut measures: Vec<&Measure> = Vec::new();
    for figure in it.figures.iter().filter(|figure| is_drawn(figure)) {
        if !measures.contains(&&figure.measure) {
            measures.push(&figure.measure);
        }
    }
    let mut out = String::new();
    let (left_out, mut panels) = (measures.len().saturating_sub(PICTURES_MAX), Vec::new());
    for measure in measures.into_iter().take(PICTURES_MAX) {
        let of_it: Vec<&Compared> = { it.figures.iter() }
            .filter(|figure| figure.measure == *measure)
            .collect();
        let drawn = Drawn::of(it, &of_it, along.map(String::as_str));
        panels.extend((!drawn.curves.is_empty()).then(|| (capital(&measure.to_string()), drawn)));
    }
    let notes: Vec<String> = match panels.first() {
        Some((_, first)) if first.axis == Axis::Name => first.names.clone(),
        _ => Vec::new(),
    };
    let shown: Vec<Picture<'_>> = { panels.iter() }
        .map(|(title, it)| Picture::new(title, &it.curves, it.axis, it.up))
        .collect();
    let title = match along {
        Some(key) => format!("A and B, by {key}"),
        None => "A and B".to_owned(),
    };
    if !shown.is_empty() {
        out += "<h3>Pictures</h3>";
        out += &Picture::panels(&title, &shown);
    }
    if !notes.is_empty() {
        let names = (1..).zip(&notes);
        let names = names.map(|(number, name): (usize, _)| format!("{number}: {}", escaped(name)));
        let names = names.collect::<Vec<_>>().join(", ");
        let _ = write!(out, "<p class=\"note\">{names}.</p>");
    }
    if left_out > 0 {
        let more = things(count(left_out), "figure is", "figures are");
        let _ = write!(out, "<p class=\"note\">{more} in the table alone.</p>");
    }
    out
}

/// The curves of one figure.
struct Drawn {
    axis: Axis,
    names: Vec<String>,
    up: Axis,
    curves: Vec<Curve>,
}

impl Drawn {
    fn of(it: &Comparison, figures: &[&Compared], along: Option<&str>) -> Self {
        let mut names: Vec<String> = Vec::new();
        let x = |figure: &Compared| {
            let value = along.and_then(|key| figure.point.value(key));
            value.unwrap_or_default().to_owned()
        };
        for figure in figures {
            let name = x(figure);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let axis = axis_of(names.iter().map(String::as_str)).unwrap_or(Axis::Name);
        let up = figures
            .first()
            .map_or(Axis::Count, |figure| figure.reading.axis());
        let mut curves: Vec<Curve> = Vec::new();
        let mut groups: Vec<String> = Vec::new();
        for figure in figures {
            let rest = figure
                .point
                .0
                .iter()
                .filter(|(key, _)| Some(key.as_str()) != along);
            let rest = rest.map(|(key, value)| format!("{key}={value}"));
            let backend = figure.backend.filter(|_| it.has_backends());
            let rest: Vec<String> = rest.chain(backend.map(|it| it.to_string())).collect();
            let group = rest.join(" ");
            if !groups.contains(&group) {
                groups.push(group.clone());
            }
            let number = groups.iter().position(|it| *it == group).unwrap_or(0);
            if number >= CURVES_MAX {
                continue;
            }
            let sides = [("A", &figure.estimate.a), ("B", &figure.estimate.b)];
            for (side, (name, spread)) in sides.into_iter().enumerate() {
                if spread.least() < 0.0 {
                    continue;
                }
                let name = match group.as_str() {
                    "" => name.to_owned(),
                    group => format!("{name}, {group}"),
                };
                let look = Look::Coloured(number * 2 + side);
                if !curves.iter().any(|curve| curve.name == name) {
                    curves.push(Curve::new(name.as_str(), look));
                }
                let Some(curve) = curves.iter_mut().find(|curve| curve.name == name) else {
                    continue;
                };
                let at = match axis {
                    Axis::Name => place_of(&names, &x(figure), side, along.is_none()),
                    _ => worth(&x(figure)).map_or(0, |(place, _)| place),
                };
                let mean = (at, placed(up, spread.mean));
                match axis {
                    Axis::Name => curve.dots.push(mean),
                    _ => curve.points.push(mean),
                }
                let values = spread.values.iter();
                curve
                    .dots
                    .extend(values.map(|value| (at, placed(up, *value))));
                if let Some(half) = spread.confidence() {
                    let (low, high) = ((spread.mean - half).max(0.0), spread.mean + half);
                    curve.bars.push((at, placed(up, low), placed(up, high)));
                }
            }
        }
        for curve in &mut curves {
            curve.points.sort_by_key(|point| point.0);
        }
        let names = match along {
            Some(_) => names,
            None => vec!["A".to_owned(), "B".to_owned()],
        };
        Self {
            axis,
            names,
            up,
            curves,
        }
    }
}

/// The place of a name on its axis, from 1; where nothing is swept, A is 1 and B is 2.
fn place_of(names: &[String], name: &str, side: usize, is_by_side: bool) -> u64 {
    let place = names.iter().position(|it| it == name).unwrap_or(0);
    count(if is_by_side { side } else { place }) + 1
}

/// The rows of one side alone.
fn alone(page: &mut Page, it: &Comparison) {
    if it.alone.is_empty() {
        return;
    }
    page.subheading("In one alone");
    let mut list = List::new(&["set", "figure", "side"]);
    for alone in it.alone.iter().take(ALONE_MAX) {
        let figure = match alone.figure.as_str() {
            "" => "all",
            figure => figure,
        };
        list.line(&[
            words(escaped(&alone.set)),
            text(escaped(figure)),
            text(alone.side.to_uppercase()),
        ]);
    }
    page.add(&list.end(
        it.alone.len().min(ALONE_MAX),
        it.alone.len(),
        "those that come first.",
    ));
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters
        .next()
        .map(|it| it.to_uppercase().collect::<String>());
    first.unwrap_or_default() + letters.as_str()
}
