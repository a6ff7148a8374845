//! Bundles one after the other over a TCP connection, from the side that dialled to the side that accepted: STCP
//! (draft-burleigh-dtn-stcp-00, and the form in which it is deployed) and MTCP (draft-ietf-dtn-mtcpcl-01).
//!
//! [`Session`] is the machine, one for both sides: a connection that was dialled has a `sender`, one that was accepted a
//! `receiver`. [`Framing`] says how bundles lie in the stream; `wire` writes and reads that. `timer` is what a session waits for.
//!
//! The layer has neither contact header nor acknowledgment, so the sender's configuration names its peer, and
//! [`LinkEvent::Sent`](crate::LinkEvent::Sent) is the last word on a bundle. It comes with the call of `poll_octets` behind the one
//! that gave the bundle's last octet: a driver calls again once all octets before are written.
//!
//! This room never knows a socket, a bundle's content or a clock. It has no TLS.
//!
//! ```
//! use dhow_bundle::{NodeId, Now};
//! use dhow_bundle::storage::Piece;
//! use dhow_link::stcp::{Config, Framing, Session};
//! use dhow_link::stream::TransferId;
//! use dhow_link::{Gather, LinkCommand, StreamSession};
//!
//! let peer: NodeId = "ipn:2.0".parse().unwrap();
//! let now = Now::default();
//! let mut session = Session::dial(peer, Config::new(Framing::Mtcp), now);
//! let transfer = TransferId(0);
//! session.handle_command(now, LinkCommand::Transmit { transfer, length: 3 });
//! let octets = Piece::Octets("abc".into());
//! session.handle_command(now, LinkCommand::Supply { transfer, octets });
//! let mut out = Gather::new();
//! session.poll_octets(now, 65_536, &mut out);
//! assert_eq!(out.pieces(), [Piece::Octets("\x43abc".into())]);
//! ```

mod config;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod receiver;
mod sender;
pub mod session;
mod timer;
mod wire;

#[cfg(test)]
mod tests;

pub use config::Config;
pub use dhow_bundle::protocol::Framing;
pub use session::{Session, State};
