//! Opening: from a log's octets to the tables of a store (docs/store-format.md 8).

use std::collections::BTreeMap;
use std::sync::Arc;

use dhow_bundle::storage::{BundleKey, Extent, Extents, StoredBundle};
use dhow_bundle::{BundleId, DtnTime};

use crate::checkpoint::{Contents, Listed};
use crate::compaction::split_body;
use crate::disk::{Disk, DiskError};
use crate::error::OpenError;
use crate::record::{HEADER_OCTETS, Header, Kind, Layout, Place, crc};
use crate::removed::Removed;
use crate::replay::{Commit, Replay};
use crate::segment::{Segment, Segments, Usage};
use crate::slot::{Before, Slot, Slots};
use crate::store::{Durability, Options};
use crate::superblock::{CheckpointPlace, Found, Superblock};
use crate::tail::Tail;
use crate::walk::{Step, Walk, Window, generation};
use crate::wire::{Reader, SharedEndpoints, index};

/// Generations that a crash may have hidden: more than segments are ever begun between two syncs.
const GENERATION_STEP: u64 = 65_536;

/// What a store held when it was opened.
#[derive(Debug)]
pub struct Recovered {
    /// The committed bundles in the order in which they were stored; their keys are 0, 1, 2, ….
    pub bundles: RecoveredBundles,
    /// Highest creation time reserved.
    pub reserved_time: DtnTime,
    /// Highest sequence number reserved for bundles without a creation time.
    pub reserved_sequence: u64,
    /// Identifiers of removed bundles with their expiries, oldest first.
    pub removed: Vec<(BundleId, DtnTime)>,
    /// Bundles that were once durable and are lost to damage; records that were not recognisable count as one each.
    pub quarantined: u64,
    /// Octets at the log's end that a crash left torn or unacknowledged, and that were cut.
    pub torn_octets: u64,
    /// The checkpoint was damaged: bundles deleted before it may have come back.
    pub checkpoint_lost: bool,
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

/// The segments as their first records tell.
pub(crate) struct Map {
    /// Generation and predecessor of each segment; (0, None) for one without.
    pub(crate) segments: Vec<(u64, Option<u64>)>,
    pub(crate) by_generation: BTreeMap<u64, u32>,
}

impl Map {
    fn read(window: &mut Window<'_>, layout: &Layout) -> Result<Self, DiskError> {
        let mut map = Self {
            segments: Vec::new(),
            by_generation: BTreeMap::new(),
        };
        let mut segment = 0;
        while layout.position(segment, 0) < window.size {
            let found = generation(window, layout, segment)?.unwrap_or((0, None));
            map.segments.push(found);
            if found.0 > 0 {
                map.by_generation.insert(found.0, segment);
            }
            segment += 1;
        }
        Ok(map)
    }

    /// Adds what a checkpoint knows of segments whose first record is damaged.
    fn complete(&mut self, contents: &Contents) {
        for listed in &contents.segments {
            if let Some(found) = self.segments.get_mut(index(listed.index))
                && found.0 < listed.generation
            {
                self.by_generation.remove(&found.0);
                *found = (listed.generation, None);
                self.by_generation.insert(listed.generation, listed.index);
            }
        }
    }
}

/// Reads the log on a disk; makes one on an empty disk.
pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    options: &Options,
) -> Result<(Image, Recovered), OpenError> {
    let superblock = match Superblock::read(&**disk)? {
        Found::Store(superblock) => superblock,
        Found::Nothing => {
            let layout = Layout {
                segment_octets: options.segment_octets,
                seed: options.seed,
            };
            Superblock::create(layout, &**disk)?
        }
    };
    let layout = superblock.layout;
    let mut window = Window::new(&**disk)?;
    let mut map = Map::read(&mut window, &layout)?;
    let mut replay = Replay::new(removed_bounds(options, &layout));
    let contents = if superblock.checkpoint.number == 0 {
        None
    } else {
        read_checkpoint(
            &mut window,
            &layout,
            &map,
            superblock.checkpoint,
            &mut replay.removed,
        )?
    };
    let checkpoint_lost = superblock.checkpoint.number != 0 && contents.is_none();
    let from = if contents.is_some() {
        superblock.checkpoint.place
    } else {
        Place::default()
    };
    if let Some(contents) = &contents {
        map.complete(contents);
        read_listed(&mut window, &layout, &map, contents, &mut replay)?;
    }
    let mut tail = Tail::read(&mut window, &layout, &map, from, checkpoint_lost)?;
    tail.apply(&mut replay);
    if options.durability != Durability::Memory {
        disk.sync()?;
    }
    let listed = contents
        .as_ref()
        .map_or(&[][..], |contents| &contents.segments);
    let builder = Builder {
        layout,
        size: window.size,
        map: &map,
        tail: &tail,
        listed,
    };
    let (image, bundles, quarantined) = builder.build(replay, superblock.checkpoint);
    let recovered = Recovered {
        bundles,
        reserved_time: image.reserved.0,
        reserved_sequence: image.reserved.1,
        removed: image.removed.list(),
        quarantined: quarantined + tail.damaged,
        torn_octets: tail.torn_octets,
        checkpoint_lost,
    };
    Ok((image, recovered))
}

fn removed_bounds(options: &Options, layout: &Layout) -> Removed {
    Removed::with_bounds(options.removed_bound, u64::from(layout.segment_octets) / 2)
}

/// Reads the parts of a checkpoint; `None` when one of them is damaged.
fn read_checkpoint(
    window: &mut Window<'_>,
    layout: &Layout,
    map: &Map,
    checkpoint: CheckpointPlace,
    removed: &mut Removed,
) -> Result<Option<Contents>, DiskError> {
    let mut octets = Vec::new();
    let mut wanted = 0;
    for (generation, segment) in map.by_generation.range(checkpoint.place.generation..) {
        let first = *generation == checkpoint.place.generation;
        let from = if first { checkpoint.place.offset } else { 0 };
        let mut walk = Walk::new(*layout, *segment, *generation, from, layout.segment_octets);
        while let Some(Step::Record(offset, header)) = walk.step(window)? {
            if header.kind != Kind::Checkpoint {
                continue;
            }
            let mut body = Reader(&walk.body);
            let (Some(number), Some(part), Some(parts)) =
                (body.varint(), body.varint(), body.varint())
            else {
                return Ok(None);
            };
            let payload = layout.position(*segment, offset) + u64::from(HEADER_OCTETS);
            let payload = window.octets(payload, u64::from(header.payload_octets))?;
            let Some(payload) = payload.filter(|payload| crc(payload) == header.payload_crc) else {
                return Ok(None);
            };
            if number != checkpoint.number || part != wanted {
                return Ok(None);
            }
            octets.extend_from_slice(payload);
            wanted += 1;
            if wanted == parts {
                let mut reader = Reader(&octets);
                let Some(contents) = Contents::read(&mut reader) else {
                    return Ok(None);
                };
                let complete = contents.number == number
                    && removed
                        .read(&mut reader, &mut SharedEndpoints::default())
                        .is_some();
                removed.dropped = removed.dropped.max(contents.dropped);
                return Ok(complete.then_some(contents));
            }
        }
    }
    Ok(None)
}

/// Takes in the live commits of the segments that a checkpoint lists.
fn read_listed(
    window: &mut Window<'_>,
    layout: &Layout,
    map: &Map,
    contents: &Contents,
    replay: &mut Replay,
) -> Result<(), DiskError> {
    replay.next_arrival = contents.next_arrival;
    replay.reserved = contents.reserved;
    for listed in &contents.segments {
        let found = map
            .segments
            .get(index(listed.index))
            .map_or(0, |(generation, _)| *generation);
        // A later use means that all in it was deleted since.
        if found > listed.generation {
            continue;
        }
        if listed.seal != 0 && read_summary(window, layout, listed, replay)? {
            continue;
        }
        let mut wanted = listed.live.iter().copied().peekable();
        let mut walk = Walk::new(*layout, listed.index, listed.generation, 0, listed.end);
        while let Some(step) = walk.step(window)? {
            let Step::Record(offset, header) = step else {
                continue;
            };
            while let Some(lost) = wanted.next_if(|live| *live < offset) {
                replay.add_lost(listed.index, listed.generation, lost);
            }
            if header.kind == Kind::Commit && wanted.next_if_eq(&offset).is_some() {
                replay.add(
                    listed.index,
                    listed.generation,
                    offset,
                    header.payload_octets,
                    &walk.body,
                );
            }
        }
        for lost in wanted {
            replay.add_lost(listed.index, listed.generation, lost);
        }
    }
    Ok(())
}

/// Takes the live commits of a segment from its seal; `false` when the seal does not have them.
fn read_summary(
    window: &mut Window<'_>,
    layout: &Layout,
    listed: &Listed,
    replay: &mut Replay,
) -> Result<bool, DiskError> {
    let position = layout.position(listed.index, listed.seal);
    let Some(octets) = window.octets(position, u64::from(HEADER_OCTETS))? else {
        return Ok(false);
    };
    let header = Header::decode(octets, layout.seed, position, Some(listed.generation));
    let Some(header) = header.filter(|header| header.kind == Kind::Seal) else {
        return Ok(false);
    };
    let body = window.octets(
        position + u64::from(HEADER_OCTETS),
        u64::from(header.body_octets),
    )?;
    let Some(body) = body.filter(|body| crc(body) == header.body_crc) else {
        return Ok(false);
    };
    let mut reader = Reader(body);
    let mut entries = BTreeMap::new();
    let mut read = || -> Option<()> {
        for _ in 0..reader.varint()? {
            let offset = reader.varint_u32()?.checked_mul(8)?;
            let payload = reader.varint_u32()?;
            let octets = reader.varint()?;
            entries.insert(offset, (payload, reader.octets(octets)?));
        }
        Some(())
    };
    if read().is_none()
        || !listed
            .live
            .iter()
            .all(|offset| entries.contains_key(offset))
    {
        return Ok(false);
    }
    for offset in &listed.live {
        if let Some((payload, body)) = entries.get(offset) {
            replay.add(listed.index, listed.generation, *offset, *payload, body);
        }
    }
    Ok(true)
}

/// Makes the tables out of what was replayed.
struct Builder<'a> {
    layout: Layout,
    size: u64,
    map: &'a Map,
    tail: &'a Tail,
    listed: &'a [Listed],
}

impl Builder<'_> {
    fn segments(&self, checkpoint: u64) -> Segments {
        let mut segments = Segments::default();
        let segment_octets = self.layout.segment_octets;
        for (number, (generation, _)) in (0_u32..).zip(&self.map.segments) {
            let there = self.size.saturating_sub(self.layout.position(number, 0));
            let filled = u32::try_from(there).unwrap_or(u32::MAX).min(segment_octets);
            let mut segment = Segment::empty(filled);
            segment.generation = *generation;
            let tail = self.tail.segments.get(generation);
            let unused = *generation == 0
                || (*generation > checkpoint && tail.is_some_and(|tail| !tail.effective));
            if unused && filled < segment_octets && number > 0 {
                // The log's last segment, half filled: it is filled when it is wanted.
                break;
            }
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

    fn build(
        &self,
        mut replay: Replay,
        checkpoint: CheckpointPlace,
    ) -> (Image, RecoveredBundles, u64) {
        let mut segments = self.segments(checkpoint.place.generation);
        let (mut commits, bodies, lost) = replay.take_live();
        let mut quarantined = lost;
        commits.sort_unstable_by_key(|commit| (commit.segment, commit.offset));
        let mut placed = Vec::with_capacity(commits.len());
        let mut shared = SharedEndpoints::default();
        for commit in commits {
            let readable = split_body(commit.body(&bodies))
                .is_some_and(|(_, metadata)| Reader(metadata).bundle(&mut shared).is_some());
            match self.slot(&commit, &bodies, &segments).filter(|_| readable) {
                Some(slot) => {
                    if let Some(segment) = segments.at_mut(commit.segment) {
                        segment.add_commit(commit.offset);
                    }
                    placed.push((commit, slot));
                }
                None => quarantined += 1,
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
        (image, bundles, quarantined)
    }
}
