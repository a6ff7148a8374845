//! `dhow ltp`: files over LTP, without bundles and without a node (docs/ltp.md).

mod recv;
mod send;
mod way;

use clap::Subcommand;

use crate::arguments::Common;
use crate::failure::{Ending, Failure};

/// The commands for files over LTP.
#[derive(Debug, Subcommand)]
pub enum Ltp {
    Send(send::Send),
    Recv(recv::Recv),
}

impl Ltp {
    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        match self {
            Self::Send(command) => command.run(common),
            Self::Recv(command) => command.run(common),
        }
    }
}
