//! `dhow bundle`: one bundle, on disk or in a node's store.

mod decode;
mod description;
mod drop;
mod gateway;
mod hex;
mod make;
mod record;
mod version6;

use clap::Subcommand;

use crate::arguments::Common;
use crate::failure::{Ending, Failure};

/// Decode, make or drop a bundle
#[derive(Debug, Subcommand)]
pub enum Bundle {
    Decode(decode::Decode),
    Make(make::Make),
    Drop(drop::Drop),
}

impl Bundle {
    /// Runs the command.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        match self {
            Self::Decode(command) => command.run(common),
            Self::Make(command) => command.run(common),
            Self::Drop(command) => command.run(common),
        }
    }
}
