//! `dhow manual`: manual pages of all commands.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::failure::{Ending, Failure};

/// Write manual pages of all commands into a directory
///
/// `man -l DIR/dhow-send.1` shows one. They say what --help says.
#[derive(Args, Debug)]
pub struct Manual {
    /// Directory, made where it is missing; pages of the same name are replaced
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Manual {
    /// Writes the manual pages.
    pub fn run(&self) -> Result<Ending, Failure> {
        let failed = |path: &Path, error: &std::io::Error| {
            Failure::refused(format!("cannot write {}: {error}", path.display()))
                .with_hint("name a directory that may be written")
        };
        let directory = self.directory.as_path();
        fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        let mut command = Arguments::command();
        command.build();
        let mut waiting = Vec::from([command]);
        while let Some(command) = waiting.pop() {
            let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
            waiting.extend(shown.filter(|it| it.get_name() != "help").cloned());
            let man = Man::new(command);
            let path = directory.join(man.get_filename());
            let mut page = Vec::new();
            man.render(&mut page)
                .map_err(|error| failed(&path, &error))?;
            fs::write(&path, page).map_err(|error| failed(&path, &error))?;
        }
        Ok(Ending::Done)
    }
}
