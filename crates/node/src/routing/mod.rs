//! The ways by which bundles leave.
//!
//! Static routes name the next hops of a destination, best first ([`static_routes`]): its bundles wait in a queue of their own, and
//! nobody is asked for each. For destinations of other patterns a [`Router`] decides bundle by bundle, and may give copies to several
//! neighbours ([`flood`]; [`spray_and_wait`], [`prophet`] and [`maxprop`], which [`replication`] asks; [`external`](crate::external) has those that are programs of
//! their own). Either sees endpoint IDs, nodes and contacts; never octets, sessions or clocks.

pub(crate) mod acknowledgments;
pub(crate) mod arrived;
mod candidate;
mod direct;
mod flood;
mod fresh;
mod given;
mod lot;
mod maxprop;
mod neighbour;
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod prophet;
mod replication;
mod scheme;
mod spray_and_wait;
pub(crate) mod static_routes;
mod summary;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::eid::EidPattern;
use dhow_bundle::router::{Acknowledgments, DropPolicy};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{EndpointId, Instant, NodeId, Priority};

use crate::config::{Config, LinkId, RouterKind};
use crate::contacts::ContactTable;
use crate::external::router::External;
use flood::Flood;
use maxprop::MaxProp;
use prophet::Prophet;
use replication::Replication;
use spray_and_wait::SprayAndWait;

/// A next hop: a configured link, or any session to a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hop {
    /// Over a session that this link dialled.
    Link(LinkId),
    /// Over any session to this node, dialled or accepted.
    Peer(NodeId),
}

/// The change of a contact with a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    /// Its first session is established.
    Up,
    /// Its last session is gone.
    Down,
}

/// The facts about a bundle that routers decide by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// The node that it is for; none where the destination names no single node.
    pub(crate) destination: Option<&'a NodeId>,
    pub(crate) priority: Priority,
    /// Whether it was made here.
    pub(crate) is_own: bool,
    /// The copies that may be made of it, where the giver said so.
    pub(crate) permits: Option<u64>,
    /// The hops that it has gone, as far as it counts them and no restart was since.
    pub(crate) hops: u64,
    /// Octets of it in the store.
    pub(crate) octets: u64,
    /// The neighbour that brought the bundle.
    pub(crate) from: Option<&'a NodeId>,
}

#[cfg(any(test, feature = "testing"))]
impl Facts<'_> {
    /// A bundle made here, for nobody in particular.
    pub(crate) const fn for_test() -> Self {
        Self {
            destination: None,
            priority: Priority::Normal,
            is_own: true,
            permits: None,
            hops: 0,
            octets: 1_000,
            from: None,
        }
    }
}

/// The change of a bundle that a router decides about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BundleChange<'a> {
    /// An earlier run of this node noted this of it ([`Router::note`]), which has this priority; it is held next.
    Noted(Priority, &'a [u8]),
    /// The bundle is held, and may leave. Comes again when it could not leave for a while.
    Held(Facts<'a>),
    /// A session with this node has a copy on its way.
    Taken(&'a NodeId),
    /// This node has the bundle.
    Given(&'a NodeId),
    /// This node has not got the copy that was on its way, and gets none before this time.
    Returned(&'a NodeId, Instant),
    /// This node is to have no copy of the bundle.
    Barred(&'a NodeId),
    /// The bundle is held no more; its key may come back as another bundle's.
    Removed,
}

/// Whether a bundle may go to a neighbour, as far as that is not the router's to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// The bundle may go.
    Open,
    /// Not now: it is being compared with its checksums, or the neighbour has no room for bundles of its size.
    Later,
    /// Never: it came from there, or does not fit.
    Barred,
}

/// The key of the hashes of one advert.
pub(crate) type AdvertKey = [u8; 16];

/// The hash of a held bundle's identity under a key (docs/adverts.md).
pub(crate) type IdentityHash<'a> = &'a dyn Fn(&AdvertKey, BundleKey) -> Option<u64>;

/// The decisions about bundles one by one. Copies are a router's to multiply: a bundle is held until it expires, its destination's node
/// has it, or an operator or a router drops it.
pub(crate) trait Router: Send {
    /// The contacts that are planned, of this node and of others, before anything else happens.
    fn handle_contacts(&mut self, contacts: &ContactTable);

    /// A neighbour has come or gone.
    fn handle_contact(&mut self, now: Instant, peer: &NodeId, contact: Contact);

    /// A bundle has changed.
    fn handle_bundle(&mut self, key: BundleKey, change: BundleChange<'_>);

    /// A bundle is where it was to go, here or elsewhere, and this node needs no copy of it: its identity, as adverts hash it, and when it expires.
    fn handle_arrived(&mut self, _identity: Vec<u8>, _until: Instant) {}

    /// The next bundle for a neighbour that has room, of those that `passage` lets through. The same one each time until it has changed.
    fn next(
        &mut self,
        now: Instant,
        peer: &NodeId,
        passage: &dyn Fn(BundleKey) -> Passage,
    ) -> Option<BundleKey>;

    /// When a neighbour for which [`Router::next`] has nothing is to be asked for again although nothing happens.
    fn wakes(&mut self, now: Instant, peer: &NodeId) -> Option<Instant>;

    /// The state of a bundle that is to outlast this run, asked for when a neighbour has got a copy: at most
    /// [`dhow_bundle::storage::NOTE_OCTETS`]. Each note replaces the one before.
    fn note(&self, key: BundleKey) -> Option<Bytes>;

    /// The copies that a neighbour which has a bundle on its way may make in its turn; none where they are not counted.
    fn permits(&self, key: BundleKey, peer: &NodeId) -> Option<u64>;

    /// The number of nodes that were given a bundle, as far as is remembered.
    fn copies_given(&self, key: BundleKey) -> u64;

    /// The place of a bundle in the router's order, the last for the greatest; none where it has none but that of time.
    fn place(&self, _key: BundleKey) -> Option<u64> {
        None
    }

    /// When it has something to say although nothing happens.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// Whether it may have something to say ([`Router::poll_advert`]).
    fn has_adverts(&self) -> bool;

    /// The router's next advert to the router of the same kind of a neighbour, and that neighbour (docs/adverts.md).
    fn poll_advert(&mut self, key: AdvertKey, hash: IdentityHash<'_>) -> Option<(NodeId, Vec<u8>)>;

    /// The last advert to a neighbour has not left, and will not. True where it says all again, for which it is asked next.
    fn tell_anew(&mut self, _: &NodeId) -> bool {
        false
    }

    /// An advert of a neighbour's router of the same kind: any octets. False where they are no such advert.
    fn handle_advert(
        &mut self,
        now: Instant,
        peer: &NodeId,
        advert: &[u8],
        hash: IdentityHash<'_>,
    ) -> bool;

    /// The bundles for neighbours' own nodes that these have, as the last adverts said: no copy of them is wanted any more.
    fn take_ended(&mut self) -> Vec<BundleKey> {
        Vec::new()
    }

    /// The bundles of which a neighbour needs no copy, as it says in other words than an advert's (docs/ibr-dtn.md).
    fn handle_known(&mut self, _: Instant, _: &NodeId, _has: &dyn Fn(BundleKey) -> bool) {}

    /// Its delivery predictabilities, the greatest of too many, 2^32 being 1; none where it has no such thing.
    fn predictabilities(&mut self, _: Instant) -> Option<BTreeMap<NodeId, u64>> {
        None
    }

    /// The predictabilities of a neighbour, before [`Router::handle_known`] is called for it.
    fn handle_predictabilities(&mut self, _: Instant, _: &NodeId, _: &BTreeMap<NodeId, u64>) {}

    /// Octets of memory that it takes.
    fn memory_octets(&self) -> usize;
}

/// A router of this kind of a node, in a store of so many octets, as it is when nothing has happened; none for static routes.
fn router(
    kind: RouterKind,
    node: Option<&NodeId>,
    copies: u32,
    quota_octets: u64,
) -> Option<Box<dyn Router>> {
    match kind {
        RouterKind::Static => None,
        RouterKind::Flood | RouterKind::Epidemic => Some(Box::new(Flood::new(node))),
        RouterKind::SprayAndWait => {
            Some(Box::new(Replication::new(SprayAndWait::new(copies.into()))))
        }
        RouterKind::Prophet => Some(Box::new(Replication::new(Prophet::default()))),
        RouterKind::MaxProp => Some(Box::new(Replication::new(MaxProp::new(quota_octets)))),
    }
}

fn kind(router: &mut Box<dyn Router>) -> &mut dyn Router {
    router.as_mut()
}

fn program(router: &mut External) -> &mut dyn Router {
    router
}

/// The position of a router among those of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouterId(u8);

/// The configuration of destinations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// None for static routes.
    router: Option<RouterId>,
    /// The nodes whose acknowledgments end copies.
    pub(crate) trust: Acknowledgments,
    /// The copies that make room for others.
    pub(crate) drop: DropPolicy,
}

/// The routers of a node, and the destinations of each.
#[derive(Default)]
pub(crate) struct Routers {
    patterns: Vec<(EidPattern, Rule)>,
    /// Whether any of the destinations has acknowledgments that are believed.
    believes: bool,
    /// Whether any of them has copies that make room for others.
    drops: bool,
    routers: Vec<(RouterKind, Box<dyn Router>)>,
    /// The routers that are programs of their own: their positions follow.
    externals: Vec<External>,
}

impl Routers {
    /// The routers that a configuration names. Patterns that are none are left out: the reader of the configuration has checked them.
    pub(crate) fn new(config: &Config) -> Self {
        let mut routers = Self::default();
        for it in &config.routing {
            if let Ok(pattern) = it.to.parse() {
                let id = routers.id_of(it.router, it.copies, config);
                let rule = match it.router {
                    RouterKind::Static => Rule::default(),
                    _ => Rule {
                        router: id,
                        trust: it.acknowledgments,
                        drop: it.drop,
                    },
                };
                routers.believes |= rule.trust != Acknowledgments::None;
                routers.drops |= rule.drop != DropPolicy::None;
                routers.patterns.push((pattern, rule));
            }
        }
        for it in &config.external.routing {
            if let Ok(pattern) = it.to.parse() {
                let id = routers.external_of(&it.program, config);
                let rule = Rule {
                    router: id,
                    ..Rule::default()
                };
                routers.patterns.push((pattern, rule));
                if let Some(external) = id.and_then(|id| routers.external_mut(id)) {
                    external.add_pattern(&it.to);
                }
            }
        }
        for (_, router) in &mut routers.routers {
            router.handle_contacts(&config.contacts);
        }
        routers
    }

    /// The router that is a program of this name, made where there is none; all others have been made.
    fn external_of(&mut self, name: &str, config: &Config) -> Option<RouterId> {
        if self.external_named(name).is_none() {
            let external = External::new(name, config.external.policy);
            self.externals.push(external);
        }
        self.external_named(name)
    }

    /// The router that is a program of this name.
    pub(crate) fn external_named(&self, name: &str) -> Option<RouterId> {
        let place = self.externals.iter().position(|it| it.name() == name)?;
        u8::try_from(self.routers.len() + place).ok().map(RouterId)
    }

    /// The routers that are programs of their own.
    pub(crate) fn externals(&self) -> &[External] {
        &self.externals
    }

    /// The positions of external routers.
    pub(crate) fn external_ids(&self) -> impl Iterator<Item = RouterId> + use<> {
        let kinds = self.routers.len();
        (kinds..kinds + self.externals.len())
            .filter_map(|place| u8::try_from(place).ok().map(RouterId))
    }

    pub(crate) fn external(&self, id: RouterId) -> Option<&External> {
        let place = usize::from(id.0).checked_sub(self.routers.len())?;
        self.externals.get(place)
    }

    pub(crate) fn external_mut(&mut self, id: RouterId) -> Option<&mut External> {
        let place = usize::from(id.0).checked_sub(self.routers.len())?;
        self.externals.get_mut(place)
    }

    fn id_of(&mut self, kind: RouterKind, copies: u32, config: &Config) -> Option<RouterId> {
        let place = self.routers.iter().position(|(known, _)| *known == kind);
        let place = match place {
            Some(place) => place,
            None => {
                let node = config.node_ids.first();
                let made = router(kind, node, copies, config.quota_octets)?;
                self.routers.push((kind, made));
                self.routers.len() - 1
            }
        };
        u8::try_from(place).ok().map(RouterId)
    }

    /// True where static routes decide about all destinations.
    pub(crate) fn is_empty(&self) -> bool {
        self.routers.is_empty() && self.externals.is_empty()
    }

    /// Whether any of them counts the copies of bundles.
    pub(crate) fn counts_copies(&self) -> bool {
        let mut kinds = self.routers.iter();
        kinds.any(|(kind, _)| *kind == RouterKind::SprayAndWait)
    }

    /// The router that the most specific pattern of a destination names, the first of equals; none where static routes decide.
    pub(crate) fn find(&self, destination: &EndpointId) -> Option<RouterId> {
        self.rule(destination).router
    }

    /// Whether anybody's word is believed, for any destination.
    pub(crate) const fn believes(&self) -> bool {
        self.believes
    }

    /// Whether copies make room for others, of any destination.
    pub(crate) const fn drops(&self) -> bool {
        self.drops
    }

    /// The rule that the most specific pattern of a destination has, the first of equals; that of static routes where there is none.
    pub(crate) fn rule(&self, destination: &EndpointId) -> Rule {
        let mut best: Option<(u64, Rule)> = None;
        for (pattern, rule) in &self.patterns {
            if let Some(specificity) = pattern.specificity(destination)
                && best.is_none_or(|(other, _)| specificity > other)
            {
                best = Some((specificity, *rule));
            }
        }
        best.map(|(_, rule)| rule).unwrap_or_default()
    }

    pub(crate) fn get(&self, id: RouterId) -> Option<&dyn Router> {
        match self.routers.get(usize::from(id.0)) {
            Some((_, router)) => Some(router.as_ref()),
            None => self.external(id).map(|it| -> &dyn Router { it }),
        }
    }

    pub(crate) fn get_mut(&mut self, id: RouterId) -> Option<&mut dyn Router> {
        if usize::from(id.0) >= self.routers.len() {
            return self.external_mut(id).map(program);
        }
        let router = self.routers.get_mut(usize::from(id.0));
        router.map(|(_, router)| kind(router))
    }

    /// The name of a router.
    pub(crate) fn name(&self, id: RouterId) -> Option<&str> {
        match self.routers.get(usize::from(id.0)) {
            Some((kind, _)) => Some(kind.name()),
            None => self.external(id).map(External::name),
        }
    }

    /// The router of this name.
    pub(crate) fn named(&mut self, name: &str) -> Option<&mut dyn Router> {
        let kind = self
            .routers
            .iter()
            .position(|(kind, _)| kind.name() == name);
        let kind = kind
            .and_then(|place| u8::try_from(place).ok())
            .map(RouterId);
        let id = kind.or_else(|| self.external_named(name))?;
        self.get_mut(id)
    }

    /// When one of them has something to say although nothing happens; programs are attended to by themselves.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let timeouts = self.routers.iter();
        let timeouts = timeouts.filter_map(|(_, router)| router.poll_timeout());
        timeouts.min()
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for (_, router) in &mut self.routers {
            router.handle_timeout(now);
        }
    }

    /// The next advert of one of them to a neighbour.
    pub(crate) fn poll_advert(
        &mut self,
        key: AdvertKey,
        hash: IdentityHash<'_>,
    ) -> Option<(String, NodeId, Vec<u8>)> {
        let kinds = self.routers.iter_mut();
        let kinds = kinds.map(|(kind, router)| (kind.name().to_string(), self::kind(router)));
        let externals = self.externals.iter_mut();
        let externals = externals.map(|it| (it.name().to_string(), program(it)));
        let mut all = kinds.chain(externals);
        all.find_map(|(name, router)| {
            let (peer, advert) = router.poll_advert(key, hash)?;
            Some((name, peer, advert))
        })
    }

    /// All routers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (RouterId, &mut dyn Router)> {
        let kinds = self.routers.iter_mut().map(|(_, router)| kind(router));
        let externals = self.externals.iter_mut().map(program);
        (0..).map(RouterId).zip(kinds.chain(externals))
    }

    /// Octets of memory that they take.
    pub(crate) fn memory_octets(&self) -> usize {
        let kinds = self
            .routers
            .iter()
            .map(|(_, router)| router.memory_octets());
        let externals = self.externals.iter().map(Router::memory_octets);
        kinds.chain(externals).sum()
    }
}
