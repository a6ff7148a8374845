//! `dhow lab report`: the page of results that are there.

use std::path::{Path, PathBuf};
use std::slice;

use clap::Args;
use dhow_testbed::report::Study;
use dhow_testbed::results::Results;
use serde_json::Value;

use super::study::{shown, unkept, write_page};
use crate::failure::{Ending, Failure};
use crate::output;

/// Make the report of results that are there
///
/// Results of a directory of scenarios get one page for all and one for each. Also rewrites the tables of all runs; those of an interrupted sweep have the runs that are done. Exits with 1 if a run has more goodput than its links could carry: figures leave such a run out.
#[derive(Args, Debug)]
pub struct Report {
    /// The directory that `dhow lab run` wrote
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Report {
    /// Writes the report.
    pub fn run(&self) -> Result<Ending, Failure> {
        let (pages, studies) = report(&self.directory)?;
        for page in pages {
            output::line(&page.display().to_string())?;
        }
        let mut impossible = studies.iter().flat_map(Study::impossible).peekable();
        let ending = match impossible.peek() {
            Some(_) => Ending::Incomplete,
            None => Ending::Done,
        };
        for (run, what) in impossible {
            output::note(&format!("run {run}: {what}"));
        }
        Ok(ending)
    }
}

/// Writes the pages of a directory of results, of one scenario or several: where they are, that of all last, and what is on them.
fn report(directory: &Path) -> Result<(Vec<PathBuf>, Vec<Study>), Failure> {
    let places = studies(directory)?;
    if places.is_empty() {
        let (page, study) = of_one(directory)?;
        return Ok((vec![page], vec![study]));
    }
    let (mut pages, mut all) = (Vec::new(), Vec::new());
    for place in places {
        let (page, study) = of_one(&place)?;
        pages.push(page);
        all.push(study);
    }
    pages.push(of_all(directory, &all)?);
    Ok((pages, all))
}

/// Writes the tables of all runs of a scenario, and its page: where that is, and what is on it.
pub fn of_one(directory: &Path) -> Result<(PathBuf, Study), Failure> {
    let results = Results::open(directory).map_err(|error| unkept(&error))?;
    results.gather().map_err(|error| unkept(&error))?;
    let study = shown(&results)?;
    let page = write_page(directory, &study.question.title, slice::from_ref(&study))?;
    Ok((page, study))
}

/// Writes the page of several scenarios' results, which has the name of the lab that the scenarios are of.
pub fn of_all(directory: &Path, studies: &[Study]) -> Result<PathBuf, Failure> {
    let lab = studies.first().and_then(|study| study.manifest.get("lab"));
    let own = || {
        directory
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let title = lab.and_then(Value::as_str).map_or_else(own, str::to_owned);
    write_page(directory, &title, studies)
}

/// Directories of several scenarios' results in this one, in the order of their names.
fn studies(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| {
        let what = format!("cannot read {}: {error}", directory.display());
        Failure::refused(what).with_hint("`dhow lab run --out DIR` makes one")
    };
    let is_of_one = |path: &Path| path.join("manifest.json").is_file();
    if is_of_one(directory) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if is_of_one(&path) {
            found.push(path);
        }
    }
    found.sort();
    match found.is_empty() {
        false => Ok(found),
        true => {
            let what = format!("there are no results in {}", directory.display());
            Err(Failure::refused(what).with_hint("`dhow lab run --out DIR` makes them"))
        }
    }
}
