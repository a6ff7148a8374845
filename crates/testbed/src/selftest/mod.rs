//! Links, measured by themselves: whether they have the delay, the rate and the losses that they are asked for, and never give more.
//!
//! [`trials`] has the requests and the measures held against them, as values; [`run`] does one of them over a link between two namespaces.

mod flight;
mod judge;

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use dhow_scenario::Scenario;
use serde::Serialize;

use crate::failure::LabError;
use crate::run::{Check, Lab, Plot};
use flight::{Flight, Load};
use judge::Judge;

/// A link that is measured.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The property that is measured.
    pub name: &'static str,
    /// The kind of the link, as a scenario says it.
    by: &'static str,
    /// Keys of the link, as a scenario has them.
    keys: Cow<'static, str>,
    /// The time that packets are on their way.
    delay: Duration,
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

/// All trials that take seconds.
#[must_use]
pub fn trials() -> Vec<Trial> {
    judge::trials()
}

/// The trial of a link with a long delay, of which more is under way than is in memory where it is 6 s and longer.
#[must_use]
pub fn far(delay: Duration) -> Trial {
    judge::far(delay)
}

/// Does one, in a lab of its own whose files are below a directory; nothing where `goes_on` says no before its end.
///
/// # Errors
/// When there can be no lab.
pub fn run(
    trial: &Trial,
    directory: &Path,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Finding>, LabError> {
    let (by, keys) = (trial.by, trial.keys.as_ref());
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
    let lab = Lab::build(&scenario, &plot, &goes_on)?;
    let Some(layout) = lab.network().map(|network| network.layout().clone()) else {
        return Err(LabError::new("the lab has no network"));
    };
    let flown = Flight::over(&layout, trial.load, trial.delay, goes_on);
    lab.clear()?;
    let Some(flown) = flown? else {
        return Ok(None);
    };
    let keys = keys.trim().replace(['\n', '"'], " ").replace("  ", " ");
    let made = layout.links.first().map_or("", |link| link.made.name());
    let link = format!("{made}: {}", keys.trim_end());
    Ok(Some(trial.judge.judge(trial, link, &flown)))
}
