//! Streets of OpenStreetMap's XML: ways with the tag `highway`, projected onto a plane.

use std::collections::BTreeMap;
use std::path::Path;

use dhow_document::FileError;
use roxmltree::{Document, Node};

use super::{Street, millimetres};
use crate::generator::meeting::Place;

/// The Earth's mean radius, metres.
const EARTH_RADIUS_M: f64 = 6_371_000.8;

/// The plane of a file: places are metres from the crossing of the equator and Greenwich's meridian, and those from west to east
/// as long as they are at the file's first point.
#[derive(Debug, Default)]
pub(super) struct Projection {
    scale: Option<f64>,
}

impl Projection {
    /// The place of a point, degrees; none where it is too far away.
    pub(super) fn place(&mut self, north: f64, east: f64) -> Option<Place> {
        let scale = *self.scale.get_or_insert_with(|| cosine(north.to_radians()));
        let x = millimetres(EARTH_RADIUS_M * east.to_radians() * scale)?;
        let y = millimetres(EARTH_RADIUS_M * north.to_radians())?;
        Some((x, y))
    }
}

/// The streets of a document.
///
/// # Errors
/// When it is not XML, or a node has no place, with the line.
pub(super) fn read(file: &Path, text: &str) -> Result<Vec<Street>, FileError> {
    let document = Document::parse(text).map_err(|error| {
        let line = usize::try_from(error.pos().row).unwrap_or(0);
        FileError::at(file, line, format!("it is not XML: {error}"))
            .with_hint("an extract of OpenStreetMap (.osm), or well-known text")
    })?;
    let line = |node: Node<'_, '_>| {
        let at = document.text_pos_at(node.range().start);
        usize::try_from(at.row).unwrap_or(0)
    };
    let elements = |name: &'static str| {
        let all = document.root_element().children();
        all.filter(move |node| node.has_tag_name(name))
    };
    let mut places: BTreeMap<&str, Place> = BTreeMap::new();
    let mut projection = Projection::default();
    for node in elements("node") {
        let degrees = |key: &str, most: f64| {
            let found = node.attribute(key)?.parse::<f64>().ok()?;
            (found.abs() <= most).then_some(found)
        };
        let read = || {
            let (north, east) = (degrees("lat", 90.0)?, degrees("lon", 180.0)?);
            Some((node.attribute("id")?, projection.place(north, east)?))
        };
        let mut read = read;
        let (id, place) = read().ok_or_else(|| {
            FileError::at(file, line(node), "a <node> has no place")
                .with_hint("it has an id, a lat from -90 to 90 and a lon from -180 to 180")
        })?;
        places.insert(id, place);
    }
    let is_street = |way: &Node<'_, '_>| {
        let mut tags = way.children().filter(|tag| tag.has_tag_name("tag"));
        tags.any(|tag| tag.attribute("k") == Some("highway"))
    };
    let streets = elements("way").filter(is_street).map(|way| {
        let points = way.children().filter(|point| point.has_tag_name("nd"));
        // An extract leaves out points beyond its edge.
        let points = points.filter_map(|point| places.get(point.attribute("ref")?).copied());
        (line(way), points.collect())
    });
    Ok(streets.collect())
}

/// A cosine of up to a quarter of a circle, by its series: that of no machine's library takes part.
fn cosine(angle: f64) -> f64 {
    let square = angle * angle;
    let (mut sum, mut term, mut divisor) = (1.0, 1.0, 0.0);
    for _ in 0..12 {
        term *= -square / ((divisor + 1.0) * (divisor + 2.0));
        divisor += 2.0;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_are_those_of_the_library() {
        for degrees in [0.0_f64, 30.0, 60.17, 90.0] {
            let angle = degrees.to_radians();
            assert!((cosine(angle) - angle.cos()).abs() < 1e-12, "{degrees}");
        }
    }
}
