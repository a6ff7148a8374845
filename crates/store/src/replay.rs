//! The state to which the records of a log amount when they are taken in order.

use std::collections::BTreeMap;

use dhow_bundle::DtnTime;

use crate::bodies::{Bodies, Body};
use crate::record::Place;
use crate::removed::Removed;
use crate::wire::{Reader, SharedEndpoints, index};

/// A commit record that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    pub(crate) payload: u32,
    pub(crate) body: Body,
    pub(crate) arrival: u64,
    /// Whether its bundle has octets outside the record.
    pub(crate) has_extents: bool,
    live: bool,
}

/// The state that a log's records lead to.
#[derive(Debug)]
pub(crate) struct Replay {
    commits: Vec<Commit>,
    /// Offset and place in `commits` of the commits of a generation; offsets rise.
    by_generation: BTreeMap<u64, Vec<(u32, u32)>>,
    bodies: Bodies,
    /// Commits that are damaged, with their segments.
    lost: BTreeMap<Place, u32>,
    pub(crate) removed: Removed,
    pub(crate) reserved: (DtnTime, u64),
    pub(crate) next_arrival: u64,
    shared: SharedEndpoints,
}

impl Replay {
    /// None so far; of bodies so many octets are kept in memory.
    pub(crate) fn new(removed: Removed, bodies_octets: u64) -> Self {
        Self {
            commits: Vec::new(),
            by_generation: BTreeMap::new(),
            bodies: Bodies::with_bound(bodies_octets),
            lost: BTreeMap::new(),
            removed,
            reserved: (DtnTime::UNKNOWN, 0),
            next_arrival: 0,
            shared: SharedEndpoints::default(),
        }
    }

    /// So many commits are likely to come: a table that grows is copied again and again.
    pub(crate) fn expect(&mut self, commits: usize) {
        // Without the memory for all at once they may still be fewer.
        let _ = self.commits.try_reserve(commits);
    }

    /// Takes in a commit record.
    pub(crate) fn add(
        &mut self,
        segment: u32,
        generation: u64,
        offset: u32,
        payload: u32,
        (position, body): (u64, &[u8]),
    ) {
        let mut reader = Reader(body);
        let mut read = || -> Option<(u64, Option<Place>)> {
            let arrival = reader.varint()?;
            let replaced = match reader.varint()? {
                0 => None,
                generation => Some(Place {
                    generation,
                    offset: reader.varint_u32()?,
                }),
            };
            Some((arrival, replaced))
        };
        let Some((arrival, replaced)) = read() else {
            return self.add_lost(segment, generation, offset);
        };
        if let Some(replaced) = replaced {
            self.delete(replaced);
        }
        let of_generation = self.by_generation.entry(generation).or_default();
        if of_generation
            .last()
            .is_some_and(|(last, _)| *last >= offset)
        {
            return;
        }
        let Some(extents) =
            passed_extents(&mut reader).filter(|_| reader.bundle(&mut self.shared).is_some())
        else {
            return self.add_lost(segment, generation, offset);
        };
        of_generation.push((
            offset,
            u32::try_from(self.commits.len()).unwrap_or(u32::MAX),
        ));
        self.commits.push(Commit {
            segment,
            offset,
            payload,
            body: self.bodies.add(position, body),
            arrival,
            has_extents: extents > 0,
            live: true,
        });
    }

    /// Notes a live commit that cannot be read.
    pub(crate) fn add_lost(&mut self, segment: u32, generation: u64, offset: u32) {
        self.lost.insert(Place { generation, offset }, segment);
    }

    fn delete(&mut self, place: Place) {
        self.lost.remove(&place);
        let Some(of_generation) = self.by_generation.get(&place.generation) else {
            return;
        };
        let found = of_generation.binary_search_by_key(&place.offset, |(offset, _)| *offset);
        let commit = found.ok().and_then(|found| of_generation.get(found));
        if let Some(commit) = commit.and_then(|(_, commit)| self.commits.get_mut(index(*commit))) {
            commit.live = false;
        }
    }

    /// Takes in the body of a delete record.
    pub(crate) fn delete_all(&mut self, body: &[u8]) -> Option<()> {
        let mut reader = Reader(body);
        for _ in 0..reader.varint()? {
            let place = Place {
                generation: reader.varint()?,
                offset: reader.varint_u32()?,
            };
            self.delete(place);
        }
        self.removed.read(&mut reader, &mut self.shared)
    }

    /// Takes in the body of a reserve record.
    pub(crate) fn reserve(&mut self, body: &[u8]) -> Option<()> {
        let mut reader = Reader(body);
        let time = DtnTime::from_millis(reader.varint()?);
        let sequence = reader.varint()?;
        self.reserved = (self.reserved.0.max(time), self.reserved.1.max(sequence));
        Some(())
    }

    /// The live commits, the bodies, and the damaged live commits.
    pub(crate) fn take_live(&mut self) -> (Vec<Commit>, Bodies, BTreeMap<Place, u32>) {
        self.by_generation.clear();
        self.shared = SharedEndpoints::default();
        let mut commits = std::mem::take(&mut self.commits);
        commits.retain(|commit| commit.live);
        commits.shrink_to_fit();
        (
            commits,
            std::mem::replace(&mut self.bodies, Bodies::with_bound(0)),
            std::mem::take(&mut self.lost),
        )
    }
}

/// Goes past the extents of a commit's body; how many there are comes back.
fn passed_extents(reader: &mut Reader<'_>) -> Option<u64> {
    let extents = reader.varint()?;
    for _ in 0..extents {
        reader.varint()?;
        reader.varint()?;
        reader.varint()?;
    }
    Some(extents)
}
