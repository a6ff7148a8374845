//! The cost of a megabyte delivered: time of processors and links, and energy.

use dhow_page::quantity::{count, thousands};
use dhow_page::{List, escaped, text};

use super::measure::Measure;
use super::study::Study;

/// The cost of a megabyte in each combination; empty if nothing was delivered.
pub(crate) fn table(study: &Study) -> String {
    let measures = [Measure::Processor, Measure::LinkTime, Measure::Energy];
    let mut list = List::new(&["", "processors", "links", "energy", "runs"]);
    let mut is_known = false;
    for cell in study.cells() {
        let mut cells = vec![text(escaped(&cell.name()))];
        for measure in &measures {
            let spread = cell.spread(measure);
            is_known |= spread.is_some();
            let reading = measure.reading(&study.runs);
            let words = spread.map(|spread| {
                let mean = reading.said(spread.mean);
                match spread.confidence() {
                    Some(_) if cell.is_of_no_seed(&spread) => format!("{mean}, whatever the seed"),
                    Some(half) => format!("{mean} ± {}", reading.said(half)),
                    None => mean,
                }
            });
            cells.push(text(words.unwrap_or_else(|| "–".to_owned())));
        }
        cells.push(text(thousands(count(cell.runs.len()))));
        list.line(&cells);
    }
    match is_known {
        true => format!("<h3>Cost of a megabyte</h3>{}", list.whole()),
        false => String::new(),
    }
}
