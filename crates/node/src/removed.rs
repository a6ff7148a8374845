//! Identities of bundles that this node no longer holds, so that a copy that comes late is known for one.
//!
//! What an application has confirmed must not reach it twice, whoever brings it. What a next hop has
//! taken is only known for a copy when the same neighbour brings it again (its acknowledgment was lost);
//! from another neighbour it is a routing loop, and dropping it there would lose the bundle.

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

struct Remembered {
    until: Instant,
    removal: Removal,
    previous: Option<EndpointIndex>,
}

impl Removed {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            by_identity: BTreeMap::new(),
            oldest: VecDeque::new(),
            bound,
        }
    }

    /// Remember a removed bundle. Takes over one count of `identity.source` and of `previous`.
    pub(crate) fn insert(
        &mut self,
        endpoints: &mut Endpoints,
        identity: Identity,
        until: Instant,
        removal: Removal,
        previous: Option<EndpointIndex>,
    ) {
        let remembered = Remembered {
            until,
            removal,
            previous,
        };
        match self.by_identity.insert(identity, remembered) {
            Some(before) => release(endpoints, &identity, &before),
            None => self.oldest.push_back(identity),
        }
        while self.by_identity.len() > self.bound && self.forget_oldest(endpoints) {}
    }

    /// True when a bundle of this identity, brought by `from`, is a copy of one that was removed.
    pub(crate) fn knows(
        &self,
        identity: &Identity,
        from: Option<EndpointIndex>,
        now: Instant,
    ) -> bool {
        self.by_identity.get(identity).is_some_and(|remembered| {
            now < remembered.until
                && match remembered.removal {
                    Removal::Delivered => true,
                    Removal::Forwarded | Removal::Deleted => remembered.previous == from,
                }
        })
    }

    /// The endpoints that are named here, once for each time.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = EndpointIndex> {
        let all = self.by_identity.iter();
        all.flat_map(|(identity, it)| core::iter::once(identity.source).chain(it.previous))
    }

    /// True when an application has confirmed the bundle of this identity.
    pub(crate) fn was_delivered(&self, identity: &Identity, now: Instant) -> bool {
        self.by_identity
            .get(identity)
            .is_some_and(|it| it.removal == Removal::Delivered && now < it.until)
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
        if let Some(remembered) = self.by_identity.remove(&identity) {
            release(endpoints, &identity, &remembered);
        }
        true
    }
}

fn release(endpoints: &mut Endpoints, identity: &Identity, remembered: &Remembered) {
    endpoints.release(identity.source);
    if let Some(previous) = remembered.previous {
        endpoints.release(previous);
    }
}
