//! `dhow sim import`: scenarios of other simulators.

use std::path::{Path, PathBuf};
use std::{fs, path};

use clap::{Args, Subcommand};
use dhow_scenario::the_one::Import as Imported;

use crate::failure::{Ending, Failure};
use crate::output;

/// Octets that a file of settings may have.
const FILE_OCTETS_MAX: u64 = 16 << 20;

/// Turn the settings of another simulator into a scenario
#[derive(Debug, Subcommand)]
pub enum Import {
    TheOne(TheOne),
}

impl Import {
    /// Runs the command.
    pub fn run(&self) -> Result<Ending, Failure> {
        match self {
            Self::TheOne(command) => command.run(),
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  dhow sim import the-one default_settings.txt > helsinki.toml
  dhow sim import the-one default_settings.txt prophet.txt --run 2 > prophet.toml";

/// Write a scenario of The ONE's settings
///
/// The scenario goes to stdout; stderr lists each setting that it ignores or treats differently. Settings in later files override those in earlier ones.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct TheOne {
    /// Files of settings
    #[arg(value_name = "SETTINGS", required = true)]
    settings: Vec<PathBuf>,
    /// The directory from which maps are found [default: that of the first file]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The run whose values count where a setting has several ([a; b]), from 0
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    run: usize,
}

impl TheOne {
    /// Reads, and writes.
    fn run(&self) -> Result<Ending, Failure> {
        let mut texts = Vec::new();
        for file in &self.settings {
            texts.push((file.as_path(), read(file)?));
        }
        let files: Vec<(&Path, &str)> = texts
            .iter()
            .map(|(file, text)| (*file, text.as_str()))
            .collect();
        let first = self.settings.first().and_then(|file| file.parent());
        let root = self.root.as_deref().or(first).unwrap_or(Path::new("."));
        let root = if root.as_os_str().is_empty() {
            Path::new(".")
        } else {
            root
        };
        let root = path::absolute(root)
            .map_err(|error| Failure::usage(format!("cannot find {}: {error}", root.display())))?;
        let imported = Imported::read(&files, &root, self.run).map_err(|error| {
            let failure = Failure::usage(format!("cannot import: {error}"));
            match &error.hint {
                Some(hint) => failure.with_hint(hint.clone()),
                None => failure,
            }
        })?;
        for note in &imported.notes {
            output::note(note);
        }
        output::line(imported.text.trim_end())?;
        Ok(Ending::Done)
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let wrong = |what: String| Failure::usage(format!("cannot read {}: {what}", file.display()));
    let octets = fs::metadata(file)
        .map_err(|error| wrong(error.to_string()))?
        .len();
    if octets > FILE_OCTETS_MAX {
        return Err(wrong(format!(
            "{octets} octets are more than settings have"
        )));
    }
    // Settings are read octet by octet, as Java reads them.
    let octets = fs::read(file).map_err(|error| wrong(error.to_string()))?;
    Ok(octets.into_iter().map(char::from).collect())
}
