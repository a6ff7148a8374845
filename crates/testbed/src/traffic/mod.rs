//! Traffic of a chosen pattern, packet by packet, and its receiver.
//!
//! A [`Pattern`] and a seed give a [`Schedule`]: the times at which packets leave. A [`Sender`] keeps to it, over a
//! [`Carrier`]; a [`Receiver`] counts what arrives. Both tell a [`Meter`] of every packet. Start at `schedule.rs`, then `sender.rs`.
//! The clocks are read in `sender.rs`, `receiver.rs` and `datagram.rs` alone.

mod acknowledged;
mod carrier;
mod command;
mod datagram;
mod drops;
mod figures;
mod header;
mod property;
mod receiver;
mod recent;
mod sample;
mod schedule;
mod sender;
mod stream;
mod tally;

pub use acknowledged::Acknowledged;
pub use carrier::{Carrier, Ending, Null, Outcome, Packet};
pub use command::{Command, CommandError, Planned};
pub use datagram::{Arrival, DatagramReader, DatagramWriter};
pub use drops::datagrams_dropped;
pub use figures::{Account, Arrived};
pub use header::{HEADER_OCTETS as PACKET_HEADER_OCTETS, Header};
pub use property::{check_planned, parse_bits, parse_seconds};
pub use receiver::{Received, Receiver};
pub use recent::RECENT_NUMBERS;
pub use sample::{Meter, Sample, now_ns};
pub use schedule::{Bursts, Departure, Pace, Pattern, PatternError, Schedule};
pub use sender::{Sender, Sent};
pub use stream::{StreamReader, StreamWriter};
pub use tally::{Delay, Flow, Tally};
