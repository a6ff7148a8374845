//! Bundles that arrive: their octets, and the commit that makes them whole.

use std::collections::BTreeMap;

use bytes::Bytes;
use dhow_bundle::crc::{crc32c, joined_crc32c};
use dhow_bundle::storage::{BundleKey, Extent, Piece, StoreEvent, StoreRefusal, StoredBundle};

use crate::compaction::Hindrance;
use crate::error::Trouble;
use crate::record::{Kind, Place};
use crate::reserve::Purpose;
use crate::segment::Reference;
use crate::slot::{Before, Slot, reference};
use crate::store::Store;
use crate::wire::{index, length, put_varint};

/// A bundle, or the rest of one, of at most so many octets is not divided at the end of a segment.
const WHOLE_OCTETS: u64 = 16 * 1024;

/// A portion with so many whole blocks (of 4096 octets: 64 KiB) gets a record of its own, which the disk takes without a copy. It
/// keeps the buffer that it came in, of which others may have had the rest: a disk that keeps it in memory has to count with that.
const BLOCKS: usize = 16;

/// Extents up to which a bundle's portions get such records: each takes memory as long as the bundle is here.
const BLOCK_EXTENTS: usize = 128;

/// Stored octets are copied in steps of this many.
const COPY_STEP_OCTETS: u64 = 1024 * 1024;

/// Of a portion from whose beginning fewer octets are split off, the rest has a checksum that is computed from them.
const SPLIT_OCTETS: usize = 8 * 1024;

/// Pieces for which the room of one bundle is kept for the next.
const SPARE_PIECES: usize = 16;

/// Keys are small and dense: the table grows to the largest. A node has far fewer bundles than this.
const KEY_BOUND: u32 = 1 << 28;

/// Octets for a record's payload, and their CRC-32C where it is known.
#[derive(Clone, Debug)]
pub(crate) struct Portion {
    pub(crate) octets: Bytes,
    pub(crate) crc: Option<u32>,
}

impl From<Bytes> for Portion {
    fn from(octets: Bytes) -> Self {
        Self { octets, crc: None }
    }
}

/// The meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Nothing, or a bundle that is arriving.
    Open,
    /// A committed bundle.
    Stored,
    /// A bundle that was refused.
    Refused,
}

/// A bundle that is arriving.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    /// The places of octets that have been written, in order.
    pub(crate) extents: Vec<Extent>,
    written: u64,
    /// Octets that have not been written.
    pending: Vec<Portion>,
    pending_octets: u64,
    /// Written octets that the node was told of.
    reported: u64,
    /// The number of `extents` that the node was told of; `None` where nobody watches.
    told: Option<usize>,
    /// The position in `extents` of the first one behind the header, for others to share.
    division: usize,
    /// Octets that came behind gaps, by their position: parts that do not touch each other.
    pub(crate) behind: BTreeMap<u64, Arriving>,
    /// Places that octets had before they were copied together, which somebody who watches may read.
    pub(crate) former: Vec<Extent>,
}

impl Arriving {
    /// Octets that are there before the first gap.
    pub(crate) fn octets(&self) -> u64 {
        self.written + self.pending_octets
    }

    pub(crate) fn has_written(&self) -> bool {
        !self.extents.is_empty()
    }

    /// Octets that have not been written.
    pub(crate) const fn octets_pending(&self) -> u64 {
        self.pending_octets
    }

    /// Whether somebody is told where its octets lie.
    pub(crate) const fn is_watched(&self) -> bool {
        self.told.is_some()
    }

    /// Adds what follows: where some of it was written, nothing of this is pending.
    pub(crate) fn take_in(&mut self, next: Self) {
        self.extents.extend(next.extents);
        self.written += next.written;
        self.pending.extend(next.pending);
        self.pending_octets += next.pending_octets;
    }

    /// Octets that have been written, before the first gap and behind it.
    fn written_octets(&self) -> [u64; 2] {
        let behind = self.behind.values().map(|part| part.written).sum();
        [self.written, behind]
    }

    fn is_pending(&self) -> bool {
        self.pending_octets > 0 || self.behind.values().any(|part| part.pending_octets > 0)
    }

    pub(crate) fn push(&mut self, portion: Portion) {
        if !portion.octets.is_empty() {
            self.pending_octets += length(portion.octets.len());
            self.pending.push(portion);
        }
    }

    /// The number of octets pending before the first place from which whole blocks can be written as they are, and how many
    /// there are from there to the end of their portion.
    fn blocks(&self, grain: usize) -> Option<(u64, u64)> {
        let mut before = 0;
        for portion in &self.pending {
            let octets = portion.octets.len();
            let lead = portion.octets.as_ptr().align_offset(grain).min(octets);
            if octets - lead >= BLOCKS * grain {
                return Some((length(before + lead), length(octets - lead)));
            }
            before += octets;
        }
        None
    }

    /// Takes the first `count` octets of what is pending.
    fn take(&mut self, count: u64) -> Vec<Portion> {
        if count == self.pending_octets {
            self.pending_octets = 0;
            return std::mem::take(&mut self.pending);
        }
        let mut taken = Vec::new();
        let mut wanted = count;
        let mut rest = Vec::new();
        for mut portion in self.pending.drain(..) {
            let octets = length(portion.octets.len());
            if wanted == 0 {
                rest.push(portion);
            } else if wanted >= octets {
                wanted -= octets;
                taken.push(portion);
            } else {
                let first = portion.octets.split_to(index(wanted));
                // If much is split off, the rest's is computed when it is wanted.
                let crc = portion.crc.filter(|_| first.len() < SPLIT_OCTETS);
                let left = length(portion.octets.len());
                portion.crc = crc.map(|crc| joined_crc32c(crc32c(&first), crc, left));
                taken.push(first.into());
                wanted = 0;
                rest.push(portion);
            }
        }
        self.pending = rest;
        self.pending_octets -= count;
        taken
    }
}

impl Store {
    pub(crate) fn handle_append(&mut self, key: BundleKey, octets: Piece, crc: Option<u32>) {
        if self.opening(key) != Opening::Open {
            return;
        }
        if self
            .current
            .as_ref()
            .is_none_or(|(current, _)| *current != key)
        {
            let arriving = self.arriving.remove(&key).unwrap_or_else(|| Arriving {
                pending: std::mem::take(&mut self.spare),
                ..Arriving::default()
            });
            if let Some((before, arriving)) = self.current.replace((key, arriving)) {
                self.arriving.insert(before, arriving);
            }
        }
        if self.failure.is_some() {
            return self.refuse(key, StoreRefusal::Disk);
        }
        let gap = self.current.as_ref().and_then(|(_, arriving)| {
            let has_gap = !arriving.behind.is_empty();
            has_gap.then(|| arriving.octets())
        });
        match (octets, gap) {
            (Piece::Octets(octets), None) => {
                if let Some((_, arriving)) = &mut self.current {
                    arriving.push(Portion { octets, crc });
                }
            }
            (Piece::Octets(octets), Some(at)) => self.handle_append_at(key, at, octets),
            (Piece::Extent(_), Some(_)) => self.refuse(key, StoreRefusal::Gaps),
            (Piece::Extent(extent), None) => self.copy_extent(key, extent),
        }
    }

    /// The node wants to know where a bundle lies while it arrives.
    pub(crate) fn handle_watch(&mut self, key: BundleKey) {
        if self.opening(key) == Opening::Open
            && let Some(mut arriving) = self.take_arriving(key)
        {
            arriving.told.get_or_insert(0);
            self.arriving.insert(key, arriving);
        }
    }

    /// The octets that follow in an arriving bundle get records of their own.
    pub(crate) fn handle_divide(&mut self, key: BundleKey) {
        let Some(mut arriving) = self.take_arriving(key) else {
            return;
        };
        let written = self.write_pending(&mut arriving);
        arriving.division = arriving.extents.len();
        self.arriving.insert(key, arriving);
        if let Err(trouble) = written {
            self.refuse_after(key, trouble);
        }
    }

    /// Two arriving bundles have octets in common.
    pub(crate) fn handle_share(&mut self, key: BundleKey, from: BundleKey) {
        if self.opening(key) != Opening::Open || key == from {
            return;
        }
        let Some(mut source) = self.take_arriving(from) else {
            // Nothing of it is left: a bundle made of it would not be whole.
            return self.refuse(key, StoreRefusal::Disk);
        };
        if !source.behind.is_empty() {
            self.arriving.insert(from, source);
            return self.refuse(key, StoreRefusal::Gaps);
        }
        let written = self.write_pending(&mut source);
        let shared = source.extents.get(source.division..).unwrap_or_default();
        let shared = shared.to_vec();
        self.arriving.insert(from, source);
        if let Err(trouble) = written {
            self.refuse_after(from, trouble);
            return self.refuse(key, StoreRefusal::Full);
        }
        let mut arriving = self.take_arriving(key).unwrap_or_default();
        if !arriving.behind.is_empty() {
            self.arriving.insert(key, arriving);
            return self.refuse(key, StoreRefusal::Gaps);
        }
        let written = self.write_pending(&mut arriving);
        for extent in shared {
            let reference = reference(&self.log.layout, &extent);
            self.log.segments.hold(reference);
            self.log.segments.pin(reference);
            arriving.written += extent.length;
            arriving.extents.push(extent);
        }
        self.arriving.insert(key, arriving);
        if let Err(trouble) = written {
            self.refuse_after(key, trouble);
        }
    }

    /// Tells where the octets lie that were written for bundles that somebody watches.
    pub(crate) fn tell_written(&mut self) {
        for (key, arriving) in &mut self.arriving {
            let Some(told) = arriving.told else { continue };
            let extents = arriving.extents.get(told..).unwrap_or_default();
            if !extents.is_empty() {
                self.written.push(StoreEvent::Written {
                    key: *key,
                    extents: extents.to_vec(),
                });
                arriving.told = Some(arriving.extents.len());
            }
        }
    }

    /// Adds a copy of stored octets to an arriving bundle.
    fn copy_extent(&mut self, key: BundleKey, extent: Extent) {
        let Some(mut arriving) = self.take_arriving(key) else {
            return;
        };
        let copied = self.copy_octets(&mut arriving, extent);
        self.current = Some((key, arriving));
        if let Err(trouble) = copied {
            self.refuse_after(key, trouble);
        }
    }

    fn copy_octets(&mut self, arriving: &mut Arriving, extent: Extent) -> Result<(), Trouble> {
        self.log.flush()?;
        let mut offset = extent.offset;
        let end = extent.offset.saturating_add(extent.length);
        if end > self.log.disk.size()? {
            return Err(crate::DiskError::PastEnd { end }.into());
        }
        while offset < end {
            let step = (end - offset).min(COPY_STEP_OCTETS);
            let mut octets = vec![0; index(step)];
            self.log.disk.read_at(offset, &mut octets)?;
            arriving.push(Bytes::from(octets).into());
            if arriving.pending_octets >= COPY_STEP_OCTETS * 4 {
                self.write_pending(arriving)?;
            }
            offset += step;
        }
        Ok(())
    }

    /// Writes what is pending of a bundle as octets records.
    pub(crate) fn write_pending(&mut self, arriving: &mut Arriving) -> Result<(), Trouble> {
        self.write_blocks(arriving)?;
        self.write_octets(arriving, arriving.pending_octets)
    }

    /// Writes what is pending of a bundle up to the last of it that the disk takes without a copy.
    fn write_blocks(&mut self, arriving: &mut Arriving) -> Result<(), Trouble> {
        let Some(grain) = self.log.grain() else {
            return Ok(());
        };
        while arriving.extents.len() < BLOCK_EXTENTS
            && let Some((before, blocks)) = arriving.blocks(grain)
        {
            self.write_octets(arriving, before)?;
            let most = length(2 * grain);
            self.make_room(blocks.min(WHOLE_OCTETS) + most, 0, Purpose::Bundle)?;
            self.log.pad(grain)?;
            self.write_octets(arriving, blocks)?;
        }
        Ok(())
    }

    /// Writes the first `count` octets of what is pending of a bundle.
    fn write_octets(&mut self, arriving: &mut Arriving, count: u64) -> Result<(), Trouble> {
        let end = arriving.written + count;
        while arriving.written < end {
            let left = end - arriving.written;
            let least = left.min(WHOLE_OCTETS);
            self.make_room(least, 0, Purpose::Bundle)?;
            let most = left.min(self.log.room(0));
            let count = if self.log.fits(most, 0) { most } else { least };
            let payload = arriving.take(count);
            let appended = self.log.append(Kind::Octets, &payload, &[])?;
            let extent = Extent {
                offset: appended.payload,
                length: count,
            };
            let reference = reference(&self.log.layout, &extent);
            self.log.segments.hold(reference);
            self.log.segments.pin(reference);
            arriving.extents.push(extent);
            arriving.written += count;
        }
        Ok(())
    }

    pub(crate) fn handle_commit(&mut self, key: BundleKey, bundle: &StoredBundle) {
        match self.opening(key) {
            Opening::Open if key.0 < KEY_BOUND => {}
            Opening::Stored => return,
            Opening::Open | Opening::Refused => {
                let refusal = self
                    .refused
                    .get(&key)
                    .copied()
                    .unwrap_or(StoreRefusal::Full);
                return self.refuse(key, refusal);
            }
        }
        if self.failure.is_some() {
            return self.refuse(key, StoreRefusal::Disk);
        }
        let mut arriving = self.take_arriving(key).unwrap_or_default();
        if !arriving.behind.is_empty() {
            self.arriving.insert(key, arriving);
            return self.refuse(key, StoreRefusal::Gaps);
        }
        match self.commit_bundle(&mut arriving, bundle) {
            Ok(slot) => {
                let extents = slot.extents(&self.log.layout);
                self.waiting.push(StoreEvent::Stored {
                    key,
                    extents: extents.clone(),
                });
                if !arriving.former.is_empty() {
                    let former = arriving.former.iter();
                    let references = former.map(|it| reference(&self.log.layout, it));
                    self.moved.insert(key, references.collect());
                    self.waiting.push(StoreEvent::Relocated { key, extents });
                }
                self.slots.put(key, slot);
            }
            Err(hindrance) => {
                self.arriving.insert(key, arriving);
                match hindrance {
                    Hindrance::Corrupt => self.refuse(key, StoreRefusal::Disk),
                    Hindrance::Trouble(trouble) => self.refuse_after(key, trouble),
                }
            }
        }
    }

    fn commit_bundle(
        &mut self,
        arriving: &mut Arriving,
        bundle: &StoredBundle,
    ) -> Result<Slot, Hindrance> {
        let mut body = std::mem::take(&mut self.body);
        let result = self.write_commit(arriving, bundle, &mut body);
        self.body = body;
        result
    }

    fn write_commit(
        &mut self,
        arriving: &mut Arriving,
        bundle: &StoredBundle,
        body: &mut Vec<u8>,
    ) -> Result<Slot, Hindrance> {
        self.write_blocks(arriving)?;
        self.gather_places(arriving)?;
        self.encode_commit(body, self.next_arrival, None, &arriving.extents)?;
        self.envelope.put(body, bundle);
        if !self
            .log
            .is_sure(arriving.pending_octets, length(body.len()))
        {
            let whole = arriving.pending_octets
                <= WHOLE_OCTETS.min(self.log.largest_payload(length(body.len())))
                || self.log.fits(arriving.pending_octets, length(body.len()));
            if !whole {
                self.write_pending(arriving)?;
                self.encode_commit(body, self.next_arrival, None, &arriving.extents)?;
                self.envelope.put(body, bundle);
            }
            self.make_room(arriving.pending_octets, length(body.len()), Purpose::Bundle)?;
        }
        // A checkpoint on the way may have begun other segments, but places of extents do not change by that.
        let mut payload = std::mem::take(&mut arriving.pending);
        let payload_octets = std::mem::take(&mut arriving.pending_octets);
        let appended = self.log.append(Kind::Commit, &payload, body)?;
        payload.clear();
        if payload.capacity() <= SPARE_PIECES {
            self.spare = payload;
        }
        self.next_arrival += 1;
        let extents = std::mem::take(&mut arriving.extents);
        for extent in &extents {
            self.log.segments.unpin(reference(&self.log.layout, extent));
        }
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
        Ok(Slot {
            segment: appended.segment,
            offset: appended.place.offset,
            payload: u32::try_from(payload_octets).unwrap_or(u32::MAX),
            body: u32::try_from(body.len()).unwrap_or(u32::MAX),
            before,
        })
    }

    /// Writes the first part of a commit record's body.
    pub(crate) fn encode_commit(
        &self,
        body: &mut Vec<u8>,
        arrival: u64,
        replaced: Option<Place>,
        extents: &[Extent],
    ) -> Result<(), Trouble> {
        body.clear();
        put_varint(body, arrival);
        match replaced {
            None => put_varint(body, 0),
            Some(place) => {
                put_varint(body, place.generation);
                put_varint(body, u64::from(place.offset));
            }
        }
        self.put_places(body, extents)?;
        if length(body.len()) > u64::from(self.log.layout.segment_octets) / 2 {
            // A bundle in so many pieces would need a commit record longer than a segment.
            return Err(Trouble::Full);
        }
        Ok(())
    }

    /// Writes the octets of this batch for the bundles that are still arriving.
    pub(crate) fn finish_arrivals(&mut self) {
        if let Some((key, arriving)) = self.current.take() {
            self.arriving.insert(key, arriving);
        }
        let keys: Vec<BundleKey> = self
            .arriving
            .iter()
            .filter(|(_, arriving)| arriving.is_pending())
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            let Some(mut arriving) = self.arriving.remove(&key) else {
                continue;
            };
            let mut written = self.write_pending(&mut arriving);
            for part in arriving.behind.values_mut() {
                written = written.and_then(|()| self.write_pending(part));
            }
            self.arriving.insert(key, arriving);
            if let Err(trouble) = written {
                self.refuse_after(key, trouble);
            }
        }
        for (key, arriving) in &mut self.arriving {
            let [octets, behind] = arriving.written_octets();
            if arriving.reported < octets + behind {
                arriving.reported = octets + behind;
                let key = *key;
                self.waiting.push(match behind {
                    0 => StoreEvent::Durable { key, octets },
                    _ => StoreEvent::DurableParts {
                        key,
                        octets,
                        behind,
                    },
                });
            }
        }
    }

    /// Refuses an arriving bundle because of what happened to its octets.
    pub(crate) fn refuse_after(&mut self, key: BundleKey, trouble: Trouble) {
        match trouble {
            Trouble::Full => {
                self.is_wanting = true;
                self.refuse(key, StoreRefusal::Full);
            }
            Trouble::Disk(error) => {
                self.refuse(key, StoreRefusal::Disk);
                self.fail(error);
            }
        }
    }

    /// Refuses an arriving bundle, and lets go of its octets.
    pub(crate) fn refuse(&mut self, key: BundleKey, refusal: StoreRefusal) {
        if let Some(arriving) = self.take_arriving(key) {
            self.drop_extents(&arriving);
        }
        self.refused.insert(key, refusal);
        let event = StoreEvent::Refused { key, refusal };
        // A refusal needs nothing durable, and while the disk fails nothing becomes so.
        if self.failure.is_some() {
            self.ready.push(event)
        } else {
            self.waiting.push(event)
        }
    }

    /// Lets go of the octets of a bundle that was never committed.
    pub(crate) fn drop_extents(&mut self, arriving: &Arriving) {
        self.drop_places(arriving.places().copied());
    }
}
