//! Adverts between the routers of this node and those of its neighbours: hashes of bundles for those that tell of them.

use alloc::string::String;
use alloc::vec::Vec;
use core::hash::Hasher as _;

use dhow_bundle::cbor::{write_array, write_unsigned};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Instant, NodeId, Now};
use siphasher::sip::SipHasher24;

use crate::adjacencies::Adjacencies;
use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::routing::{AdvertKey, acknowledgments};

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

/// The hash of a bundle's identity (docs/adverts.md).
fn identity_hash(held: &Held, key: &AdvertKey, bundle: BundleKey) -> Option<u64> {
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
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(&octets);
    Some(hasher.finish())
}
