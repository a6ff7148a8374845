//! `dhow`: the one command of the project.
//!
//! Start at [`arguments`] (what can be asked), then `command` (one file for each noun that answers). A
//! command returns an [`Ending`](failure::Ending) or a [`Failure`](failure::Failure); nothing else decides exit codes. stdout carries data,
//! stderr talk ([`output`]); what nodes tell comes through [`admin`] and the application API.

mod address;
mod admin;
mod application;
mod arguments;
mod build;
mod bundle_options;
mod calendar;
mod command;
mod database;
mod digest;
mod failure;
mod file_name;
mod interrupt;
mod measured;
mod measurement;
mod names;
mod notes;
mod output;
mod packet_point;
mod portion;
mod progress;
mod quantity;
mod report_kind;
mod socket_address;
mod steady_sender;
mod table;
mod token;
mod tree;

use std::process::ExitCode;

use clap::Parser as _;
use mimalloc::MiMalloc;

/// A node makes and drops some small objects for each bundle, on one thread and another.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    match command::run(arguments) {
        Ok(ending) => ending.into(),
        Err(failure) => {
            failure.report();
            (&failure).into()
        }
    }
}
