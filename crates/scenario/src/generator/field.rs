//! Nodes at random places, which stay or walk: those within reach of each other have a contact.

use std::time::Duration;

use dhow_document::{Document, Entries, FileError};

use super::add_nodes;
use super::meeting::{self, MM, Place, apart};
use crate::entropy::Entropy;
use crate::kind::LinkKind;
use crate::network::Network;
use crate::scenario::{Contact, NodeIndex};

/// The purpose of the random numbers for places and walks.
const PURPOSE: u64 = Entropy::OURS + 10;

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
            let pairs = meeting::pairs(&walk.places, walk.reach).map_err(wrong)?;
            for between in pairs.into_iter().filter_map(ends) {
                network.add_link(between, None, &kind).map_err(wrong)?;
            }
            continue;
        }
        if let Some(what) = meeting::too_many_looks(nodes.len(), walk.step, end) {
            let error = document.fault(entries.line_of("step"), what);
            return Err(error.with_hint("make 'step' longer"));
        }
        let met = meeting::meetings((walk.reach, walk.step, end), |now| {
            walk.go(now);
            Ok(walk.places.clone())
        });
        for meeting in met.map_err(wrong)? {
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
        let length = apart(from, to);
        // A millisecond at least, so that time goes on.
        let arrives = leaves + (length * 1_000 / speed).max(1);
        Leg {
            from,
            to,
            times: (leaves, arrives, arrives + pause),
        }
    }
}
