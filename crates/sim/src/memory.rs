//! How much memory a scenario takes, before it is run.
//!
//! What each part takes is what runs of 1,024 and 10,000 nodes were seen to take (labs/thousand.toml, labs/ten-thousand.toml).

use std::time::Duration;

use dhow_scenario::Scenario;
use dhow_scenario::scenario::{Pace, Traffic};

/// Octets of a node with its store and disk, when nothing has been sent yet.
const NODE_OCTETS: u64 = 60_000;

/// Octets of a link, with the session over it at both ends.
const LINK_OCTETS: u64 = 35_000;

/// Octets of a contact.
const CONTACT_OCTETS: u64 = 100;

/// Octets of traffic between two nodes: both applications, and routes and the first segments of logs at the nodes between them.
const TRAFFIC_OCTETS: u64 = 40_000;

/// Octets that a bundle takes for the whole run, whatever becomes of it: its fate, and its identity at each node that it has left.
const BUNDLE_OCTETS: u64 = 5_000;

/// Copies of a bundle's octets that disks hold: at the nodes that it has left, segments are not used again at once.
const COPIES: u64 = 4;

/// What a scenario takes, at most as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Octets of nodes and links.
    pub network_octets: u64,
    /// Bundles that are sent in all.
    pub bundles: u64,
    /// Octets of what is known of bundles, and of those that are on disks at one time.
    pub bundle_octets: u64,
}

impl Estimate {
    /// What a scenario takes.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let parts = [
            (scenario.nodes.len(), NODE_OCTETS),
            (scenario.links.len(), LINK_OCTETS),
            (scenario.contacts.len(), CONTACT_OCTETS),
            (scenario.traffic.len(), TRAFFIC_OCTETS),
        ];
        let network_octets = parts.iter().fold(0_u64, |sum, (count, each)| {
            let count = u64::try_from(*count).unwrap_or(u64::MAX);
            sum.saturating_add(count.saturating_mul(*each))
        });
        let quotas = scenario
            .nodes
            .iter()
            .fold(0_u64, |sum, node| sum.saturating_add(node.quota_octets));
        let (mut bundles, mut stored) = (0_u64, 0_u64);
        for traffic in &scenario.traffic {
            let (sent, alive) = sent(traffic, scenario.stop.at);
            let octets = traffic.size.min.midpoint(traffic.size.max);
            bundles = bundles.saturating_add(sent);
            stored = stored.saturating_add(alive.saturating_mul(octets));
        }
        let stored = stored.min(quotas).saturating_mul(COPIES);
        Self {
            network_octets,
            bundles,
            bundle_octets: stored.saturating_add(bundles.saturating_mul(BUNDLE_OCTETS)),
        }
    }

    /// All of it, octets.
    #[must_use]
    pub const fn octets(&self) -> u64 {
        self.network_octets.saturating_add(self.bundle_octets)
    }
}

/// How many bundles are sent until the end, and how many of them are of use at one time.
fn sent(traffic: &Traffic, end: Duration) -> (u64, u64) {
    let most = traffic.count.unwrap_or(u64::MAX);
    let (Pace::Constant(every) | Pace::Mean(every)) = traffic.pace else {
        return (most, most);
    };
    let within = |time: Duration| {
        let count = time.as_nanos() / every.as_nanos().max(1);
        u64::try_from(count).unwrap_or(u64::MAX).saturating_add(1)
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
            let known = estimate.bundles * BUNDLE_OCTETS;
            (estimate.bundles, (estimate.bundle_octets - known) / COPIES)
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
        ] {
            assert_eq!(estimate(quota, traffic), expected, "{quota} {traffic}");
        }
    }
}
