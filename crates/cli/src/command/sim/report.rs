//! The files of a report: a page with pictures, and tables.

use std::fs;
use std::path::Path;

use dhow_sim::Outcome;
use dhow_sim::report::{Tables, page, tables};

use crate::failure::Failure;
use crate::interrupt::UnfinishedFile;

/// A report that grows by a run at a time.
#[derive(Debug)]
pub struct Report {
    name: String,
    tables: Tables,
    outcomes: Vec<Outcome>,
    /// The run that is shown in pictures: the first with a violation, or the first.
    shown: Option<Outcome>,
}

impl Report {
    /// One without runs.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            tables: Tables::headings(),
            outcomes: Vec::new(),
            shown: None,
        }
    }

    /// How many runs there are.
    pub const fn runs(&self) -> usize {
        self.outcomes.len()
    }

    /// Adds a run.
    pub fn add(&mut self, mut outcome: Outcome) {
        let lines = tables(&outcome);
        self.tables.samples.push_str(&lines.samples);
        self.tables.payloads.push_str(&lines.payloads);
        self.tables.links.push_str(&lines.links);
        let better = self
            .shown
            .as_ref()
            .is_none_or(|shown| shown.findings.is_empty() && !outcome.findings.is_empty());
        if better {
            self.shown = Some(outcome.clone());
        }
        // What only the pictures and tables want is not kept of every run.
        outcome.samples = Vec::new();
        outcome.payloads = Vec::new();
        self.outcomes.push(outcome);
    }

    /// Writes everything into a directory, which is made where it is missing.
    pub fn write(&self, directory: &Path) -> Result<(), Failure> {
        let Some(shown) = &self.shown else {
            return Ok(());
        };
        fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        let page = page(&self.name, &self.outcomes, shown);
        for (name, text) in [
            ("report.html", &page),
            ("samples.csv", &self.tables.samples),
            ("payloads.csv", &self.tables.payloads),
            ("links.csv", &self.tables.links),
        ] {
            let path = directory.join(name);
            let unfinished = UnfinishedFile::new(directory.join(format!("{name}.part")));
            fs::write(unfinished.path(), text)
                .and_then(|()| fs::rename(unfinished.path(), &path))
                .map_err(|error| failed(&path, &error))?;
            unfinished.keep();
        }
        Ok(())
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::refused(format!("cannot write {}: {error}", path.display()))
}
