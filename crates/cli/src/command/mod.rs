//! The commands, a file each: arguments beside their execution.

pub mod bundle;
pub mod bundles;
pub mod channel;
pub mod collect;
pub mod completions;
pub mod contacts;
pub mod ferry;
pub mod inbox;
pub mod iperf;
pub mod lab;
pub mod links;
pub mod listing;
pub mod ltp;
pub mod manual;
pub mod neighbours;
pub mod node;
pub mod otg;
pub mod otr;
pub mod outbox;
pub mod perf;
pub mod ping;
pub mod recv;
pub mod registrations;
pub mod reload;
pub mod routes;
pub mod send;
pub mod sim;
pub mod status;
pub mod store;
pub mod stream;
pub mod top;
pub mod trace;
pub mod tunnel;
pub mod version;
pub mod why;

use crate::arguments::{Arguments, Command};
use crate::failure::{Ending, Failure};
use crate::interrupt;

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<Ending, Failure> {
    let Arguments { common, command } = arguments;
    // A running node drains on a signal by itself.
    if !matches!(command, Command::Node(_)) {
        interrupt::watch()?;
    }
    match command {
        Command::Node(command) => command.run(&common),
        Command::Send(command) => command.run(&common),
        Command::Recv(command) => command.run(&common),
        Command::Outbox(command) => command.run(&common),
        Command::Inbox(command) => command.run(&common),
        Command::Ferry(command) => command.run(&common),
        Command::Stream(command) => command.run(&common),
        Command::Tunnel(command) => command.run(&common),
        Command::Ltp(command) => command.run(&common),
        Command::Ping(command) => command.run(&common),
        Command::Perf(command) => command.run(&common),
        Command::Trace(command) => command.run(&common),
        Command::Top(command) => command.run(&common),
        Command::Status(command) => command.run(&common),
        Command::Bundles(command) => command.run(&common),
        Command::Why(command) => command.run(&common),
        Command::Store(command) => command.run(&common),
        Command::Links(command) => command.run(&common),
        Command::Link(command) => command.run(&common),
        Command::Routes(command) => command.run(&common),
        Command::Route(command) => command.run(&common),
        Command::Contacts(command) => command.run(&common),
        Command::Contact(command) => command.run(&common),
        Command::Listen(command) => command.run(&common),
        Command::Reload(command) => command.run(&common),
        Command::Neighbours(command) => command.run(&common),
        Command::Registrations(command) => command.run(&common),
        Command::Bundle(command) => command.run(&common),
        Command::Channel(command) => command.run(&common),
        Command::Iperf(command) => command.run(&common),
        Command::Otg(command) => command.run(&common),
        Command::Otr(command) => command.run(&common),
        Command::Collect(command) => command.run(&common),
        Command::Sim(command) => command.run(&common),
        Command::Lab(command) => command.run(&common),
        Command::Completions(command) => command.run(),
        Command::Manual(command) => command.run(),
        Command::Version(command) => command.run(&common),
    }
}
