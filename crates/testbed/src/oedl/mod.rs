//! Experiments in OEDL, the language of OMF, as scenarios.
//!
//! [`Script`] is the text as people print it, [`evaluate`] has a Ruby interpreter make a [`Plan`] of it (`language/` is what it knows of OEDL), and
//! [`Plan::scenario`] is the file that `dhow lab run` takes. Nothing here starts what a script names. docs/oedl.md says what is understood.

mod config;
mod evaluate;
mod network;
mod plan;
mod scenario;
mod script;
mod words;

pub use evaluate::{OedlError, evaluate};
pub use plan::{Note, Plan};
pub use scenario::Options;
pub use script::Script;
