//! `dhow completions`: a script for a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::{Ending, Failure};
use crate::output;

/// Write a completion script for a shell
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Writes the script to stdout.
    pub fn run(&self) -> Result<Ending, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "dhow", &mut script);
        output::text(&String::from_utf8_lossy(&script))?;
        Ok(Ending::Done)
    }
}
