//! A store's tables, made out of what its log's records amount to (docs/store-format.md 8 and 9).

use dhow_bundle::DtnTime;
use dhow_bundle::storage::{BundleKey, Extent, Extents, StoredBundle};

use crate::checkpoint::Listed;
use crate::closing::ClosingNote;
use crate::compaction::split_body;
use crate::loss::{Cause, EarlyEnd, Loss, LostPlace};
use crate::record::{ALIGNMENT, HEADER_OCTETS, Layout, SEGMENTS_START};
use crate::recovery::Map;
use crate::removed::Removed;
use crate::replay::{Commit, Replay};
use crate::room::UNIT_OCTETS;
use crate::segment::{Segment, Segments, Usage};
use crate::slot::{Before, Slot, Slots};
use crate::superblock::CheckpointPlace;
use crate::tail::Tail;
use crate::wire::{Reader, SharedEndpoints};

/// Generations that a crash may have hidden: more than segments are ever begun between two syncs.
const GENERATION_STEP: u64 = 65_536;

/// A store's tables as a log gives them.
pub(crate) struct Image {
    pub(crate) layout: Layout,
    pub(crate) segments: Segments,
    pub(crate) last_generation: u64,
    pub(crate) slots: Slots,
    pub(crate) removed: Removed,
    pub(crate) reserved: (DtnTime, u64),
    pub(crate) next_arrival: u64,
    pub(crate) checkpoint: CheckpointPlace,
}

/// The bundles of an opened store, decoded one by one.
#[derive(Debug)]
pub struct RecoveredBundles {
    commits: std::vec::IntoIter<(BundleKey, Commit, Extents)>,
    bodies: Vec<u8>,
    shared: SharedEndpoints,
}

impl Iterator for RecoveredBundles {
    type Item = (BundleKey, StoredBundle, Extents);

    fn next(&mut self) -> Option<Self::Item> {
        // A body was found readable before it got a key.
        self.commits.by_ref().find_map(|(key, commit, extents)| {
            let (_, metadata) = split_body(commit.body(&self.bodies))?;
            Some((key, Reader(metadata).bundle(&mut self.shared)?, extents))
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.commits.size_hint()
    }
}

/// Makes the tables out of what was replayed.
pub(crate) struct Builder<'a> {
    pub(crate) layout: Layout,
    pub(crate) size: u64,
    pub(crate) map: &'a Map,
    pub(crate) tail: &'a Tail,
    pub(crate) listed: &'a [Listed],
}

impl Builder<'_> {
    fn segments(&self, checkpoint: u64) -> Segments {
        let mut segments = Segments::new(self.layout.segment_octets.min(UNIT_OCTETS));
        let segment_octets = self.layout.segment_octets;
        let last_effective = self.tail.last_effective().max(checkpoint);
        for (number, known) in (0_u32..).zip(&self.map.segments) {
            let there = self.size.saturating_sub(self.layout.position(number, 0));
            let there = u32::try_from(there).unwrap_or(u32::MAX).min(segment_octets);
            let generation = &known.generation;
            let tail = self.tail.segments.get(generation);
            let unused = *generation == 0 || (*generation > last_effective && tail.is_some());
            // A segment that was never begun gets its room when it is wanted, where it has not got it already.
            let octets = match (known.octets, generation) {
                (Some(octets), _) => octets,
                (None, 0) => 0,
                (None, _) => segment_octets,
            };
            let mut segment = Segment::empty(octets.min(there) / ALIGNMENT * ALIGNMENT);
            segment.generation = *generation;
            if !unused {
                segment.usage = Usage::Sealed;
                segment.end = tail.map_or(segment_octets, |tail| tail.end);
                segment.seal = tail.map_or(0, |tail| tail.seal);
                let listed = self
                    .listed
                    .iter()
                    .find(|listed| listed.generation == *generation);
                if let (Some(listed), None) = (listed, tail) {
                    segment.end = listed.end;
                    segment.seal = listed.seal;
                }
            }
            segments.add(segment);
        }
        segments
    }

    /// Where a commit's bundle lies; `None` when part of that is no place in the log.
    fn slot(&self, commit: &Commit, bodies: &[u8], segments: &Segments) -> Option<Slot> {
        let within = |segment: u32, offset: u32, octets: u64| {
            let end = u64::from(offset).checked_add(octets)?;
            let used = segments
                .at(segment)
                .is_some_and(|segment| segment.usage != Usage::Free);
            let there = self.layout.position(segment, 0).checked_add(end)? <= self.size;
            (used && there && end <= u64::from(self.layout.segment_octets)).then_some(())
        };
        let own =
            u64::from(HEADER_OCTETS) + u64::from(commit.payload) + u64::from(commit.body_octets);
        within(commit.segment, commit.offset, own)?;
        let mut reader = Reader(commit.body(bodies));
        reader.varint()?;
        if reader.varint()? != 0 {
            reader.varint()?;
        }
        let mut extents = Vec::new();
        for _ in 0..reader.varint()? {
            let segment = *self.map.by_generation.get(&reader.varint()?)?;
            let offset = reader.varint_u32()?;
            let length = reader.varint()?;
            within(segment, offset, length)?;
            extents.push(Extent {
                offset: self.layout.position(segment, offset),
                length,
            });
        }
        let before = (!extents.is_empty()).then(|| {
            Box::new(Before {
                extents: extents.into_boxed_slice(),
            })
        });
        let Commit {
            segment,
            offset,
            payload,
            body_octets: body,
            ..
        } = *commit;
        Some(Slot {
            segment,
            offset,
            payload,
            body,
            before,
        })
    }

    /// Whether the log ends before it is known to have reached: by the note, or else by the checkpoint's place.
    pub(crate) fn early_end(
        &self,
        checkpoint: CheckpointPlace,
        note: Option<ClosingNote>,
    ) -> Option<EarlyEnd> {
        let Some(note) = note else {
            let expected = self
                .layout
                .position(checkpoint.segment, checkpoint.place.offset);
            return (checkpoint.number > 0 && expected >= self.size).then_some(EarlyEnd {
                found: self.size,
                expected,
            });
        };
        let last = self.tail.last();
        if last.is_some_and(|(place, _)| place == note.end) {
            return None;
        }
        Some(EarlyEnd {
            found: last.map_or(SEGMENTS_START, |(place, segment)| {
                self.layout.position(segment, place.offset)
            }),
            expected: self.layout.position(note.segment, note.end.offset),
        })
    }

    pub(crate) fn build(
        &self,
        mut replay: Replay,
        checkpoint: CheckpointPlace,
    ) -> (Image, RecoveredBundles, Loss) {
        let mut segments = self.segments(checkpoint.place.generation);
        let (mut commits, bodies, lost) = replay.take_live();
        let mut loss = Loss::default();
        for (place, segment) in lost {
            loss.add(LostPlace {
                id: None,
                position: self.layout.position(segment, place.offset),
                cause: Cause::Commit,
            });
        }
        commits.sort_unstable_by_key(|commit| (commit.segment, commit.offset));
        let mut placed = Vec::with_capacity(commits.len());
        let mut shared = SharedEndpoints::default();
        for commit in commits {
            let bundle = split_body(commit.body(&bodies))
                .and_then(|(_, metadata)| Reader(metadata).bundle(&mut shared));
            let slot = self.slot(&commit, &bodies, &segments);
            match slot.filter(|_| bundle.is_some()) {
                Some(slot) => {
                    if let Some(segment) = segments.at_mut(commit.segment) {
                        segment.add_commit(commit.offset);
                    }
                    placed.push((commit, slot));
                }
                None => loss.add(LostPlace {
                    cause: if bundle.is_some() {
                        Cause::Octets
                    } else {
                        Cause::Commit
                    },
                    id: bundle.map(|bundle| bundle.id),
                    position: self.layout.position(commit.segment, commit.offset),
                }),
            }
        }
        placed.sort_by_key(|(commit, _)| commit.arrival);
        let mut slots = Slots::default();
        let mut bundles = Vec::with_capacity(placed.len());
        let mut next_arrival = replay.next_arrival;
        for (key, (commit, slot)) in (0_u32..).zip(placed) {
            for reference in slot.references(&self.layout) {
                segments.hold(reference);
            }
            next_arrival = next_arrival.max(commit.arrival.saturating_add(1));
            let key = BundleKey(key);
            bundles.push((key, commit, slot.extents(&self.layout)));
            slots.put(key, slot);
        }
        let last_generation = self
            .map
            .by_generation
            .last_key_value()
            .map_or(0, |(generation, _)| *generation);
        let image = Image {
            layout: self.layout,
            segments,
            last_generation: last_generation.max(checkpoint.place.generation) + GENERATION_STEP,
            slots,
            removed: replay.removed,
            reserved: replay.reserved,
            next_arrival,
            checkpoint,
        };
        let bundles = RecoveredBundles {
            commits: bundles.into_iter(),
            bodies,
            shared: SharedEndpoints::default(),
        };
        (image, bundles, loss)
    }
}
