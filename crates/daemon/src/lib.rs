//! The drivers of a Dhow node: sockets, TLS, the store thread, the operator's interface, logs.
//!
//! Everything that knows a protocol lives in `dhow_node` and below and does no I/O; this room carries
//! octets and time to it and knows as little as it can. Start reading at [`config`] (what an operator
//! writes), then [`mod@run`] (a node's life), [`mod@core`] (the node's thread) and [`storing`] (the
//! store's).
//!
//! ```no_run
//! use dhow_daemon::{config::NodeFile, run};
//!
//! let file = NodeFile::load("beta/node.toml".as_ref())?;
//! run(file, None, |ready| println!("{}", ready.json()))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod admin;
mod audience;
pub mod buffers;
pub mod clock;
pub mod config;
pub mod contact;
mod core;
pub mod counts;
pub mod datagrams;
pub mod discovering;
mod disk_pace;
pub mod encapsulating;
mod ending;
pub mod export;
pub mod extents;
pub mod file_size;
pub mod groups;
pub mod http;
pub mod journal;
mod lines;
pub mod logging;
pub mod ltp_files;
pub mod machine;
pub mod measuring;
pub mod network;
pub mod open_files;
pub mod opening;
pub mod pace;
pub mod pressure;
mod quota_line;
mod reading;
pub mod recording;
pub mod reload;
pub mod run;
mod service_manager;
pub mod signals;
mod slow_disk;
pub mod storing;
mod strangers;
pub mod streams;
pub mod telemetry;
mod unreached;
pub mod web;

pub use run::{Ready, RunError, run};
