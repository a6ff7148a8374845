//! `dhow lab`: scenarios on network namespaces of this machine, with nodes that run.

mod at_once;
mod compare;
mod down;
mod exec;
mod graph;
mod inspect;
mod oedl;
mod page;
pub(super) mod report;
mod rootless;
mod run;
mod selftest;
pub(super) mod simulations;
pub(super) mod study;
mod up;
mod view;
mod watch;
mod yardstick;

use std::path::Path;

use clap::Subcommand;
use dhow_daemon::config::NodeFile;
use dhow_testbed::LabError;

use crate::arguments::Common;
use crate::failure::{Ending, Failure};

/// Run scenarios with real nodes, in network namespaces of this machine
#[derive(Debug, Subcommand)]
pub enum Lab {
    Run(run::Run),
    Report(report::Report),
    Compare(compare::Compare),
    Up(up::Up),
    #[command(hide = true)]
    Keep(up::Keep),
    Down(down::Down),
    Inspect(inspect::Inspect),
    Exec(exec::Exec),
    Graph(graph::Graph),
    Selftest(selftest::Selftest),
    Oedl(oedl::Oedl),
    Yardstick(yardstick::Yardstick),
}

impl Lab {
    /// Runs the command.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        match self {
            Self::Run(command) => command.run(common),
            Self::Report(command) => command.run(),
            Self::Compare(command) => command.run(common),
            Self::Yardstick(command) => command.run(),
            Self::Up(command) => command.run(common),
            Self::Keep(command) => command.run(),
            Self::Down(command) => command.run(common),
            Self::Inspect(command) => command.run(common),
            Self::Exec(command) => command.run(),
            Self::Graph(command) => command.run(),
            Self::Selftest(command) => command.run(common),
            Self::Oedl(command) => command.run(common),
        }
    }
}

/// An error of the testbed as a failure: "cannot …: why".
fn failure(what: &str, error: &LabError) -> Failure {
    let failure = Failure::refused(format!("cannot {what}: {error}"));
    match &error.hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Says what a node would say against its file.
fn check(path: &Path, text: &str) -> Result<(), LabError> {
    NodeFile::parse(text, path).map(|_| ()).map_err(|error| {
        let failed = LabError::new(format!("a node's file is wrong: {error}"));
        match error.hint {
            Some(hint) => failed.with_hint(hint),
            None => failed,
        }
    })
}
