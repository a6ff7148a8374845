//! iperf 2 from both ends: its datagrams, its reports, and what its users measure.
//!
//! A [`Client`] sends by the schedule of [`crate::traffic`], a [`Server`] receives; both tell an [`Observer`]. `datagram.rs` has the octets,
//! which other programs of iperf 2 understand.

mod client;
mod datagram;
mod interval;
mod observer;
mod server;

pub use client::{Client, Load};
pub use observer::{Connection, Observer, Packet, Report, Transfer};
pub use server::Server;

use std::time::Duration;

/// The longest time that a call waits between two looks at whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
