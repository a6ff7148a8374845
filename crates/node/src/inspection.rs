//! The getters behind `view`, by which an operator sees the state of a node.

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cmp::Reverse;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{BundleId, Instant, NodeId, Now};

use crate::adjacencies::links::Link;
use crate::adjacencies::neighbour::Neighbour;
use crate::adjacencies::session_id::SessionId;
use crate::config::{Enabled, LinkId, Route, RouterKind, Routing};
use crate::contacts::ContactTable;
use crate::discovery::config::DiscoverId;
use crate::discovery::refused::BeaconCounts;
use crate::external::router::External;
use crate::held::bundles::Entry;
use crate::held::endpoints::EndpointIndex;
use crate::held::retention::State;
use crate::local::Locality;
use crate::node::Node;
use crate::reception::Reception;
use crate::routing::Hop;
use crate::view::{
    ArrivalView, BundleState, BundleView, Counters, DestinationView, LinkState, LinkView, LoadView,
    NeighbourView, ProgramView, RegistrationView, RouteView, SessionView, TrafficView, WaitingView,
};
use dhow_bundle::DtnTime;

/// Destinations that [`Node::loads`] sums up one by one, at most: some 6 MB for the moment.
const LOADS_SUMMED: usize = 65_536;

impl Node {
    /// The node's IDs, first the one that it presents.
    #[must_use]
    pub fn node_ids(&self) -> &[NodeId] {
        &self.config.node_ids
    }

    /// Links, those that are configured first.
    #[must_use]
    pub fn links(&self) -> Vec<LinkView> {
        let links = self.adjacencies.links().iter();
        links
            .filter(|link| !link.is_deleted)
            .map(|link| self.link_view(link))
            .collect()
    }

    /// When octets last came over a link, of sessions that are over or stand.
    fn heard_over(&self, link: &Link) -> Option<Instant> {
        let sessions = link.sessions.iter();
        let neighbours = sessions.filter_map(|session| self.adjacencies.neighbour(*session));
        let established = neighbours.filter(|it| it.is_up());
        established
            .filter_map(Neighbour::last_heard)
            .chain(link.heard)
            .max()
    }

    pub(crate) fn link_view(&self, link: &Link) -> LinkView {
        let established = |session: &&SessionId| {
            self.adjacencies
                .neighbour(**session)
                .is_some_and(|it| it.is_up())
        };
        let sessions = link.sessions.iter().filter(established).count();
        let state = match (link.enabled, link.next_attempt) {
            _ if sessions > 0 => LinkState::Up,
            (Enabled::No, _) => LinkState::Down,
            _ if link.is_absent() => LinkState::Absent,
            (Enabled::Yes, Some(at)) if link.dialling == 0 => LinkState::Waiting(at),
            (Enabled::Yes, _) => LinkState::Dialling,
        };
        LinkView {
            name: link.config.name.clone(),
            origin: link.origin,
            enabled: link.enabled,
            state,
            peer: link.peer.clone(),
            bundle_versions: link.config.policy.bundle_versions,
            sessions,
            heard: self.heard_over(link),
            failures: link.failures,
            last_error: link.last_error.clone(),
        }
    }

    /// Neighbours of which beacons told, by the entries of the configuration and their node IDs.
    #[must_use]
    pub fn neighbours_found(&self) -> Vec<NeighbourView> {
        let places = (0_u32..).zip(self.discovery.places());
        let all = places.flat_map(|(at, place)| {
            let neighbours = place.neighbours();
            neighbours.map(move |(node, it)| (DiscoverId(at), place.protocol(), node, it))
        });
        all.map(|(place, protocol, node, it)| {
            let sessions = self.adjacencies.session_ids_over(&Hop::Peer(node.clone()));
            let sessions = sessions.filter_map(|session| self.adjacencies.neighbour(session));
            let secured: Vec<_> = (sessions.filter_map(|it| it.parameters.as_ref()))
                .map(|parameters| parameters.secured)
                .collect();
            let link = it.link.and_then(|link| self.adjacencies.link(link));
            NeighbourView {
                node: node.clone(),
                place,
                protocol,
                address: it
                    .current
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                format: it.format,
                since: it.since,
                heard: it.last,
                period_ms: u64::try_from(it.period.as_millis()).unwrap_or(u64::MAX),
                beacons: it.beacons,
                link: link.map(|link| link.config.name.clone()),
                sessions: secured.len(),
                is_secured: secured.contains(&true),
                last_error: link.and_then(|link| link.last_error.clone()),
            }
        })
        .collect()
    }

    /// The number of the link of a name.
    #[must_use]
    pub fn link_named(&self, name: &str) -> Option<LinkId> {
        self.adjacencies.link_named(name).ok()
    }

    /// The number of the next link that an operator adds.
    #[must_use]
    pub fn next_link(&self) -> LinkId {
        LinkId(u32::try_from(self.adjacencies.links().len()).unwrap_or(u32::MAX))
    }

    /// Counts of beacons since the node's start.
    #[must_use]
    pub fn beacon_counts(&self) -> BeaconCounts {
        self.discovery.counts()
    }

    /// Established sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionView> {
        self.adjacencies
            .neighbours()
            .filter_map(|(session, neighbour)| {
                let parameters = neighbour.parameters.as_ref()?;
                Some(SessionView {
                    stream: session.stream(),
                    link: neighbour
                        .link
                        .and_then(|link| self.adjacencies.link(link))
                        .map(|link| link.config.name.clone()),
                    peer: parameters.peer.clone(),
                    protocol: neighbour.session.protocol(),
                    bundle_versions: neighbour.policy.bundle_versions,
                    secured: parameters.secured,
                    since: neighbour.since.unwrap_or(Instant::START),
                    heard: neighbour.last_heard(),
                    bundles_sent: neighbour.bundles_sent,
                    octets_sent: neighbour.octets_sent,
                    bundles_received: neighbour.bundles_received,
                    octets_received: neighbour.octets_received,
                    limited: neighbour.limited,
                    in_flight: neighbour.outgoing().len() + neighbour.kept().len(),
                    arriving: self.arriving(neighbour),
                    datagrams: neighbour.session.datagram_counts(),
                })
            })
            .collect()
    }

    /// A session's bundle that is coming in; there is one at most (RFC 9174 5.2.2).
    fn arriving(&self, neighbour: &Neighbour) -> Option<ArrivalView> {
        let mut receptions = neighbour.receptions.values();
        let incoming = receptions.find_map(Reception::incoming)?;
        let entry = self.held.entry(incoming.key)?;
        Some(ArrivalView {
            id: self.held.bundle_id(entry),
            octets: incoming.header.total_octets(),
            received_octets: incoming.received,
        })
    }

    /// Destinations that routers decide about, and routes, best first: the implicit ones to peers, then those that are configured or added.
    #[must_use]
    pub fn routes(&self) -> Vec<RouteView> {
        let routing = self.config.routing.iter();
        let routing = routing.filter(|it| it.router != RouterKind::Static);
        let routed = routing.map(|Routing { to, router, .. }| RouteView {
            route: Route {
                to: to.clone(),
                via: "*".into(),
                priority: 0,
            },
            implicit: false,
            usable: self.adjacencies.peers().next().is_some(),
            router: Some(router.name().into()),
        });
        let external = self.config.external.routing.iter();
        let external = external.map(|it| RouteView {
            route: Route {
                to: it.to.clone(),
                via: "*".into(),
                priority: 0,
            },
            implicit: false,
            usable: self.adjacencies.peers().next().is_some(),
            router: Some(it.program.clone()),
        });
        let fixed = self
            .forwarding
            .routes()
            .iter()
            .map(|(route, hop)| RouteView {
                route: route.clone(),
                implicit: false,
                usable: self.adjacencies.is_up(hop),
                router: None,
            });
        let implicit = self.adjacencies.peers().map(|peer| RouteView {
            route: Route {
                to: pattern_of(peer),
                via: peer.to_string(),
                priority: i32::MAX,
            },
            implicit: true,
            usable: self.adjacencies.is_up(&Hop::Peer(peer.clone())),
            router: None,
        });
        let routed = routed.chain(external);
        routed.chain(implicit).chain(fixed).collect()
    }

    /// Routers that are programs of their own.
    #[must_use]
    pub fn programs(&self) -> Vec<ProgramView> {
        let programs = self.forwarding.externals().iter();
        programs.map(External::view).collect()
    }

    /// The contact table.
    #[must_use]
    pub const fn contacts(&self) -> &ContactTable {
        &self.config.contacts
    }

    /// Registrations.
    #[must_use]
    pub fn registrations(&self) -> Vec<RegistrationView> {
        self.delivery
            .registrations()
            .iter()
            .map(|(index, registration)| RegistrationView {
                endpoint: registration.endpoint.clone(),
                subscribers: registration.subscribers.len(),
                failure_action: registration.failure_action,
                waiting: self.forwarding.queues().waiting(index),
            })
            .collect()
    }

    /// Waiting bundles, by the best next hop of their destination: of those that are up, else of those that routes name. Takes a look at each
    /// destination.
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitingView> {
        let sums = self.forwarding.queues().by_best_hop(|destination, hops| {
            let is_itself = |hop: &&Hop| match hop {
                Hop::Peer(peer) => {
                    self.held.endpoints().id(destination).node_id().as_ref() == Some(peer)
                }
                Hop::Link(_) => false,
            };
            let up = hops.iter().find(|hop| self.adjacencies.is_up(hop));
            let routed = || hops.iter().find(|hop| !is_itself(hop));
            up.or_else(routed).or(hops.first())
        });
        let sums = sums.into_iter();
        sums.map(|(hop, bundles)| WaitingView {
            next_hop: hop.map(|hop| self.adjacencies.hop_name(hop)),
            bundles,
        })
        .collect()
    }

    /// Stored bundles by destination: at most so many destinations from this place on, each with its place. Takes a look at each bundle.
    #[must_use]
    pub fn destinations(&self, now: Now, from: u32, most: usize) -> Vec<(u32, DestinationView)> {
        let from = EndpointIndex::at(from);
        let mut sums: BTreeMap<EndpointIndex, (u64, u64, Instant, u64)> = BTreeMap::new();
        let is_asked_for = |entry: &Entry| is_stored(entry) && entry.destination() >= from;
        for (_, entry) in self
            .held
            .bundles()
            .iter()
            .filter(|(_, entry)| is_asked_for(entry))
        {
            // The first places alone are summed up: one that others took the room of never comes back among them.
            let is_full = sums.len() >= most;
            if is_full
                && sums
                    .last_key_value()
                    .is_some_and(|(last, _)| entry.destination() > *last)
            {
                continue;
            }
            if is_full && !sums.contains_key(&entry.destination()) {
                sums.pop_last();
            }
            let sum = sums
                .entry(entry.destination())
                .or_insert((0, 0, entry.expires(), 0));
            sum.0 += 1;
            sum.1 += entry.octets();
            sum.2 = sum.2.min(entry.expires());
            sum.3 = sum.3.max(entry.held_ms(now.monotonic));
        }
        let view = |(index, (bundles, octets, expires, oldest_ms)): (
            EndpointIndex,
            (u64, u64, Instant, u64),
        )| {
            let destination = self.held.endpoints().id(index).clone();
            let up = |hops: &[Hop]| {
                let up = hops.iter().find(|hop| self.adjacencies.is_up(hop));
                up.map(|hop| self.adjacencies.hop_name(hop))
            };
            // All of them may be on their way, and none waits in a queue.
            let next_hop = match self.forwarding.queues().hops_to(index) {
                [] => up(&self.forwarding.routes().hops(&destination)),
                hops => up(hops),
            };
            let local = self.held.endpoints().local().locality(&destination) != Locality::Remote;
            let view = DestinationView {
                local,
                is_routed: local || self.forwarding.leads_to(&self.adjacencies, &destination),
                destination,
                bundles,
                octets,
                oldest_ms,
                next_expiry_ms: Some(millis(expires, now)),
                next_hop,
            };
            (index.place(), view)
        };
        sums.into_iter().map(view).collect()
    }

    /// The traffic of neighbours since the start: the first 64 that had a session by their node IDs, all others as one, last.
    #[must_use]
    pub fn traffic(&self) -> Vec<TrafficView> {
        self.adjacencies.traffic().views()
    }

    /// The destinations with the most octets stored, at most so many, and behind them all others as one. Takes a look at each bundle.
    #[must_use]
    pub fn loads(&self, now: Now, most: usize) -> Vec<LoadView> {
        let mut sums: BTreeMap<EndpointIndex, LoadView> = BTreeMap::new();
        let mut others = LoadView::default();
        let bundles = self.held.bundles().iter();
        for (_, entry) in bundles.filter(|(_, entry)| is_stored(entry)) {
            let is_new = !sums.contains_key(&entry.destination());
            let load = if is_new && sums.len() >= LOADS_SUMMED {
                &mut others
            } else {
                sums.entry(entry.destination()).or_default()
            };
            load.bundles += 1;
            load.octets = load.octets.saturating_add(entry.octets());
            load.oldest_ms = load.oldest_ms.max(entry.held_ms(now.monotonic));
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, load)| Reverse(load.octets));
        for (_, load) in sums.split_off(sums.len().min(most)) {
            others.bundles += load.bundles;
            others.octets = others.octets.saturating_add(load.octets);
            others.oldest_ms = others.oldest_ms.max(load.oldest_ms);
        }
        let named = sums.into_iter().map(|(index, load)| LoadView {
            destination: Some(self.held.endpoints().id(index).clone()),
            ..load
        });
        named
            .chain((others.bundles > 0).then_some(others))
            .collect()
    }

    /// Octets of bundles that the node takes at present: its quota, or the room of the disk if that is less.
    #[must_use]
    pub fn quota_octets(&self) -> u64 {
        self.held.quota_octets(&self.config)
    }

    /// Octets that stored bundles take, and those that come in have reserved, which the quota is for.
    #[must_use]
    pub fn taken_octets(&self) -> u64 {
        self.held.taken_octets()
    }

    /// Stored bundles, and those that come in, which the quota of bundles is for. Parts that are kept of a bundle which comes in are
    /// one bundle with it.
    #[must_use]
    pub fn taken_bundles(&self) -> u64 {
        self.held.taken_bundles()
    }

    /// Stored bundles in the order of their keys, from this one on.
    pub fn bundles(
        &self,
        now: Now,
        from: BundleKey,
    ) -> impl Iterator<Item = (BundleKey, BundleView)> {
        let stored = self.held.bundles().iter_from(from);
        stored
            .filter(|(_, entry)| is_stored(entry))
            .map(move |(key, entry)| (key, self.bundle_view(now, key, entry)))
    }

    /// When a bundle was received, by the wall clock as it goes now.
    fn received(&self, now: Now, entry: &Entry) -> DtnTime {
        let held_ms = entry.held_ms(now.monotonic);
        match now.dtn.is_known() {
            true => DtnTime::from_millis(now.dtn.as_millis().saturating_sub(held_ms)),
            false => DtnTime::UNKNOWN,
        }
    }

    pub(crate) fn bundle_view(&self, now: Now, key: BundleKey, entry: &Entry) -> BundleView {
        BundleView {
            id: self.held.bundle_id(entry),
            version: entry.version(),
            priority: entry.priority(),
            is_custodian: self.held.custody().is_custodian(key),
            destination: self.held.endpoints().id(entry.destination()).clone(),
            octets: entry.octets(),
            payload_octets: entry.payload_octets(),
            expires_in_ms: millis(entry.expires(), now),
            received: self.received(now, entry),
            previous: entry
                .previous()
                .map(|index| self.held.endpoints().id(index).clone()),
            in_flight: entry.state() == State::InFlight,
            state: match state_of(entry) {
                BundleState::Sent if self.held.custody().is_custodian(key) => {
                    BundleState::AwaitingSignal
                }
                BundleState::Waiting if self.forwarding.awaits_decision(key) => {
                    BundleState::AwaitingRouter
                }
                state => state,
            },
        }
    }

    /// The hop count with which a bundle that is held came (RFC 9171 4.4.3); nothing where it carries none, or was made here.
    #[must_use]
    pub fn hops(&self, id: &BundleId) -> Option<u8> {
        let key = self.held.find_bundle(id)?;
        self.held.entry(key)?.hops()
    }

    /// Bundles and octets in the store, those that are just arriving included: of octets, those that room is reserved for.
    #[must_use]
    pub fn stored(&self) -> (u64, u64) {
        (self.held.bundles().count(), self.held.taken_octets())
    }

    /// Stored bundles whose octets are damaged on disk.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        // None was found in this run, so that the bundles need not be looked through.
        if self.outbox.counters.quarantined == 0 {
            return 0;
        }
        let damaged = self
            .held
            .bundles()
            .iter()
            .filter(|(_, entry)| entry.state() == State::Quarantined);
        u64::try_from(damaged.count()).unwrap_or(u64::MAX)
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.outbox.counters
    }
}

fn state_of(entry: &Entry) -> BundleState {
    match entry.state() {
        State::DispatchPending
        | State::Waiting
        | State::Arriving
        | State::Kept
        | State::Deleting => BundleState::Waiting,
        State::InFlight => BundleState::InFlight,
        State::AwaitingRetry { .. } => BundleState::AwaitingRetry,
        State::Sent => BundleState::Sent,
        State::Reassembling => BundleState::Reassembling,
        State::Quarantined => BundleState::Damaged,
    }
}

pub(crate) fn is_stored(entry: &Entry) -> bool {
    !matches!(
        entry.state(),
        State::Arriving | State::Kept | State::Deleting
    )
}

pub(crate) fn millis(expires: Instant, now: Now) -> u64 {
    u64::try_from((expires - now.monotonic).as_millis()).unwrap_or(u64::MAX)
}

fn pattern_of(peer: &NodeId) -> alloc::string::String {
    match peer.endpoint() {
        dhow_bundle::EndpointId::Ipn {
            allocator: 0, node, ..
        } => alloc::format!("ipn:{node}.*"),
        dhow_bundle::EndpointId::Ipn {
            allocator, node, ..
        } => alloc::format!("ipn:{allocator}.{node}.*"),
        other => alloc::format!("{other}**"),
    }
}
