//! The Licklider Transmission Protocol: RFC 5326, as a machine behind [`crate::DatagramLink`].
//!
//! Start reading at [`engine`], the machine, and at `state`, which has the standard's diagrams. `local` is the part of an
//! engine that all sessions use, `timer` has their countdowns, `numbers` their numbers, and `fault` counts broken rules.
//!
//! A received datagram passes `wire` (octets to the types of `segment`), `seal` where it is authenticated (RFC 5327), and then
//! `sessions_in`, which has a `session_in` for each block that comes: `reception` takes its octets, of which `parts` knows the
//! red and the green ones, `reporting` answers checkpoints by the claims that `report` makes, and `closed` remembers what is
//! over.
//!
//! A block leaves through `sessions_out`, which has a `session_out` for it, with a `capsule` for each transfer that shares it: the octets are in `block`, what reports ask for is
//! in `rounds`, and what waits for a report in `checkpoints`. `plan` cuts segments, `sending` gives them out in the order of
//! `queues`, and `leaving` tells of the ends of transfers. `departure` has the order of all datagrams: first `operations`, the
//! internal operations traffic. `end_to_end` has the extensions of blocks that cross several hops, which `onward` passes on.
//!
//! This room never knows a socket, an address, a bundle, or a clock.
//!
//! ```
//! use bytes::Bytes;
//! use dhow_bundle::Now;
//! use dhow_bundle::storage::Piece;
//! use dhow_link::datagram::Limit;
//! use dhow_link::ltp::{Config, Engine};
//! use dhow_link::stream::TransferId;
//! use dhow_link::{Batch, DatagramLink, LinkCommand};
//!
//! let now = Now::default();
//! let config = Config { engine: 2, remote_engine: 3, ..Config::default() };
//! let mut engine = Engine::new(config, 1, now);
//! let transfer = TransferId(0);
//! engine.handle_command(now, LinkCommand::Transmit { transfer, length: 3 });
//! let octets = Piece::Octets(Bytes::from_static(&[0x9f, 0x80, 0xff]));
//! engine.handle_command(now, LinkCommand::Supply { transfer, octets });
//! let mut out = Batch::new();
//! engine.poll_datagrams(now, Limit { datagrams: 64, octets: 65_507 }, &mut out);
//! assert_eq!(out.len(), 1); // one segment: the end of the red part and of the block
//! ```

mod block;
mod capsule;
mod checkpoints;
mod closed;
mod config;
mod cookies;
mod departure;
mod displacement;
mod end_to_end;
pub mod engine;
mod fault;
mod leaving;
mod local;
mod numbers;
mod onward;
mod operations;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod parts;
mod plan;
mod queues;
mod reception;
mod report;
mod reporting;
mod rounds;
mod seal;
mod segment;
mod sending;
mod session_in;
mod session_out;
mod sessions_in;
mod sessions_out;
mod state;
#[cfg(test)]
mod tests;
mod timer;
mod wire;

pub use config::{BUNDLE_PROTOCOL, Config, LEAST_MTU, MAX_BLOCK_OCTETS, MAX_MTU, Red};
pub use cookies::MAX_COOKIE_OCTETS;
pub use end_to_end::{EndReport, EndToEnd, MAX_END_REPORT_OCTETS, Service, Status};
pub use engine::{Engine, Known, Progress};
pub use local::cancellation_of;
pub use onward::{Ends, IncomingBlock, Onward};
pub use seal::{
    Authentication, Ciphersuite, MAX_KEY_ID_OCTETS, MAX_VALUE_OCTETS, Seal, VALUE_OCTETS,
};
pub use wire::Addressee;

pub use crate::datagram::Rate;
