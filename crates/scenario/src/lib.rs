//! A network as a file: nodes, links, contacts, traffic, faults, and when to stop.
//!
//! This room knows what a network is to do, never how it is done: a simulator runs the file in virtual time, a
//! testbed on sockets. It opens no file but those that a scenario names. Start reading at [`scenario`] (what a file
//! becomes), then [`schema`] (what may stand in it) and `file` (from the one to the other); `generator` makes whole networks
//! of a section, `contact_plan` reads those of others. [`plan`] says which runs of a scenario a study has.
//!
//! ```
//! use std::path::Path;
//! use dhow_scenario::Scenario;
//!
//! let text = r#"
//! [[node]]
//! name = "east"
//! [[node]]
//! name = "west"
//! [[link]]
//! between = ["east", "west"]
//! rate = "1Mbit"
//! [[traffic]]
//! from = "east"
//! to = "west"
//! count = 3
//! size = "2kB"
//! [stop]
//! at = "1h"
//! "#;
//! let scenario = Scenario::parse(Path::new("two.toml"), text)?;
//! assert_eq!(scenario.nodes.len(), 2);
//! # Ok::<(), dhow_scenario::ScenarioError>(())
//! ```

mod battery;
mod contact_plan;
mod energy;
mod entropy;
mod file;
mod generator;
mod guest;
mod host;
mod kind;
mod network;
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
pub mod plan;
mod program;
mod rate_trace;
pub mod regular_file;
mod route;
pub mod scenario;
pub mod schema;
pub mod the_one;
mod traffic;

pub use dhow_document::{FileError as ScenarioError, nearest};
pub use entropy::Entropy;
pub use plan::Plan;
pub use rate_trace::read_rate_trace;
pub use scenario::Scenario;
pub use schema::json_schema;
pub use traffic::{Due, Schedule};
