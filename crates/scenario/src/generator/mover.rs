//! One host that moves: by the shortest paths on a map, along a route, or in straight lines.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::map::Map;
use super::meeting::{Place, apart};
use super::working_day::Itinerary;
use crate::entropy::Entropy;

/// The next place of a host.
#[derive(Clone, Debug)]
pub(super) enum Movement {
    /// To a random point of a map, by the shortest path: of those of interest, where there are any, as often as is said.
    ShortestPath {
        map: Rc<RefCell<Map>>,
        at: u32,
        interests: Rc<[Interest]>,
    },
    /// To the next stop of a route, by the shortest path.
    Route {
        map: Rc<RefCell<Map>>,
        stops: Rc<[u32]>,
        turn: Turn,
        at: usize,
        is_back: bool,
    },
    /// To a random place between two corners, in a straight line.
    Straight { corners: (Place, Place) },
    /// The movement as planned.
    Planned(Itinerary),
    /// Nowhere.
    None,
}

/// Points of a map to which hosts go more often than to others.
#[derive(Clone, Debug)]
pub(super) struct Interest {
    /// The part of all ways that lead to one of them, billionths.
    pub(super) part: u32,
    pub(super) points: Vec<u32>,
}

/// The way of a route from its last stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// To the first.
    Round,
    /// Back by the same stops.
    Back,
}

/// A way under way: its points, and when the host is at each, milliseconds; when it leaves the last one.
#[derive(Clone, Debug, Default)]
struct Way {
    points: Vec<(i64, Place)>,
    leaves: i64,
}

/// A host.
#[derive(Clone, Debug)]
pub(super) struct Mover {
    pub(super) movement: Movement,
    /// The slowest and the fastest, millimetres an hour.
    pub(super) speeds: (u64, u64),
    pub(super) pause: (Duration, Duration),
    pub(super) entropy: Entropy,
    place: Place,
    way: Way,
}

impl Mover {
    /// A host at a place, about to go.
    pub(super) fn new(
        movement: Movement,
        (speeds, pause): ((u64, u64), (Duration, Duration)),
        place: Place,
        entropy: Entropy,
    ) -> Self {
        Self {
            movement,
            speeds,
            pause,
            entropy,
            place,
            way: Way::default(),
        }
    }

    /// The place at a time, milliseconds from the start; times only go on.
    ///
    /// # Errors
    /// When there is no path.
    pub(super) fn place(&mut self, now: i64) -> Result<Place, String> {
        match &self.movement {
            Movement::None => return Ok(self.place),
            Movement::Planned(places) => return Ok(along(places, now).unwrap_or(self.place)),
            _ => {}
        }
        while self.way.leaves <= now {
            self.leave()?;
        }
        Ok(along(&self.way.points, now).unwrap_or(self.place))
    }

    /// Begins the next way.
    fn leave(&mut self) -> Result<(), String> {
        let path = self.next_path()?;
        let (slowest, fastest) = self.speeds;
        let speed = slowest + self.entropy.below(fastest - slowest + 1);
        let pause = self.entropy.between(self.pause.0, self.pause.1);
        let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 4);
        let leaves = self.way.leaves;
        let mut length = 0_i64;
        let mut points = Vec::with_capacity(path.len());
        let mut last = path.first().copied().unwrap_or(self.place);
        for place in path {
            length = length.saturating_add(apart(last, place));
            // Millimetres at so many an hour.
            let ms = i128::from(length) * 3_600_000 / i128::from(speed.max(1));
            let ms = i64::try_from(ms).unwrap_or(i64::MAX / 4);
            points.push((leaves.saturating_add(ms), place));
            last = place;
        }
        self.place = last;
        let arrives = points.last().map_or(leaves, |(at, _)| *at);
        // A millisecond at least, so that time goes on.
        let leaves = arrives.saturating_add(pause).max(leaves.saturating_add(1));
        self.way = Way { points, leaves };
        Ok(())
    }

    fn next_path(&mut self) -> Result<Vec<Place>, String> {
        match &mut self.movement {
            Movement::ShortestPath { map, at, interests } => {
                let mut map = map.borrow_mut();
                let to = somewhere(&map, interests, &mut self.entropy);
                let path = map.path(*at, to)?;
                *at = to;
                Ok(path)
            }
            Movement::Route {
                map,
                stops,
                turn,
                at,
                is_back,
            } => {
                let last = stops.len() - 1;
                let next = match (*turn, *is_back) {
                    (Turn::Round, _) => (*at + 1) % stops.len(),
                    (Turn::Back, false) if *at == last => last.saturating_sub(1),
                    (Turn::Back, true) if *at == 0 => 1.min(last),
                    (Turn::Back, false) => *at + 1,
                    (Turn::Back, true) => *at - 1,
                };
                *is_back = next < *at && *turn == Turn::Back;
                let stop = |at: usize| stops.get(at).copied().unwrap_or_default();
                let path = map.borrow_mut().path(stop(*at), stop(next))?;
                *at = next;
                Ok(path)
            }
            Movement::Straight { corners } => {
                let to = within(*corners, &mut self.entropy);
                Ok(vec![self.place, to])
            }
            Movement::Planned(_) | Movement::None => Ok(vec![self.place]),
        }
    }
}

/// The place at a time of somebody who is at these places at these times; none of nobody.
fn along(points: &[(i64, Place)], now: i64) -> Option<Place> {
    let behind = points.partition_point(|(at, _)| *at <= now);
    let before = behind.checked_sub(1).and_then(|last| points.get(last));
    match (before, points.get(behind)) {
        (Some(from), Some(to)) => Some(between(*from, *to, now)),
        (Some((_, place)), None) | (None, Some((_, place))) => Some(*place),
        (None, None) => None,
    }
}

/// A point of a map, by chance: of those of interest, as often as is said.
fn somewhere(map: &Map, interests: &[Interest], entropy: &mut Entropy) -> u32 {
    if interests.is_empty() {
        return anywhere(map, entropy);
    }
    let mut drawn = entropy.below(1_000_000_000);
    for interest in interests {
        if drawn < u64::from(interest.part) {
            let number = entropy.below(u64::try_from(interest.points.len()).unwrap_or(0));
            let number = usize::try_from(number).unwrap_or(0);
            return interest.points.get(number).copied().unwrap_or_default();
        }
        drawn -= u64::from(interest.part);
    }
    anywhere(map, entropy)
}

/// A point of a map, by chance.
pub(super) fn anywhere(map: &Map, entropy: &mut Entropy) -> u32 {
    let points = map.connected();
    let drawn = entropy.below(u64::try_from(points.len()).unwrap_or(0));
    let drawn = usize::try_from(drawn).unwrap_or(0);
    points.get(drawn).copied().unwrap_or_default()
}

/// A place between two corners, by chance.
pub(super) fn within((least, most): (Place, Place), entropy: &mut Entropy) -> Place {
    let mut drawn = |least: i64, most: i64| {
        let span = u64::try_from(most - least).unwrap_or(0);
        least + i64::try_from(entropy.below(span + 1)).unwrap_or(0)
    };
    (drawn(least.0, most.0), drawn(least.1, most.1))
}

fn between((left, from): (i64, Place), (arrives, to): (i64, Place), now: i64) -> Place {
    let part = |from: i64, to: i64| {
        let gone = i128::from(to - from) * i128::from(now - left) / i128::from(arrives - left);
        from + i64::try_from(gone).unwrap_or(0)
    };
    (part(from.0, to.0), part(from.1, to.1))
}
