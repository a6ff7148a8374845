//! The neighbours: configured links, sessions and conversations by datagrams, and the paths that they go over.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use dhow_bundle::{Instant, NodeId};
use dhow_link::tcpcl::Session;

use crate::config::Config;
use crate::door::StreamId;
use crate::links::Link;
use crate::neighbour::Neighbour;
use crate::paths::IdlePaths;

/// All neighbours.
pub(crate) struct Adjacencies {
    pub(crate) links: Vec<Link>,
    pub(crate) neighbours: BTreeMap<StreamId, Box<Neighbour>>,
    /// Established sessions by their peer.
    pub(crate) peers: BTreeMap<NodeId, BTreeSet<StreamId>>,
    /// Sessions that are over and may still have last octets to write.
    pub(crate) parting: BTreeMap<StreamId, Box<Session>>,
    /// Sessions that may have room for a bundle.
    pub(crate) to_serve: BTreeSet<StreamId>,
    /// When sessions whose peer is out of resources are tried again.
    pub(crate) pauses: BTreeSet<(Instant, StreamId)>,
    /// When the network, which has just changed, is looked at.
    pub(crate) settles: Option<Instant>,
    /// When the paths of sessions are looked at.
    pub(crate) path_check: Option<Instant>,
    pub(crate) idle_paths: IdlePaths,
    /// Octets of datagrams that came before others and wait for them.
    pub(crate) early_octets: u64,
}

impl Adjacencies {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            links: config.links.iter().cloned().map(Link::new).collect(),
            neighbours: BTreeMap::new(),
            peers: BTreeMap::new(),
            parting: BTreeMap::new(),
            to_serve: BTreeSet::new(),
            pauses: BTreeSet::new(),
            settles: None,
            path_check: None,
            idle_paths: IdlePaths::Asked,
            early_octets: 0,
        }
    }
}
