//! Endpoint IDs (RFC 9171 4.2.5.1, RFC 9758), the node IDs among them, and patterns over them.
//!
//! Start reading at [`EndpointId`] (`endpoint.rs`). `text.rs` reads the text form, `wire.rs` reads and
//! writes the CBOR form, `node.rs` says which node an endpoint belongs to, `pattern.rs` matches.

mod endpoint;
mod node;
mod pattern;
mod pattern_text;
mod text;
mod wire;

pub use endpoint::{EndpointId, LOCAL_NODE_NUMBER};
pub use node::NodeId;
pub use pattern::EidPattern;
pub use pattern_text::PatternError;
pub use text::EidError;
pub use wire::EidRefusal;

/// Longest text form of an endpoint ID, in octets: a line of a configuration or a log holds it, and an
/// index entry stays small.
pub const MAX_EID_OCTETS: usize = 1024;

#[cfg(test)]
mod tests;
