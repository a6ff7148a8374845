//! `dhow lab oedl`: an experiment in the language of OMF, as a scenario, and its runs.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use dhow_testbed::oedl::{Note, OedlError, Options, Script, evaluate};
use serde_json::json;

use super::rootless;
use super::run::Run;
use super::study::{Settings, name_of};
use crate::arguments::{Common, parse_rate};
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};

const AFTER_HELP: &str = "\
Examples:
  dhow lab oedl labs/overhead/otg-all.rb --print -- --runtime 30
  dhow lab oedl labs/overhead/otg-all.rb --link-rate 28Mbit --out results";

/// Run an experiment in OEDL, the language of OMF
///
/// A Ruby interpreter evaluates the script without running its programs; the programs and their start times become a scenario, which then runs as with `dhow lab run`. docs/oedl.md lists the supported commands.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Oedl {
    /// The script
    #[arg(value_name = "SCRIPT")]
    script: PathBuf,
    /// Values of the experiment's properties: --NAME VALUE
    #[arg(last = true, value_name = "--PROPERTY VALUE")]
    properties: Vec<String>,
    /// Write the scenario to stdout, and run nothing
    #[arg(long)]
    print: bool,
    /// Rate of links that the script does not describe [default: as fast as it goes]
    #[arg(long, value_name = "RATE", value_parser = parse_link_rate)]
    link_rate: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// Number of times that it is run
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// The directory for results [default: NAME-YYYYMMDD-HHMMSS here]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Oedl {
    /// Makes the scenario, and runs it.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        // The files that the script names are looked at once, where the lab is.
        let out = self.out.as_deref().unwrap_or(Path::new("."));
        if !self.print
            && let Some(ending) = rootless::move_inside(&[&self.script, out])?
        {
            return Ok(ending);
        }
        let (text, notes) = self.scenario()?;
        for note in &notes {
            let line = note
                .line
                .map_or_else(String::new, |line| format!("line {line}: "));
            output::note(&format!("{line}{}", note.what));
        }
        if self.print {
            match common.form() {
                Form::Text => output::text(&text)?,
                Form::Json => output::json(&json!({
                    "scenario": text,
                    "notes": notes.iter().map(|note| json!({"line": note.line, "what": note.what})).collect::<Vec<_>>(),
                }))?,
            }
            return Ok(Ending::Done);
        }
        let directory = tempfile::tempdir().map_err(|error| unwritten(&error))?;
        let path = directory
            .path()
            .join(format!("{}.toml", name_of(&self.script)));
        fs::write(&path, text).map_err(|error| unwritten(&error))?;
        Run::of(path, self.settings.clone(), self.repeats, self.out.clone()).run(common)
    }

    fn scenario(&self) -> Result<(String, Vec<Note>), Failure> {
        let path = self.script.display();
        let text = fs::read_to_string(&self.script)
            .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
        let wrong = |error: &OedlError| failed(&self.script, error);
        let properties = pairs(&self.properties)?;
        let plan = evaluate(&Script::new(&text), &properties).map_err(|error| wrong(&error))?;
        let options = Options {
            name: name_of(&self.script),
            link_rate: self.link_rate.clone(),
        };
        plan.scenario(&options).map_err(|error| wrong(&error))
    }
}

fn unwritten(error: &std::io::Error) -> Failure {
    Failure::refused(format!("cannot write the scenario: {error}"))
}

fn failed(script: &Path, error: &OedlError) -> Failure {
    let what = format!("cannot plan {}: {error}", script.display());
    let failure = match error {
        OedlError::Script { .. } | OedlError::TooLong | OedlError::TooLarge => Failure::usage(what),
        _ => Failure::refused(what),
    };
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// `--NAME VALUE` or `--NAME=VALUE`, each.
fn pairs(words: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut pairs = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--").filter(|name| !name.is_empty()) else {
            let what = format!("'{word}' is not a property of the experiment");
            return Err(
                Failure::usage(what).with_hint("after --, properties are set: --NAME VALUE")
            );
        };
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (name, words.next().map(String::as_str)),
        };
        let value = value.ok_or_else(|| Failure::usage(format!("--{name} has no value")))?;
        pairs.push((name.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// A rate as a scenario has it.
fn parse_link_rate(text: &str) -> Result<String, String> {
    parse_rate(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_names_and_values_in_turn() {
        let of = |words: &[&str]| {
            pairs(
                &words
                    .iter()
                    .map(|&word| word.to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let found = of(&["--runtime", "30", "--ip=10.0.0.1", "--x", "--y"]).unwrap();
        assert_eq!(
            found,
            [
                pair("runtime", "30"),
                pair("ip", "10.0.0.1"),
                pair("x", "--y")
            ]
        );
        assert!(of(&["runtime", "30"]).is_err() && of(&["--runtime"]).is_err());
    }
}
