//! One scenario's runs, and the questions about them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dhow_scenario::regular_file::RegularFile;
use thiserror::Error;

use super::measure::{Measure, Reading, did_you_mean};
use super::statistics::Spread;
use super::summary::{Course, RunSummary};
use crate::results::{Backend, Results, ResultsError, Status};

/// Octets of what others found, at most.
const PAPER_OCTETS_MAX: u64 = 64 << 20;

/// The margin of what is expected to be level, where none is said.
const MARGIN: f64 = 0.01;

/// Why there is no report.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The results of runs cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// `[report]` asks for something that there is not.
    #[error("[report]: {0}")]
    Question(String),
    /// The figures of others cannot be read.
    #[error("{}: {what}", path.display())]
    Paper {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
}

/// The expected course of a curve, from its first point to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The last is at least a tenth above the first.
    Rises,
    /// The last is at least a tenth below the first.
    Falls,
    /// All points are the same within a margin.
    Level,
}

/// A point of what others found: a line of the file that `paper` names.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub struct Others {
    /// The value along, as a sweep has it.
    pub x: String,
    /// The curve: the value of `group_by`, or a name of its own.
    #[serde(default)]
    pub group: String,
    /// The value found: bit/s, seconds or a share of 1.
    pub value: f64,
    /// Its standard deviation.
    #[serde(default)]
    pub deviation: Option<f64>,
    /// The least.
    #[serde(default)]
    pub least: Option<f64>,
    /// The greatest.
    #[serde(default)]
    pub most: Option<f64>,
    /// The table or figure.
    #[serde(default)]
    pub source: String,
}

impl Others {
    /// The range around the value: from the least to the most, or one standard deviation to each side; nothing where neither is known.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let told = self.least.zip(self.most);
        told.or_else(|| Some((self.value - self.deviation?, self.value + self.deviation?)))
    }
}

/// The question of a scenario's `[report]`.
#[derive(Clone, Debug)]
pub struct Question {
    /// The report's title.
    pub title: String,
    /// The question that it is to answer.
    pub question: String,
    /// The findings of others, in a sentence.
    pub found: String,
    /// A hypothesis of others that is tested, in a sentence.
    pub hypothesis: String,
    /// The key that goes along; nothing where nothing is swept.
    pub x: Option<String>,
    /// The measure on the vertical axis; nothing if that is left to the runs.
    pub y: Option<Measure>,
    /// More measures, for the table.
    pub table: Vec<Measure>,
    /// More measures, each with a picture.
    pub more: Vec<Measure>,
    /// The keys whose values make a curve of their own each; all that are swept but the one along, where there is none.
    pub group_by: Vec<String>,
    /// The key with a picture for each of its values, and a table.
    pub apart: Option<String>,
    /// True for a logarithmic horizontal axis.
    pub log_x: bool,
    /// True for a logarithmic vertical axis.
    pub log_y: bool,
    /// The expected course of each curve.
    pub expects: Option<Expected>,
    /// The value along from which on; nothing for the first.
    pub expects_from: Option<String>,
    /// The part of the mean by which what is expected to be level may differ.
    pub margin: f64,
    /// The figures of others.
    pub others: Vec<Others>,
}

impl Question {
    /// Reads the keys of `[report]`; files that they name are beside `directory`.
    ///
    /// # Errors
    /// When they ask for something that is not there.
    pub fn read(
        name: &str,
        keys: &BTreeMap<&'static str, String>,
        directory: &Path,
    ) -> Result<Self, ReportError> {
        let text = |key: &str| keys.get(key).cloned().unwrap_or_default();
        let set = |key: &str| Some(text(key)).filter(|text| !text.is_empty());
        let yes = |key: &str| set(key).is_some_and(|text| text != "no");
        let y = set("y").map(|y| y.parse().map_err(ReportError::Question));
        // The texts of a list are lines.
        let table = text("table");
        let table = table.lines().map(str::parse);
        let table: Result<Vec<Measure>, String> = table.collect();
        let more = text("more");
        let more = more.split(',').map(str::trim).filter(|y| !y.is_empty());
        let more = more.map(|y| y.parse().map_err(ReportError::Question));
        let expects = match set("expects").as_deref() {
            None => None,
            Some("rises") => Some(Expected::Rises),
            Some("falls") => Some(Expected::Falls),
            Some("level") => Some(Expected::Level),
            Some(other) => {
                let meant = did_you_mean(other, &["rises", "falls", "level"]);
                let what = format!(
                    "expects has no '{other}': {meant}'rises', 'falls' and 'level' are what it can be"
                );
                return Err(ReportError::Question(what));
            }
        };
        let margin = match set("margin") {
            None => MARGIN,
            Some(text) => parse_margin(&text).ok_or_else(|| {
                let what = format!("margin is not a fraction: '{text}'; for example 5%");
                ReportError::Question(what)
            })?,
        };
        let others = match set("paper") {
            None => Vec::new(),
            Some(file) => read_others(&directory.join(file))?,
        };
        Ok(Self {
            title: set("title").unwrap_or_else(|| name.to_owned()),
            question: text("question"),
            found: text("found"),
            hypothesis: text("hypothesis"),
            x: set("x"),
            y: y.transpose()?,
            table: table.map_err(ReportError::Question)?,
            more: more.collect::<Result<_, _>>()?,
            group_by: set("group_by").into_iter().collect(),
            apart: set("apart"),
            log_x: yes("log_x"),
            log_y: yes("log_y"),
            expects,
            expects_from: set("expects_from"),
            margin,
            others,
        })
    }
}

impl Question {
    /// Says whether the keys that go along or make curves are among those that are swept.
    ///
    /// # Errors
    /// When one is not: all runs would be one point.
    pub fn check_swept(&self, swept: &[&str]) -> Result<(), ReportError> {
        let measures = self.y.iter().chain(&self.table).chain(&self.more);
        let asked = (self.x.as_deref().map(|it| ("x", it)).into_iter())
            .chain(self.group_by.iter().map(|it| ("group_by", it.as_str())))
            .chain(self.apart.as_deref().map(|it| ("apart", it)))
            .chain(measures.filter_map(|it| Some(("the key of a measure", it.swept()?))));
        let Some((key, value)) = { asked }.find(|(_, value)| !swept.contains(value)) else {
            return Ok(());
        };
        let what = match swept {
            [] => "nothing is".to_owned(),
            [one] => format!("'{one}' is"),
            all => format!("{}'{}' are", did_you_mean(value, all), all.join("', '")),
        };
        let what = format!("{key} is '{value}', which is not swept: {what}");
        Err(ReportError::Question(what))
    }
}

/// `5%`, above nothing.
fn parse_margin(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
}

fn read_others(path: &Path) -> Result<Vec<Others>, ReportError> {
    let failed = |error: csv::Error| ReportError::Paper {
        path: path.to_path_buf(),
        what: error.to_string(),
    };
    let file = RegularFile::open(path, PAPER_OCTETS_MAX).map_err(|error| failed(error.into()))?;
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .from_reader(file);
    let rows = reader.deserialize();
    let others: Vec<Others> = rows.collect::<Result<_, _>>().map_err(failed)?;
    let numbers = |it: &Others| [Some(it.value), it.deviation, it.least, it.most];
    let is_none = |it: &&Others| numbers(it).into_iter().flatten().any(|it| !it.is_finite());
    match others.iter().find(is_none) {
        None => Ok(others),
        Some(it) => Err(ReportError::Paper {
            path: path.to_path_buf(),
            what: format!("the numbers of '{}' are not all finite", it.x),
        }),
    }
}

/// Runs, and the questions about them.
#[derive(Clone, Debug)]
pub struct Study {
    /// The question.
    pub question: Question,
    /// The measure shown: that of the question, or else goodput, or of runs without payloads the first figure that a program
    /// printed.
    pub y: Measure,
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// The first that came to its end, over time.
    pub shown: Option<Course>,
    /// The programs and the machine of the runs.
    pub manifest: serde_json::Value,
}

/// The key of curves that differ in where they ran.
const BACKEND: &str = "backend";

/// Runs that differ only in their seed.
pub(crate) struct Cell<'a> {
    /// The value along; nothing where nothing goes along.
    pub(crate) x: String,
    /// The name of its curve.
    pub(crate) group: String,
    /// The keys that make its curve, with their values.
    pub(crate) keys: Vec<(String, String)>,
    /// The runs that came to their end.
    pub(crate) runs: Vec<&'a RunSummary>,
    /// Runs that failed by themselves.
    pub(crate) failed: usize,
}

impl Cell<'_> {
    /// The values of its runs, one of each seed; nothing where none has one.
    pub(crate) fn spread(&self, measure: &Measure) -> Option<Spread> {
        let values = self.runs.iter();
        Spread::of_seeds(
            values.filter_map(|summary| Some((summary.run.seed, measure.of(summary)?))),
        )
    }

    /// Runs without a value since something failed: a program whose failure is a finding, or the run.
    pub(crate) fn failures(&self, measure: &Measure) -> usize {
        let runs = self.runs.iter();
        let without = runs.filter(|it| it.failures().next().is_some() && measure.of(it).is_none());
        self.failed + without.count()
    }

    /// Half the interval of confidence of a mean, as it is read; nothing for one value.
    pub(crate) fn confidence(&self, spread: &Spread, reading: &Reading) -> Option<String> {
        match self.is_of_no_seed(spread) {
            true => Some("identical for all seeds".to_owned()),
            false => spread.confidence().map(|half| reading.said(half)),
        }
    }

    /// True if repeats in virtual time gave one value, so that more repeats tell no more.
    pub(crate) fn is_of_no_seed(&self, spread: &Spread) -> bool {
        let mut runs = self.runs.iter();
        spread.is_one() && runs.all(|summary| summary.run.backend == Backend::Sim)
    }

    /// The values of its keys; empty if it is the only cell.
    pub(crate) fn name(&self) -> String {
        let parts = [self.x.as_str(), self.group.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    }
}

impl Study {
    /// Reads what runs left.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(question: Question, results: &Results) -> Result<Self, ReportError> {
        let (mut runs, mut shown) = (Vec::new(), None);
        for run in results.runs()? {
            let course = Course::read(run, results)?;
            runs.push(course.summary.clone());
            if shown.is_none() && course.summary.run.status == Status::Done {
                shown = Some(course);
            }
        }
        let y = question.y.clone();
        Ok(Self {
            y: y.unwrap_or_else(|| usual(&runs)),
            question,
            runs,
            shown,
            manifest: results.manifest()?,
        })
    }

    /// The same runs, of which something else is shown, and others' figures are not.
    pub(crate) fn by(&self, y: &Measure) -> Self {
        let question = Question {
            others: Vec::new(),
            ..self.question.clone()
        };
        Self {
            question,
            y: y.clone(),
            ..self.clone()
        }
    }

    /// The key of which each value has a picture, with this study as it makes curves for those values, too; nothing where `[report]` names none.
    pub(crate) fn apart(&self) -> Option<(String, Self)> {
        let apart = self.question.apart.clone()?;
        let mut group_by = self.question.group_by.clone();
        if group_by.is_empty() {
            let keys = self.runs.iter().flat_map(|it| &it.run.point.0);
            for (key, _) in keys.filter(|(key, _)| self.question.x.as_ref() != Some(key)) {
                if !group_by.contains(key) {
                    group_by.push(key.clone());
                }
            }
        } else if !group_by.contains(&apart) {
            group_by.push(apart.clone());
        }
        let question = Question {
            group_by,
            ..self.question.clone()
        };
        let study = Self {
            question,
            ..self.clone()
        };
        Some((apart, study))
    }

    /// Runs of which more was delivered than their links could carry, and what of it.
    pub fn impossible(&self) -> impl Iterator<Item = (&str, String)> {
        let runs = self.runs.iter().filter(|summary| summary.is_impossible);
        runs.map(|summary| (summary.run.run.as_str(), summary.run.status.to_string()))
    }

    /// The runs that came to their end.
    pub(crate) fn done(&self) -> impl Iterator<Item = &RunSummary> {
        let done = |summary: &&RunSummary| summary.run.status == Status::Done;
        self.runs.iter().filter(done)
    }

    /// The backends of the runs, in order; more than one makes a curve of each.
    pub(crate) fn backends(&self) -> Vec<crate::results::Backend> {
        let mut backends: Vec<_> = self
            .runs
            .iter()
            .map(|summary| summary.run.backend)
            .collect();
        backends.sort();
        backends.dedup();
        backends
    }

    /// The value along of a run.
    pub(crate) fn x_of(&self, summary: &RunSummary) -> String {
        let key = self.question.x.as_deref();
        let value = key.and_then(|key| summary.run.point.value(key));
        value.unwrap_or_default().to_owned()
    }

    /// The keys that make the curve of a run, with their values.
    fn keys_of(&self, summary: &RunSummary) -> Vec<(String, String)> {
        let along = self.question.x.as_deref();
        let asked = &self.question.group_by;
        let is_key = |key: &str| match asked.is_empty() {
            false => asked.iter().any(|it| it == key),
            // Without the other swept keys, runs with different values of them would be one point.
            true => Some(key) != along && Some(key) != self.question.apart.as_deref(),
        };
        let keys = summary.run.point.0.iter();
        let mut keys: Vec<_> = keys.filter(|(key, _)| is_key(key)).cloned().collect();
        if self.backends().len() > 1 {
            keys.push((BACKEND.to_owned(), summary.run.backend.to_string()));
        }
        keys
    }

    /// The name of the curve of some keys.
    fn group_named(&self, keys: &[(String, String)]) -> String {
        let is_one = self.question.group_by.len() == 1;
        let parts = keys.iter().map(|(key, value)| match is_one {
            false if key != BACKEND => format!("{key} = {value}"),
            _ => value.clone(),
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// All cells, by curve and then along it, each in the order in which the sweep names them.
    pub(crate) fn cells(&self) -> Vec<Cell<'_>> {
        let mut cells: Vec<Cell<'_>> = Vec::new();
        for summary in &self.runs {
            let (x, keys) = (self.x_of(summary), self.keys_of(summary));
            let group = self.group_named(&keys);
            let whole = summary.run.status == Status::Done;
            let runs = if whole { vec![summary] } else { Vec::new() };
            let failed = usize::from(matches!(summary.run.status, Status::Failed(_)));
            match cells.iter_mut().find(|it| it.x == x && it.group == group) {
                Some(cell) => {
                    cell.runs.extend(runs);
                    cell.failed += failed;
                }
                None => cells.push(Cell {
                    x,
                    group,
                    keys,
                    runs,
                    failed,
                }),
            }
        }
        let mut groups: Vec<String> = Vec::new();
        for cell in &cells {
            if !groups.contains(&cell.group) {
                groups.push(cell.group.clone());
            }
        }
        cells.sort_by_key(|cell| groups.iter().position(|it| *it == cell.group));
        cells
    }
}

/// The measure of runs if none is asked for.
fn usual(runs: &[RunSummary]) -> Measure {
    let done = || {
        runs.iter()
            .filter(|summary| summary.run.status == Status::Done)
    };
    let figure = done().find_map(|summary| summary.figures.first());
    match figure.filter(|_| done().all(|summary| summary.run.sent == 0)) {
        Some(it) => Measure::Figure(it.name.clone(), Some(it.program.clone())),
        None => Measure::Goodput,
    }
}
