//! The way on: queues, routes, routers, copies, and the bundles that sessions have under way.

mod acknowledgments;
pub(crate) mod adverts;
pub(crate) mod before_sync;
pub(crate) mod choice;
pub(crate) mod copies;
pub(crate) mod cut_through;
pub(crate) mod detours;
mod dropping;
pub(crate) mod externals;
pub(crate) mod fragmentation;
mod handshakes;
pub(crate) mod heads;
#[cfg(any(test, feature = "testing"))]
mod invariants;
pub(crate) mod ordered;
pub(crate) mod queues;
pub(crate) mod refusals;
pub(crate) mod sent;
pub(crate) mod turns;
pub(crate) mod waiting;

use crate::driver::OperatorRefusal;
use crate::forwarding::queues::QueueId;
use crate::held::Held;
use crate::held::endpoints::EndpointIndex;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{EndpointId, HeaderReader};

use crate::adjacencies::Adjacencies;
use crate::adjacencies::links::is_tunnel;
use crate::adjacencies::session_id::SessionId;
use crate::config::{Config, LinkConfig, LinkId, Route, SendOrder};
use crate::forwarding::choice::SplitBundle;
use crate::forwarding::copies::Copies;
use crate::forwarding::cut_through::CutThrough;
use crate::forwarding::cut_through::Owed;
use crate::forwarding::heads::Heads;
use crate::forwarding::queues::Queues;
use crate::forwarding::refusals::{Refusal, Refusals};
use crate::forwarding::sent::Sent;
use crate::forwarding::turns::Turns;
use crate::routing::acknowledgments::Acknowledgments;
use crate::routing::static_routes::StaticRoutes;
use crate::routing::{Hop, Routers};

/// All that is known of where bundles go.
pub(crate) struct Forwarding {
    routes: StaticRoutes,
    routers: Routers,
    /// Bundles of which copies end.
    acknowledgments: Acknowledgments,
    /// The copy with which the next look for those begins that go so that others find room.
    drop_from: BundleKey,
    queues: Queues,
    turns: Turns,
    /// Bundles of which several neighbours get a copy.
    copies: Copies,
    /// Bundles that go out while they come in, or did.
    cut_throughs: BTreeMap<BundleKey, CutThrough>,
    /// Acknowledgments that wait for the next hop's.
    owed: BTreeMap<BundleKey, Owed>,
    /// Payload octets of bundles here that next hops have already, from the first.
    acknowledged: BTreeMap<BundleKey, u64>,
    /// Bundles that sessions are cutting into fragments.
    splits: BTreeMap<(BundleKey, SessionId), SplitBundle>,
    /// Bundles that have left over links that promise nothing, and are kept.
    sent: Sent,
    refusals: Refusals,
    heads: Heads,
    /// Reads the headers of bundles that go out.
    headers_out: Option<Box<HeaderReader>>,
}

impl Forwarding {
    #[inline]
    pub(crate) const fn queues(&self) -> &Queues {
        &self.queues
    }

    /// List queues by what is their first now.
    #[inline]
    pub(crate) fn refresh(&mut self, held: &Held, stale: Vec<QueueId>) {
        self.queues.refresh(held.bundles(), stale);
    }

    #[inline]
    pub(crate) const fn routes(&self) -> &StaticRoutes {
        &self.routes
    }

    #[inline]
    pub(crate) fn delete_route(&mut self, to: &str, via: &str) -> Result<(), OperatorRefusal> {
        self.routes.delete(to, via)
    }

    #[inline]
    pub(crate) const fn copies(&self) -> &Copies {
        &self.copies
    }

    /// The destination's node has a bundle: no other copy is wanted.
    #[inline]
    pub(crate) fn end_copies(&mut self, key: BundleKey) {
        self.copies.end(key);
    }

    #[inline]
    pub(crate) const fn sent(&self) -> &Sent {
        &self.sent
    }

    /// A bundle has left over a link that promises nothing, and is kept.
    #[inline]
    pub(crate) fn note_sent(&mut self, destination: EndpointIndex, link: LinkId, key: BundleKey) {
        self.sent.add(destination, link, key);
    }

    /// A bundle is gone.
    #[inline]
    pub(crate) fn forget(&mut self, held: &Held, destination: EndpointIndex, key: BundleKey) {
        self.sent.remove(destination, key);
        self.acknowledged.remove(&key);
        self.refusals.forget(key);
        self.forget_copies(held, key);
    }

    /// A bundle has not come in after all: no octets of it count as the next hop's.
    #[inline]
    pub(crate) fn forget_acknowledged(&mut self, key: BundleKey) {
        self.acknowledged.remove(&key);
    }

    /// Whether a hop is one that a route names, has a link, or a session.
    pub(crate) fn is_way(&self, adjacencies: &Adjacencies, hop: &Hop) -> bool {
        adjacencies.link_to(hop).is_some()
            || adjacencies.is_up(hop)
            || self.routes.iter().any(|(_, it)| it == hop)
    }

    /// Whether anything leads to another node's endpoint: a router decides about it, a route names its next hop, or its node is a neighbour.
    pub(crate) fn leads_to(&self, adjacencies: &Adjacencies, destination: &EndpointId) -> bool {
        let hops = || self.routes.hops(destination);
        self.router_name(destination).is_some()
            || hops().iter().any(|hop| self.is_way(adjacencies, hop))
    }

    /// A neighbour did not take a bundle.
    pub(crate) fn note_refusal(&mut self, key: BundleKey, refusal: Refusal) {
        self.refusals.note(key, refusal);
    }

    /// The last refusal of a bundle, where it is remembered.
    pub(crate) fn refusal(&self, key: BundleKey) -> Option<&Refusal> {
        self.refusals.get(key)
    }

    /// The name of the router that decides about a destination, where routes do not.
    pub(crate) fn router_name(&self, destination: &EndpointId) -> Option<&str> {
        self.routers.name(self.routers.find(destination)?)
    }

    /// A bundle went on without having waited in its queue.
    #[inline]
    pub(crate) fn leave_turn(&mut self, order: u64) {
        self.turns.leave(order);
    }

    /// A reader for the headers of bundles that go out, to be given back.
    #[inline]
    pub(crate) fn take_reader(&mut self) -> Box<HeaderReader> {
        self.headers_out.take().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn give_reader_back(&mut self, mut reader: Box<HeaderReader>) {
        reader.release();
        self.headers_out = Some(reader);
    }

    /// The fragment that a session cuts of a bundle.
    #[inline]
    pub(crate) fn split(&self, key: BundleKey, session: SessionId) -> Option<&SplitBundle> {
        self.splits.get(&(key, session))
    }

    pub(crate) fn split_mut(
        &mut self,
        key: BundleKey,
        session: SessionId,
    ) -> Option<&mut SplitBundle> {
        self.splits.get_mut(&(key, session))
    }

    /// A session begins to cut a bundle.
    #[inline]
    pub(crate) fn begin_split(&mut self, key: BundleKey, session: SessionId, split: SplitBundle) {
        self.splits.insert((key, session), split);
    }

    /// A session has no more to cut of a bundle.
    #[inline]
    pub(crate) fn end_split(&mut self, key: BundleKey, session: SessionId) -> Option<SplitBundle> {
        self.splits.remove(&(key, session))
    }

    /// The progress of a bundle that leaves before it is durable here.
    #[inline]
    pub(crate) fn cut_through(&self, key: BundleKey) -> Option<CutThrough> {
        self.cut_throughs.get(&key).cloned()
    }

    #[inline]
    pub(crate) fn cut_through_mut(&mut self, key: BundleKey) -> Option<&mut CutThrough> {
        self.cut_throughs.get_mut(&key)
    }

    #[inline]
    pub(crate) fn set_cut_through(&mut self, key: BundleKey, pass: CutThrough) {
        self.cut_throughs.insert(key, pass);
    }

    #[inline]
    pub(crate) fn take_cut_through(&mut self, key: BundleKey) -> Option<CutThrough> {
        self.cut_throughs.remove(&key)
    }

    /// Octets of memory that queues, copies, routers and bundles that have left take.
    pub(crate) fn memory_octets(&self) -> usize {
        (self.queues.memory_octets())
            .saturating_add(self.copies.memory_octets())
            .saturating_add(self.routers.memory_octets())
            .saturating_add(self.acknowledgments.memory_octets())
            .saturating_add(self.sent.memory_octets())
            .saturating_add(self.refusals.memory_octets())
    }

    /// A link has been made.
    pub(crate) fn add_link(&mut self, id: LinkId, config: &LinkConfig) {
        if config.policy.order == SendOrder::Expiry {
            self.queues.add_by_expiry(id);
        }
        if let Some(peer) = config.policy.peer.as_ref().filter(|_| is_tunnel(config)) {
            self.routes.add_tunnel(id, peer.endpoint().clone());
        }
        self.sent.add_link(config);
    }

    /// Takes the routes over a link out.
    pub(crate) fn take_routes_over(&mut self, id: LinkId) -> Vec<Route> {
        let routes = self.routes.iter();
        let over = routes.filter(|(_, hop)| **hop == Hop::Link(id));
        let taken: Vec<Route> = over.map(|(route, _)| route.clone()).collect();
        for route in &taken {
            // Each was found a moment ago.
            let _ = self.routes.delete(&route.to, &route.via);
        }
        taken
    }

    /// The pattern of a route over a link.
    pub(crate) fn route_over(&self, id: LinkId) -> Option<String> {
        let mut routes = self.routes.iter();
        let route = routes.find(|(_, hop)| **hop == Hop::Link(id));
        route.map(|(route, _)| route.to.clone())
    }

    pub(crate) fn new(config: &Config) -> Self {
        let mut forwarding = Self {
            routes: StaticRoutes::default(),
            routers: Routers::new(config),
            acknowledgments: Acknowledgments::default(),
            drop_from: BundleKey(0),
            queues: Queues::default(),
            turns: Turns::default(),
            copies: Copies::default(),
            cut_throughs: BTreeMap::new(),
            owed: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            splits: BTreeMap::new(),
            sent: Sent::default(),
            refusals: Refusals::default(),
            heads: Heads::default(),
            headers_out: None,
        };
        for (link, id) in config.links.iter().zip(0_u32..) {
            forwarding.add_link(LinkId(id), link);
        }
        forwarding
    }
}
