//! The way on: queues, routes, routers, copies, and the bundles that sessions have under way.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use dhow_bundle::HeaderReader;
use dhow_bundle::storage::BundleKey;

use crate::config::{Config, LinkConfig, LinkId, SendOrder};
use crate::copies::Copies;
use crate::door::StreamId;
use crate::heads::Heads;
use crate::passing::{Owed, Pass};
use crate::queues::Queues;
use crate::routing::Routers;
use crate::routing::static_routes::StaticRoutes;
use crate::sending::SplitBundle;
use crate::sent::Sent;
use crate::turns::Turns;

/// All that is known of where bundles go.
pub(crate) struct Forwarding {
    pub(crate) routes: StaticRoutes,
    pub(crate) routers: Routers,
    pub(crate) queues: Queues,
    pub(crate) turns: Turns,
    /// Bundles of which several neighbours get a copy.
    pub(crate) copies: Copies,
    /// Bundles that go out while they come in, or did.
    pub(crate) passes: BTreeMap<BundleKey, Pass>,
    /// Acknowledgments that wait for the next hop's.
    pub(crate) owed: BTreeMap<BundleKey, Owed>,
    /// Payload octets of bundles here that next hops have already, from the first.
    pub(crate) handed: BTreeMap<BundleKey, u64>,
    /// Bundles that sessions are cutting into fragments.
    pub(crate) splits: BTreeMap<(BundleKey, StreamId), SplitBundle>,
    /// Bundles that have left over links that promise nothing, and are kept.
    pub(crate) sent: Sent,
    pub(crate) heads: Heads,
    /// Reads the headers of bundles that go out.
    pub(crate) headers_out: Option<Box<HeaderReader>>,
}

impl Forwarding {
    pub(crate) fn new(config: &Config) -> Self {
        let by_expiry = |(link, id): (&LinkConfig, u32)| {
            (link.policy.order == SendOrder::Expiry).then_some(LinkId(id))
        };
        let links = config.links.iter().zip(0_u32..);
        Self {
            routes: StaticRoutes::default(),
            routers: Routers::new(&config.routing, &config.contacts),
            queues: Queues::new(links.filter_map(by_expiry).collect()),
            turns: Turns::default(),
            copies: Copies::default(),
            passes: BTreeMap::new(),
            owed: BTreeMap::new(),
            handed: BTreeMap::new(),
            splits: BTreeMap::new(),
            sent: Sent::new(&config.links),
            heads: Heads::default(),
            headers_out: None,
        }
    }
}
