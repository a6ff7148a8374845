//! TCPCLv4 (RFC 9174) as a machine behind [`crate::StreamSession`].
//!
//! Start reading at [`session`] (the machine) and [`state`] (what it goes through). A received octet
//! passes `wire` (octets to messages), `negotiation` until the session is up, then `reception` (what
//! each message asks for), `transfer_in` and, on the way back, `answer`. A bundle leaves through
//! `transfer_out`. `termination` is how a session ends. `message`, `extension` and `reason` are the wire's types, `fault` how a peer
//! breaks the rules of transfers.
//!
//! This room never knows a socket, a TLS library, a bundle's content or a clock.
//!
//! ```
//! use dhow_bundle::{NodeId, Now};
//! use dhow_link::tcpcl::v4::{Config, Role, Session};
//! use dhow_link::{Gather, StreamSession};
//!
//! let node_id: NodeId = "ipn:2.0".parse().unwrap();
//! let now = Now::default();
//! let mut session = Session::new(Role::Active, Config::new(node_id), now);
//! let mut out = Gather::new();
//! session.poll_octets(now, 65_536, &mut out);
//! assert_eq!(out.octets(), 6); // the contact header
//! ```

mod answer;
mod data;
mod extension;
mod fault;
mod message;
mod negotiation;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod reason;
mod reception;
pub mod session;
pub mod state;
mod termination;
mod transfer_in;
mod transfer_out;
mod wire;

#[cfg(test)]
mod tests;

pub use super::config::{Config, IdentityPolicy, Role, TlsPolicy};
pub use session::Session;
pub use state::State;
pub(super) use wire::Decoder;
