//! The store's table of bundles: where each lies, in 24 octets.

use dhow_bundle::storage::{BundleKey, Extent, Extents};

use crate::record::{HEADER_OCTETS, Layout, record_octets};
use crate::segment::Reference;
use crate::wire::index;

/// Where a committed bundle lies.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// The segment of its commit record.
    pub(crate) segment: u32,
    /// The commit record's offset there.
    pub(crate) offset: u32,
    /// Octets of the bundle in the commit record.
    pub(crate) payload: u32,
    /// Octets of the commit record's body.
    pub(crate) body: u32,
    /// What comes before the octets in the commit record: a large bundle's.
    pub(crate) before: Option<Box<Before>>,
}

/// Extents of a bundle outside its commit record.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    pub(crate) extents: Box<[Extent]>,
}

impl Slot {
    pub(crate) fn before(&self) -> &[Extent] {
        self.before.as_ref().map_or(&[], |before| &before.extents)
    }

    /// The bundle's octets in the commit record.
    pub(crate) fn own(&self, layout: &Layout) -> Extent {
        Extent {
            offset: layout.position(self.segment, self.offset) + u64::from(HEADER_OCTETS),
            length: u64::from(self.payload),
        }
    }

    pub(crate) fn extents(&self, layout: &Layout) -> Extents {
        let own = self.own(layout);
        match self.before() {
            [] => Extents::One(own),
            [only] if own.length == 0 => Extents::One(*only),
            before => {
                let own = (own.length > 0).then_some(own);
                Extents::Many(before.iter().copied().chain(own).collect())
            }
        }
    }

    /// What the bundle holds in the segments.
    pub(crate) fn references<'a>(
        &'a self,
        layout: &Layout,
    ) -> impl Iterator<Item = Reference> + use<'a> {
        let layout = *layout;
        let commit = Reference {
            segment: self.segment,
            octets: record_octets(u64::from(self.payload), u64::from(self.body)),
        };
        let before = self
            .before()
            .iter()
            .map(move |extent| reference(&layout, extent));
        std::iter::once(commit).chain(before)
    }
}

/// What an extent outside a commit record holds.
pub(crate) fn reference(layout: &Layout, extent: &Extent) -> Reference {
    let segment = layout
        .locate(extent.offset)
        .map_or(u32::MAX, |(segment, _)| segment);
    Reference {
        segment,
        octets: record_octets(extent.length, 0),
    }
}

/// The segment of a slot that holds nothing: without it each slot would take eight octets more.
const NOWHERE: u32 = u32::MAX;

const VACANT: Slot = Slot {
    segment: NOWHERE,
    offset: 0,
    payload: 0,
    body: 0,
    before: None,
};

/// All committed bundles, by key.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    filled: usize,
    /// Octets of the bodies of their commit records.
    bodies: u64,
}

/// Octets of a remembered identifier beside those that the commit record has of it, at most: its expiry.
const EXPIRY_OCTETS: u64 = 10;

impl Slots {
    /// None, with room for so many.
    pub(crate) fn with_room(count: usize) -> Self {
        Self {
            slots: Vec::with_capacity(count),
            ..Self::default()
        }
    }

    pub(crate) fn at(&self, key: BundleKey) -> Option<&Slot> {
        self.slots
            .get(index(key.0))
            .filter(|slot| slot.segment != NOWHERE)
    }

    pub(crate) fn put(&mut self, key: BundleKey, slot: Slot) -> Option<Slot> {
        if self.slots.len() <= index(key.0) {
            self.slots.resize_with(index(key.0) + 1, || VACANT);
        }
        let place = self.slots.get_mut(index(key.0))?;
        self.bodies += u64::from(slot.body);
        let before = std::mem::replace(place, slot);
        self.bodies -= u64::from(before.body);
        if before.segment == NOWHERE {
            self.filled += 1;
            return None;
        }
        Some(before)
    }

    pub(crate) fn take(&mut self, key: BundleKey) -> Option<Slot> {
        let place = self
            .slots
            .get_mut(index(key.0))
            .filter(|slot| slot.segment != NOWHERE)?;
        self.filled -= 1;
        self.bodies -= u64::from(place.body);
        Some(std::mem::replace(place, VACANT))
    }

    /// Octets that the identifiers of all take in a checkpoint, at most, once they are gone.
    pub(crate) fn identifier_octets(&self) -> u64 {
        self.bodies + crate::wire::length(self.filled) * EXPIRY_OCTETS
    }

    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (BundleKey, &Slot)> {
        (0_u32..)
            .zip(self.slots.iter())
            .filter(|(_, slot)| slot.segment != NOWHERE)
            .map(|(key, slot)| (BundleKey(key), slot))
    }

    /// Octets of memory that the table takes.
    pub(crate) fn memory_octets(&self) -> usize {
        let before: usize = self
            .iter()
            .map(|(_, slot)| size_of_val(slot.before()))
            .sum();
        self.slots.capacity() * size_of::<Slot>() + before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_takes_24_octets() {
        assert_eq!(size_of::<Slot>(), 24);
    }
}
