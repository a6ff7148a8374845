//! Files of maps, and the field of hosts that keep to no street.
//!
//! The ONE moves a map to (0, 0), where its field begins, too. A scenario leaves a map where it is, so that a field may have to go there.

use super::settings::number;
use super::{MANY_MAX, Writer, Wrong, movement, toml_text, whole};
use crate::regular_file::read_text;

/// Octets of a file with a map.
const MAP_OCTETS_MAX: u64 = 256 << 20;

/// A map that begins nearer to (0, 0) begins there, metres.
const AT_ORIGIN_M: f64 = 1.0;

/// Place of hosts that keep to no street.
#[derive(Debug)]
pub(super) enum Field {
    /// `MovementModel.worldSize` from (0, 0) on.
    World,
    /// The maps of these paths, as TOML.
    Maps(String),
}

/// A place, metres to the east and to the north.
type Metres = (f64, f64);

impl Writer<'_> {
    /// The path of a file that settings name; a note where there is none.
    pub(super) fn path(&mut self, name: &str) -> String {
        let path = self.root.join(name);
        if self.files.insert(path.clone()) && !path.is_file() {
            self.notes
                .push(format!("{name}: there is no file {}", path.display()));
        }
        path.to_string_lossy().into_owned()
    }

    /// Decides where hosts are that keep to no street: around the map, where others are on one that does not lie within the world.
    pub(super) fn place_field(&mut self, groups: &[u64]) -> Result<(), Wrong> {
        let models = groups.iter();
        let models = models.filter_map(|group| self.settings.of_group(*group, "movementModel"));
        let is_free = |movement: &str| matches!(movement, "straight" | "none");
        let (free, mapped): (Vec<&str>, Vec<&str>) =
            models.filter_map(movement).partition(|it| is_free(it));
        if free.is_empty() || mapped.is_empty() {
            return Ok(());
        }
        let mut files = Vec::new();
        for map in 1..=self.count("MapBasedMovement.nrofMapFiles", MANY_MAX)? {
            let file = self.need(&format!("MapBasedMovement.mapFile{map}"), |text| {
                Some(text.to_owned())
            })?;
            files.push(self.path(&file));
        }
        let (width, height) = self.world()?;
        let Some((least, most)) = corners_of(&files) else {
            return Ok(());
        };
        if least.0.abs() < AT_ORIGIN_M && least.1.abs() < AT_ORIGIN_M {
            return Ok(());
        }
        let begins = format!(
            "the map begins at ({:.0}, {:.0}), and The ONE moves it to (0, 0)",
            least.0, least.1
        );
        if least.0 >= 0.0 && least.1 >= 0.0 && most.0 <= width && most.1 <= height {
            self.note(format!(
                "{begins}: here it stays, and hosts that keep to no street are within MovementModel.worldSize from (0, 0)"
            ));
            return Ok(());
        }
        self.note(format!(
            "{begins}: here it stays, and hosts of RandomWaypoint and RandomWalk move within its corners, {:.0} m by {:.0} m, not within MovementModel.worldSize, {width} m by {height} m; those of StationaryMovement stay at points of the map",
            most.0 - least.0,
            most.1 - least.1
        ));
        let files: Vec<String> = files.iter().map(|file| toml_text(file)).collect();
        self.field = Field::Maps(files.join(", "));
        Ok(())
    }

    /// Width and height of the world, whole metres.
    fn world(&self) -> Result<Metres, Wrong> {
        self.need("MovementModel.worldSize", |text| {
            let (width, height) = text.split_once(',')?;
            Some((number(width)?.ceil(), number(height)?.ceil()))
        })
    }

    pub(super) fn write_field(&mut self) -> Result<(), Wrong> {
        if let Field::Maps(files) = &self.field {
            let line = format!("map = [{files}]");
            self.line(format_args!("{line}"));
            return Ok(());
        }
        let (width, height) = self.world()?;
        self.line(format_args!("width_m = {width}\nheight_m = {height}"));
        Ok(())
    }

    pub(super) fn write_maps(&mut self, group: u64) -> Result<(), Wrong> {
        let count = self.count("MapBasedMovement.nrofMapFiles", MANY_MAX)?;
        let chosen = self.of(group, "okMaps", |text| {
            let numbers = text.split(',').map(|text| whole(text, MANY_MAX));
            numbers.collect::<Option<Vec<u64>>>()
        })?;
        let mut files = Vec::new();
        for map in 1..=count {
            let file = self.need(&format!("MapBasedMovement.mapFile{map}"), |text| {
                Some(text.to_owned())
            })?;
            if chosen.as_ref().is_none_or(|chosen| chosen.contains(&map)) {
                files.push(toml_text(&self.path(&file)));
            }
        }
        let files = files.join(", ");
        self.line(format_args!("map = [{files}]"));
        Ok(())
    }
}

/// The south-west and the north-east corner of maps together; nothing where one cannot be read, or none has a street.
fn corners_of(files: &[String]) -> Option<(Metres, Metres)> {
    let mut corners: Option<(Metres, Metres)> = None;
    for file in files {
        let text = read_text(file.as_ref(), MAP_OCTETS_MAX).ok()?;
        for (x, y) in points(&text) {
            let (least, most) = corners.unwrap_or(((x, y), (x, y)));
            corners = Some((
                (least.0.min(x), least.1.min(y)),
                (most.0.max(x), most.1.max(y)),
            ));
        }
    }
    corners
}

/// The points of all lines of well-known text.
fn points(text: &str) -> impl Iterator<Item = Metres> {
    let mut is_line = false;
    text.split(['(', ')', ',']).filter_map(move |part| {
        let mut words = part.split_ascii_whitespace();
        let first = words.next()?;
        if first.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            is_line = first.to_ascii_uppercase().ends_with("LINESTRING");
            return None;
        }
        let (x, y) = (first.parse::<f64>().ok()?, words.next()?.parse().ok()?);
        (is_line && x.is_finite() && f64::is_finite(y)).then_some((x, y))
    })
}
