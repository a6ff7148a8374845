//! Identities of bundles that this node no longer holds, so that a copy that comes late is known for one.
//!
//! A bundle that an application has confirmed must not reach it twice, whoever brings it. One that a next hop has
//! taken is another matter: when it comes again, its sender may have missed the acknowledgment, or it has
//! gone round in a circle and this is the only copy left. The hop count tells them apart, since this node
//! adds to it whenever it forwards: a copy that has gone no further than the one that was here was never
//! here. A copy of which that cannot be told is taken again, and waits longer each time before it leaves: a copy
//! too many is known for one at its destination, a copy too few is a lost bundle.

use crate::held::Held;
use crate::held::bundles::Entry;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use dhow_bundle::BundleId;
use dhow_bundle::Header;
use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::{CreationTimestamp, FragmentRange, Instant};
use hashbrown::HashTable;

use crate::held::bundles::{Digest, Digests, Identity, Removal};
use crate::held::departures::{Departures, Mark};
use crate::held::endpoints::{EndpointIndex, Endpoints};
use crate::memory::{table_octets, text_octets};

/// This node adds to the hop count of all that it forwards (RFC 9171 4.4.3): a copy that has gone no
/// further than the bundle had `then`, when it came here, does not descend from it. Unknown counts as no.
pub(crate) fn was_never_here(hops: Option<u8>, then: Option<u8>) -> bool {
    hops.zip(then).is_some_and(|(hops, then)| hops <= then)
}

/// Octets of memory for an identity, its place in the table included.
const ENTRY_OCTETS: usize = size_of::<Remembered>() + table_octets::<(Digest, u32)>(1);

/// The memory, bounded: the oldest is forgotten first.
pub(crate) struct Removed {
    /// The oldest first.
    remembered: VecDeque<Remembered>,
    /// Number of the first of them; numbers wrap around.
    first: u32,
    by_identity: HashTable<(Digest, u32)>,
    digests: Digests,
    bound: usize,
    /// Octets of memory that they take, the texts of their sources included, and may take.
    octets: usize,
    octets_bound: usize,
    /// Departures of bundles that had no more room here.
    pub(crate) departures: Departures,
}

/// One identity, in 56 octets.
struct Remembered {
    source: EndpointIndex,
    removal: Removal,
    returns: u8,
    hops: Option<u8>,
    creation: CreationTimestamp,
    fragment: Option<Box<FragmentRange>>,
    until: Instant,
}

impl Remembered {
    fn is(&self, identity: &Identity) -> bool {
        self.source == identity.source
            && self.creation == identity.creation
            && self.fragment.as_deref() == identity.fragment.as_ref()
    }

    fn identity(&self) -> Identity {
        Identity {
            source: self.source,
            creation: self.creation,
            fragment: self.fragment.as_deref().copied(),
        }
    }
}

/// The knowledge of a bundle that comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recollection {
    /// An application has the bundle.
    Delivered,
    /// The bundle left, after it had come back so often and with this hop count.
    Left { returns: u8, hops: Option<u8> },
}

impl Removed {
    /// A memory of at most `bound` identities, and about so many octets.
    pub(crate) fn new(bound: usize, octets_bound: usize, seed: u64) -> Self {
        Self {
            remembered: VecDeque::new(),
            first: 0,
            by_identity: HashTable::new(),
            digests: Digests::new(seed),
            bound,
            octets: 0,
            octets_bound,
            departures: Departures::new(seed),
        }
    }

    /// Octets of memory that it takes beside the texts of its sources.
    pub(crate) fn memory_octets(&self) -> usize {
        self.remembered.len() * ENTRY_OCTETS
    }

    /// Octets that an identity of a source costs: the text may be kept for it alone.
    fn weight(endpoints: &Endpoints, source: EndpointIndex) -> usize {
        ENTRY_OCTETS + text_octets(endpoints.id(source))
    }

    /// Remember a removed bundle that had come back so often. Takes over one count of `identity.source`.
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        endpoints: &mut Endpoints,
        identity: Identity,
        until: Instant,
        removal: Removal,
        (returns, hops): (u8, Option<u8>),
    ) {
        let digest = self.digests.of(&identity);
        if let Some(known) = self.find_mut(digest, &identity) {
            known.until = until;
            known.removal = removal;
            known.returns = returns;
            known.hops = hops;
            endpoints.release(identity.source);
            return;
        }
        self.octets += Self::weight(endpoints, identity.source);
        let length = u32::try_from(self.remembered.len()).unwrap_or(u32::MAX);
        let number = self.first.wrapping_add(length);
        self.remembered.push_back(Remembered {
            source: identity.source,
            removal,
            returns,
            hops,
            creation: identity.creation,
            fragment: identity.fragment.map(Box::new),
            until,
        });
        self.by_identity
            .insert_unique(digest.spread(), (digest, number), |(digest, _)| {
                digest.spread()
            });
        while self.remembered.len() > self.bound || self.octets > self.octets_bound {
            self.note_departure(now, endpoints);
            if !self.forget_oldest(endpoints) {
                break;
            }
        }
    }

    /// The knowledge of a bundle of this identity.
    pub(crate) fn recall(&self, identity: &Identity, now: Instant) -> Option<Recollection> {
        if self.remembered.is_empty() || planted(Mutant::DuplicatesForgotten) {
            return None;
        }
        let digest = self.digests.of(identity);
        let remembered = self.find(digest, identity).filter(|it| now < it.until)?;
        Some(match remembered.removal {
            Removal::Delivered => Recollection::Delivered,
            Removal::Forwarded | Removal::Deleted => Recollection::Left {
                returns: remembered.returns,
                hops: remembered.hops,
            },
        })
    }

    /// The endpoints that are named here, once for each time.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = EndpointIndex> {
        self.remembered.iter().map(|remembered| remembered.source)
    }

    /// Forget what has expired, as far as it is at the old end.
    pub(crate) fn prune(&mut self, endpoints: &mut Endpoints, now: Instant) {
        while self
            .remembered
            .front()
            .is_some_and(|remembered| remembered.until <= now)
        {
            self.forget_oldest(endpoints);
        }
    }

    fn at(&self, number: u32) -> Option<&Remembered> {
        let place = usize::try_from(number.wrapping_sub(self.first)).ok()?;
        self.remembered.get(place)
    }

    fn number(&self, digest: Digest, identity: &Identity) -> Option<u32> {
        let is_it = |&(other, number): &(Digest, u32)| {
            other == digest && self.at(number).is_some_and(|it| it.is(identity))
        };
        let found = self.by_identity.find(digest.spread(), is_it)?;
        Some(found.1)
    }

    fn find(&self, digest: Digest, identity: &Identity) -> Option<&Remembered> {
        self.at(self.number(digest, identity)?)
    }

    fn find_mut(&mut self, digest: Digest, identity: &Identity) -> Option<&mut Remembered> {
        let number = self.number(digest, identity)?;
        let place = usize::try_from(number.wrapping_sub(self.first)).ok()?;
        self.remembered.get_mut(place)
    }

    /// The oldest is going to be forgotten for want of room.
    fn note_departure(&mut self, now: Instant, endpoints: &Endpoints) {
        let oldest = self.remembered.front();
        if let Some(oldest) = oldest.filter(|it| it.removal == Removal::Forwarded && now < it.until)
        {
            let mark = Mark {
                source: endpoints.id(oldest.source),
                creation: oldest.creation,
                fragment: oldest.fragment.as_deref().copied(),
                anonymous: None,
            };
            self.departures.insert(now, &mark);
        }
    }

    fn forget_oldest(&mut self, endpoints: &mut Endpoints) -> bool {
        let number = self.first;
        let Some(oldest) = self.remembered.pop_front() else {
            return false;
        };
        self.first = number.wrapping_add(1);
        let digest = self.digests.of(&oldest.identity());
        let found = self
            .by_identity
            .find_entry(digest.spread(), |&(_, other)| other == number);
        if let Ok(found) = found {
            found.remove();
        }
        self.octets -= Self::weight(endpoints, oldest.source);
        endpoints.release(oldest.source);
        true
    }
}

impl Held {
    pub(crate) fn was_never_here(&self, key: BundleKey, hops: Option<u8>) -> bool {
        let entry = self.bundles.entry(key);
        entry.is_some_and(|entry| was_never_here(hops, entry.hops()))
    }

    /// Whether a bundle left that nothing else is known of.
    pub(crate) fn left_a_moment_ago(&mut self, now: Now, id: &BundleId, header: &Header) -> bool {
        let primary = &header.primary;
        let mark = Mark {
            source: &id.source,
            creation: id.creation,
            fragment: id.fragment,
            anonymous: id.source.is_null().then_some((
                &primary.destination,
                primary.lifetime_ms,
                header.payload_octets(),
            )),
        };
        self.removed.departures.contains(now.monotonic, &mark)
    }

    /// A bundle without a source has left: what it looked like is all that tells it apart.
    pub(crate) fn note_anonymous(&mut self, now: Now, entry: &Entry) {
        let source = self.endpoints.id(entry.source());
        if entry.removal() == Removal::Forwarded && source.is_null() {
            let destination = self.endpoints.id(entry.destination());
            let mark = Mark {
                source,
                creation: entry.creation(),
                fragment: entry.fragment().as_ref().map(|it| it.range),
                anonymous: Some((destination, entry.lifetime_ms(), entry.payload_octets())),
            };
            self.removed.departures.insert(now.monotonic, &mark);
        }
    }

    /// True when an application has what this bundle carries: fragments made on different ways overlap, so
    /// that they make a whole more than once, or come beside the bundle in one piece.
    pub(crate) fn was_delivered(&self, now: Now, key: BundleKey) -> bool {
        let Some(entry) = self.bundles.entry(key) else {
            return false;
        };
        let identity = Identity {
            fragment: None,
            ..entry.identity()
        };
        !self.endpoints.id(entry.source()).is_null()
            && self.removed.recall(&identity, now.monotonic) == Some(Recollection::Delivered)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use dhow_bundle::{DtnTime, EndpointId};
    use proptest::prelude::*;

    use super::*;
    use crate::held::endpoints::tests::endpoints;

    fn identity(source: EndpointIndex, sequence: u64) -> Identity {
        let range = FragmentRange {
            offset: sequence,
            length: 1,
        };
        Identity {
            source,
            creation: CreationTimestamp {
                time: DtnTime::from_millis(sequence / 3),
                sequence,
            },
            fragment: sequence.is_multiple_of(4).then_some(range),
        }
    }

    proptest! {
        /// The newest are known, the last words about them hold, and every endpoint is counted.
        #[test]
        fn the_last_so_many_are_remembered(
            bound in 1_usize..20,
            steps in proptest::collection::vec((0_u64..40, 0_u8..3), 0..200),
        ) {
            let mut endpoints = endpoints();
            let mut removed = Removed::new(bound, usize::MAX, 2);
            removed.first = u32::MAX - 50;
            let mut order: Vec<u64> = Vec::new();
            let mut known: BTreeMap<u64, u8> = BTreeMap::new();
            let until = Instant::from_nanos(10);
            for (sequence, returns) in steps {
                let source = endpoints.acquire(&EndpointId::Null);
                let removal = if returns == 0 { Removal::Delivered } else { Removal::Forwarded };
                removed.insert(Instant::START, &mut endpoints, identity(source, sequence), until, removal, (returns, None));
                if known.insert(sequence, returns).is_none() {
                    order.push(sequence);
                }
                if order.len() > bound {
                    known.remove(&order.remove(0));
                }
                for sequence in 0..40 {
                    let expected = known.get(&sequence).map(|&returns| match returns {
                        0 => Recollection::Delivered,
                        returns => Recollection::Left { returns, hops: None },
                    });
                    let identity = identity(source, sequence);
                    prop_assert_eq!(removed.recall(&identity, Instant::START), expected);
                    prop_assert_eq!(removed.recall(&identity, until), None);
                }
                let users: usize = endpoints.users().map(|(_, users)| users).sum();
                prop_assert_eq!(users, known.len());
                prop_assert_eq!(removed.by_identity.len(), known.len());
            }
            removed.prune(&mut endpoints, until);
            prop_assert!(removed.remembered.is_empty() && endpoints.users().next().is_none());
        }
    }
}
