//! The TCP convergence layer: bundles over an octet stream with acknowledgments.
//!
//! [`Session`] speaks whichever version the peer speaks. Each version is a room of its own and implements [`crate::StreamSession`]:
//! [`v4`] is TCPCLv4 (RFC 9174), [`v3`] is TCPCLv3 (RFC 7242).
//!
//! Beside them lies what knows of no version: `config`, `event` (what the node has not taken yet), `order` (the list that
//! both directions of transfers are kept in), `outgoing` (transfers to the peer), `supply` (the octets of a transfer), `pacing` (the length of segments),
//! `head` (heads of messages in any chunking), `writer` (the gather list under construction), `timer` (what a session
//! waits for). `event`, `outgoing`, `head` and `writer` also serve [`crate::stcp`].

mod config;
mod data;
pub(crate) mod event;
mod greeting;
pub(crate) mod head;
mod order;
pub(crate) mod outgoing;
mod pacing;
pub mod session;
mod supply;
mod timer;
pub mod v3;
pub mod v4;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

pub use config::{Config, IdentityPolicy, TlsPolicy};
pub use data::{DataReader, Part};
pub use greeting::Version;
pub use session::Session;
