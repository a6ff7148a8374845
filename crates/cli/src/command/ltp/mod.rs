//! `dhow ltp`: files over LTP, without bundles and without a node (docs/ltp.md).

mod encapsulate;
mod far;
mod hints;
mod hops;
mod pace;
mod recv;
mod relay;
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
    Relay(relay::Relay),
    Encapsulate(encapsulate::Encapsulate),
}

impl Ltp {
    /// Runs the command.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        match self {
            Self::Send(command) => command.run(common),
            Self::Recv(command) => command.run(common),
            Self::Relay(command) => command.run(common),
            Self::Encapsulate(command) => command.run(common),
        }
    }
}
