//! The files of a report: a page with pictures, and tables that are written as runs end.

use std::fs;
use std::path::{Path, PathBuf};

use dhow_sim::Outcome;
use dhow_sim::report::{Summary, Tables, page, tables};

use super::written::{Written, failed};
use crate::failure::Failure;

/// A report that grows by a run at a time.
#[derive(Debug)]
pub struct Report {
    name: String,
    directory: PathBuf,
    tables: Vec<Written>,
    runs: Vec<Summary>,
    /// The run that is shown in pictures: the first with a violation, or the first that was not interrupted.
    shown: Option<Outcome>,
}

impl Report {
    /// A report without runs, of a scenario of this name; the directory is made where it is missing, and what cannot be written
    /// there is known before anything runs.
    pub fn begin(name: &str, directory: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(directory).map_err(|error| {
            failed(directory, &error)
                .with_hint("--out names a directory that is there or can be made")
        })?;
        let mut tables = Vec::new();
        for (name, heading) in named(&Tables::headings()) {
            let mut table = Written::create(&directory.join(name))?;
            table.add(heading.as_bytes())?;
            tables.push(table);
        }
        Ok(Self {
            name: name.to_owned(),
            directory: directory.to_owned(),
            tables,
            runs: Vec::new(),
            shown: None,
        })
    }

    /// Adds a run.
    pub fn add(&mut self, outcome: Outcome) -> Result<(), Failure> {
        for (table, (_, lines)) in self.tables.iter_mut().zip(named(&tables(&outcome))) {
            table.add(lines.as_bytes())?;
        }
        self.runs.push(Summary::of(&outcome));
        let rank = |it: &Outcome| (!it.findings.is_empty(), !it.interrupted);
        let better = (self.shown.as_ref()).is_none_or(|shown| rank(shown) < rank(&outcome));
        if better {
            self.shown = Some(outcome);
        }
        Ok(())
    }

    /// Finishes all files; there are none where nothing has run.
    pub fn finish(self) -> Result<(), Failure> {
        let Some(shown) = &self.shown else {
            drop(self.tables);
            // It stays where somebody else has files in it.
            let _ = fs::remove_dir(&self.directory);
            return Ok(());
        };
        let mut page_file = Written::create(&self.directory.join("report.html"))?;
        page_file.add(page(&self.name, &self.runs, shown).as_bytes())?;
        page_file.finish()?;
        self.tables.into_iter().try_for_each(Written::finish)
    }
}

/// Tables with the names of their files.
fn named(tables: &Tables) -> [(&'static str, &str); 5] {
    [
        ("samples.csv", &tables.samples),
        ("payloads.csv", &tables.payloads),
        ("links.csv", &tables.links),
        ("nodes.csv", &tables.nodes),
        ("runs.csv", &tables.runs),
    ]
}
