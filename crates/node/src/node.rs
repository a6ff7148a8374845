//! The node: one value with one door.

use alloc::vec::Vec;
use dhow_bundle::{Instant, NodeId, Now};
use dhow_link::Gather;

use crate::config::Config;
use crate::door::{Action, Event, StreamId};
use crate::view::{
    BundleView, Counters, DestinationView, LinkView, RegistrationView, RouteView, SessionView,
};

/// One DTN node: forwarder, links, registrations and application sessions behind one door.
pub struct Node {
    config: Config,
}

impl Node {
    /// A node that has not yet recovered its store: give it `Recovered` events and one `Opened` first.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    /// Something happened.
    pub fn handle(&mut self, _now: Now, _event: Event) {}

    /// What to do now; `None` when there is nothing.
    pub fn poll(&mut self, _now: Now) -> Option<Action> {
        None
    }

    /// Add up to about `limit` octets that a stream is to write to `out`.
    pub fn poll_octets(&mut self, _now: Now, _stream: StreamId, _limit: usize, _out: &mut Gather) {}

    /// The instant of `poll_timeout` has come.
    pub fn handle_timeout(&mut self, _now: Now) {}

    /// When `handle_timeout` wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// False while a stream's octets should stay in its socket because the store is behind.
    #[must_use]
    pub fn takes_octets(&self, _stream: StreamId) -> bool {
        true
    }

    /// True once a `Shutdown` has been carried out: no session is left.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        true
    }

    /// The node's IDs, first the one that it presents.
    #[must_use]
    pub fn node_ids(&self) -> &[NodeId] {
        &self.config.node_ids
    }

    /// Configured links.
    #[must_use]
    pub fn links(&self) -> Vec<LinkView> {
        Vec::new()
    }

    /// Established sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionView> {
        Vec::new()
    }

    /// Routes, configured, added and implicit.
    #[must_use]
    pub fn routes(&self) -> Vec<RouteView> {
        Vec::new()
    }

    /// Registrations.
    #[must_use]
    pub fn registrations(&self) -> Vec<RegistrationView> {
        Vec::new()
    }

    /// What is stored, by destination.
    #[must_use]
    pub fn destinations(&self, _now: Now) -> Vec<DestinationView> {
        Vec::new()
    }

    /// Stored bundles, at most `limit`.
    #[must_use]
    pub fn bundles(&self, _now: Now, _limit: usize) -> Vec<BundleView> {
        Vec::new()
    }

    /// Bundles and octets in the store.
    #[must_use]
    pub fn stored(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters::default()
    }
}
