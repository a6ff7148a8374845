//! The log's tail: records written after the checkpoint, up to where a crash tore it (docs/store-format.md 8).

use std::collections::BTreeMap;

use dhow_bundle::crc::{CrcDigest, CrcType};
use dhow_bundle::mutant::{Mutant, planted};

use crate::bodies::{Bodies, Body};
use crate::disk::DiskError;
use crate::loss::{Cause, Loss, LostPlace};
use crate::record::{HEADER_OCTETS, Header, Kind, Layout, Place};
use crate::recovery::Map;
use crate::replay::Replay;
use crate::superblock::CheckpointPlace;
use crate::walk::{Step, Walk, Window};
use crate::wire::{Reader, index};

/// Octets of a payload checked at a time.
const CHECK_OCTETS: u64 = 1024 * 1024;

/// The place at which a tail begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The log's first segment: no checkpoint was made yet.
    First,
    /// The log's first segment: the checkpoint is damaged.
    Lost,
    /// The checkpoint.
    Checkpoint(CheckpointPlace),
}

/// A record that changes what the store holds.
#[derive(Debug)]
struct Record {
    place: Place,
    segment: u32,
    kind: Kind,
    payload: u32,
    /// `None` for a commit whose body is damaged.
    body: Option<Body>,
}

/// A payload that must be whole if nothing says that it was synced.
#[derive(Debug)]
struct Unchecked {
    place: Place,
    segment: u32,
    position: u64,
    octets: u32,
    crc: u32,
}

/// A place at which no valid record follows.
#[derive(Clone, Copy, Debug)]
struct Gap {
    place: Place,
    segment: u32,
    /// The loss here if it is before the durable place, and not told of by the records.
    cause: Option<Cause>,
}

/// A segment of the tail.
#[derive(Debug)]
pub(crate) struct TailSegment {
    pub(crate) end: u32,
    pub(crate) seal: u32,
    /// Whether it holds records that the store's contents follow from.
    pub(crate) effective: bool,
}

/// The records after a checkpoint.
#[derive(Debug)]
pub(crate) struct Tail {
    records: Vec<Record>,
    bodies: Bodies,
    unchecked: Vec<Unchecked>,
    gaps: Vec<Gap>,
    durable: Place,
    /// The end of the log when it was closed.
    closed: Place,
    /// End of each valid record from the durable place on, for the count of what is cut.
    ends: Vec<(Place, u64)>,
    pub(crate) segments: BTreeMap<u64, TailSegment>,
    /// The place from which on nothing counts.
    cut: Option<Place>,
    /// Behind the last valid record before the durable place, with its segment.
    last: Option<(Place, u32)>,
    pub(crate) torn_octets: u64,
}

impl Tail {
    /// Reads the records from a place on. Without the checkpoint's beginning, segments follow one another with
    /// gaps, and only the last one's end can be torn. All before the place where the log was `closed` is durable. About so
    /// many records are `expected`.
    pub(crate) fn read(
        window: &mut Window,
        layout: &Layout,
        map: &Map,
        from: Start,
        closed: Option<Place>,
        bodies_octets: u64,
        expected: usize,
    ) -> Result<Self, DiskError> {
        let mut tail = Self {
            records: Vec::new(),
            bodies: Bodies::with_bound(bodies_octets),
            unchecked: Vec::new(),
            gaps: Vec::new(),
            durable: closed.unwrap_or_default(),
            closed: closed.unwrap_or_default(),
            ends: Vec::new(),
            segments: BTreeMap::new(),
            cut: None,
            last: None,
            torn_octets: 0,
        };
        // Without the memory for all at once they may still be fewer.
        let _ = tail.records.try_reserve(expected);
        let checkpoint_lost = from == Start::Lost;
        let (from, named) = match from {
            Start::First | Start::Lost => (Place::default(), 0),
            Start::Checkpoint(checkpoint) => (checkpoint.place, checkpoint.number),
        };
        let mut previous = None;
        for (generation, segment) in map.by_generation.range(from.generation..) {
            let known = map.segments.get(index(*segment));
            let known = known.copied().unwrap_or_default();
            let told = known.previous;
            if previous.is_some() && told != previous && !checkpoint_lost {
                tail.gaps.push(Gap {
                    place: Place {
                        generation: *generation,
                        offset: 0,
                    },
                    segment: *segment,
                    cause: told
                        .is_some_and(|told| told > 0 && !map.by_generation.contains_key(&told))
                        .then_some(Cause::Segment),
                });
            }
            previous = Some(*generation);
            let offset = if *generation == from.generation {
                from.offset
            } else {
                0
            };
            tail.read_segment(
                window,
                Walk::new(
                    *layout,
                    *segment,
                    *generation,
                    offset,
                    known.octets.unwrap_or(u32::MAX),
                ),
                layout,
                *segment,
                named,
            )?;
        }
        if let (true, Some(last)) = (checkpoint_lost, previous) {
            tail.durable = tail.durable.max(Place {
                generation: last,
                offset: 0,
            });
        }
        tail.check_payloads(window)?;
        tail.find_cut();
        Ok(tail)
    }

    fn read_segment(
        &mut self,
        window: &mut Window,
        mut walk: Walk,
        layout: &Layout,
        segment: u32,
        named: u64,
    ) -> Result<(), DiskError> {
        let mut found = TailSegment {
            end: walk.offset(),
            seal: 0,
            effective: false,
        };
        let generation = walk.generation();
        while let Some(step) = walk.step(window)? {
            match step {
                Step::Gap(offset) => {
                    // Without a checkpoint, segments are read that a run before ended where it stopped.
                    let ended =
                        named == 0 && walk.is_at_end() && generation != self.closed.generation;
                    self.gaps.push(Gap {
                        place: Place { generation, offset },
                        segment,
                        cause: (!ended).then_some(Cause::Stretch),
                    });
                }
                Step::Damaged(offset, header) => {
                    self.take_damaged(Place { generation, offset }, segment, header.kind);
                }
                Step::Record(offset, header) => {
                    let place = Place { generation, offset };
                    let octets = header.record_octets();
                    found.end = u32::try_from(u64::from(offset) + octets).unwrap_or(u32::MAX);
                    if place >= self.durable {
                        self.ends.push((place, octets));
                    }
                    self.reach(generation, found.end, segment);
                    self.take(place, segment, &header, &walk.body, layout);
                    found.effective |= matches!(
                        header.kind,
                        Kind::Octets | Kind::Commit | Kind::Delete | Kind::Reserve
                    ) || (header.kind == Kind::Checkpoint
                        && Reader(&walk.body).varint() == Some(named));
                    if header.kind == Kind::Seal {
                        found.seal = offset;
                    }
                }
            }
        }
        self.segments.insert(generation, found);
        Ok(())
    }

    /// Notes a record whose body is damaged.
    fn take_damaged(&mut self, place: Place, segment: u32, kind: Kind) {
        let cause = match kind {
            Kind::Delete | Kind::Reserve => Some(Cause::Record),
            Kind::Commit => {
                self.records.push(Record {
                    place,
                    segment,
                    kind,
                    payload: 0,
                    body: None,
                });
                None
            }
            Kind::Segment | Kind::Octets | Kind::Mark | Kind::Checkpoint | Kind::Seal => None,
        };
        self.gaps.push(Gap {
            place,
            segment,
            cause,
        });
    }

    fn reach(&mut self, generation: u64, offset: u32, segment: u32) {
        let place = Place { generation, offset };
        if place <= self.closed && self.last.is_none_or(|(last, _)| last < place) {
            self.last = Some((place, segment));
        }
    }

    fn take(&mut self, place: Place, segment: u32, header: &Header, body: &[u8], layout: &Layout) {
        if header.payload_octets > 0 && place >= self.durable {
            let position = layout.position(segment, place.offset) + u64::from(HEADER_OCTETS);
            self.unchecked.push(Unchecked {
                place,
                segment,
                position,
                octets: header.payload_octets,
                crc: header.payload_crc,
            });
        }
        match header.kind {
            Kind::Mark => {
                let mut reader = Reader(body);
                if let (Some(generation), Some(offset)) = (reader.varint(), reader.varint_u32()) {
                    // A mark speaks of what was before it.
                    let durable = Place { generation, offset }.min(place);
                    self.durable = self.durable.max(durable);
                    let durable = self.durable;
                    self.unchecked
                        .retain(|unchecked| unchecked.place >= durable);
                    self.ends.retain(|(place, _)| *place >= durable);
                }
            }
            Kind::Commit | Kind::Delete | Kind::Reserve => {
                let position = header.body_position(layout.position(segment, place.offset));
                let body = self.bodies.add(position, body);
                let payload = header.payload_octets;
                self.records.push(Record {
                    place,
                    segment,
                    kind: header.kind,
                    payload,
                    body: Some(body),
                });
            }
            Kind::Segment | Kind::Octets | Kind::Checkpoint | Kind::Seal => {}
        }
    }

    fn check_payloads(&mut self, window: &mut Window) -> Result<(), DiskError> {
        for unchecked in std::mem::take(&mut self.unchecked) {
            if unchecked.place < self.durable || planted(Mutant::TornPayloadTrusted) {
                continue;
            }
            let mut running = CrcDigest::new(CrcType::Crc32C);
            let mut at = 0;
            let mut whole = true;
            while at < u64::from(unchecked.octets) {
                let step = (u64::from(unchecked.octets) - at).min(CHECK_OCTETS);
                match window.octets(unchecked.position + at, step)? {
                    Some(octets) => running.update(octets),
                    None => whole = false,
                }
                at += step;
            }
            if !whole || running.value() != unchecked.crc {
                self.gaps.push(Gap {
                    place: unchecked.place,
                    segment: unchecked.segment,
                    cause: None,
                });
            }
        }
        Ok(())
    }

    fn find_cut(&mut self) {
        self.gaps.sort_unstable_by_key(|gap| gap.place);
        self.cut = self
            .gaps
            .iter()
            .map(|gap| gap.place)
            .find(|place| *place >= self.durable);
        let Some(cut) = self.cut else { return };
        self.torn_octets = self
            .ends
            .iter()
            .filter(|(place, _)| *place >= cut)
            .map(|(_, octets)| octets)
            .sum();
        for (generation, segment) in &mut self.segments {
            if *generation > cut.generation {
                *segment = TailSegment {
                    end: 0,
                    seal: 0,
                    effective: false,
                };
            } else if *generation == cut.generation {
                segment.end = segment.end.min(cut.offset);
                segment.seal = if segment.seal < cut.offset {
                    segment.seal
                } else {
                    0
                };
            }
        }
    }

    /// Does what the records say, up to the cut.
    pub(crate) fn apply(&mut self, replay: &mut Replay, layout: &Layout, window: &mut Window) {
        for record in std::mem::take(&mut self.records) {
            let Place { generation, offset } = record.place;
            if self.cut.is_some_and(|cut| record.place >= cut) {
                break;
            }
            if planted(Mutant::TailDropped) && record.place >= self.durable {
                break;
            }
            let body = record.body.as_ref();
            let body = body.and_then(|body| self.bodies.read(body, window));
            let Some(body) = body else {
                replay.add_lost(record.segment, generation, offset);
                continue;
            };
            let read = match record.kind {
                Kind::Delete if planted(Mutant::DeletionsNotReplayed) => Some(()),
                Kind::Delete => replay.delete_all(body),
                Kind::Reserve => replay.reserve(body),
                _ => {
                    let position = layout.position(record.segment, offset)
                        + u64::from(HEADER_OCTETS)
                        + u64::from(record.payload);
                    let body = (position, body);
                    replay.add(record.segment, generation, offset, record.payload, body);
                    Some(())
                }
            };
            if read.is_none() {
                self.gaps.push(Gap {
                    place: record.place,
                    segment: record.segment,
                    cause: Some(Cause::Record),
                });
            }
        }
    }

    /// Adds what is damaged before the durable place, but for bundles' commit records.
    pub(crate) fn tell(&self, layout: &Layout, loss: &mut Loss) {
        for gap in &self.gaps {
            if let Some(cause) = gap.cause.filter(|_| gap.place < self.durable) {
                loss.add(LostPlace {
                    id: None,
                    position: layout.position(gap.segment, gap.place.offset),
                    cause,
                });
            }
        }
    }

    /// The last segment that holds records which the store's contents follow from. Octets after it may be written over before
    /// the next checkpoint: nothing that counts names it for the one before.
    pub(crate) fn last_effective(&self) -> u64 {
        let mut effective = self
            .segments
            .iter()
            .filter(|(_, segment)| segment.effective);
        effective
            .next_back()
            .map_or(0, |(generation, _)| *generation)
    }

    /// End of the last valid record at or before the place where the log was closed.
    pub(crate) fn last(&self) -> Option<(Place, u32)> {
        self.last
    }
}
