//! The commands, a file each: arguments beside what is done with them.

pub mod bundle;
pub mod bundles;
pub mod completions;
pub mod links;
pub mod listing;
pub mod registrations;
pub mod routes;
pub mod status;

use crate::arguments::{Arguments, Command};
use crate::failure::{Ending, Failure};
use crate::interrupt;

/// Does what was asked.
pub fn run(arguments: Arguments) -> Result<Ending, Failure> {
    let Arguments { common, command } = arguments;
    interrupt::watch()?;
    match command {
        Command::Status(command) => command.run(&common),
        Command::Bundles(command) => command.run(&common),
        Command::Links(command) => command.run(&common),
        Command::Link(command) => command.run(&common),
        Command::Routes(command) => command.run(&common),
        Command::Route(command) => command.run(&common),
        Command::Registrations(command) => command.run(&common),
        Command::Bundle(command) => command.run(&common),
        Command::Completions(command) => command.run(),
    }
}
