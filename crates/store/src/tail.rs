//! The log's tail: what was written after the checkpoint, up to where a crash tore it (docs/store-format.md 8).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::disk::DiskError;
use crate::record::{HEADER_OCTETS, Header, Kind, Layout, Place, RunningCrc};
use crate::recovery::Map;
use crate::replay::Replay;
use crate::walk::{Step, Walk, Window};
use crate::wire::{Reader, index, length};

/// Octets of a payload checked at a time.
const CHECK_OCTETS: u64 = 1024 * 1024;

/// A record that changes what the store holds.
#[derive(Debug)]
struct Record {
    place: Place,
    segment: u32,
    kind: Kind,
    payload: u32,
    body: Range<usize>,
}

/// A payload that must be whole if nothing says that it was synced.
#[derive(Debug)]
struct Unchecked {
    place: Place,
    position: u64,
    octets: u32,
    crc: u32,
}

/// Where no valid record follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Gap {
    place: Place,
    /// False where only a segment's predecessor is missing.
    counts: bool,
}

/// A segment of the tail.
#[derive(Debug)]
pub(crate) struct TailSegment {
    pub(crate) end: u32,
    pub(crate) seal: u32,
    /// It holds records that the store's contents follow from.
    pub(crate) effective: bool,
}

/// The records after a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    records: Vec<Record>,
    bodies: Vec<u8>,
    unchecked: Vec<Unchecked>,
    gaps: Vec<Gap>,
    durable: Place,
    /// End of each valid record from the durable place on, for the count of what is cut.
    ends: Vec<(Place, u64)>,
    pub(crate) segments: BTreeMap<u64, TailSegment>,
    /// From here on nothing counts.
    cut: Option<Place>,
    /// Damaged records before the durable place.
    pub(crate) damaged: u64,
    pub(crate) torn_octets: u64,
}

impl Tail {
    /// Reads the records from a place on. Without the checkpoint's beginning, segments follow one another with
    /// gaps, and only the last one's end can be torn.
    pub(crate) fn read(
        window: &mut Window<'_>,
        layout: &Layout,
        map: &Map,
        from: Place,
        checkpoint_lost: bool,
    ) -> Result<Self, DiskError> {
        let mut tail = Self::default();
        let mut previous = None;
        for (generation, segment) in map.by_generation.range(from.generation..) {
            let told = map
                .segments
                .get(index(*segment))
                .and_then(|(_, previous)| *previous);
            if previous.is_some() && told != previous && !checkpoint_lost {
                tail.gaps.push(Gap {
                    place: Place {
                        generation: *generation,
                        offset: 0,
                    },
                    counts: false,
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
                Walk::new(*layout, *segment, *generation, offset, u32::MAX),
                layout,
                *segment,
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
        window: &mut Window<'_>,
        mut walk: Walk,
        layout: &Layout,
        segment: u32,
    ) -> Result<(), DiskError> {
        let mut found = TailSegment {
            end: walk.offset(),
            seal: 0,
            effective: false,
        };
        let generation = walk.generation();
        while let Some(step) = walk.step(window)? {
            match step {
                Step::Gap(from) => {
                    self.gaps.push(Gap {
                        place: Place {
                            generation,
                            offset: from,
                        },
                        counts: true,
                    });
                }
                Step::Record(offset, header) => {
                    let place = Place { generation, offset };
                    let octets = header.record_octets();
                    found.end = u32::try_from(u64::from(offset) + octets).unwrap_or(u32::MAX);
                    self.ends.push((place, octets));
                    self.take(place, segment, &header, &walk.body, layout);
                    found.effective |= matches!(
                        header.kind,
                        Kind::Octets | Kind::Commit | Kind::Delete | Kind::Reserve
                    );
                    if header.kind == Kind::Seal {
                        found.seal = offset;
                    }
                }
            }
        }
        self.segments.insert(generation, found);
        Ok(())
    }

    fn take(&mut self, place: Place, segment: u32, header: &Header, body: &[u8], layout: &Layout) {
        if header.payload_octets > 0 {
            let position = layout.position(segment, place.offset) + u64::from(HEADER_OCTETS);
            self.unchecked.push(Unchecked {
                place,
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
                let start = self.bodies.len();
                self.bodies.extend_from_slice(body);
                let body = start..self.bodies.len();
                let payload = header.payload_octets;
                self.records.push(Record {
                    place,
                    segment,
                    kind: header.kind,
                    payload,
                    body,
                });
            }
            Kind::Segment | Kind::Octets | Kind::Checkpoint | Kind::Seal => {}
        }
    }

    fn check_payloads(&mut self, window: &mut Window<'_>) -> Result<(), DiskError> {
        for unchecked in std::mem::take(&mut self.unchecked) {
            if unchecked.place < self.durable {
                continue;
            }
            let mut running = RunningCrc::new();
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
                    counts: true,
                });
            }
        }
        Ok(())
    }

    fn find_cut(&mut self) {
        self.gaps.sort_unstable();
        self.cut = self
            .gaps
            .iter()
            .map(|gap| gap.place)
            .find(|place| *place >= self.durable);
        self.damaged = length(
            self.gaps
                .iter()
                .filter(|gap| gap.counts && gap.place < self.durable)
                .count(),
        );
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
    pub(crate) fn apply(&mut self, replay: &mut Replay) {
        for record in &self.records {
            if self.cut.is_some_and(|cut| record.place >= cut) {
                break;
            }
            let body = self.bodies.get(record.body.clone()).unwrap_or_default();
            let read = match record.kind {
                Kind::Delete => replay.delete_all(body),
                Kind::Reserve => replay.reserve(body),
                _ => {
                    replay.add(
                        record.segment,
                        record.place.generation,
                        record.place.offset,
                        record.payload,
                        body,
                    );
                    Some(())
                }
            };
            self.damaged += u64::from(read.is_none());
        }
    }
}
