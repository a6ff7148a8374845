//! Emptying segments: the bundles of the emptiest one are copied to the log's end (docs/store-format.md 7).

use bytes::Bytes;
use dhow_bundle::crc::{CrcDigest, CrcType, crc32c};
use dhow_bundle::storage::{BundleKey, Extent, StoreEvent};

use crate::disk::DiskError;
use crate::error::Trouble;
use crate::record::{HEADER_OCTETS, Header, Kind, Place};
use crate::room::Purpose;
use crate::segment::{Reference, Segment, Turn, Usage};
use crate::slot::{Before, Slot, reference};
use crate::store::Store;
use crate::wire::{Reader, index, length};

/// Octets copied after one batch of commands, so that a batch is not held up for a whole segment.
const STEP_OCTETS: u64 = 4 * 1024 * 1024;

/// Octets read, checked and written at a time.
const COPY_OCTETS: u64 = 1024 * 1024;

/// Octets of a bundle that are copied into its new commit record rather than beside it.
const INLINE_OCTETS: u64 = 16 * 1024;

/// A segment is not worth copying when more than this many eighths of it are live.
const WORTH_EIGHTHS: u64 = 7;

/// A log that may grow is kept short all the same: a segment of which so many eighths or less are live, a few bundles that
/// stay while all others went, is emptied rather than another one added.
const SPARSE_EIGHTHS: u64 = 2;

/// Such a segment has not lost anything while so many others were begun: one that a stream drains is soon empty by itself.
const SETTLED_SEGMENTS: u64 = 4;

/// The segment that is being emptied, and what is left in it.
#[derive(Debug)]
pub(crate) struct Compaction {
    segment: u32,
    keys: Vec<BundleKey>,
}

/// What reading a record's octets back says of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They match their checksums.
    Intact,
    /// They do not; the bundle is in quarantine.
    Corrupt,
    /// There is no such bundle.
    Absent,
}

/// Why a bundle was not moved.
enum Hindrance {
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
        let Some(slot) = self.slots.at(key).cloned() else {
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

    fn quarantine(&mut self, key: BundleKey) {
        if self.quarantined.insert(key) {
            self.counts.corrupt += 1;
            self.ready.push(StoreEvent::Corrupt { key });
        }
    }

    /// The header of the record whose payload an extent is; `None` when it is damaged.
    fn header_of(&self, extent: Extent) -> Result<Option<Header>, DiskError> {
        let position = extent.offset.saturating_sub(u64::from(HEADER_OCTETS));
        let mut octets = [0; 32];
        self.log.disk.read_at(position, &mut octets)?;
        let header = Header::decode(&octets, self.log.layout.seed, position, None);
        Ok(header.filter(|header| u64::from(header.payload_octets) == extent.length))
    }

    fn check_octets(&self, extent: Extent) -> Result<bool, DiskError> {
        let Some(header) = self.header_of(extent)? else {
            return Ok(false);
        };
        let mut running = CrcDigest::new(CrcType::Crc32C);
        let mut at = 0;
        while at < extent.length {
            let step = (extent.length - at).min(COPY_OCTETS);
            let mut octets = vec![0; index(step)];
            self.log.disk.read_at(extent.offset + at, &mut octets)?;
            running.update(&octets);
            at += step;
        }
        Ok(extent.length == 0 || self.log.matches(&header, running.value()))
    }

    /// Goes on emptying a segment, or chooses one when free segments run low.
    pub(crate) fn compact(&mut self) -> Result<(), Trouble> {
        if self.compaction.is_none() {
            self.compaction = self.choose_victim();
        }
        let Some(mut compaction) = self.compaction.take() else {
            return Ok(());
        };
        self.log.flush()?;
        let mut moved_octets = 0;
        while moved_octets < STEP_OCTETS {
            let Some(key) = compaction.keys.pop() else {
                return Ok(());
            };
            if self.moved.contains_key(&key) {
                continue;
            }
            let Some(slot) = self.slots.at(key).cloned() else {
                continue;
            };
            let mut held = slot.references(&self.log.layout);
            if !held.any(|reference| reference.segment == compaction.segment) {
                continue;
            }
            match self.move_bundle(key, &slot, compaction.segment) {
                Ok(octets) => moved_octets += octets,
                Err(Hindrance::Corrupt) => self.quarantine(key),
                // There is no room for more; what has been moved may make some.
                Err(Hindrance::Trouble(Trouble::Full)) => return Ok(()),
                Err(Hindrance::Trouble(trouble)) => return Err(trouble),
            }
        }
        self.compaction = Some(compaction);
        Ok(())
    }

    fn choose_victim(&self) -> Option<Compaction> {
        let segments = &self.log.segments;
        let grows = !self.cramped && segments.len() < self.bound(Purpose::Bundle);
        let enough = segments.free() > self.reserve(Purpose::Bundle) + 1;
        // Where the log may grow, a checkpoint need not free what is dead before more is made so.
        let freeing = segments.dead() > 0 && (!grows || segments.dead() * 8 >= segments.len());
        if enough || freeing || !self.moved.is_empty() {
            return None;
        }
        let spoiled: Vec<u32> = self
            .quarantined
            .iter()
            .filter_map(|key| self.slots.at(*key))
            .flat_map(|slot| slot.references(&self.log.layout))
            .map(|reference| reference.segment)
            .collect();
        let eighths = if grows { SPARSE_EIGHTHS } else { WORTH_EIGHTHS };
        let worth = u64::from(self.log.layout.segment_octets) / 8 * eighths;
        let settled = |segment: &Segment| {
            !grows || segment.touched.saturating_add(SETTLED_SEGMENTS) <= segments.newest()
        };
        let (victim, _) = segments
            .iter()
            .filter(|(number, segment)| {
                segment.usage == Usage::Sealed
                    && segment.pinned == 0
                    && segment.live_octets <= worth
                    && segment.live_octets > 0
                    && settled(segment)
                    && !spoiled.contains(number)
            })
            .min_by_key(|(_, segment)| segment.live_octets)?;
        let inside = |extent: &Extent| reference(&self.log.layout, extent).segment == victim;
        let keys = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.segment == victim || slot.before().iter().any(inside));
        Some(Compaction {
            segment: victim,
            keys: keys.map(|(key, _)| key).collect(),
        })
    }

    /// Copies what a bundle has in a segment, and writes a commit record that replaces its old one. The octets copied come back.
    fn move_bundle(&mut self, key: BundleKey, old: &Slot, victim: u32) -> Result<u64, Hindrance> {
        let body = self.read_body(old)?;
        let mut copied = Vec::new();
        let result = self.write_moved(old, victim, &body, &mut copied);
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
                self.moving.push((key, old.clone()));
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

    /// Writes the copies and the new commit record; `held` are the references taken so far.
    fn write_moved(
        &mut self,
        old: &Slot,
        victim: u32,
        body: &[u8],
        held: &mut Vec<Reference>,
    ) -> Result<(Slot, u64), Hindrance> {
        let own = old.own(&self.log.layout);
        let inline = old.segment == victim && own.length <= INLINE_OCTETS;
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
            if reference(&self.log.layout, &extent).segment == victim {
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
        self.make_room(length(payload.len()), length(body.len()), Purpose::Move)?;
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

    fn read_body(&self, slot: &Slot) -> Result<Vec<u8>, Hindrance> {
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

    /// Puts a bundle back to where it was before a move that did not become durable.
    pub(crate) fn undo_move(&mut self, key: BundleKey, former: Slot) {
        for reference in self.moved.remove(&key).unwrap_or_default() {
            self.log.segments.unpin(reference);
        }
        if let Some(segment) = self.log.segments.at_mut(former.segment) {
            segment.turn_commit(former.offset, Turn::Live);
        }
        if let Some(new) = self.slots.put(key, former) {
            if let Some(segment) = self.log.segments.at_mut(new.segment) {
                segment.turn_commit(new.offset, Turn::Dead);
            }
            for reference in new.references(&self.log.layout) {
                self.log
                    .segments
                    .release(reference, self.checkpoint.place.generation);
            }
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
