//! `dhow sim`: networks in virtual time, and recorded nodes once more.

mod capture;
mod findings;
pub mod import;
mod lines;
pub mod memory;
mod optimum;
mod replay;
mod report;
pub mod run;
pub mod schema;
pub mod seeds;
mod study;
mod trace;
mod watch;
mod written;

use clap::Subcommand;

use crate::arguments::Common;
use crate::failure::{Ending, Failure};

/// Run whole networks in virtual time
#[derive(Debug, Subcommand)]
pub enum Sim {
    Run(run::Run),
    Replay(replay::Replay),
    #[command(subcommand)]
    Import(import::Import),
    Optimum(optimum::Optimum),
    Schema(schema::Schema),
}

impl Sim {
    /// Runs the command.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        match self {
            Self::Run(command) => command.run(common),
            Self::Replay(command) => command.run(common),
            Self::Import(command) => command.run(),
            Self::Optimum(command) => command.run(common),
            Self::Schema(command) => command.run(),
        }
    }
}

pub fn count(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}
