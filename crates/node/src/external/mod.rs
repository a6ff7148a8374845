//! Routers that are programs of their own (docs/external.md): they are told of neighbours and bundles, and decide.
//!
//! This room never knows a socket or a store. Start reading at [`wire`] (the messages), then [`router`] (what is kept of each bundle
//! that a program decides about, and the [`Router`](crate::routing::Router) that sessions ask), [`decisions`] (what its answers
//! change), `copies` (what sessions ask and say) and [`connections`] (who is at the socket).

pub(crate) mod connections;
mod copies;
mod decisions;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
pub(crate) mod router;
pub mod wire;
