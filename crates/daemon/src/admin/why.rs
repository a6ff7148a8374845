//! Why bundles wait, as JSON.

use dhow_bundle::{EndpointId, Now};
use dhow_link::stream::RefuseReason;
use dhow_node::Node;
use dhow_node::why::{Bar, Cause, Way, Why};
use serde::Serialize;
use serde_json::{Value, json};

use super::bundle_name;
use super::json::{BundleStatus, LinkStatus};

/// The subject of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// Bundles for an endpoint.
    Endpoint(EndpointId),
    /// A bundle.
    Bundle(dhow_bundle::BundleId),
}

impl Subject {
    /// The subject that a text names: `SOURCE/TIME/SEQUENCE` or an endpoint ID; `None` when it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bundle = bundle_name::parse(text).map(Self::Bundle);
        bundle.or_else(|| text.parse().ok().map(Self::Endpoint))
    }

    /// The node's answer; `None` for a bundle that is not here.
    #[must_use]
    pub fn ask(&self, node: &Node, now: Now) -> Option<Value> {
        let why = match self {
            Self::Endpoint(endpoint) => Some(node.why_endpoint(now, endpoint)),
            Self::Bundle(id) => node.why_bundle(now, id),
        };
        why.map(|why| answer(why, now))
    }
}

fn answer(why: Why, now: Now) -> Value {
    let present = why.present;
    let causes = why.causes.into_iter().map(|cause| told(cause, now));
    json!({
        "destination": why.destination.to_string(),
        "bundle": why.bundle.map(BundleStatus::from),
        "waiting": present.waiting,
        "in_flight": present.in_flight,
        "resting": present.resting,
        "retry_in_ms": present.retry_in_ms,
        "fragments": present.fragments,
        "sent": present.sent,
        "damaged": present.damaged,
        "router": why.router,
        "causes": causes.collect::<Vec<_>>(),
    })
}

fn told(cause: Cause, now: Now) -> Value {
    match cause {
        Cause::NoRoute => json!({ "cause": "no_route" }),
        Cause::NoNeighbour => json!({ "cause": "no_neighbour" }),
        Cause::NotChosen(neighbours) => json!({ "cause": "not_chosen", "neighbours": neighbours }),
        Cause::Undecided => json!({ "cause": "awaiting_router" }),
        Cause::Way(way) => json!({ "cause": "next_hop", "next_hop": NextHop::of(way, now) }),
        Cause::NotRegistered => json!({ "cause": "not_registered" }),
        Cause::NoSubscriber => json!({ "cause": "no_subscriber" }),
        Cause::Delivering => json!({ "cause": "delivering" }),
        Cause::Sending(to) => {
            let to: Vec<String> = to.iter().map(ToString::to_string).collect();
            json!({ "cause": "sending", "to": to })
        }
        Cause::Resting(ms) => json!({ "cause": "resting", "retry_in_ms": ms }),
        Cause::Refused {
            by,
            reason,
            cancelled,
            ago_ms,
        } => {
            let (by, reason) = (by.to_string(), named(reason));
            json!({ "cause": "refused", "by": by, "reason": reason, "cancelled": cancelled, "ago_ms": ago_ms })
        }
        Cause::Sent => json!({ "cause": "sent" }),
        Cause::AwaitingSignal => json!({ "cause": "awaiting_signal" }),
        Cause::Fragments {
            octets,
            total_octets,
        } => json!({ "cause": "reassembling", "octets": octets, "total_octets": total_octets }),
        Cause::Damaged => json!({ "cause": "damaged" }),
    }
}

/// A next hop.
#[derive(Serialize)]
struct NextHop {
    name: String,
    sessions: usize,
    link: Option<LinkStatus>,
    full_for_ms: Option<u64>,
    contact_ends_in_ms: Option<u64>,
    contact_begins_in_ms: Option<u64>,
    contact_ended_ago_ms: Option<u64>,
    light_time_ms: u64,
    bars: Vec<Value>,
}

impl NextHop {
    fn of(way: Way, now: Now) -> Self {
        Self {
            name: way.next_hop,
            sessions: way.sessions,
            link: way.link.map(|link| LinkStatus::of(link, now)),
            full_for_ms: way.full_for_ms,
            contact_ends_in_ms: way.contact_ends_in_ms,
            contact_begins_in_ms: way.contact_begins_in_ms,
            contact_ended_ago_ms: way.contact_ended_ago_ms,
            light_time_ms: way.light_time_ms,
            bars: way.bars.into_iter().map(barred).collect(),
        }
    }
}

/// The name of a reason (RFC 9174 5.2.4, table 6).
const fn named(reason: RefuseReason) -> &'static str {
    match reason {
        RefuseReason::Unknown => "unknown",
        RefuseReason::Completed => "completed",
        RefuseReason::NoResources => "no_resources",
        RefuseReason::Retransmit => "retransmit",
        RefuseReason::NotAcceptable => "not_acceptable",
        RefuseReason::ExtensionFailure => "extension_failure",
        RefuseReason::SessionTerminating => "session_terminating",
        RefuseReason::SourceFull => "source_full",
        RefuseReason::Other(_) => "other",
    }
}

fn barred(bar: Bar) -> Value {
    match bar {
        Bar::CameFromThere => json!({ "bar": "came_from_there" }),
        Bar::TooLarge {
            octets,
            transfer_mru,
        } => {
            json!({ "bar": "too_large", "octets": octets, "transfer_mru_octets": transfer_mru })
        }
        Bar::OtherVersion => json!({ "bar": "other_version" }),
        Bar::HasLeft => json!({ "bar": "has_left" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_and_endpoints_are_told_apart() {
        let bundle = |text| matches!(Subject::parse(text), Some(Subject::Bundle(_)));
        let endpoint = |text| matches!(Subject::parse(text), Some(Subject::Endpoint(_)));
        assert!(bundle("ipn:1.5/812345678901/3") && bundle("dtn://alpha/mail/0/7@100+50"));
        assert!(endpoint("ipn:1.5") && endpoint("dtn://alpha/mail"));
        assert_eq!(Subject::parse("alpha"), None);
    }
}
