//! A scenario in time: its network is made, its nodes start, events happen, and all is gone again.
//!
//! [`Lab`] is a network with its nodes; [`run`] runs a scenario there once and keeps its results.

mod capture;
mod clock;
mod collector;
mod contacts;
mod crash;
mod experiment;
mod lab;
mod machine;
mod pause;
mod processor;
mod profile;
mod program;
mod rates;
mod sampling;
mod standing;
mod usage;
mod versions;
mod words;

pub use capture::Packets;
pub use clock::Clock;
pub use contacts::{Contacts, Switching};
pub(crate) use experiment::measures;
pub use experiment::{Order, run};
pub use lab::{Check, Lab, Plot, equipped, possible};
pub use machine::{described, timestamp};
pub use processor::{Measured, Processors};
pub use profile::Profiling;
pub use standing::Standing;
pub use versions::programs;
