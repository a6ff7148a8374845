//! HTTP for applications (docs/http.md): bundles in and out, and all events, for holders of a token.
//!
//! An application here is one of the node's application interface: each request that sends or receives has a connection of its own to
//! that interface, and a bundle that was handed over and is not confirmed yet keeps its connection for as long as its lease.

mod applications;
mod body;
pub mod events;
mod lease;
pub mod scope;

pub use applications::{PostOffice, router};
