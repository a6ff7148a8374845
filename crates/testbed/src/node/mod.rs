//! Nodes of a lab: their files and their processes.
//!
//! [`configurations`] makes the files' texts of a scenario, as values; [`Daemon`] is a node that runs.

mod daemon;
mod datagrams;
mod file;
mod log;
mod route;

pub use daemon::Daemon;
pub use file::configurations;
pub use log::{Log, last_words};
