//! Bundles over UDP: RFC 7122 and its second version, draft-ietf-dtn-udpcl-04, without DTLS, as a machine
//! behind [`crate::DatagramLink`].
//!
//! Start reading at [`conversation`], the machine: the standard knows no sessions but "UDP conversations". A
//! received datagram passes `wire` (octets to messages, with `cbor` below it), then `transfer_in`, which knows by
//! `datagram/span.rs` what has come and by `ended` what is over. A bundle leaves through `transfer_out`, which keeps its octets
//! in `supply`, at the pace of `datagram/pacing.rs`. `announcement` keeps what the peer says of itself, and `fault` counts broken
//! rules. docs/udpcl.md lists the draft's options and our choices among them.
//!
//! This room never knows a socket, an address, a bundle's content beyond its first octet, or a clock.
//!
//! ```
//! use bytes::Bytes;
//! use dhow_bundle::Now;
//! use dhow_bundle::storage::Piece;
//! use dhow_link::datagram::Limit;
//! use dhow_link::stream::TransferId;
//! use dhow_link::udpcl::{Config, Conversation};
//! use dhow_link::{Batch, DatagramLink, LinkCommand};
//!
//! let now = Now::default();
//! let mut conversation = Conversation::new(Config::default(), 1, now);
//! let transfer = TransferId(0);
//! conversation.handle_command(now, LinkCommand::Transmit { transfer, length: 3 });
//! let octets = Piece::Octets(Bytes::from_static(&[0x9f, 0x80, 0xff]));
//! conversation.handle_command(now, LinkCommand::Supply { transfer, octets });
//! let mut out = Batch::new();
//! conversation.poll_datagrams(now, Limit { datagrams: 64, octets: 65_507 }, &mut out);
//! assert_eq!((out.len(), out.octets()), (1, 3)); // the bundle and nothing else
//! ```

mod announcement;
mod cbor;
mod config;
pub mod conversation;
mod ended;
mod fault;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod supply;
mod transfer_in;
mod transfer_out;
mod wire;

#[cfg(test)]
mod tests;

pub use config::{
    Announcement, Config, Framing, LEAST_KEEPALIVE, LEAST_MTU, MAX_MTU, MAX_TRANSFER_OCTETS, Peer,
};
pub use conversation::Conversation;
pub use wire::EcnCounts;

pub use crate::datagram::Rate;
