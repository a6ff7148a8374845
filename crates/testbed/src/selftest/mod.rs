//! Links, measured by themselves: whether they have the delay, the rate and the losses that they are asked for, and never give more.
//!
//! [`trials`] has the requests and the measures held against them, as values; [`run`] does one of them over a link between two namespaces.

mod flight;
mod judge;

use std::path::Path;

use dhow_scenario::Scenario;
use serde::Serialize;

use crate::failure::LabError;
use crate::run::{Check, Lab, Plot};
use flight::{Flight, Load};
use judge::Judge;

/// A link that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The property that is measured.
    pub name: &'static str,
    /// The kind of the link, as a scenario says it.
    by: &'static str,
    /// Keys of the link, as a scenario has them.
    keys: &'static str,
    load: Load,
    judge: Judge,
}

/// The result of a trial.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Finding {
    /// The property that was measured.
    pub name: String,
    /// The link.
    pub link: String,
    /// The value that was asked of the link.
    pub asked: String,
    /// The value that was measured.
    pub measured: String,
    /// The largest error.
    pub bound: String,
    /// True if the value was within the bound; `None` if nothing is asked.
    pub held: Option<bool>,
}

/// All trials.
#[must_use]
pub const fn trials() -> &'static [Trial] {
    judge::TRIALS
}

/// Does one, in a lab of its own whose files are below a directory.
///
/// # Errors
/// When there can be no lab.
pub fn run(trial: &Trial, directory: &Path) -> Result<Finding, LabError> {
    let (by, keys) = (trial.by, trial.keys);
    let text = format!(
        "[[node]]\nname = \"left\"\nkind = \"command\"\n[[node]]\nname = \"right\"\nkind = \"command\"\n[[link]]\nbetween = [\"left\", \"right\"]\nby = \"{by}\"\n{keys}[stop]\nat = \"1min\"\n"
    );
    let scenario = Scenario::parse(Path::new("selftest.toml"), &text)
        .map_err(|error| LabError::new(error.to_string()))?;
    let check: Check = |_, _| Ok(());
    let plot = Plot {
        program: std::path::PathBuf::new(),
        directory: directory.to_path_buf(),
        check,
    };
    let lab = Lab::build(&scenario, &plot, &|| true)?;
    let Some(layout) = lab.network().map(|network| network.layout().clone()) else {
        return Err(LabError::new("the lab has no network"));
    };
    let flown = Flight::over(&layout, trial.load);
    lab.clear()?;
    let keys = keys.trim().replace(['\n', '"'], " ").replace("  ", " ");
    let made = layout.links.first().map_or("", |link| link.made.name());
    let link = format!("{made}: {}", keys.trim_end());
    Ok(trial.judge.judge(trial, link, &flown?))
}
