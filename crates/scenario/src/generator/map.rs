//! Maps: the streets on which hosts move, and the shortest paths along them.

mod osm;
mod pbf;
mod wkt;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use dhow_document::FileError;

use super::meeting::{Place, apart};
use crate::entropy::Entropy;
use crate::regular_file::{RegularFile, read_text};

/// Octets of a file with a map: that of a large city has less.
const FILE_OCTETS_MAX: u64 = 256 << 20;

/// Octets by which a file's kind is known.
const START_OCTETS: u64 = 64;

/// Points that a map may have.
const POINTS_MAX: usize = 2_000_000;

/// Points of a file of places: each is looked for among all of the map.
const PLACES_MAX: usize = 10_000;

/// Points that all searches for paths of one map may look at: more takes longer than anybody waits.
const SEARCHED_MAX: u64 = 5_000_000_000;

/// The coordinates' largest absolute value, metres: any projection of the whole Earth is within it.
const METRES_MAX: f64 = 50_000_000.0;

/// A line of a file: its number, and the points on it.
type Street = (usize, Vec<Place>);

/// Streets between points.
#[derive(Debug, Default)]
pub(super) struct Map {
    points: Vec<Place>,
    /// The points to which a street leads from each point, with its length in millimetres.
    streets: Vec<Vec<(u32, i64)>>,
    /// The points of the largest connected piece, in order.
    connected: Vec<u32>,
    searched: u64,
}

impl Map {
    /// The map of some files together.
    ///
    /// # Errors
    /// When a file cannot be read, with the line that is wrong, or has no street.
    pub(super) fn read(files: &[PathBuf]) -> Result<Self, FileError> {
        let mut map = Self::default();
        let mut known: BTreeMap<Place, u32> = BTreeMap::new();
        for file in files {
            for (line, street) in read_streets(file)? {
                let ends = street.iter().zip(street.iter().skip(1));
                for (first, second) in ends.filter(|(first, second)| first != second) {
                    map.join(&mut known, (*first, *second)).map_err(|what| {
                        // A file of no text has no lines.
                        let error = match line {
                            0 => FileError::of_file(file, what),
                            line => FileError::at(file, line, what),
                        };
                        error.with_hint("take a smaller part of the map")
                    })?;
                }
            }
        }
        map.connected = map.largest_piece();
        match (map.connected.is_empty(), files.first()) {
            (true, Some(file)) => Err(FileError::of_file(
                file,
                "a map has a street between two points",
            )),
            _ => Ok(map),
        }
    }

    fn join(
        &mut self,
        known: &mut BTreeMap<Place, u32>,
        (first, second): (Place, Place),
    ) -> Result<(), String> {
        let mut point = |place: Place| {
            let next = u32::try_from(self.points.len()).unwrap_or(u32::MAX);
            let number = *known.entry(place).or_insert(next);
            if number == next {
                self.points.push(place);
                self.streets.push(Vec::new());
            }
            number
        };
        let ends = (point(first), point(second));
        if self.points.len() > POINTS_MAX {
            return Err(format!("a map has at most {POINTS_MAX} points"));
        }
        // Rounded up, so that no way round is shorter than the straight one.
        let length = apart(first, second) + 1;
        for (from, to) in [ends, (ends.1, ends.0)] {
            if let Some(streets) = self.streets.get_mut(index(from))
                && !streets.iter().any(|(known, _)| *known == to)
            {
                streets.push((to, length));
            }
        }
        Ok(())
    }

    fn largest_piece(&self) -> Vec<u32> {
        let mut seen = vec![false; self.points.len()];
        let mut largest: Vec<u32> = Vec::new();
        for start in 0..self.points.len() {
            let Ok(start) = u32::try_from(start) else {
                break;
            };
            let mut piece = Vec::new();
            let mut waiting = vec![start];
            while let Some(point) = waiting.pop() {
                match seen.get_mut(index(point)) {
                    Some(seen) if !*seen => *seen = true,
                    _ => continue,
                }
                piece.push(point);
                let streets = self.streets.get(index(point)).into_iter().flatten();
                waiting.extend(streets.map(|(to, _)| *to));
            }
            if piece.len() > largest.len() {
                largest = piece;
            }
        }
        largest.sort_unstable();
        largest
    }

    /// The points that are connected with each other, by number: all that hosts go to. Not empty.
    pub(super) fn connected(&self) -> &[u32] {
        &self.connected
    }

    /// The number of points to which no path leads from the connected ones.
    pub(super) const fn unconnected(&self) -> usize {
        self.points.len() - self.connected.len()
    }

    /// The place of a point.
    pub(super) fn place(&self, point: u32) -> Place {
        self.points.get(index(point)).copied().unwrap_or_default()
    }

    /// The south-west and the north-east corner.
    pub(super) fn corners(&self) -> (Place, Place) {
        let x = || self.points.iter().map(|place| place.0);
        let y = || self.points.iter().map(|place| place.1);
        let least = (x().min().unwrap_or(0), y().min().unwrap_or(0));
        (least, (x().max().unwrap_or(0), y().max().unwrap_or(0)))
    }

    /// The connected point that is nearest to a place.
    pub(super) fn nearest(&self, place: Place) -> Option<u32> {
        let points = self.connected.iter().copied();
        points.min_by_key(|point| (apart(self.place(*point), place), *point))
    }

    /// The places along the shortest path from one point to another, both included (A*).
    ///
    /// # Errors
    /// When no path leads there, or the searches on this map have taken too long.
    pub(super) fn path(&mut self, from: u32, to: u32) -> Result<Vec<Place>, String> {
        let goal = self.place(to);
        let mut best = vec![(i64::MAX, from); self.points.len()];
        let mut ahead = BinaryHeap::from([Reverse((apart(self.place(from), goal), 0, from))]);
        if let Some(best) = best.get_mut(index(from)) {
            *best = (0, from);
        }
        while let Some(Reverse((_, length, point))) = ahead.pop() {
            if point == to {
                return Ok(self.along(&best, from, to));
            }
            if best.get(index(point)).is_none_or(|best| best.0 < length) {
                continue;
            }
            self.searched += 1;
            for (next, street) in self.streets.get(index(point)).into_iter().flatten() {
                let length = length + street;
                if let Some(best) = best.get_mut(index(*next))
                    && length < best.0
                {
                    *best = (length, point);
                    let guess = length + apart(self.place(*next), goal);
                    ahead.push(Reverse((guess, length, *next)));
                }
            }
            if self.searched > SEARCHED_MAX {
                return Err("hosts take too many paths on so large a map".to_owned());
            }
        }
        Err("no street leads from one stop to another".to_owned())
    }

    /// The points of a walk over so many streets from a point on, by chance: back the same street only where there is no other.
    pub(super) fn stroll(&self, from: u32, streets: u64, entropy: &mut Entropy) -> Vec<u32> {
        let mut way = vec![from];
        let (mut at, mut before) = (from, None);
        for _ in 0..streets {
            let next = self.streets.get(index(at)).into_iter().flatten();
            let next: Vec<u32> = next.map(|(to, _)| *to).collect();
            let on: Vec<u32> = next
                .iter()
                .copied()
                .filter(|to| Some(*to) != before)
                .collect();
            let choice = if on.is_empty() { next } else { on };
            let drawn = entropy.below(u64::try_from(choice.len()).unwrap_or(0));
            let drawn = usize::try_from(drawn).unwrap_or(0);
            let Some(to) = choice.get(drawn) else {
                break;
            };
            (before, at) = (Some(at), *to);
            way.push(at);
        }
        way
    }

    fn along(&self, best: &[(i64, u32)], from: u32, to: u32) -> Vec<Place> {
        let mut path = vec![self.place(to)];
        let mut point = to;
        while point != from {
            let Some((_, before)) = best.get(index(point)) else {
                break;
            };
            point = *before;
            path.push(self.place(point));
        }
        path.reverse();
        path
    }
}

/// The stops of a route: the points of the lines of a file, one after the other.
///
/// # Errors
/// When the file cannot be read, or has no two points.
pub(super) fn read_route(file: &Path) -> Result<Vec<Place>, FileError> {
    let stops: Vec<Place> = read_streets(file)?
        .into_iter()
        .flat_map(|(_, points)| points)
        .collect();
    match stops.len() {
        0 | 1 => Err(FileError::of_file(file, "a route has at least two stops")),
        _ => Ok(stops),
    }
}

/// The connected points of a map that are nearest to the points of a file: well-known text, `POINT` and `MULTIPOINT` and the points of lines. Each counts once.
///
/// # Errors
/// When the file cannot be read, or has no point.
pub(super) fn read_points(file: &Path, map: &Map) -> Result<Vec<u32>, FileError> {
    let text = read_text(file, FILE_OCTETS_MAX)
        .map_err(|error| FileError::of_file(file, format!("cannot be read: {error}")))?;
    let places = wkt::read_points(file, &text)?;
    if places.len() > PLACES_MAX {
        let what = format!("has more than {PLACES_MAX} points");
        return Err(FileError::of_file(file, what));
    }
    let mut points: Vec<u32> = places
        .into_iter()
        .filter_map(|at| map.nearest(at))
        .collect();
    points.sort_unstable();
    points.dedup();
    match points.is_empty() {
        true => Err(FileError::of_file(file, "has no point")
            .with_hint("for example: POINT (2552.4 7341.9)")),
        false => Ok(points),
    }
}

fn read_streets(file: &Path) -> Result<Vec<Street>, FileError> {
    let unread = |error: io::Error| FileError::of_file(file, format!("cannot be read: {error}"));
    let mut start = Vec::new();
    let input = RegularFile::open(file, FILE_OCTETS_MAX).map_err(unread)?;
    input
        .take(START_OCTETS)
        .read_to_end(&mut start)
        .map_err(unread)?;
    if pbf::is_pbf(&start) {
        return pbf::read(file);
    }
    let text = read_text(file, FILE_OCTETS_MAX).map_err(unread)?;
    match text.trim_start().starts_with('<') {
        true => osm::read(file, &text),
        false => wkt::read(file, &text),
    }
}

/// Metres as whole millimetres; nothing where they are no place on Earth.
fn millimetres(metres: f64) -> Option<i64> {
    if !metres.is_finite() || metres.abs() > METRES_MAX {
        return None;
    }
    #[expect(clippy::as_conversions, reason = "checked above: at most 5e10")]
    let whole = (metres * 1_000.0).round() as i64;
    Some(whole)
}

fn index(point: u32) -> usize {
    usize::try_from(point).unwrap_or(usize::MAX)
}
