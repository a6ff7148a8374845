//! The scenario's traffic: applications that give payloads to nodes and take them, as any application would.
//!
//! A [`Schedule`](dhow_scenario::Schedule) says what is sent when, [`Payload`] what it is, [`Ledger`] what became of it; [`send`] and [`receive`] are the
//! applications, each for a thread of its own. They talk to nodes over the sockets of the file system, so nothing of it
//! passes a link of the lab.

mod ledger;
mod payload;
mod receiver;
mod sender;

pub use ledger::{Ledger, Tally};
pub use payload::{Name, Payload, Pool};
pub use receiver::receive;
pub use sender::{Task, send};

/// Service number of what receives.
pub(crate) const RECEIVER_SERVICE: u32 = 1;

/// Service number of what sends the first of the scenario's traffic; the others follow.
pub(crate) const SENDER_SERVICE: usize = 1_000;
