//! The places of a bundle that arrives. A commit record lists them: where that list would be too long, small octets that follow each other
//! in the bundle are copied together.

use bytes::Bytes;
use dhow_bundle::crc::{CrcDigest, CrcType};
use dhow_bundle::storage::Extent;

use crate::arriving::Arriving;
use crate::compaction::Hindrance;
use crate::error::Trouble;
use crate::segment::Reference;
use crate::slot::reference;
use crate::store::Store;
use crate::wire::{index, length, put_varint};

/// Octets of one place in a list, at most: two numbers of 32 bits and one of 64.
const PLACE_OCTETS: u64 = 20;

/// Eighths of a segment that a list takes at most. A record may take four: a move or a note makes it longer.
const LIST_EIGHTHS: u64 = 3;

/// Eighths of a segment that a list takes, about, once octets were copied together.
const GATHERED_EIGHTHS: u64 = 2;

/// Octets read, checked and written at a time.
const COPY_OCTETS: u64 = 1024 * 1024;

impl Store {
    /// Sees that the list of a bundle's places fits into its commit record.
    pub(crate) fn gather_places(&mut self, arriving: &mut Arriving) -> Result<(), Hindrance> {
        let count = length(arriving.extents.len());
        let eighth = u64::from(self.log.layout.segment_octets) / 8;
        if count * PLACE_OCTETS <= eighth * LIST_EIGHTHS {
            return Ok(());
        }
        let mut list = Vec::new();
        self.put_places(&mut list, &arriving.extents)?;
        if length(list.len()) <= eighth * LIST_EIGHTHS {
            return Ok(());
        }
        let average = length(list.len()).div_ceil(count).max(1);
        let wanted = (eighth * GATHERED_EIGHTHS / average).max(1);
        let total: u64 = arriving.extents.iter().map(|extent| extent.length).sum();
        // Of groups that follow each other two have more octets than one may have: there are as many as wanted, about.
        let together = (2 * total / wanted).max(1);
        self.copy_together(arriving, together)
    }

    /// Copies places that follow each other, of so many octets at most, into one record, or into as few as there can be.
    fn copy_together(&mut self, arriving: &mut Arriving, together: u64) -> Result<(), Hindrance> {
        // They are read from the disk.
        self.log.flush()?;
        let alone = together.min(self.log.largest_payload(0));
        let extents = std::mem::take(&mut arriving.extents);
        let mut rest = extents.as_slice();
        while !rest.is_empty() {
            let (group, behind) = rest.split_at(group_length(rest, together, alone));
            if let [only] = group {
                arriving.extents.push(*only);
                rest = behind;
                continue;
            }
            let mut joined = Arriving::default();
            let copied = self.copy_group(&mut joined, group);
            arriving.extents.append(&mut joined.extents);
            if let Err(hindrance) = copied {
                // Nothing that is held is forgotten.
                arriving.extents.extend_from_slice(rest);
                return Err(hindrance);
            }
            rest = behind;
            match arriving.is_watched() {
                true => arriving.former.extend_from_slice(group),
                false => self.drop_places(group.iter().copied()),
            }
        }
        Ok(())
    }

    fn copy_group(&mut self, joined: &mut Arriving, group: &[Extent]) -> Result<(), Hindrance> {
        for extent in group {
            let header = self.header_of(*extent)?.ok_or(Hindrance::Corrupt)?;
            let mut running = CrcDigest::new(CrcType::Crc32C);
            let mut at = 0;
            while at < extent.length {
                let step = (extent.length - at).min(COPY_OCTETS);
                let mut octets = vec![0; index(step)];
                self.log.disk.read_at(extent.offset + at, &mut octets)?;
                running.update(&octets);
                joined.push(Bytes::from(octets).into());
                at += step;
                if joined.octets_pending() >= COPY_OCTETS {
                    self.write_pending(joined)?;
                }
            }
            // Octets that are not what was written must not get a checksum of their own.
            if !self.log.matches(&header, running.value()) {
                return Err(Hindrance::Corrupt);
            }
        }
        self.write_pending(joined)?;
        Ok(())
    }

    /// Writes a list of places.
    pub(crate) fn put_places(&self, body: &mut Vec<u8>, extents: &[Extent]) -> Result<(), Trouble> {
        put_varint(body, length(extents.len()));
        for extent in extents {
            let place = self.log.layout.locate(extent.offset);
            let (segment, offset) = place.ok_or(Trouble::Full)?;
            let generation = self
                .log
                .segments
                .at(segment)
                .map_or(0, |segment| segment.generation);
            put_varint(body, generation);
            put_varint(body, u64::from(offset));
            put_varint(body, extent.length);
        }
        Ok(())
    }

    /// Lets go of places of a bundle that is not committed.
    pub(crate) fn drop_places(&mut self, places: impl Iterator<Item = Extent>) {
        let references: Vec<_> = places
            .map(|extent| reference(&self.log.layout, &extent))
            .collect();
        self.drop_pinned(references);
    }

    /// Lets go of octets that were pinned.
    pub(crate) fn drop_pinned(&mut self, references: Vec<Reference>) {
        for reference in references {
            self.log.segments.unpin(reference);
            self.log
                .segments
                .release(reference, self.checkpoint.place.generation);
        }
    }
}

/// The number of places from the first on that are copied together; 1 for one that stays where it is.
fn group_length(places: &[Extent], together: u64, alone: u64) -> usize {
    let mut octets = 0_u64;
    let fits = |extent: &&Extent| {
        octets = octets.saturating_add(extent.length);
        octets <= together && extent.length < alone
    };
    places.iter().take_while(fits).count().max(1)
}
