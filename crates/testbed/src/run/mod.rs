//! A scenario in time: its network is made, its nodes start, what is to happen happens, and all is gone again.
//!
//! [`Lab`] is a network with its nodes; [`run`] runs a scenario there once and keeps what came of it.

mod capture;
mod clock;
mod collector;
mod contacts;
mod experiment;
mod lab;
mod machine;
mod profile;
mod program;
mod rates;
mod sampling;
mod usage;
mod versions;

pub use capture::Packets;
pub use clock::Clock;
pub use contacts::{Contacts, Switching};
pub use experiment::{Order, Standing, run};
pub use lab::{Check, Lab, Plot, equipped, possible};
pub use machine::{described, timestamp};
pub(crate) use profile::PROFILE;
pub use profile::Profiling;
pub use versions::programs;
