//! Fragments for endpoints of this node, until they make a whole (RFC 9171 5.9).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{CreationTimestamp, FragmentRange};

use crate::endpoints::EndpointIndex;

/// Which application data unit: source, creation timestamp, destination and its total length, so that
/// fragments which contradict each other never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitId {
    pub(crate) source: EndpointIndex,
    pub(crate) creation: CreationTimestamp,
    pub(crate) destination: EndpointIndex,
    pub(crate) total_octets: u64,
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
    /// What they cover together: start → end, merged.
    covered: BTreeMap<u64, u64>,
}

/// All units under way, and those that are whole and wait for delivery.
#[derive(Default)]
pub(crate) struct Reassembly {
    units: BTreeMap<UnitId, Unit>,
    /// By the fragment that stands for the whole.
    whole: BTreeMap<BundleKey, (Vec<Part>, Vec<BundleKey>)>,
    /// Which fragment stands for the whole that a fragment is part of.
    stands_for: BTreeMap<BundleKey, BundleKey>,
}

impl Reassembly {
    /// Add a fragment; the key that stands for the whole, once it is complete.
    pub(crate) fn add(
        &mut self,
        id: UnitId,
        range: FragmentRange,
        key: BundleKey,
    ) -> Option<BundleKey> {
        let unit = self.units.entry(id).or_default();
        unit.fragments.insert((range.offset, key), range.length);
        cover(
            &mut unit.covered,
            range.offset,
            range.offset.saturating_add(range.length),
        );
        let complete = unit
            .covered
            .get(&0)
            .is_some_and(|&end| end >= id.total_octets);
        if !complete {
            return None;
        }
        let unit = self.units.remove(&id)?;
        let parts = plan(&unit.fragments, id.total_octets);
        let members: Vec<BundleKey> = unit.fragments.keys().map(|&(_, key)| key).collect();
        let head = parts.first().map_or(key, |part| part.key);
        for &member in members.iter().filter(|&&member| member != head) {
            self.stands_for.insert(member, head);
        }
        self.whole.insert(head, (parts, members));
        Some(head)
    }

    /// Take back a fragment that is not yet part of a whole.
    pub(crate) fn remove(&mut self, id: &UnitId, range: FragmentRange, key: BundleKey) {
        let Some(unit) = self.units.get_mut(id) else {
            return;
        };
        unit.fragments.remove(&(range.offset, key));
        unit.covered.clear();
        for (&(offset, _), &length) in &unit.fragments {
            cover(&mut unit.covered, offset, offset.saturating_add(length));
        }
        if unit.fragments.is_empty() {
            self.units.remove(id);
        }
    }

    /// The pieces of the whole that `key` stands for, in order.
    pub(crate) fn parts(&self, key: BundleKey) -> Option<&[Part]> {
        self.whole.get(&key).map(|(parts, _)| parts.as_slice())
    }

    /// All fragments of the whole that `key` stands for.
    pub(crate) fn members(&self, key: BundleKey) -> &[BundleKey] {
        self.whole.get(&key).map_or(&[], |(_, members)| members)
    }

    /// The fragment that stands for the whole that `key` is part of, if it is part of one.
    pub(crate) fn stand_in(&self, key: BundleKey) -> Option<BundleKey> {
        self.stands_for.get(&key).copied()
    }

    /// The whole is done with: the other fragments in it.
    pub(crate) fn dissolve(&mut self, key: BundleKey) -> Vec<BundleKey> {
        let Some((_, mut members)) = self.whole.remove(&key) else {
            return Vec::new();
        };
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
            let skip = position.saturating_sub(offset);
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

#[cfg(test)]
mod tests {
    use dhow_bundle::EndpointId;
    use proptest::prelude::*;

    use super::*;
    use crate::endpoints::Endpoints;

    fn unit(total_octets: u64) -> UnitId {
        let index = Endpoints::new(1).acquire(&EndpointId::Null);
        UnitId {
            source: index,
            creation: CreationTimestamp::default(),
            destination: index,
            total_octets,
        }
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
