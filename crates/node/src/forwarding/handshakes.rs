//! The routing handshake with IBR-DTN, as far as it is about bundles and routers (docs/ibr-dtn.md).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use dhow_bundle::gateway::identity;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Instant, NodeId, Now};

use crate::adjacencies::Adjacencies;
use crate::forwarding::Forwarding;
use crate::handshake::{Acknowledgment, FILTER_BUNDLES, Filter, Response, Table, key_of};
use crate::held::Held;
use crate::held::bundles::{Entry, Identity};
use crate::held::retention::State;

/// Held bundles that are looked at for a summary vector, at most.
const SUMMARY_BOUND: usize = 65_536;

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

    /// The bundles that are delivered, as far as routers here know.
    ///
    /// A seam: no router knows yet. One that keeps acknowledgments says here which, with [`Filter::of`] the keys of their identities.
    pub(crate) fn purge_vector(&self) -> Filter {
        Filter::of(&[])
    }

    /// The same bundles by their identities: the other half of that seam.
    pub(crate) fn acknowledgments(&self) -> Vec<Acknowledgment> {
        Vec::new()
    }

    /// The delivery predictabilities of other nodes, of the first router that has some.
    pub(crate) fn predictabilities(&mut self, held: &Held, now: Now) -> Option<Table> {
        let mut routers = self.routers.iter_mut();
        let mut table = routers.find_map(|(_, router)| router.predictabilities(now.monotonic))?;
        table.retain(|node, _| !held.endpoints().is_here(node.endpoint()));
        Some(table)
    }

    /// What a neighbour answers: its bundles, those that it knows to be delivered, and its predictabilities, for every router.
    pub(crate) fn hear_response(
        &mut self,
        held: &Held,
        adjacencies: &mut Adjacencies,
        now: Now,
        peer: &NodeId,
        response: &Response,
    ) {
        let acknowledged = response.acknowledgments.iter().flatten();
        let acknowledged: BTreeSet<BundleKey> =
            acknowledged.filter_map(|it| find(held, it)).collect();
        let has = |filter: Option<&Filter>, bundle: BundleKey| {
            let key = || held.entry(bundle).and_then(|entry| entry_key(held, entry));
            filter.is_some_and(|filter| key().is_some_and(|key| filter.has(&key)))
        };
        let is_delivered = |bundle: BundleKey| {
            acknowledged.contains(&bundle) || has(response.purge.as_ref(), bundle)
        };
        let is_known =
            |bundle: BundleKey| has(response.summary.as_ref(), bundle) || is_delivered(bundle);
        adjacencies.serve_peers();
        for (_, router) in self.routers.iter_mut() {
            if let Some(table) = &response.predictabilities {
                router.handle_predictabilities(now.monotonic, peer, table);
            }
            router.handle_delivered(now.monotonic, peer, &is_delivered);
            router.handle_known(now.monotonic, peer, &is_known);
        }
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
