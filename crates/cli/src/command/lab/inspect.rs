//! `dhow lab inspect`: the labs that are there.

use clap::Args;
use dhow_testbed::place::State;
use serde_json::{Value, json};

use super::up;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};
use crate::table::{Align, Table};

/// Show labs, or of one its nodes, links, addresses and processes
#[derive(Args, Debug)]
pub struct Inspect {
    /// The lab [default: all]
    #[arg(value_name = "LAB")]
    lab: Option<String>,
}

impl Inspect {
    /// Shows the labs.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let Some(lab) = &self.lab else {
            return list(common);
        };
        let state = up::find(Some(lab))?;
        match common.form() {
            Form::Json => output::json(&described(&state))?,
            Form::Text => output::text(&text(&state))?,
        }
        Ok(Ending::Done)
    }
}

fn described(state: &State) -> Value {
    let mut value = json!(state);
    if let Value::Object(fields) = &mut value {
        fields.insert("is_kept".to_owned(), json!(state.is_kept()));
    }
    value
}

fn list(common: &Common) -> Result<Ending, Failure> {
    let labs = State::all();
    if common.form() == Form::Json {
        for state in &labs {
            output::json(&described(state))?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new(&[
        ("LAB", Align::Left),
        ("SCENARIO", Align::Left),
        ("NODES", Align::Right),
        ("LINKS", Align::Right),
        ("STATE", Align::Left),
        ("DIRECTORY", Align::Left),
    ]);
    for state in &labs {
        table.push(vec![
            state.lab.clone(),
            state.scenario.clone(),
            state.nodes.len().to_string(),
            state.links.len().to_string(),
            word(state).to_owned(),
            state.directory.display().to_string(),
        ]);
    }
    match table.is_empty() {
        true => output::talk("there is no lab"),
        false => output::text(&table.render(0))?,
    }
    Ok(Ending::Done)
}

/// The state of a lab in a word.
fn word(state: &State) -> &'static str {
    match (state.is_kept(), state.is_up) {
        (true, true) => "up",
        (true, false) => "being made",
        (false, _) => "left behind",
    }
}

fn text(state: &State) -> String {
    let mut nodes = Table::new(&[
        ("NODE", Align::Left),
        ("ID", Align::Left),
        ("PROCESS", Align::Right),
        ("NAMESPACE", Align::Left),
        ("CONTROL", Align::Left),
        ("SOCKET", Align::Left),
    ]);
    for node in &state.nodes {
        let api = node.api.as_ref().map(|api| api.display().to_string());
        nodes.push(vec![
            node.name.clone(),
            node.id.clone().unwrap_or_default(),
            node.process.map_or_else(String::new, |it| it.to_string()),
            node.namespace.clone(),
            node.control.to_string(),
            api.unwrap_or_default(),
        ]);
    }
    let mut links = Table::new(&[
        ("LINK", Align::Left),
        ("BY", Align::Left),
        ("FROM", Align::Left),
        ("TO", Align::Left),
    ]);
    for link in &state.links {
        let end = |(node, interface, address): &(String, String, std::net::Ipv4Addr)| {
            format!("{node} {interface} {address}")
        };
        let [first, second] = link.ends.each_ref().map(end);
        links.push(vec![link.name.clone(), link.by.clone(), first, second]);
    }
    format!(
        "lab {}: {} ({}), files in {}\n\n{}\n{}",
        state.lab,
        state.scenario,
        word(state),
        state.directory.display(),
        nodes.render(0),
        links.render(0)
    )
}
