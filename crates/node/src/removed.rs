//! Identities of bundles that this node no longer holds, so that a copy that comes late is known for one.
//!
//! What an application has confirmed must not reach it twice, whoever brings it. What a next hop has
//! taken is another matter: when it comes again, its sender may have missed the acknowledgment, or it has
//! gone round in a circle and this is the only copy left. The hop count tells them apart, since this node
//! adds to it whenever it forwards: a copy that has gone no further than the one that was here was never
//! here. Where that cannot be told, it is taken again, and rests longer each time before it leaves: a copy
//! too many is known for one at its destination, a copy too few is a lost bundle.

use alloc::collections::{BTreeMap, VecDeque};

use dhow_bundle::Instant;

use crate::bundles::{Identity, Removal};
use crate::endpoints::{EndpointIndex, Endpoints};

/// The memory, bounded: the oldest is forgotten first.
pub(crate) struct Removed {
    by_identity: BTreeMap<Identity, Remembered>,
    oldest: VecDeque<Identity>,
    bound: usize,
}

#[derive(Clone, Copy)]
struct Remembered {
    until: Instant,
    removal: Removal,
    returns: u8,
    hops: Option<u8>,
}

/// What is known of a bundle that comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recollection {
    /// An application has it.
    Delivered,
    /// It left, after it had come back so often and with this hop count.
    Left { returns: u8, hops: Option<u8> },
}

impl Removed {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            by_identity: BTreeMap::new(),
            oldest: VecDeque::new(),
            bound,
        }
    }

    /// Remember a removed bundle that had come back so often. Takes over one count of `identity.source`.
    pub(crate) fn insert(
        &mut self,
        endpoints: &mut Endpoints,
        identity: Identity,
        until: Instant,
        removal: Removal,
        (returns, hops): (u8, Option<u8>),
    ) {
        let remembered = Remembered {
            until,
            removal,
            returns,
            hops,
        };
        match self.by_identity.insert(identity, remembered) {
            Some(_) => endpoints.release(identity.source),
            None => self.oldest.push_back(identity),
        }
        while self.by_identity.len() > self.bound && self.forget_oldest(endpoints) {}
    }

    /// What is known of a bundle of this identity.
    pub(crate) fn recall(&self, identity: &Identity, now: Instant) -> Option<Recollection> {
        let remembered = self.by_identity.get(identity).filter(|it| now < it.until)?;
        Some(match remembered.removal {
            Removal::Delivered => Recollection::Delivered,
            Removal::Forwarded | Removal::Deleted => Recollection::Left {
                returns: remembered.returns,
                hops: remembered.hops,
            },
        })
    }

    /// The endpoints that are named here, once for each time.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = EndpointIndex> {
        self.by_identity.keys().map(|identity| identity.source)
    }

    /// Forget what has expired, as far as it is at the old end.
    pub(crate) fn prune(&mut self, endpoints: &mut Endpoints, now: Instant) {
        while let Some(identity) = self.oldest.front() {
            let expired = self
                .by_identity
                .get(identity)
                .is_none_or(|remembered| remembered.until <= now);
            if !expired || !self.forget_oldest(endpoints) {
                break;
            }
        }
    }

    fn forget_oldest(&mut self, endpoints: &mut Endpoints) -> bool {
        let Some(identity) = self.oldest.pop_front() else {
            return false;
        };
        if self.by_identity.remove(&identity).is_some() {
            endpoints.release(identity.source);
        }
        true
    }
}
