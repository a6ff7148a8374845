//! `dhow bundle`: one bundle, on disk or in a node's store.

mod drop;

use clap::Subcommand;

use crate::arguments::Common;
use crate::failure::{Ending, Failure};

/// Decode, make or drop a bundle
#[derive(Debug, Subcommand)]
pub enum Bundle {
    /// Delete a stored bundle from the node
    Drop(drop::Drop),
}

impl Bundle {
    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        match self {
            Self::Drop(command) => command.run(common),
        }
    }
}
