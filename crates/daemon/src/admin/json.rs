//! The node's state for an operator, as JSON; field names are stable and carry their unit.

use std::collections::BTreeMap;

use dhow_bundle::{Instant, Now};
use dhow_node::Node;
use dhow_node::api::seam::DeliveryFailureAction;
use dhow_node::config::Enabled;
use dhow_node::contacts::{Phase, PlannedContact};
use dhow_node::view::{
    ArrivalView, BundleView, Counters, DatagramCounts, DestinationView, LinkOrigin, LinkState,
    LinkView, ProgramView, RegistrationView, RouteView, SessionView,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::routes::Facts;
use crate::counts::DriverCounts;

/// The node as a whole.
#[must_use]
pub fn node(node: &Node, now: Now, drivers: DriverCounts, facts: &Facts) -> Value {
    let (bundles, octets) = node.stored();
    let counters = node.counters();
    json!({
        "node_id": node.node_ids().first().map(ToString::to_string),
        "node_ids": node.node_ids().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": millis(now.monotonic.since(Instant::START)),
        "dtn_time_ms": now.dtn.is_known().then_some(now.dtn.as_millis()),
        "listen": facts.live.read(|facts| facts.listen.clone()),
        "api": facts.api,
        "api_tcp": facts.api_tcp,
        "admin_tcp": facts.admin_tcp,
        "http": facts.http,
        "certificate_left_s": facts.certificate_left(),
        "sessions": node.sessions().len(),
        "routers": node.programs().iter().map(program).collect::<Map<_, _>>(),
        "store": {
            "path": facts.store_path,
            "durability": facts.durability,
            "bundles": bundles,
            "octets": octets,
            "damaged": node.damaged(),
            "index_octets": node.memory_octets(),
            "quota_bundles": facts.quota_bundles,
            "quota_octets": facts.quota_octets,
            "effective_quota_octets": node.quota_octets(),
        },
        "counters": counts(&counters),
        "connections": {
            "accepted": drivers.accepted,
            "clients": drivers.clients,
            "clients_cut": drivers.clients_cut,
            "clients_refused": drivers.clients_refused,
            "held_back": drivers.held_back,
            "held_back_by_address": drivers.held_back_by_address,
            "dialled": drivers.dialled,
            "dial_failures": drivers.dial_failures,
            "insecure": drivers.insecure,
        },
        "datagrams": {
            "received": drivers.datagrams_in,
            "sent": drivers.datagrams_out,
            "faults": counters.datagram_faults,
            "ignored": drivers.datagrams_ignored,
            "overflowed": drivers.datagrams_overflowed,
            "refused": drivers.datagrams_refused,
            "strangers": drivers.strangers,
            "strangers_cut": drivers.strangers_cut,
            "strangers_known": node.strangers().len(),
        },
    })
}

/// The counts of a node since its start.
fn counts(counters: &Counters) -> Value {
    json!({
        "created": counters.created,
        "received": counters.received,
        "received_octets": counters.received_octets,
        "duplicates": counters.duplicates,
        "forwarded": counters.forwarded,
        "forwarded_octets": counters.forwarded_octets,
        "delivered": counters.delivered,
        "expired": counters.expired,
        "deleted": counters.deleted,
        "refused": counters.refused,
        "limited_rate": counters.limited_rate,
        "limited_share": counters.limited_share,
        "limited_source": counters.limited_source,
        "refused_by_peers": counters.refused_by_peers,
        "untranslatable": counters.untranslatable,
        "reports": counters.reports,
        "reports_collected": counters.reports_collected,
        "reports_suppressed": counters.reports_suppressed,
        "answers_withheld": counters.answers_withheld,
        "adverts_sent": counters.adverts_sent,
        "adverts_taken": counters.adverts_taken,
        "adverts_refused": counters.adverts_refused,
        "purged": counters.purged,
        "dropped": counters.dropped,
        "programs_ended": counters.programs_ended,
        "fallbacks": counters.fallbacks,
        "signals_sent": counters.signals_sent,
        "signals_ignored": counters.signals_ignored,
        "records_unread": counters.records_unread,
        "quarantined": counters.quarantined,
        "transitions_refused": counters.transitions_refused,
        "passed": counters.passed,
        "kept": counters.kept,
        "resumed": counters.resumed,
        "fragments": counters.fragments,
        "reassembled": counters.reassembled,
    })
}

/// A router that is a program of its own.
fn program(view: &ProgramView) -> (String, Value) {
    let value = json!({
        "to": view.patterns,
        "connected": view.is_there,
        "sessions": view.sessions,
        "undecided": view.undecided,
        "unanswered": view.unanswered,
        "questions": view.questions,
        "decisions": view.decisions,
        "stale": view.stale,
    });
    (view.name.clone(), value)
}

/// A configured link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStatus {
    name: String,
    origin: &'static str,
    enabled: bool,
    state: &'static str,
    retry_in_ms: Option<u64>,
    peer: Option<String>,
    bundle_versions: Vec<u8>,
    sessions: usize,
    heard_ago_ms: Option<u64>,
    failures: u32,
    last_error: Option<String>,
}

impl LinkStatus {
    /// The status of a link.
    #[must_use]
    pub fn of(view: LinkView, now: Now) -> Self {
        let (state, retry_in_ms) = match view.state {
            LinkState::Down => ("down", None),
            LinkState::Dialling => ("dialling", None),
            LinkState::Waiting(at) => ("waiting", Some(millis(at.since(now.monotonic)))),
            LinkState::Absent => ("absent", None),
            LinkState::Up => ("up", None),
        };
        Self {
            name: view.name,
            origin: match view.origin {
                LinkOrigin::Configured => "configured",
                LinkOrigin::Added => "added",
                LinkOrigin::Found => "found",
            },
            enabled: view.enabled == Enabled::Yes,
            state,
            retry_in_ms,
            peer: view.peer.map(|peer| peer.to_string()),
            bundle_versions: view.bundle_versions.numbers().collect(),
            sessions: view.sessions,
            heard_ago_ms: view.heard.map(|at| millis(now.monotonic.since(at))),
            failures: view.failures,
            last_error: view.last_error,
        }
    }
}

/// A link with what waits for it.
#[derive(Clone, Debug, Serialize)]
pub struct ListedLink {
    #[serde(flatten)]
    status: LinkStatus,
    queued: u64,
}

impl ListedLink {
    /// A link of a view; `waiting` has bundles by the name of their next hop, a link or a node.
    #[must_use]
    pub fn of(view: LinkView, now: Now, waiting: &BTreeMap<String, u64>) -> Self {
        let status = LinkStatus::of(view, now);
        let named = |name: &String| waiting.get(name).copied().unwrap_or(0);
        let to_peer = status.peer.as_ref().map_or(0, named);
        Self {
            queued: named(&status.name).saturating_add(to_peer),
            status,
        }
    }
}

/// An established session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionStatus {
    session: u64,
    link: Option<String>,
    peer: String,
    protocol: &'static str,
    bundle_versions: Vec<u8>,
    secured: bool,
    age_ms: u64,
    heard_ago_ms: Option<u64>,
    bundles_sent: u64,
    octets_sent: u64,
    bundles_received: u64,
    octets_received: u64,
    limited: u64,
    in_flight: usize,
    arriving: Option<ArrivalStatus>,
    datagrams: Option<DatagramsStatus>,
}

/// Datagrams of a session over UDP.
#[derive(Clone, Debug, Serialize)]
pub struct DatagramsStatus {
    sent: u64,
    sent_octets: u64,
    received: u64,
    received_octets: u64,
    faults: u64,
}

impl From<DatagramCounts> for DatagramsStatus {
    fn from(counts: DatagramCounts) -> Self {
        Self {
            sent: counts.sent,
            sent_octets: counts.sent_octets,
            received: counts.received,
            received_octets: counts.received_octets,
            faults: counts.faults,
        }
    }
}

/// A bundle of which the beginning has come.
#[derive(Clone, Debug, Serialize)]
pub struct ArrivalStatus {
    id: String,
    octets: u64,
    received_octets: u64,
}

impl From<ArrivalView> for ArrivalStatus {
    fn from(view: ArrivalView) -> Self {
        Self {
            id: view.id.to_string(),
            octets: view.octets,
            received_octets: view.received_octets,
        }
    }
}

impl SessionStatus {
    /// The status of a session.
    #[must_use]
    pub fn of(view: SessionView, now: Now) -> Self {
        Self {
            session: view.stream.0,
            link: view.link,
            peer: view.peer.to_string(),
            protocol: view.protocol.name(),
            bundle_versions: view.bundle_versions.numbers().collect(),
            secured: view.secured,
            age_ms: millis(now.monotonic.since(view.since)),
            heard_ago_ms: view.heard.map(|at| millis(now.monotonic.since(at))),
            bundles_sent: view.bundles_sent,
            octets_sent: view.octets_sent,
            bundles_received: view.bundles_received,
            octets_received: view.octets_received,
            limited: view.limited,
            in_flight: view.in_flight,
            arriving: view.arriving.map(ArrivalStatus::from),
            datagrams: view.datagrams.map(DatagramsStatus::from),
        }
    }
}

/// A route.
#[derive(Clone, Debug, Serialize)]
pub struct RouteStatus {
    to: String,
    via: String,
    priority: i32,
    implicit: bool,
    usable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    router: Option<String>,
}

impl From<RouteView> for RouteStatus {
    fn from(view: RouteView) -> Self {
        Self {
            to: view.route.to,
            via: view.route.via,
            priority: view.route.priority,
            implicit: view.implicit,
            usable: view.usable,
            router: view.router,
        }
    }
}

/// A contact that is planned.
#[derive(Clone, Debug, Serialize)]
pub struct ContactStatus {
    from: String,
    to: String,
    start_dtn_ms: u64,
    end_dtn_ms: u64,
    octets_per_s: u64,
    light_time_ms: u64,
    state: &'static str,
}

impl From<(PlannedContact, Phase)> for ContactStatus {
    fn from((contact, phase): (PlannedContact, Phase)) -> Self {
        Self {
            from: contact.from.to_string(),
            to: contact.to.to_string(),
            start_dtn_ms: contact.start.as_millis(),
            end_dtn_ms: contact.end.as_millis(),
            octets_per_s: contact.octets_per_s,
            light_time_ms: contact.light_time_ms,
            state: match phase {
                Phase::Over => "over",
                Phase::Now => "now",
                Phase::Next => "next",
                Phase::Later => "later",
            },
        }
    }
}

/// A registration.
#[derive(Clone, Debug, Serialize)]
pub struct RegistrationStatus {
    endpoint: String,
    subscribers: usize,
    failure_action: &'static str,
    waiting: usize,
}

impl From<RegistrationView> for RegistrationStatus {
    fn from(view: RegistrationView) -> Self {
        Self {
            endpoint: view.endpoint.to_string(),
            subscribers: view.subscribers,
            failure_action: match view.failure_action {
                DeliveryFailureAction::Defer => "defer",
                DeliveryFailureAction::Abandon => "abandon",
            },
            waiting: view.waiting,
        }
    }
}

/// The stored bundles of a destination.
#[derive(Clone, Debug, Serialize)]
pub struct DestinationStatus {
    destination: String,
    bundles: u64,
    octets: u64,
    oldest_ms: u64,
    next_expiry_ms: Option<u64>,
    next_hop: Option<String>,
    routed: bool,
    local: bool,
}

impl From<DestinationView> for DestinationStatus {
    fn from(view: DestinationView) -> Self {
        Self {
            destination: view.destination.to_string(),
            bundles: view.bundles,
            octets: view.octets,
            oldest_ms: view.oldest_ms,
            next_expiry_ms: view.next_expiry_ms,
            next_hop: view.next_hop,
            routed: view.is_routed,
            local: view.local,
        }
    }
}

/// A stored bundle.
#[derive(Clone, Debug, Serialize)]
pub struct BundleStatus {
    id: String,
    version: u8,
    custodian: bool,
    priority: String,
    destination: String,
    octets: u64,
    payload_octets: u64,
    expires_in_ms: u64,
    received_dtn_ms: Option<u64>,
    previous: Option<String>,
    in_flight: bool,
    state: String,
}

impl From<BundleView> for BundleStatus {
    fn from(view: BundleView) -> Self {
        Self {
            id: view.id.to_string(),
            version: view.version.number(),
            custodian: view.is_custodian,
            priority: view.priority.to_string(),
            destination: view.destination.to_string(),
            octets: view.octets,
            payload_octets: view.payload_octets,
            expires_in_ms: view.expires_in_ms,
            received_dtn_ms: view
                .received
                .is_known()
                .then_some(view.received.as_millis()),
            previous: view.previous.map(|previous| previous.to_string()),
            in_flight: view.in_flight,
            state: view.state.to_string(),
        }
    }
}

fn millis(duration: core::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
