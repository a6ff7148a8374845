//! Adverts between the routers of this node and those of its neighbours: hashes of bundles for those that tell of them.

use alloc::string::String;
use alloc::vec::Vec;

use dhow_bundle::cbor::{write_array, write_unsigned};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Instant, NodeId, Now};

use crate::adjacencies::Adjacencies;
use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::local::is_routing;
use crate::routing::{AdvertKey, acknowledgments, arrived};

impl Forwarding {
    /// Whether a router may have something to say.
    pub(crate) fn has_adverts(&mut self) -> bool {
        !self.routers.is_empty()
            && (self.acknowledgments.has_adverts()
                || self
                    .routers
                    .iter_mut()
                    .any(|(_, router)| router.has_adverts()))
    }

    /// When a router has something to say although nothing happens.
    pub(crate) fn routers_due(&self) -> Option<Instant> {
        let due = self.acknowledgments.poll_timeout();
        due.into_iter().chain(self.routers.poll_timeout()).min()
    }

    /// Time has passed.
    pub(crate) fn handle_routers_timeout(&mut self, now: Now) {
        self.acknowledgments.handle_timeout(now.monotonic);
        self.routers.handle_timeout(now.monotonic);
    }

    /// A router's next advert to a neighbour; before that, the bundles of which no copy is wanted any more.
    pub(crate) fn poll_advert(
        &mut self,
        held: &Held,
        key: AdvertKey,
    ) -> Option<(String, NodeId, Vec<u8>)> {
        if let Some((peer, body)) = self.acknowledgments.poll_advert() {
            return Some((acknowledgments::NAME.into(), peer, body));
        }
        let hash = |key: &AdvertKey, bundle| identity_hash(held, key, bundle);
        self.routers.poll_advert(key, &hash)
    }

    /// A bundle is where it was to go, here or elsewhere, and is held no longer than it takes to deliver it: the router of its destination tells neighbours that
    /// this node needs no copy.
    pub(crate) fn note_arrived(&mut self, held: &Held, key: BundleKey) {
        let Some(entry) = held.entry(key).filter(|_| !self.routers.is_empty()) else {
            return;
        };
        let [source, destination] =
            [entry.source(), entry.destination()].map(|it| held.endpoints().id(it));
        if entry.fragment().is_some() || source.is_null() || is_routing(destination) {
            return;
        }
        let router = self.routers.find(destination);
        let router = router.and_then(|router| self.routers.get_mut(router));
        if let Some((router, identity)) = router.zip(identity(held, key)) {
            router.handle_arrived(identity, entry.expires());
        }
    }

    /// A router's last advert to a neighbour has not left: true where the router says all again.
    pub(crate) fn tell_anew(&mut self, router: &str, peer: &NodeId) -> bool {
        let router = self.routers.named(router);
        router.is_some_and(|router| router.tell_anew(peer))
    }

    /// Whether this node has a router of this name.
    pub(crate) fn has_router(&mut self, name: &str) -> bool {
        self.routers.named(name).is_some()
    }

    /// An advert of a neighbour's router. False where no router of this node knows what to do with it.
    pub(crate) fn hear(
        &mut self,
        held: &Held,
        adjacencies: &mut Adjacencies,
        now: Now,
        router: &str,
        peer: &NodeId,
        advert: &[u8],
    ) -> bool {
        let hash = |key: &AdvertKey, bundle| identity_hash(held, key, bundle);
        adjacencies.serve_peers();
        self.routers
            .named(router)
            .is_some_and(|router| router.handle_advert(now.monotonic, peer, advert, &hash))
    }
}

impl Forwarding {
    /// The whole bundles for a neighbour's own node that it has, as its last advert to a router said.
    pub(crate) fn take_ended(&mut self, held: &Held, router: &str) -> Vec<BundleKey> {
        let router = self.routers.named(router);
        let mut ended = router.map_or_else(Vec::new, |router| router.take_ended());
        ended.retain(|key| held.entry(*key).is_some_and(|it| it.fragment().is_none()));
        ended
    }
}

/// The hash of a bundle's identity (docs/adverts.md).
fn identity_hash(held: &Held, key: &AdvertKey, bundle: BundleKey) -> Option<u64> {
    Some(arrived::hash(key, &identity(held, bundle)?))
}

/// A bundle's identity, as adverts hash it.
fn identity(held: &Held, bundle: BundleKey) -> Option<Vec<u8>> {
    let entry = held.entry(bundle)?;
    let mut octets = Vec::with_capacity(48);
    held.endpoints().id(entry.source()).encode(&mut octets);
    let creation = entry.creation();
    write_array(&mut octets, 2);
    write_unsigned(&mut octets, creation.time.as_millis());
    write_unsigned(&mut octets, creation.sequence);
    if let Some(fragment) = entry.fragment() {
        write_unsigned(&mut octets, fragment.range.offset);
        write_unsigned(&mut octets, fragment.range.length);
    }
    Some(octets)
}
