//! The routing handshake with IBR-DTN, as far as it is about bundles and routers (docs/ibr-dtn.md).

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use dhow_bundle::gateway::identity;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{DtnTime, EndpointId, Instant, NodeId, Now, router};

use crate::adjacencies::Adjacencies;
use crate::forwarding::Forwarding;
use crate::forwarding::acknowledgments::acknowledgment_of;
use crate::handshake::{
    Acknowledgment, FILTER_BUNDLES, Filter, MAX_ACKNOWLEDGMENTS, Response, Table, key_of,
};
use crate::held::Held;
use crate::held::bundles::{Entry, Identity};
use crate::held::retention::State;

/// Held bundles that are looked at for a summary vector, at most.
const SUMMARY_BOUND: usize = 65_536;

/// Copies that are compared with a purge vector, at most.
const PURGED_BOUND: usize = 65_536;

/// Octets of the acknowledgments that are told, at most, so that a response takes them.
const ACKNOWLEDGMENTS_OCTETS: usize = 512 << 10;

/// Octets of one beside its endpoint ID, at most.
const ACKNOWLEDGMENT_OCTETS: usize = 64;

impl Forwarding {
    /// The bundles that are held, the newest of too many.
    pub(crate) fn summary_vector(&self, held: &Held) -> Filter {
        let is_here = |entry: &Entry| !matches!(entry.state(), State::Arriving | State::Deleting);
        let all = held.bundles().iter().take(SUMMARY_BOUND);
        let here = all.filter(|(_, entry)| is_here(entry));
        let mut newest: Vec<(Instant, &Entry)> =
            here.map(|(_, entry)| (entry.received(), entry)).collect();
        newest.sort_by_key(|(received, _)| core::cmp::Reverse(*received));
        let newest = newest.into_iter().take(FILTER_BUNDLES);
        let keys = newest.filter_map(|(_, entry)| entry_key(held, entry));
        Filter::of(&keys.collect::<Vec<_>>())
    }

    /// The bundles that are known to be where they were to go, the newest of too many.
    pub(crate) fn purge_vector(&self, now: Now) -> Filter {
        let newest = self.acknowledgments.newest(now.monotonic);
        let keys = newest.filter_map(|it| key_of(&it.source, it.creation, None));
        Filter::of(&keys.take(FILTER_BUNDLES).collect::<Vec<_>>())
    }

    /// The same bundles by their identities, as far as a clock says when they may be forgotten.
    pub(crate) fn acknowledgments(&self, now: Now) -> Vec<Acknowledgment> {
        let mut octets = 0;
        let newest = self.acknowledgments.newest(now.monotonic);
        let told = newest.filter_map(|it| {
            let left = it.until.since(now.monotonic).as_secs().saturating_add(1);
            Some(Acknowledgment {
                source: it.source.clone(),
                creation: identity::to_v6(it.creation).ok()?,
                fragment: None,
                expires_s: (now.dtn.as_millis() / 1_000).saturating_add(left),
                lifetime_s: left,
            })
        });
        let fits = told.take_while(|it| {
            octets += text_octets(&it.source) + ACKNOWLEDGMENT_OCTETS;
            now.dtn != DtnTime::UNKNOWN && octets <= ACKNOWLEDGMENTS_OCTETS
        });
        let most = usize::try_from(MAX_ACKNOWLEDGMENTS).unwrap_or(usize::MAX);
        fits.take(most).collect()
    }

    /// The delivery predictabilities of other nodes, of the first router that has some.
    pub(crate) fn predictabilities(&mut self, held: &Held, now: Now) -> Option<Table> {
        let mut routers = self.routers.iter_mut();
        let mut table = routers.find_map(|(_, router)| router.predictabilities(now.monotonic))?;
        table.retain(|node, _| !held.endpoints().is_here(node.endpoint()));
        Some(table)
    }

    /// A neighbour's answer: its bundles, those that it knows to be delivered, and its predictabilities, for every router. The copies that
    /// end, as far as the neighbour is believed.
    pub(crate) fn hear_response(
        &mut self,
        held: &Held,
        adjacencies: &mut Adjacencies,
        now: Now,
        peer: &NodeId,
        response: &Response,
    ) -> Vec<BundleKey> {
        let acknowledged = response.acknowledgments.iter().flatten();
        let acknowledged: BTreeSet<BundleKey> =
            acknowledged.filter_map(|it| find(held, it)).collect();
        let has = |filter: Option<&Filter>, bundle: BundleKey| {
            let key = || held.entry(bundle).and_then(|entry| entry_key(held, entry));
            filter.is_some_and(|filter| key().is_some_and(|key| filter.has(&key)))
        };
        let purge = response.purge.as_ref();
        let is_known = |bundle: BundleKey| {
            let is_delivered = acknowledged.contains(&bundle) || has(purge, bundle);
            has(response.summary.as_ref(), bundle) || is_delivered
        };
        adjacencies.serve_peers();
        for (_, router) in self.routers.iter_mut() {
            if let Some(table) = &response.predictabilities {
                router.handle_predictabilities(now.monotonic, peer, table);
            }
            router.handle_known(now.monotonic, peer, &is_known);
        }
        if !self.believes() {
            return Vec::new();
        }
        let from = (peer, adjacencies.is_verified(peer));
        let mut over = self.believe_identities(held, now, from, &acknowledged);
        if let Some(filter) = purge.filter(|it| it.is_telling()) {
            let copies = self.copies.bundles.keys().rev().take(PURGED_BOUND).copied();
            let told = copies.filter(|key| has(Some(filter), *key));
            over.extend(told.filter(|key| self.is_filter_believed(held, *key)));
        }
        over
    }

    /// The held bundles that a neighbour acknowledges by their identities, where it is believed; of whole ones others are told.
    fn believe_identities(
        &mut self,
        held: &Held,
        now: Now,
        from: (&NodeId, bool),
        acknowledged: &BTreeSet<BundleKey>,
    ) -> Vec<BundleKey> {
        let mut over = Vec::new();
        for &key in acknowledged {
            let Some(entry) = held.entry(key) else {
                continue;
            };
            let of = acknowledgment_of(held, entry);
            if !self.is_believed(held, from, &of) {
                continue;
            }
            if entry.fragment().is_some() {
                over.push(key);
                continue;
            }
            let new = (self.acknowledgments).handle_advert(now.monotonic, from.0, vec![of.clone()]);
            if !new.is_empty() {
                over.extend(self.acknowledged(held, &of));
            }
        }
        over
    }

    /// Whether the word of a Bloom filter ends a copy here. It may be wrong of any bundle: one that was made here stays, and nobody else is told.
    fn is_filter_believed(&self, held: &Held, key: BundleKey) -> bool {
        held.entry(key).is_some_and(|entry| {
            let [source, destination] =
                [entry.source(), entry.destination()].map(|it| held.endpoints().id(it));
            let trust = self.trust(source, destination);
            entry.previous().is_some() && trust == router::Acknowledgments::Anyone
        })
    }
}

/// The octets of a bundle's identity that filters hash.
fn entry_key(held: &Held, entry: &Entry) -> Option<Vec<u8>> {
    let source = held.endpoints().id(entry.source());
    let fragment = entry.fragment().map(|it| it.range);
    key_of(source, entry.creation(), fragment)
}

/// The bundle of an acknowledgment, where it is held.
fn find(held: &Held, acknowledgment: &Acknowledgment) -> Option<BundleKey> {
    let creation = identity::to_v7(acknowledgment.creation).ok()?;
    let source = held.endpoints().find(&acknowledgment.source)?;
    held.find(&Identity {
        source,
        creation,
        fragment: acknowledgment.fragment,
    })
}

/// Octets of an endpoint ID as text, at most, but for those of an `ipn:` one.
fn text_octets(endpoint: &EndpointId) -> usize {
    match endpoint {
        EndpointId::Dtn(text) => text.len(),
        EndpointId::Null | EndpointId::Ipn { .. } => 0,
    }
}
