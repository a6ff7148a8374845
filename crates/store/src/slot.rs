//! The store's table of bundles: where each lies, in 16 octets.

use std::collections::BTreeMap;

use dhow_bundle::storage::{BundleKey, Extent, Extents};

use crate::record::{HEADER_OCTETS, Layout, record_octets};
use crate::segment::Reference;
use crate::wire::index;

/// The place of a committed bundle.
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
    /// The octets before those in the commit record: a large bundle's.
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

    /// The references of the bundle to segments.
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

/// The reference of an extent outside a commit record.
pub(crate) fn reference(layout: &Layout, extent: &Extent) -> Reference {
    let segment = layout
        .locate(extent.offset)
        .map_or(u32::MAX, |(segment, _)| segment);
    Reference {
        segment,
        octets: record_octets(extent.length, 0),
    }
}

/// A slot as the table keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    segment: u32,
    offset: u32,
    payload: u32,
    body: u16,
    rest: Rest,
}

/// Whether the table has more of a slot beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    Beside,
}

/// The part of a slot that few bundles have: a long body, and octets outside the commit record.
#[derive(Clone, Debug)]
struct More {
    body: u32,
    before: Option<Box<Before>>,
}

/// The segment of a slot that holds nothing.
const NOWHERE: u32 = u32::MAX;

const VACANT: Packed = Packed {
    segment: NOWHERE,
    offset: 0,
    payload: 0,
    body: 0,
    rest: Rest::None,
};

/// Slots that are allocated at once: a table that is copied as it grows would take twice its room.
const SHEET: usize = 4096;

/// All committed bundles, by key.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// The first sheet grows with its slots: most stores are small.
    sheets: Vec<Vec<Packed>>,
    more: BTreeMap<BundleKey, More>,
    filled: usize,
    /// Octets of the bodies of their commit records.
    bodies: u64,
}

/// Octets of a remembered identifier beside those that the commit record has of it, at most: its expiry.
const EXPIRY_OCTETS: u64 = 10;

/// A key's sheet, and its row there.
fn split(BundleKey(key): BundleKey) -> (usize, usize) {
    (index(key) / SHEET, index(key) % SHEET)
}

impl Slots {
    /// None, with room for so many.
    pub(crate) fn with_room(count: usize) -> Self {
        Self {
            sheets: vec![Vec::with_capacity(count.min(SHEET))],
            ..Self::default()
        }
    }

    /// Whether a bundle is committed.
    pub(crate) fn has(&self, key: BundleKey) -> bool {
        self.packed(key).is_some()
    }

    fn packed(&self, key: BundleKey) -> Option<&Packed> {
        let (sheet, row) = split(key);
        let packed = self.sheets.get(sheet)?.get(row)?;
        (packed.segment != NOWHERE).then_some(packed)
    }

    pub(crate) fn at(&self, key: BundleKey) -> Option<Slot> {
        let packed = self.packed(key)?;
        Some(match (packed.rest, self.more.get(&key)) {
            (Rest::Beside, Some(more)) => packed.with(more.clone()),
            _ => packed.alone(),
        })
    }

    pub(crate) fn put(&mut self, key: BundleKey, slot: Slot) -> Option<Slot> {
        let before = self.take(key);
        self.bodies += u64::from(slot.body);
        self.filled += 1;
        let body = u16::try_from(slot.body);
        let rest = match slot.before.is_none() && body.is_ok() {
            true => Rest::None,
            false => Rest::Beside,
        };
        let packed = Packed {
            segment: slot.segment,
            offset: slot.offset,
            payload: slot.payload,
            body: body.unwrap_or(u16::MAX),
            rest,
        };
        if rest == Rest::Beside {
            let (body, before) = (slot.body, slot.before);
            self.more.insert(key, More { body, before });
        }
        if let Some(place) = self.place(key) {
            *place = packed;
        }
        before
    }

    /// The place of a key, which is made where there is none.
    fn place(&mut self, key: BundleKey) -> Option<&mut Packed> {
        let (sheet, row) = split(key);
        while self.sheets.len() <= sheet {
            if let Some(last) = self.sheets.last_mut() {
                last.resize(SHEET, VACANT);
            }
            let room = if self.sheets.is_empty() { 0 } else { SHEET };
            self.sheets.push(Vec::with_capacity(room));
        }
        let sheet = self.sheets.get_mut(sheet)?;
        if sheet.len() <= row {
            sheet.resize(row + 1, VACANT);
        }
        sheet.get_mut(row)
    }

    pub(crate) fn take(&mut self, key: BundleKey) -> Option<Slot> {
        let (sheet, row) = split(key);
        let place = self.sheets.get_mut(sheet)?.get_mut(row)?;
        if place.segment == NOWHERE {
            return None;
        }
        let packed = std::mem::replace(place, VACANT);
        let slot = match packed.rest {
            Rest::None => packed.alone(),
            Rest::Beside => match self.more.remove(&key) {
                Some(more) => packed.with(more),
                None => packed.alone(),
            },
        };
        self.filled -= 1;
        self.bodies -= u64::from(slot.body);
        Some(slot)
    }

    /// Octets that the identifiers of all take in a checkpoint, at most, once they are gone.
    pub(crate) fn identifier_octets(&self) -> u64 {
        self.bodies + crate::wire::length(self.filled) * EXPIRY_OCTETS
    }

    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    /// The bundles that have their commit record in a segment, or octets outside it that `inside` says are there.
    pub(crate) fn keys_in(&self, segment: u32, inside: impl Fn(&Extent) -> bool) -> Vec<BundleKey> {
        let packed = self.sheets.iter().flatten();
        let keys = (0_u32..).map(BundleKey).zip(packed);
        let has_octets = |key: &BundleKey| {
            let before = self.more.get(key).and_then(|more| more.before.as_ref());
            before.is_some_and(|before| before.extents.iter().any(&inside))
        };
        keys.filter(|(key, packed)| {
            packed.segment == segment || packed.rest == Rest::Beside && has_octets(key)
        })
        .map(|(key, _)| key)
        .collect()
    }

    /// Octets of memory that the table takes.
    pub(crate) fn memory_octets(&self) -> usize {
        let sheets = self.sheets.iter().map(Vec::capacity).sum::<usize>();
        let before = self.more.values().filter_map(|more| more.before.as_ref());
        let before: usize = before.map(|before| size_of_val(&*before.extents)).sum();
        sheets * size_of::<Packed>() + self.more.len() * size_of::<(BundleKey, More)>() + before
    }
}

impl Packed {
    /// The slot of which this is all.
    fn alone(self) -> Slot {
        self.with(More {
            body: u32::from(self.body),
            before: None,
        })
    }

    fn with(self, More { body, before }: More) -> Slot {
        Slot {
            segment: self.segment,
            offset: self.offset,
            payload: self.payload,
            body,
            before,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_slot_takes_16_octets() {
        assert_eq!(size_of::<Packed>(), 16);
    }

    proptest! {
        /// The table is a map from keys to slots, whatever is packed.
        #[test]
        fn slots_are_found_as_in_a_map(
            steps in prop::collection::vec((0_u32..9, 0_u32..3, prop_oneof![0_u32..9, 65_530_u32..65_540], 0_u64..3, any::<bool>()), 0..200)
        ) {
            let (mut slots, mut map) = (Slots::default(), BTreeMap::new());
            for (number, (key, segment, body, extents, put)) in (0_u32..).zip(steps) {
                // On three sheets.
                let key = BundleKey(key * 1_100);
                let before = (extents > 0).then(|| Box::new(Before {
                    extents: (0..extents).map(|offset| Extent { offset, length: 1 }).collect(),
                }));
                let slot = Slot { segment, offset: number, payload: number, body, before };
                let is = |slot: &Slot| format!("{slot:?}");
                let (found, wanted) = match put {
                    true => (slots.put(key, slot.clone()), map.insert(key, slot)),
                    false => (slots.take(key), map.remove(&key)),
                };
                prop_assert_eq!(found.as_ref().map(is), wanted.as_ref().map(is));
                prop_assert_eq!(slots.len(), map.len());
                for key in (0..9).map(|key| BundleKey(key * 1_100)) {
                    prop_assert_eq!(slots.at(key).as_ref().map(is), map.get(&key).map(is));
                    prop_assert_eq!(slots.has(key), map.contains_key(&key));
                }
                let with_second = |slot: &Slot| slot.segment == 1 || slot.before().iter().any(|it| it.offset == 1);
                let wanted: Vec<BundleKey> = map.iter().filter(|(_, slot)| with_second(slot)).map(|(key, _)| *key).collect();
                prop_assert_eq!(slots.keys_in(1, |extent| extent.offset == 1), wanted);
                let bodies: u64 = map.values().map(|slot| u64::from(slot.body)).sum();
                prop_assert_eq!(slots.identifier_octets(), bodies + crate::wire::length(map.len()) * EXPIRY_OCTETS);
            }
        }
    }
}
