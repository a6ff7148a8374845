//! The listeners of nodes: of each protocol, and of each version of the Bundle Protocol that a link may be held to.

use dhow_bundle::Version;
use dhow_node::config::{
    BundleVersions, Framing, ListenerConfig, ListenerId, Protocol, SessionPolicy,
};
use dhow_scenario::Scenario;

/// The protocols of a node's listeners beside TCPCL, where the scenario has any: nobody there says which it speaks.
const FRAMINGS: [Framing; 4] = Framing::ALL;

/// The versions of which a listener of TCPCL sends one alone, where the scenario has links that are held to one.
const VERSIONS: [Version; 2] = [Version::V6, Version::V7];

/// The versions that are sent over a link.
pub(crate) const fn versions(speaks: Option<Version>) -> BundleVersions {
    match speaks {
        None => BundleVersions::Both,
        Some(Version::V6) => BundleVersions::Six,
        Some(Version::V7) => BundleVersions::Seven,
    }
}

/// The listeners of a node: that of TCPCL, behind it those of connections in one direction, and behind those the ones of TCPCL that send one
/// version alone.
pub(crate) fn listeners(scenario: &Scenario, usual: &SessionPolicy) -> Vec<ListenerConfig> {
    let listener = |protocol, bundle_versions| ListenerConfig {
        policy: SessionPolicy {
            // RFC 9174 4.7: the smaller interval holds, which is that of the link.
            keepalive_s: u16::MAX,
            bundle_versions,
            ..usual.clone()
        },
        protocol,
    };
    let both = BundleVersions::Both;
    let is_held = scenario.links.iter().any(|it| it.speaks.is_some());
    let is_one_way = is_held || scenario.links.iter().any(|it| it.protocol.is_one_way());
    let framings = FRAMINGS.into_iter().filter(|_| is_one_way);
    let one_way = framings.map(|it| listener(Protocol::framed(it), both));
    let held = VERSIONS.into_iter().filter(|_| is_held);
    let held = held.map(|it| listener(Protocol::default(), versions(Some(it))));
    core::iter::once(listener(Protocol::default(), both))
        .chain(one_way)
        .chain(held)
        .collect()
}

/// The listener of a node that answers calls over a link of a protocol, which may be held to one version.
#[must_use]
pub(crate) fn listener_of(protocol: Protocol, speaks: Option<Version>) -> ListenerId {
    let framing = match protocol {
        Protocol::Stcp(policy) => FRAMINGS.iter().position(|it| *it == policy.framing),
        _ => None,
    };
    let held = VERSIONS.iter().position(|it| Some(*it) == speaks);
    let place = match (framing, held) {
        (Some(framing), _) => 1 + framing,
        (None, Some(held)) => 1 + FRAMINGS.len() + held,
        (None, None) => 0,
    };
    ListenerId(u32::try_from(place).unwrap_or(u32::MAX))
}
