//! [`NodeId`]: the name of a node.

use alloc::format;

use core::fmt;
use core::str::FromStr;

use super::{EidError, EndpointId};
use crate::reading::Reading;

/// The ID of a node: its administrative endpoint's (RFC 9171 4.2.5.2), `ipn:NODE.0` or `dtn://name/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(EndpointId);

impl NodeId {
    /// The node ID that an endpoint ID is.
    ///
    /// # Errors
    /// [`EidError::NotNode`] when it names a service, [`EidError::NoNode`] when it names no one node.
    pub fn new(endpoint: EndpointId) -> Result<Self, EidError> {
        if endpoint.is_local_node() {
            return Err(EidError::NoNode);
        }
        match &endpoint {
            EndpointId::Null => Err(EidError::NoNode),
            EndpointId::Ipn { service: 0, .. } => Ok(Self(endpoint)),
            EndpointId::Dtn(_) if endpoint.demux() == Some("") => Ok(Self(endpoint)),
            EndpointId::Ipn { .. } | EndpointId::Dtn(_) => Err(EidError::NotNode),
        }
    }

    /// Reads a node ID's URI; lenient reading also takes `dtn://name` for `dtn://name/`.
    ///
    /// # Errors
    /// The rule that the text breaks, as for [`EndpointId::parse`] and [`NodeId::new`].
    pub fn parse(text: &str, reading: Reading) -> Result<Self, EidError> {
        Self::new(EndpointId::parse(text, reading)?)
    }

    /// The node's administrative endpoint.
    #[must_use]
    pub const fn endpoint(&self) -> &EndpointId {
        &self.0
    }

    /// The number of an `ipn` node: allocator identifier and node number as one (RFC 9758 3.3). `None` of others.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self.endpoint() {
            EndpointId::Ipn {
                allocator, node, ..
            } => Some(u64::from(*allocator) << 32 | u64::from(*node)),
            EndpointId::Null | EndpointId::Dtn(_) => None,
        }
    }

    /// An endpoint of this node: a number for `ipn`, a demux for `dtn`.
    ///
    /// # Errors
    /// A service that the scheme does not have.
    pub fn service(&self, service: &str) -> Result<EndpointId, EidError> {
        self.0.with_service(service)
    }

    /// Whether an endpoint is one of this node's.
    #[must_use]
    pub fn has(&self, endpoint: &EndpointId) -> bool {
        match (&self.0, endpoint) {
            (
                EndpointId::Ipn {
                    allocator, node, ..
                },
                EndpointId::Ipn {
                    allocator: other_allocator,
                    node: other_node,
                    ..
                },
            ) => allocator == other_allocator && node == other_node,
            (EndpointId::Dtn(_), EndpointId::Dtn(_)) => self.0.node_name() == endpoint.node_name(),
            _ => false,
        }
    }
}

impl EndpointId {
    /// The node that this endpoint belongs to; `None` for the null endpoint and "this node".
    #[must_use]
    pub fn node_id(&self) -> Option<NodeId> {
        if self.is_local_node() {
            return None;
        }
        match self {
            Self::Null => None,
            Self::Ipn { service: 0, .. } => Some(NodeId(self.clone())),
            Self::Ipn {
                allocator, node, ..
            } => Some(NodeId(Self::Ipn {
                allocator: *allocator,
                node: *node,
                service: 0,
            })),
            Self::Dtn(_) if self.demux() == Some("") => Some(NodeId(self.clone())),
            Self::Dtn(_) => Some(NodeId(Self::Dtn(
                format!("//{}/", self.node_name()?).into(),
            ))),
        }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for NodeId {
    type Err = EidError;

    fn from_str(text: &str) -> Result<Self, EidError> {
        Self::parse(text, Reading::Strict)
    }
}

impl From<NodeId> for EndpointId {
    fn from(node: NodeId) -> Self {
        node.0
    }
}
