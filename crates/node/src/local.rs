//! This node's own endpoints, and what the node itself does at them.

use alloc::vec::Vec;

use dhow_bundle::{EndpointId, NodeId};

use crate::config::Config;

/// Service numbers at which nodes answer by themselves: echo here and elsewhere (7, ION's 2047), perf (5201) and routing.
const USUAL_SERVICES: [u32; 4] = [7, 2_047, 5_201, ROUTING_SERVICE];

/// Demuxes at which they do.
const USUAL_NAMES: [&str; 3] = ["echo", "perf", ROUTING_NAME];

/// The service at which routers of neighbours hear of each other (docs/adverts.md).
pub const ROUTING_SERVICE: u32 = 5_202;
const ROUTING_NAME: &str = "routing";

/// The group that IBR-DTN's routers notify, without its scheme.
const NOTIFIED_GROUP: &str = "//broadcast.dtn/routing";

/// The relation of a destination to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locality {
    /// An endpoint of another node.
    Remote,
    /// The node's administrative endpoint.
    Administrative,
    /// The node's echo service.
    Echo,
    /// The node's perf service.
    Perf,
    /// The node's routing service.
    Routing,
    /// An endpoint of this node for applications.
    Application,
}

/// The node's own identity.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    node_ids: Vec<NodeId>,
    echo: Vec<EndpointId>,
    perf: Vec<EndpointId>,
    /// Their numbers, those that are configured.
    numbers: [Option<u32>; 2],
}

impl Local {
    pub(crate) fn new(config: &Config) -> Self {
        let node_ids = &config.node_ids;
        Self {
            node_ids: node_ids.clone(),
            echo: services(node_ids, config.echo_service, "echo"),
            perf: services(node_ids, config.perf_service, "perf"),
            numbers: [config.echo_service, config.perf_service],
        }
    }

    /// A node that has no endpoints.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self {
            node_ids: Vec::new(),
            echo: Vec::new(),
            perf: Vec::new(),
            numbers: [None; 2],
        }
    }

    /// The ID that the node presents.
    pub(crate) fn node_id(&self) -> &NodeId {
        let Some(id) = self.node_ids.first() else {
            unreachable!("a node without an ID")
        };
        id
    }

    /// The ID of this node of the scheme of another's, or else the one that it presents.
    pub(crate) fn counterpart(&self, peer: &NodeId) -> &NodeId {
        let is_ipn = |id: &NodeId| matches!(id.endpoint(), EndpointId::Ipn { .. });
        let mut ids = self.node_ids.iter();
        ids.find(|id| is_ipn(id) == is_ipn(peer))
            .unwrap_or_else(|| self.node_id())
    }

    /// Whether an endpoint is one of this node, and not of a group.
    pub(crate) fn owns(&self, endpoint: &EndpointId) -> bool {
        self.node_ids.iter().any(|id| id.has(endpoint))
    }

    /// True for an endpoint of whatever node that answers by itself, by its number or its name: an answer to it would be
    /// answered, too.
    pub(crate) fn is_service(&self, endpoint: &EndpointId) -> bool {
        match endpoint {
            EndpointId::Null => false,
            EndpointId::Ipn { service, .. } => {
                USUAL_SERVICES.contains(service) || self.numbers.contains(&Some(*service))
            }
            EndpointId::Dtn(_) => endpoint
                .demux()
                .is_some_and(|demux| USUAL_NAMES.contains(&demux)),
        }
    }

    pub(crate) fn locality(&self, endpoint: &EndpointId) -> Locality {
        let Some(owner) = self.node_ids.iter().find(|id| id.has(endpoint)) else {
            return match is_notified(endpoint) {
                true => Locality::Routing,
                false => Locality::Remote,
            };
        };
        if endpoint == owner.endpoint() {
            Locality::Administrative
        } else if self.echo.contains(endpoint) {
            Locality::Echo
        } else if self.perf.contains(endpoint) {
            Locality::Perf
        } else if is_routing(endpoint) {
            Locality::Routing
        } else {
            Locality::Application
        }
    }

    /// RFC 9758 5.4: `ipn:!.S` names service S of the node that reads it, and never leaves it.
    pub(crate) fn resolve(&self, endpoint: EndpointId) -> EndpointId {
        match (&endpoint, self.node_id().endpoint()) {
            (
                EndpointId::Ipn { service, .. },
                EndpointId::Ipn {
                    allocator, node, ..
                },
            ) if endpoint.is_local_node() => EndpointId::Ipn {
                allocator: *allocator,
                node: *node,
                service: *service,
            },
            _ => endpoint,
        }
    }
}

/// The endpoints of a service of the node itself: by its number on `ipn:` IDs, by its name on `dtn:` ones.
fn services(node_ids: &[NodeId], number: Option<u32>, name: &str) -> Vec<EndpointId> {
    let Some(number) = number else {
        return Vec::new();
    };
    let endpoints = node_ids.iter().map(|id| service(id, number, name));
    endpoints.flatten().collect()
}

fn service(id: &NodeId, number: u32, name: &str) -> Option<EndpointId> {
    match id.endpoint() {
        EndpointId::Ipn {
            allocator, node, ..
        } => Some(EndpointId::Ipn {
            allocator: *allocator,
            node: *node,
            service: number,
        }),
        EndpointId::Dtn(_) => id.service(name).ok(),
        EndpointId::Null => None,
    }
}

/// True for the group of all nodes that IBR-DTN's routers notify (docs/ibr-dtn.md): each node is a member.
fn is_notified(endpoint: &EndpointId) -> bool {
    matches!(endpoint, EndpointId::Dtn(part) if **part == *NOTIFIED_GROUP)
}

/// The routing service of a node, if it can have one.
pub(crate) fn routing_service(id: &NodeId) -> Option<EndpointId> {
    service(id, ROUTING_SERVICE, ROUTING_NAME)
}

/// True for the routing service of whatever node.
pub(crate) fn is_routing(endpoint: &EndpointId) -> bool {
    match endpoint {
        EndpointId::Null => false,
        EndpointId::Ipn { service, .. } => *service == ROUTING_SERVICE,
        EndpointId::Dtn(_) => endpoint.demux() == Some(ROUTING_NAME),
    }
}
