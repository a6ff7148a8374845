//! Neighbours as an operator sees them: those of which beacons told, and the peers of configured and added links.

use std::fmt;

use dhow_bundle::{NodeId, Now};
use dhow_node::Node;
use dhow_node::discovery::refused::{BeaconCounts, Refused};
use dhow_node::view::{LinkOrigin, LinkView, NeighbourView, SessionView};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use serde::Serialize;

/// A neighbour.
#[derive(Clone, Debug, Serialize)]
pub struct NeighbourStatus {
    node_id: String,
    origin: &'static str,
    address: Option<String>,
    protocol: Option<&'static str>,
    format: Option<&'static str>,
    heard_ago_ms: Option<u64>,
    known_for_ms: Option<u64>,
    period_ms: Option<u64>,
    beacons: Option<u64>,
    link: Option<String>,
    sessions: usize,
    verified: bool,
    last_error: Option<String>,
}

/// All neighbours: those that were found, then those of other links that have had a session.
#[must_use]
pub fn neighbours(node: &Node, now: Now) -> Vec<NeighbourStatus> {
    let found = node.neighbours_found();
    let sessions = node.sessions();
    let links = node.links();
    let others = links.iter().filter(|link| link.origin != LinkOrigin::Found);
    let others = others.filter_map(|link| Some((link, link.peer.as_ref()?)));
    let others = others.map(|(link, peer)| NeighbourStatus::of_link(link, peer, &sessions));
    let found = found.iter().map(|it| NeighbourStatus::found(it, now));
    found.chain(others).collect()
}

impl NeighbourStatus {
    fn found(view: &NeighbourView, now: Now) -> Self {
        let ago = |at| u64::try_from(now.monotonic.since(at).as_millis()).unwrap_or(u64::MAX);
        Self {
            node_id: view.node.to_string(),
            origin: "found",
            address: (!view.address.is_empty()).then(|| view.address.clone()),
            protocol: view.protocol.map(|it| it.name()),
            format: Some(view.format.name()),
            heard_ago_ms: Some(ago(view.heard)),
            known_for_ms: Some(ago(view.since)),
            period_ms: Some(view.period_ms),
            beacons: Some(view.beacons),
            link: view.link.clone(),
            sessions: view.sessions,
            verified: view.is_secured,
            last_error: view.last_error.clone(),
        }
    }

    fn of_link(link: &LinkView, peer: &NodeId, sessions: &[SessionView]) -> Self {
        let own = sessions.iter().filter(|it| it.peer == *peer);
        Self {
            node_id: peer.to_string(),
            origin: match link.origin {
                LinkOrigin::Added => "added",
                LinkOrigin::Configured | LinkOrigin::Found => "configured",
            },
            address: None,
            protocol: own.clone().next().map(|it| it.protocol.name()),
            format: None,
            heard_ago_ms: None,
            known_for_ms: None,
            period_ms: None,
            beacons: None,
            link: Some(link.name.clone()),
            sessions: own.clone().count(),
            verified: own.clone().any(|it| it.secured),
            last_error: link.last_error.clone(),
        }
    }
}

/// Writes the counters of beacons, those refused by reason.
pub(super) fn encode_beacons(
    encoder: &mut DescriptorEncoder<'_>,
    counts: &BeaconCounts,
    (sent, unsent): (u64, u64),
) -> Result<(), fmt::Error> {
    for (name, help, value) in [
        (
            "beacons_sent",
            "Beacons that left, one for each interface and format",
            sent,
        ),
        (
            "beacons_unsent",
            "Beacons that the system refused to send",
            unsent,
        ),
        (
            "beacons_heard",
            "Datagrams that came where beacons are heard",
            counts.heard,
        ),
        (
            "neighbours_found",
            "Neighbours of which a beacon told",
            counts.found,
        ),
        (
            "neighbours_lost",
            "Neighbours of which no beacon told any more, or that said that they go",
            counts.lost,
        ),
    ] {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)?;
    }
    let mut family = encoder.encode_descriptor(
        "beacons_refused",
        "Beacons that were of no use, by why",
        None,
        MetricType::Counter,
    )?;
    for reason in Refused::ALL {
        let labels = [("reason", reason.name())];
        let metric = family.encode_family(&labels)?;
        ConstCounter::new(counts.refused(reason)).encode(metric)?;
    }
    Ok(())
}
