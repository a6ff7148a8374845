//! Bundles that are known to be where they were to go: as far as the routers of their destinations believe it, copies of them end.

use alloc::vec::Vec;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{BundleId, EndpointId, NodeId, Now, router};

use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::held::bundles::{Entry, Identity};
use crate::held::retention::State;
use crate::local::is_routing;
use crate::routing::acknowledgments::{self, Acknowledgment};

impl Forwarding {
    /// Whether anybody's word is believed for bundles of any destination.
    #[inline]
    pub(crate) const fn believes(&self) -> bool {
        self.routers.believes()
    }

    /// The nodes whose acknowledgments end copies of bundles of a source and a destination. Those of which no router makes copies, and those that
    /// go to several nodes, have none: one member of a group does not speak for the others.
    pub(super) fn trust(
        &self,
        source: &EndpointId,
        destination: &EndpointId,
    ) -> router::Acknowledgments {
        let is_copied = !source.is_null() && !is_routing(destination);
        match is_copied && destination.is_singleton() {
            true => self.routers.rule(destination).trust,
            false => router::Acknowledgments::None,
        }
    }

    /// Whether a bundle that comes is known to be where it was to go.
    pub(crate) fn is_known_there(
        &self,
        held: &Held,
        now: Now,
        id: &BundleId,
        destination: &EndpointId,
    ) -> bool {
        self.believes()
            && !held.endpoints().is_here(destination)
            && (self.acknowledgments).knows(now.monotonic, &id.source, id.creation, destination)
    }

    /// Whether a bundle that is held is known to be where it was to go.
    pub(crate) fn is_acknowledged(&self, held: &Held, now: Now, key: BundleKey) -> bool {
        self.believes()
            && held.entry(key).is_some_and(|entry| {
                let (source, destination) = (entry.source(), entry.destination());
                let [source, destination] = [source, destination].map(|it| held.endpoints().id(it));
                let creation = entry.creation();
                (self.acknowledgments).knows(now.monotonic, source, creation, destination)
            })
    }

    /// A copy of a bundle is with the destination's node, which has acknowledged it. A fragment says nothing of the whole.
    pub(crate) fn note_given(&mut self, held: &Held, now: Now, key: BundleKey) {
        let is_whole = held.entry(key).is_some_and(|it| it.fragment().is_none());
        if is_whole || planted(Mutant::FragmentAcknowledgesWhole) {
            self.note_delivered(held, now, key);
        }
    }

    /// A bundle is where it was to go, as far as this node has seen it itself: neighbours are told.
    pub(crate) fn note_delivered(&mut self, held: &Held, now: Now, key: BundleKey) {
        let Some(entry) = held.entry(key) else {
            return;
        };
        let [source, destination] =
            [entry.source(), entry.destination()].map(|it| held.endpoints().id(it));
        if self.trust(source, destination) == router::Acknowledgments::None {
            return;
        }
        let acknowledgment = acknowledgment_of(held, entry);
        self.acknowledgments.insert(now.monotonic, acknowledgment);
    }

    /// A neighbour tells of bundles: those of which it is believed, and nothing was known. None where it tells of none.
    pub(crate) fn hear_acknowledgments(
        &mut self,
        held: &Held,
        now: Now,
        (peer, is_verified): (&NodeId, bool),
        body: &[u8],
    ) -> Option<Vec<Acknowledgment>> {
        let mut all = acknowledgments::read(body, now.monotonic)?;
        all.retain(|it| self.is_believed(held, (peer, is_verified), it));
        let new = (self.acknowledgments).handle_advert(now.monotonic, peer, all);
        Some(new)
    }

    pub(super) fn is_believed(
        &self,
        held: &Held,
        (peer, is_verified): (&NodeId, bool),
        it: &Acknowledgment,
    ) -> bool {
        // This node knows best of its own endpoints.
        if held.endpoints().is_here(&it.destination) {
            return false;
        }
        let is_its_own = it.destination.node_id().as_ref() == Some(peer);
        match self.trust(&it.source, &it.destination) {
            router::Acknowledgments::None => false,
            router::Acknowledgments::Verified => is_verified || is_its_own,
            router::Acknowledgments::Anyone => true,
        }
    }

    /// The bundles that are held of an acknowledgment's identity, whole and in fragments.
    pub(crate) fn acknowledged(&self, held: &Held, it: &Acknowledgment) -> Vec<BundleKey> {
        let Some(source) = held.endpoints().find(&it.source) else {
            return Vec::new();
        };
        let is_of = |key: &BundleKey| {
            let entry = held.entry(*key);
            entry.is_some_and(|entry| *held.endpoints().id(entry.destination()) == it.destination)
        };
        let identity = Identity {
            source,
            creation: it.creation,
            fragment: None,
        };
        let whole = held.find(&identity);
        let fragments = self.copies.fragments_of(source, it.creation);
        whole.into_iter().chain(fragments).filter(is_of).collect()
    }

    /// Whether sessions have copies of a bundle on their way: it is deleted once none has.
    pub(crate) fn ends_in_flight(&mut self, held: &Held, key: BundleKey) -> bool {
        let is_in_flight = held.state(key) == Some(State::InFlight);
        if is_in_flight {
            self.end_copies(key);
        }
        is_in_flight
    }
}

/// The acknowledgment of a held bundle, of the whole where it is a fragment.
pub(super) fn acknowledgment_of(held: &Held, entry: &Entry) -> Acknowledgment {
    let endpoint = |index| held.endpoints().id(index).clone();
    Acknowledgment {
        source: endpoint(entry.source()),
        creation: entry.creation(),
        destination: endpoint(entry.destination()),
        until: entry.expires(),
    }
}
