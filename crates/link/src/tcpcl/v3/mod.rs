//! TCPCLv3 (RFC 7242) as a machine behind [`crate::StreamSession`].
//!
//! Start reading at [`session`] (the machine) and [`state`] (what it goes through). A received octet passes `wire` (octets
//! to messages), `negotiation` until the session is up, then `reception` (what each message asks for), `transfer_in` and,
//! on the way back, `answer`. A bundle leaves through `transfer_out`. `termination` is how a session ends. `message`, `sdnv`
//! and `reason` are the wire's types, `fault` how a peer breaks the rules of transfers.
//!
//! The wire numbers no transfers: answers belong to segments by their order alone (RFC 7242 5.4). Transfers are numbered
//! here, incoming ones from 0.
//!
//! This room never knows a socket, a bundle's content or a clock. It has no TLS: where that is required, no session is
//! established.
//!
//! ```
//! use dhow_bundle::{NodeId, Now};
//! use dhow_link::tcpcl::v3::{Config, Session};
//! use dhow_link::{Gather, StreamSession};
//!
//! let node_id: NodeId = "ipn:2.0".parse().unwrap();
//! let now = Now::default();
//! let mut session = Session::new(Config::new(node_id), now);
//! let mut out = Gather::new();
//! session.poll_octets(now, 65_536, &mut out);
//! assert_eq!(out.octets(), 16); // the contact header
//! ```

mod answer;
mod data;
mod fault;
mod message;
mod negotiation;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod reason;
mod reception;
mod sdnv;
pub mod session;
pub mod state;
mod termination;
mod transfer_in;
mod transfer_out;
mod wire;

#[cfg(test)]
mod tests;

pub use super::config::Config;
pub use session::Session;
pub use state::State;
pub(super) use wire::Decoder;
