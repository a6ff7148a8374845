//! A network at this moment, node by node and link by link, for those who watch a run.

use super::run::Run;

/// The bundles that a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeGlance {
    /// Whether the node runs.
    pub is_up: bool,
    /// Bundles in its store; 0 while it is down.
    pub bundles: u64,
    /// Octets that count for its quota.
    pub octets: u64,
}

/// A link, and the traffic that it has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkGlance {
    /// Whether the link is there, always or for a contact.
    pub is_up: bool,
    /// Octets that left at the dialling and at the accepting side, framing and headers of packets included.
    pub octets: (u64, u64),
}

/// All nodes and links, each in the order of the scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// The nodes.
    pub nodes: Vec<NodeGlance>,
    /// The links.
    pub links: Vec<LinkGlance>,
}

impl Run {
    /// The network at this moment. It changes nothing of the run.
    #[must_use]
    pub fn glance(&self) -> Glance {
        let machines = self.world.machines().iter();
        let nodes = machines.map(|machine| {
            let node = machine.running.as_ref().map(|running| &running.node);
            NodeGlance {
                is_up: node.is_some(),
                bundles: node.map_or(0, |node| node.taken_bundles()),
                octets: node.map_or(0, |node| node.taken_octets()),
            }
        });
        let links = self.world.roads().iter().map(|link| LinkGlance {
            is_up: link.contacts > 0,
            octets: link.carried(self.world.now()),
        });
        Glance {
            nodes: nodes.collect(),
            links: links.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dhow_scenario::Scenario;

    use super::*;

    const TEXT: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"wire\"\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit\"\n\
        [[contact]]\nlink = \"wire\"\nstart = \"5s\"\nfor = \"2s\"\n[[traffic]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1kB\"\ncount = 4\n[stop]\nat = \"20s\"\n";

    #[test]
    fn a_glance_tells_of_what_waits_and_passes_and_changes_nothing() {
        let scenario = Scenario::parse(Path::new("s.toml"), TEXT).unwrap();
        let run = |looks: bool| {
            let mut run = Run::new(&scenario, 1).unwrap();
            let mut seen = Vec::new();
            while run.advance(1) {
                if looks {
                    seen.push((run.progress().time.as_secs(), run.glance()));
                }
            }
            (seen, run.finish())
        };
        let (seen, outcome) = run(true);
        let at = |second: u64| &seen.iter().rfind(|(time, _)| *time <= second).unwrap().1;
        let (before, after) = (at(4), at(19));
        assert_eq!(
            before.nodes.iter().map(|it| it.bundles).collect::<Vec<_>>(),
            [4, 0]
        );
        assert!(before.nodes.iter().all(|it| it.is_up) && !before.links.iter().any(|it| it.is_up));
        assert!(
            seen.iter()
                .any(|(_, it)| it.links.iter().any(|link| link.is_up))
        );
        assert_eq!(
            after.nodes.iter().map(|it| it.bundles).collect::<Vec<_>>(),
            [0, 0]
        );
        assert!(after.links.iter().all(|it| it.octets.0 > 4_000));
        assert_eq!(outcome.trace_hash, run(false).1.trace_hash);
    }
}
