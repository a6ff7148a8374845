//! `dhow lab down`: the end of labs that any process keeps.

use clap::Args;
use dhow_testbed::place::{State, clear};
use serde_json::json;

use super::{failure, up};
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};

/// Remove labs: their processes, namespaces and control groups, also those that a crash has left
#[derive(Args, Debug)]
pub struct Down {
    /// The lab [default: the only one]
    #[arg(value_name = "LAB", conflicts_with = "all")]
    lab: Option<String>,
    /// Remove all labs, running ones too
    #[arg(long)]
    all: bool,
}

impl Down {
    /// Removes the labs.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        interrupt::allow_longer();
        let labs = match self.all {
            true => State::all(),
            false => vec![up::find(self.lab.as_deref())?],
        };
        let mut first = None;
        for state in &labs {
            match clear::end(state) {
                Ok(()) => match common.form() {
                    Form::Json => output::json(&json!({"lab": state.lab, "removed": true}))?,
                    Form::Text => output::line(&state.lab)?,
                },
                // The others are removed all the same.
                Err(error) => {
                    let what = format!("remove lab {}", state.lab);
                    first.get_or_insert(failure(&what, &error));
                }
            }
        }
        first.map_or(Ok(Ending::Done), Err)
    }
}
