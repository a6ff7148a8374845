//! One of two results: the measurements of each of its runs that came to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::seeds;
use crate::report::{Measure, RunSummary, Study};
use crate::results::{Backend, Point, ResultsError, Status};

/// Figures of programs that are compared, at most.
const FIGURES_MAX: usize = 64;

/// Why two results are not compared.
#[derive(Debug, Error)]
pub enum CompareError {
    /// A directory has no results.
    #[error("{} has no results", .0.display())]
    NoResults(PathBuf),
    /// No run of a result came to its end.
    #[error("no run in {} came to its end", .0.display())]
    NoRun(PathBuf),
    /// A table cannot be read.
    #[error("{}: {what}", path.display())]
    Table {
        /// The table.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// The results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Nothing was run, or measured, with the same settings in both.
    #[error("the results have nothing in common: {a} is in the first alone, and {b} in the second")]
    NothingShared {
        /// Settings of runs of the first.
        a: String,
        /// Settings of runs of the second.
        b: String,
    },
}

impl CompareError {
    /// A remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoResults(_) => {
                "`dhow lab run --out DIR` and `dhow sim run --out DIR` make results"
            }
            Self::NoRun(_) => "`dhow lab run --resume --out DIR` runs what is planned and not done",
            Self::Table { .. } | Self::Results(_) => {
                "results have regular files alone, and a run whose tables are damaged is run again once its directory is removed: `dhow lab run --resume --out DIR`"
            }
            Self::NothingShared { .. } => {
                "compare results of one lab, or of labs that sweep the same keys with some of the same values"
            }
        }
    }
}

/// One run that came to its end.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) backend: Backend,
    pub(crate) point: Point,
    pub(crate) seed: u64,
    /// Values by the name that a measure has in `[report]`.
    pub(crate) values: BTreeMap<String, f64>,
}

/// One of two results.
#[derive(Debug)]
pub struct Side {
    pub(super) directory: PathBuf,
    pub(super) manifest: Value,
    pub(super) samples: Vec<Sample>,
    /// Its measures, in the order in which they are shown.
    pub(super) measures: Vec<Measure>,
    /// Summaries that know the units of programs' figures.
    pub(super) summaries: Vec<RunSummary>,
    /// Runs that are in no figure, and why.
    pub(super) failed: Vec<String>,
    /// Runs that are planned, of which there are no complete tables.
    pub(super) unfinished: usize,
    /// The key that goes along in its report.
    pub(super) x: Option<String>,
}

impl Side {
    /// The runs of a study.
    ///
    /// # Errors
    /// When none came to its end.
    pub fn of_study(directory: &Path, study: &Study) -> Result<Self, CompareError> {
        let (torn, done): (Vec<&RunSummary>, Vec<&RunSummary>) =
            study.done().partition(|it| is_torn(it));
        let measures = measures(study, &done);
        let sample = |summary: &&RunSummary| Sample {
            backend: summary.run.backend,
            point: summary.run.point.clone(),
            seed: summary.run.seed,
            values: (measures.iter())
                .filter_map(|measure| Some((measure.key(), measure.of(summary)?)))
                .filter(|(_, value)| value.is_finite())
                .collect(),
        };
        let samples: Vec<Sample> = done.iter().map(sample).collect();
        let failed = study.runs.iter().filter(|it| it.run.status != Status::Done);
        let failed = failed.map(|it| format!("run {}: {}", it.run.run, it.run.status));
        let torn = torn.iter().map(|it| format!("run {}: {TORN}", it.run.run));
        let planned = planned(&study.manifest);
        if samples.is_empty() {
            return Err(CompareError::NoRun(directory.to_path_buf()));
        }
        Ok(Self {
            directory: directory.to_path_buf(),
            manifest: study.manifest.clone(),
            samples,
            measures,
            failed: failed.chain(torn).collect(),
            unfinished: planned.saturating_sub(study.runs.len()),
            x: study.question.x.clone(),
            summaries: study.runs.clone(),
        })
    }

    /// The runs in tables of `dhow sim run`; nothing where a directory has none.
    ///
    /// # Errors
    /// When they cannot be read, or no run came to its end.
    pub fn of_seeds(directory: &Path) -> Result<Option<Self>, CompareError> {
        if !seeds::is_of_seeds(directory) {
            return Ok(None);
        }
        let (samples, failed) = seeds::read(directory)?;
        if samples.is_empty() {
            return Err(CompareError::NoRun(directory.to_path_buf()));
        }
        let mut measures: Vec<Measure> = Vec::new();
        for key in samples.iter().flat_map(|it| it.values.keys()) {
            let measure = key.parse::<Measure>();
            measures.extend(measure.ok().filter(|it| !measures.contains(it)));
        }
        Ok(Some(Self {
            directory: directory.to_path_buf(),
            manifest: Value::Null,
            samples,
            measures,
            summaries: Vec::new(),
            failed,
            unfinished: 0,
            x: None,
        }))
    }

    /// True if a directory has results of one scenario, or did before it was damaged.
    #[must_use]
    pub fn is_of_one(directory: &Path) -> bool {
        directory.join("manifest.json").exists() || seeds::is_of_seeds(directory)
    }

    /// Directories of results of one scenario each in this one, by their names.
    #[must_use]
    pub fn within(directory: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| Self::is_of_one(&entry.path()));
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    /// The directory of the results.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The number of its runs that came to their end.
    #[must_use]
    pub fn done(&self) -> usize {
        self.samples.len()
    }

    /// Runs that are in no figure, and why.
    #[must_use]
    pub fn failed(&self) -> &[String] {
        &self.failed
    }

    /// Runs that are planned, of which there are no complete tables.
    #[must_use]
    pub const fn unfinished(&self) -> usize {
        self.unfinished
    }
}

/// Why a run is in no figure whose `payloads.csv` has less than its other tables say.
pub(super) const TORN: &str = "payloads.csv has not all that was delivered";

/// Whether payloads are missing that a run's seal counts.
fn is_torn(summary: &RunSummary) -> bool {
    let octets: u64 = summary.flows.iter().map(|flow| flow.octets).sum();
    octets < summary.run.delivered_octets
}

/// The number of runs that a manifest plans, on all its backends.
fn planned(manifest: &Value) -> usize {
    let length = |key: &str| {
        manifest
            .get(key)
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    };
    length("runs") * length("backends").max(1)
}

/// The measures that the report of a study shows: those asked for, the usual ones, and figures of programs.
fn measures(study: &Study, done: &[&RunSummary]) -> Vec<Measure> {
    let question = &study.question;
    let asked = [&study.y].into_iter().chain(&question.table);
    let mut all: Vec<Measure> = Vec::new();
    let mut add = |measure: Measure| {
        let has_value = done.iter().any(|summary| measure.of(summary).is_some());
        if has_value && !all.contains(&measure) {
            all.push(measure);
        }
    };
    asked.chain(&question.more).cloned().for_each(&mut add);
    Measure::usual().into_iter().for_each(&mut add);
    if done
        .iter()
        .any(|it| it.run.samples + it.run.samples_lost > 0)
    {
        Measure::of_measurements().into_iter().for_each(&mut add);
    }
    let figures = done.iter().flat_map(|summary| &summary.figures);
    let figures: BTreeSet<(&str, &str)> = figures
        .map(|it| (it.program.as_str(), it.name.as_str()))
        .collect();
    for (program, name) in figures.into_iter().take(FIGURES_MAX) {
        add(Measure::Figure(name.to_owned(), Some(program.to_owned())));
    }
    all
}
