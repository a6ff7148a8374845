//! Many nodes in virtual time, in one process and from one seed.
//!
//! The nodes are those of the daemon: `dhow_node`, `dhow_link` and `dhow_store` behind `node::driver`, with other drivers.
//! This room never reads a clock, opens a socket or draws a random number that does not follow from the seed: the same
//! scenario and seed give the same [`trace`](World::trace), on every machine and in every build.
//!
//! Start at [`world`] (what there is, and the loop), then `turn` (what a driver does for a node), `dialling`,
//! `carrying`, `radios`, `batteries` and `contacts` (connections), `datagrams` (links over UDP and LTP), `faults`, `machine`, `storage` and `disk`, `sparse_store` and `sparse` (bundle fidelity), `verdict` (the last look); [`oracle`] says what must hold, [`run`] runs one seed, [`report`] shows it,
//! [`capture`] is what passed over the links as packets.
//! [`replay`] leads one node through what a recording says.

mod application;
mod batteries;
pub mod capture;
mod carrying;
mod clients;
pub mod clock;
pub mod congestion;
pub mod connection;
mod contacts;
mod copying;
mod custody;
mod datagrams;
mod dialling;
pub mod disk;
pub mod entropy;
mod faults;
mod flow;
pub mod glance;
mod judging;
pub mod ledger;
mod listeners;
mod looking;
mod machine;
pub mod memory;
pub mod network;
pub mod optimum;
pub mod oracle;
mod ordering;
pub mod payload;
mod portion;
pub mod queue;
mod radios;
pub mod replay;
pub mod report;
pub mod run;
pub mod sample;
mod sparse;
mod sparse_store;
mod storage;
pub mod store_times;
mod stride;
pub mod trace;
mod transmitter;
mod turn;
mod verdict;
pub mod world;

pub use memory::Estimate;
pub use network::NetworkError;
pub use oracle::Violation;
pub use run::{Outcome, Run};
pub use stride::Stride;
pub use world::World;
