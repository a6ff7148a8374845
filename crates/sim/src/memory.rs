//! An estimate of the memory that a scenario takes, before it is run.
//!
//! The octets of each part are those that runs of 1,024, 10,000 and 100,000 nodes were seen to take (labs/thousand.toml, labs/ten-thousand.toml,
//! labs/hundred-thousand.toml), and networks of as many nodes without traffic.

use std::time::Duration;

use dhow_scenario::Scenario;
use dhow_scenario::scenario::{Fidelity, Node, Pace, Traffic};

/// Octets of a contact.
const CONTACT_OCTETS: u64 = 100;

/// Copies of the largest payload while an application takes it, which has all of its octets at either fidelity.
const DELIVERED_COPIES: u64 = 3;

/// Memory of the parts of a network, octets each.
struct Weights {
    /// A node with its store, when nothing has been sent yet.
    node: u64,
    /// A link, with the session over it at both ends.
    link: u64,
    /// Traffic between two nodes: both applications, and routes, queues and rooms at the nodes between them.
    traffic: u64,
    /// A bundle for the whole run, whatever becomes of it: its fate, its headers, and its identity at each node that it has left.
    bundle: u64,
    /// Copies of a bundle's payload: at the nodes that it has left, segments of disks are not used again at once.
    copies: u64,
}

const fn weights(fidelity: Fidelity) -> Weights {
    match fidelity {
        Fidelity::Octet => Weights {
            node: 30_000,
            link: 6_000,
            traffic: 30_000,
            bundle: 5_000,
            copies: 4,
        },
        Fidelity::Bundle => Weights {
            node: 14_000,
            link: 6_000,
            traffic: 18_000,
            bundle: 4_000,
            copies: 0,
        },
    }
}

/// The memory that a scenario takes, at most as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Octets of nodes and links.
    pub network_octets: u64,
    /// Bundles that are sent in all.
    pub bundles: u64,
    /// Octets of facts about bundles, and of those that are on disks at one time.
    pub bundle_octets: u64,
}

impl Estimate {
    /// The estimate for a scenario.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let weights = weights(scenario.fidelity);
        let parts = [
            (scenario.nodes.len(), weights.node),
            (scenario.links.len(), weights.link),
            (scenario.contacts.len(), CONTACT_OCTETS),
            (scenario.traffic.len(), weights.traffic),
        ];
        let network_octets = parts.iter().fold(0_u64, |sum, (count, each)| {
            let count = u64::try_from(*count).unwrap_or(u64::MAX);
            sum.saturating_add(count.saturating_mul(*each))
        });
        let quotas = scenario
            .nodes
            .iter()
            .fold(0_u64, |sum, node| sum.saturating_add(node.quota_octets));
        let (mut bundles, mut stored, mut largest) = (0_u64, 0_u64, 0_u64);
        for traffic in &scenario.traffic {
            let (sent, alive) = sent(traffic, scenario.stop.at);
            bundles = bundles.saturating_add(sent);
            // A payload that its node can never store is refused unmade.
            let node = scenario.nodes.get(traffic.from.0);
            let storable = node.map_or(0, Node::largest_payload_octets);
            if traffic.size.min <= storable {
                let most = traffic.size.max.min(storable);
                let octets = traffic.size.min.midpoint(most);
                stored = stored.saturating_add(alive.saturating_mul(octets));
                largest = largest.max(most);
            }
        }
        let stored = stored.min(quotas).saturating_mul(weights.copies);
        let delivered = largest.saturating_mul(DELIVERED_COPIES);
        Self {
            network_octets,
            bundles,
            bundle_octets: (stored.max(delivered))
                .saturating_add(bundles.saturating_mul(weights.bundle)),
        }
    }

    /// All of it, octets.
    #[must_use]
    pub const fn octets(&self) -> u64 {
        self.network_octets.saturating_add(self.bundle_octets)
    }
}

/// The number of bundles that are sent until the end, and the number of them that are of use at one time.
fn sent(traffic: &Traffic, end: Duration) -> (u64, u64) {
    let most = traffic.count.unwrap_or(u64::MAX);
    let (Pace::Constant(every) | Pace::Mean(every)) = traffic.pace else {
        return (most, most);
    };
    let within = |time: Duration| {
        let count = time.as_nanos() / every.as_nanos().max(1);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        count.saturating_add(1).saturating_mul(traffic.burst)
    };
    let sent = most.min(within(end.saturating_sub(traffic.start)));
    (sent, sent.min(within(traffic.lifetime)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn bundles_count_as_long_as_they_are_of_use_and_fit_into_stores() {
        let estimate = |quota: &str, traffic: &str| {
            let text = format!(
                "[[line]]\nname = \"n\"\ncount = 2\nquota = \"{quota}\"\nrate = \"1Mbit\"\n\
                 [[traffic]]\nfrom = \"n1\"\nto = \"n2\"\nsize = \"1kB..3kB\"\n{traffic}\n[stop]\nat = \"10h\"\n"
            );
            let scenario = Scenario::parse(Path::new("s.toml"), &text).expect("it is one");
            let estimate = Estimate::of(&scenario);
            let weights = weights(Fidelity::Octet);
            let known = estimate.bundles * weights.bundle;
            (
                estimate.bundles,
                (estimate.bundle_octets - known) / weights.copies,
            )
        };
        for (quota, traffic, expected) in [
            ("1GB", "count = 50", (50, 100_000)),
            ("1GB", "every = \"1s\"", (36_001, 72_002_000)),
            (
                "1GB",
                "every = \"1s\"\nlifetime = \"1h\"",
                (36_001, 7_202_000),
            ),
            (
                "1GB",
                "mean = \"1s\"\ncount = 10\nlifetime = \"1h\"",
                (10, 20_000),
            ),
            ("1MB", "every = \"1s\"", (36_001, 2_000_000)),
            // As many octets as the store takes, and one more: the latter payloads are never made.
            ("1kB", "count = 5", (5, 2_000)),
            ("999B", "count = 5", (5, 0)),
        ] {
            assert_eq!(estimate(quota, traffic), expected, "{quota} {traffic}");
        }
    }

    #[test]
    fn what_is_delivered_has_its_octets_at_both_fidelities() {
        for (fidelity, copies) in [("octet", 4), ("bundle", DELIVERED_COPIES)] {
            let text = format!(
                "fidelity = \"{fidelity}\"\n[[line]]\nname = \"n\"\ncount = 2\nquota = \"99TB\"\nrate = \"1Mbit\"\n\
                 [[traffic]]\nfrom = \"n1\"\nto = \"n2\"\nsize = \"20TB\"\ncount = 1\n[stop]\nat = \"3s\"\n"
            );
            let scenario = Scenario::parse(Path::new("s.toml"), &text).expect("it is one");
            let octets = Estimate::of(&scenario).bundle_octets / 1_000_000;
            assert_eq!(octets, copies * 20_000_000, "{fidelity}");
        }
    }
}
