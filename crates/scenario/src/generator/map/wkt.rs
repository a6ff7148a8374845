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

/// The points of a text: those of `POINT` and `MULTIPOINT`, and those of lines.
///
/// # Errors
/// The first geometry that is neither, with its line.
pub(super) fn read_points(file: &Path, text: &str) -> Result<Vec<Place>, FileError> {
    let mut places = Vec::new();
    for (line, geometry) in geometries(text) {
        let name = geometry.split(|letter: char| !letter.is_ascii_alphabetic());
        let name = name.into_iter().next().unwrap_or_default();
        if !["POINT", "MULTIPOINT"]
            .iter()
            .any(|it| it.eq_ignore_ascii_case(name))
        {
            let streets =
                read(file, geometry).map_err(|error| FileError::at(file, line, error.what))?;
            places.extend(streets.into_iter().flat_map(|(_, points)| points));
            continue;
        }
        let shown: String = geometry.chars().take(SHOWN).collect();
        let no_point = || {
            FileError::at(file, line, format!("'{shown}' is not a point in metres"))
                .with_hint("for example: POINT (2552.4 7341.9)")
        };
        let found = match Wkt::<f64>::from_str(geometry) {
            Ok(Wkt::Point(point)) => vec![point],
            Ok(Wkt::MultiPoint(points)) => points.points().to_vec(),
            _ => return Err(no_point()),
        };
        for point in found {
            let place = point
                .coord()
                .and_then(|at| Some((millimetres(at.x)?, millimetres(at.y)?)));
            places.push(place.ok_or_else(no_point)?);
        }
    }
    Ok(places)
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
