//! `dhow sim schema`: the schema of a scenario file, for editors.

use clap::Args;
use dhow_scenario::json_schema;

use crate::failure::{Ending, Failure};
use crate::output;

/// Print the JSON Schema of scenario files, for editors that check TOML
#[derive(Args, Debug)]
pub struct Schema {}

impl Schema {
    /// Prints the schema.
    #[expect(clippy::unused_self, reason = "as all commands")]
    pub fn run(&self) -> Result<Ending, Failure> {
        let schema = serde_json::to_string_pretty(&json_schema())
            .map_err(|error| Failure::refused(format!("cannot write JSON: {error}")))?;
        output::line(&schema)?;
        Ok(Ending::Done)
    }
}
