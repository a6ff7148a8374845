//! Fragments for endpoints of this node, until they make a whole (RFC 9171 5.9).

use crate::held::Held;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use dhow_bundle::storage::Extent;
use dhow_bundle::storage::Piece;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{CreationTimestamp, FragmentRange};

use crate::held::bundles::{Entry, Identity};
use crate::held::endpoints::EndpointIndex;
use crate::held::retention::State;

/// The identity of an application data unit: source, creation timestamp, destination and its total
/// length, so that fragments which contradict each other never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitId {
    pub(crate) source: EndpointIndex,
    pub(crate) creation: CreationTimestamp,
    pub(crate) destination: EndpointIndex,
    pub(crate) total_octets: u64,
}

impl UnitId {
    /// The unit that a bundle carries, all of it or a fragment.
    pub(crate) fn of(entry: &Entry) -> Self {
        let fragment = entry.fragment();
        Self {
            source: entry.source(),
            creation: entry.creation(),
            destination: entry.destination(),
            total_octets: fragment.map_or(entry.payload_octets(), |it| it.total_octets),
        }
    }
}

/// One piece of a whole: which octets of which fragment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) key: BundleKey,
    pub(crate) skip: u64,
    pub(crate) octets: u64,
}

#[derive(Default)]
struct Unit {
    /// Every fragment held, by offset and key: overlapping ones too.
    fragments: BTreeMap<(u64, BundleKey), u64>,
    /// The ranges that they cover together: start → end, merged. `None` after one was taken back, until it matters
    /// again: all fragments of a unit expire at about the same time, and each would cost a look at all.
    covered: Option<BTreeMap<u64, u64>>,
}

/// A unit that is complete and waits for delivery.
struct Whole {
    id: UnitId,
    parts: Vec<Part>,
    members: Vec<BundleKey>,
    /// The number of members, from the first, that are known to be intact.
    sound: usize,
}

impl Unit {
    /// The ranges that the fragments cover together, the newest included.
    fn cover_with(&mut self, newest: FragmentRange) -> &BTreeMap<u64, u64> {
        let end = |offset: u64, length| offset.saturating_add(length);
        let covered = self.covered.get_or_insert_with(|| {
            let mut covered = BTreeMap::new();
            for (&(offset, _), &length) in &self.fragments {
                cover(&mut covered, offset, end(offset, length));
            }
            covered
        });
        cover(covered, newest.offset, end(newest.offset, newest.length));
        covered
    }
}

/// All units under way, and those that are whole and wait for delivery.
#[derive(Default)]
pub(crate) struct Reassembly {
    units: BTreeMap<UnitId, Unit>,
    /// Wholes by the fragment that stands for each.
    whole: BTreeMap<BundleKey, Whole>,
    /// The fragment that stands for the whole of a unit: there is one at most.
    whole_of: BTreeMap<UnitId, BundleKey>,
    /// The fragment that stands for the whole, by each fragment that is part of it.
    stands_for: BTreeMap<BundleKey, BundleKey>,
}

impl Reassembly {
    /// Add a fragment of a unit that is not whole; the key that stands for the whole, once it is complete.
    pub(crate) fn add(
        &mut self,
        id: UnitId,
        range: FragmentRange,
        key: BundleKey,
    ) -> Option<BundleKey> {
        let unit = self.units.entry(id).or_default();
        unit.fragments.insert((range.offset, key), range.length);
        let complete = unit
            .cover_with(range)
            .get(&0)
            .is_some_and(|&end| end >= id.total_octets);
        let adds_up = |unit: &Unit| unit.fragments.values().sum::<u64>() >= id.total_octets;
        let seems = !complete && planted(Mutant::LengthsAddedUp) && adds_up(unit);
        if !(complete || seems) {
            return None;
        }
        let unit = self.units.remove(&id)?;
        let parts = plan(&unit.fragments, id.total_octets);
        let members: Vec<BundleKey> = unit.fragments.keys().map(|&(_, key)| key).collect();
        let head = parts.first().map_or(key, |part| part.key);
        for &member in members.iter().filter(|&&member| member != head) {
            self.stands_for.insert(member, head);
        }
        let whole = Whole {
            id,
            parts,
            members,
            sound: 0,
        };
        self.whole.insert(head, whole);
        self.whole_of.insert(id, head);
        Some(head)
    }

    /// The first fragment of the whole that `key` stands for that is not known to be intact.
    pub(crate) fn unsound(
        &mut self,
        key: BundleKey,
        is_intact: impl Fn(BundleKey) -> bool,
    ) -> Option<BundleKey> {
        let whole = self.whole.get_mut(&key)?;
        while let Some(&member) = whole.members.get(whole.sound) {
            if !is_intact(member) {
                return Some(member);
            }
            whole.sound += 1;
        }
        None
    }

    /// Take back a fragment that is not yet part of a whole.
    pub(crate) fn remove(&mut self, id: &UnitId, range: FragmentRange, key: BundleKey) {
        let Some(unit) = self.units.get_mut(id) else {
            return;
        };
        unit.fragments.remove(&(range.offset, key));
        unit.covered = None;
        if unit.fragments.is_empty() {
            self.units.remove(id);
        }
    }

    /// The fragments of a unit that is not wanted any more.
    pub(crate) fn take(&mut self, id: &UnitId) -> Vec<BundleKey> {
        let unit = self.units.remove(id).unwrap_or_default();
        unit.fragments.into_keys().map(|(_, key)| key).collect()
    }

    /// Octets of a unit under way that its fragments cover together.
    pub(crate) fn covered_octets(&self, id: &UnitId) -> Option<u64> {
        let unit = self.units.get(id)?;
        let mut covered = BTreeMap::new();
        for (&(offset, _), &length) in &unit.fragments {
            cover(&mut covered, offset, offset.saturating_add(length));
        }
        Some(covered.iter().map(|(start, end)| end - start).sum())
    }

    /// The fragment that stands for the whole of a unit, where there is one.
    pub(crate) fn whole_of(&self, id: &UnitId) -> Option<BundleKey> {
        self.whole_of.get(id).copied()
    }

    /// The pieces of the whole that `key` stands for, in order.
    pub(crate) fn parts(&self, key: BundleKey) -> Option<&[Part]> {
        self.whole.get(&key).map(|whole| whole.parts.as_slice())
    }

    /// All fragments of the whole that `key` stands for.
    pub(crate) fn members(&self, key: BundleKey) -> &[BundleKey] {
        self.whole.get(&key).map_or(&[], |whole| &whole.members)
    }

    /// The fragment that stands for the whole that `key` is part of, if it is part of one.
    pub(crate) fn stand_in(&self, key: BundleKey) -> Option<BundleKey> {
        self.stands_for.get(&key).copied()
    }

    /// The whole is done with: the other fragments in it.
    pub(crate) fn dissolve(&mut self, key: BundleKey) -> Vec<BundleKey> {
        let Some(Whole {
            id, mut members, ..
        }) = self.whole.remove(&key)
        else {
            return Vec::new();
        };
        self.whole_of.remove(&id);
        members.retain(|&member| member != key);
        for member in &members {
            self.stands_for.remove(member);
        }
        members
    }
}

/// Add `start..end` to a set of disjoint ranges, merging what touches.
fn cover(covered: &mut BTreeMap<u64, u64>, mut start: u64, mut end: u64) {
    if let Some((&before, &until)) = covered.range(..=start).next_back()
        && until >= start
    {
        start = before;
        end = end.max(until);
    }
    while let Some((&next, &until)) = covered.range(start..=end).next() {
        end = end.max(until);
        covered.remove(&next);
    }
    covered.insert(start, end);
}

/// RFC 9171 5.9: the material extents of the fragments, in order, each octet taken once.
fn plan(fragments: &BTreeMap<(u64, BundleKey), u64>, total_octets: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut position = 0_u64;
    for (&(offset, key), &length) in fragments {
        let end = offset.saturating_add(length).min(total_octets);
        // Zero octets in all: one empty part still stands for the whole.
        if end > position || (parts.is_empty() && total_octets == 0) {
            let overlap = !planted(Mutant::OverlapTakenTwice);
            let skip = if overlap {
                position.saturating_sub(offset)
            } else {
                0
            };
            parts.push(Part {
                key,
                skip,
                octets: end.saturating_sub(position),
            });
            position = end;
        }
    }
    parts
}

impl Held {
    /// The other bundle that has all of the application data unit which this one is or is a fragment of, in one piece
    /// or as a whole of fragments, and is neither leaving nor damaged. Nobody knows without a source (RFC 9171 4.2.3).
    pub(crate) fn other_whole(&self, key: BundleKey) -> Option<BundleKey> {
        let entry = self.bundles.entry(key)?;
        if entry.fragment().is_none() && self.reassembly.whole_of.is_empty() {
            return None;
        }
        if self.endpoints.id(entry.source()).is_null() {
            return None;
        }
        let unit = UnitId::of(entry);
        let is_here = |key: &BundleKey| {
            self.bundles.entry(*key).is_some_and(|it| {
                let is_durable = matches!(
                    it.state(),
                    State::Waiting | State::InFlight | State::AwaitingRetry { .. }
                );
                is_durable && UnitId::of(it) == unit
            })
        };
        let identity = Identity {
            fragment: None,
            ..entry.identity()
        };
        let in_one_piece = (entry.fragment()).and_then(|_| self.bundles.find(&identity));
        let in_fragments = || self.reassembly.whole_of(&unit);
        (in_one_piece.filter(is_here)).or_else(|| in_fragments().filter(is_here))
    }

    /// The places of the payload of a bundle, or of the whole that it stands for.
    pub(crate) fn payload_pieces(&self, key: BundleKey) -> Vec<Piece> {
        let slice = |key: BundleKey, skip: u64, octets: u64| {
            let entry = self.bundles.entry(key);
            let extents = entry.map(|it| {
                it.extents()
                    .slice(u64::from(it.header_octets()).saturating_add(skip), octets)
            });
            extents.into_iter().flatten().map(Piece::Extent)
        };
        match self.reassembly.parts(key) {
            Some(parts) => parts
                .iter()
                .flat_map(|part| slice(part.key, part.skip, part.octets))
                .collect(),
            None => {
                let octets = self
                    .bundles
                    .entry(key)
                    .map_or(0, |entry| entry.payload_octets());
                slice(key, 0, octets).collect()
            }
        }
    }

    /// Extents of the first octets of a payload.
    pub(crate) fn payload_start(&self, key: BundleKey, octets: usize) -> Vec<Extent> {
        self.payload_part(key, 0, u64::try_from(octets).unwrap_or(u64::MAX))
    }

    /// Extents of so many octets of a payload from a place on, or of as many as there are.
    pub(crate) fn payload_part(&self, key: BundleKey, from: u64, octets: u64) -> Vec<Extent> {
        let (mut skipped, mut left) = (from, octets);
        let mut extents = Vec::new();
        for piece in self.payload_pieces(key) {
            let Piece::Extent(extent) = piece else {
                continue;
            };
            let before = extent.length.min(skipped);
            skipped -= before;
            let length = (extent.length - before).min(left);
            if length > 0 {
                let offset = extent.offset.saturating_add(before);
                extents.push(Extent { offset, length });
                left -= length;
            }
        }
        extents
    }

    /// Octets of the payload of a bundle, or of the whole that fragments make.
    pub(crate) fn payload_length(&self, key: BundleKey) -> u64 {
        let pieces = self.payload_pieces(key);
        let lengths = pieces.iter().map(Piece::length);
        lengths.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::EndpointId;
    use proptest::prelude::*;

    use super::*;
    use crate::held::endpoints::tests::endpoints;

    fn unit(total_octets: u64) -> UnitId {
        let index = endpoints().acquire(&EndpointId::Null);
        UnitId {
            source: index,
            creation: CreationTimestamp::default(),
            destination: index,
            total_octets,
        }
    }

    #[test]
    fn taking_back_many_fragments_does_not_look_at_all_of_them_each_time() {
        let mut reassembly = Reassembly::default();
        let range = |offset| FragmentRange { offset, length: 1 };
        let count = 100_000_u32;
        for number in 0..count {
            let offset = u64::from(number) * 2;
            let whole = reassembly.add(unit(u64::MAX), range(offset), BundleKey(number));
            assert_eq!(whole, None);
        }
        for number in 0..count {
            let offset = u64::from(number) * 2;
            reassembly.remove(&unit(u64::MAX), range(offset), BundleKey(number));
        }
        assert!(reassembly.units.is_empty());
    }

    proptest! {
        /// RFC 9171 5.8: fragments of different episodes may overlap; the whole is each octet once.
        #[test]
        fn overlapping_fragments_in_any_order_make_each_octet_once(
            mut ranges in prop::collection::vec((0_u64..100, 1_u64..40), 1..40),
            total in 1_u64..100,
        ) {
            ranges.retain(|(offset, _)| *offset < total);
            let mut reassembly = Reassembly::default();
            let mut seen = alloc::vec![false; usize::try_from(total).unwrap()];
            let mut whole = None;
            let mut held: BTreeMap<BundleKey, FragmentRange> = BTreeMap::new();
            for (number, (offset, length)) in (0_u32..).zip(ranges) {
                let range = FragmentRange { offset, length: length.min(total - offset) };
                for octet in range.offset..range.offset + range.length {
                    seen[usize::try_from(octet).unwrap()] = true;
                }
                held.insert(BundleKey(number), range);
                whole = reassembly.add(unit(total), range, BundleKey(number));
                prop_assert_eq!(whole.is_some(), seen.iter().all(|octet| *octet));
                if whole.is_some() { break; }
            }
            if let Some(head) = whole {
                let mut position = 0;
                for part in reassembly.parts(head).unwrap() {
                    let range = held[&part.key];
                    prop_assert_eq!(range.offset + part.skip, position);
                    prop_assert!(part.skip + part.octets <= range.length);
                    position += part.octets;
                }
                prop_assert_eq!(position, total);
                prop_assert_eq!(reassembly.dissolve(head).len() + 1, held.len());
            }
        }
    }
}
