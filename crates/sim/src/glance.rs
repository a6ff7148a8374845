//! A network at this moment, node by node and link by link, for those who watch a run.

use super::run::Run;

/// What a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeGlance {
    /// It runs.
    pub is_up: bool,
    /// Bundles in its store; 0 while it is down.
    pub bundles: u64,
    /// Octets that count for its quota.
    pub octets: u64,
}

/// What a link is and has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkGlance {
    /// It is there, always or for a contact.
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
