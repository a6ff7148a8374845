//! A store's tables, made out of what its log's records amount to (docs/store-format.md 8 and 9).

use std::collections::BTreeMap;

use dhow_bundle::DtnTime;
use dhow_bundle::storage::{BundleKey, Extent, Extents, StoredBundle};

use crate::bodies::Bodies;
use crate::checkpoint::Listed;
use crate::closing::ClosingNote;
use crate::compaction::split_body;
use crate::loss::{Cause, EarlyEnd, Loss, LostPlace};
use crate::record::{ALIGNMENT, HEADER_OCTETS, Layout, SEGMENTS_START};
use crate::recovery::Map;
use crate::removed::Removed;
use crate::replay::{Commit, Replay};
use crate::reserve::UNIT_OCTETS;
use crate::segment::{Segment, Segments, Usage};
use crate::slot::{Before, Slot, Slots};
use crate::superblock::CheckpointPlace;
use crate::tail::Tail;
use crate::walk::Window;
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
pub struct RecoveredBundles {
    /// Commits by the keys of their bundles.
    commits: std::iter::Enumerate<std::vec::IntoIter<Commit>>,
    /// The octets of those that have some outside their records.
    extents: BTreeMap<BundleKey, Extents>,
    layout: Layout,
    bodies: Bodies,
    window: Window,
    shared: SharedEndpoints,
    unread: u64,
}

impl std::fmt::Debug for RecoveredBundles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecoveredBundles")
            .field("left", &self.commits.len())
            .field("unread", &self.unread)
            .finish_non_exhaustive()
    }
}

impl RecoveredBundles {
    /// Bundles that are left out, since the disk did not give back what it had given a moment before.
    #[must_use]
    pub const fn unread(&self) -> u64 {
        self.unread
    }

    fn decode(&mut self, commit: &Commit) -> Option<StoredBundle> {
        let body = self.bodies.read(&commit.body, &mut self.window)?;
        let (_, metadata) = split_body(body)?;
        Reader(metadata).bundle(&mut self.shared)
    }
}

impl Iterator for RecoveredBundles {
    type Item = (BundleKey, StoredBundle, Extents);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (key, commit) = self.commits.next()?;
            let key = BundleKey(u32::try_from(key).unwrap_or(u32::MAX));
            // A body was found readable before it got a key.
            let Some(bundle) = self.decode(&commit) else {
                self.unread += 1;
                continue;
            };
            let extents = commit.has_extents.then(|| self.extents.remove(&key));
            let extents = extents.flatten();
            let extents =
                extents.unwrap_or_else(|| Extents::One(own_extent(&self.layout, &commit)));
            return Some((key, bundle, extents));
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.commits.size_hint()
    }
}

/// A bundle's octets in its commit record.
fn own_extent(layout: &Layout, commit: &Commit) -> Extent {
    Extent {
        offset: layout.position(commit.segment, commit.offset) + u64::from(HEADER_OCTETS),
        length: u64::from(commit.payload),
    }
}

/// Makes the tables out of what was replayed.
pub(crate) struct Builder<'a> {
    pub(crate) layout: Layout,
    pub(crate) map: &'a Map,
    pub(crate) tail: &'a Tail,
    pub(crate) listed: &'a [Listed],
}

impl Builder<'_> {
    fn segments(&self, checkpoint: u64, size: u64) -> Segments {
        let mut segments = Segments::new(self.layout.segment_octets.min(UNIT_OCTETS));
        let segment_octets = self.layout.segment_octets;
        let last_effective = self.tail.last_effective().max(checkpoint);
        for (number, known) in (0_u32..).zip(&self.map.segments) {
            let there = size.saturating_sub(self.layout.position(number, 0));
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

    /// The place of a commit's bundle; `None` when part of that is no place in the log.
    fn slot(
        &self,
        commit: &Commit,
        (bodies, window): (&Bodies, &mut Window),
        segments: &Segments,
    ) -> Option<Slot> {
        let size = window.size;
        let within = |segment: u32, offset: u32, octets: u64| {
            let end = u64::from(offset).checked_add(octets)?;
            let used = segments
                .at(segment)
                .is_some_and(|segment| segment.usage != Usage::Free);
            let there = self.layout.position(segment, 0).checked_add(end)? <= size;
            (used && there && end <= u64::from(self.layout.segment_octets)).then_some(())
        };
        let own =
            u64::from(HEADER_OCTETS) + u64::from(commit.payload) + u64::from(commit.body.octets());
        within(commit.segment, commit.offset, own)?;
        let mut reader = Reader(&[]);
        let mut count = 0;
        if commit.has_extents {
            reader = Reader(bodies.read(&commit.body, window)?);
            reader.varint()?;
            if reader.varint()? != 0 {
                reader.varint()?;
            }
            count = reader.varint()?;
        }
        let mut extents = Vec::new();
        for _ in 0..count {
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
            body,
            ..
        } = *commit;
        let body = body.octets();
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
        size: u64,
    ) -> Option<EarlyEnd> {
        let Some(note) = note else {
            let expected = self
                .layout
                .position(checkpoint.segment, checkpoint.place.offset);
            return (checkpoint.number > 0 && expected >= size).then_some(EarlyEnd {
                found: size,
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
        mut window: Window,
    ) -> (Image, RecoveredBundles, Loss) {
        let mut segments = self.segments(checkpoint.place.generation, window.size);
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
        // Commits whose places are none in the log are let go; slots come once keys are known.
        commits.retain(|commit| {
            let place = self.slot(commit, (&bodies, &mut window), &segments);
            if place.is_some() {
                if let Some(segment) = segments.at_mut(commit.segment) {
                    segment.add_commit(commit.offset);
                }
                return true;
            }
            let body = bodies.read(&commit.body, &mut window);
            let bundle = body
                .and_then(split_body)
                .and_then(|(_, metadata)| Reader(metadata).bundle(&mut SharedEndpoints::default()));
            loss.add(LostPlace {
                cause: Cause::Octets,
                id: bundle.map(|bundle| bundle.id),
                position: self.layout.position(commit.segment, commit.offset),
            });
            false
        });
        commits.sort_by_key(|commit| commit.arrival);
        let mut slots = Slots::with_room(commits.len());
        let mut all_extents = BTreeMap::new();
        let mut next_arrival = replay.next_arrival;
        let mut keys = (0..).map(BundleKey);
        commits.retain(|commit| {
            let Some(slot) = self.slot(commit, (&bodies, &mut window), &segments) else {
                // The disk gives no longer what it gave a moment ago: the record stays, as one that nobody refers to.
                return false;
            };
            let key = keys.next().unwrap_or(BundleKey(u32::MAX));
            for reference in slot.references(&self.layout) {
                segments.hold(reference);
            }
            next_arrival = next_arrival.max(commit.arrival.saturating_add(1));
            if commit.has_extents {
                all_extents.insert(key, slot.extents(&self.layout));
            }
            slots.put(key, slot);
            true
        });
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
            commits: commits.into_iter().enumerate(),
            extents: all_extents,
            layout: self.layout,
            bodies,
            window,
            shared: SharedEndpoints::default(),
            unread: 0,
        };
        (image, bundles, loss)
    }
}
