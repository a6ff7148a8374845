//! A plan: the content of a script, with all times known.

use serde::Deserialize;

/// The result of evaluating a script. Times are seconds of the experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Plan {
    /// The name that the script gives itself.
    pub name: Option<String>,
    /// The end of the experiment.
    pub end_s: f64,
    /// Statements of the script that have no effect here, and the script's own messages.
    pub notes: Vec<Note>,
    /// Properties with their values.
    pub(super) properties: Vec<Property>,
    pub(super) nodes: Vec<PlannedNode>,
    pub(super) links: Vec<PlannedLink>,
    pub(super) runs: Vec<PlannedRun>,
    pub(super) graphs: Vec<Graph>,
}

/// Something that people should know.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Note {
    /// The script's line.
    pub line: Option<u32>,
    /// A sentence.
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Property {
    pub name: String,
    pub value: serde_json::Value,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct PlannedNode {
    pub id: String,
    pub interfaces: Vec<Interface>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Interface {
    pub name: String,
    pub settings: serde_json::Map<String, serde_json::Value>,
}

impl Interface {
    /// A setting as text, however the script wrote it.
    pub fn setting(&self, name: &str) -> Option<String> {
        Some(match self.settings.get(name)? {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }
}

/// A link of a topology.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct PlannedLink {
    pub between: (String, String),
    pub line: Option<u32>,
    pub delay: Option<String>,
    pub loss: Option<String>,
    pub bw: Option<String>,
}

/// A program of a node, or a command.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct PlannedRun {
    pub node: String,
    pub label: String,
    pub words: Option<Vec<String>>,
    pub command: Option<String>,
    pub start_s: f64,
    pub stop_s: Option<f64>,
    pub line: Option<u32>,
    pub told: Vec<InputLine>,
    pub builtin: Option<bool>,
    pub environment: std::collections::BTreeMap<String, serde_json::Value>,
    pub measures: Vec<Measure>,
}

/// A line on a program's standard input, some time after it begins.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct InputLine {
    pub at_s: f64,
    pub text: String,
}

/// A measurement point of a program, with its filters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Measure {
    pub point: String,
    pub samples: Option<serde_json::Value>,
    pub interval: Option<serde_json::Value>,
    pub filters: Vec<Filter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Filter {
    pub field: String,
    pub operation: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Graph {
    pub name: String,
    pub caption: Option<String>,
}
