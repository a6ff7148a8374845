//! Endpoint IDs that stored bundles name, each kept once and counted, with their meaning to this node.

use alloc::vec::Vec;
use core::hash::BuildHasher as _;
use dhow_bundle::EndpointId;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::local::{Local, Locality};
use crate::memory::{table_octets, text_octets};

/// An endpoint ID's place in the table: four octets where the ID may have a thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EndpointIndex(u32);

impl EndpointIndex {
    /// The first place.
    pub(crate) const FIRST: Self = Self(0);

    /// The place of that number.
    pub(crate) const fn at(place: u32) -> Self {
        Self(place)
    }

    /// Its number.
    pub(crate) const fn place(self) -> u32 {
        self.0
    }

    /// One of so many lanes for what goes from this endpoint to another.
    pub(crate) fn lane(self, to: Self, lanes: usize) -> usize {
        // Odd factors of which no small multiples meet; neighbours among indexes have lanes of their own.
        let mixed = u64::from(self.0).wrapping_mul(0x9E37_79B1)
            ^ u64::from(to.0).wrapping_mul(0x85EB_CA77_C2B3);
        usize::try_from(mixed.wrapping_add(mixed >> 13)).unwrap_or(0) % lanes.max(1)
    }
}

/// Places that are remembered for what asks next: a source, a destination, a report-to endpoint, a neighbour.
const RECENT: usize = 4;

/// An endpoint ID in use.
struct Known {
    id: EndpointId,
    users: u32,
    locality: Locality,
}

/// The table. Every `acquire` wants its `release`.
pub(crate) struct Endpoints {
    local: Local,
    places: Vec<Option<Known>>,
    free: Vec<u32>,
    /// Places by the hashes of their IDs.
    by_id: HashTable<u32>,
    hasher: FixedState,
    /// Octets of the texts of all IDs.
    text_octets: usize,
    /// Places that were asked for last: bundles that come together name the same few endpoints.
    recent: [u32; RECENT],
    /// The position of the oldest of `recent`.
    oldest: usize,
}

impl Endpoints {
    pub(crate) fn new(local: Local, seed: u64) -> Self {
        Self {
            local,
            places: Vec::new(),
            free: Vec::new(),
            by_id: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            text_octets: 0,
            recent: [u32::MAX; RECENT],
            oldest: 0,
        }
    }

    /// Count one more user of `id`.
    pub(crate) fn acquire(&mut self, id: &EndpointId) -> EndpointIndex {
        if let Some(place) = self.recent(id) {
            self.count(place, 1);
            return EndpointIndex(place);
        }
        if let Some(place) = self.place(id) {
            self.count(place, 1);
            self.remember(place);
            return EndpointIndex(place);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        let locality = self.local.locality(id);
        if let Some(slot) = self.slot(place) {
            *slot = Some(Known {
                id: id.clone(),
                users: 1,
                locality,
            });
        }
        self.text_octets += text_octets(id);
        let Self {
            by_id,
            hasher,
            places,
            ..
        } = self;
        by_id.insert_unique(hasher.hash_one(id), place, |&place| {
            known(places, place).map_or(0, |known| hasher.hash_one(&known.id))
        });
        EndpointIndex(place)
    }

    /// Count one more user of an ID that is in use.
    pub(crate) fn retain(&mut self, index: EndpointIndex) -> EndpointIndex {
        self.count(index.0, 1);
        index
    }

    /// Counts one user less; the last one frees the place.
    pub(crate) fn release(&mut self, index: EndpointIndex) {
        if self.count(index.0, -1) == 0
            && let Some(known) = self.slot(index.0).and_then(Option::take)
        {
            let hash = self.hasher.hash_one(&known.id);
            let found = self.by_id.find_entry(hash, |&place| place == index.0);
            if let Ok(found) = found {
                found.remove();
            }
            self.text_octets -= text_octets(&known.id);
            self.free.push(index.0);
        }
    }

    /// The ID at a place in use.
    pub(crate) fn id(&self, index: EndpointIndex) -> &EndpointId {
        self.known(index.0)
            .map_or(&EndpointId::Null, |known| &known.id)
    }

    /// The relation to this node of the endpoint at a place in use.
    pub(crate) fn locality(&self, index: EndpointIndex) -> Locality {
        self.known(index.0)
            .map_or(Locality::Remote, |known| known.locality)
    }

    /// The node's own identity.
    pub(crate) const fn local(&self) -> &Local {
        &self.local
    }

    /// The relation of an endpoint to this node.
    pub(crate) fn locality_of(&self, id: &EndpointId) -> Locality {
        let recent = self.recent(id).and_then(|place| self.known(place));
        recent.map_or_else(|| self.local.locality(id), |known| known.locality)
    }

    /// Whether an endpoint is one of this node.
    pub(crate) fn is_here(&self, id: &EndpointId) -> bool {
        self.locality_of(id) != Locality::Remote
    }

    /// The place of an ID, if it is in use.
    pub(crate) fn find(&self, id: &EndpointId) -> Option<EndpointIndex> {
        let recent = self.recent(id);
        recent.or_else(|| self.place(id)).map(EndpointIndex)
    }

    /// Octets of memory that the table takes.
    pub(crate) fn memory_octets(&self) -> usize {
        let ids = self.by_id.len();
        ids.saturating_mul(size_of::<Option<Known>>())
            .saturating_add(table_octets::<u32>(ids))
            .saturating_add(self.text_octets)
    }

    fn place(&self, id: &EndpointId) -> Option<u32> {
        let is_it = |&place: &u32| self.known(place).is_some_and(|known| known.id == *id);
        self.by_id.find(self.hasher.hash_one(id), is_it).copied()
    }

    fn recent(&self, id: &EndpointId) -> Option<u32> {
        let is_it = |place: &u32| self.known(*place).is_some_and(|known| known.id == *id);
        self.recent.iter().copied().find(is_it)
    }

    fn known(&self, place: u32) -> Option<&Known> {
        known(&self.places, place)
    }

    fn remember(&mut self, place: u32) {
        if let Some(oldest) = self.recent.get_mut(self.oldest) {
            *oldest = place;
        }
        self.oldest = (self.oldest + 1) % RECENT;
    }

    /// The number of users of each ID in use.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn users(&self) -> impl Iterator<Item = (EndpointIndex, usize)> + Clone {
        let in_use = self.places.iter().zip(0_u32..);
        in_use.filter_map(|(slot, place)| {
            let users = usize::try_from(slot.as_ref()?.users).ok()?;
            Some((EndpointIndex(place), users))
        })
    }

    fn slot(&mut self, place: u32) -> Option<&mut Option<Known>> {
        usize::try_from(place)
            .ok()
            .and_then(|place| self.places.get_mut(place))
    }

    fn count(&mut self, place: u32, change: i32) -> u32 {
        let slot = self.slot(place).and_then(Option::as_mut);
        let Some(known) = slot else {
            unreachable!("an endpoint index outlived its endpoint");
        };
        known.users = known.users.saturating_add_signed(change);
        known.users
    }
}

fn known(places: &[Option<Known>], place: u32) -> Option<&Known> {
    places.get(usize::try_from(place).ok()?)?.as_ref()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table of a node without endpoints.
    pub(crate) fn endpoints() -> Endpoints {
        Endpoints::new(Local::nowhere(), 1)
    }

    #[test]
    fn a_place_is_shared_until_its_last_user_leaves() {
        let mut endpoints = endpoints();
        let id = EndpointId::Ipn {
            allocator: 0,
            node: 4,
            service: 42,
        };
        let first = endpoints.acquire(&id);
        let second = endpoints.acquire(&id);
        assert_eq!(first, second);
        assert_eq!(endpoints.find(&id), Some(first));
        endpoints.release(first);
        assert_eq!(endpoints.id(second), &id);
        endpoints.release(second);
        assert_eq!(endpoints.find(&id), None);
        let other = EndpointId::Ipn {
            allocator: 0,
            node: 5,
            service: 1,
        };
        assert_eq!(endpoints.acquire(&other), first, "the place is used again");
    }
}
