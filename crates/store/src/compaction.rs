//! Emptying segments: the bundles of the emptiest one are copied to the log's end (docs/store-format.md 7).

use bytes::Bytes;
use dhow_bundle::crc::{CrcDigest, CrcType, crc32c};
use dhow_bundle::storage::{BundleKey, Extent, StoreEvent, StoreRefusal};

use crate::disk::DiskError;
use crate::error::Trouble;
use crate::note::Replacing;
use crate::record::{HEADER_OCTETS, Header, Kind, Place, record_octets};
use crate::reserve::Purpose;
use crate::segment::{Reference, Segment, Turn, Usage};
use crate::slot::{Before, Slot, reference};
use crate::store::Store;
use crate::wire::{Reader, index, length};

/// Octets copied after one batch of commands, so that a batch is not held up for a whole segment.
const STEP_OCTETS: u64 = 4 * 1024 * 1024;

/// Segments emptied after one batch, at most: to find what lies in one the table of all bundles is gone through.
const STEP_SEGMENTS: usize = 16;

/// Octets read, checked and written at a time.
const COPY_OCTETS: u64 = 1024 * 1024;

/// Octets of a bundle that are copied into its new commit record rather than beside it.
const INLINE_OCTETS: u64 = 16 * 1024;

/// A segment is not worth copying when more than this many eighths of it are live.
const WORTH_EIGHTHS: u64 = 7;

/// Segments whose bundles are looked at for the one to empty.
const CANDIDATES: usize = 4;

/// Batches in which nothing can be emptied and something is wanted, after which slow arrivals give way.
const WAITS: u32 = 2;

/// Octets that a move adds to a bundle's records, about: the place of the former, and an extent more.
const MOVE_OCTETS: u64 = 64;

/// A log that may grow is kept short all the same: a segment of which so many eighths or less are live, a few bundles that
/// stay while all others went, is emptied rather than another one added.
const SPARSE_EIGHTHS: u64 = 2;

/// Such a segment has not lost anything while so many others were begun: one that a stream drains is soon empty by itself.
const SETTLED_SEGMENTS: u64 = 4;

/// The segment that is being emptied, and the bundles left in it.
#[derive(Debug)]
pub(crate) struct Compaction {
    segment: u32,
    keys: Vec<BundleKey>,
}

/// The verdict of reading a record's octets back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The octets match their checksums.
    Intact,
    /// The octets do not match; the bundle is in quarantine.
    Corrupt,
    /// There is no such bundle.
    Absent,
}

/// Why a bundle was not moved.
pub(crate) enum Hindrance {
    Trouble(Trouble),
    Corrupt,
}

impl From<Trouble> for Hindrance {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<DiskError> for Hindrance {
    fn from(error: DiskError) -> Self {
        Self::Trouble(Trouble::Disk(error))
    }
}

impl Store {
    /// Reads a bundle's octets back and checks them; a corrupt one is put in quarantine and told of by an event.
    ///
    /// # Errors
    /// The disk refused.
    pub fn verify(&mut self, key: BundleKey) -> Result<Verdict, DiskError> {
        let Some(slot) = self.slots.at(key) else {
            return Ok(Verdict::Absent);
        };
        if let Err(Trouble::Disk(error)) = self.log.flush() {
            self.fail(error.clone());
            return Err(error);
        }
        let own = slot.own(&self.log.layout);
        let extents = slot.before().iter().copied().chain(std::iter::once(own));
        for extent in extents {
            if !self.check_octets(extent)? {
                self.quarantine(key);
                return Ok(Verdict::Corrupt);
            }
        }
        Ok(Verdict::Intact)
    }

    /// The node wants to be sure of a bundle before it leaves.
    pub(crate) fn handle_verify(&mut self, key: BundleKey) {
        match self.verify(key) {
            // Nothing of it waits for a sync.
            Ok(Verdict::Intact) => self.written.push(StoreEvent::Verified { key }),
            // Found before: the node has not been told in this run.
            Ok(Verdict::Corrupt | Verdict::Absent) | Err(_) => {}
        }
    }

    pub(crate) fn quarantine(&mut self, key: BundleKey) {
        if self.quarantined.insert(key) {
            self.counts.corrupt += 1;
            self.ready.push(StoreEvent::Corrupt { key });
        }
    }

    /// The header of the record whose payload an extent is; `None` when it is damaged.
    pub(crate) fn header_of(&self, extent: Extent) -> Result<Option<Header>, DiskError> {
        let position = extent.offset.saturating_sub(u64::from(HEADER_OCTETS));
        let mut octets = [0; 32];
        self.log.disk.read_at(position, &mut octets)?;
        Ok(self.own_header(extent, &octets))
    }

    /// A header, where it is that of the record whose payload an extent is.
    fn own_header(&self, extent: Extent, octets: &[u8]) -> Option<Header> {
        let position = extent.offset.saturating_sub(u64::from(HEADER_OCTETS));
        let header = Header::decode(octets, self.log.layout.seed, position, None);
        header.filter(|header| u64::from(header.payload_octets) == extent.length)
    }

    /// True when the octets that a reader of a bundle gets now are what was written.
    fn check_octets(&self, extent: Extent) -> Result<bool, DiskError> {
        let position = extent.offset.saturating_sub(u64::from(HEADER_OCTETS));
        let header = self.log.read(position, u64::from(HEADER_OCTETS))?;
        let Some(header) = self.own_header(extent, &header) else {
            return Ok(false);
        };
        let mut running = CrcDigest::new(CrcType::Crc32C);
        let mut at = 0;
        while at < extent.length {
            let step = (extent.length - at).min(COPY_OCTETS);
            running.update(&self.log.read(extent.offset + at, step)?);
            at += step;
        }
        Ok(extent.length == 0 || self.log.matches(&header, running.value()))
    }

    /// Goes on emptying a segment, or chooses one when free segments run low.
    pub(crate) fn compact(&mut self) -> Result<(), Trouble> {
        self.is_changed = false;
        let mut moved_octets = 0;
        for _ in 0..STEP_SEGMENTS {
            let Some(compaction) = self.compaction.take().or_else(|| self.choose_victim()) else {
                return Ok(());
            };
            self.log.flush()?;
            match self.empty(compaction, STEP_OCTETS - moved_octets)? {
                Some(moved) => moved_octets += moved,
                None => return Ok(()),
            }
            if moved_octets >= STEP_OCTETS {
                break;
            }
        }
        // There may be more to empty.
        self.is_changed = true;
        Ok(())
    }

    /// Moves bundles out of a segment, of at least so many octets where there are; how many were moved, `None` when there was
    /// no room for more.
    fn empty(&mut self, mut compaction: Compaction, most: u64) -> Result<Option<u64>, Trouble> {
        let mut moved_octets = 0;
        while moved_octets < most {
            let Some(key) = compaction.keys.pop() else {
                // Some may be on their way already: not before these are released there is more to be moved.
                if let Some(emptied) = self.log.segments.at(compaction.segment) {
                    self.stuck.insert(compaction.segment, emptied.live_octets);
                }
                return Ok(Some(moved_octets));
            };
            if self.moved.contains_key(&key) {
                continue;
            }
            let Some(slot) = self.slots.at(key) else {
                continue;
            };
            let mut held = slot.references(&self.log.layout);
            if !held.any(|reference| reference.segment == compaction.segment) {
                continue;
            }
            match self.move_bundle(key, &slot, compaction.segment) {
                Ok(octets) => moved_octets += octets,
                Err(Hindrance::Corrupt) => self.quarantine(key),
                // There is no room for more; moved bundles may make some.
                Err(Hindrance::Trouble(Trouble::Full)) => {
                    // With room left, its bundle's record fits in none of the segments that are free.
                    let victim = self.log.segments.at(compaction.segment);
                    if let Some(victim) = victim
                        && self.octets_for_moves() > self.cost(compaction.segment, &[key])
                    {
                        self.stuck.insert(compaction.segment, victim.live_octets);
                    }
                    return Ok(None);
                }
                Err(Hindrance::Trouble(trouble)) => return Err(trouble),
            }
        }
        self.compaction = Some(compaction);
        Ok(Some(moved_octets))
    }

    /// Whether there is more to be done before all room that was made can be given.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        let changed = self.is_changed && (self.is_wanting || self.is_short());
        self.failure.is_none() && (self.compaction.is_some() || changed)
    }

    fn choose_victim(&mut self) -> Option<Compaction> {
        let segments = &self.log.segments;
        let grows = self.grows();
        // If the log may grow, a checkpoint need not free dead segments before more are made so.
        let freeing = segments.dead() > 0 && (!grows || segments.dead() * 8 >= segments.len());
        if freeing || !(self.is_short() || self.is_wanting) {
            return None;
        }
        let spoiled: Vec<u32> = self
            .quarantined
            .iter()
            .filter_map(|key| self.slots.at(*key))
            .flat_map(|slot| slot.references(&self.log.layout).collect::<Vec<_>>())
            .map(|reference| reference.segment)
            .collect();
        let eighths = if grows { SPARSE_EIGHTHS } else { WORTH_EIGHTHS };
        let worth = |segment: &Segment| u64::from(segment.filled) / 8 * eighths;
        let settled = |segment: &Segment| {
            !grows || segment.touched.saturating_add(SETTLED_SEGMENTS) <= segments.newest()
        };
        let sparse = |number: u32, segment: &Segment| {
            segment.usage == Usage::Sealed
                && segment.live_octets <= worth(segment)
                && segment.live_octets > 0
                && settled(segment)
                && !spoiled.contains(&number)
        };
        let room = self.octets_for_moves();
        let candidates = segments.iter().filter(|(number, segment)| {
            segment.pinned == 0
                && segment.live_octets <= room
                && self.stuck.get(number) != Some(&segment.live_octets)
                && sparse(*number, segment)
        });
        let mut candidates: Vec<(u64, u32)> = candidates
            .map(|(number, segment)| (segment.share(), number))
            .collect();
        candidates.sort_unstable();
        for (_, segment) in candidates.into_iter().take(CANDIDATES) {
            let keys = self.keys_in(segment);
            let cost = self.cost(segment, &keys);
            let at = self.log.segments.at(segment)?;
            if cost > worth(at) {
                self.stuck.insert(segment, at.live_octets);
                self.is_changed = true;
            } else if cost <= room {
                self.waited = 0;
                return Some(Compaction { segment, keys });
            }
        }
        // All that could be emptied is held by bundles that still arrive, or that somebody reads where they were.
        if self.is_wanting && !grows {
            self.waited += 1;
            if self.moved.is_empty() || self.waited >= WAITS {
                self.refuse_arrivals(&spoiled);
            }
        }
        None
    }

    /// The bundles that have octets or their commit record in a segment.
    fn keys_in(&self, segment: u32) -> Vec<BundleKey> {
        let inside = |extent: &Extent| reference(&self.log.layout, extent).segment == segment;
        self.slots.keys_in(segment, inside)
    }

    /// Octets of records that emptying a segment writes, about.
    fn cost(&self, segment: u32, keys: &[BundleKey]) -> u64 {
        let live = self.log.segments.at(segment).map_or(0, |at| at.live_octets);
        let slots = keys.iter().filter_map(|key| self.slots.at(*key));
        // A bundle of which only octets lie here gets a new commit record too.
        let elsewhere = slots.filter(|slot| slot.segment != segment);
        let commits = elsewhere.map(|slot| record_octets(0, u64::from(slot.body)));
        live + commits.sum::<u64>() + length(keys.len()) * MOVE_OCTETS
    }

    /// Bundles that arrive slowly give way to those that could be here long ago: their senders still have them. The
    /// first to go are those that hold the emptiest segment.
    fn refuse_arrivals(&mut self, spoiled: &[u32]) {
        let layout = self.log.layout;
        let segment_of = |extent: &Extent| reference(&layout, extent).segment;
        let held = self
            .arriving
            .values()
            .flat_map(|arriving| &arriving.extents);
        let sparse = held.map(segment_of).filter_map(|number| {
            let segment = self.log.segments.at(number)?;
            let is_sparse = segment.usage == Usage::Sealed
                && segment.live_octets <= u64::from(segment.filled) / 8 * WORTH_EIGHTHS
                && !spoiled.contains(&number);
            is_sparse.then(|| (segment.share(), number))
        });
        let Some((_, emptiest)) = sparse.min() else {
            return;
        };
        let arriving = self.arriving.iter();
        let keys: Vec<BundleKey> = arriving
            .filter(|(_, arriving)| arriving.places().any(|it| segment_of(it) == emptiest))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            self.refuse(key, StoreRefusal::Full);
        }
        self.is_changed = true;
    }

    /// Copies what a bundle has in a segment, and writes a commit record that replaces its old one. The octets copied come back.
    fn move_bundle(&mut self, key: BundleKey, old: &Slot, victim: u32) -> Result<u64, Hindrance> {
        let body = self.read_body(old)?;
        let mut copied = Vec::new();
        let result = self.write_moved(old, Some(victim), &body, &mut copied);
        match result {
            Ok((slot, octets)) => {
                let references: Vec<_> = old.references(&self.log.layout).collect();
                for reference in &references {
                    self.log.segments.pin(*reference);
                }
                if let Some(segment) = self.log.segments.at_mut(old.segment) {
                    segment.turn_commit(old.offset, Turn::Dead);
                }
                self.waiting.push(StoreEvent::Relocated {
                    key,
                    extents: slot.extents(&self.log.layout),
                });
                self.slots.put(key, slot);
                self.moved.insert(key, references);
                self.replacing.push(Replacing {
                    key,
                    former: old.clone(),
                    references: Vec::new(),
                });
                self.counts.moved += 1;
                Ok(octets)
            }
            Err(hindrance) => {
                for reference in copied {
                    self.log
                        .segments
                        .release(reference, self.checkpoint.place.generation);
                }
                Err(hindrance)
            }
        }
    }

    /// Writes copies of what lies in a segment, if there is one to be emptied, and the new commit record; `held` are the references taken so far.
    pub(crate) fn write_moved(
        &mut self,
        old: &Slot,
        victim: Option<u32>,
        body: &[u8],
        held: &mut Vec<Reference>,
    ) -> Result<(Slot, u64), Hindrance> {
        let own = old.own(&self.log.layout);
        let inline = Some(old.segment) == victim && own.length <= INLINE_OCTETS;
        let payload = if inline {
            self.read_checked(own)?
        } else {
            Bytes::new()
        };
        let own = Some(own).filter(|own| own.length > 0 && !inline);
        let mut octets = length(body.len()) + length(payload.len());
        let mut extents = Vec::new();
        for extent in old.before().iter().copied().chain(own) {
            let before = extents.len();
            if Some(reference(&self.log.layout, &extent).segment) == victim {
                octets += extent.length;
                self.copy_checked(extent, &mut extents, held)?;
            } else {
                extents.push(extent);
            }
            // Places outside the victim are held a second time, until the old ones are released.
            if extents.get(before) == Some(&extent) {
                let reference = reference(&self.log.layout, &extent);
                self.log.segments.hold(reference);
                held.push(reference);
            }
        }
        let (arrival, metadata) = split_body(body).ok_or(Hindrance::Corrupt)?;
        let generation = self
            .log
            .segments
            .at(old.segment)
            .map_or(0, |segment| segment.generation);
        let mut body = Vec::new();
        self.encode_commit(
            &mut body,
            arrival,
            Some(Place {
                generation,
                offset: old.offset,
            }),
            &extents,
        )?;
        body.extend_from_slice(metadata);
        let purpose = victim.map_or(Purpose::Bundle, |_| Purpose::Move);
        self.make_room(length(payload.len()), length(body.len()), purpose)?;
        let own_octets = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let appended = self.log.append(Kind::Commit, &[payload.into()], &body)?;
        self.log.segments.hold(Reference {
            segment: appended.segment,
            octets: appended.octets,
        });
        if let Some(segment) = self.log.segments.at_mut(appended.segment) {
            segment.add_commit(appended.place.offset);
        }
        let before = (!extents.is_empty()).then(|| {
            Box::new(Before {
                extents: extents.into_boxed_slice(),
            })
        });
        let body = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let slot = Slot {
            segment: appended.segment,
            offset: appended.place.offset,
            payload: own_octets,
            body,
            before,
        };
        Ok((slot, octets))
    }

    /// Copies an extent to the log's end, in one piece or several, and checks it on the way.
    fn copy_checked(
        &mut self,
        extent: Extent,
        extents: &mut Vec<Extent>,
        held: &mut Vec<Reference>,
    ) -> Result<(), Hindrance> {
        let header = self.header_of(extent)?.ok_or(Hindrance::Corrupt)?;
        let mut running = CrcDigest::new(CrcType::Crc32C);
        let mut at = 0;
        while at < extent.length {
            let step = (extent.length - at)
                .min(COPY_OCTETS)
                .min(self.log.largest_payload(0));
            let mut octets = vec![0; index(step)];
            self.log.disk.read_at(extent.offset + at, &mut octets)?;
            running.update(&octets);
            self.make_room(step, 0, Purpose::Move)?;
            let appended = self
                .log
                .append(Kind::Octets, &[Bytes::from(octets).into()], &[])?;
            let copy = Extent {
                offset: appended.payload,
                length: step,
            };
            let reference = reference(&self.log.layout, &copy);
            self.log.segments.hold(reference);
            held.push(reference);
            extents.push(copy);
            at += step;
        }
        if self.log.matches(&header, running.value()) {
            Ok(())
        } else {
            Err(Hindrance::Corrupt)
        }
    }

    /// Reads a short extent whole.
    fn read_checked(&self, extent: Extent) -> Result<Bytes, Hindrance> {
        let header = self.header_of(extent)?.ok_or(Hindrance::Corrupt)?;
        let mut octets = vec![0; index(extent.length)];
        self.log.disk.read_at(extent.offset, &mut octets)?;
        if self.log.matches(&header, crc32c(&octets)) {
            Ok(octets.into())
        } else {
            Err(Hindrance::Corrupt)
        }
    }

    pub(crate) fn read_body(&self, slot: &Slot) -> Result<Vec<u8>, Hindrance> {
        let own = slot.own(&self.log.layout);
        let header = self.header_of(own)?.ok_or(Hindrance::Corrupt)?;
        let mut body = vec![0; index(slot.body)];
        self.log.disk.read_at(own.offset + own.length, &mut body)?;
        if header.body_octets == slot.body && crc32c(&body) == header.body_crc {
            Ok(body)
        } else {
            Err(Hindrance::Corrupt)
        }
    }
}

/// A commit's arrival, and its body from the bundle protocol version on.
pub(crate) fn split_body(body: &[u8]) -> Option<(u64, &[u8])> {
    let mut reader = Reader(body);
    let arrival = reader.varint()?;
    if reader.varint()? != 0 {
        reader.varint()?;
    }
    for _ in 0..reader.varint()? {
        reader.varint()?;
        reader.varint()?;
        reader.varint()?;
    }
    Some((arrival, reader.0))
}
