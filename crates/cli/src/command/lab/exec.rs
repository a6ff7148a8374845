//! `dhow lab exec`: a command at a node of a lab.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use dhow_testbed::namespace;

use super::up;
use crate::failure::{Ending, Failure};

/// Run a command in the network namespace of a lab's node
///
/// DHOW_NODE is set, so that `dhow` commands speak with the node: `dhow lab exec LAB east -- dhow status`.
#[derive(Args, Debug)]
pub struct Exec {
    /// The lab
    #[arg(value_name = "LAB")]
    lab: String,
    /// The node
    #[arg(value_name = "NODE")]
    host: String,
    /// The command
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<String>,
}

impl Exec {
    /// Becomes the command.
    pub fn run(&self) -> Result<Ending, Failure> {
        let state = up::find(Some(&self.lab))?;
        let Some(node) = state.nodes.iter().find(|node| node.name == self.host) else {
            let names: Vec<&str> = state.nodes.iter().map(|node| node.name.as_str()).collect();
            let what = format!("lab {} has no node '{}'", self.lab, self.host);
            let hint = format!("it has {}", names.join(", "));
            return Err(Failure::refused(what).with_hint(hint));
        };
        let failed = |error: std::io::Error| {
            let what = format!(
                "cannot run '{}' at '{}': {error}",
                self.command.join(" "),
                self.host
            );
            Failure::refused(what)
        };
        let Some((program, words)) = self.command.split_first() else {
            return Err(Failure::usage("there is no command"));
        };
        namespace::enter(&node.namespace).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(words);
        if let Some(api) = &node.api {
            command.env("DHOW_NODE", api);
        }
        // This returns only where the command cannot be run.
        Err(failed(command.exec()))
    }
}
