//! `dhow status`: the state of a node.

use clap::Args;
use serde_json::Value;

use super::listing::Show;
use crate::admin::Admin;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};

/// Show the state of a node
#[derive(Args, Debug)]
pub struct Status {}

impl Status {
    /// Prints the status.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let node = Admin::of(common.node.as_ref())?.read("/v1/node")?;
        match common.form() {
            Form::Json => output::json(&node)?,
            Form::Text => output::text(&fields(&node, 0))?,
        }
        Ok(Ending::Done)
    }
}

/// Deepest nesting that is shown; what a node tells has two levels.
const LEVELS: usize = 4;

/// An object as lines `name  value`, nested ones indented below their name.
fn fields(object: &Value, level: usize) -> String {
    let indent = " ".repeat(level * 2);
    let entries: Vec<(&String, &Value)> = object.as_object().into_iter().flatten().collect();
    let width = entries
        .iter()
        .map(|(name, _)| label(name).len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (name, value) in entries {
        let label = label(name);
        if value.is_object() && level < LEVELS {
            text.push_str(&format!("{indent}{label}\n{}", fields(value, level + 1)));
        } else {
            text.push_str(&format!(
                "{indent}{label:width$}  {}\n",
                show_of(name).text(value)
            ));
        }
    }
    text
}

/// A field's name without its unit, in words.
fn label(name: &str) -> String {
    name.strip_suffix("_ms").unwrap_or(name).replace('_', " ")
}

fn show_of(name: &str) -> Show {
    if name.ends_with("octets") {
        Show::Size
    } else if name == "dtn_time_ms" {
        Show::Time
    } else if name.ends_with("_ms") {
        Show::Span
    } else {
        Show::Count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_units_are_made_readable() {
        let node = serde_json::json!({"node_id": "ipn:2.0", "api_tcp": "", "uptime_ms": 61_000, "store": {"bundles": 12_345, "octets": 15_600_000}});
        assert_eq!(
            fields(&node, 0),
            "node id  ipn:2.0\napi tcp  -\nuptime   1 min 1 s\nstore\n  bundles  12,345\n  octets   15.6 MB\n"
        );
    }
}
