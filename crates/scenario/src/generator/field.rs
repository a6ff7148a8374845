//! Nodes at random places, who stay or walk: those within reach of each other have a contact.

use std::collections::BTreeMap;
use std::time::Duration;

use dhow_document::{Document, Entries, FileError};

use super::add_nodes;
use crate::entropy::Entropy;
use crate::kind::LinkKind;
use crate::network::{CONTACTS_MAX, LINKS_MAX, Network};
use crate::scenario::{Contact, NodeIndex};

/// The purpose of the random numbers for places and walks.
const PURPOSE: u64 = Entropy::OURS + 10;

/// Millimetres in a metre; places are whole millimetres, so that they are the same on every machine.
const MM: i64 = 1_000;

/// Looks at a node, all nodes and steps together: more takes longer than anybody waits.
const LOOKS_MAX: u128 = 10_000_000_000;

pub(super) fn expand(
    document: &Document<'_>,
    network: &mut Network,
    seed: u64,
    end: Duration,
) -> Result<(), FileError> {
    for (number, entries) in document.all("field").enumerate() {
        let mut walk = Walk::read(document, entries, Entropy::new(seed, PURPOSE, number))?;
        let nodes = add_nodes(document, entries, network)?;
        let kind = LinkKind::read(document, entries)?;
        walk.place(nodes.len());
        let wrong = |what| document.fault(entries.line_of("name"), what);
        let ends = |pair: (u32, u32)| Some((at(&nodes, pair.0)?, at(&nodes, pair.1)?));
        if !walk.moves() {
            let pairs = walk.pairs().map_err(wrong)?;
            for between in pairs.into_iter().filter_map(ends) {
                network.add_link(between, None, &kind).map_err(wrong)?;
            }
            continue;
        }
        let looks = end.as_nanos() / walk.step.as_nanos();
        if looks * u128::try_from(nodes.len()).unwrap_or(u128::MAX) > LOOKS_MAX {
            let what = format!("{} nodes are looked at {looks} times", nodes.len());
            let error = document.fault(entries.line_of("step"), what);
            return Err(error.with_hint("make 'step' longer"));
        }
        for meeting in walk.meetings(end).map_err(wrong)? {
            let Some(between) = ends(meeting.pair) else {
                continue;
            };
            let link = match network.link_between(between) {
                Some(link) => link,
                None => network.add_link(between, None, &kind).map_err(wrong)?,
            };
            let contact = Contact {
                link,
                start: meeting.start,
                length: meeting.length,
                every: None,
            };
            network.add_contact(contact).map_err(wrong)?;
        }
    }
    Ok(())
}

fn at(nodes: &[NodeIndex], place: u32) -> Option<NodeIndex> {
    nodes.get(usize::try_from(place).ok()?).copied()
}

/// Two nodes within reach of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meeting {
    /// Their places in the list of nodes, the lower one first.
    pair: (u32, u32),
    start: Duration,
    length: Duration,
}

/// A place, millimetres from the west and the south.
type Place = (i64, i64);

/// One node's way to where it goes next.
#[derive(Clone, Copy, Debug)]
struct Leg {
    from: Place,
    to: Place,
    /// When it leaves, arrives, and leaves again, milliseconds.
    times: (i64, i64, i64),
}

impl Leg {
    /// The place at `now`, milliseconds from the start.
    fn place(&self, now: i64) -> Place {
        let (leaves, arrives, _) = self.times;
        if now >= arrives {
            return self.to;
        }
        let between = |from: i64, to: i64| from + (to - from) * (now - leaves) / (arrives - leaves);
        (
            between(self.from.0, self.to.0),
            between(self.from.1, self.to.1),
        )
    }
}

/// All nodes of a field.
struct Walk {
    size: Place,
    reach: i64,
    /// The slowest and the fastest, millimetres a second; nothing where nodes stay.
    speeds: Option<(i64, i64)>,
    pause: (Duration, Duration),
    step: Duration,
    entropy: Entropy,
    ways: Vec<Leg>,
    places: Vec<Place>,
}

impl Walk {
    fn read(
        document: &Document<'_>,
        entries: &Entries,
        entropy: Entropy,
    ) -> Result<Self, FileError> {
        let mm = |key: &str| entries.integer(key).unwrap_or_default() * MM;
        // A kilometre an hour is 1000000 mm in 3600 s.
        let speed = |key: &str| Some(entries.integer(key)? * 1_000_000 / 3_600);
        let fastest = speed("fastest_kmh");
        let slowest = speed("slowest_kmh").or(fastest);
        if fastest.is_none() && slowest.is_some() || fastest < slowest {
            let what = "'slowest_kmh' is at most 'fastest_kmh'";
            return Err(document.fault(entries.line_of("slowest_kmh"), what));
        }
        let step = entries.duration("step");
        if step < Duration::from_millis(1) {
            return Err(document.fault(entries.line_of("step"), "'step' is at least 1ms"));
        }
        Ok(Self {
            size: (mm("width_m"), mm("height_m")),
            reach: mm("reach_m"),
            speeds: slowest.zip(fastest),
            pause: entries.durations("pause").unwrap_or_default(),
            step,
            entropy,
            ways: Vec::new(),
            places: Vec::new(),
        })
    }

    const fn moves(&self) -> bool {
        self.speeds.is_some()
    }

    /// Puts so many nodes anywhere.
    fn place(&mut self, count: usize) {
        for _ in 0..count {
            let place = self.anywhere();
            self.places.push(place);
            self.ways.push(Leg {
                from: place,
                to: place,
                times: (0, 0, 0),
            });
        }
    }

    fn anywhere(&mut self) -> Place {
        (self.drawn(self.size.0), self.drawn(self.size.1))
    }

    /// A number from 0 to some other.
    fn drawn(&mut self, most: i64) -> i64 {
        let bound = u64::try_from(most).unwrap_or(0) + 1;
        i64::try_from(self.entropy.below(bound)).unwrap_or(0)
    }

    /// Moves all nodes to where they are at a time.
    fn go(&mut self, now: i64) {
        for node in 0..self.ways.len() {
            while let Some(way) = self
                .ways
                .get(node)
                .copied()
                .filter(|way| way.times.2 <= now)
            {
                let next = self.next_way(way);
                if let Some(way) = self.ways.get_mut(node) {
                    *way = next;
                }
            }
        }
        for (place, way) in self.places.iter_mut().zip(&self.ways) {
            *place = way.place(now);
        }
    }

    fn next_way(&mut self, way: Leg) -> Leg {
        let (slowest, fastest) = self.speeds.unwrap_or((1, 1));
        let (from, leaves) = (way.to, way.times.2);
        let to = self.anywhere();
        let speed = (slowest + self.drawn(fastest - slowest)).max(1);
        let pause = self.entropy.between(self.pause.0, self.pause.1);
        let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 4);
        let length = squared(from, to).isqrt();
        // A millisecond at least, so that time goes on.
        let arrives = leaves + (length * 1_000 / speed).max(1);
        Leg {
            from,
            to,
            times: (leaves, arrives, arrives + pause),
        }
    }

    /// The pairs of nodes within reach of each other, in order; else that they are too many.
    fn pairs(&self) -> Result<Vec<(u32, u32)>, String> {
        // Squares as wide as the reach: whoever is within it is in the same one or one beside it.
        let square = |place: &Place| (place.0 / self.reach, place.1 / self.reach);
        let places = (0_u32..).zip(&self.places);
        let mut squares: Vec<((i64, i64), u32)> =
            places.map(|(node, place)| (square(place), node)).collect();
        squares.sort_unstable();
        let mut pairs = Vec::new();
        for (node, place) in (0_u32..).zip(&self.places) {
            let (column, row) = square(place);
            for column in column - 1..=column + 1 {
                // One look finds the squares of three rows.
                let first = squares.partition_point(|(square, _)| *square < (column, row - 1));
                let others = squares.get(first..).unwrap_or_default().iter();
                let others = others.take_while(|(square, _)| *square <= (column, row + 1));
                let near = others
                    .map(|(_, other)| *other)
                    .filter(|other| *other > node && self.reaches(*place, *other));
                pairs.extend(near.map(|other| (node, other)));
                if pairs.len() > LINKS_MAX {
                    let what = format!("more than {LINKS_MAX} pairs of nodes are within reach");
                    return Err(what);
                }
            }
        }
        pairs.sort_unstable();
        Ok(pairs)
    }

    fn reaches(&self, place: Place, other: u32) -> bool {
        let other = usize::try_from(other)
            .ok()
            .and_then(|at| self.places.get(at));
        other.is_some_and(|other| squared(place, *other) <= self.reach * self.reach)
    }

    /// Everybody who meets until a time, in the order in which they part; else that they are too many.
    fn meetings(&mut self, end: Duration) -> Result<Vec<Meeting>, String> {
        let mut together: BTreeMap<(u32, u32), Duration> = BTreeMap::new();
        let mut meetings = Vec::new();
        let mut now = Duration::ZERO;
        while now < end {
            self.go(i64::try_from(now.as_millis()).unwrap_or(i64::MAX / 4));
            let pairs = self.pairs()?;
            together.retain(|pair, start| {
                let stay = pairs.binary_search(pair).is_ok();
                if !stay {
                    meetings.push(Meeting {
                        pair: *pair,
                        start: *start,
                        length: now.saturating_sub(*start),
                    });
                }
                stay
            });
            if meetings.len() > CONTACTS_MAX {
                return Err(format!("a scenario has at most {CONTACTS_MAX} contacts"));
            }
            for pair in pairs {
                together.entry(pair).or_insert(now);
            }
            now += self.step;
        }
        let left = together.into_iter().map(|(pair, start)| Meeting {
            pair,
            start,
            length: end.saturating_sub(start),
        });
        meetings.extend(left);
        Ok(meetings)
    }
}

/// The square of how far apart two places are.
fn squared(first: Place, second: Place) -> i64 {
    let (across, along) = (second.0 - first.0, second.1 - first.1);
    across * across + along * along
}
