//! Which endpoints are this node's own, and what the node itself does at them.

use alloc::vec::Vec;

use dhow_bundle::{EndpointId, NodeId};

/// What a destination is to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locality {
    /// An endpoint of another node.
    Remote,
    /// The node's administrative endpoint.
    Administrative,
    /// The node's echo service.
    Echo,
    /// An endpoint of this node for applications.
    Application,
}

/// The node's own identity.
pub(crate) struct Local {
    node_ids: Vec<NodeId>,
    echo: Vec<EndpointId>,
}

impl Local {
    pub(crate) fn new(node_ids: &[NodeId], echo_service: Option<u32>) -> Self {
        let echo = |id: &NodeId| match id.endpoint() {
            EndpointId::Ipn {
                allocator, node, ..
            } => Some(EndpointId::Ipn {
                allocator: *allocator,
                node: *node,
                service: echo_service?,
            }),
            EndpointId::Dtn(_) => echo_service.and_then(|_| id.service("echo").ok()),
            EndpointId::Null => None,
        };
        Self {
            node_ids: node_ids.to_vec(),
            echo: node_ids.iter().filter_map(echo).collect(),
        }
    }

    /// The ID that the node presents.
    pub(crate) fn node_id(&self) -> &NodeId {
        let Some(id) = self.node_ids.first() else {
            unreachable!("a node without an ID")
        };
        id
    }

    pub(crate) fn locality(&self, endpoint: &EndpointId) -> Locality {
        let Some(owner) = self.node_ids.iter().find(|id| id.has(endpoint)) else {
            return Locality::Remote;
        };
        if endpoint == owner.endpoint() {
            Locality::Administrative
        } else if self.echo.contains(endpoint) {
            Locality::Echo
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
