//! From a scenario to the configuration of each node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dhow_bundle::protocol::Transport;
use dhow_bundle::{DtnTime, EndpointId, NodeId};
use dhow_node::ROUTING_SERVICE;
use dhow_node::config::{
    Config, CustodyPolicy, DialTime, Enabled, FirstRead, LinkConfig, Reports, Route, Routing,
    SessionPolicy, SourceLimits,
};
use dhow_node::contacts::{
    CONTACT_RATE_MAX, CONTACTS_BOUND, ContactError, ContactTable, PlannedContact,
};
use dhow_scenario::scenario::{self, Dial, Fidelity, Link, Node, NodeIndex, Protocol};
use dhow_scenario::{Scenario, ScenarioError};
use dhow_store::{Durability, Options};

use crate::application::{Application, Role};
use crate::clock::EPOCH;
use crate::congestion::Control;
use crate::entropy::{Entropy, Purpose};
use crate::listeners::{listeners, versions};

/// Octets that may wait for a disk.
const STORE_QUEUE_OCTETS: u64 = 1 << 20;

/// Reports that a node makes in a second, at most: more than one has cause to.
const REPORTS_PER_SECOND: u32 = 1_000_000;

/// Octets of memory that opening a store may take, and that what it remembers of removed bundles may.
const MEMORY_OCTETS: u64 = 64 << 20;

/// Octets of a segment at bundle fidelity, at most: more than any bundle has.
const SEGMENT_MRU_MOST: u64 = 1 << 40;

/// Round trips of a link for which its sessions wait beside what is usual: one sets a session up or ends it, and what is lost takes
/// one more each time.
const PATIENCE_ROUND_TRIPS: u32 = 6;

/// Service number of what receives.
const RECEIVER_SERVICE: u32 = 1;

/// Service number of what sends the first kind of traffic; the others follow.
const SENDER_SERVICE: u64 = 1_000;

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// There is something in it that only a testbed can do.
    #[error("{0}")]
    Testbed(ScenarioError),
    /// Traffic that cannot get where it is to go.
    #[error("no links lead from '{from}' to '{to}'")]
    NoPath {
        /// Its source.
        from: String,
        /// Its destination.
        to: String,
    },
    /// A congestion control that connections here cannot resemble.
    #[error("the congestion control '{0}' cannot be simulated")]
    Congestion(String),
    /// The contacts of a link make nodes have more than they can know.
    #[error("with '{0}' a node has more contacts than the {bound} of both directions that it can know", bound = CONTACTS_BOUND / 2)]
    Contacts(String),
    /// A node ID is none.
    #[error("'{0}' is not a node ID")]
    NodeId(String),
}

impl NetworkError {
    /// A way to mend the scenario.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Testbed(error) => error.hint.as_deref(),
            Self::Congestion(_) => Some("virtual time has bbr, reno and cubic"),
            Self::Contacts(_) => Some("dial = \"always\" needs no plan"),
            Self::NoPath { .. } => Some(
                "with a [[routing]] of a router that makes copies, as epidemic, it may wait for a meeting",
            ),
            Self::NodeId(_) => None,
        }
    }
}

/// One node, ready to be started.
#[derive(Debug)]
pub struct Blueprint {
    /// The configuration of its node.
    pub config: Config,
    /// The layout of its store.
    pub options: Options,
    /// Positions of the scenario's links that it dials, in the order of its own.
    pub leads: Vec<u32>,
    /// The neighbours to which it has routes to each node, by that node's number: with their priorities, best first.
    pub hops: BTreeMap<u32, Vec<(i32, NodeIndex)>>,
    /// Its applications.
    pub applications: Vec<Application>,
}

impl Blueprint {
    /// A route to the node of a number, which has the last priority that it is given.
    fn add_hop(&mut self, to: u32, priority: i32, via: NodeIndex) {
        let hops = self.hops.entry(to).or_default();
        hops.retain(|(_, other)| *other != via);
        let place = hops.partition_point(|(other, _)| *other >= priority);
        hops.insert(place, (priority, via));
    }
}

/// The configuration of every node of a scenario, for a seed.
///
/// # Errors
/// When traffic has no way.
pub fn blueprints(scenario: &Scenario, seed: u64) -> Result<Vec<Blueprint>, NetworkError> {
    if let Some(error) = &scenario.unsimulated {
        return Err(NetworkError::Testbed(error.clone()));
    }
    if let Some(name) = &scenario.congestion_control
        && Control::of(scenario).is_none()
    {
        return Err(NetworkError::Congestion(name.clone()));
    }
    let patience = listeners_patience(scenario);
    let mut blueprints = Vec::with_capacity(scenario.nodes.len());
    for (at, node) in scenario.nodes.iter().enumerate() {
        let mut entropy = Entropy::new(seed, Purpose::Node, at);
        let id = node_id(node)?;
        blueprints.push(Blueprint {
            config: Config {
                listeners: listeners(scenario, &policy(node, scenario.fidelity, patience(at))),
                quota_octets: node.quota_octets,
                quota_bundles: node.quota_bundles,
                store_queue_octets: STORE_QUEUE_OCTETS,
                echo_service: None,
                perf_service: None,
                source_limits: SourceLimits {
                    bundles: node.source_bundles,
                    ..SourceLimits::default()
                },
                removed_bound: node.removed_bound,
                custody: custody(node.custody),
                first_read: match scenario.fidelity {
                    Fidelity::Octet => FirstRead::Whole,
                    Fidelity::Bundle => FirstRead::HeaderBlocks,
                },
                seed: entropy.draw(),
                ..Config::usual(vec![id])
            },
            options: Options {
                segment_octets: node.segment_octets,
                quota_octets: node.quota_octets,
                durability: Durability::Sync,
                removed_bound: node.removed_bound,
                prepared_octets: 0,
                memory_octets: MEMORY_OCTETS,
                seed: entropy.draw(),
            },
            leads: Vec::new(),
            hops: BTreeMap::new(),
            applications: Vec::new(),
        });
    }
    let asked = scenario.traffic.iter();
    let asked = asked.fold(0, |flags, traffic| flags | traffic.reports);
    for blueprint in &mut blueprints {
        blueprint.config.reports = Reports {
            generate: asked,
            per_second: REPORTS_PER_SECOND,
            ..Reports::default()
        };
    }
    for ((number, link), windows) in (0_u32..).zip(&scenario.links).zip(windows(scenario)?) {
        let (dials, listens) = (link.between.0, link.between.1);
        // Over UDP either end has to know the other, and over a connection in one direction, either dials.
        let is_mutual = link.protocol.is_one_way() || link.protocol.transport() == Transport::Udp;
        let back = is_mutual.then_some((listens, dials));
        for (here, there) in [Some((dials, listens)), back].into_iter().flatten() {
            let blueprint = blueprints.get_mut(here.0);
            let nodes = scenario.nodes.get(here.0).zip(scenario.nodes.get(there.0));
            if let Some((blueprint, nodes)) = blueprint.zip(nodes) {
                blueprint.leads.push(number);
                let config = link_config(link, nodes, scenario.fidelity)?;
                let ids = (&node_id(nodes.0)?, &node_id(nodes.1)?);
                plan(&mut blueprint.config.contacts, link, ids, &windows)?;
                blueprint.config.links.push(config);
            }
        }
    }
    add_routes(scenario, &mut blueprints)?;
    add_routing(scenario, &mut blueprints);
    add_applications(scenario, &mut blueprints);
    Ok(blueprints)
}

/// The custody policy of a node.
fn custody(custody: scenario::Custody) -> CustodyPolicy {
    let enabled = |is_on| match is_on {
        true => Enabled::Yes,
        false => Enabled::No,
    };
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    CustodyPolicy {
        accept: enabled(custody.accepts),
        aggregate: enabled(custody.aggregates),
        delay_ms: millis(custody.delay),
        retry_ms: millis(custody.retry),
    }
}

/// The longest round trip of the links that lead to a node, by its position.
fn listeners_patience(scenario: &Scenario) -> impl Fn(usize) -> Duration {
    let mut longest = vec![Duration::ZERO; scenario.nodes.len()];
    for link in &scenario.links {
        let dials_too = link.protocol.is_one_way().then_some(link.between.0);
        for end in [Some(link.between.1), dials_too].into_iter().flatten() {
            if let Some(longest) = longest.get_mut(end.0) {
                *longest = link.round_trip().max(*longest);
            }
        }
    }
    move |at| longest.get(at).copied().unwrap_or_default()
}

/// The session policy of a node over links of a round trip. At bundle fidelity a bundle goes as one segment, and not on before it is whole.
fn policy(node: &Node, fidelity: Fidelity, round_trip: Duration) -> SessionPolicy {
    let usual = SessionPolicy::default();
    let patience = round_trip.saturating_mul(PATIENCE_ROUND_TRIPS);
    let patience_s = u32::try_from(patience.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
    let usual = SessionPolicy {
        answer_timeout_s: usual.answer_timeout_s.saturating_add(patience_s),
        transfer_timeout_s: usual.transfer_timeout_s.saturating_add(patience_s),
        segment_mru: node.segment_mru,
        transfer_mru: node.transfer_mru,
        cut_through: match node.cut_through {
            true => Enabled::Yes,
            false => Enabled::No,
        },
        ..usual
    };
    match fidelity {
        Fidelity::Octet => usual,
        Fidelity::Bundle => SessionPolicy {
            segment_mru: SEGMENT_MRU_MOST,
            segment_octets: SEGMENT_MRU_MOST,
            cut_through: Enabled::No,
            ..usual
        },
    }
}

fn node_id(node: &Node) -> Result<NodeId, NetworkError> {
    let id = format!("ipn:{}.0", node.number);
    id.parse().map_err(|_| NetworkError::NodeId(id))
}

/// A time of a run from which on a link is there, and until when; to the end where that is not said.
type TimeRange = (Duration, Option<Duration>);

/// The times in which the nodes of each link are to know that it is there, in the order of the scenario.
fn windows(scenario: &Scenario) -> Result<Vec<Vec<TimeRange>>, NetworkError> {
    let mut all: Vec<Vec<(Duration, Duration)>> = vec![Vec::new(); scenario.links.len()];
    let wire = |number: usize, link: &Link| link.over.map_or(number, |wire| wire.0);
    for contact in &scenario.contacts {
        for (number, link) in scenario.links.iter().enumerate() {
            if link.dial != Dial::Contacts || wire(number, link) != contact.link.0 {
                continue;
            }
            let Some(windows) = all.get_mut(number) else {
                continue;
            };
            let next = |start: &Duration| start.checked_add(contact.every?);
            let starts = std::iter::successors(Some(contact.start), next);
            let starts = starts.take_while(|start| *start < scenario.stop.at);
            // Each is a contact of both directions.
            let room = (CONTACTS_BOUND / 2 + 1).saturating_sub(windows.len());
            windows.extend(
                starts
                    .take(room)
                    .map(|start| (start, start + contact.length)),
            );
        }
    }
    let links = scenario.links.iter().zip(all);
    let known = links.map(|(link, mut windows)| {
        if link.dial == Dial::Always {
            return Ok(vec![(Duration::ZERO, None)]);
        }
        if windows.len() > CONTACTS_BOUND / 2 {
            return Err(NetworkError::Contacts(link.name.clone()));
        }
        windows.sort_unstable();
        let mut merged: Vec<TimeRange> = Vec::new();
        for (start, end) in windows {
            match merged.last_mut() {
                Some((_, Some(last))) if *last >= start => *last = end.max(*last),
                _ => merged.push((start, Some(end))),
            }
        }
        Ok(merged)
    });
    known.collect()
}

/// The contacts of a link that its ends know, in both directions: those in which alone they use it, and over LTP, where its light time changes, those with
/// each light time, so that they wait for answers accordingly.
fn plan(
    contacts: &mut ContactTable,
    link: &Link,
    (here, there): (&NodeId, &NodeId),
    windows: &[TimeRange],
) -> Result<(), NetworkError> {
    let changes = link.delay.shortest() != link.delay.longest();
    let is_planned = changes && matches!(link.protocol, Protocol::Ltp(_));
    if link.dial == Dial::Always && !is_planned {
        return Ok(());
    }
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let at = |time: Duration| DtnTime::from_millis(EPOCH.as_millis().saturating_add(millis(time)));
    let mut begin = Duration::ZERO;
    for (until, delay) in link.delay.ranges() {
        for (start, end) in windows {
            let start = begin.max(*start);
            let ends = [until, *end].into_iter().flatten();
            let end = ends.min().map_or(DtnTime::from_millis(u64::MAX), at);
            for (from, to) in [(here, there), (there, here)] {
                // Of two links between the same nodes the first counts, and a range of less than a millisecond is none.
                let added = contacts.insert(PlannedContact {
                    from: from.clone(),
                    to: to.clone(),
                    start: at(start),
                    end,
                    octets_per_s: link.rate.octets_per_s().clamp(1, CONTACT_RATE_MAX),
                    light_time_ms: millis(delay).saturating_add(1),
                });
                if let Err(ContactError::Full) = added {
                    return Err(NetworkError::Contacts(link.name.clone()));
                }
            }
        }
        begin = until.map_or(begin, |until| until.max(begin));
    }
    Ok(())
}

/// A link as a node has it that is to reach another.
fn link_config(
    link: &Link,
    (node, peer): (&Node, &Node),
    fidelity: Fidelity,
) -> Result<LinkConfig, NetworkError> {
    let backoff_max_ms = u64::try_from(link.retry.as_millis()).unwrap_or(u64::MAX);
    let usual = LinkConfig::usual(link.name.clone());
    let protocol = link.protocol;
    // Contacts are with a node.
    let is_known = link.dial == Dial::Contacts || !protocol.tells_peer();
    let peer = is_known.then(|| node_id(peer)).transpose()?;
    Ok(LinkConfig {
        dial: match link.dial {
            Dial::Always => DialTime::Always,
            Dial::Contacts => DialTime::Contacts,
        },
        policy: SessionPolicy {
            peer,
            keepalive_s: link.keepalive_s,
            bundle_versions: versions(link.speaks),
            ..policy(node, fidelity, link.round_trip())
        },
        backoff_min_ms: usual.backoff_min_ms.min(backoff_max_ms),
        backoff_max_ms,
        protocol,
        ..usual
    })
}

/// Nodes from which something goes to a node.
type Sources = BTreeMap<NodeIndex, BTreeSet<NodeIndex>>;

/// Routes over the fewest links, for the ways that traffic takes, and back for what is reported of it; and those of the scenario.
fn add_routes(scenario: &Scenario, blueprints: &mut [Blueprint]) -> Result<(), NetworkError> {
    let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); scenario.nodes.len()];
    for link in &scenario.links {
        let (first, second) = (link.between.0.0, link.between.1.0);
        for (here, there) in [(first, second), (second, first)] {
            if let Some(list) = neighbours.get_mut(here) {
                list.push(there);
            }
        }
    }
    let (mut sources, mut reported) = (Sources::new(), Sources::new());
    let mut kept = BTreeMap::new();
    for traffic in &scenario.traffic {
        sources.entry(traffic.to).or_default().insert(traffic.from);
        if traffic.reports > 0 {
            reported.entry(traffic.to).or_default().insert(traffic.from);
        }
        if traffic.has_custody() {
            kept.insert((traffic.from, traffic.to), Vec::new());
        }
    }
    let mut reporters = Sources::new();
    add_ways(
        scenario,
        blueprints,
        &neighbours,
        sources,
        |from, to, here| {
            if reported.get(&to).is_some_and(|them| them.contains(&from)) {
                reporters.entry(from).or_default().extend([here, to]);
            }
            if let Some(way) = kept.get_mut(&(from, to)) {
                way.push(here);
            }
        },
    )?;
    for (from, reporters) in &mut reporters {
        reporters.remove(from);
    }
    add_custodians(kept, &mut reporters);
    add_ways(scenario, blueprints, &neighbours, reporters, |_, _, _| ())?;
    let number = |at: NodeIndex| scenario.nodes.get(at.0).map_or(0, |node| node.number);
    for route in &scenario.routes {
        if let Some(blueprint) = blueprints.get_mut(route.node.0) {
            blueprint.add_hop(number(route.to), route.priority, route.via);
        }
    }
    for blueprint in blueprints {
        let hops = blueprint.hops.iter();
        let hops = hops.flat_map(|(to, hops)| hops.iter().map(move |hop| (to, hop)));
        let routes = hops.map(|(to, (priority, via))| Route {
            to: format!("ipn:{to}.*"),
            via: format!("ipn:{}.0", number(*via)),
            priority: *priority,
        });
        blueprint.config.routes = routes.collect();
    }
    Ok(())
}

/// A custodian of a bundle sends signals to the custodian before it, which may be any node on the way.
fn add_custodians(ways: BTreeMap<(NodeIndex, NodeIndex), Vec<NodeIndex>>, sources: &mut Sources) {
    for ((_, to), mut way) in ways {
        way.push(to);
        while let Some(later) = way.pop() {
            for custodian in &way {
                sources.entry(*custodian).or_default().insert(later);
            }
        }
    }
}

/// The routers of each node.
fn add_routing(scenario: &Scenario, blueprints: &mut [Blueprint]) {
    for routing in &scenario.routing {
        if let Some(blueprint) = blueprints.get_mut(routing.node.0) {
            blueprint.config.routing.push(Routing {
                to: routing.pattern(&scenario.nodes),
                router: routing.router,
                copies: routing.copies,
                acknowledgments: routing.acknowledgments,
                drop: routing.drop,
            });
        }
    }
}

/// Routes from sources over the fewest links. A node whose router makes copies needs no way: it keeps its bundles for whom it meets. `pass` is told of each node on the way from one to another, the first included.
fn add_ways(
    scenario: &Scenario,
    blueprints: &mut [Blueprint],
    neighbours: &[Vec<usize>],
    sources: Sources,
    mut pass: impl FnMut(NodeIndex, NodeIndex, NodeIndex),
) -> Result<(), NetworkError> {
    let mut next = vec![None; neighbours.len()];
    let copying = scenario.copying_nodes();
    for (to, sources) in sources {
        let reached = find_ways(to, &sources, neighbours, &mut next);
        let mut routed = BTreeSet::new();
        for from in sources {
            let mut here = from.0;
            while here != to.0 {
                let Some(there) = next.get(here).copied().flatten() else {
                    if copying.contains(&from) {
                        break;
                    }
                    return Err(NetworkError::NoPath {
                        from: name(scenario, from),
                        to: name(scenario, to),
                    });
                };
                pass(from, to, NodeIndex(here));
                if routed.insert(here)
                    && let Some(blueprint) = blueprints.get_mut(here)
                {
                    let number = scenario.nodes.get(to.0).map_or(0, |node| node.number);
                    blueprint.add_hop(number, 0, NodeIndex(there));
                }
                here = there;
            }
        }
        for here in reached {
            if let Some(hop) = next.get_mut(here) {
                *hop = None;
            }
        }
    }
    Ok(())
}

/// From each of some nodes, and those on the way, the neighbour that is nearest to a node; the nodes that were reached come
/// back, because a large network is not to be swept for each.
fn find_ways(
    to: NodeIndex,
    sources: &BTreeSet<NodeIndex>,
    neighbours: &[Vec<usize>],
    next: &mut [Option<usize>],
) -> Vec<usize> {
    let mut reached = vec![to.0];
    let mut looked_at = 0;
    let mut left = sources.len();
    while let Some(&here) = reached.get(looked_at) {
        looked_at += 1;
        for &there in neighbours.get(here).into_iter().flatten() {
            if there != to.0
                && let Some(hop @ None) = next.get_mut(there)
            {
                *hop = Some(here);
                reached.push(there);
                left -= usize::from(sources.contains(&NodeIndex(there)));
            }
        }
        if left == 0 {
            break;
        }
    }
    reached
}

fn name(scenario: &Scenario, node: NodeIndex) -> String {
    let found = scenario.nodes.get(node.0);
    found.map_or_else(String::new, |node| node.name.clone())
}

fn add_applications(scenario: &Scenario, blueprints: &mut [Blueprint]) {
    let endpoint = |node: NodeIndex, service: u64| {
        let number = scenario.nodes.get(node.0).map_or(0, |node| node.number);
        format!("ipn:{number}.{service}")
    };
    let mut receivers = BTreeSet::new();
    for (number, traffic) in (0_u32..).zip(&scenario.traffic) {
        if let Some(blueprint) = blueprints.get_mut(traffic.from.0) {
            let service = sender_service(number);
            let role = Role::Sender { traffic: number };
            let application = Application::new(role, endpoint(traffic.from, service));
            blueprint.applications.push(application);
        }
        // Reports come to the receiver beside the sender.
        let reported = (traffic.reports > 0).then_some(traffic.from);
        for at in [Some(traffic.to), reported].into_iter().flatten() {
            if receivers.insert(at)
                && let Some(blueprint) = blueprints.get_mut(at.0)
            {
                let endpoint = endpoint(at, u64::from(RECEIVER_SERVICE));
                let application = Application::new(Role::Receiver, endpoint);
                blueprint.applications.push(application);
            }
        }
    }
}

/// The service from which traffic of a number is sent: not that at which routers talk.
fn sender_service(number: u32) -> u64 {
    let service = SENDER_SERVICE + u64::from(number);
    service + u64::from(service >= u64::from(ROUTING_SERVICE))
}

/// Whether a bundle from an endpoint is one of the scenario's traffic, and not a router's or a report.
pub(crate) fn is_traffic(source: &EndpointId) -> bool {
    match source {
        EndpointId::Ipn { service, .. } => {
            u64::from(*service) >= SENDER_SERVICE && *service != ROUTING_SERVICE
        }
        _ => false,
    }
}

/// The destination of traffic to a node: the endpoint of its receiver.
#[must_use]
pub fn receiver(number: u32) -> String {
    format!("ipn:{number}.{RECEIVER_SERVICE}")
}
