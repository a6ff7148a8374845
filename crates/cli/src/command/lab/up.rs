//! `dhow lab up`: a scenario's network that stays, and the process that keeps it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use dhow_scenario::plan::Plan;
use dhow_testbed::place::State;
use dhow_testbed::run::{Contacts, Lab, Plot};
use serde_json::{Value, json};

use super::study::{Settings, Study, name_of};
use super::{check, failure};
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};

/// Make a scenario's network with its nodes, which stays until `dhow lab down`
///
/// Nodes run, links are there; contacts follow the scenario from its beginning on, with --contacts. Traffic and programs are left to you: `dhow lab exec` runs commands there. Needs root.
#[derive(Args, Debug)]
pub struct Up {
    /// The scenario
    #[arg(value_name = "FILE")]
    scenario: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// Links come and go as the scenario says; without it all are always there
    #[arg(long)]
    contacts: bool,
    /// The directory for nodes' files, which is made [default: NAME-lab here]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The log of the process that keeps a lab, beside its nodes' files.
const LOG: &str = "keep.log";

/// Keep a scenario's network: what `dhow lab up` leaves behind
#[derive(Args, Debug)]
pub struct Keep {
    #[command(flatten)]
    up: Up,
}

impl Up {
    /// Starts who keeps it, and waits until it is there.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        // Faults of the file are told here.
        self.plan()?;
        let program = std::env::current_exe();
        let failed =
            |error: std::io::Error| Failure::refused(format!("cannot start the lab: {error}"));
        let mut command = Command::new(program.map_err(failed)?);
        command.args(["lab", "keep"]).arg(&self.scenario);
        for setting in &self.settings.settings {
            command.args(["--set", setting]);
        }
        command.args(self.settings.full.then_some("--full"));
        command.args(self.contacts.then_some("--contacts"));
        let out = self.out();
        fs::create_dir_all(&out).map_err(failed)?;
        command.arg("--out").arg(&out);
        // It outlives this command, and readers of this command's output must not wait for it.
        let log = out.join(LOG);
        let said = File::create(&log).map_err(failed)?;
        // A group of its own: what interrupts this command's successors at the terminal is not for it.
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn();
        let mut child = child.map_err(failed)?;
        let mut line = String::new();
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut line).map_err(failed)?;
        }
        let Ok(ready) = serde_json::from_str::<Value>(&line) else {
            child.wait().map_err(failed)?;
            let said = fs::read_to_string(&log).map_err(failed)?;
            output::talk(said.trim_end());
            return Ok(Ending::Incomplete);
        };
        let lab = ready.get("lab").and_then(Value::as_str).unwrap_or_default();
        match common.form() {
            Form::Json => output::json(&ready)?,
            Form::Text => {
                output::line(lab)?;
                output::talk(&format!("it stays until: dhow lab down {lab}"));
            }
        }
        Ok(Ending::Done)
    }

    fn plan(&self) -> Result<Plan, Failure> {
        Study::plan(&self.scenario, &self.settings)
    }

    fn out(&self) -> PathBuf {
        let usual = || PathBuf::from(format!("{}-lab", name_of(&self.scenario)));
        self.out.clone().unwrap_or_else(usual)
    }
}

impl Keep {
    /// Makes it and keeps it until it is told to end.
    pub fn run(&self) -> Result<Ending, Failure> {
        interrupt::allow_longer();
        let plan = self.up.plan()?;
        let Some(first) = plan.runs.iter().min_by_key(|run| run.number) else {
            return Err(Failure::usage("the scenario has no runs"));
        };
        let scenario = plan.scenario(first);
        let mut scenario = scenario.map_err(|error| Failure::usage(error.to_string()))?;
        scenario.notes.iter().for_each(|text| output::note(text));
        if !self.up.contacts {
            // Links without contacts are always there.
            for link in &mut scenario.links {
                link.presence = dhow_scenario::scenario::Presence::Always;
            }
            scenario.contacts.clear();
        }
        // Times of a run are none of a lab that stands: its processors are slow all the time.
        for node in &mut scenario.nodes {
            Arc::make_mut(&mut node.host).cpu_from = Duration::ZERO;
        }
        let out = self.up.out();
        let failed = |error: std::io::Error| {
            Failure::refused(format!("cannot make {}: {error}", out.display()))
        };
        let plot = Plot {
            program: std::env::current_exe().map_err(failed)?,
            directory: out.canonicalize().map_err(failed)?,
            check,
        };
        let goes_on = || !interrupt::is_requested();
        let lab = Lab::build(&scenario, &plot, &goes_on);
        let mut lab = lab.map_err(|error| failure("make the lab", &error))?;
        output::json(&json!({"lab": lab.state().lab, "state": lab.state()}))?;
        if let Some(network) = lab.network() {
            network.begin();
        }
        let begun = std::time::Instant::now();
        let mut contacts = Contacts::new(&scenario.contacts, scenario.stop.at).peekable();
        while goes_on() {
            let now = begun.elapsed();
            while let Some(due) = contacts.next_if(|due| due.at <= now) {
                if let Some(network) = lab.network() {
                    let set = network.set(due.link.0, due.up);
                    set.map_err(|error| failure("follow the contacts", &error))?;
                }
            }
            let next = contacts.peek().map(|due| due.at.saturating_sub(now));
            thread::sleep(next.unwrap_or(interrupt::LOOK).min(interrupt::LOOK));
        }
        lab.end_nodes();
        lab.clear()
            .map_err(|error| failure("remove the lab", &error))?;
        Ok(Ending::Done)
    }
}

/// The lab of a name, or the only one.
pub fn find(lab: Option<&str>) -> Result<State, Failure> {
    if let Some(lab) = lab {
        return State::read(lab).map_err(|error| failure("find the lab", &error));
    }
    let mut all = State::all();
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Err(Failure::refused("there is no lab").with_hint("`dhow lab up` makes one")),
        (Some(_), false) => {
            let error = Failure::usage("there are several labs");
            Err(error.with_hint("`dhow lab inspect` lists them: name one"))
        }
    }
}
