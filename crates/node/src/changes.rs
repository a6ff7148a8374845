//! Changes to the configuration of a running node: differences are taken up, and no session ends that has nothing to do with them.

use alloc::string::String;
use alloc::vec::Vec;

use dhow_bundle::{Now, Priority};

use crate::adjacencies::links::Link;
use crate::adjacencies::session_id::SessionId;
use crate::config::{
    Enabled, LinkConfig, LinkId, ListenerConfig, ListenerId, PayloadChecksum, Reports, Route,
};
use crate::contacts::PlannedContact;
use crate::driver::OperatorRefusal;
use crate::held::custody::set_peer;
use crate::node::Node;
use crate::reports::ReportRate;
use crate::view::LinkOrigin;

/// Listeners of a node, at most, those that are closed included.
pub const LISTENERS_BOUND: usize = 1_024;

/// Differences between what a node has and what it is to have. Deletions go before anything comes; deleting what is not there, and adding
/// a route that is, change nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Links that go, by name; routes over them go with them.
    pub links_deleted: Vec<String>,
    /// Links that come, or have other settings than the one of that name. Its sessions end in order unless the difference is in what
    /// [`LinkConfig::keeps_sessions`] names.
    pub links: Vec<ChangedLink>,
    /// Listeners that are closed: their sessions end in order.
    pub listeners_closed: Vec<ListenerId>,
    /// Listeners that come, at their positions: that of a closed one, or the next. One that has another policy than before ends its sessions.
    pub listeners: Vec<ChangedListener>,
    /// Routes that go, by pattern and hop.
    pub routes_deleted: Vec<Route>,
    /// Routes that come.
    pub routes: Vec<Route>,
    /// Contacts that go, by their nodes and beginning.
    pub contacts_deleted: Vec<PlannedContact>,
    /// Contacts that come.
    pub contacts: Vec<PlannedContact>,
    /// The settings of the node itself, where one of them differs.
    pub settings: Option<LiveSettings>,
}

/// A link that comes, or has other settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedLink {
    /// Its origin: configured or added.
    pub origin: LinkOrigin,
    /// All its settings.
    pub config: LinkConfig,
}

/// A listener that comes, or has other settings.
#[derive(Clone, Debug)]
pub struct ChangedListener {
    /// Its position.
    pub id: ListenerId,
    /// All its settings.
    pub config: ListenerConfig,
}

impl PartialEq for ChangedListener {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
            && self.config.policy == other.config.policy
            && self.config.protocol == other.config.protocol
    }
}

impl Eq for ChangedListener {}

/// The settings of a node that hold from the moment at which they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSettings {
    /// Status reports that this node may generate.
    pub reports: Reports,
    /// The checksum of the payload block of bundles that this node makes.
    pub payload_checksum: PayloadChecksum,
    /// Lifetime of bundles whose sender names none, milliseconds.
    pub default_lifetime_ms: u64,
    /// The greatest priority that applications of this node may ask for; none for any.
    pub highest_priority: Option<Priority>,
}

impl Changes {
    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl LinkConfig {
    /// Whether a link may have these settings instead of its own while its sessions stay: only the times at which it is dialled, the number
    /// of its sessions and whether it is up differ.
    #[must_use]
    pub fn keeps_sessions(&self, other: &Self) -> bool {
        let Self {
            enabled,
            sessions,
            backoff_min_ms,
            backoff_max_ms,
            ..
        } = *other;
        let adapted = Self {
            enabled,
            sessions,
            backoff_min_ms,
            backoff_max_ms,
            ..self.clone()
        };
        adapted == *other
    }
}

impl Node {
    /// Takes up changes. The caller has checked them: what is not possible after all is left out, and the first such thing comes back.
    pub(crate) fn change(&mut self, now: Now, changes: Changes) -> Result<(), OperatorRefusal> {
        let mut outcome = Ok(());
        let mut note = |result: Result<(), OperatorRefusal>| {
            if outcome.is_ok() {
                outcome = result;
            }
        };
        for route in &changes.routes_deleted {
            // It may have been deleted by hand.
            let _ = self.forwarding.delete_route(&route.to, &route.via);
        }
        for name in &changes.links_deleted {
            if let Ok(id) = self.adjacencies.link_named(name) {
                drop(self.forwarding.take_routes_over(id));
                self.part_with_link(now, id);
            }
        }
        for changed in changes.links {
            note(self.change_link(now, changed));
        }
        for id in changes.listeners_closed {
            self.end_sessions_of(now, id);
        }
        for changed in changes.listeners {
            note(self.change_listener(now, changed));
        }
        for route in changes.routes {
            match self.forwarding.add_route(&self.adjacencies, route) {
                Err(OperatorRefusal::RouteExists(..)) => {}
                other => note(other),
            }
        }
        self.change_contacts(&changes.contacts_deleted, changes.contacts);
        if let Some(settings) = changes.settings {
            self.change_settings(settings);
        }
        self.forwarding.reroute(
            &mut self.held,
            &mut self.adjacencies,
            &mut self.delivery,
            &mut self.outbox,
        );
        self.adjacencies.serve_everybody();
        outcome
    }

    fn change_link(&mut self, now: Now, changed: ChangedLink) -> Result<(), OperatorRefusal> {
        let ChangedLink { origin, config } = changed;
        let known = self.adjacencies.link_named(&config.name).ok();
        if let Some(link) = known.and_then(|id| self.adjacencies.link_mut(id))
            && link.config.keeps_sessions(&config)
        {
            let (was, is) = (link.config.enabled, config.enabled);
            link.adapt(config, origin);
            if let (true, Some(id)) = (was != is, known) {
                match is {
                    Enabled::Yes => self.bring_link_up(now, id),
                    Enabled::No => self.take_link_down(now, id),
                }
            } else {
                link.hurry(now.monotonic);
            }
            return Ok(());
        }
        let mut routes = Vec::new();
        if let Some(id) = known {
            routes = self.forwarding.take_routes_over(id);
            self.part_with_link(now, id);
        }
        let mut link = Link::new(config);
        link.origin = origin;
        let id = self.adjacencies.place_link(now.monotonic, link)?;
        if let Some(link) = self.adjacencies.link(id) {
            self.forwarding.add_link(id, &link.config);
            set_peer(self.held.custody_mut().value_mut(), &link.config);
        }
        for route in routes {
            self.forwarding.add_route(&self.adjacencies, route)?;
        }
        Ok(())
    }

    /// A link goes, and with it the attempts to dial it.
    fn part_with_link(&mut self, now: Now, id: LinkId) {
        self.delete_link(now, id);
        self.adjacencies.stop_dialling(&mut self.outbox, id);
    }

    fn change_listener(
        &mut self,
        now: Now,
        changed: ChangedListener,
    ) -> Result<(), OperatorRefusal> {
        let ChangedListener { id, config } = changed;
        let at = usize::try_from(id.0).unwrap_or(usize::MAX);
        if at >= LISTENERS_BOUND || at > self.config.listeners.len() {
            return Err(OperatorRefusal::TooManyListeners(LISTENERS_BOUND));
        }
        match self.config.listeners.get_mut(at) {
            Some(listener) => {
                *listener = config;
                self.end_sessions_of(now, id);
            }
            None => self.config.listeners.push(config),
        }
        Ok(())
    }

    /// Sessions that neighbours began at a listener end in order.
    fn end_sessions_of(&mut self, now: Now, id: ListenerId) {
        let sessions: Vec<SessionId> = self.adjacencies.sessions_at(id).collect();
        for session in sessions {
            self.adjacencies
                .terminate(&mut self.attention, now, session);
        }
    }

    fn change_contacts(&mut self, deleted: &[PlannedContact], added: Vec<PlannedContact>) {
        let any = !deleted.is_empty() || !added.is_empty();
        for contact in deleted {
            self.config.contacts.remove(contact);
        }
        for contact in added {
            // They were checked together with all others; one that was added by hand and overlaps stays.
            let _ = self.config.contacts.insert(contact);
        }
        if any {
            self.adjacencies.contacts_changed();
        }
    }

    fn change_settings(&mut self, settings: LiveSettings) {
        let LiveSettings {
            reports,
            payload_checksum,
            default_lifetime_ms,
            highest_priority,
        } = settings;
        if reports.per_second != self.config.reports.per_second {
            self.reporting.report_rate = ReportRate::new(reports.per_second);
        }
        self.config.reports = reports;
        self.config.payload_checksum = payload_checksum;
        self.config.default_lifetime_ms = default_lifetime_ms;
        self.config.highest_priority = highest_priority;
    }
}
