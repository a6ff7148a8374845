//! The protocol of other programs with a node over its external socket (docs/external.md): frames of a length and a CBOR array.
//!
//! Start reading at [`frame`], then [`wire`] (the messages of a convergence layer that is a program) and [`session`] (the machine
//! for one neighbour that it offers). Routers are the node's own; nothing here knows of them.

pub mod frame;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
pub mod session;
pub mod wire;

pub use session::{Config, Session};

#[cfg(test)]
mod tests;
