//! `dhow lab graph`: a scenario's network as a picture.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dhow_scenario::Scenario;
use dhow_testbed::graph::{dot, svg};

use super::study::{Settings, Study};
use crate::failure::{Ending, Failure};
use crate::output;

/// Draw a scenario's network
#[derive(Args, Debug)]
pub struct Graph {
    /// The scenario
    #[arg(value_name = "FILE")]
    scenario: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// As what
    #[arg(long, value_enum, default_value = "svg")]
    format: Picture,
}

/// The format of the picture.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Picture {
    /// A picture for browsers
    Svg,
    /// Text for Graphviz
    Dot,
}

impl Graph {
    /// Draws the scenario.
    pub fn run(&self) -> Result<Ending, Failure> {
        let plan = Study::plan(&self.scenario, &self.settings)?;
        let first = plan.runs.iter().min_by_key(|run| run.number);
        let scenario: Option<Scenario> = first.and_then(|run| plan.scenario(run).ok());
        let Some(scenario) = scenario else {
            return Err(Failure::usage("the scenario has no runs"));
        };
        output::text(&match self.format {
            Picture::Svg => svg(&scenario),
            Picture::Dot => dot(&scenario),
        })?;
        Ok(Ending::Done)
    }
}
