//! Bundles of routers that are programs of their own: by routes for a while, and back.

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Instant, NodeId};

use crate::adjacencies::Adjacencies;
use crate::external::router::External;
use crate::forwarding::Forwarding;
use crate::forwarding::copies::Left;
use crate::forwarding::waiting::{place, queue};
use crate::held::Held;
use crate::held::retention::State;
use crate::routing::{Hop, RouterId};

impl Forwarding {
    /// Whether a router of this node is a program.
    #[inline]
    pub(crate) fn has_externals(&self) -> bool {
        !self.routers.externals().is_empty()
    }

    /// The routers that are programs.
    pub(crate) fn externals(&self) -> &[External] {
        self.routers.externals()
    }

    pub(crate) fn external_ids(&self) -> impl Iterator<Item = RouterId> + use<> {
        self.routers.external_ids()
    }

    pub(crate) fn external(&self, id: RouterId) -> Option<&External> {
        self.routers.external(id)
    }

    pub(crate) fn external_mut(&mut self, id: RouterId) -> Option<&mut External> {
        self.routers.external_mut(id)
    }

    /// The router that is a program of this name.
    pub(crate) fn external_named(&self, name: &str) -> Option<RouterId> {
        self.routers.external_named(name)
    }

    /// When one of them is to be attended to.
    pub(crate) fn externals_due(&self) -> Option<Instant> {
        let externals = self.routers.externals().iter();
        externals.filter_map(External::poll_timeout).min()
    }

    /// Whether a bundle waits for what a program says of it.
    pub(crate) fn awaits_decision(&self, key: BundleKey) -> bool {
        let router = self.copies.router(key);
        let router = router.and_then(|id| self.routers.external(id));
        router.is_some_and(|router| router.is_undecided(key))
    }

    /// Whether any route leads to a bundle's destination, or its node is a neighbour.
    pub(crate) fn has_route(&self, held: &Held, adjacencies: &Adjacencies, key: BundleKey) -> bool {
        let Some(entry) = held.entry(key) else {
            return false;
        };
        let destination = held.endpoints().id(entry.destination());
        let node: Option<NodeId> = destination.node_id();
        let hops = self.routes.hops(destination);
        hops.iter().any(|hop| match hop {
            Hop::Peer(peer) if Some(peer) == node.as_ref() => adjacencies.is_up(hop),
            Hop::Peer(_) | Hop::Link(_) => true,
        })
    }

    /// A bundle goes by routes from now on. True where it waits, and is to be put into its queue.
    pub(crate) fn leave_router(&mut self, held: &Held, key: BundleKey) -> bool {
        let Some(router) = self.copies.router(key) else {
            return false;
        };
        let is_back = false;
        self.copies.left.insert(key, Left { router, is_back });
        if let Some(external) = self.routers.external_mut(router) {
            external.left(key);
        }
        let waits = held.state(key) == Some(State::Waiting);
        if waits {
            self.copies.bundles.remove(&key);
        }
        waits
    }

    /// A bundle goes by routes no longer. True where it waited in its queue, and its router is to have it.
    pub(crate) fn return_to_router(&mut self, held: &mut Held, key: BundleKey) -> bool {
        let is_with_router = self.copies.bundles.contains_key(&key);
        let (Some(left), Some(entry)) = (self.copies.left.get_mut(&key), held.entry(key)) else {
            return false;
        };
        left.is_back = true;
        let (queue, place) = (queue(entry), place(entry));
        let waits = entry.state() == State::Waiting && !is_with_router;
        if is_with_router {
            self.copies.left.remove(&key);
        } else if waits {
            self.queues.remove(held.bundles_mut(), queue, place, key);
        }
        waits
    }
}
