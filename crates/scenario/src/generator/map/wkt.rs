//! Streets as well-known text: `LINESTRING` and `MULTILINESTRING`, in metres from west to east and from south to north. Points are left.

use std::path::Path;
use std::str::FromStr as _;

use ::wkt::Wkt;
use ::wkt::types::LineString;
use dhow_document::FileError;

use super::{METRES_MAX, Street, millimetres};
use crate::generator::meeting::Place;

const HINT: &str = "a map has LINESTRING (x y, x y) and MULTILINESTRING ((x y, x y), …), in metres";

/// Characters of a fault's text that are shown.
const SHOWN: usize = 40;

/// The streets of a text, with the line on which each begins.
///
/// # Errors
/// The first geometry that is no line, with its line.
pub(super) fn read(file: &Path, text: &str) -> Result<Vec<Street>, FileError> {
    let mut streets = Vec::new();
    for (line, geometry) in geometries(text) {
        let wrong = |what: String| FileError::at(file, line, what).with_hint(HINT);
        let shown: String = geometry.chars().take(SHOWN).collect();
        // The name first: collections nest, and a parser goes down with them.
        let name = geometry.split(|letter: char| !letter.is_ascii_alphabetic());
        let name = name.into_iter().next().unwrap_or_default();
        let is_any = |known: &[&str]| known.iter().any(|it| it.eq_ignore_ascii_case(name));
        // Points of interest are no streets, and none is in their way.
        if is_any(&["POINT", "MULTIPOINT"]) {
            continue;
        }
        let no_line = |why: &str| wrong(format!("'{shown}' is not a line{why}"));
        if !is_any(&["LINESTRING", "MULTILINESTRING"]) {
            return Err(no_line(""));
        }
        let lines = match Wkt::<f64>::from_str(geometry) {
            Ok(Wkt::LineString(line)) => vec![line],
            Ok(Wkt::MultiLineString(lines)) => lines.line_strings().to_vec(),
            Ok(_) => return Err(no_line("")),
            Err(error) => return Err(no_line(&format!(": {error}"))),
        };
        for street in &lines {
            let points = points(street).ok_or_else(|| {
                wrong(format!(
                    "a coordinate is not a number of metres up to {METRES_MAX}"
                ))
            })?;
            streets.push((line, points));
        }
    }
    Ok(streets)
}

fn points(line: &LineString<f64>) -> Option<Vec<Place>> {
    let coordinates = line.coords().iter();
    coordinates
        .map(|at| Some((millimetres(at.x)?, millimetres(at.y)?)))
        .collect()
}

/// The geometries of a text, each with the number of its first line.
fn geometries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text;
    let mut line = 1;
    std::iter::from_fn(move || {
        let trimmed = rest.trim_start();
        let skipped = rest.get(..rest.len() - trimmed.len())?;
        line += skipped.matches('\n').count();
        if trimmed.is_empty() {
            return None;
        }
        let (geometry, behind) = trimmed.split_at(end_of_first(trimmed));
        let first = line;
        line += geometry.matches('\n').count();
        rest = behind;
        Some((first, geometry))
    })
}

/// The end of the first geometry: behind the parenthesis that closes its first.
fn end_of_first(text: &str) -> usize {
    let mut depth = 0_u32;
    for (at, octet) in text.bytes().enumerate() {
        match octet {
            b'(' => depth += 1,
            b')' if depth <= 1 => return at + 1,
            b')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}
