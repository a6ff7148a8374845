//! Opening: from a log's octets to the tables of a store (docs/store-format.md 8).

use std::collections::BTreeMap;
use std::sync::Arc;

use dhow_bundle::crc::crc32c;
use dhow_bundle::{BundleId, DtnTime};

use crate::checkpoint::{Contents, Listed};
use crate::closing::ClosingNote;
use crate::disk::{Disk, DiskError};
use crate::error::OpenError;
use crate::image::{Builder, Image, RecoveredBundles};
use crate::loss::{Count, Loss};
use crate::record::{HEADER_OCTETS, Header, Kind, Layout};
use crate::removed::Removed;
use crate::replay::Replay;
use crate::store::{Durability, Options};
use crate::superblock::{CheckpointPlace, Found, Superblock};
use crate::tail::{Start, Tail};
use crate::walk::{Known, Step, Walk, Window, generation};
use crate::wire::{Reader, SharedEndpoints, index, length};

/// Octets of a remembered identifier, in the mean at most: many longer ones leave room for fewer.
const REMEMBERED_OCTETS: u64 = 64;

/// Octets that the record of a bundle takes, at least.
const RECORD_OCTETS_MIN: u64 = 64;

/// Sequence numbers that are passed over where a reservation may be lost: more than any node gives out meanwhile.
const DOUBTFUL_SEQUENCES: u64 = 1 << 32;

/// The content of a store when it was opened.
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
    /// The durable parts that are lost.
    pub loss: Loss,
    /// Octets at the log's end that a crash left torn or unacknowledged, and that were cut.
    pub torn_octets: u64,
    /// Whether the checkpoint was damaged: bundles deleted before it may have come back.
    pub checkpoint_lost: bool,
    /// Whether there was a store before.
    pub origin: Origin,
}

/// Whether a store was there when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The log was that of a store.
    Existing,
    /// The log was empty, or that of a store whose making had not been finished: a new one was made.
    New,
}

/// The segments as their first records tell.
pub(crate) struct Map {
    /// The content of the first record of each segment; the default for one without.
    pub(crate) segments: Vec<Known>,
    pub(crate) by_generation: BTreeMap<u64, u32>,
}

impl Map {
    fn read(window: &mut Window, layout: &Layout) -> Result<Self, DiskError> {
        let mut map = Self {
            segments: Vec::new(),
            by_generation: BTreeMap::new(),
        };
        let mut segment = 0;
        while layout.position(segment, 0) < window.size {
            let found = generation(window, layout, segment)?.unwrap_or_default();
            map.segments.push(found);
            if found.generation > 0 {
                map.by_generation.insert(found.generation, segment);
            }
            segment += 1;
        }
        Ok(map)
    }

    /// Adds what a checkpoint knows of segments whose first record is damaged.
    fn complete(&mut self, contents: &Contents) {
        for listed in &contents.segments {
            if let Some(found) = self.segments.get_mut(index(listed.index))
                && found.generation < listed.generation
            {
                self.by_generation.remove(&found.generation);
                *found = Known {
                    generation: listed.generation,
                    ..Known::default()
                };
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
    let (mut superblock, origin) = match Superblock::read(&**disk)? {
        Found::Store(superblock) => (superblock, Origin::Existing),
        Found::Nothing => {
            let layout = Layout {
                segment_octets: options.segment_octets,
                seed: options.seed,
            };
            (Superblock::create(layout, &**disk)?, Origin::New)
        }
    };
    let layout = superblock.layout;
    let mut window = Window::new(disk)?;
    let mut map = Map::read(&mut window, &layout)?;
    let mut replay = Replay::new(removed_bounds(options, &layout), options.memory_octets);
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
    let from = match &contents {
        Some(_) => Start::Checkpoint(superblock.checkpoint),
        None if checkpoint_lost => Start::Lost,
        None => Start::First,
    };
    let note = ClosingNote::read(&layout, superblock.checkpoint, &**disk)?;
    let listed_count = contents.as_ref().map_or(0, |contents| {
        contents
            .segments
            .iter()
            .map(|listed| listed.live.len())
            .sum()
    });
    let noted = index(
        note.map_or(0, |note| note.bundles)
            .min(window.size / RECORD_OCTETS_MIN),
    );
    replay.expect(noted.max(listed_count));
    if let Some(contents) = &contents {
        map.complete(contents);
        read_listed(&mut window, &layout, &map, contents, &mut replay)?;
    }
    let mut tail = Tail::read(
        &mut window,
        &layout,
        &map,
        from,
        note.map(|note| note.end),
        options.memory_octets,
        noted.saturating_sub(listed_count),
    )?;
    tail.apply(&mut replay, &layout, &mut window);
    if options.durability != Durability::Memory {
        disk.sync()?;
    }
    let listed = contents
        .as_ref()
        .map_or(&[][..], |contents| &contents.segments);
    let builder = Builder {
        layout,
        map: &map,
        tail: &tail,
        listed,
    };
    let early_end = builder.early_end(superblock.checkpoint, note, window.size);
    let (image, bundles, mut loss) = builder.build(replay, superblock.checkpoint, window);
    tail.tell(&layout, &mut loss);
    loss.early_end = early_end;
    if checkpoint_lost {
        loss.count = Count::AtLeast;
    }
    if let Some(note) = note {
        loss.compare(note.bundles, image.slots.len());
    }
    superblock.carry_over(&**disk)?;
    // A reservation may be among what is damaged, and the bundles that had its numbers are on their way.
    let doubt = match loss.is_empty() && !checkpoint_lost {
        true => 0,
        false => DOUBTFUL_SEQUENCES,
    };
    let recovered = Recovered {
        bundles,
        reserved_time: image.reserved.0,
        reserved_sequence: image.reserved.1.saturating_add(doubt),
        removed: image.removed.list(),
        loss,
        torn_octets: tail.torn_octets,
        checkpoint_lost,
        origin,
    };
    Ok((image, recovered))
}

fn removed_bounds(options: &Options, layout: &Layout) -> Removed {
    let octets = length(options.removed_bound).saturating_mul(REMEMBERED_OCTETS);
    let octets = octets.min(u64::from(layout.segment_octets) / 2);
    Removed::with_bounds(options.removed_bound, octets.min(options.memory_octets))
}

/// Reads the parts of a checkpoint; `None` when one of them is damaged.
fn read_checkpoint(
    window: &mut Window,
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
            let Some(payload) = payload.filter(|payload| crc32c(payload) == header.payload_crc)
            else {
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
    window: &mut Window,
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
            .map_or(0, |known| known.generation);
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
                let position = header.body_position(layout.position(listed.index, offset));
                replay.add(
                    listed.index,
                    listed.generation,
                    offset,
                    header.payload_octets,
                    (position, &walk.body),
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
    window: &mut Window,
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
    let bodies = header.body_position(position);
    let body = window.octets(bodies, u64::from(header.body_octets))?;
    let Some(body) = body.filter(|body| crc32c(body) == header.body_crc) else {
        return Ok(false);
    };
    let mut reader = Reader(body);
    let mut entries = Vec::new();
    let mut read = || -> Option<()> {
        for _ in 0..reader.varint()? {
            let offset = reader.varint_u32()?.checked_mul(8)?;
            let payload = reader.varint_u32()?;
            let octets = reader.varint()?;
            let at = length(body.len() - reader.0.len());
            entries.push((offset, payload, at, reader.octets(octets)?));
        }
        Some(())
    };
    if read().is_none() {
        return Ok(false);
    }
    // They are in order, as their records are, and cost nothing to sort.
    entries.sort_by_key(|(offset, ..)| *offset);
    let mut wanted = listed.live.iter().peekable();
    entries.retain(|(offset, ..)| wanted.next_if_eq(&offset).is_some());
    if wanted.next().is_some() {
        return Ok(false);
    }
    for (offset, payload, at, body) in entries {
        let body = (bodies + at, body);
        replay.add(listed.index, listed.generation, offset, payload, body);
    }
    Ok(true)
}
