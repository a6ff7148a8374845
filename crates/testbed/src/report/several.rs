//! Several measures of each point in one table, where `[report]` names them.

use dhow_page::{List, escaped, text, words};

use super::curves::{Point, keys, paper_of, value};
use super::limit;
use super::measure::Measure;
use super::study::{Cell, Study};

/// A line for each point: what is measured, what others found, what else was measured, and what limited it; nothing where `table` names nothing.
pub(crate) fn table(study: &Study, points: &[Point<'_>]) -> String {
    let question = &study.question;
    if question.table.is_empty() {
        return String::new();
    }
    let others = !question.others.is_empty();
    let mut columns = vec![question.x.clone().unwrap_or_else(|| "all runs".to_owned())];
    let keys = keys(points);
    columns.extend(keys.iter().map(|key| (*key).to_owned()));
    columns.push(study.y.to_string());
    columns.extend(others.then(|| "the paper".to_owned()));
    columns.extend(question.table.iter().map(ToString::to_string));
    columns.push("limit".to_owned());
    let columns: Vec<String> = columns.iter().map(|it| escaped(it)).collect();
    let mut lines = Vec::new();
    for point in points {
        let cell = &point.cell;
        let mut cells = vec![text(escaped(&cell.x))];
        cells.extend(keys.iter().map(|key| text(escaped(value(cell, key)))));
        let reading = study.y.reading(&study.runs);
        cells.push(text(in_the_mean(study, &study.y, cell)));
        if others {
            let found = paper_of(question, cell);
            cells.push(text(
                found.map_or_else(|| "–".to_owned(), |it| reading.said(it.value)),
            ));
        }
        let measured = question.table.iter();
        cells.extend(measured.map(|measure| text(in_the_mean(study, measure, cell))));
        cells.push(words(limit::of_cell(cell)));
        lines.push(cells);
    }
    List::of_known(&columns, &lines).whole()
}

/// The mean of the runs of a cell, and how far it may be off where several tell.
fn in_the_mean(study: &Study, measure: &Measure, cell: &Cell<'_>) -> String {
    let Some(spread) = cell.spread(measure) else {
        return "–".to_owned();
    };
    let reading = measure.reading(&study.runs);
    let mean = reading.said(spread.mean);
    match cell.confidence(&spread, &reading) {
        Some(half) if !spread.is_one() => format!("{mean} ± {half}"),
        _ => mean,
    }
}
