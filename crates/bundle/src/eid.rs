//! Endpoint IDs (RFC 9171 4.2.5.1, RFC 9758).
use alloc::sync::Arc;
use core::fmt;
/// An endpoint ID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointId {
    /// `dtn:none`, `ipn:0.0`.
    Null,
    /// `ipn:` endpoint.
    Ipn { /// Allocator.
        allocator: u32, /// Node number.
        node: u32, /// Service number.
        service: u32 },
    /// `dtn:` endpoint; the scheme-specific part, e.g. `//node/service`.
    Dtn(Arc<str>),
}
impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{self:?}") }
}
/// The ID of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(EndpointId);
