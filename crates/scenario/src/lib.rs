//! A network as a file: nodes, links, contacts, traffic, faults, and when to stop.
//!
//! This room knows what a network is to do, never how it is done: a simulator runs the file in virtual time, a
//! testbed on sockets. It opens no file but those that a scenario names. Start reading at [`scenario`] (what a file
//! becomes), then `file` (from TOML to that) and `section` (how keys are read, and unknown ones refused).
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

mod contact_plan;

mod file;
pub mod scenario;
mod section;

pub use dhow_document::FileError as ScenarioError;
pub use scenario::Scenario;
