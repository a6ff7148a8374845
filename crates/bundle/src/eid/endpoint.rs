//! [`EndpointId`]: the name of an endpoint.

use alloc::borrow::Cow;
use alloc::string::ToString;
use alloc::sync::Arc;

use core::fmt;

/// The node number that, with allocator 0, means "this node" (RFC 9758 3.4.2).
pub const LOCAL_NODE_NUMBER: u32 = u32::MAX;

/// An endpoint ID. Two are equal when they name the same endpoint, whatever form they came in
/// (RFC 9171 4.2.5.1, RFC 9758).
///
/// ```
/// use dhow_bundle::EndpointId;
/// let echo: EndpointId = "ipn:4.7".parse()?;
/// assert_eq!(echo, "ipn:0.4.7".parse()?);
/// assert_eq!(echo.to_string(), "ipn:4.7");
/// # Ok::<(), dhow_bundle::eid::EidError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointId {
    /// The null endpoint, which has no members: `dtn:none`, `ipn:0.0`.
    Null,
    /// An endpoint of the `ipn` scheme.
    Ipn {
        /// Allocator identifier; 0 is the default allocator.
        allocator: u32,
        /// Node number within the allocator.
        node: u32,
        /// Service number; 0 is the node's administrative endpoint.
        service: u32,
    },
    /// An endpoint of the `dtn` scheme: the scheme-specific part, `//node-name/demux`.
    Dtn(Arc<str>),
}

impl EndpointId {
    /// True for the null endpoint.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// True for `ipn:!.…`, which names an endpoint of whatever node reads it and never leaves a node
    /// (RFC 9758 5.4).
    #[must_use]
    pub const fn is_local_node(&self) -> bool {
        matches!(
            self,
            Self::Ipn {
                allocator: 0,
                node: LOCAL_NODE_NUMBER,
                ..
            }
        )
    }

    /// False for endpoints that may have several members: `dtn` demuxes that begin with `~`
    /// (RFC 9171 4.2.5.1.1). The null endpoint has none, and is not a singleton either.
    #[must_use]
    pub fn is_singleton(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Ipn { .. } => true,
            Self::Dtn(_) => !self.demux().is_some_and(|demux| demux.starts_with('~')),
        }
    }

    /// Name of the node in a `dtn` endpoint ID: what stands between `//` and the next `/`.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        let Self::Dtn(part) = self else { return None };
        let name = part.strip_prefix("//")?;
        Some(name.split_once('/').map_or(name, |(name, _)| name))
    }

    /// Demux of a `dtn` endpoint ID: what follows the node name's slash, empty in a node ID.
    #[must_use]
    pub fn demux(&self) -> Option<&str> {
        let Self::Dtn(part) = self else { return None };
        part.strip_prefix("//")?
            .split_once('/')
            .map(|(_, demux)| demux)
    }

    /// The service within the node: the `ipn` service number in decimal or the `dtn` demux; `None` for
    /// the null endpoint.
    #[must_use]
    pub fn service(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Null => None,
            Self::Ipn { service, .. } => Some(Cow::Owned(service.to_string())),
            Self::Dtn(_) => self.demux().map(Cow::Borrowed),
        }
    }
}

impl fmt::Display for EndpointId {
    /// The URI: `dtn:none`, `ipn:1.2`, `ipn:977000.1.3`, `ipn:!.7`, `dtn://node/demux`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("dtn:none"),
            Self::Ipn {
                allocator: 0,
                node: LOCAL_NODE_NUMBER,
                service,
            } => write!(f, "ipn:!.{service}"),
            Self::Ipn {
                allocator: 0,
                node,
                service,
            } => write!(f, "ipn:{node}.{service}"),
            Self::Ipn {
                allocator,
                node,
                service,
            } => write!(f, "ipn:{allocator}.{node}.{service}"),
            Self::Dtn(part) => write!(f, "dtn:{part}"),
        }
    }
}
